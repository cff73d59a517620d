//! What `.dockerignore` leaves out. The last line that matches a path or a directory above it decides.

use std::io;

use super::glob::Glob;

/// Each pattern is compared with every path of the context.
const PATTERNS_MAX: usize = 4096;

/// The lines of one file.
#[derive(Debug, Default)]
pub struct Ignored {
    patterns: Vec<Pattern>,
    /// Paths that are sent in any case: the builder reads them itself and leaves them out afterwards.
    kept: Vec<String>,
}

#[derive(Debug)]
struct Pattern {
    parts: Vec<Part>,
    verdict: Verdict,
}

#[derive(Debug)]
enum Part {
    /// `**`: any number of directories, none included.
    Directories,
    Word(Glob),
}

/// What happens to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Sent,
    LeftOut,
    /// A directory that is left out, unless something in it is included again.
    PerhapsBelow,
}

impl Ignored {
    pub fn parse(text: &str) -> io::Result<Self> {
        let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let patterns =
            lines.filter_map(|line| Pattern::parse(line).transpose()).collect::<io::Result<Vec<_>>>()?;
        match patterns.len() <= PATTERNS_MAX {
            true => Ok(Self { patterns, kept: Vec::new() }),
            false => Err(io::Error::other(format!("`.dockerignore` has more than {PATTERNS_MAX} lines"))),
        }
    }

    /// Has these paths sent in any case.
    pub fn keeping(mut self, paths: &[&str]) -> Self {
        self.kept = paths.iter().map(ToString::to_string).collect();
        self
    }

    /// Decides about a path, given as the words between its slashes.
    pub fn verdict(&self, path: &[Vec<char>]) -> Verdict {
        let last = self.patterns.iter().rev().find(|pattern| pattern.covers(path));
        let verdict = last.map_or(Verdict::Sent, |pattern| pattern.verdict);
        let whole = || path.iter().map(|word| word.iter().collect::<String>()).collect::<Vec<_>>().join("/");
        if verdict == Verdict::Sent || self.patterns.is_empty() {
            return Verdict::Sent;
        }
        let whole = whole();
        let leads_to = |kept: &String| kept.strip_prefix(&whole).is_some_and(|rest| rest.starts_with('/'));
        if self.kept.contains(&whole) {
            return Verdict::Sent;
        }
        let exceptions = self.patterns.iter().any(|pattern| pattern.verdict == Verdict::Sent);
        match exceptions || self.kept.iter().any(leads_to) {
            true => Verdict::PerhapsBelow,
            false => Verdict::LeftOut,
        }
    }
}

impl Pattern {
    /// Reads one line; `None` if it can match no path.
    fn parse(line: &str) -> io::Result<Option<Self>> {
        let (verdict, pattern) = match line.strip_prefix('!') {
            Some(rest) => (Verdict::Sent, rest.trim_start()),
            None => (Verdict::LeftOut, line),
        };
        let mut parts = Vec::new();
        for word in pattern.split('/').filter(|word| !word.is_empty() && *word != ".") {
            match word {
                ".." if parts.pop().is_none() => return Ok(None),
                ".." => {}
                "**" => parts.push(Part::Directories),
                word => parts.push(Part::Word(Glob::parse(word).ok_or_else(|| {
                    io::Error::other(format!("`.dockerignore` has the pattern `{}`", line.escape_debug()))
                })?)),
            }
        }
        Ok((!parts.is_empty()).then_some(Self { parts, verdict }))
    }

    /// Tells whether it matches this path or a directory above it.
    fn covers(&self, path: &[Vec<char>]) -> bool {
        // Which prefixes of the path the parts so far match, by their length.
        let mut reached = vec![false; path.len() + 1];
        reached[0] = true;
        for part in &self.parts {
            match part {
                Part::Directories => {
                    let first = reached.iter().position(|reached| *reached).unwrap_or(path.len() + 1);
                    reached.iter_mut().skip(first).for_each(|reached| *reached = true);
                }
                Part::Word(glob) => {
                    for length in (1..=path.len()).rev() {
                        reached[length] = reached[length - 1] && glob.matches(&path[length - 1]);
                    }
                    reached[0] = false;
                }
            }
        }
        reached[1..].contains(&true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(lines: &str, path: &str) -> Verdict {
        let ignored = Ignored::parse(lines).expect("valid lines").keeping(&["Dockerfile", "docker/File"]);
        ignored.verdict(&path.split('/').map(|word| word.chars().collect()).collect::<Vec<_>>())
    }

    #[test]
    fn a_line_leaves_out_a_path_and_all_below() {
        for (line, path) in [
            ("secret", "secret"),
            ("/secret", "secret/deep/file"),
            ("./a/../secret/", "secret"),
            ("*.log", "x.log"),
            ("*/*.log", "a/x.log"),
            ("**/*.log", "x.log"),
            ("**/*.log", "a/b/x.log"),
            ("a/**", "a/b"),
            ("a/**/z", "a/z"),
            ("a/**/z", "a/b/c/z/y"),
            ("*", "anything"),
        ] {
            assert_eq!(verdict(line, path), Verdict::LeftOut, "{line} {path}");
        }
    }

    #[test]
    fn what_no_line_is_about_is_sent() {
        let cases = [
            ("*.log", "a/x.log"),
            ("secret", "secrets"),
            ("a/b", "a"),
            ("# a", "# a"),
            ("../a", "a"),
            ("", "a"),
        ];
        for (line, path) in cases {
            assert_eq!(verdict(line, path), Verdict::Sent, "{line} {path}");
        }
    }

    #[test]
    fn the_last_line_decides() {
        let lines = "*\n!src\nsrc/*.key\n!src/public.key";

        assert_eq!(verdict(lines, "src"), Verdict::Sent);
        assert_eq!(verdict(lines, "src/main.c"), Verdict::Sent);
        assert_eq!(verdict(lines, "src/private.key"), Verdict::PerhapsBelow);
        assert_eq!(verdict(lines, "src/public.key"), Verdict::Sent);
        assert_eq!(verdict(lines, "other"), Verdict::PerhapsBelow);
    }

    #[test]
    fn what_the_builder_reads_itself_is_sent_anyway() {
        assert_eq!(verdict("*", "Dockerfile"), Verdict::Sent);
        assert_eq!(verdict("*", "docker"), Verdict::PerhapsBelow);
        assert_eq!(verdict("*", "docker/File"), Verdict::Sent);
    }

    #[test]
    fn a_pattern_that_is_none_is_refused() {
        assert!(Ignored::parse("[a").is_err());
        assert!(Ignored::parse(&"x\n".repeat(PATTERNS_MAX + 1)).is_err());
    }
}
