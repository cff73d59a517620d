//! The files that tidy checks, with strings and comments separated from code.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Directories without source files of the project.
const SKIPPED: &[&str] = &["target", ".git", "results", "corpus", "artifacts", "node_modules"];

/// One file of text.
pub struct Source {
    /// Relative to the root, with `/` between its parts.
    pub path: String,
    pub text: String,
}

impl Source {
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns the lines in front of the unit tests, numbered from 1, as code only.
    pub fn code(&self) -> impl Iterator<Item = (usize, String)> {
        self.text
            .lines()
            .take_while(|line| line.trim() != "#[cfg(test)]")
            .map(strip)
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }
}

/// Returns every text file of the workspace.
pub fn all(root: &Path) -> Result<Vec<Source>> {
    let mut pending = vec![root.to_owned()];
    let mut sources = Vec::new();
    while let Some(directory) = pending.pop() {
        for path in list(&directory)? {
            if path.is_symlink() {
                continue;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !SKIPPED.contains(&name.as_str()) {
                pending.push(path);
            } else if path.is_file() && !name.ends_with(".lock") {
                sources.extend(read(root, &path));
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

fn list(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(directory).with_context(|| format!("could not list `{}`", directory.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// Returns nothing for a file that is not text.
fn read(root: &Path, path: &Path) -> Option<Source> {
    let text = std::fs::read_to_string(path).ok()?;
    let path = path.strip_prefix(root).ok()?.to_str()?.to_owned();
    Some(Source { path, text })
}

/// Returns the line without what stands in string literals and after `//`.
///
/// A string that goes over several lines is not seen as one; such text is rare and can be split.
fn strip(line: &str) -> String {
    let mut code = String::new();
    let mut characters = line.chars().peekable();
    let mut in_string = false;
    while let Some(character) = characters.next() {
        match (in_string, character) {
            (true, '\\') => drop(characters.next()),
            (_, '"') => in_string = !in_string,
            (true, _) => {}
            (false, '\'') if characters.peek() == Some(&'"') => drop(characters.next()),
            (false, '/') if characters.peek() == Some(&'/') => break,
            (false, other) => code.push(other),
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_not_code() {
        assert_eq!(strip(r#"let a = "un\"safe"; // unsafe"#), "let a = ; ");
        assert_eq!(strip("b'\"' + 1"), "b' + 1");
    }

    #[test]
    fn code_ends_where_the_unit_tests_begin() {
        let source = Source { path: "a.rs".into(), text: "one\n#[cfg(test)]\nmod tests {}\n".into() };

        let lines: Vec<_> = source.code().collect();

        assert_eq!(lines, [(1, "one".to_owned())]);
    }
}
