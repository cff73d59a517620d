//! `--secret NAME=FILE` and `--secret NAME=env:VAR`: a value that reaches the command and appears nowhere else.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::str::FromStr;

use coracle::{Error, Kind, Result, config};

/// The kernel's limit for one environment variable of a command.
const LEN_MAX: u64 = 128 << 10;

/// A name and the source of its value. The value itself is never on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretSource {
    pub name: String,
    origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    File(PathBuf),
    Variable(String),
}

impl SecretSource {
    /// Returns the value, without a line break at the end of a file.
    pub fn value(&self) -> Result<String> {
        match &self.origin {
            Origin::Variable(name) => config::variable(name),
            Origin::File(path) => read(path),
        }
    }
}

impl FromStr for SecretSource {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((name, origin)) =
            text.split_once('=').filter(|(name, origin)| !name.is_empty() && !origin.is_empty())
        else {
            // The error does not repeat the text: the person may have written the value itself.
            return Err(Error::invalid("secret", "must be `NAME=FILE` or `NAME=env:VARIABLE`"));
        };
        let origin = match origin.strip_prefix("env:") {
            Some(variable) => Origin::Variable(variable.to_owned()),
            None => Origin::File(origin.into()),
        };
        Ok(Self { name: name.to_owned(), origin })
    }
}

fn read(path: &PathBuf) -> Result<String> {
    let shown = path.display();
    let mut value = String::new();
    let read = File::open(path).and_then(|file| file.take(LEN_MAX + 1).read_to_string(&mut value));
    match read {
        Ok(length) if length as u64 > LEN_MAX => {
            Err(Error::invalid("secret", format!("in `{shown}` has more than {LEN_MAX} bytes")))
        }
        Ok(_) => Ok(value
            .strip_suffix('\n')
            .map_or(value.as_str(), |line| line.strip_suffix('\r').unwrap_or(line))
            .to_owned()),
        // The error does not repeat the name: if there is no such file, the person may have written the value itself.
        Err(error) => Err(Error::new(Kind::Invalid, "could not read the file of a secret")
            .hint("write `NAME=FILE` or `NAME=env:VARIABLE`, never the value")
            .caused_by(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_from_a_file_without_its_line_break() {
        let file = tempfile::NamedTempFile::new().expect("a file can be made");
        std::fs::write(file.path(), "hunter2\n").expect("the file is ours");
        let source: SecretSource = format!("TOKEN={}", file.path().display()).parse().expect("a source");

        assert_eq!(
            (source.name.as_str(), source.value().expect("readable")),
            ("TOKEN", "hunter2".to_owned())
        );
    }

    #[test]
    fn what_was_written_is_not_repeated() {
        let refused = "hunter2".parse::<SecretSource>().expect_err("no name");

        assert!(!refused.to_json().to_string().contains("hunter2"));
    }
}
