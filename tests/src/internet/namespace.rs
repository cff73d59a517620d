//! A network namespace held by one process only, so that it goes with the test however the test ends.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Says that it is there, and stays until the process that started it is gone: `cat` reads from a pipe that only the
/// test holds.
const HOLD: &str = "ip link set lo up && { [ -z \"$1\" ] || mount --bind \"$1\" /etc/resolv.conf; } && echo here && exec cat";

/// A network namespace with a mount namespace, so that it can have name servers of its own.
#[derive(Debug)]
pub struct Namespace {
    holder: Child,
}

impl Namespace {
    /// Makes one. `names` takes the place of its `/etc/resolv.conf`.
    pub fn new(names: Option<&Path>) -> Self {
        let mut unshare = Command::new("unshare");
        unshare.args(["--net", "--mount"]);
        Self::held(unshare, names)
    }

    /// Makes one whose network is that of a process.
    pub fn of_process(pid: u32, names: Option<&Path>) -> Self {
        let mut enter = Command::new("nsenter");
        enter.arg(format!("--net=/proc/{pid}/ns/net")).args(["unshare", "--mount"]);
        Self::held(enter, names)
    }

    fn held(mut enter: Command, names: Option<&Path>) -> Self {
        let mut holder = enter
            .args(["--", "sh", "-c", HOLD, "sh"])
            .arg(names.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`unshare` is part of util-linux");
        let mut line = String::new();
        let stdout = holder.stdout.take().expect("stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a pipe can be read");
        assert_eq!(line, "here\n", "no namespace could be made");
        Self { holder }
    }

    /// Returns the process that stands for it.
    pub fn pid(&self) -> String {
        self.holder.id().to_string()
    }

    /// Returns the words another program is started through to be inside.
    pub fn door(&self) -> Vec<String> {
        let pid = self.pid();
        let links = [format!("--net=/proc/{pid}/ns/net"), format!("--mount=/proc/{pid}/ns/mnt")];
        ["nsenter".to_owned()].into_iter().chain(links).chain(["--".to_owned()]).collect()
    }

    /// Prepares a program inside.
    pub fn command(&self, words: &[&str]) -> Command {
        let door = self.door();
        let mut command = Command::new(&door[0]);
        command.args(&door[1..]).args(words).stdin(Stdio::null());
        command
    }

    /// Has `ip` do what the lines say, all in one process.
    pub fn ip(&self, lines: &str) {
        let mut command = self.command(&["ip", "-batch", "-"]);
        let pipes = command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().expect("`ip` is part of iproute2");
        let mut stdin = child.stdin.take().expect("stdin is a pipe");
        stdin.write_all(lines.as_bytes()).expect("it reads its commands");
        drop(stdin);
        let output = child.wait_with_output().expect("a child can be waited for");
        assert!(output.status.success(), "{lines}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts a thread inside. What it opens stays inside, wherever it is used.
    pub fn thread<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let namespace = File::open(format!("/proc/{}/ns/net", self.pid())).expect("it is held");
        std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("root may enter a namespace");
            // An open namespace looks like one that was left behind.
            drop(namespace);
            work()
        })
    }

    /// Does something inside and waits for it.
    pub fn inside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.thread(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
