//! `--workspace DIR[:ACCESS]` and `--mount SOURCE:TARGET[:ACCESS]`.

use std::io;
use std::str::FromStr;

use coracle::{Error, Kind, Result};
use coracle_core::mount::{Access, MountInput};

/// A local directory, and what the sandbox may do to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    path: String,
    access: Access,
}

/// What is mounted, where, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountFlag {
    source: String,
    target: String,
    access: Access,
}

impl Directory {
    /// Returns its mount, with the directory's canonical path.
    pub fn at(&self, field: &str, target: &str) -> Result<MountInput> {
        let source = true_path(field, &self.path)?;
        Ok(MountInput { source, target: target.to_owned(), access: self.access })
    }

    /// Returns the flag's text with an absolute path, so that it means the same from any directory.
    pub fn text(&self, field: &str) -> Result<String> {
        Ok(format!("{}:{}", true_path(field, &self.path)?, word(self.access)))
    }
}

impl FromStr for Directory {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (path, access) = match text.rsplit_once(':') {
            Some((path, word)) => match access(word) {
                Some(access) => (path, access),
                // A colon without an access mode after it belongs to the name.
                None => (text, Access::default()),
            },
            None => (text, Access::default()),
        };
        match path.is_empty() {
            true => Err(Error::invalid("workspace", "names no directory")),
            false => Ok(Self { path: path.to_owned(), access }),
        }
    }
}

impl MountFlag {
    /// Returns the mount; a directory by its canonical path, so that no later step has to follow links.
    pub fn input(&self) -> Result<MountInput> {
        let source = match self.source.contains('/') || self.source.starts_with('.') {
            true => true_path("mount", &self.source)?,
            // A source without a slash is the name of a volume.
            false => self.source.clone(),
        };
        Ok(MountInput { source, target: self.target.clone(), access: self.access })
    }

    /// Returns the flag's text with an absolute path, so that it means the same from any directory.
    pub fn text(&self) -> Result<String> {
        let MountInput { source, target, access } = self.input()?;
        match source.contains(':') {
            true => {
                Err(Error::invalid("mount", "leads to a path with a colon, which cannot be written down"))
            }
            false => Ok(format!("{source}:{target}:{}", word(access))),
        }
    }
}

impl FromStr for MountFlag {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            Error::invalid("mount", "must be `SOURCE:TARGET`, with an optional `:rw`, `:ro` or `:overlay`")
                .hint("a path with a colon in it can be given through `coracle call sandbox_open`")
        };
        let words: Vec<&str> = text.split(':').collect();
        let (source, target, access) = match words.as_slice() {
            [source, target] => (source, target, Access::default()),
            [source, target, word] => (source, target, access(word).ok_or_else(refuse)?),
            _ => return Err(refuse()),
        };
        match source.is_empty() || target.is_empty() {
            true => Err(refuse()),
            false => Ok(Self { source: (*source).to_owned(), target: (*target).to_owned(), access }),
        }
    }
}

fn access(word: &str) -> Option<Access> {
    match word {
        "rw" => Some(Access::ReadWrite),
        "ro" => Some(Access::ReadOnly),
        "overlay" => Some(Access::Overlay),
        _ => None,
    }
}

fn word(access: Access) -> &'static str {
    match access {
        Access::ReadWrite => "rw",
        Access::ReadOnly => "ro",
        Access::Overlay => "overlay",
    }
}

/// Returns the canonical path of a directory, or why there is none.
fn true_path(field: &str, path: &str) -> Result<String> {
    let found = std::fs::canonicalize(path).and_then(|found| match found.is_dir() {
        true => Ok(found),
        false => Err(io::ErrorKind::NotADirectory.into()),
    });
    let found = found.map_err(|error| {
        Error::new(Kind::Invalid, format!("could not use `{}` as a directory to mount", path.escape_debug()))
            .detail("field", field)
            .caused_by(error)
    })?;
    found
        .into_os_string()
        .into_string()
        .map_err(|_| Error::invalid(field, "leads to a path that is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_is_a_directory_here_by_its_true_path() {
        let place = tempfile::tempdir().expect("a directory");
        let (real, link) = (place.path().join("a:b"), place.path().join("link"));
        std::fs::create_dir(&real).expect("ours");
        std::os::unix::fs::symlink(&real, &link).expect("ours");
        let real = real.canonicalize().expect("it is there");

        for (suffix, access) in
            [("", Access::ReadWrite), (":ro", Access::ReadOnly), (":overlay", Access::Overlay)]
        {
            let directory: Directory = format!("{}{suffix}", link.display()).parse().expect("a directory");
            let mount = directory.at("workspace", "/workspace").expect("it is there");
            assert_eq!((mount.source.as_str(), mount.access), (real.to_str().expect("UTF-8"), access));
        }
        let with_colon: Directory = real.to_str().expect("UTF-8").parse().expect("a directory");
        assert_eq!(with_colon.at("workspace", "/workspace").expect("it is there").access, Access::ReadWrite);
    }

    #[test]
    fn what_is_no_directory_is_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");

        for path in [file.path().to_str().expect("UTF-8"), "/nowhere/at/all"] {
            let directory: Directory = path.parse().expect("could be a directory");
            let refused = directory.at("workspace", "/workspace").expect_err(path);
            assert_eq!((refused.kind, &refused.details["field"]), (Kind::Invalid, &"workspace".into()));
        }
    }

    #[test]
    fn a_mount_has_a_source_a_target_and_perhaps_an_access() {
        let read = |text: &str| text.parse::<MountFlag>().and_then(|flag| flag.input()).ok();
        let mount = |source: &str, target: &str, access| {
            Some(MountInput { source: source.to_owned(), target: target.to_owned(), access })
        };

        assert_eq!(read("cache:/cache"), mount("cache", "/cache", Access::ReadWrite));
        assert_eq!(read("cache:/cache:overlay"), mount("cache", "/cache", Access::Overlay));
        assert_eq!(read("/:/host:ro"), mount("/", "/host", Access::ReadOnly));
        for refused in ["", "cache", "cache:", ":/cache", "a:/b:rx", "a:/b:ro:ro", "./nowhere:/x"] {
            assert_eq!(read(refused), None, "{refused}");
        }
    }
}
