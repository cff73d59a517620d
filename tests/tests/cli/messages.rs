//! Error messages: they name the flags a person typed, and no Rust types.

use coracle_tests::{Home, requires};

/// Words of Rust, serde and JSON that say nothing to a person at a command line.
const FOREIGN: &[&str] = &[
    "u64",
    "usize",
    "i64",
    "f64",
    "struct ",
    "variant",
    "sequence",
    "a map",
    "floating point",
    "integer `",
    "memory_mb",
    "cpu_millicores",
    "workspace_mb",
    "output_bytes",
    "timeout_seconds",
    "grace_ms",
    "session_key",
    "mounts.",
    "limits.",
    "invalid digit",
    "EOF",
    "0ns",
    "Some(",
    "None",
];

#[track_caller]
fn expect(home: &Home, line: &[&str], message: &str) {
    let said = home.call(line).run().expect_code(125);
    assert!(said.stderr.starts_with(&format!("error: {message}")), "{said}");
    let foreign = FOREIGN.iter().find(|word| said.stderr.contains(**word));
    assert_eq!(foreign, None, "{said}");
    let told = home.call([line[0], "--json"].iter().chain(&line[1..])).run().error();
    assert!(told["message"].as_str().is_some_and(|told| told.starts_with(message)), "{told}");
}

#[test]
fn a_mistake_is_named_by_the_flag_that_was_typed() {
    requires!(native);
    let home = Home::new();
    home.open_with(&["--key", "web"]);

    for (line, message) in [
        (&["run", "--memory", "1m", "true"][..], "`--memory` is 1.0 MiB, outside 4.0 MiB to "),
        (&["run", "-m", "much", "true"], "`--memory`: `much` is not a size"),
        (&["open", "--cpus", "0"], "`--cpus` is 0, outside 0.01 to "),
        (&["run", "--cpus", "x", "true"], "`--cpus`: `x` is not a number of CPUs"),
        (&["run", "--pids", "0", "true"], "`--pids` is 0, outside 1 to "),
        (&["run", "--pids", "many", "true"], "`--pids`: `many` is not a whole number"),
        (&["run", "--inodes", "0", "true"], "`--inodes` is 0, outside "),
        (&["run", "--output", "1t", "true"], "`--output` is 1.0 TiB, outside 1.0 KiB to "),
        (&["run", "--ttl", "900d", "true"], "`--ttl` is 900d, outside 1s to "),
        (&["run", "--grace", "900d", "true"], "`--grace` is more than 10m"),
        (&["run", "--network", "some", "true"], "`--network` is `some` and not `none`, `open` or "),
        (&["run", "--require", "nothing", "true"], "there is no wall `nothing`"),
        (&["run", "--image", "A B", "true"], "`--image` is `A B`: "),
        (&["run", "--workdir", "here", "true"], "`--workdir` must be an absolute path"),
        (&["run", "--user", "", "true"], "`--user` must be "),
        (&["run", "--mount", "a:here", "true"], "`--mount`: TARGET must be an absolute path"),
        (&["run", "--mount", "a", "true"], "`--mount` must be `SOURCE:TARGET`"),
        (&["run", "--label", "x", "true"], "`--label`: what is written is not `NAME=VALUE`"),
        (&["run", "--secret", "x", "true"], "`--secret` must be "),
        (&["run"], "`CMD` is missing"),
        (&["open", "--key", ""], "`--key` must be "),
        (&["exec", "web", "--id", "a b", "true"], "`--id` must be "),
        (&["network", "web", "some"], "`NETWORK` is `some`"),
        (&["forward", "web", "http"], "`[LOCAL:]PORT`: `http` is not a port"),
        (&["fork", "web", "--count", "0"], "`--count` is 1 to 100"),
        (&["pull", "A B"], "`IMAGE` is `A B`: "),
        (&["events", "--since-seq", "x"], "`--since-seq`: `x` is not a whole number"),
        (&["serve", "--listen", "x"], "`--listen`: `x` is not an address and a port"),
        (&["show", "nothing"], "there is no sandbox `nothing`"),
    ] {
        expect(&home, line, message);
    }
    let bare = home.call([""; 0]).run().expect_code(125);
    assert!(bare.stderr.starts_with("Run code in sandboxes"), "{bare}");
}

/// Returns the hint of an error.
fn advice(home: &Home, line: &[&str]) -> String {
    let said = home.call(line).run();
    let foreign = FOREIGN.iter().find(|word| said.stderr.contains(**word));
    assert_eq!(foreign, None, "{said}");
    let hint = said.stderr.split_once("hint: ").unwrap_or_else(|| panic!("no hint: {said}"));
    hint.1.trim_end().to_owned()
}

#[test]
fn advice_names_flags_and_fits_what_was_tried() {
    requires!(native);
    let home = Home::new();
    home.open_with(&["--key", "web"]);
    home.exec("web", ["mkdir", "d"]).succeed();
    home.call(["exec", "web", "-d", "sleep", "1000"]).succeed();

    for (line, expected) in [
        (
            &["exec", "web", "--timeout", "0", "true"][..],
            "write `--timeout none` for a command without a deadline",
        ),
        (
            &["transfer", "web", "--to", "run_x"],
            "decide what becomes of them: `--running keep` or `--running kill`",
        ),
        (&["run", "--require", "nothing", "true"], "there are "),
        (&["run", "--network", "example.com", "true"], "did you mean `allow=example.com`?"),
        (
            &["run", "--network", "https://example.com/a,b.test:22", "true"],
            "did you mean `allow=example.com,b.test:22`?",
        ),
        (
            &["run", "--network", "host", "true"],
            "a sandbox never has the machine's own network; `open` reaches",
        ),
        (
            &["run", "--network", "allow=https://example.com", "true"],
            "write the host alone: `allow=example.com`",
        ),
        (&["run", "--network", "allow=10.0.0.1/8", "true"], "write `allow=HOST[:PORT]"),
        (&["fs", "delete", "web", "d"], "it is a directory: write `--recursive` to delete it"),
        (&["fs", "read", "web", "d"], "it is a directory: list it, or name a file in it"),
        (
            &["exec", "web", "ls -l"],
            "`ls -l` is one word and is taken for the name of a program: leave out the quotes",
        ),
        (
            &["run", "ls -l"],
            "`ls -l` is one word and is taken for the name of a program: leave out the quotes",
        ),
        (
            &["open", "--ttl", "7d"],
            "ask for less; the operator sets the maximum, in `[limits]` of `config.toml`",
        ),
        (
            &["open", "--memory", "99g"],
            "ask for less; the operator sets the maximum, in `[limits]` of `config.toml`",
        ),
    ] {
        let hint = advice(&home, line);
        assert!(hint.starts_with(expected), "{line:?}: {hint}");
    }
}

#[test]
fn what_differs_is_named_by_the_flags_that_were_typed() {
    requires!(native);
    let home = Home::new();
    let directory = tempfile::tempdir().expect("a directory can be made");
    let mount = format!("{}:/src:ro", directory.path().display());
    home.open_with(&["--key", "web", "--memory", "1g"]);

    let said =
        home.call(["open", "--key", "web", "-m", "512m", "-v", &mount, "-e", "A=b"]).run().expect_code(125);

    for expected in [
        "`--memory` is `1.0 GiB`, not `512.0 MiB`",
        "`--env A` is another",
        &format!("it was opened without `--mount {mount}`"),
    ] {
        assert!(said.stderr.contains(expected), "{said}");
    }
    assert!(
        said.stderr.contains("hint: leave these flags out") && said.stderr.contains("`--replace`"),
        "{said}"
    );
    let foreign = FOREIGN.iter().find(|word| said.stderr.contains(**word));
    assert_eq!(foreign, None, "{said}");
    let input = serde_json::json!({"session_key": "web", "limits": {"memory_mb": 512}});
    let error = home.operation("sandbox_open", &input).run().error();
    assert!(error["message"].as_str().is_some_and(|told| told.contains("`limits.memory_mb`")), "{error}");
}

#[test]
fn operations_say_which_field_is_wrong_in_plain_words() {
    let home = Home::new();

    for (operation, input, field, message) in [
        (
            "sandbox_open",
            r#"{"limits": {"memory_mb": "x"}}"#,
            "limits.memory_mb",
            "`limits.memory_mb` is the text \"x\" and not a whole number",
        ),
        ("sandbox_open", r#"{"env": {"A": 1}}"#, "env.A", "`env.A` is the number 1 and not a text"),
        ("sandbox_open", r#"{"mounts": {}}"#, "mounts", "`mounts` is an object and not a list"),
        (
            "sandbox_run",
            r#"{"privileges": "root"}"#,
            "privileges",
            "`privileges` is `root` and not one of `minimal`",
        ),
        (
            "sandbox_exec",
            r#"{"sandbox_id": "a", "cmd": "ls"}"#,
            "cmd",
            "`cmd` is the text \"ls\" and not a list",
        ),
        ("sandbox_exec", "{}", "sandbox_id", "the field `sandbox_id` is missing"),
        ("sandbox_exec", r#"{"comand": []}"#, "comand", "there is no field `comand`; there are "),
        (
            "sandbox_fork",
            r#"{"sandbox_id": "a", "count": -1}"#,
            "count",
            "`count` is the number -1 and not a whole",
        ),
    ] {
        let error = home.call(["call", operation, input]).run().error();
        assert_eq!(error["details"]["field"], field, "{error}");
        assert!(error["message"].as_str().is_some_and(|told| told.contains(message)), "{error}");
    }
    let error = home.call(["call", "sandbox_open", "{"]).run().error();
    assert!(error["message"].as_str().is_some_and(|told| told.contains("ends in the middle")), "{error}");
}

#[test]
fn settings_say_in_which_line_what_is_wrong() {
    let home = Home::new();
    let settings = home.path().join("config.toml");

    for (text, message) in [
        (
            "\n[limits]\nmemory_mb = \"x\"\n",
            "in line 3, `memory_mb = \"x\"`: this is the text \"x\" and not a table",
        ),
        ("[images]\nallow = 5\n", "in line 2, `allow = 5`: this is the number 5 and not a list"),
        ("[imagse]\n", "in line 1, `[imagse]`: there is no field `imagse`; there are "),
        ("grace = \"soon\"\n", "in line 1, `grace = \"soon\"`: `soon` is not a duration"),
    ] {
        std::fs::write(&settings, text).expect("the home is ours");
        let said = home.call(["config"]).run().expect_code(125);
        assert!(said.stderr.contains(message), "{said}");
        assert_eq!(
            FOREIGN.iter().find(|word| said.stderr.replace("memory_mb", "").contains(**word)),
            None,
            "{said}"
        );
    }
    std::fs::remove_file(&settings).expect("it is there");
}

#[test]
fn numbers_agree_with_their_nouns() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--key", "web"]);
    let transfer = || home.call(["transfer", "web", "--to", "run_x", "--json"]).run().error();

    home.call(["exec", "web", "-d", "sleep", "1000"]).succeed();
    let one = transfer();
    home.call(["exec", "web", "-d", "sleep", "1000"]).succeed();
    let two = transfer();
    let purged = home.call(["purge", "--yes"]).succeed();

    assert_eq!(one["message"], format!("1 exec is running in sandbox `{sandbox}`"));
    assert_eq!(two["message"], format!("2 execs are running in sandbox `{sandbox}`"));
    assert!(purged.text().starts_with("removed 1 sandbox, 0 volumes and the home `"), "{purged}");
}
