//! The commands of a page and what it says they print.
//!
//! A command stands behind `$ `, in an indented block or one marked `console`; a line that ends in `\` goes on in the
//! next. The lines below it are its output, in which `…` stands for anything. Its comment may say how it ends (`exit 3`)
//! and that it needs root (`as root`).

use std::path::Path;

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The number of its line in the page.
    pub line: usize,
    pub command: String,
    /// What it prints; anything, if empty.
    pub output: Vec<String>,
}

/// Returns the commands of a page of this repository, in order.
pub fn read(name: &str) -> Vec<Step> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    steps(&text)
}

/// Returns the settings a page shows, each block by itself.
pub fn settings(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let blocks = text.split("\n```toml\n").skip(1);
    blocks.filter_map(|rest| rest.split_once("\n```")).map(|(block, _)| block.to_owned()).collect()
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut fenced = false;
    // Whether the last line was a command that goes on, or output of one.
    let (mut goes_on, mut in_block) = (false, false);
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            fenced = line == "```console";
            in_block = false;
            continue;
        }
        let inside = if fenced { Some(line) } else { line.strip_prefix("    ") };
        let Some(inside) = inside else {
            in_block = false;
            continue;
        };
        match (inside.strip_prefix("$ "), steps.last_mut()) {
            (_, Some(step)) if goes_on => {
                step.command.push('\n');
                step.command.push_str(inside);
                goes_on = inside.ends_with('\\');
            }
            (Some(command), _) => {
                goes_on = command.ends_with('\\');
                in_block = true;
                steps.push(Step { line: index + 1, command: command.to_owned(), output: Vec::new() });
            }
            (None, Some(step)) if in_block => step.output.push(inside.to_owned()),
            (None, _) => {}
        }
    }
    steps
}

impl Step {
    /// Returns how it is to end.
    pub fn exit(&self) -> i32 {
        let code = self
            .comment()
            .and_then(|comment| comment.split_once("exit "))
            .map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
        code.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }

    /// Tells whether an ordinary user cannot do it.
    pub fn needs_root(&self) -> bool {
        self.comment().is_some_and(|comment| comment.contains("as root"))
    }

    /// Returns the program without its comment if it goes on in the background.
    pub fn in_background(&self) -> Option<&str> {
        let (program, _) = self.command.split_once("   #").unwrap_or((&self.command, ""));
        program.trim_end().strip_suffix('&')
    }

    fn comment(&self) -> Option<&str> {
        self.command.rsplit_once(" # ").map(|(_, comment)| comment)
    }

    /// Tells whether what was printed is what the page says.
    pub fn admits(&self, printed: &str) -> bool {
        // What a machine lacks is said once, by the first command that notices; a page need not repeat it.
        let silent = |line: &String| {
            !self.output.iter().any(|shown| shown.starts_with("note: ")) && line.starts_with("note: ")
        };
        let printed = printed.lines().map(squeezed).filter(|line| !line.is_empty());
        let printed: Vec<String> = printed.filter(|line| !silent(line)).collect();
        let expected: Vec<String> = self.output.iter().map(|line| squeezed(line)).collect();
        self.output.is_empty() || all_admitted(&expected, &printed)
    }
}

/// The widths of a table's columns vary with ids and times.
fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn all_admitted(expected: &[String], printed: &[String]) -> bool {
    match (expected.split_first(), printed.split_first()) {
        (None, None) => true,
        (None, Some(_)) => false,
        (Some((first, rest)), _) if first == "…" => {
            (0..=printed.len()).any(|skipped| all_admitted(rest, &printed[skipped..]))
        }
        (Some((first, rest)), Some((line, lines))) => is_admitted(first, line) && all_admitted(rest, lines),
        (Some(_), None) => false,
    }
}

fn is_admitted(expected: &str, line: &str) -> bool {
    match expected.split_once('…') {
        None => expected == line,
        Some((before, after)) => line.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices()
                .map(|(at, _)| at)
                .chain([rest.len()])
                .any(|at| is_admitted(after, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# T\n\n    $ a --b \\\n          c   # exit 3\n    out …\n    …\n\n    int main();\n\n```console\n$ d &   # as root\n```\n";

    #[test]
    fn commands_are_found_with_their_output() {
        let steps = steps(PAGE);

        assert_eq!(steps.len(), 2);
        assert_eq!((steps[0].line, steps[0].exit()), (3, 3));
        assert_eq!(steps[0].command, "a --b \\\n      c   # exit 3");
        assert_eq!(steps[0].output, ["out …", "…"]);
        assert!(steps[1].needs_root() && !steps[0].needs_root());
        assert_eq!(steps[1].in_background(), Some("d "));
    }

    #[test]
    fn dots_stand_for_anything_and_nothing_else_does() {
        let step = |output: &[&str]| Step {
            line: 1,
            command: String::new(),
            output: output.iter().map(|line| (*line).to_owned()).collect(),
        };

        assert!(step(&[]).admits("anything"));
        assert!(step(&["sbx_…", "ready  …  4"]).admits("sbx_01\nready   1 2   4\n"));
        assert!(step(&["first", "…", "last"]).admits("first\nlast\n"));
        assert!(step(&["first", "…", "last"]).admits("first\n1\n2\nlast\n"));
        assert!(!step(&["first"]).admits("first\nsecond\n"));
        assert!(!step(&["first", "second"]).admits("first\n"));
        assert!(!step(&["sbx_… ready"]).admits("sbx_01 lost\n"));
        assert!(step(&["first"]).admits("note: something is not enforced\nfirst\n"));
        assert!(!step(&["note: one thing", "first"]).admits("note: another\nfirst\n"));
    }
}
