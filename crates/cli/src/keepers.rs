//! Keepers as separate processes: they must outlive the call that starts them.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use coracle::{Error, Result, SandboxId};
use coracle_core::Home;
use coracle_engine::Egress;
use coracle_engine::egress::Start;

/// The running binary, even if its file was replaced since.
const OURSELVES: &str = "/proc/self/exe";

/// What a keeper writes when it serves; any other text is the reason why it does not.
const READY: u8 = 1;
/// The most a keeper may write.
const WORD_MAX: u64 = 4096;
const STDOUT: i32 = 1;
/// How long a keeper may take to reach its guest: through a busy container engine, a few seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts this binary again, as a keeper.
#[derive(Debug)]
pub struct Processes {
    pub home: Home,
}

impl Start for Processes {
    fn start(&self, _: &Egress, sandbox: &SandboxId, _: &Path) -> Result<()> {
        let failed =
            |error| Error::internal(format!("could not start the keeper of sandbox `{sandbox}`"), error);
        let mut keeper = Command::new(OURSELVES)
            .arg0("coracle")
            .args(["keeper", sandbox.as_str(), "--home"])
            .arg(self.home.path())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let (heard, word) = mpsc::channel();
        // We are its parent until we end, and it may end before us.
        let parent = move || {
            let mut answer = Vec::new();
            let read = keeper.stdout.take().map(|stdout| stdout.take(WORD_MAX).read_to_end(&mut answer));
            // The receiver may have given up.
            let _ = heard.send(read.transpose().map(|_| answer));
            keeper.wait()
        };
        std::thread::Builder::new().spawn(parent).map_err(failed)?;
        // A keeper writes nothing before it has reached its guest, which a container engine that hangs prevents.
        let answer = word.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        match answer.map_err(failed)?.as_slice() {
            // No output: another keeper was faster.
            [] | [READY] => Ok(()),
            complaint => Err(failed(std::io::Error::other(String::from_utf8_lossy(complaint).into_owned()))),
        }
    }
}

/// Tells the process that started this keeper that it serves.
pub fn say_ready() -> std::io::Result<()> {
    say(&[READY])
}

/// Tells it why the keeper does not serve.
pub fn say_why_not(error: &Error) -> std::io::Result<()> {
    say(error.chain().as_bytes())
}

/// Writes one message and closes the pipe: the other process reads to the end.
fn say(word: &[u8]) -> std::io::Result<()> {
    let mut stdout = std::io::stdout();
    stdout.write_all(word).and_then(|()| stdout.flush())?;
    let null = std::fs::File::options().write(true).open("/dev/null")?;
    coracle_sys::spawn::place(null.as_fd(), STDOUT)
}
