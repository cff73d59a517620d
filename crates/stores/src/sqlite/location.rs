//! Where the home is, noted in its database. A copy of a home, or of its database, has the original's id: it would
//! find the original's sandboxes, take those it cannot reach for lost, and end them.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use coracle_core::error::{Error, Kind, Result};

/// A directory by its path, device and inode; the latter two survive a rename.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HomeLocation {
    device: u64,
    inode: u64,
    path: PathBuf,
}

impl HomeLocation {
    fn of(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        let found = fs::metadata(&path)?;
        Ok(Self { device: found.dev(), inode: found.ino(), path })
    }

    /// Notes it in the database.
    pub fn note(&self, sqlite: &rusqlite::Connection) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO facts VALUES ('place', ?1)";
        sqlite.execute(sql, [self.to_string()]).map(drop)
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Tells whether the home is still where it was. After a restart a device may have another number; then it is
    /// not.
    fn is_there(&self) -> bool {
        Self::of(&self.path).is_ok_and(|found| found.is_same(self))
    }
}

/// Refuses a copy while the original is where it was. Returns the location if it must be noted, because the home is
/// new or was moved.
pub fn expect(home: &Path, noted: Option<&str>) -> Result<Option<HomeLocation>> {
    let Ok(here) = HomeLocation::of(home) else { return Ok(None) };
    let Some(noted) = noted.and_then(|noted| noted.parse::<HomeLocation>().ok()) else {
        return Ok(Some(here));
    };
    let unmoved = noted.is_there();
    match (noted.is_same(&here), unmoved) {
        (true, true) => Ok(None),
        (_, false) => Ok(Some(here)),
        (false, true) => Err(copied(&here.path, &noted.path)),
    }
}

fn copied(copy: &Path, original: &Path) -> Error {
    let (copy, original) = (copy.display(), original.display());
    let message = format!("`{copy}` has the database of the home `{original}`, whose sandboxes it would end");
    Error::new(Kind::Conflict, message)
        .hint(format!(
            "use `--home {original}`, or put back this home's own database. To use a backup, move `{original}` away first"
        ))
        .detail("home", original.to_string())
}

impl fmt::Display for HomeLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.device, self.inode, self.path.display())
    }
}

impl FromStr for HomeLocation {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        let mut words = text.splitn(3, ' ');
        let mut number = || words.next()?.parse().ok();
        let (device, inode) = (number(), number());
        match (device, inode, words.next()) {
            (Some(device), Some(inode), Some(path)) => Ok(Self { device, inode, path: path.into() }),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_refused_and_a_home_that_was_moved_is_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let (home, copy, moved) =
            (directory.path().join("a home"), directory.path().join("copy"), directory.path().join("moved"));
        fs::create_dir(&home).and_then(|()| fs::create_dir(&copy)).expect("makes");
        let noted = expect(&home, None).expect("it is new").expect("to be noted").to_string();

        let same = expect(&home, Some(&noted));
        let refused = expect(&copy, Some(&noted));
        fs::rename(&home, &moved).expect("renames");
        let renamed = expect(&moved, Some(&noted));
        let restored = expect(&copy, Some(&noted));

        assert_eq!(same.expect("it is there"), None);
        assert_eq!(refused.expect_err("a copy").kind, Kind::Conflict);
        assert!(renamed.expect("it was moved").is_some_and(|location| location.path.ends_with("moved")));
        assert!(restored.expect("the original is gone").is_some());
    }
}
