//! The context of a build: an untrusted directory, packed into the archive that container engines accept.
//!
//! Opens everything by descriptor, one name at a time, and follows no link: a link goes into the archive as a link,
//! and the builder resolves it inside the archive. Leaves out everything but files, directories and links.

mod glob;
mod ignore;
mod pack;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use coracle_core::image::Recipe;
use coracle_core::{Error, Kind, Result};
use coracle_sys::path::{self, Within};
use coracle_sys::rustix::fs::{CWD, Mode, OFlags, openat};

use self::ignore::Ignored;

const IGNORE_FILE: &str = ".dockerignore";
/// No person writes more by hand, and each line is compared with every path.
const IGNORE_MAX: u64 = 256 << 10;
/// The default names of the Dockerfile; the first that exists counts.
const DESCRIPTIONS: [&str; 2] = ["Dockerfile", "Containerfile"];

/// A directory to build from.
#[derive(Debug)]
pub struct Context {
    directory: OwnedFd,
    /// The path of the Dockerfile in it.
    dockerfile: String,
    ignored: Ignored,
}

impl Context {
    /// Opens the directory of a recipe and finds its Dockerfile.
    pub fn open(recipe: &Recipe) -> Result<Self> {
        let refuse = |error: io::Error| {
            let kind = if error.kind() == io::ErrorKind::NotFound { Kind::NotFound } else { Kind::Invalid };
            Error::new(kind, format!("could not open the context `{}`", recipe.context.display()))
                .detail("field", "context")
                .caused_by(error)
        };
        let directory = open_directory(&recipe.context).map_err(refuse)?;
        let dockerfile = find(&directory, recipe)?;
        let ignored = read_ignored(&directory).map_err(refuse)?.keeping(&[&dockerfile, IGNORE_FILE]);
        Ok(Self { directory, dockerfile, ignored })
    }

    pub fn dockerfile(&self) -> &str {
        &self.dockerfile
    }

    /// Opens the Dockerfile.
    pub fn description(&self) -> io::Result<File> {
        open_file(&self.directory, &self.dockerfile)
    }

    /// Writes the archive. Fails if the directory has more in it than a build may use, or changes meanwhile.
    pub fn pack(&self, into: impl Write) -> io::Result<()> {
        pack::pack(self.directory.as_fd(), &self.ignored, into)
    }
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

fn find(directory: &OwnedFd, recipe: &Recipe) -> Result<String> {
    let missing = |name: &str| {
        let context = recipe.context.display();
        Error::new(Kind::NotFound, format!("there is no `{name}` in `{context}`"))
            .detail("field", "dockerfile")
    };
    if let Some(named) = &recipe.dockerfile {
        open_file(directory, named)
            .map_err(|error| missing(&named.escape_debug().to_string()).caused_by(error))?;
        return Ok(named.clone());
    }
    let found = DESCRIPTIONS.into_iter().find(|name| open_file(directory, name).is_ok());
    let hint = "name the file that describes the build";
    found.map(str::to_owned).ok_or_else(|| missing(&DESCRIPTIONS.join("` and no `")).hint(hint))
}

fn read_ignored(directory: &OwnedFd) -> io::Result<Ignored> {
    let mut text = Vec::new();
    match open_file(directory, IGNORE_FILE) {
        Ok(file) => file.take(IGNORE_MAX + 1).read_to_end(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ignored::default()),
        Err(error) => return Err(error),
    };
    if text.len() as u64 > IGNORE_MAX {
        return Err(io::Error::other(format!("`{IGNORE_FILE}` has more than {IGNORE_MAX} bytes")));
    }
    Ignored::parse(&String::from_utf8_lossy(&text))
}

/// Opens a regular file by a path that may not lead out of the directory. Does not wait for other kinds of files.
fn open_file(directory: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let file = File::from(path::open(directory.as_fd(), name.as_bytes(), Within::Beneath, flags)?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other(format!("`{name}` is not a regular file"))),
    }
}
