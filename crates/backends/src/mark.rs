//! The home's mark: the id of its instance in every sandbox's directory. A home that has lost everything else is
//! still recognised by it, and a sandbox of another instance is not taken for one of ours that is gone.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use coracle_core::{Error, Home, InstanceId, Kind, Result, SandboxId};

use crate::weak::{self, Wall};

/// A link without a target: unlike a file it appears complete or not at all.
const LINK: &str = "instance";

/// Marks the directory of a sandbox, before anything of the sandbox is made outside it.
///
/// All directories share one link: where files come and go quickly, ext4 takes long to find a free inode for a new
/// one.
pub fn put(dir: &Path, instance: &InstanceId) -> io::Result<()> {
    let shared = dir.with_file_name(format!(".{instance}"));
    let mark = dir.join(LINK);
    let link = |at: &Path| tolerate(std::os::unix::fs::symlink(instance.as_str(), at));
    let share = || tolerate(fs::hard_link(&shared, &mark));
    // The last resort: the filesystem has no hard links, or allows no more for this file.
    share().or_else(|_| link(&shared).and_then(|()| share())).or_else(|_| link(&mark))
}

/// Also succeeds if it existed already.
fn tolerate(made: io::Result<()>) -> io::Result<()> {
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Returns the instance that made a directory; `None` if an older coracle made it.
fn read(dir: &Path) -> io::Result<Option<InstanceId>> {
    match fs::read_link(dir.join(LINK)) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        target => target?.to_string_lossy().parse().map(Some).map_err(io::Error::other),
    }
}

/// Refuses a sandbox whose directory another instance has made: its cgroups and containers carry the other id; a
/// search under ours finds none and would wrongly report it as gone.
pub fn expect(dir: &Path, sandbox: &SandboxId, ours: &InstanceId) -> Result<()> {
    let made_by = read(dir).map_err(|error| {
        Error::internal(
            format!("could not read which instance made the directory of sandbox `{sandbox}`"),
            error,
        )
    })?;
    match made_by {
        Some(other) if other != *ours && !weak::off(Wall::Mark) => Err(misplaced(sandbox, &other, ours)),
        _ => Ok(()),
    }
}

/// Says that a sandbox belongs to another instance than the home does now.
pub fn misplaced(sandbox: &SandboxId, found: &InstanceId, ours: &InstanceId) -> Error {
    let message =
        format!("sandbox `{sandbox}` carries the mark of instance `{found}`, and the home is `{ours}`");
    Error::new(Kind::Conflict, message)
        .hint(
            "put the home's `instance` file and its database back as they were when the sandbox was opened; if they are \
             lost, move both away: the home's id is then taken from its sandboxes",
        )
        .detail("instance", found.as_str())
}

/// Finds out which instance a home is that has lost its database and its `instance` file, from the directories of
/// its sandboxes.
pub fn recall(home: &Home) -> Result<Option<InstanceId>> {
    if weak::off(Wall::Mark) {
        return Ok(None);
    }
    let failed =
        |error| Error::internal(format!("could not look for rooms in `{}`", home.path().display()), error);
    let mut known = BTreeSet::new();
    let mut silent = None;
    for dir in dirs(home).map_err(failed)? {
        match read(&dir).map_err(failed)? {
            Some(instance) => drop(known.insert(instance)),
            None => silent = Some(dir),
        }
    }
    match (known.len(), silent) {
        (0, None) => Ok(None),
        (1, _) => Ok(known.pop_first()),
        (0, Some(dir)) => Err(unknown(home).detail("room", dir.display().to_string())),
        _ => {
            Err(unknown(home).detail("instances", known.iter().map(ToString::to_string).collect::<Vec<_>>()))
        }
    }
}

fn unknown(home: &Home) -> Error {
    let message =
        format!("`{}` holds sandboxes, and nothing in it says of which instance", home.path().display());
    Error::new(Kind::Conflict, message)
        .hint("put the database `coracle.db` back, or write the instance's id (`ins_…`, as the cgroups and containers of its sandboxes name it) to the file `instance` there")
}

/// Lists the directories of sandboxes in a home, on every backend.
fn dirs(home: &Home) -> io::Result<Vec<PathBuf>> {
    let mut places = vec![home.sandboxes()];
    places.extend(entries(&home.engines())?);
    let mut dirs = Vec::new();
    for place in places {
        let is_sandbox_dir = |path: &PathBuf| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| name.parse::<SandboxId>().is_ok())
        };
        dirs.extend(entries(&place)?.into_iter().filter(is_sandbox_dir));
    }
    Ok(dirs)
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        entries => entries?.map(|entry| Ok(entry?.path())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SANDBOXES: [&str; 2] = ["sbx_01kca3t0m80000000000000000", "sbx_01kca3t0m80000000000000001"];

    fn instance(last: char) -> InstanceId {
        format!("ins_01kca3t0m8000000000000000{last}").parse().expect("an id")
    }

    fn home() -> (tempfile::TempDir, Home, [PathBuf; 2]) {
        let directory = tempfile::tempdir().expect("a directory");
        let home = Home::at(directory.path());
        let dirs = [home.sandboxes().join(SANDBOXES[0]), home.engines().join("docker").join(SANDBOXES[1])];
        dirs.iter().for_each(|dir| fs::create_dir_all(dir).expect("makes"));
        (directory, home, dirs)
    }

    #[test]
    fn directories_that_agree_name_the_instance() {
        let (_directory, home, dirs) = home();
        dirs.iter().for_each(|dir| put(dir, &instance('a')).expect("marks"));

        assert_eq!(recall(&home).expect("recalls"), Some(instance('a')));
    }

    #[test]
    fn a_mark_stays_when_those_beside_it_go() {
        let (_directory, _, dirs) = home();
        let beside = dirs[0].with_file_name(SANDBOXES[1]);
        fs::create_dir(&beside).expect("makes");
        put(&dirs[0], &instance('a')).and_then(|()| put(&beside, &instance('a'))).expect("marks");
        put(&beside, &instance('a')).expect("it is marked already");

        fs::remove_dir_all(&dirs[0]).expect("removes");
        fs::remove_file(beside.with_file_name(format!(".{}", instance('a')))).expect("it is shared");

        assert_eq!(read(&beside).expect("reads"), Some(instance('a')));
    }

    #[test]
    fn directories_that_disagree_or_say_nothing_are_no_new_home() {
        let (_directory, home, dirs) = home();
        let silent = recall(&home).expect_err("two rooms and no mark");
        put(&dirs[0], &instance('a')).expect("marks");
        put(&dirs[1], &instance('b')).expect("marks");
        let torn = recall(&home).expect_err("two marks");

        assert_eq!((silent.kind, torn.kind), (Kind::Conflict, Kind::Conflict));
    }

    #[test]
    fn a_home_without_sandboxes_has_nothing_to_say() {
        let directory = tempfile::tempdir().expect("a directory");
        let home = Home::at(directory.path());

        assert_eq!(recall(&home).expect("recalls"), None);
        assert_eq!(recall(&Home::at(home.path().join("none"))).expect("recalls"), None);
    }

    #[test]
    fn a_room_of_another_instance_is_refused() {
        let (_directory, _, dirs) = home();
        let sandbox: SandboxId = SANDBOXES[0].parse().expect("an id");
        expect(&dirs[0], &sandbox, &instance('a')).expect("an older coracle's room says nothing");
        put(&dirs[0], &instance('a')).expect("marks");

        expect(&dirs[0], &sandbox, &instance('a')).expect("it is ours");
        let refused = expect(&dirs[0], &sandbox, &instance('b')).expect_err("it is another's");

        assert_eq!(refused.kind, Kind::Conflict);
    }
}
