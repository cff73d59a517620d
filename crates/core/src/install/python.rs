//! Which manifests the lockfiles of Python name.

use super::manifests::Wanted;

/// Returns what a file names: included requirements, members of a uv workspace.
pub fn named(path: &str, contents: &[u8]) -> Vec<Wanted> {
    let text = String::from_utf8_lossy(contents);
    match path {
        "uv.lock" => in_lockfile(&text),
        "pyproject.toml" | "pylock.toml" => Vec::new(),
        path if path.ends_with("pyproject.toml") => Vec::new(),
        _ => included(&text),
    }
}

/// uv's lockfile names each member by its directory.
fn in_lockfile(text: &str) -> Vec<Wanted> {
    let Ok(lock) = toml::from_str::<toml::Table>(text) else { return Vec::new() };
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let sources = packages.filter_map(|package| package.get("source"));
    let directories = sources.filter_map(|source| {
        ["editable", "virtual", "directory"].iter().find_map(|kind| source.get(kind)?.as_str())
    });
    directories.map(|directory| Wanted::File(format!("{directory}/pyproject.toml"))).collect()
}

/// pip reads `-r FILE`, `-rFILE`, `--requirement FILE`, `--requirement=FILE`, and the same for constraints.
fn included(text: &str) -> Vec<Wanted> {
    let options = ["--requirement", "--constraint", "-r", "-c"];
    let named = text.lines().filter_map(|line| {
        let line = line.trim();
        let rest = options.iter().find_map(|option| line.strip_prefix(option))?;
        let name = rest.trim_start_matches(['=', ' ', '\t']).split(" #").next()?.trim();
        (!name.is_empty() && !name.contains("://")).then(|| Wanted::File(name.to_owned()))
    });
    named.collect()
}
