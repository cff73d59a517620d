//! Contexts of builds, hostile ones included: the archive has what is in the directory, and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use coracle_backends::context::Context;
use coracle_core::Kind;
use coracle_core::image::Recipe;
use coracle_core::image::build::RecipeInput;
use coracle_core::limits::Ranges;
use tempfile::TempDir;

fn recipe(directory: &Path) -> Recipe {
    let context = directory.to_str().expect("temporary paths are UTF-8").to_owned();
    let input = RecipeInput { context, tag: "app".to_owned(), ..RecipeInput::default() };
    Recipe::resolve(input, &Ranges::default()).expect("valid")
}

fn directory() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory can be made");
    fs::write(directory.path().join("Dockerfile"), "FROM scratch\n").expect("ours");
    directory
}

/// What an archive has under a name: its kind, and its content or its target.
type Entries = BTreeMap<String, (tar::EntryType, String)>;

fn packed(directory: &Path) -> Entries {
    let mut archive = Vec::new();
    Context::open(&recipe(directory)).expect("a context").pack(&mut archive).expect("it can be packed");
    let mut entries = Entries::new();
    for entry in tar::Archive::new(archive.as_slice()).entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a path").display().to_string();
        let link = entry.link_name().expect("readable").map(|target| target.display().to_string());
        let mut contents = String::new();
        entry.read_to_string(&mut contents).expect("text");
        assert_eq!((entry.header().uid().ok(), entry.header().gid().ok()), (Some(0), Some(0)), "{name}");
        entries.insert(name, (entry.header().entry_type(), link.unwrap_or(contents)));
    }
    entries
}

fn names(entries: &Entries) -> Vec<&str> {
    entries.keys().map(|name| name.trim_end_matches('/')).collect()
}

#[test]
fn files_directories_and_modes_are_packed() {
    let context = directory();
    fs::create_dir(context.path().join("src")).expect("ours");
    fs::write(context.path().join("src/run"), "#!/bin/sh\n").expect("ours");
    fs::set_permissions(context.path().join("src/run"), fs::Permissions::from_mode(0o755)).expect("ours");
    let long = "n".repeat(200);
    fs::write(context.path().join(&long), "long").expect("ours");

    let entries = packed(context.path());

    assert_eq!(names(&entries), ["Dockerfile", long.as_str(), "src", "src/run"]);
    assert_eq!(entries["src/run"], (tar::EntryType::Regular, "#!/bin/sh\n".to_owned()));
}

#[test]
fn a_link_is_sent_as_a_link_and_what_it_leads_to_is_not() {
    let (context, outside) = (directory(), tempfile::tempdir().expect("a directory"));
    fs::write(outside.path().join("secret"), "s3cret").expect("ours");
    symlink(outside.path().join("secret"), context.path().join("file")).expect("ours");
    symlink(outside.path(), context.path().join("directory")).expect("ours");
    symlink("..", context.path().join("up")).expect("ours");

    let entries = packed(context.path());

    assert_eq!(names(&entries), ["Dockerfile", "directory", "file", "up"]);
    for link in ["directory", "file", "up"] {
        assert_eq!(entries[link].0, tar::EntryType::Symlink, "{link}");
    }
    assert_eq!(entries["file"].1, outside.path().join("secret").display().to_string());
}

#[test]
fn pipes_and_sockets_are_left_out_and_not_waited_for() {
    let context = directory();
    let _socket = UnixListener::bind(context.path().join("socket")).expect("a socket");
    let made = std::process::Command::new("mkfifo").arg(context.path().join("pipe")).status();
    assert!(made.is_ok_and(|status| status.success()));

    assert_eq!(names(&packed(context.path())), ["Dockerfile"]);
}

#[test]
fn what_the_ignore_file_names_is_not_sent() {
    let context = directory();
    fs::write(context.path().join(".dockerignore"), "# not this\n*\n!src\n**/*.key\n").expect("ours");
    fs::create_dir_all(context.path().join("src/deep")).expect("ours");
    for file in ["secret", "src/main", "src/deep/a.key", "src/deep/b"] {
        fs::write(context.path().join(file), "x").expect("ours");
    }

    let entries = packed(context.path());

    assert_eq!(names(&entries), [".dockerignore", "Dockerfile", "src", "src/deep", "src/deep/b", "src/main"]);
}

#[test]
fn a_dockerfile_or_ignore_file_outside_is_not_read() {
    let (context, outside) = (directory(), tempfile::tempdir().expect("a directory"));
    fs::remove_file(context.path().join("Dockerfile")).expect("ours");
    symlink(outside.path().join("Dockerfile"), context.path().join("Dockerfile")).expect("ours");
    fs::write(outside.path().join("Dockerfile"), "FROM scratch\n").expect("ours");

    let no_dockerfile = Context::open(&recipe(context.path())).expect_err("it leads out");
    fs::remove_file(context.path().join("Dockerfile")).expect("ours");
    fs::write(context.path().join("Containerfile"), "FROM scratch\n").expect("ours");
    symlink("/etc/passwd", context.path().join(".dockerignore")).expect("ours");
    let no_ignore_file = Context::open(&recipe(context.path())).expect_err("it leads out");

    assert_eq!(no_dockerfile.kind, Kind::NotFound);
    assert_eq!(no_ignore_file.kind, Kind::Invalid);
}

#[test]
fn a_containerfile_will_do_and_a_dockerfile_comes_first() {
    let context = directory();
    fs::write(context.path().join("Containerfile"), "FROM scratch\n").expect("ours");

    let both = Context::open(&recipe(context.path())).expect("a context").dockerfile().to_owned();
    fs::remove_file(context.path().join("Dockerfile")).expect("ours");
    let one = Context::open(&recipe(context.path())).expect("a context").dockerfile().to_owned();

    assert_eq!((both.as_str(), one.as_str()), ("Dockerfile", "Containerfile"));
}

#[test]
fn a_tree_too_deep_is_refused() {
    let context = directory();
    let deep = (0..200).fold(context.path().to_owned(), |path, _| path.join("d"));
    fs::create_dir_all(deep).expect("ours");

    let refused = Context::open(&recipe(context.path())).expect("a context").pack(std::io::sink());

    assert!(refused.expect_err("too deep").to_string().contains("directories deep"));
}

#[test]
fn an_enormous_file_is_refused_before_it_is_read() {
    let context = directory();
    let file = fs::File::create(context.path().join("hole")).expect("ours");
    file.set_len(1 << 40).expect("a sparse file");

    let refused = Context::open(&recipe(context.path())).expect("a context").pack(std::io::sink());

    assert!(refused.expect_err("too large").to_string().contains("`hole`"));
}
