//! The image all backends are compared with: a shell, the usual small programs, three users and nothing else.

use std::process::Command;
use std::sync::OnceLock;

use coracle_images::testing::{Image, Layer};
use serde_json::json;

/// What it is called everywhere. Podman gives images without a registry the one named `localhost`.
pub const TEST_IMAGE: &str = "localhost/coracle-test:1";

/// The same image, whose commands run as `worker`.
pub const WORKER_IMAGE: &str = "localhost/coracle-test-worker:1";

const USERS: &str = "root:x:0:0:root:/root:/bin/sh\n\
                     worker:x:1000:1000:worker:/home/worker:/bin/sh\n\
                     nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n";
const GROUPS: &str = "root:x:0:\nworkers:x:1000:worker\nnogroup:x:65534:\n";

const PRINTENV: &[u8] = br#"#!/bin/sh
for name; do eval "[ \"\${$name+set}\" ] && printf '%s\\n' \"\$$name\"" || exit 1; done
"#;

/// Returns it as `docker save` writes it. It is made in a moment, the same each time.
pub fn archive() -> &'static [u8] {
    static ARCHIVE: OnceLock<Vec<u8>> = OnceLock::new();
    ARCHIVE.get_or_init(|| archive_of(TEST_IMAGE, None))
}

/// Returns the same image under another name, with a user its commands run as.
pub fn archive_with_user(name: &str, user: &str) -> Vec<u8> {
    archive_of(name, Some(user))
}

fn archive_of(name: &str, user: Option<&str>) -> Vec<u8> {
    let image = Image::single(layer()).configured(|configuration| {
        configuration["config"] = json!({
            "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "GREETING=hello"],
            "Cmd": ["/bin/sh"],
        });
        if let Some(user) = user {
            configuration["config"]["User"] = json!(user);
        }
    });
    image.docker_save(&[name])
}

/// Returns the one for `worker` in the same way.
pub fn worker_archive() -> Vec<u8> {
    let image = Image::single(layer()).configured(|configuration| {
        configuration["config"] =
            json!({"Env": ["PATH=/usr/bin:/bin"], "Cmd": ["/bin/sh"], "User": "worker"});
    });
    image.docker_save(&[WORKER_IMAGE])
}

/// Returns busybox under all its names.
fn layer() -> Layer {
    let busybox = std::fs::read("/bin/busybox").expect("Debian's package `busybox-static` is installed");
    let listed = Command::new("/bin/busybox").arg("--list").output().expect("busybox can be started");
    let names = String::from_utf8(listed.stdout).expect("names of programs are ASCII");
    let directories = [("bin", 0o755), ("etc", 0o755), ("home", 0o755), ("root", 0o700), ("tmp", 0o1777)];
    let more = [("usr", 0o755), ("usr/bin", 0o755), ("var", 0o755), ("var/tmp", 0o1777)];
    let layer = directories.iter().chain(&more);
    let layer = layer.fold(Layer::new(), |layer, (name, mode)| layer.directory(name, *mode));
    let own = |header: &mut tar::Header| {
        header.set_mode(0o755);
        header.set_uid(1000);
        header.set_gid(1000);
    };
    let layer = layer
        .entry("home/worker", tar::EntryType::Directory, own, b"")
        .file("etc/passwd", 0o644, USERS.as_bytes())
        .file("etc/group", 0o644, GROUPS.as_bytes())
        .file("bin/busybox", 0o755, &busybox);
    // `env` is expected in /usr/bin by scripts; Debian's busybox has no `printenv`.
    let layer = layer.symlink("usr/bin/env", "/bin/busybox").file("bin/printenv", 0o755, PRINTENV);
    let names = names.lines().filter(|name| *name != "busybox");
    names.fold(layer, |layer, name| layer.symlink(&format!("bin/{name}"), "busybox"))
}
