//! Files by `fs` and `cp`.

use coracle_tests::{Home, requires};

#[test]
fn bytes_come_back_as_they_went() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    // Over the size of one frame, and nothing any text rule would leave alone.
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();

    home.call(["fs", "write", &sandbox, "deep/down/blob"]).stdin(bytes.clone()).succeed();

    assert!(home.call(["fs", "read", &sandbox, "deep/down/blob"]).succeed().stdout == bytes);
    let size = home.exec(&sandbox, ["stat", "-c", "%s", "/workspace/deep/down/blob"]).succeed();
    assert_eq!(size.text(), "3000000\n");
}

#[test]
fn list_stat_move_and_delete() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.exec(&sandbox, ["sh", "-c", "mkdir -p d/e; printf abc > d/f; ln -s f d/l"]).succeed();

    let listed = home.call(["fs", "list", &sandbox, "d", "--json"]).succeed().json();
    let mut entries: Vec<_> = listed.as_array().expect("entries").iter().collect();
    entries.sort_by_key(|entry| entry["path"].to_string());
    assert_eq!(entries.len(), 3, "{listed}");
    assert!(entries[1]["path"].as_str().is_some_and(|path| path.ends_with('f')), "{listed}");
    assert_eq!((&entries[1]["type"], &entries[1]["size"]), (&"file".into(), &3.into()), "{listed}");

    let stat = home.call(["fs", "stat", &sandbox, "d/f", "--json"]).succeed().json();
    assert_eq!(stat["size"], 3, "{stat}");

    home.call(["fs", "move", &sandbox, "d/f", "d/g"]).succeed();
    assert_eq!(home.call(["fs", "read", &sandbox, "d/g"]).succeed().text(), "abc");
    let directory = home.call(["fs", "delete", &sandbox, "d", "--json"]).run();
    assert!(["invalid", "conflict", "execution_failed"].contains(&directory.error_kind().as_str()));
    home.call(["fs", "delete", &sandbox, "d", "--recursive"]).succeed();
    assert_eq!(home.call(["fs", "stat", &sandbox, "d", "--json"]).run().error_kind(), "not_found");
}

#[test]
fn a_failing_file_operation_names_the_errno() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.exec(&sandbox, ["sh", "-c", "mkdir d; echo 1 > f"]).succeed();
    let errno = |arguments: &[&str]| {
        let error = home.call(arguments.iter().chain(&["--json"])).stdin("x").run().error();
        error["details"]["errno"].as_str().unwrap_or_else(|| panic!("no errno: {error}")).to_owned()
    };

    assert_eq!(errno(&["fs", "read", &sandbox, "none"]), "ENOENT");
    assert_eq!(errno(&["fs", "read", &sandbox, "d"]), "EISDIR");
    assert_eq!(errno(&["fs", "read", &sandbox, "f/below"]), "ENOTDIR");
    assert_eq!(errno(&["fs", "write", &sandbox, "--no-overwrite", "f"]), "EEXIST");
    assert_eq!(home.call(["fs", "read", &sandbox, "f"]).succeed().text(), "1\n");
}

#[test]
fn a_name_that_is_not_utf8_is_listed_whole() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.exec(&sandbox, ["python3", "-c", "open(b'/workspace/caf\\xe9','w')"]).succeed();

    let listed = home.call(["fs", "list", &sandbox, ".", "--json"]).succeed().json();

    let encoded = listed[0]["path_b64"].as_str().unwrap_or_else(|| panic!("no path_b64: {listed}"));
    let decoded =
        base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded).expect("base64");
    assert!(decoded.ends_with(b"caf\xe9"), "{decoded:?}");
}

#[test]
fn cp_goes_either_way() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let directory = tempfile::tempdir().expect("a directory can be made");
    let (there, back) = (directory.path().join("there"), directory.path().join("back"));
    std::fs::write(&there, b"round trip").expect("the directory is ours");

    home.call([there.as_os_str(), format!("{sandbox}:copy").as_ref()].into_iter().fold(
        vec!["cp".into()],
        |mut all: Vec<std::ffi::OsString>, one| {
            all.push(one.to_owned());
            all
        },
    ))
    .succeed();
    home.call(["cp", &format!("{sandbox}:copy"), &back.to_string_lossy()]).succeed();

    assert_eq!(std::fs::read(&back).expect("cp wrote it"), b"round trip");
}

#[test]
fn a_symlink_leads_nowhere_but_into_the_sandbox() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let canary = tempfile::NamedTempFile::new().expect("a file can be made");
    std::fs::write(canary.path(), "host canary").expect("the file is ours");
    let target = canary.path().to_string_lossy().into_owned();
    home.exec(&sandbox, ["ln", "-s", &target, "escape"]).succeed();
    home.exec(&sandbox, ["ln", "-s", "/", "top"]).succeed();

    let read = home.call(["fs", "read", &sandbox, "escape", "--json"]).run();
    assert!(!String::from_utf8_lossy(&read.stdout).contains("host canary"));
    let through =
        home.call(["fs", "write", &sandbox, &format!("top{target}"), "--json"]).stdin("overwritten").run();

    assert!(through.code().is_some());
    assert_eq!(std::fs::read_to_string(canary.path()).expect("the file is ours"), "host canary");
}

#[test]
fn a_place_where_something_is_mounted_is_not_emptied() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.call(["fs", "write", &sandbox, "kept"]).stdin("kept").succeed();

    for place in ["/workspace", "/usr", "/dev", "/proc"] {
        let refused = home.call(["fs", "delete", &sandbox, place, "--recursive", "--json"]).run();
        assert!(refused.code() == Some(125), "{place} was deleted");
    }
    home.call(["fs", "delete", &sandbox, "/usr/share/doc", "--recursive"]).succeed();

    assert_eq!(home.call(["fs", "read", &sandbox, "kept"]).succeed().text(), "kept");
    home.exec(&sandbox, ["test", "!", "-e", "/usr/share/doc"]).succeed();
    assert!(std::path::Path::new("/usr/share/doc").exists());
}

#[test]
fn cp_keeps_empty_directories_either_way() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let local = tempfile::tempdir().expect("a directory can be made");
    std::fs::create_dir_all(local.path().join("tree/empty")).expect("it is ours");
    let tree = local.path().join("tree").display().to_string();
    let back = local.path().join("back").display().to_string();

    home.call(["cp", &tree, &format!("{sandbox}:tree")]).succeed();
    home.call(["cp", &format!("{sandbox}:tree"), &back]).succeed();

    assert_eq!(home.exec(&sandbox, ["find", "tree"]).succeed().text(), "tree\ntree/empty\n");
    assert!(local.path().join("back/empty").is_dir());
}
