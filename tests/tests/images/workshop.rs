//! What the images here are made of: Debian's own packages and static busybox, nothing pulled from anywhere.

use std::sync::OnceLock;

use coracle_images::testing::{Compression, Image, Layer, Registry};

/// A registry all tests of this binary share; each pushes under a name of its own.
pub fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let (sender, receiver) = std::sync::mpsc::channel();
        // It ends with the thread that started it, and that must be none of a test.
        std::thread::spawn(move || {
            sender.send(Registry::start()).expect("the test waits for it");
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
        let archive = std::fs::read(coracle_tests::debian::archive()).expect("the archive was made");
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
