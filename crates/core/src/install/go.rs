//! Which manifests those of Go name.

use super::manifests::Wanted;

/// Returns what a file names: modules of the workspace, and modules replaced by a directory.
pub fn named(path: &str, contents: &[u8]) -> Vec<Wanted> {
    let text = String::from_utf8_lossy(contents);
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default().trim());
    let directories: Vec<String> = match path.rsplit('/').next() {
        Some("go.work") => lines
            .map(|line| line.strip_prefix("use ").unwrap_or(line).trim_matches(['"', ' ']))
            .filter(|word| word.starts_with("./") || *word == ".")
            .map(str::to_owned)
            .collect(),
        Some("go.mod") => lines
            .filter_map(|line| line.split_once("=>"))
            .map(|(_, target)| target.trim().trim_matches('"'))
            .filter(|target| target.starts_with("./") || target.starts_with("../"))
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    };
    let files =
        |directory: String| ["go.mod", "go.sum"].map(|name| Wanted::File(format!("{directory}/{name}")));
    directories.into_iter().flat_map(files).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_a_workspace_and_replacements_are_named() {
        let file = |path: &str| Wanted::File(path.to_owned());

        let work = named("go.work", b"go 1.22\nuse (\n\t./a\n\t\"./b\" // two\n)\nuse ./c\n");
        assert_eq!(work.len(), 6);
        assert_eq!(work[0], file("./a/go.mod"));
        let module =
            named("go.mod", b"module x\nreplace ok.test/y => ./y\nreplace ok.test/z => ok.test/w v1.0.0\n");
        assert_eq!(module, [file("./y/go.mod"), file("./y/go.sum")]);
    }
}
