//! Where `cp` copies from or to: a path here, or `SBX:PATH` in a sandbox.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use coracle::{Error, SandboxId};

/// One side of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Local(PathBuf),
    Inside { sandbox: SandboxId, path: Vec<u8> },
}

impl TryFrom<OsString> for Place {
    type Error = Error;

    /// Takes everything of the form `sbx_…:PATH` for a sandbox; a local file of such a name is `./sbx_…`.
    fn try_from(text: OsString) -> Result<Self, Error> {
        let bytes = text.as_bytes();
        let colon = bytes.iter().position(|byte| *byte == b':');
        let Some(colon) = colon.filter(|_| bytes.starts_with(b"sbx_")) else {
            return Ok(Self::Local(text.into()));
        };
        let path = bytes[colon + 1..].to_vec();
        let mut id = text.into_vec();
        id.truncate(colon);
        let id = String::from_utf8(id).map_err(|_| Error::invalid("sandbox_id", "is not UTF-8"))?;
        match path.is_empty() {
            true => Err(Error::invalid("path", format!("is empty behind `{id}:`"))
                .hint(format!("`{id}:.` is the workspace"))),
            false => Ok(Self::Inside { sandbox: id.parse()?, path }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Result<Place, Error> {
        Place::try_from(OsString::from(text))
    }

    #[test]
    fn only_a_sandbox_in_front_of_a_colon_is_inside() {
        let inside = place("sbx_1:a:b").expect("a place");

        let sandbox = "sbx_1".parse().expect("an id");
        assert_eq!(inside, Place::Inside { sandbox, path: b"a:b".to_vec() });
        assert_eq!(place("./sbx_1:a").expect("a place"), Place::Local("./sbx_1:a".into()));
        assert_eq!(place("c:d").expect("a place"), Place::Local("c:d".into()));
        assert!(place("sbx_1:").is_err() && place("sbx_/x:a").is_err());
    }
}
