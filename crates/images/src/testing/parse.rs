//! The parsers of registry documents, for fuzzing: each checks that what it accepted is within its bounds.

use crate::manifest::{CONFIG_MAX, Configuration, Document, LAYER_MAX, LAYERS_MAX, choose};

/// Reads a manifest or an index.
pub fn document(bytes: &[u8], media_type: Option<&str>) {
    match Document::parse(bytes, media_type) {
        Ok(Document::Manifest(manifest)) => {
            assert!(manifest.layers.len() <= LAYERS_MAX && manifest.config.size <= CONFIG_MAX);
            assert!(
                manifest.layers.iter().all(|layer| layer.size <= LAYER_MAX && layer.digest.hex().len() == 64)
            );
        }
        Ok(Document::Index(offered)) => drop(choose(&offered)),
        Err(_) => {}
    }
}

/// Reads a configuration.
pub fn configuration(bytes: &[u8]) {
    let Ok(configuration) = Configuration::parse(bytes) else { return };
    assert!(configuration.diff_ids.len() <= LAYERS_MAX);
    let is_variable = |(name, value): &(String, String)| {
        !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
    };
    assert!(configuration.env.iter().all(is_variable));
    let _ = configuration.check(LAYERS_MAX);
}
