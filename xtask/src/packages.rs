//! Debian packages, installed by name where that is possible, and what they are for.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::cargo;

/// A package and why it is needed.
pub struct Package {
    pub name: &'static str,
    pub why: &'static str,
}

/// What building and testing needs.
pub const TEST: &[Package] = &[
    Package { name: "gcc", why: "links every binary and compiles SQLite" },
    Package { name: "libc6-dev", why: "the static C library the guest is linked with" },
    Package { name: "buildah", why: "builds images where there is no engine" },
    Package { name: "busybox-static", why: "the smallest images that tests make" },
    Package { name: "curl", why: "the client most agents use, tried in sandboxes" },
    Package { name: "default-jdk-headless", why: "a JVM, which must work in sandboxes" },
    Package { name: "docker.io", why: "the engine most machines have, and the peer of goals P1, P2 and P5" },
    Package { name: "docker-registry", why: "where tests pull images from" },
    Package { name: "e2fsprogs", why: "formats the disks of sandboxes" },
    Package { name: "gdb", why: "debugs in sandboxes with `privileges: debug`" },
    Package { name: "git", why: "a program that must work in sandboxes" },
    Package { name: "golang-go", why: "builds in sandboxes, from a proxy of the tests" },
    Package { name: "iproute2", why: "lays the wire to the internet of the tests" },
    Package { name: "iptables", why: "Docker's engine does not start without" },
    Package { name: "jq", why: "the commands of our pages pick fields of answers with it" },
    Package { name: "mmdebstrap", why: "makes the Debian image of the tests" },
    Package { name: "openssh-client", why: "the way to an engine on another machine" },
    Package { name: "openssh-server", why: "the other machine" },
    Package { name: "openssl", why: "makes the certificates of the registries that tests pull from" },
    Package { name: "podman", why: "the engine without a daemon" },
    Package { name: "python3", why: "the programs tests run in sandboxes" },
    Package { name: "python3-pip", why: "a client that must work in sandboxes" },
    Package { name: "python3-venv", why: "environments in sandboxes, and those of the suites of others" },
    Package { name: "runc", why: "the runtime engines start" },
    Package { name: "sqlite3", why: "a database that must work in sandboxes" },
    Package { name: "strace", why: "traces in sandboxes with `privileges: debug`" },
    Package {
        name: "util-linux",
        why: "prlimit marks the processes of a test; setsid, mount and unshare are attacks",
    },
];

/// What the benchmark compares with, beyond [`TEST`].
pub const BENCH: &[Package] = &[
    Package { name: "bubblewrap", why: "the peer of goals P1 and P2" },
    Package { name: "crun", why: "the peer of goal P2" },
];

/// What the benchmark needs for `--peers`, beyond [`BENCH`].
pub const PEERS: &[Package] =
    &[Package { name: "python3-venv", why: "where AutoGen and llm-sandbox are installed" }];

/// Installs what is missing. Where it cannot, says what is missing and goes on.
pub fn install(packages: &[Package]) {
    if !Path::new("/etc/debian_version").exists() {
        return;
    }
    let missing: Vec<&Package> = packages.iter().filter(|package| !is_installed(package.name)).collect();
    if missing.is_empty() {
        return;
    }
    for package in &missing {
        println!("Package `{}` is missing: {}.", package.name, package.why);
    }
    if !is_root() {
        println!("Not root, so nothing is installed.");
        return;
    }
    if let Err(error) = apt(&missing) {
        println!("Could not install: {error:#}. Going on without.");
    }
}

fn apt(packages: &[&Package]) -> anyhow::Result<()> {
    let apt_get = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq").stdout(Stdio::null());
        command
    };
    cargo::run(apt_get().arg("update"))?;
    cargo::run(
        apt_get()
            .args(["install", "--yes", "--no-install-recommends"])
            .args(packages.iter().map(|package| package.name)),
    )
}

fn is_installed(name: &str) -> bool {
    let query =
        Command::new("dpkg-query").args(["--show", "--showformat=${db:Status-Status}", name]).output();
    query.is_ok_and(|output| output.stdout == b"installed")
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
