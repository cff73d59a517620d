//! Which backend makes a sandbox, and which made one.

use std::sync::Arc;

use coracle_core::image::Images;
use coracle_core::volume::Volumes;
use coracle_core::{Backend, Error, Kind, Record, Result};

use crate::Engine;

impl Engine {
    /// Returns the backend a caller names, or the first that can be used here.
    ///
    /// Nothing is fallen back to: a named backend that is not available is an error.
    pub(crate) fn choose_backend(&self, named: Option<&str>) -> Result<&Arc<dyn Backend>> {
        match named {
            Some(name) => self.backend(name),
            None => self.first_available(),
        }
    }

    /// Returns the backend that made a sandbox.
    pub(crate) fn backend_of(&self, record: &Record) -> Result<&Arc<dyn Backend>> {
        self.backend(&record.backend)
    }

    /// Returns where the chosen backend keeps images.
    pub(crate) fn images(&self, named: Option<&str>) -> Result<&dyn Images> {
        let backend = self.choose_backend(named)?;
        backend.images().ok_or_else(|| keeps_no(backend.name(), "images"))
    }

    /// Returns where the chosen backend keeps volumes.
    pub(crate) fn volumes(&self, named: Option<&str>) -> Result<&dyn Volumes> {
        let backend = self.choose_backend(named)?;
        backend.volumes().ok_or_else(|| keeps_no(backend.name(), "volumes"))
    }

    fn backend(&self, name: &str) -> Result<&Arc<dyn Backend>> {
        self.parts.backends.named(name)
    }

    fn first_available(&self) -> Result<&Arc<dyn Backend>> {
        // The only one there is needs no probing: if it cannot be used, making the sandbox says why.
        if let [only] = self.backends() {
            return Ok(only);
        }
        let mut refusals = Vec::new();
        for backend in self.backends() {
            let probe = backend.probe();
            if probe.available {
                return Ok(backend);
            }
            refusals.push(format!(
                "{}: {}",
                backend.name(),
                probe.reason.unwrap_or_else(|| "no reason given".into())
            ));
        }
        Err(Error::new(Kind::NotAvailable, "no backend can be used on this machine")
            .hint("see why with `doctor`")
            .detail("refused", refusals))
    }
}

fn keeps_no(backend: &str, what: &str) -> Error {
    Error::new(Kind::Unsupported, format!("backend `{backend}` keeps no {what}")).detail("backend", backend)
}
