//! Another machine, as far as ssh can tell: an sshd of the tests' own on loopback, with keys of its own.
//!
//! It has processes and a `/run` apart from the machine's, so that the only container engines there are those a test
//! puts there. It ends with its value, with all sessions, and with the process that holds it however that ends.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::eventually;

/// The name the other machine has in the settings of ssh.
pub const HOST: &str = "far";
/// How many ports are tried.
const PORTS_MAX: usize = 5;
/// It takes a tenth of a second on an idle machine.
const START_MAX: Duration = Duration::from_secs(20);
/// As the first process of its namespace the shell's end is the end of all, and it ends when its input does.
const SCRIPT: &str = r#"
mount -t tmpfs -o mode=755 none /run && mkdir /run/sshd || exit
while read -r name target; do mkdir -p "$(dirname "$name")" && ln -s "$target" "$name"; done <"$1/engines"
/usr/sbin/sshd -D -f "$1/sshd_config" -E "$1/log" &
read -r _
[ -e "$1/forsaken" ] && rm -rf "$1"
"#;

/// A running sshd.
#[derive(Debug)]
pub struct Sshd {
    directory: TempDir,
    port: u16,
    /// What it is started by, if not by us.
    through: Vec<String>,
    running: Option<(Child, ChildStdin)>,
}

impl Default for Sshd {
    fn default() -> Self {
        Self::new()
    }
}

impl Sshd {
    /// Starts an sshd that lets us in.
    pub fn new() -> Self {
        Self::with("")
    }

    /// Starts an sshd with more lines in its settings.
    pub fn with(settings: &str) -> Self {
        Self::started(settings, "", &[])
    }

    /// Starts an sshd by another program, such as one that enters a network namespace, with an engine at a path there.
    pub fn inside(through: &[String], engine: &str, socket: &Path) -> Self {
        Self::started("", &format!("{engine} {}\n", socket.display()), through)
    }

    /// Starts one at a port that is free where it listens: where that is another network, ours says nothing of it.
    fn started(settings: &str, engines: &str, through: &[String]) -> Self {
        for _ in 1..PORTS_MAX {
            let mut sshd = Self::prepared(settings, engines, through);
            if sshd.begin() {
                return sshd;
            }
        }
        let mut sshd = Self::prepared(settings, engines, through);
        sshd.start();
        sshd
    }

    fn prepared(settings: &str, engines: &str, through: &[String]) -> Self {
        let directory =
            tempfile::Builder::new().prefix("coracle-sshd-").tempdir().expect("a directory can be made");
        // Free a moment ago. Nothing else takes it unless it asks for this very port.
        let free = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let port = free.local_addr().expect("it is bound").port();
        let sshd = Self { directory, port, through: through.to_vec(), running: None };
        sshd.make_key("host");
        sshd.make_key("user");
        sshd.write("engines", engines);
        sshd.admit_us();
        sshd.trust_its_key();
        sshd.write("sshd_config", &sshd.server_settings(settings));
        sshd.write("config", &sshd.client_settings());
        sshd
    }

    /// Starts it, with the same port and keys as before.
    pub fn start(&mut self) {
        assert!(self.begin(), "sshd does not start: {}", self.log());
    }

    /// Starts it, and tells whether it listens.
    fn begin(&mut self) -> bool {
        self.write("log", "");
        let alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
        let words = self.through.iter().map(String::as_str).chain(alone);
        let mut child = Command::new("env")
            .args(words.chain(["bash", "-c", SCRIPT, "sshd"]))
            .arg(self.directory.path())
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("unshare starts");
        let leash = child.stdin.take().expect("stdin is a pipe");
        self.running = Some((child, leash));
        let is_settled =
            |log: String| log.contains("Server listening on") || log.contains("Cannot bind any address");
        eventually(START_MAX, || is_settled(self.log()));
        let listens = self.log().contains("Server listening on");
        if !listens {
            self.stop();
        }
        listens
    }

    /// Ends it, and every connection with it.
    pub fn stop(&mut self) {
        if let Some((mut child, leash)) = self.running.take() {
            drop(leash);
            let _ = child.wait();
        }
    }

    /// Has it remove its directory itself when it ends, for one that lives as long as the process and is never dropped.
    pub fn forsake(&self) {
        self.write("forsaken", "");
    }

    /// Returns settings of ssh that lead to this machine under another name.
    pub fn settings_as(&self, name: &str) -> String {
        let (port, directory) = (self.port, self.directory.path().display());
        format!(
            "Host {name}\n HostName 127.0.0.1\n Port {port}\n User root\n IdentityFile {directory}/user\n \
             UserKnownHostsFile {directory}/known_hosts\n"
        )
    }

    /// Returns the words that make ssh know this machine under the name [`HOST`].
    pub fn ssh(&self) -> Vec<String> {
        vec!["ssh".to_owned(), "-F".to_owned(), self.path("config").display().to_string()]
    }

    /// Returns the same words as one, for `CORACLE_SSH`.
    ///
    /// Connections outlive calls, which a census of what is left would not like: stop this before the home goes, or add
    /// `-o ControlPersist=1`, which comes before what coracle says.
    pub fn variable(&self) -> String {
        self.ssh().join(" ")
    }

    /// Returns an engine's address on this machine.
    pub fn address(&self, socket: &Path) -> String {
        format!("ssh://{HOST}{}", socket.display())
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns how many logins there were since it was started.
    pub fn logins(&self) -> usize {
        self.log().matches("Accepted publickey").count()
    }

    /// Makes an engine be found at a path below `/run` there, when it is started again.
    pub fn put_engine(&self, name: &str, socket: &Path) {
        self.write("engines", &format!("{name} {}\n", socket.display()));
    }

    /// Gives the machine another key, when it is started again.
    pub fn change_its_key(&self) {
        for name in ["host", "host.pub"] {
            fs::remove_file(self.path(name)).expect("the directory is ours");
        }
        self.make_key("host");
    }

    /// Lets ssh know the machine's key, as it is now.
    pub fn trust_its_key(&self) {
        let key = fs::read_to_string(self.path("host.pub")).expect("it was made");
        self.write("known_hosts", &format!("[127.0.0.1]:{} {key}", self.port));
    }

    /// Lets ssh know no key at all.
    pub fn forget_its_key(&self) {
        self.write("known_hosts", "");
    }

    pub fn admit_us(&self) {
        let key = fs::read_to_string(self.path("user.pub")).expect("it was made");
        self.write("authorized_keys", &key);
    }

    pub fn admit_nobody(&self) {
        self.write("authorized_keys", "");
    }

    /// Adds lines to the settings by which ssh reaches this machine.
    pub fn add_to_settings_of_ssh(&self, lines: &str) {
        let mut config = fs::OpenOptions::new().append(true).open(self.path("config")).expect("it was made");
        config.write_all(lines.as_bytes()).expect("the directory is ours");
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("the directory is ours");
    }

    fn make_key(&self, name: &str) {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(self.path(name))
            .status()
            .expect("ssh-keygen starts");
        assert!(made.success(), "ssh-keygen makes a key");
    }

    fn server_settings(&self, more: &str) -> String {
        // By itself it drops some where more than ten are about to come in, which many tests at once are.
        let (port, directory) = (self.port, self.directory.path().display());
        format!(
            "{more}\nListenAddress 127.0.0.1\nPort {port}\nHostKey {directory}/host\nPidFile none\n\
             AuthorizedKeysFile {directory}/authorized_keys\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups 200\n"
        )
    }

    fn client_settings(&self) -> String {
        let (port, directory) = (self.port, self.directory.path().display());
        format!(
            "Host {HOST}\n HostName 127.0.0.1\n Port {port}\n User root\nHost *\n IdentityFile {directory}/user\n \
             IdentitiesOnly yes\n IdentityAgent none\n UserKnownHostsFile {directory}/known_hosts\n \
             GlobalKnownHostsFile none\n"
        )
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.stop();
    }
}
