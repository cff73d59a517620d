//! Names in an archive: made relative, and never leading up.

use std::fmt;

use crate::limits::{COMPONENT_MAX, PATH_MAX};
use crate::refusal::Refusal;

/// A path below the root of the layer, without `.`, `..`, doubled or outer slashes. Empty for the root itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Name(Vec<u8>);

impl Name {
    /// Reads a name. A leading slash means the root of the layer, as in all programs that unpack layers.
    pub fn parse(raw: &[u8]) -> Result<Self, Refusal> {
        let shown = || Name(raw[..raw.len().min(200)].to_vec());
        if raw.len() > PATH_MAX {
            return Err(Refusal::limit(format!("the name {:?}… is longer than {PATH_MAX} bytes", shown())));
        }
        if raw.contains(&0) {
            return Err(Refusal::malformed(format!("the name {:?} has a NUL in it", shown())));
        }
        let mut parts = Vec::new();
        for part in raw.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")) {
            if part == b".." {
                return Err(Refusal::malformed(format!("the name {:?} leads up", shown())));
            }
            if part.len() > COMPONENT_MAX {
                return Err(Refusal::limit(format!(
                    "a part of the name {:?} is over {COMPONENT_MAX} bytes",
                    shown()
                )));
            }
            parts.push(part);
        }
        Ok(Self(parts.join(&b'/')))
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the parent directory's name, and its own name there. The parent of the root is the root, with an
    /// empty name.
    pub fn split(&self) -> (Name, &[u8]) {
        match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (Name(self.0[..slash].to_vec()), &self.0[slash + 1..]),
            None => (Name::default(), &self.0),
        }
    }

    /// Returns its parts, outermost first.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
    }

    /// Returns the name of something in this directory.
    pub fn join(&self, part: &[u8]) -> Self {
        match self.is_root() {
            true => Self(part.to_vec()),
            false => Self([&self.0, part].join(&b'/')),
        }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`/{}`", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_relative_to_the_layer() {
        for raw in ["a/b", "/a/b", "./a/b", "a//b/", "a/./b", "//a/b"] {
            assert_eq!(Name::parse(raw.as_bytes()).expect("is a name").as_bytes(), b"a/b", "{raw}");
        }
        assert!(Name::parse(b"./").expect("is a name").is_root());
    }

    #[test]
    fn a_name_that_leads_up_is_refused_wherever_it_ends_up() {
        for raw in ["..", "../a", "a/..", "a/../b", "/..", "a/../../b", "./../a"] {
            assert!(Name::parse(raw.as_bytes()).is_err(), "{raw}");
        }
    }

    #[test]
    fn forms_of_other_systems_are_plain_names_inside() {
        let name = Name::parse(br"C:\Windows\x").expect("is a name");

        assert_eq!(name.parts().count(), 1);
    }

    #[test]
    fn names_too_long_for_the_kernel_are_refused() {
        assert!(Name::parse(&[b'a'; 255]).is_ok());
        assert!(Name::parse(&[b'a'; 256]).is_err());
        assert!(Name::parse(&b"a/".repeat(2048)).is_err());
        assert!(Name::parse(b"a\0b").is_err());
    }
}
