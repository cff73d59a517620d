//! The two sides of `cp`: a local path, `SBX:PATH` in a sandbox, or `-`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use coracle::{Error, Kind};

use super::name::SandboxName;

/// One side of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyPath {
    Local(PathBuf),
    /// Standard input or output.
    Stream,
    Inside {
        sandbox: SandboxName,
        path: Vec<u8>,
    },
}

impl CopyPath {
    /// Returns every way to read a text as a path in a sandbox, the longest name first: a key may contain colons and
    /// slashes. A text that begins with a dot or a slash is a local path.
    pub fn readings(text: &OsStr) -> Vec<(SandboxName, Vec<u8>)> {
        let bytes = text.as_bytes();
        if matches!(bytes.first(), None | Some(b'.' | b'/')) {
            return Vec::new();
        }
        let colons = (0..bytes.len()).rev().filter(|at| bytes[*at] == b':');
        let read = |colon: usize| {
            let name = std::str::from_utf8(&bytes[..colon]).ok()?.parse().ok()?;
            Some((name, bytes[colon + 1..].to_vec())).filter(|(_, path)| !path.is_empty())
        };
        colons.filter_map(read).collect()
    }
}

impl TryFrom<OsString> for CopyPath {
    type Error = Error;

    /// Takes `NAME:PATH` for a path in a sandbox, with a name as most people give. A local path with a colon is
    /// written `./a:b`, or as an absolute path, and one called `-` is `./-`.
    fn try_from(text: OsString) -> Result<Self, Error> {
        let bytes = text.as_bytes();
        if bytes == b"-" {
            return Ok(Self::Stream);
        }
        let colon = bytes.iter().position(|byte| *byte == b':');
        // `a/b:c` is a local path unless a sandbox has the key `a/b`, which is looked up later.
        let is_name = |name: &[u8]| !name.is_empty() && name[0] != b'.' && !name.contains(&b'/');
        let Some(colon) = colon.filter(|colon| is_name(&bytes[..*colon])) else {
            return Ok(Self::Local(text.into()));
        };
        let path = bytes[colon + 1..].to_vec();
        let name = String::from_utf8(bytes[..colon].to_vec())
            .map_err(|_| Error::invalid("SBX", "in front of the colon is not UTF-8"))?;
        match path.is_empty() {
            true => Err(Error::new(Kind::Invalid, format!("`{name}:` names no path in the sandbox"))
                .hint(format!("`{name}:.` is the workspace"))),
            false => Ok(Self::Inside { sandbox: name.parse()?, path }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy_path(text: &str) -> Result<CopyPath, Error> {
        CopyPath::try_from(OsString::from(text))
    }

    #[test]
    fn a_name_in_front_of_a_colon_is_a_sandbox() {
        let inside = |name: &str, path: &[u8]| CopyPath::Inside {
            sandbox: name.parse().expect("a name"),
            path: path.to_vec(),
        };

        assert_eq!(copy_path("sbx_1:a:b").expect("a place"), inside("sbx_1", b"a:b"));
        assert_eq!(
            copy_path("fix-the-bug:/etc/hosts").expect("a place"),
            inside("fix-the-bug", b"/etc/hosts")
        );
        for local in ["./sbx_1:a", "/tmp/c:d", "../c:d", "dir/c:d", "plain", ":a"] {
            assert_eq!(copy_path(local).expect("a place"), CopyPath::Local(local.into()), "{local}");
        }
        assert_eq!(copy_path("-").expect("a place"), CopyPath::Stream);
        assert!(copy_path("sbx_1:").is_err());
    }

    #[test]
    fn every_colon_may_end_a_name() {
        let readings = |text: &str| {
            let readings = CopyPath::readings(OsStr::new(text)).into_iter();
            let shown = readings.map(|(name, path)| (name.as_str().to_owned(), path));
            shown.collect::<Vec<_>>()
        };

        assert_eq!(readings("a/b:c:d"), [("a/b:c".into(), b"d".to_vec()), ("a/b".into(), b"c:d".to_vec())]);
        for local in ["./a:b", "/a:b", "../a:b", "a", "", ":a", "a:"] {
            assert_eq!(readings(local), [], "{local}");
        }
    }
}
