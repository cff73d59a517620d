//! Settings about models without a token at the daemon's `/mcp`: the sandboxes they get.

use coracle_core::ceiling::{Choice, Choices};
use coracle_core::spec::SpecInput;
use coracle_core::{Ceiling, Policy, Result};

use super::layers::{Found, Layers};
use super::{Setting, file, setting};

/// What models get: a spec, and which of its fields they may choose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Models {
    pub spec: SpecInput,
    pub let_choose: Choices,
}

impl Models {
    /// Returns the ceiling of models without a token.
    pub fn ceiling(&self, policy: &Policy) -> Result<Ceiling> {
        Ceiling::of_model(self.spec.clone(), self.let_choose.clone(), policy)
    }
}

/// All settings about models, resolved.
#[derive(Debug)]
pub struct McpSettings {
    pub models: Found<Models>,
}

impl McpSettings {
    pub(super) fn from(layers: &Layers<'_>) -> Self {
        let written = |file: &file::File| {
            let file::Mcp { let_choose, spec } = file.mcp.clone()?;
            Some(Models { spec, let_choose: let_choose.into_iter().collect() })
        };
        Self { models: layers.of_file(written, Models::default()) }
    }

    /// Refuses settings that the operator's own policy does not allow.
    pub fn check(&self, policy: &Policy) -> Result<()> {
        self.models.clone().checked(|models| models.ceiling(policy).map(drop)).map(drop)
    }

    /// Returns every setting for display.
    pub fn settings(&self) -> Vec<Setting> {
        let Models { spec, let_choose } = &self.models.value;
        let shown = match *spec == SpecInput::default() {
            true => "the default sandbox, without network and mounts".to_owned(),
            false => serde_json::to_string(spec).unwrap_or_default(),
        };
        let chosen: Vec<_> = let_choose.iter().map(Choice::name).collect();
        let chosen = if chosen.is_empty() { "nothing".to_owned() } else { chosen.join(", ") };
        vec![
            setting("mcp", shown, &self.models.source),
            setting("mcp.let_choose", chosen, &self.models.source),
        ]
    }
}
