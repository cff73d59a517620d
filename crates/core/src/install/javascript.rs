//! Which manifests the lockfiles and manifests of JavaScript name.

use serde_json::Value;

use super::manifests::Wanted;

const MANIFEST: &str = "package.json";

/// Returns what a file names: members of the workspace.
pub fn named(path: &str, contents: &[u8]) -> Vec<Wanted> {
    match path {
        "package-lock.json" | "npm-shrinkwrap.json" => in_lockfile(contents),
        MANIFEST => in_manifest(contents),
        _ => Vec::new(),
    }
}

/// npm's lockfiles list each member under its path; what is installed is below a `node_modules`.
fn in_lockfile(contents: &[u8]) -> Vec<Wanted> {
    let Ok(lock) = serde_json::from_slice::<Value>(contents) else { return Vec::new() };
    let packages = lock["packages"].as_object().into_iter().flatten();
    let members = packages
        .map(|(path, _)| path)
        .filter(|path| !path.is_empty() && !path.split('/').any(|part| part == "node_modules"));
    members.map(|path| Wanted::File(format!("{path}/{MANIFEST}"))).collect()
}

fn in_manifest(contents: &[u8]) -> Vec<Wanted> {
    let Ok(manifest) = serde_json::from_slice::<Value>(contents) else { return Vec::new() };
    let workspaces = &manifest["workspaces"];
    let listed = workspaces.as_array().or_else(|| workspaces["packages"].as_array());
    let patterns = listed.into_iter().flatten().filter_map(Value::as_str);
    patterns.filter_map(|pattern| members(pattern, MANIFEST)).collect()
}

/// Reads a pattern of members: a directory, or all directories directly below one. Others are passed over.
pub(super) fn members(pattern: &str, file: &'static str) -> Option<Wanted> {
    let pattern = pattern.trim_start_matches("./").trim_end_matches('/');
    match pattern.strip_suffix("/*").or((pattern == "*").then_some("")) {
        Some(directory) if !directory.contains(['*', '?', '[', '{', '!']) => {
            Some(Wanted::Members { directory: directory.to_owned(), file })
        }
        None if !pattern.contains(['*', '?', '[', '{', '!']) => {
            Some(Wanted::File(format!("{pattern}/{file}")))
        }
        Some(_) | None => None,
    }
}
