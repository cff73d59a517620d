//! Builds porter's program, linked statically so that it runs in any image, in its own target directory, and
//! compresses it.

#![allow(clippy::print_stdout, reason = "that is how a build script speaks to cargo")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "embedded")]
    embed::embed();
}

#[cfg(feature = "embedded")]
mod embed {
    use std::io::Write;
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::{env, fs};

    pub fn embed() {
        let workspace = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../..");
        for path in ["crates/porter", "crates/sys", "Cargo.lock"] {
            println!("cargo::rerun-if-changed={}", workspace.join(path).display());
        }
        let out = PathBuf::from(variable("OUT_DIR"));
        let target = variable("TARGET");
        let directory = out.join("porter-target");
        let mut cargo = Command::new(variable("CARGO"));
        cargo
            .current_dir(&workspace)
            .args([
                "build",
                "--package",
                "coracle-porter",
                "--bin",
                "coracle-porter",
                "--no-default-features",
            ])
            .args(["--features", "program", "--profile", "porter", "--target", &target])
            .arg("--target-dir")
            .arg(&directory)
            // Flags and wrappers meant for the outer build would change the result here.
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("RUSTC_WRAPPER")
            .env_remove("RUSTC_WORKSPACE_WRAPPER")
            .env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=static");
        for (name, _) in env::vars()
            .filter(|(name, _)| name.starts_with("CARGO_CFG_") || name.starts_with("CARGO_FEATURE_"))
        {
            cargo.env_remove(name);
        }
        let status = cargo.status().expect("cargo, which runs this script, can be run");
        assert!(status.success(), "porter could not be built");
        compress(&directory.join(&target).join("porter/coracle-porter"), &out.join("porter.zlib"));
    }

    fn compress(from: &Path, to: &Path) {
        let program = fs::read(from).expect("the built program can be read");
        println!("cargo::rustc-env=CORACLE_PORTER_SIZE={}", program.len());
        let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(&program).expect("memory takes it");
        fs::write(to, packed.finish().expect("memory takes it")).expect("the output directory is writable");
    }

    fn variable(name: &str) -> String {
        env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
    }
}
