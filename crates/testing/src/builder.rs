//! A builder in memory: each line of the Dockerfile is a layer, and the step `RUN false` fails.

use std::fs::File;
use std::io::{Seek, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use super::images::FakeImages;
use coracle_core::error::{Error, Kind, Result};
use coracle_core::image::{Builder, Config, Images, Progress, Recipe, Reference, Step, Stored};

impl Builder for FakeImages {
    fn build(&self, recipe: &Recipe, progress: &dyn Progress) -> Result<Stored> {
        let file = recipe.context.join(recipe.dockerfile.as_deref().unwrap_or("Dockerfile"));
        let text = std::fs::read_to_string(&file)
            .map_err(|error| Error::invalid("context", "has no Dockerfile").caused_by(error))?;
        for (number, step) in text.lines().enumerate() {
            progress.report(&Step::Said { line: format!("Step {} : {step}", number + 1) });
            if step == "RUN false" {
                return Err(Error::new(Kind::ExecutionFailed, format!("step `{step}` failed"))
                    .detail("step", number + 1));
            }
        }
        self.publish(&recipe.tag.to_string(), &text.lines().collect::<Vec<_>>(), Config::default());
        self.pull(&recipe.tag, progress)
    }

    /// Writes an archive that [`Images::load`] of the fake reads.
    fn export(&self, reference: &Reference) -> Result<File> {
        let here = self.list()?.into_iter().find(|stored| stored.reference == reference.to_string());
        let stored =
            here.ok_or_else(|| Error::new(Kind::ImageNotFound, format!("there is no `{reference}`")))?;
        let written = || {
            let mut file = tempfile()?;
            writeln!(file, "{} {}", stored.reference, stored.digest)?;
            file.rewind()?;
            Ok(file)
        };
        written().map_err(|error: std::io::Error| Error::internal("could not write an archive", error))
    }
}

/// Makes a file without a name.
fn tempfile() -> std::io::Result<File> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("coracle-fake-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = std::path::Path::new("/tmp").join(name);
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}
