//! One value from the sources below the flags: the environment, the file, or the default.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use coracle_core::{Error, Result};

use super::Source;
use super::file::File;

/// Looks up a variable; an empty one counts as absent.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// A value and its source.
#[derive(Debug, Clone)]
pub struct Found<T> {
    pub value: T,
    pub source: Source,
}

impl<T> Found<T> {
    /// Parses the value; an error gets a hint that names the source to correct.
    pub fn read<U>(self, read: impl FnOnce(T) -> Result<U>) -> Result<Found<U>> {
        let Self { value, source } = self;
        match read(value) {
            Ok(value) => Ok(Found { value, source }),
            Err(error) => Err(error.hint(format!("correct the {source}"))),
        }
    }

    /// Returns the value if the check passes.
    pub fn checked(self, check: impl FnOnce(&T) -> Result<()>) -> Result<Self> {
        self.read(|value| check(&value).map(|()| value))
    }
}

/// The sources of settings.
pub(super) struct Layers<'a> {
    pub environment: Environment<'a>,
    pub file: Option<(PathBuf, File)>,
}

impl Layers<'_> {
    pub fn pick<T>(
        &self,
        variable: &'static str,
        read: fn(&str, &str) -> Result<T>,
        of_file: impl Fn(&File) -> Option<T>,
        default: T,
    ) -> Result<Found<T>> {
        if let Some(value) = (self.environment)(variable) {
            let value = read(variable, &utf8(variable, value)?)?;
            return Ok(Found { value, source: Source::Environment(variable) });
        }
        Ok(self.of_file(of_file, default))
    }

    /// Reads a setting that is too large for a variable from the file.
    pub fn of_file<T>(&self, of_file: impl Fn(&File) -> Option<T>, default: T) -> Found<T> {
        let written = self.file.as_ref().and_then(|(path, file)| Some((path, of_file(file)?)));
        match written {
            Some((path, value)) => Found { value, source: Source::File(path.clone()) },
            None => Found { value: default, source: Source::Default },
        }
    }

    /// Reads a setting that identifies the caller; not from the file, which all callers share.
    pub fn of_caller<T: FromStr<Err = Error>>(
        &self,
        variable: &'static str,
        flag: Option<T>,
        default: T,
    ) -> Result<Found<T>> {
        match flag {
            Some(value) => Ok(Found { value, source: Source::Flag }),
            None => self.pick(variable, |_, text| text.parse(), |_| None, default),
        }
    }
}

fn utf8(variable: &str, value: OsString) -> Result<String> {
    value.into_string().map_err(|_| Error::invalid(variable, "is not UTF-8"))
}
