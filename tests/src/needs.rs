//! What a test needs of the machine. Probed without the product, so that a fault of ours never looks like a skip.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::{binary, count, peers};

/// What engines of our own are made of: the package and a file of it.
const DOCKER: &[(&str, &str)] = &[
    ("docker.io", "/usr/sbin/dockerd"),
    ("iptables", "/usr/sbin/iptables"),
    ("runc", "/usr/sbin/runc"),
    ("iproute2", "/usr/sbin/ip"),
    ("busybox-static", "/bin/busybox"),
];
const PODMAN: &[(&str, &str)] = &[
    ("podman", "/usr/bin/podman"),
    ("runc", "/usr/sbin/runc"),
    ("iproute2", "/usr/sbin/ip"),
    ("busybox-static", "/bin/busybox"),
];
const SSH: &[(&str, &str)] = &[("openssh-server", "/usr/sbin/sshd"), ("openssh-client", "/usr/bin/ssh")];

/// What debuggers and builds in sandboxes are tried with: all of it is in `/usr`, where the `host` image has it from.
const PROGRAMS: &[(&str, &str)] = &[
    ("default-jdk-headless", "/usr/bin/javac"),
    ("gcc", "/usr/bin/gcc"),
    ("gdb", "/usr/bin/gdb"),
    ("golang-go", "/usr/bin/go"),
    ("npm", "/usr/bin/npm"),
    ("sqlite3", "/usr/bin/sqlite3"),
    ("strace", "/usr/bin/strace"),
];

/// Leaves the test if the machine lacks what it needs; fails it if `CORACLE_REQUIRE` names the need.
#[macro_export]
macro_rules! requires {
    ($need:ident) => {
        if !$crate::needs::met(stringify!($need)) {
            return;
        }
    };
}

/// Tells whether a need is met, and writes down the skip if it is not.
///
/// # Panics
/// If it is not met and `CORACLE_REQUIRE` lists it, or says `all`.
pub fn met(need: &str) -> bool {
    let Some(reason) = missing(need) else { return true };
    let listed = std::env::var("CORACLE_REQUIRE").unwrap_or_default();
    assert!(!is_required(need, &listed), "`{need}` is required, but {reason}");
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("skipped {test}: needs {need}, but {reason}");
    if let Some(path) = std::env::var_os("CORACLE_SKIPS") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let _ = file.and_then(|mut file| writeln!(file, "{need}\t{reason}\t{test}"));
    }
    false
}

/// Tells whether a list such as `native,docker`, or `all`, names a need. An ordinary run makes no old build, so `all`
/// asks for one only in a full run.
fn is_required(need: &str, listed: &str) -> bool {
    listed.split(',').map(str::trim).any(|name| match name {
        "all" => need != "old_build" || count(0, 1) > 0,
        name => name == need,
    })
}

/// Returns why a need is not met.
fn missing(need: &str) -> Option<String> {
    static NATIVE: OnceLock<Option<String>> = OnceLock::new();
    match need {
        "root" => not_root(),
        "native" => NATIVE.get_or_init(native).clone(),
        "boot_time" => native().or_else(|| refusal("unshare", &["--time", "--boottime", "1", "true"])),
        "internet" => native().or_else(no_internet_tools),
        "images" => native().or_else(no_image_tools),
        "docker" => native().or_else(|| not_installed(DOCKER)),
        "podman" => native().or_else(|| not_installed(PODMAN)),
        "sshd" => not_root().or_else(|| not_installed(SSH)),
        "mcp_python" => native().or_else(|| peers::python().err()),
        "mcp_node" => native().or_else(|| peers::node().err()),
        "schemathesis" => native().or_else(|| peers::schemathesis().err()),
        "programs" => native().or_else(no_internet_tools).or_else(no_programs),
        "pytest" => native().or_else(|| peers::pytest_wheels().err()),
        "inspect_ai" => native().or_else(|| peers::inspect_ai().err()),
        "langchain" => native().or_else(|| peers::langchain().err()),
        "old_build" => native().or_else(|| binary::old().err()),
        "buildah" => native().or_else(|| refusal("buildah", &["--version"])),
        "ssh" => native().or_else(|| not_installed(DOCKER)).or_else(|| not_installed(SSH)),
        other => panic!("no probe for the need `{other}`"),
    }
}

fn not_root() -> Option<String> {
    (!rustix::process::geteuid().is_root()).then(|| "not running as root".to_owned())
}

/// Root, user namespaces with mounts in them, and a cgroup tree that can be written.
fn native() -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("this is not Linux".to_owned());
    }
    let mount =
        ["--user", "--map-root-user", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "none", "/tmp"];
    not_root().or_else(|| refusal("unshare", &mount)).or_else(no_cgroups)
}

fn no_cgroups() -> Option<String> {
    let trees = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
    let name = format!("coracle-need-{}", std::process::id());
    let usable = trees
        .iter()
        .map(|tree| Path::new(tree).join(&name))
        .any(|probe| std::fs::create_dir(&probe).and_then(|()| std::fs::remove_dir(&probe)).is_ok());
    (!usable).then(|| "no cgroup can be made".to_owned())
}

/// What images are made with and served by.
fn no_image_tools() -> Option<String> {
    not_installed(&[
        ("docker-registry", "/usr/bin/docker-registry"),
        ("mmdebstrap", "/usr/bin/mmdebstrap"),
        ("busybox-static", "/bin/busybox"),
        ("e2fsprogs", "/usr/sbin/mke2fs"),
    ])
}

fn no_programs() -> Option<String> {
    // The package `python3-venv` brings it.
    not_installed(PROGRAMS).or_else(|| refusal("/usr/bin/python3", &["-m", "ensurepip", "--version"]))
}

/// What a network of our own is made of, and the clients that are tried in it.
fn no_internet_tools() -> Option<String> {
    let missing = not_installed(&[
        ("iproute2", "/usr/sbin/ip"),
        ("openssl", "/usr/bin/openssl"),
        ("curl", "/usr/bin/curl"),
        ("python3", "/usr/bin/python3"),
    ]);
    let six = || {
        let on = Path::new("/proc/net/if_inet6").exists();
        (!on).then(|| "this machine has no IPv6".to_owned())
    };
    missing.or_else(six).or_else(|| refusal("unshare", &["--net", "ip", "link", "add", "type", "veth"]))
}

/// Returns the first package that is not there, by a file of it.
fn not_installed(files: &[(&str, &str)]) -> Option<String> {
    let missing = files.iter().find(|(_, path)| !Path::new(path).exists());
    missing.map(|(package, _)| format!("the package `{package}` is not installed"))
}

/// Returns why a command did not succeed.
fn refusal(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("`{program}` says: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Some(format!("`{program}` cannot be started: {error}")),
    }
}
