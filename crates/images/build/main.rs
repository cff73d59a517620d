//! Builds the unpacker, linked statically so that it runs where there is only the layer, in its own target
//! directory so that a plain `cargo build` of coracle is enough.

#![allow(clippy::print_stdout, reason = "that is how a build script speaks to cargo")]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

fn main() {
    let workspace = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../..");
    for path in ["crates/unpack", "crates/sys", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", workspace.join(path).display());
    }
    println!("cargo::rerun-if-changed=build");
    let out = PathBuf::from(variable("OUT_DIR"));
    let target = variable("TARGET");
    let directory = out.join("unpack-target");
    let mut cargo = Command::new(variable("CARGO"));
    cargo
        .current_dir(&workspace)
        .args(["build", "--package", "coracle-unpack", "--profile", "guest", "--target", &target])
        .arg("--target-dir")
        .arg(&directory)
        // Flags and wrappers meant for the outer build would change the result here.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=static");
    // C compilers would take the outer build's configuration, sanitizers included, for this one's.
    for (name, _) in env::vars().filter(|(name, _)| name.starts_with("CARGO_CFG_")) {
        cargo.env_remove(name);
    }
    let status = cargo.status().expect("cargo, which runs this script, can be run");
    assert!(status.success(), "the unpacker could not be built");
    let program = fs::read(directory.join(&target).join("guest/coracle-unpack")).expect("it was just built");
    let mut hasher = DefaultHasher::new();
    program.hash(&mut hasher);
    // Tells one build's unpacker from another's; no trust depends on it.
    println!("cargo::rustc-env=CORACLE_UNPACK_FINGERPRINT={:016x}", hasher.finish());
    fs::write(out.join("unpack"), program).expect("the output directory is writable");
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
