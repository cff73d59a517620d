//! Which backend makes a sandbox, keeps images or volumes, or builds.

use std::sync::Arc;

use coracle_core::image::{Builder, Images};
use coracle_core::selection::{self, Refusal, Selection};
use coracle_core::volume::Volumes;
use coracle_core::{Backend, Error, Kind, Result, Spec, fit};

use super::Placement;
use crate::spans;

/// A backend that was chosen, and those that were to come before it.
pub(crate) struct Choice<'a> {
    pub backend: &'a Arc<dyn Backend>,
    pub refused: &'a [Refusal],
}

impl Placement {
    /// Does something on the first backend that can, among those that the spec and the operator name.
    ///
    /// Where one fails at it by its own fault and a fallback was written down, the next is tried: what
    /// `deed` has begun it must have ended by then.
    pub(crate) fn on_backend<T>(
        &self,
        spec: &Spec,
        mut deed: impl FnMut(Choice<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut selection = self.selection(spec.backend.as_deref(), &spec.fallback)?;
        while let Some(name) = spans::select(|| selection.next(|name| self.named(name)?.fit(spec))) {
            let backend = self.named(&name)?;
            match deed(Choice { backend, refused: selection.refused() }) {
                Ok(done) => return Ok(done),
                Err(error) if selection.is_alone() => return Err(self.advise(backend, spec, error)),
                Err(error) if !selection::may_move_on(error.kind) => return Err(error),
                Err(error) => selection.refuse(&name, &error),
            }
        }
        Err(selection.exhausted())
    }

    /// Returns the backend a caller names for something else than a sandbox, or the one the operator prefers.
    pub(crate) fn choose_backend(&self, named: Option<&str>) -> Result<&Arc<dyn Backend>> {
        let preferred = self.preference.backend.as_deref();
        let mut selection = self.selection(named.or(preferred), &[])?;
        let usable = |name: &str| fit::check_available(name, &self.named(name)?.probe());
        match selection.next(usable) {
            Some(name) => self.named(&name),
            None => Err(selection.exhausted()),
        }
    }

    /// Returns where the chosen backend keeps images.
    pub(crate) fn images(&self, named: Option<&str>) -> Result<&dyn Images> {
        self.images_of(self.choose_backend(named)?)
    }

    /// Returns where a backend keeps images.
    pub(crate) fn images_of<'a>(&self, backend: &'a Arc<dyn Backend>) -> Result<&'a dyn Images> {
        backend.images().ok_or_else(|| keeps_no(backend.name(), "images"))
    }

    /// Returns where the chosen backend keeps volumes.
    pub(crate) fn volumes(&self, named: Option<&str>) -> Result<&dyn Volumes> {
        let backend = self.choose_backend(named)?;
        backend.volumes().ok_or_else(|| keeps_no(backend.name(), "volumes"))
    }

    /// Returns a backend that can build for one that cannot.
    pub(crate) fn other_builder(&self, backend: &str) -> Result<(&Arc<dyn Backend>, &dyn Builder)> {
        let mut refused = Vec::new();
        for other in self.backends() {
            let Some(builder) = other.builder() else { continue };
            let probe = other.probe();
            if probe.available {
                return Ok((other, builder));
            }
            refused.push(format!("{}: {}", other.name(), probe.reason.unwrap_or_default()));
        }
        Err(Error::new(
            Kind::NotAvailable,
            format!("there is nothing here that builds images for `{backend}`"),
        )
        .hint("start Docker or Podman, or install `buildah`; `coracle backends` shows what is missing")
        .detail("refused", refused))
    }

    /// Starts a choice. An unknown name is refused at once, not on the day it is needed.
    fn selection(&self, backend: Option<&str>, fallback: &[String]) -> Result<Selection> {
        let roll: Vec<_> = self.backends().iter().map(|backend| backend.name()).collect();
        let selection = Selection::of(backend, fallback, &self.preference, &roll);
        selection.candidates().try_for_each(|name| self.named(name).map(drop))?;
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
