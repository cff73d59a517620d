//! The machine of a person who has just installed coracle: Docker, a project, and the hosts that the pages name.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use coracle_images::testing::{Compression, Image, Registry};
use coracle_tests::engines::sshd::Sshd;
use coracle_tests::engines::{self, Engine};
use coracle_tests::home::ORDINARY;
use coracle_tests::internet::wires;
use coracle_tests::{Home, Internet, SOON, binary, debian, eventually};
use tempfile::TempDir;

/// A whole page; the longest has sixty commands.
const PATIENCE: Duration = Duration::from_secs(600);

/// Where the registry is; everything else has the address of the web.
const REGISTRY: &str = "93.184.216.20";
const ELSEWHERE: [&str; 4] = ["example.com", "pypi.org", "files.pythonhosted.org", "github.com"];
const IN_THE_REGISTRY: [&str; 2] = ["registry-1.docker.io", "auth.docker.io"];

/// What `/root`, `/run`, `/var/lib` and the certificates are on this machine alone. `$1` is the directory of this machine, `$2` the
/// engine's socket.
const FURNISH: &str = "
set -e
mount -t tmpfs -o mode=755 none /run
: > /run/docker.sock
mount --bind \"$2\" /run/docker.sock
mount --bind \"$1/person\" /root
mkdir -p \"$1/lib\"
mount --bind \"$1/lib\" /var/lib
cp -L /etc/ssl/certs/ca-certificates.crt \"$1/certificates\"
cat \"$1/authority\" >> \"$1/certificates\"
mount --bind \"$1/certificates\" /etc/ssl/certs/ca-certificates.crt
";

/// What the engine reads of this machine. `$1` is a directory with it.
const CONNECT: &str = "
set -e
mount --bind \"$1/names\" /etc/resolv.conf
cp -L /etc/ssl/certs/ca-certificates.crt \"$1/certificates\"
cat \"$1/authority\" >> \"$1/certificates\"
mount --bind \"$1/certificates\" /etc/ssl/certs/ca-certificates.crt
";

/// What the person works on.
const PROJECT: [(&str, &str); 4] = [
    ("Makefile", "app: app.c\n\tcc -o app app.c\ntest: app\n\t./app\n"),
    ("app.c", "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n"),
    ("main.py", "print(6*7)\n"),
    ("Dockerfile", "FROM scratch AS test\nARG VERSION=1\nCOPY main.py /app/main.py\n"),
];

/// Stands for what the person has from rustup and pyenv.
const TOOLS: [&str; 2] = [".cargo/bin/cargo", ".pyenv/shims/python"];
const TOOL: &str = "#!/bin/sh\necho \"$0 of $HOME\"\n";

/// Who uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Person {
    Root,
    Ordinary,
}

/// The machine, and the person's session on it.
pub struct Machine {
    home: Home,
    person: Person,
    /// Other machines, reached by ssh: `build.lan` and `lab`.
    _others: [Sshd; 2],
    internet: Internet,
}

impl Machine {
    pub fn new(person: Person) -> Self {
        let engine = engines::docker();
        let internet = Internet::of_engine(engine);
        let (registry, certificate) = registry();
        internet.web.carry(REGISTRY, registry.host().parse().expect("it is an address"));
        IN_THE_REGISTRY.iter().for_each(|name| internet.names.say(name, &[REGISTRY]));
        ELSEWHERE.iter().for_each(|name| internet.names.say(name, &[wires::OK]));
        equip(engine);
        let home = match person {
            Person::Root => internet.home(),
            Person::Ordinary => internet.ordinary_home(),
        };
        let others = ["/run/docker.sock", "/run/engine/docker.sock"]
            .map(|path| Sshd::inside(&internet.door(), path, &engine.socket()));
        let settings = others[0].settings_as("build.lan") + &others[1].settings_as("lab");
        let machine = Self { home, person, _others: others, internet };
        std::fs::create_dir_all(machine.path("person/.ssh")).expect("the home is ours");
        std::fs::write(machine.path("person/.ssh/config"), settings).expect("the home is ours");
        std::fs::write(machine.path("authority"), machine.internet.web.authority() + certificate)
            .expect("the home is ours");
        machine.furnish(engine);
        machine
    }

    /// Has the person type a script.
    pub fn type_in(&self, script: String) -> String {
        let path = format!(
            "{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            self.path("bin").display()
        );
        let shell = "unset CORACLE_HOME CORACLE_WEAKEN DOCKER_HOST; cd ~/project && exec bash --norc -s";
        let call = self.home.call_by(Path::new("bash"), ["-c", shell]);
        // Some programs ask the list of users for their home and not the environment.
        let home = match self.person {
            Person::Root => "/root".into(),
            Person::Ordinary => self.path("person"),
        };
        let session = call.env("HOME", home).env("PATH", path).stdin(script).within(PATIENCE).run();
        let printed = String::from_utf8_lossy(&session.stdout).into_owned();
        assert!(session.code() == Some(0), "the machine cannot be left as it was: {printed}");
        printed
    }

    /// Returns a directory the session may keep notes in.
    pub fn notes(&self) -> String {
        self.path("notes").display().to_string()
    }

    fn furnish(&self, engine: &Engine) {
        let at_home = ["project", ".cache", ".rustup", ".cargo/bin", ".pyenv/shims"];
        let at_home = at_home.map(|name| format!("person/{name}"));
        for name in at_home.iter().map(String::as_str).chain(["bin", "notes"]) {
            std::fs::create_dir_all(self.path(name)).expect("the home is ours");
        }
        for tool in TOOLS.map(|name| self.path("person").join(name)) {
            std::fs::write(&tool, TOOL).expect("the home is ours");
            std::fs::set_permissions(tool, std::fs::Permissions::from_mode(0o755)).expect("the home is ours");
        }
        for (name, text) in PROJECT {
            std::fs::write(self.path("person/project").join(name), text).expect("the home is ours");
        }
        let copied = Command::new("cp").arg(binary::path()).arg(self.path("bin/coracle")).status();
        assert!(copied.is_ok_and(|status| status.success()), "the binary can be copied");
        let directory = self.home.path().display().to_string();
        let socket = engine.socket().display().to_string();
        let furnished = self.internet.run(&["sh", "-c", FURNISH, "sh", &directory, &socket]);
        assert!(furnished.status.success(), "{}", String::from_utf8_lossy(&furnished.stderr));
        if self.person == Person::Ordinary {
            let everything = ["chown", "--recursive", &format!("{ORDINARY}:{ORDINARY}"), &directory];
            assert!(self.internet.run(&everything).status.success(), "root gives its directory away");
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }
}

/// Gives an engine the images the pages speak of, and the way to the registry.
fn equip(engine: &Engine) {
    static CONNECTED: OnceLock<TempDir> = OnceLock::new();
    CONNECTED.get_or_init(|| connect(engine));
    for name in ["alpine", "app:1", "my/tool"] {
        let tagged = engine.client(["tag", engines::TEST_IMAGE, name]).status();
        assert!(tagged.is_ok_and(|status| status.success()), "an image can have two names");
    }
    let everybody = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(engine.socket(), everybody).expect("the socket is ours");
}

/// Lets an engine find the registry and believe it.
fn connect(engine: &Engine) -> TempDir {
    let files = tempfile::tempdir().expect("a directory can be made");
    let write = |name: &str, text: &str| std::fs::write(files.path().join(name), text).expect("it is ours");
    write("names", &format!("nameserver {}\n", wires::NAME_SERVER));
    write("authority", &registry().1);
    let entered = Command::new("nsenter")
        .args(["--mount", "--target", &engine.process().to_string(), "sh", "-c", CONNECT, "sh"])
        .arg(files.path())
        .output()
        .expect("`nsenter` is part of util-linux");
    assert!(entered.status.success(), "{}", String::from_utf8_lossy(&entered.stderr));
    // It looks only every few seconds whether its name servers are others.
    let pulled = || engine.client(["pull", "debian:12"]).output().is_ok_and(|pulled| pulled.status.success());
    assert!(eventually(SOON, pulled).is_some(), "the engine does not find the registry");
    files
}

/// Returns the registry images are pulled from, and the certificate to trust.
fn registry() -> &'static (Registry, String) {
    static REGISTRY: OnceLock<(Registry, String)> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let (sender, receiver) = std::sync::mpsc::channel();
        // It ends with the thread that started it, and that must be none of a test.
        std::thread::spawn(move || {
            let names = IN_THE_REGISTRY.map(|name| format!("DNS:{name}")).join(",");
            let (registry, keys) = Registry::start_as("127.0.0.1", &names);
            registry.push("library/python:3.12", &python());
            registry.push("library/debian:12", &python());
            let certificate = std::fs::read_to_string(keys.path().join("root.pem")).expect("it was made");
            sender.send((registry, certificate)).expect("a test waits for it");
            loop {
                std::thread::park();
            }
        });
        receiver.recv().expect("the registry starts")
    })
}

/// Returns an image with python3.
fn python() -> Image {
    let archive = std::fs::read(debian::archive()).expect("the archive was made");
    let packed = Compression::Gzip.pack(&archive);
    Image::of_parts(vec![archive], vec![(packed, Compression::Gzip)])
}
