//! Directories brought into a sandbox, and volumes that outlive them.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use coracle_tests::home::ORDINARY;
use coracle_tests::{Home, requires};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Returns a directory that belongs to a user, with a file of theirs in it.
fn project(owner: u32) -> TempDir {
    let directory = tempfile::Builder::new().prefix("project-").tempdir().expect("a directory can be made");
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755))
        .expect("its mode can be set");
    let file = directory.path().join("theirs");
    std::fs::write(&file, "from outside\n").expect("a file can be written");
    for path in [directory.path(), &file] {
        chown(path, Some(owner), Some(owner)).expect("root gives files away");
    }
    directory
}

fn open(home: &Home, mounts: &Value) -> String {
    let opened = home.operation("sandbox_open", &json!({"mounts": mounts})).succeed().json();
    opened["sandbox_id"].as_str().expect("an id").to_owned()
}

fn path(directory: &TempDir) -> &str {
    directory.path().to_str().expect("temporary paths are text")
}

fn owner(path: &Path) -> (u32, u32) {
    let found = path.metadata().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (found.uid(), found.gid())
}

/// Works in a mounted project from inside, and looks at it from outside.
fn expect_shared(home: &Home, project: &TempDir, caller: u32) {
    let sandbox = open(home, &json!([{"source": path(project), "target": "/workspace"}]));

    let seen =
        home.exec(&sandbox, ["sh", "-c", "stat -c %u:%g theirs; cat theirs; echo inside > ours"]).succeed();

    assert_eq!(seen.text(), "0:0\nfrom outside\n");
    assert_eq!(owner(&project.path().join("ours")), (caller, caller));
    home.exec(&sandbox, ["sh", "-c", "echo changed >> theirs; mkdir -p deep/er; mv ours deep"]).succeed();
    assert_eq!(owner(&project.path().join("deep/er")), (caller, caller));
    std::fs::write(project.path().join("later"), "still shared\n").expect("a file can be written");
    chown(project.path().join("later"), Some(caller), Some(caller)).expect("root gives files away");
    assert_eq!(home.exec(&sandbox, ["sh", "-c", "cat later && rm later"]).succeed().text(), "still shared\n");
    home.call(["close", &sandbox, "--delete-workspace"]).run();
    let theirs =
        std::fs::read_to_string(project.path().join("theirs")).expect("a directory of the machine stays");
    assert_eq!(theirs, "from outside\nchanged\n");
}

#[test]
fn files_created_inside_belong_to_the_projects_owner_on_the_host_and_back() {
    requires!(native);
    for caller in [0, 1000, ORDINARY] {
        expect_shared(&Home::new(), &project(caller), caller);
    }
}

#[test]
fn an_ordinary_user_shares_a_project_the_same_way() {
    requires!(native);
    expect_shared(&Home::ordinary(), &project(ORDINARY), ORDINARY);
}

#[test]
fn files_of_others_in_a_project_stay_out_of_reach() {
    requires!(native);
    let home = Home::new();
    let project = project(1000);
    let secret = project.path().join("secret");
    std::fs::write(&secret, "root's").expect("a file can be written");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).expect("its mode can be set");
    let sandbox = open(&home, &json!([{"source": path(&project), "target": "/workspace"}]));

    let tried = home.exec(&sandbox, ["sh", "-c", "cat secret || chown 0:0 secret || chmod 777 secret"]).run();

    assert_ne!(tried.code(), Some(0), "{tried}");
    assert!(!tried.text().contains("root's"), "{tried}");
    assert_eq!(secret.metadata().expect("it is there").mode() & 0o777, 0o600);
}

#[test]
fn whose_directory_it_is_gives_no_right_to_what_others_have_in_it() {
    requires!(native);
    let home = Home::new();
    let shared = project(0);
    let theirs = shared.path().join("alice");
    std::fs::create_dir(&theirs).expect("a directory can be made");
    std::fs::write(theirs.join("diary"), "dear diary").expect("a file can be written");
    for path in [theirs.join("diary"), theirs.clone()] {
        chown(&path, Some(1000), Some(1000)).expect("root gives files away");
    }
    std::fs::set_permissions(&theirs, std::fs::Permissions::from_mode(0o700)).expect("its mode can be set");
    let mount = format!("{}:/m", path(&shared));

    for flags in [["--user", "1000"], ["--privileges", "install"]] {
        let script = "cat /m/alice/diary; chown 0:0 /m/alice/diary";
        let tried = home
            .call(["run", "--mount", &mount].iter().chain(&flags).chain(&["--", "sh", "-c", script]))
            .run();

        assert!(!tried.text().contains("dear"), "{tried}");
        assert_eq!(owner(&theirs.join("diary")), (1000, 1000));
    }
}

#[test]
fn a_volume_may_be_mounted_twice_and_many_may_want_the_same_ones_in_any_order() {
    requires!(native);
    let home = Home::new();

    let twice =
        home.call(["run", "--mount", "v:/a", "--mount", "v:/b", "--", "sh", "-c", "echo x > /a/f; cat /b/f"]);
    assert_eq!(twice.succeed().text(), "x\n");

    let orders = [["v:/x", "w:/y"], ["w:/x", "v:/y"]];
    let run =
        |[one, other]: [&str; 2]| home.call(["run", "--mount", one, "--mount", other, "--", "true"]).start();
    let runs: Vec<_> = (0..8).map(|round| run(orders[round % 2])).collect();
    for run in runs {
        run.finish().expect_code(0);
    }
}

#[test]
fn a_read_only_mount_cannot_be_written_and_an_overlay_changes_nothing_outside() {
    requires!(native);
    let (ordinary, root) = (Home::ordinary(), Home::new());
    for (home, owner) in [(&root, 1000), (&ordinary, ORDINARY)] {
        let project = project(owner);
        let mounts = json!([
            {"source": path(&project), "target": "/fixed", "access": "ro"},
            {"source": path(&project), "target": "/cache/deep", "access": "overlay"},
        ]);
        let sandbox = open(home, &mounts);

        home.exec(&sandbox, ["sh", "-c", "! touch /fixed/new && ! mount -o remount,rw /fixed"]).succeed();
        let script = "cd /cache/deep && echo mine >> theirs && echo new > new && cat theirs";
        let changed = home.exec(&sandbox, ["sh", "-c", script]).succeed();

        assert_eq!(changed.text(), "from outside\nmine\n");
        let names: Vec<_> = std::fs::read_dir(project.path()).expect("it is there").flatten().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(
            std::fs::read_to_string(project.path().join("theirs")).expect("it is there"),
            "from outside\n"
        );
    }
}

#[test]
fn a_volume_outlives_its_sandboxes_and_may_be_in_many_at_once() {
    requires!(native);
    for home in [Home::new(), Home::ordinary()] {
        let mounts = json!([{"source": "data", "target": "/workspace"}]);
        let first = open(&home, &mounts);
        home.exec(&first, ["sh", "-c", "echo kept > note"]).succeed();
        let second = open(&home, &mounts);

        assert_eq!(home.exec(&second, ["cat", "note"]).succeed().text(), "kept\n");

        home.exec(&second, ["sh", "-c", "echo more >> note"]).succeed();
        home.call(["close", &first]).succeed();
        home.call(["close", &second]).succeed();
        let third = open(&home, &mounts);
        assert_eq!(home.exec(&third, ["cat", "note"]).succeed().text(), "kept\nmore\n");
        home.operation("volume_remove", &json!({"name": "data"})).run().expect_code(125);
        home.call(["close", &third]).succeed();
        let listed = home.operation("volume_list", &json!({})).succeed().json();
        assert_eq!(listed["volumes"][0]["name"], "data", "{listed}");
        home.operation("volume_remove", &json!({"name": "data"})).succeed();
        assert!(!home.path().join("volumes/data").exists());
    }
}

#[test]
fn a_volume_is_bounded_by_what_it_was_made_with() {
    requires!(native);
    let home = Home::new();
    let spec =
        json!({"mounts": [{"source": "small", "target": "/workspace"}], "limits": {"workspace_mb": 32}});
    let opened = home.operation("sandbox_open", &spec).succeed().json();
    let sandbox = opened["sandbox_id"].as_str().expect("an id");

    let filled = home.exec(sandbox, ["dd", "if=/dev/zero", "of=big", "bs=1M", "count=200"]).run();

    assert_ne!(filled.code(), Some(0), "{filled}");
    assert!(filled.stderr.contains("No space left"), "{filled}");
}

#[test]
fn our_own_state_and_what_is_not_a_directory_cannot_be_mounted() {
    requires!(native);
    let home = Home::new();
    home.call(["run", "--", "true"]).succeed();
    let inside = home.path().join("images");
    let sources =
        ["/", home.path().to_str().expect("text"), inside.to_str().expect("text"), "/etc/passwd", "/none"];

    for source in sources {
        let refused =
            home.operation("sandbox_open", &json!({"mounts": [{"source": source, "target": "/m"}]})).run();

        assert_eq!(refused.code(), Some(125), "{source}: {refused}");
        assert_eq!(refused.json()["error"]["kind"], "invalid", "{source}: {refused}");
    }
    home.expect_no_orphans();
}

#[test]
fn a_link_leads_to_no_directory_the_operator_does_not_allow() {
    requires!(native);
    let home = Home::new();
    let allowed = project(0);
    let elsewhere = project(0);
    std::os::unix::fs::symlink(elsewhere.path(), allowed.path().join("link")).expect("a link can be made");
    let settings = format!("[mounts]\nallow = [\"{}\"]\n", path(&allowed));
    std::fs::write(home.path().join("config.toml"), settings).expect("a home can be written");
    let mount = |source: &str| {
        home.operation(
            "sandbox_run",
            &json!({"mounts": [{"source": source, "target": "/m"}], "cmd": ["true"]}),
        )
        .run()
    };

    assert_eq!(mount(path(&allowed)).code(), Some(0));

    for refused in [path(&elsewhere), &format!("{}/link", path(&allowed))] {
        assert_eq!(mount(refused).error_kind(), "invalid", "{refused}");
    }
}

#[test]
fn deleting_a_tree_leaves_what_is_mounted_in_it() {
    requires!(native);
    for target in ["sub", "deep/sub"] {
        let (home, workspace, mounted) = (Home::new(), project(0), project(0));
        std::fs::create_dir_all(workspace.path().join(target)).expect("directories can be made");
        let sandbox = open(
            &home,
            &json!([
                {"source": path(&workspace), "target": "/workspace"},
                {"source": path(&mounted), "target": format!("/workspace/{target}")},
            ]),
        );
        let top = target.split('/').next().expect("a name");

        let refused = home.call(["fs", "delete", "-r", &sandbox, top, "--json"]).run().error();

        assert_eq!(refused["details"]["errno"], "EBUSY", "{refused}");
        assert!(refused.to_string().contains(&format!("`{target}`")), "{refused}");
        assert!(mounted.path().join("theirs").exists(), "{target} was emptied");
    }
}

/// The guest writes `hosts` there, and engines more than that.
#[test]
fn nothing_of_ours_is_written_to_a_directory_mounted_at_etc() {
    requires!(native);
    let (home, project) = (Home::new(), project(0));

    for (target, flags) in [("/etc", &[][..]), ("/etc/", &["--network", "allow=example.com"])] {
        let mount = format!("{}:{target}", path(&project));
        let words = ["run", "-v", &mount].into_iter().chain(flags.iter().copied());
        let said = home.call(words.chain(["true"])).run().expect_code(125);
        assert!(said.stderr.contains("`--mount`: TARGET is `/etc`"), "{said}");
        assert!(said.stderr.contains("hint: mount a directory below it"), "{said}");
    }
    let below = format!("{}:/etc/app", path(&project));
    let seen = home.call(["run", "-v", &below, "cat", "/etc/app/theirs"]).succeed();

    assert_eq!(seen.text(), "from outside\n");
    let left = std::fs::read_dir(project.path()).expect("it is there").count();
    assert_eq!(left, 1, "only their own file is in it");
}

#[test]
fn that_mounts_are_not_counted_is_said_once() {
    requires!(native);
    let home = Home::new();
    let (first, second) = (project(0), project(0));
    home.call(["run", "true"]).succeed();

    let opened = home.call(["open", "--workspace", path(&first)]).succeed();
    let again = home.call(["open", "--mount", &format!("{}:/src", path(&second))]).succeed();

    let note = "note: what is written to `/workspace` does not count against the disk limit: it is your own directory\n";
    assert_eq!((opened.stderr.as_str(), again.stderr.as_str()), (note, ""));
}
