//! Which crate may use which. The layout is only true as long as this holds.

use serde_json::Value;

/// The fakes and conformance suites, for tests alone.
const TESTING: &str = "coracle-testing";

/// Each crate and those of ours it may use. Tests of a crate may use any; [`TESTING`] is in no list.
const ALLOWED: &[(&str, &[&str])] = &[
    ("coracle-wire", &[]),
    ("coracle-sys", &[]),
    ("coracle-guest", &["coracle-sys", "coracle-wire"]),
    ("coracle-core", &[]),
    (TESTING, &["coracle-core", "coracle-wire"]),
    ("coracle-workflow", &["coracle-core"]),
    ("coracle-unpack", &["coracle-sys"]),
    ("coracle-porter", &["coracle-sys"]),
    ("coracle-images", &["coracle-core", "coracle-sys", "coracle-unpack"]),
    ("coracle-stores", &["coracle-core"]),
    // Hostile bytes are read there: neither a store nor a backend may be in reach, nor the engine, which has both.
    ("coracle-egress", &["coracle-core", "coracle-sys", "coracle-wire"]),
    (
        "coracle-engine",
        &["coracle-core", "coracle-egress", "coracle-porter", "coracle-wire", "coracle-workflow"],
    ),
    // Runs git: neither sandboxes nor records may be in reach.
    ("coracle-git", &["coracle-core", "coracle-porter", "coracle-sys"]),
    ("coracle-backends", &["coracle-core", "coracle-images", "coracle-sys", "coracle-wire"]),
    (
        "coracle",
        &[
            "coracle-backends",
            "coracle-core",
            "coracle-engine",
            "coracle-git",
            "coracle-stores",
            "coracle-sys",
        ],
    ),
    ("coracle-service", &["coracle", "coracle-core", "coracle-engine"]),
    ("coracle-http", &["coracle", "coracle-core", "coracle-engine", "coracle-service"]),
    ("coracle-mcp", &["coracle-core", "coracle-engine", "coracle-service", "coracle-sys"]),
    (
        "coracle-cli",
        &[
            "coracle",
            "coracle-core",
            "coracle-engine",
            "coracle-http",
            "coracle-mcp",
            "coracle-service",
            "coracle-sys",
        ],
    ),
    ("coracle-bench", &["coracle", "coracle-core", "coracle-stores", "coracle-tests"]),
    // The harness makes images with what the images crate has for its own tests.
    ("coracle-tests", &["coracle-images"]),
    ("xtask", &[]),
];

/// Returns a complaint for each dependency that points the wrong way.
pub fn check(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let Some((_, allowed)) = ALLOWED.iter().find(|(crate_name, _)| *crate_name == name) else {
        return vec![format!(
            "crate `{name}` has no place in xtask/src/tidy/direction.rs; what does it forbid?"
        )];
    };
    let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shipped = |dependency: &&Value| dependency["kind"] != "dev";
    let ours = dependencies.iter().filter(shipped).filter(|dependency| !dependency["path"].is_null());
    let names = ours.filter_map(|dependency| dependency["name"].as_str());
    names
        .filter(|dependency| !allowed.contains(dependency))
        .map(|dependency| format!("crate `{name}` must not use `{dependency}` (ARCHITECTURE.md, direction)"))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn core_may_not_use_the_engine_but_its_tests_may() {
        let package = |kind: Value, optional: bool| {
            json!({"packages": [{"name": "coracle-core", "dependencies": [
                {"name": "serde", "kind": null, "optional": false, "path": null},
                {"name": "coracle-engine", "kind": kind, "optional": optional, "path": "../engine"},
            ]}]})
        };

        assert_eq!(check(&package(Value::Null, false)).len(), 1);
        assert_eq!(check(&package(json!("dev"), false)).len(), 0);
        assert_eq!(check(&package(Value::Null, true)).len(), 1, "a crate that turns the feature on ships it");
    }

    #[test]
    fn no_crate_ships_the_fakes() {
        let uses = |(name, allowed): &(&str, &[&str])| *name != TESTING && allowed.contains(&TESTING);

        assert!(!ALLOWED.iter().any(uses));
    }
}
