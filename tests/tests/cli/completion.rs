//! What shells complete, and manual pages.

use std::process::Command;

use coracle_tests::{Home, binary, requires};

/// Asks as the script in bash does, and returns the candidates.
fn completed(home: &Home, words: &[&str]) -> Vec<String> {
    let last = (words.len() - 1).to_string();
    let asked = home.call([&["--"], words].concat()).env("CORACLE_COMPLETE", "bash");
    let asked = asked.env("_CLAP_IFS", "\n").env("_CLAP_COMPLETE_INDEX", last).succeed();
    asked.text().lines().map(str::to_owned).collect()
}

#[test]
fn ids_and_keys_are_completed_wherever_a_sandbox_is_named() {
    requires!(native);
    let home = Home::new();
    let id = home.open_with(&["--key", "fix-the-bug"]);
    home.open_with(&["--key", "not $(a word)"]);
    let ended = home.open_with(&["--key", "gone"]);
    home.call(["close", &ended]).succeed();

    for verb in ["exec", "logs", "close", "rm", "kill", "show", "inspect", "shell", "forward", "stats"] {
        assert_eq!(completed(&home, &["coracle", verb, "fix"]), ["fix-the-bug"], "{verb}");
    }
    assert_eq!(completed(&home, &["coracle", "fs", "read", &id[..id.len() - 1]]), [id.as_str()]);
    assert_eq!(completed(&home, &["coracle", "close", &id, "fix"]), ["fix-the-bug"]);
    let all = completed(&home, &["coracle", "exec", ""]);
    assert!(
        all.contains(&id) && !all.contains(&ended) && !all.iter().any(|word| word.contains('$')),
        "{all:?}"
    );
    assert!(completed(&home, &["coracle", "i"]).contains(&"inspect".to_owned()));
    assert!(completed(&home, &["coracle", "run", "--mem"]).contains(&"--memory".to_owned()));
}

#[test]
fn completing_makes_no_home() {
    let home = Home::new();

    assert_eq!(completed(&home, &["coracle", "exec", "sbx_"]), [""; 0]);

    assert_eq!(home.path().read_dir().expect("a directory").count(), 0);
}

#[test]
fn only_a_shell_is_answered() {
    let home = Home::new();

    let version = home.call(["version"]).env("CORACLE_COMPLETE", "foo").succeed();

    assert!(!version.text().is_empty());
}

#[test]
fn bash_completes_by_the_script_it_is_given() {
    requires!(native);
    let home = Home::new();
    home.open_with(&["--key", "fix-the-bug"]);
    let directory = binary::path().parent().expect("it is in a directory").display().to_string();
    let script = format!(
        "PATH={directory}:$PATH; source <(coracle completions bash); \
         COMP_WORDS=(coracle exec fix); COMP_CWORD=2; COMP_TYPE=9; _clap_complete_coracle coracle fix exec; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );

    let asked = Command::new("bash").args(["-c", &script]).env("CORACLE_HOME", home.path()).output();

    let asked = asked.expect("bash can be started");
    assert_eq!(String::from_utf8_lossy(&asked.stdout), "fix-the-bug\n", "{asked:?}");
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        assert!(home.call(["completions", shell]).succeed().text().contains("CORACLE_COMPLETE"), "{shell}");
    }
}

#[test]
fn there_is_a_manual_page_for_every_verb() {
    let home = Home::new();
    let place = tempfile::tempdir().expect("a directory");
    let pages = place.path().join("man/man1");

    home.call(["man", pages.to_str().expect("UTF-8")]).succeed();

    for name in ["coracle", "coracle-run", "coracle-exec", "coracle-fs-read", "coracle-image-pull"] {
        let page = std::fs::read_to_string(pages.join(format!("{name}.1")));
        let page = page.unwrap_or_else(|error| panic!("no page for {name}: {error}"));
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{page}");
    }
    let run = std::fs::read_to_string(pages.join("coracle-run.1")).expect("a page");
    assert!(run.contains("\\-\\-memory") && run.contains("LOCAL"), "{run}");
    assert!(!pages.join("coracle-keeper.1").exists(), "what people do not type has no page");
    home.call(["man", "/proc/nowhere"]).run().expect_code(125);
}
