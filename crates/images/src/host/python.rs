//! Adds `python` where the machine has only `python3`: agents write it by habit, but distributions have removed it.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::skeleton;

/// Raise it when the layer is built differently.
const LAYOUT: u32 = 2;

/// The directories that programs are looked up in, in this order. Below `usr`, which has all of them on today's
/// machines.
const DIRECTORIES: [&str; 2] = ["local/bin", "bin"];

/// Returns a layer for the top of `usr` with `python` beside `python3`; `None` where it is not needed.
pub fn layer(store: &Path, usr: &Path) -> io::Result<Option<PathBuf>> {
    let has = |directory: &str, name: &str| usr.join(directory).join(name).exists();
    if DIRECTORIES.iter().any(|directory| has(directory, "python")) {
        return Ok(None);
    }
    match DIRECTORIES.iter().find(|directory| has(directory, "python3")) {
        Some(directory) => ensure(store, directory).map(Some),
        None => Ok(None),
    }
}

/// Returns the layer for one directory. Builds it if it is missing.
fn ensure(store: &Path, directory: &str) -> io::Result<PathBuf> {
    let name = format!("python-{LAYOUT}-{}", directory.replace('/', "-"));
    skeleton::ensure(store, &name, |root| {
        let programs = root.join(directory);
        fs::create_dir_all(&programs)?;
        // Independent of the caller's umask.
        for path in programs.ancestors().take_while(|path| path.starts_with(root)) {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
        }
        symlink("python3", programs.join("python"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with these programs below `usr`.
    fn machine(programs: &[&str]) -> tempfile::TempDir {
        let usr = tempfile::tempdir().expect("a directory");
        for program in programs {
            let path = usr.path().join(program);
            fs::create_dir_all(path.parent().expect("it has one")).expect("it is ours");
            fs::write(path, "").expect("it is ours");
        }
        usr
    }

    #[test]
    fn python_is_offered_where_only_python3_is() {
        let store = tempfile::tempdir().expect("a directory");
        let found =
            |programs: &[&str]| layer(store.path(), machine(programs).path()).expect("it can be made");

        assert_eq!(found(&[]), None);
        assert_eq!(found(&["bin/python3", "bin/python"]), None);
        assert_eq!(found(&["bin/python3", "local/bin/python"]), None);
        for (program, directory) in [("bin/python3", "bin"), ("local/bin/python3", "local/bin")] {
            for _ in 0..2 {
                let made = found(&[program]).expect("a layer");
                let link = fs::read_link(made.join(directory).join("python")).expect("a link");
                assert_eq!(link, Path::new("python3"));
            }
        }
    }
}
