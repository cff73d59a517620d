//! Where attacks are tried: on this machine itself, or on a Docker of the tests' own, with an image that holds the
//! interpreters the attacks need.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::Home;
use crate::engines::{Containers, Engine, Kind, Storage, api};

/// The image for attacks on a container engine: programs of this machine, which suffice.
pub const IMAGE: &str = "localhost/coracle-attack:1";

/// A backend attacks are tried on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    Native,
    Docker,
}

impl Ground {
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Docker => "docker",
        }
    }

    /// Returns a home whose sandboxes are made there.
    pub fn home(self) -> Home {
        self.furnish(Home::new())
    }

    /// The same, where they lack walls.
    pub fn weakened(self, walls: &[&str]) -> Home {
        self.furnish(Home::weakened(walls))
    }

    fn furnish(self, home: Home) -> Home {
        match self {
            Self::Native => home,
            Self::Docker => {
                home.at(engine()).env("CORACLE_BACKEND", "docker").env("CORACLE_ENGINE_IMAGE", IMAGE)
            }
        }
    }
}

/// Returns the engine all attacks of this process share.
pub fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let engine =
            Engine::start(Kind::Docker, Storage::Memory, Containers::End).expect("the engine starts");
        engine.import(IMAGE, &archive());
        engine
    })
}

/// What attacks call. Each is looked for in `/usr/bin` and its libraries come with it.
const PROGRAMS: &[&str] = &[
    "bash", "busybox", "cat", "chmod", "cp", "curl", "dash", "echo", "env", "false", "find", "grep", "head",
    "id", "ln", "ls", "mkdir", "mktemp", "mv", "printf", "python3", "rm", "sh", "sleep", "tail", "touch",
    "tr", "true", "wc",
];
const LIBRARY: &str = "usr/lib/python3.11";
/// Half of Python's library is of no use here.
const USELESS: &[&str] =
    &["config-*", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "distutils", "tkinter", "test"];
const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/sh\n\
                     nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n";
const GROUPS: &str = "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n";
const DIRECTORIES: &[(&str, u32)] = &[
    ("etc", 0o755),
    ("home", 0o755),
    ("home/agent", 0o777),
    ("opt", 0o755),
    ("root", 0o700),
    ("tmp", 0o1777),
    ("var", 0o755),
    ("var/tmp", 0o1777),
];

/// Returns a root with programs of this machine, as an archive.
fn archive() -> Vec<u8> {
    let rest = tempfile::tempdir().expect("a directory");
    for (name, mode) in DIRECTORIES {
        fs::create_dir(rest.path().join(name)).expect("it is ours");
        let mode = fs::Permissions::from_mode(*mode);
        fs::set_permissions(rest.path().join(name), mode).expect("it is ours");
    }
    fs::write(rest.path().join("etc/passwd"), USERS).expect("it is ours");
    fs::write(rest.path().join("etc/group"), GROUPS).expect("it is ours");
    // As files and not as links: what a link points to would have to come, too.
    let mut tar = Command::new("tar");
    tar.args(["--create", "--dereference", "--directory", "/"]);
    tar.args(USELESS.iter().map(|name| format!("--exclude={LIBRARY}/{name}")));
    tar.args(programs()).arg(LIBRARY).arg("bin/sh");
    tar.arg("--directory").arg(rest.path()).args(["etc", "home", "opt", "root", "tmp", "var"]);
    let packed = tar.output().expect("`tar` is everywhere");
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    packed.stdout
}

/// Returns the programs and what they are linked with, as paths below `/`.
fn programs() -> BTreeSet<String> {
    let programs = PROGRAMS.iter().map(|name| Path::new("/usr/bin").join(name)).filter(|path| path.exists());
    let extensions = fs::read_dir(Path::new("/").join(LIBRARY).join("lib-dynload")).into_iter().flatten();
    let extensions = extensions.flatten().map(|entry| entry.path());
    let needed: Vec<PathBuf> = programs.chain(extensions).collect();
    let linked = Command::new("ldd").args(&needed).output().expect("`ldd` is part of the C library");
    let linked = String::from_utf8_lossy(&linked.stdout).into_owned();
    let libraries = linked.lines().filter(|line| line.starts_with('\t')).flat_map(str::split_whitespace);
    let libraries = libraries.filter(|word| word.starts_with('/')).map(str::to_owned);
    let programs = needed.iter().map(|path| path.to_string_lossy().into_owned());
    let paths = programs.chain(libraries).map(|path| path.trim_start_matches('/').to_owned());
    // Those come with the whole library; named twice, each would be a link to itself.
    paths.filter(|path| !path.starts_with(LIBRARY)).collect()
}

impl Engine {
    /// Makes an image of a root.
    pub fn import(&self, image: &str, root: &[u8]) {
        self.import_changed(image, root, &[]);
    }

    /// Makes an image of a root, with lines of a Dockerfile that say more about it.
    pub fn import_changed(&self, image: &str, root: &[u8], lines: &[&str]) {
        let lines = ["ENV PATH=/usr/bin:/bin"].iter().chain(lines);
        let changes: String = lines.map(|line| format!("&changes={}", api::escaped(line))).collect();
        let path = format!("/images/create?fromSrc=-&repo={}{changes}", api::escaped(image));
        let answer = api::ask(&self.socket(), "POST", &path, root).expect("an engine imports a root");
        assert!(
            !String::from_utf8_lossy(&answer).contains("\"error\""),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
}
