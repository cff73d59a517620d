//! The id of the home, in a file of its own. Everything the home has on the machine carries it, so it must outlive
//! the database: with another id coracle would find none of it again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use coracle_core::clock::Timestamp;
use coracle_core::error::{Error, Kind, Result};
use coracle_core::home::Home;
use coracle_core::ids::InstanceId;

use super::home;

/// Looks for the id in the sandboxes' directories, where neither the file nor a database is left. Fails where there
/// are directories without it.
pub type Recall<'a> = &'a dyn Fn() -> Result<Option<InstanceId>>;

/// Returns the id the home has noted.
pub fn read(home: &Home) -> Result<Option<InstanceId>> {
    let path = home.instance();
    let text = match fs::read_to_string(&path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        text => text.map_err(|error| home::unusable(&path, "read", error))?,
    };
    let id = text.trim_end().parse().map_err(|error: Error| {
        Error::new(Kind::Conflict, format!("`{}` does not hold the id of an instance", path.display()))
            .hint("put back the file as it was; where the database is whole, remove the file and it is written anew")
            .caused_by(error)
    })?;
    Ok(Some(id))
}

/// Notes the id so that it survives power loss, before anything is made under it. The caller holds the migration
/// lock, so no other process writes the draft.
pub fn write(home: &Home, id: &InstanceId) -> Result<()> {
    let (draft, path) = (home.instance_draft(), home.instance());
    let written = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        writeln!(file, "{id}")?;
        file.sync_all()?;
        fs::rename(&draft, &path)?;
        File::open(home.path())?.sync_all()
    };
    written().map_err(|error| home::unusable(&path, "write", error))
}

/// Generates a new id.
pub fn draw() -> Result<InstanceId> {
    let mut random = [0; 10];
    getrandom::fill(&mut random).map_err(|error| Error::internal("could not draw an instance id", error))?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp::from_millis(u64::try_from(now.as_millis()).unwrap_or(0));
    Ok(InstanceId::generate(now, random))
}

/// Refuses a database that belongs to another home.
pub fn expect(noted: &InstanceId, stored: &InstanceId, database: &Path) -> Result<()> {
    if noted == stored {
        return Ok(());
    }
    let message = format!(
        "the home is instance `{noted}`, and its database `{}` is that of instance `{stored}`",
        database.display()
    );
    Err(Error::new(Kind::Conflict, message)
        .hint("put back the database of this home; if it is lost, move this one, its `-wal` and `-shm` files and `instance` away and run `coracle gc`: the home's id is then taken from its sandboxes, and what still runs is set aside, not deleted")
        .detail("instance", noted.as_str())
        .detail("stored", stored.as_str()))
}
