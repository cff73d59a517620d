//! Reads the lockfile and the manifests of a repository, by the guest, bounded, and through no link.

use coracle_core::install::manifests::{LOCKFILE_MAX, MANIFEST_MAX, Wanted};
use coracle_core::install::plan::WORKSPACE;
use coracle_core::install::{Ecosystem, Manifests, Report, Status};
use coracle_core::{Error, Kind, Result};
use coracle_wire::EntryKind;

use crate::access::gate::Inside;
use crate::guest::Links;

/// Read at once.
const PIECE: usize = 1 << 20;
/// The most entries of a directory that are looked at for members of a workspace.
const MEMBERS_MAX: usize = 10_000;

/// Returns what there is to install, and the lockfiles of other package managers; nothing where there is no lockfile.
/// Notes in the report what was found. The bytes are those a filler gets, whatever becomes of the files.
pub(super) fn manifests(
    inside: &mut Inside,
    report: &mut Report,
) -> Result<Option<(Manifests, Vec<&'static str>)>> {
    let mut found: Option<(Ecosystem, &'static str)> = None;
    let mut others = Vec::new();
    for (ecosystem, name) in Ecosystem::candidates() {
        match (&found, exists(inside, name)?) {
            (_, false) => {}
            (None, true) => found = Some((ecosystem, name)),
            (Some((first, _)), true) if *first == ecosystem => {}
            (Some(_), true) => others.push(name),
        }
    }
    let Some((ecosystem, lockfile)) = found else { return Ok(None) };
    (report.ecosystem, report.reason) = (Some(ecosystem), None);
    let contents = read(inside, lockfile, LOCKFILE_MAX)?.ok_or_else(|| gone(lockfile))?;
    let mut manifests = Manifests::of(ecosystem, lockfile, contents)?;
    report.lockfile_sha256 = Some(manifests.lockfile_sha256());
    while let Some(wanted) = manifests.next_wanted() {
        match wanted {
            Wanted::File(path) => {
                if let Some(contents) = read(inside, &path, MANIFEST_MAX)? {
                    manifests.add(path, contents)?;
                }
            }
            Wanted::Members { directory, file } => {
                for member in directories(inside, &directory)? {
                    manifests.want(Wanted::File(format!("{member}/{file}")));
                }
            }
        }
    }
    report.status = Status::Skipped;
    Ok(Some((manifests, others)))
}

fn exists(inside: &mut Inside, name: &str) -> Result<bool> {
    match inside.guest.stat(&absolute(name)).map_err(Error::from) {
        Ok(_) => Ok(true),
        Err(error) if error.kind == Kind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns a file whole; nothing where there is none. A link, or what is no plain file, is refused by the guest.
fn read(inside: &mut Inside, path: &str, most: usize) -> Result<Option<Vec<u8>>> {
    let (absolute, mut data) = (absolute(path), Vec::new());
    loop {
        let piece = match data.len() {
            0 => inside.guest.begin_read(&absolute, PIECE, Links::Below(WORKSPACE.len())),
            offset => inside.guest.continue_read(&absolute, offset as u64, PIECE),
        };
        let piece = match piece.map_err(Error::from) {
            Err(error) if error.kind == Kind::NotFound => return Ok(None),
            piece => piece?,
        };
        data.extend_from_slice(&piece.data);
        if data.len() > most || piece.size > most as u64 {
            let what = format!("`{path}` has more than {} MiB", most >> 20);
            return Err(Error::new(Kind::LimitExceeded, what));
        }
        if piece.data.len() < PIECE || data.len() as u64 >= piece.size {
            return Ok(Some(data));
        }
    }
}

/// Returns the directories directly below one, as paths from the top.
fn directories(inside: &mut Inside, directory: &str) -> Result<Vec<String>> {
    let listed = inside.guest.list(&absolute(directory), false, MEMBERS_MAX, &mut |_| true);
    let listed = match listed.map_err(Error::from) {
        Err(error) if error.kind == Kind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let own = listed.entries.into_iter().filter(|entry| entry.kind == EntryKind::Directory);
    // Names that are not UTF-8, or that end a line, cannot be written in a manifest either.
    let names = own.filter_map(|entry| {
        let path = String::from_utf8(entry.path).ok()?;
        let name = path.rsplit('/').next()?.to_owned();
        let usable = !name.starts_with('.') && name != "node_modules" && !name.chars().any(char::is_control);
        usable.then_some(name)
    });
    Ok(names.map(|name| if directory.is_empty() { name } else { format!("{directory}/{name}") }).collect())
}

fn absolute(path: &str) -> Vec<u8> {
    match path.is_empty() {
        true => WORKSPACE.as_bytes().to_vec(),
        false => format!("{WORKSPACE}/{path}").into_bytes(),
    }
}

fn gone(lockfile: &str) -> Error {
    Error::new(Kind::Conflict, format!("`{lockfile}` went away while it was read"))
}
