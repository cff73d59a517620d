//! Files of an image whose commands do not run as root, on every backend.

use coracle_tests::engines::image::{WORKER_IMAGE, worker_archive};
use coracle_tests::engines::test_backend::TestBackend;
use coracle_tests::engines::{docker, podman};
use coracle_tests::{Home, requires};

fn home_at(backend: TestBackend) -> Home {
    let home = backend.home();
    let archive = worker_archive();
    match backend {
        TestBackend::Docker | TestBackend::Ssh => docker().load(&archive),
        TestBackend::Podman => podman().load(&archive),
        TestBackend::Native => {
            let path = home.path().join("worker.tar");
            std::fs::write(&path, archive).expect("a home is ours");
            home.call(["image".as_ref(), "load".as_ref(), path.as_os_str()]).succeed();
        }
    }
    home
}

fn errno(home: &Home, words: &[&str]) -> String {
    let error = home.call(words.iter().chain(&["--json"])).stdin("x").run().error();
    error["details"]["errno"].as_str().unwrap_or_else(|| panic!("no errno: {error}")).to_owned()
}

#[test]
fn file_operations_act_as_the_images_user() {
    requires!(docker);
    requires!(podman);

    for backend in [TestBackend::Native, TestBackend::Docker, TestBackend::Podman] {
        let home = home_at(backend);
        let sandbox = home.open_with(&["--image", WORKER_IMAGE, "--backend", &backend.name()]);
        let shell = |script: &str| {
            home.call(["exec", &sandbox, "--", "sh", "-c", script]).succeed().text().to_owned()
        };
        let local = tempfile::tempdir().expect("a directory can be made");
        std::fs::create_dir(local.path().join("tree")).expect("ours");
        std::fs::write(local.path().join("tree/leaf"), "leaf").expect("ours");
        let (tree, back) = (local.path().join("tree"), local.path().join("back"));
        let inside = format!("{sandbox}:tree");

        home.call(["fs", "write", &sandbox, "deep/file"]).stdin("x").succeed();
        home.call(["cp", &tree.display().to_string(), &inside]).succeed();
        home.call(["cp", &inside, &back.display().to_string()]).succeed();
        home.call(["fs", "write", &sandbox, "/etc/roots", "--user", "root", "--mode", "0600"])
            .stdin("r")
            .succeed();

        let owners = shell("id -u; stat -c %u:%g deep deep/file tree tree/leaf /etc/roots");
        assert_eq!(owners, "1000\n1000:1000\n1000:1000\n1000:1000\n1000:1000\n0:0\n", "{backend:?}");
        assert_eq!(std::fs::read(back.join("leaf")).expect("it came back"), b"leaf");
        for words in [
            ["fs", "read", &sandbox, "/etc/roots"].as_slice(),
            &["fs", "list", &sandbox, "/root"],
            &["fs", "write", &sandbox, "/etc/mine"],
            &["fs", "delete", &sandbox, "/etc/roots"],
            &["cp", &format!("{sandbox}:/etc/roots"), "-"],
        ] {
            assert_eq!(errno(&home, words), "EACCES", "{backend:?} {words:?}");
        }
        assert_eq!(home.call(["fs", "read", &sandbox, "/etc/roots", "-u", "root"]).succeed().text(), "r");
        // Acting for others has not opened the guest to commands.
        let meddling = "echo 500 > /proc/1/oom_score_adj || cat /proc/1/environ";
        let meddled = home.call(["exec", &sandbox, "--user", "root", "--", "sh", "-c", meddling]).run();
        assert_ne!(meddled.code(), Some(0), "{backend:?}: {meddled}");
    }
}
