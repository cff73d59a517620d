//! Which manifests those of Rust name, and the empty sources cargo insists on beside them.

use toml::{Table, Value};

use super::javascript::members;
use super::manifests::Wanted;

const MANIFEST: &str = "Cargo.toml";

/// Returns what a file names: members of the workspace, and dependencies by path.
pub fn named(path: &str, contents: &[u8]) -> Vec<Wanted> {
    if !path.ends_with(MANIFEST) {
        return Vec::new();
    }
    let Some(manifest) = read(contents) else { return Vec::new() };
    let workspace = manifest.get("workspace");
    let listed = workspace.and_then(|workspace| workspace.get("members")?.as_array()).into_iter().flatten();
    let mut named: Vec<_> = listed.filter_map(|member| members(member.as_str()?, MANIFEST)).collect();
    let mut paths = Vec::new();
    manifest.iter().for_each(|(name, value)| dependencies(name, value, &mut paths));
    named.extend(paths.into_iter().map(|path| Wanted::File(format!("{path}/{MANIFEST}"))));
    named
}

/// Finds the tables of dependencies wherever they are: at the top, for a target, for the workspace, as a patch.
fn dependencies(name: &str, value: &Value, found: &mut Vec<String>) {
    let Some(table) = value.as_table() else { return };
    match name {
        "bin" | "lib" | "example" | "test" | "bench" | "package" => {}
        _ => {
            for (name, value) in table {
                match (name.as_str(), value.as_str()) {
                    ("path", Some(path)) => found.push(path.to_owned()),
                    _ => dependencies(name, value, found),
                }
            }
        }
    }
}

/// Returns the sources a manifest needs to be read: cargo refuses a package without a target, and a target without its
/// file where the manifest does not say which that is.
pub fn stubs(contents: &[u8]) -> Vec<String> {
    let Some(manifest) = read(contents) else { return Vec::new() };
    if !manifest.contains_key("package") {
        return Vec::new();
    }
    let mut stubs = vec!["src/lib.rs".to_owned(), "src/main.rs".to_owned()];
    for (kind, directory) in
        [("bin", "src/bin"), ("example", "examples"), ("test", "tests"), ("bench", "benches")]
    {
        let targets = manifest.get(kind).and_then(Value::as_array).into_iter().flatten();
        for target in targets {
            let text = |name| target.get(name).and_then(Value::as_str).map(str::to_owned);
            let file = || Some(format!("{directory}/{}.rs", text("name")?));
            stubs.extend(text("path").or_else(file));
        }
    }
    stubs.extend(manifest.get("lib").and_then(|lib| Some(lib.get("path")?.as_str()?.to_owned())));
    stubs
}

fn read(contents: &[u8]) -> Option<Table> {
    toml::from_str(std::str::from_utf8(contents).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_a_path_gets_a_source_by_its_name() {
        let manifest = b"[package]\nname = \"a\"\n[[bin]]\nname = \"tool\"\n[[test]]\nname = \"t\"\npath = \"odd/t.rs\"\n";

        assert_eq!(stubs(manifest), ["src/lib.rs", "src/main.rs", "src/bin/tool.rs", "odd/t.rs"]);
        assert!(stubs(b"[workspace]\nmembers = []\n").is_empty());
    }

    #[test]
    fn paths_are_found_for_targets_and_patches_too() {
        let manifest = b"[target.'cfg(unix)'.dependencies]\na = { path = \"a\" }\n[patch.crates-io]\nb = { path = \"b\" }\n\
                         [lib]\npath = \"src/x.rs\"\n[workspace.dependencies]\nc = { path = \"c\" }\n";

        let mut named = named("Cargo.toml", manifest);
        named.sort();

        let file = |path: &str| Wanted::File(format!("{path}/Cargo.toml"));
        assert_eq!(named, [file("a"), file("b"), file("c")]);
    }
}
