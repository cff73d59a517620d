//! What the `host` image contains of this machine, what it lacks, and how to add that.

use std::fmt::Write;
use std::path::Path;

use serde::Serialize;

/// A description of the image.
#[derive(Debug, Serialize)]
pub struct HostImage {
    has: &'static str,
    python: &'static str,
    lacks: &'static str,
    /// The person's tools outside the image, and the flags of `run` and `open` that mount them.
    bring: Vec<Bring>,
}

#[derive(Debug, Serialize)]
struct Bring {
    tool: &'static str,
    flags: String,
}

/// A tool in a home directory: its directories there, and which of them holds the programs. Never all of `.cargo`: it
/// contains tokens of registries.
struct Tool {
    name: &'static str,
    directories: &'static [&'static str],
    programs: &'static str,
}

const TOOLS: [Tool; 2] = [
    Tool { name: "rustup", directories: &[".rustup", ".cargo/bin"], programs: ".cargo/bin" },
    Tool { name: "pyenv", directories: &[".pyenv"], programs: ".pyenv/shims" },
];

impl HostImage {
    /// Describes the image to a person with this home directory.
    pub fn seen_from(home: Option<&Path>) -> Self {
        let is_there =
            |home: &Path, tool: &Tool| tool.directories.iter().all(|name| home.join(name).is_dir());
        let tools = home.into_iter().flat_map(|home| TOOLS.iter().filter(move |tool| is_there(home, tool)));
        Self {
            has: "the machine's /usr, read-only, and of /etc what programs need to run",
            python: "is `python3` where the machine has no other",
            lacks: "home directories (so no rustup, pyenv, nvm or keys), /opt, /srv, /var, databases of packages",
            bring: tools.map(Tool::bring).collect(),
        }
    }

    /// Returns the text that `doctor` prints.
    pub fn text(&self) -> String {
        let mut text = "host image: the machine's own programs\n".to_owned();
        for (word, name, what) in
            [("yes", "programs", self.has), ("yes", "python", self.python), ("NO ", "homes", self.lacks)]
        {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {word}  {name:8}  {what}");
        }
        for Bring { tool, flags } in &self.bring {
            let _ = writeln!(text, "       {:8}  hint: bring {tool} with `{flags}`", "");
        }
        text
    }
}

impl Tool {
    /// Returns the flags that mount it at its own path: its files contain that path.
    fn bring(&self) -> Bring {
        let mounts = self.directories.iter().map(|name| format!("--mount ~/{name}:$HOME/{name}:ro"));
        let mounts: Vec<_> = mounts.collect();
        let programs = self.programs;
        let flags = format!("{} -e HOME=$HOME -e PATH=$HOME/{programs}:/usr/bin:/bin", mounts.join(" "));
        Bring { tool: self.name, flags }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tools_that_are_there_are_offered() {
        let home = tempfile::tempdir().expect("a directory");
        let offered = || HostImage::seen_from(Some(home.path())).text();
        assert!(!offered().contains("hint"), "{}", offered());

        std::fs::create_dir_all(home.path().join(".pyenv")).expect("it is ours");

        assert!(offered().contains(
            "bring pyenv with `--mount ~/.pyenv:$HOME/.pyenv:ro -e HOME=$HOME -e PATH=$HOME/.pyenv/shims:/usr/bin:/bin`"
        ));
        assert!(!offered().contains("bring rustup"));
    }
}
