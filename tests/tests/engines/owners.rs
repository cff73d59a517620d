//! Images with a user of their own: that user owns the workspace, and a directory of the machine keeps its owner.

use std::os::unix::fs::{MetadataExt, chown};

use coracle_tests::engines::image;
use coracle_tests::engines::test_backend::TestBackend;
use coracle_tests::{Home, requires};

const WORKER_IMAGE: &str = "localhost/coracle-worker:1";
/// A user that the image does not have.
const OWNER: u32 = 4321;

/// Returns a home that has the image whose commands run as `worker`, and the flags that use it.
fn home(backend: TestBackend) -> (Home, Vec<String>) {
    let home = backend.home();
    let archive = home.path().join("worker.tar");
    std::fs::write(&archive, image::archive_with_user(WORKER_IMAGE, "worker")).expect("a home is ours");
    let backend = backend.name();
    let archive = archive.to_str().expect("a path of ours is text");
    home.call(["image", "load", archive, "--backend", &backend]).succeed();
    (home, ["--image", WORKER_IMAGE, "--backend", &backend].map(str::to_owned).to_vec())
}

fn run(home: &Home, flags: &[String], more: &[&str], script: &str) -> String {
    let flags = flags.iter().map(String::as_str);
    let words = ["run"].into_iter().chain(flags).chain(more.iter().copied());
    home.call(words.chain(["--", "sh", "-c", script])).succeed().text().to_owned()
}

fn expect_shared_workspace(backend: TestBackend, owner: u32) {
    let (home, flags) = home(backend);
    let project = tempfile::tempdir().expect("a directory can be made");
    std::fs::write(project.path().join("theirs"), "from outside\n").expect("a file can be written");
    for path in [project.path(), &project.path().join("theirs")] {
        chown(path, Some(owner), Some(owner)).expect("root gives files away");
    }
    let workspace = project.path().to_str().expect("temporary paths are text");

    let seen = run(
        &home,
        &flags,
        &["--workspace", workspace],
        "cat theirs; echo more >> theirs; mkdir made; touch made/file; rm -f none",
    );

    assert_eq!(seen, "from outside\n", "{backend:?}");
    for name in ["theirs", "made", "made/file"] {
        let found = project.path().join(name).metadata().expect("it was made");
        assert_eq!((found.uid(), found.gid()), (owner, owner), "{name} at {backend:?}");
    }
}

#[test]
fn a_workspace_can_be_written_natively_by_the_images_user_who_stays_themselves() {
    requires!(images);
    for owner in [0, OWNER] {
        expect_shared_workspace(TestBackend::Native, owner);
    }
    let (home, flags) = home(TestBackend::Native);
    let project = tempfile::tempdir().expect("a directory can be made");
    let workspace = project.path().to_str().expect("temporary paths are text");

    let who =
        run(&home, &flags, &["--workspace", workspace], "id -un; touch ~/mine /workspace/a && echo both");

    assert_eq!(who, "worker\nboth\n");
}

#[test]
fn a_workspace_can_be_written_on_an_engine_whatever_user_the_image_has() {
    requires!(docker);
    requires!(podman);
    for backend in [TestBackend::Docker, TestBackend::Podman] {
        for owner in [0, OWNER] {
            expect_shared_workspace(backend, owner);
        }
    }
}

#[test]
fn a_volume_on_an_engine_stays_whose_it_is_while_a_sandbox_uses_it() {
    requires!(docker);
    let (home, flags) = home(TestBackend::Docker);
    let open = |user: &str| {
        let flags = flags.iter().map(String::as_str).chain(["--volume", "data", "--user", user]);
        home.open_with(&flags.collect::<Vec<_>>())
    };
    let (first, second) = (open("1000"), open("2000"));

    home.exec(&first, ["touch", "by-first"]).succeed();
    home.exec(&second, ["touch", "by-second"]).run().expect_code(1);
    home.call(["close", &first, &second]).succeed();

    run(&home, &flags, &["--volume", "data", "--user", "2000"], "touch by-third");
    home.call(["volume", "remove", "data", "--backend", "docker"]).succeed();
}

#[test]
fn a_volume_can_be_written_by_the_user_commands_run_as() {
    requires!(docker);
    requires!(podman);
    for backend in [TestBackend::Native, TestBackend::Docker, TestBackend::Podman] {
        let (home, flags) = home(backend);
        let script = "id -un; touch $(id -un) && echo written";

        for (user, who) in [(None, "worker"), (Some("root"), "root"), (Some("nobody"), "nobody")] {
            let mut more = vec!["--volume", "data"];
            more.extend(user.iter().flat_map(|user| ["--user", user]));
            assert_eq!(run(&home, &flags, &more, script), format!("{who}\nwritten\n"), "{backend:?}");
        }
        home.call(["volume", "remove", "data", "--backend", &backend.name()]).succeed();
    }
}
