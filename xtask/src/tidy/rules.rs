//! The rules of the house that no lint knows. Each looks at one file and returns its complaints.

use super::source::Source;

/// A file is one sitting; past this many lines, unit tests not counted, a second subject is hiding in it.
const LINES_MAX: usize = 600;

/// Module names that say nothing.
const EMPTY_NAMES: &[&str] =
    &["util", "utils", "common", "helper", "helpers", "misc", "types", "manager", "imp"];

/// The pure crates: no environment, no home directory.
const PURE: &[&str] = &[
    "crates/wire/src/",
    "crates/core/src/",
    "crates/workflow/src/",
    "crates/egress/src/",
    "crates/engine/src/",
];

/// Where git may be called. Never against files an agent could have written.
const GIT_CALLERS: &[&str] = &[
    "crates/git/",
    "crates/porter/tests/",
    "tests/src/git.rs",
    "tests/src/binary.rs",
    "xtask/src/against.rs",
];

/// Directories of development machines, as the first part of an absolute path.
const DEVELOPMENT: &[&str] = &["work", "farm", "root"];

/// Returns what is wrong with a file.
pub fn check(source: &Source) -> Vec<String> {
    let mut complaints = development_paths(source);
    if source.is_rust() {
        complaints.extend([header(source), length(source), name(source)].into_iter().flatten());
        complaints.extend(source.code().filter_map(|(number, line)| {
            let what = code_line(source, &line)?;
            Some(format!("{}:{number}: {what}", source.path))
        }));
        complaints.extend(git(source));
    }
    complaints
}

fn header(source: &Source) -> Option<String> {
    let opens_well = source.text.starts_with("//! ");
    (!opens_well).then(|| format!("{}:1: the file does not open with `//!` and what it is for", source.path))
}

fn length(source: &Source) -> Option<String> {
    let lines = source.code().count();
    (lines > LINES_MAX)
        .then(|| format!("{}: {lines} lines without tests, more than {LINES_MAX}", source.path))
}

fn name(source: &Source) -> Option<String> {
    if source.path.ends_with("/mod.rs") {
        return Some(format!("{}: a module is `name.rs` beside its directory", source.path));
    }
    let parts = source.path.trim_end_matches(".rs").split('/');
    let empty = parts.into_iter().find(|part| EMPTY_NAMES.contains(part))?;
    Some(format!("{}: `{empty}` says nothing; which noun is missing?", source.path))
}

fn code_line(source: &Source, line: &str) -> Option<&'static str> {
    let pure = PURE.iter().any(|crate_path| source.path.starts_with(crate_path));
    if has_word(line, "unsafe") && !source.path.starts_with("crates/sys/") {
        Some("`unsafe` outside `crates/sys`")
    } else if ["todo!", "unimplemented!", "dbg!"].iter().any(|unfinished| line.contains(unfinished)) {
        Some("unfinished code")
    } else if line.contains("#[ignore") {
        Some("a test that is not run; say what it needs with `requires!`")
    } else if pure && ["env::var", "env::home_dir", "env::temp_dir"].iter().any(|reach| line.contains(reach))
    {
        Some("a pure crate reads the environment; settings come from `config.rs`")
    } else {
        None
    }
}

fn git(source: &Source) -> Option<String> {
    let calls = source.text.contains(concat!("Command::new(\"", "git\")"));
    let allowed = GIT_CALLERS.iter().any(|place| source.path.starts_with(place));
    (calls && !allowed)
        .then(|| format!("{}: calls git on the host; docs/threat-model.md, rule 3", source.path))
}

fn development_paths(source: &Source) -> Vec<String> {
    let complaint =
        |number: usize| format!("{}:{}: a path of a development machine", source.path, number + 1);
    let lines = source.text.lines().enumerate();
    lines.filter(|(_, line)| names_development_path(line)).map(|(number, _)| complaint(number)).collect()
}

fn names_development_path(line: &str) -> bool {
    DEVELOPMENT.iter().any(|directory| {
        let path = format!("/{directory}/");
        line.match_indices(&path).any(|(start, _)| {
            let before = line[..start].chars().next_back();
            before
                .is_none_or(|character| !character.is_alphanumeric() && !matches!(character, '_' | '.' | '}'))
        })
    })
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        check(&Source { path: path.into(), text: text.into() })
    }

    #[test]
    fn a_decent_file_is_left_alone() {
        assert!(complaints("crates/core/src/lease.rs", "//! Leases.\n\nfn lend() {}\n").is_empty());
    }

    #[test]
    fn each_rule_complains_once() {
        let bad = [
            ("a.rs", "fn f() {}\n".to_owned()),
            ("util.rs", "//! A.\n".to_owned()),
            ("a/mod.rs", "//! A.\n".to_owned()),
            ("a.rs", format!("//! A.\n{}", "\n".repeat(LINES_MAX))),
            ("a.rs", ["//! A.\nun", "safe { f() }\n"].concat()),
            ("a.rs", ["//! A.\nto", "do!();\n"].concat()),
            ("a.rs", ["//! A.\n#[ig", "nore]\n"].concat()),
            ("a.rs", ["//! A.\nCommand::new(\"", "git\");\n"].concat()),
            ("crates/core/src/a.rs", "//! A.\nlet v = std::env::var(NAME);\n".to_owned()),
            ("README.md", ["see /wo", "rk/main\n"].concat()),
        ];

        for (path, text) in bad {
            assert_eq!(complaints(path, &text).len(), 1, "{path}: {text}");
        }
    }

    #[test]
    fn a_workspace_is_not_a_development_path() {
        assert!(!names_development_path("/workspace/a, https://host/root.git, a/root/b"));
    }
}
