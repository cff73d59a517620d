//! `image_load`: brings the images in an archive, as `docker save` or an OCI layout has them.

use std::fs::File;
use std::io;

use coracle_core::image::Stored;
use coracle_core::spec::check_absolute;
use coracle_core::{Error, Kind, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Facts, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts = Facts::changes(
    "image_load",
    "Load an archive of images",
    "Brings the images in an archive on the machine",
)
.among(Set::Images)
.within(Scope::Home("an archive on the machine"));

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// An absolute path on the machine.
    pub path: String,
    /// The backend that shall have them; the preferred one if absent.
    #[serde(default)]
    pub backend: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub images: Vec<Stored>,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    check_absolute("path", &input.path)?;
    from_file(engine, call, input.backend.as_deref(), open(&input.path)?)
}

/// Does the same with an archive that is open already, a file or a pipe.
pub fn from_file(engine: &Engine, call: &Call, backend: Option<&str>, archive: File) -> Result<Output> {
    engine.headroom().expect("load images")?;
    let backend = engine.placement().choose_backend(backend)?;
    let images = engine.placement().images_of(backend)?.load(archive, call)?;
    engine.holdings().adopt_own(backend.name(), &images);
    Ok(Output { images })
}

/// Looks before it opens: to open a pipe is to wait for its writer.
fn open(path: &str) -> Result<File> {
    let opened = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => File::open(path),
        Ok(_) => Err(io::Error::other("it is not a regular file")),
        Err(error) => Err(error),
    };
    opened.map_err(|error| {
        let kind = if error.kind() == io::ErrorKind::NotFound { Kind::NotFound } else { Kind::Invalid };
        Error::new(kind, format!("could not open archive `{}`", path.escape_debug()))
            .detail("field", "path")
            .caused_by(error)
    })
}
