//! Which backend makes a sandbox, and which made one.

use std::sync::Arc;

use coracle_core::image::Images;
use coracle_core::selection::{self, Refusal, Selection};
use coracle_core::spec::{Purpose, SpecInput};
use coracle_core::volume::Volumes;
use coracle_core::{Backend, Error, Kind, Record, Result, Spec, fit};

use crate::{Caller, Engine, spans};

/// A backend that was chosen, and those that were to come before it.
pub(crate) struct Choice<'a> {
    pub backend: &'a Arc<dyn Backend>,
    pub refused: &'a [Refusal],
}

impl Engine {
    /// Does something on the first backend that can, among those that the spec and the operator name.
    ///
    /// Where one fails at it by its own fault and somebody wrote down what to fall back to, the next is tried: what
    /// `deed` has begun it must have ended by then.
    pub(crate) fn on_backend<T>(
        &self,
        spec: &Spec,
        mut deed: impl FnMut(Choice<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut selection = self.selection(spec.backend.as_deref(), &spec.fallback)?;
        while let Some(name) = spans::select(|| selection.next(|name| self.backend(name)?.fit(spec))) {
            let backend = self.backend(&name)?;
            match deed(Choice { backend, refused: selection.refused() }) {
                Ok(done) => return Ok(done),
                Err(error) if selection.is_alone() => return Err(self.advise(backend, spec, error)),
                Err(error) if !selection::may_move_on(error.kind) => return Err(error),
                Err(error) => selection.refuse(&name, &error),
            }
        }
        Err(selection.exhausted())
    }

    /// Refuses a ceiling whose sandboxes no backend here can hold to it: the person who sets it can do something about
    /// that, the model that is refused every sandbox later cannot.
    pub fn check_ceiling(&self, model: &Caller) -> Result<()> {
        // Where the default image is not allowed, models name a language instead.
        let Ok(spec) = self.resolve_for(model, SpecInput::default(), Purpose::Session) else { return Ok(()) };
        match self.on_backend(&spec, |choice| choice.backend.fit(&spec)) {
            Err(error) if error.kind == Kind::Unsupported => Err(error),
            // An engine that is down now may be up when it is needed.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Returns the backend a caller names for something else than a sandbox, or the one the operator prefers.
    pub(crate) fn choose_backend(&self, named: Option<&str>) -> Result<&Arc<dyn Backend>> {
        let preferred = self.policy().backends.backend.as_deref();
        let mut selection = self.selection(named.or(preferred), &[])?;
        let usable = |name: &str| fit::check_available(name, &self.backend(name)?.probe());
        match selection.next(usable) {
            Some(name) => self.backend(&name),
            None => Err(selection.exhausted()),
        }
    }

    /// Returns the backend that made a sandbox.
    pub(crate) fn backend_of(&self, record: &Record) -> Result<&Arc<dyn Backend>> {
        self.backend(&record.backend)
    }

    /// Returns where the chosen backend keeps images.
    pub(crate) fn images(&self, named: Option<&str>) -> Result<&dyn Images> {
        self.images_of(self.choose_backend(named)?)
    }

    /// Returns where a backend keeps images.
    pub(crate) fn images_of<'a>(&self, backend: &'a Arc<dyn Backend>) -> Result<&'a dyn Images> {
        backend.images().ok_or_else(|| keeps_no(backend.name(), "images"))
    }

    /// Chooses a backend for a caller who may not choose every one.
    pub(crate) fn choose_for(&self, caller: &Caller, named: Option<&str>) -> Result<&Arc<dyn Backend>> {
        named.map_or(Ok(()), |name| self.check_named(caller, name))?;
        self.choose_backend(named)
    }

    /// Returns the same for a caller who may not choose every backend.
    pub(crate) fn images_for(&self, caller: &Caller, named: Option<&str>) -> Result<&dyn Images> {
        self.images_of(self.choose_for(caller, named)?)
    }

    /// Returns where the chosen backend keeps volumes.
    pub(crate) fn volumes(&self, named: Option<&str>) -> Result<&dyn Volumes> {
        let backend = self.choose_backend(named)?;
        backend.volumes().ok_or_else(|| keeps_no(backend.name(), "volumes"))
    }

    fn backend(&self, name: &str) -> Result<&Arc<dyn Backend>> {
        self.parts.backends.named(name)
    }

    /// Starts a choice. A name nobody knows is refused at once, not on the day it is needed.
    fn selection(&self, backend: Option<&str>, fallback: &[String]) -> Result<Selection> {
        let roll: Vec<_> = self.backends().iter().map(|backend| backend.name()).collect();
        let selection = Selection::of(backend, fallback, &self.policy().backends, &roll);
        selection.candidates().try_for_each(|name| self.backend(name).map(drop))?;
        Ok(selection)
    }

    /// Adds to an error of the only backend that was to be used which others could be, if it is one that cannot.
    fn advise(&self, backend: &Arc<dyn Backend>, spec: &Spec, error: Error) -> Error {
        if !selection::may_move_on(error.kind) {
            return error;
        }
        let Err(refusal) = backend.fit(spec) else { return error };
        // That it is not there says more than what else is wrong with the request.
        let replaced = refusal.kind == Kind::NotAvailable && error.kind != Kind::NotAvailable;
        let mut refused = vec![Refusal::of(backend.name(), &refusal)];
        let mut fitting = Vec::new();
        for other in self.backends().iter().filter(|other| other.name() != backend.name()) {
            match other.fit(spec) {
                Ok(()) => fitting.push(other.name()),
                Err(error) => refused.push(Refusal::of(other.name(), &error)),
            }
        }
        let error = if replaced { refusal } else { error };
        let own = error.hint.clone().map(|hint| format!("{hint}. ")).unwrap_or_default();
        let error = match fitting.first() {
            Some(name) => error.hint(format!("{own}{}", instead(name))),
            None => error,
        };
        error.detail("refused", selection::listed(&refused)).detail("fitting", fitting)
    }
}

fn instead(name: &str) -> String {
    format!(
        "`{name}` could make it: say `--backend {name}`, or write `fallback = [\"{name}\"]` into the settings"
    )
}

fn keeps_no(backend: &str, what: &str) -> Error {
    Error::new(Kind::Unsupported, format!("backend `{backend}` keeps no {what}")).detail("backend", backend)
}
