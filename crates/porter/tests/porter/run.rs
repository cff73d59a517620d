//! Runs porter as the guest does, with one connection for its input and output, and serves it a repository.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use coracle_porter::{Answer, CheckedOut, Checkout, Failed, Frame, Order, read, write};
use tempfile::TempDir;

use crate::source::{Source, command};

/// Returns the program as a file.
fn program() -> PathBuf {
    static WRITTEN: OnceLock<TempDir> = OnceLock::new();
    let directory = WRITTEN.get_or_init(|| {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("porter");
        std::fs::write(&path, coracle_porter::program().unwrap()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        directory
    });
    directory.path().join("porter")
}

/// A checkout of a commit on a branch of its own.
pub fn order(directory: &Path, commit: &str) -> Checkout {
    Checkout {
        directory: directory.as_os_str().as_encoded_bytes().to_vec(),
        commit: commit.to_owned(),
        branch: "coracle/run-1".to_owned(),
        base_branch: "main".to_owned(),
        depth: None,
        author_name: "An \"Author\"".to_owned(),
        author_email: "author@test".to_owned(),
        origin: None,
        threads: 2,
    }
}

/// Has porter carry out a checkout from `source`.
pub fn check_out(source: &Source, order: Checkout) -> Result<CheckedOut, Failed> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (input, output) = (OwnedFd::from(theirs.try_clone().unwrap()), OwnedFd::from(theirs));
    // Another test may have had the file open for writing when it forked.
    let mut porter = loop {
        let mut command = Command::new(program());
        let started =
            command.env_clear().stdin(input.try_clone().unwrap()).stdout(output.try_clone().unwrap()).spawn();
        match started {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {}
            started => break started.unwrap(),
        }
    };
    drop((input, output));
    let mut upload = upload_pack(&source.path());
    write(&mut &ours, &Frame::Message(minicbor::to_vec(Order::Checkout(order)).unwrap())).unwrap();
    let (mut said, mut wanted) = (upload.stdout.take().unwrap(), upload.stdin.take());
    let back = ours.try_clone().unwrap();
    let speaker = std::thread::spawn(move || {
        let mut piece = vec![0; 32 << 10];
        loop {
            let length = said.read(&mut piece).unwrap();
            if write(&mut &back, &Frame::Git(piece[..length].to_vec())).is_err() || length == 0 {
                return;
            }
        }
    });
    let answer = loop {
        match read(&mut &ours).expect("porter answers") {
            Frame::Git(bytes) if bytes.is_empty() => wanted = None,
            Frame::Git(bytes) => wanted.as_mut().unwrap().write_all(&bytes).unwrap(),
            Frame::Message(bytes) => break minicbor::decode::<Answer>(&bytes).unwrap(),
        }
    };
    drop(wanted);
    ours.shutdown(Shutdown::Both).unwrap();
    let _ = upload.kill();
    let _ = upload.wait();
    speaker.join().unwrap();
    porter.wait().unwrap();
    match answer {
        Answer::CheckedOut(done) => Ok(done),
        Answer::Failed(failed) => Err(failed),
        Answer::Log { .. } | Answer::Diff { .. } | Answer::Merged(_) | Answer::IsAncestor { .. } => {
            panic!("a checkout is not answered like a question")
        }
    }
}

fn upload_pack(repository: &Path) -> Child {
    let mut upload = command(repository, &["upload-pack", "."]);
    upload
        .env("GIT_PROTOCOL", "version=2")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    upload.spawn().unwrap()
}
