//! Settings about backends: the preferred one, the fallback, and the order of `auto`.

use coracle_core::Result;
use coracle_core::selection::{Preference, check_name, check_names};

use super::layers::{Found, Layers};
use super::{Setting, Source, setting};

/// The default: part of coracle, and the backend with the most walls.
const DEFAULT: &str = "native";

/// All settings about backends, resolved.
#[derive(Debug)]
pub struct BackendSettings {
    backend: Found<Option<String>>,
    fallback: Found<Vec<String>>,
    order: Found<Option<Vec<String>>>,
}

impl BackendSettings {
    /// Resolves every setting and refuses text that no backend could be called.
    pub(super) fn from(layers: &Layers<'_>) -> Result<Self> {
        Ok(Self {
            backend: layers
                .pick(
                    "CORACLE_BACKEND",
                    |_, text| Ok(Some(text.to_owned())),
                    |file| file.backend.clone().map(Some),
                    None,
                )?
                .checked(|backend| backend.iter().try_for_each(|name| check_name("backend", name)))?,
            fallback: layers
                .pick(
                    "CORACLE_FALLBACK",
                    |_, text| Ok(names(text)),
                    |file| file.fallback.clone(),
                    Vec::new(),
                )?
                .checked(|list| check_names("fallback", list))?,
            order: layers
                .of_file(|file| file.backends.clone().map(Some), None)
                .checked(|order| order.iter().try_for_each(|list| check_names("backends", list)))?,
        })
    }

    /// Tells whether no source names a backend.
    pub fn is_default(&self) -> bool {
        self.backend.source == Source::Default
    }

    /// Uses this backend.
    pub fn adopt(&mut self, backend: &str, source: Source) {
        self.backend = Found { value: Some(backend.to_owned()), source };
    }

    /// Returns the operator's preference.
    pub fn preference(&self) -> Preference {
        Preference {
            backend: self.backend.value.clone(),
            fallback: self.fallback.value.clone(),
            order: self.order.value.clone(),
        }
    }

    /// Returns every setting for display.
    pub fn settings(&self) -> Vec<Setting> {
        let backend = self.backend.value.clone().unwrap_or_else(|| DEFAULT.to_owned());
        let fallback = match self.fallback.value.as_slice() {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        let order = match &self.order.value {
            None => "as `coracle backends` lists them".to_owned(),
            Some(names) => names.join(", "),
        };
        vec![
            setting("backend", backend, &self.backend.source),
            setting("fallback", fallback, &self.fallback.source),
            setting("backends", order, &self.order.source),
        ]
    }
}

fn names(text: &str) -> Vec<String> {
    text.split(',').map(|name| name.trim().to_owned()).collect()
}
