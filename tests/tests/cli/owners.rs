//! Who owns files in a workspace where commands do not run as root.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use coracle_tests::{Home, requires};
use tempfile::TempDir;

const OWNER: u32 = 4321;

/// Returns a directory that belongs to a user, which no other user may look into.
fn project() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory can be made");
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700)).expect("it is ours");
    let file = directory.path().join("theirs");
    std::fs::write(&file, "from outside\n").expect("a file can be written");
    for path in [directory.path(), &file] {
        chown(path, Some(OWNER), Some(OWNER + 1)).expect("root gives files away");
    }
    directory
}

fn text(directory: &TempDir) -> &str {
    directory.path().to_str().expect("temporary paths are text")
}

fn owner(path: &Path) -> (u32, u32) {
    let found = path.metadata().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (found.uid(), found.gid())
}

#[test]
fn a_workspace_is_writable_by_the_user_of_a_one_shot() {
    requires!(native);
    let (home, project) = (Home::new(), project());
    let script = "stat -c %u:%g . theirs; echo more >> theirs; touch a; mkdir deep; mv a deep";

    let ran = home
        .call(["run", "--workspace", text(&project), "--user", "1000", "--", "sh", "-c", script])
        .succeed();

    assert_eq!(ran.text(), "1000:1000\n1000:1000\n");
    for name in ["theirs", "deep", "deep/a"] {
        assert_eq!(owner(&project.path().join(name)), (OWNER, OWNER + 1), "{name}");
    }
}

#[test]
fn a_sandbox_has_the_user_it_was_opened_with_and_its_workspace_is_theirs() {
    requires!(native);
    let (home, project) = (Home::new(), project());
    let sandbox = home.open_with(&["--workspace", text(&project), "--user", "1000:1000", "--key", "k"]);

    home.exec(&sandbox, ["sh", "-c", "test $(id -u) = 1000 && touch a"]).succeed();
    std::fs::write(project.path().join("later"), "x").expect("a file can be written");
    chown(project.path().join("later"), Some(OWNER), Some(OWNER + 1)).expect("root gives files away");
    home.exec(&sandbox, ["sh", "-c", "echo y >> later && rm theirs"]).succeed();

    assert_eq!(owner(&project.path().join("a")), (OWNER, OWNER + 1));
    assert_eq!(home.open_with(&["--key", "k", "--user", "1000:1000"]), sandbox);
    let other = home.call(["open", "--key", "k", "--user", "7", "--json"]).run();
    assert_eq!(other.error_kind(), "conflict");
}

#[test]
fn another_user_of_the_sandbox_has_no_id_of_the_host_and_can_still_write() {
    requires!(native);
    let (home, project) = (Home::new(), project());
    std::fs::set_permissions(project.path(), std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    let sandbox = home.open_with(&["--workspace", text(&project), "--user", "1000"]);

    for user in ["root", "77"] {
        let name = format!("of-{user}");
        home.call(["exec", &sandbox, "--user", user, "--", "touch", &name]).succeed();
        let seen = home.exec(&sandbox, ["stat", "-c", "%u", &name]).succeed();
        let number = if user == "root" { "0" } else { user };
        assert_eq!(seen.text().trim_end(), number);
        let (uid, _) = owner(&project.path().join(&name));
        assert!(uid >= 0x2000_0000, "it belongs to {uid}, which may be a user of the host");
    }
}

#[test]
fn what_is_written_over_a_directory_is_the_users_own() {
    requires!(native);
    let (home, project) = (Home::new(), project());
    let mount = format!("{}:/m:overlay", text(&project));

    home.call([
        "run",
        "--mount",
        &mount,
        "--user",
        "1000",
        "--",
        "sh",
        "-c",
        "cd /m && touch new && rm theirs",
    ])
    .succeed();

    assert!(project.path().join("theirs").exists() && !project.path().join("new").exists());
}

#[test]
fn the_own_workspace_of_a_sandbox_is_its_users() {
    requires!(native);
    let home = Home::new();

    home.call(["run", "--user", "1000", "--", "touch", "a"]).succeed();
    home.call(["run", "--user", "1000", "--volume", "data", "--", "touch", "b"]).succeed();
    home.call(["run", "--volume", "data", "--", "touch", "c"]).succeed();
}

#[test]
fn a_volume_stays_whose_it_is_while_a_sandbox_uses_it() {
    requires!(native);
    let home = Home::new();
    let first = home.open_with(&["--volume", "data", "--user", "1000"]);
    let second = home.open_with(&["--volume", "data", "--user", "2000"]);

    home.exec(&first, ["touch", "by-first"]).succeed();
    home.exec(&second, ["touch", "by-second"]).run().expect_code(1);
    home.call(["close", &first, &second]).succeed();

    home.call(["run", "--volume", "data", "--user", "2000", "--", "touch", "by-third"]).succeed();
}

#[test]
fn without_root_there_is_one_user_and_another_is_refused() {
    requires!(native);
    let home = Home::ordinary();

    let refused = home.call(["open", "--user", "1000", "--json"]).run();

    assert_eq!(refused.error_kind(), "unsupported");
    home.call(["run", "--user", "root", "--", "touch", "a"]).succeed();
    assert!(home.live().is_empty());
}
