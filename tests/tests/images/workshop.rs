//! What the images here are made of: Debian's own packages and static busybox, nothing pulled from anywhere.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use coracle_images::testing::{Compression, Image, Layer, Registry};
use rustix::fs::{FlockOperation, flock};

/// A registry all tests of this binary share; each pushes under a name of its own.
pub fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let (sender, receiver) = std::sync::mpsc::channel();
        // It ends with the thread that started it, and that must be none of a test.
        std::thread::spawn(move || {
            sender.send(Registry::start()).expect("someone waits for it");
            loop {
                std::thread::park();
            }
        });
        receiver.recv().expect("the registry starts")
    })
}

/// Returns the reference of a minimal Debian with python3 and git, in the registry.
pub fn debian() -> &'static str {
    static REFERENCE: OnceLock<String> = OnceLock::new();
    REFERENCE.get_or_init(|| {
        let archive = std::fs::read(debian_archive()).expect("the archive was made");
        let packed = Compression::Zstd.pack(&archive);
        let image = Image::of_parts(vec![archive], vec![(packed, Compression::Zstd)]).configured(|config| {
            config["config"] = serde_json::json!({});
        });
        registry().push("debian:test", &image).replace("127.0.0.1", "localhost")
    })
}

/// Returns static busybox, which is a shell and all small programs in one file.
pub fn busybox() -> Vec<u8> {
    std::fs::read("/bin/busybox").expect("Debian's package `busybox-static` is installed")
}

/// Returns a layer with busybox under its usual names.
pub fn busybox_layer() -> Layer {
    let names = ["cat", "echo", "id", "ls", "mkdir", "pwd", "sh", "sleep", "stat", "test", "touch", "true"];
    let layer =
        Layer::new().directory("bin", 0o755).directory("tmp", 0o1777).file("bin/busybox", 0o755, &busybox());
    names.iter().fold(layer, |layer, name| layer.symlink(&format!("bin/{name}"), "busybox"))
}

/// Makes the archive of Debian once for all runs of the tests in this checkout: it takes most of a minute.
fn debian_archive() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let archive = directory.join("debian-with-python-and-git.tar");
    let lock = File::create(directory.join("debian.lock")).expect("the target directory can be written");
    flock(&lock, FlockOperation::LockExclusive).expect("a lock can be had");
    if !archive.exists() {
        let draft = directory.join("debian.draft.tar");
        let made = Command::new("mmdebstrap")
            .args(["--quiet", "--variant=apt", "--include=python3-minimal,git"])
            .args(["--aptopt=Acquire::Languages \"none\"", "--dpkgopt=path-exclude=/usr/share/doc/*"])
            .args(["--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/man/*"])
            .arg("bookworm")
            .arg(&draft)
            .output()
            .expect("Debian's package `mmdebstrap` is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        std::fs::rename(draft, &archive).expect("a file can be renamed");
    }
    archive
}
