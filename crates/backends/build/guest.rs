//! Builds the guest, linked statically so that it runs in any image, in its own target directory so that a plain
//! `cargo build` of coracle is enough.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

pub fn build() {
    let workspace = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../..");
    for path in ["crates/guest", "crates/sys", "crates/wire", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", workspace.join(path).display());
    }
    let out = PathBuf::from(variable("OUT_DIR"));
    let target = variable("TARGET");
    let mut cargo = Command::new(variable("CARGO"));
    cargo
        .current_dir(&workspace)
        .args(["build", "--package", "coracle-guest", "--profile", "guest", "--target", &target])
        .arg("--target-dir")
        .arg(out.join("guest-target"))
        // Flags and wrappers meant for the outer build would change the result here.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=static");
    if env::var_os("CARGO_FEATURE_WEAKEN").is_some() {
        cargo.args(["--features", "weaken"]);
    }
    let status = cargo.status().expect("cargo, which runs this script, can be run");
    assert!(status.success(), "the guest could not be built");
    let built = out.join("guest-target").join(&target).join("guest/coracle-guest");
    install(&built, &out.join("guest"));
}

fn install(from: &Path, to: &Path) {
    let program = fs::read(from).expect("the built guest can be read");
    let mut hasher = DefaultHasher::new();
    program.hash(&mut hasher);
    // Tells one build's guest from another's; no trust depends on it.
    println!("cargo::rustc-env=CORACLE_GUEST_FINGERPRINT={:016x}", hasher.finish());
    fs::write(to, program).expect("the output directory is writable");
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
