//! The host's side of a conversation with porter in a sandbox: an order, git's protocol in between, an answer.
//!
//! What comes from the sandbox is data: it reaches git's own `upload-pack`, which serves anybody, and nothing else here.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use coracle_core::repo::{Protocol, Service, Serving};
use coracle_core::{Cancel, Error, Kind, RepoId, Repos, Result};
use coracle_porter::{Answer, CheckedOut, Checkout, Failed, Frame, Order, Why, read, write};

use crate::guest::Guest;

/// How long porter may say nothing: it writes millions of files meanwhile.
const SILENCE: Duration = Duration::from_secs(15 * 60);
/// Bytes of git's protocol read at once.
const PIECE: usize = 32 << 10;

/// Has porter check out a repository in a sandbox, as `user`.
pub(crate) fn check_out(
    guest: Guest,
    user: Option<&str>,
    repos: &dyn Repos,
    repo: &RepoId,
    order: Checkout,
    cancel: &Cancel,
) -> Result<CheckedOut> {
    let program = coracle_porter::program()
        .map_err(|error| Error::internal("could not unpack porter, which is part of this program", error))?;
    let stream = guest.run_program(program, user)?;
    match converse(&stream, repos, repo, Order::Checkout(order), cancel)? {
        Answer::CheckedOut(done) => Ok(done),
        Answer::Failed(failed) => Err(refused(&failed)),
        Answer::Log { .. } | Answer::Diff { .. } | Answer::Merged(_) | Answer::IsAncestor { .. } => {
            Err(broken(io::ErrorKind::InvalidData.into()))
        }
    }
}

/// Sends the order, serves the repository until porter has answered, and returns the answer.
fn converse(
    stream: &UnixStream,
    repos: &dyn Repos,
    repo: &RepoId,
    order: Order,
    cancel: &Cancel,
) -> Result<Answer> {
    let order =
        minicbor::to_vec(&order).map_err(|error| Error::internal("could not write an order", error))?;
    let (ours, theirs) = UnixStream::pair().map_err(broken)?;
    let clone = |stream: &UnixStream| stream.try_clone().map_err(broken);
    let (cut_stream, cut_git) = (clone(stream)?, clone(&ours)?);
    let _cut = cancel.on_cancel(move || {
        let _ = cut_stream.shutdown(Shutdown::Both);
        let _ = cut_git.shutdown(Shutdown::Both);
    });
    stream
        .set_read_timeout(Some(SILENCE))
        .and_then(|()| stream.set_write_timeout(Some(SILENCE)))
        .map_err(broken)?;
    let (input, output) = (OwnedFd::from(clone(&theirs)?), OwnedFd::from(theirs));
    let serving = Serving { protocol: Protocol::V2, ..Serving::whole(Service::UploadPack) };
    let (answered, served) = std::thread::scope(|scope| {
        let served = scope.spawn(|| repos.serve(repo, &serving, input, output, cancel));
        let speaker = scope.spawn(|| speak(&ours, stream));
        let answered = write(&mut &*stream, &Frame::Message(order)).and_then(|()| listen(stream, &ours));
        // Whatever happened: nothing more is said, and both threads end.
        let _ = ours.shutdown(Shutdown::Both);
        let _ = stream.shutdown(Shutdown::Both);
        let _ = speaker.join();
        (answered, served.join())
    });
    cancel.check()?;
    match (answered, served) {
        (Ok(answer), _) => Ok(answer),
        // Why git did not serve explains more than that porter was cut off.
        (Err(_), Ok(Err(error))) => Err(error),
        (Err(error), _) => Err(broken(error)),
    }
}

/// Carries what git says to porter.
fn speak(mut git: &UnixStream, mut porter: &UnixStream) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let length = git.read(&mut piece)?;
        write(&mut porter, &Frame::Git(piece[..length].to_vec()))?;
        if length == 0 {
            return Ok(());
        }
    }
}

/// Carries what porter says to git, until it answers.
fn listen(mut porter: &UnixStream, mut git: &UnixStream) -> io::Result<Answer> {
    loop {
        match read(&mut porter)? {
            Frame::Git(bytes) if bytes.is_empty() => git.shutdown(Shutdown::Write)?,
            Frame::Git(bytes) => git.write_all(&bytes)?,
            Frame::Message(bytes) => return minicbor::decode(&bytes).map_err(io::Error::other),
        }
    }
}

fn refused(failed: &Failed) -> Error {
    let kind = match failed.why {
        Why::Refused | Why::Occupied | Why::Invalid => Kind::Invalid,
        Why::NotFound => Kind::NotFound,
        Why::Limit => Kind::LimitExceeded,
        Why::Broken => Kind::StartFailed,
    };
    let error = Error::new(kind, format!("could not check out the repository: {}", failed.message));
    match failed.why {
        Why::Occupied => error.hint("use an image without files in `/workspace`").detail("field", "repo"),
        Why::Refused => error.hint("the repository holds what no work tree should get; mend it").detail("field", "repo"),
        Why::Broken | Why::Limit => {
            error.hint("see whether the sandbox has room for it: `limits.workspace_mb`, `limits.inodes`, `limits.memory_mb`")
        }
        Why::NotFound | Why::Invalid => error.detail("field", "repo"),
    }
}

fn broken(error: io::Error) -> Error {
    Error::new(Kind::StartFailed, "could not check out the repository: porter was cut off")
        .hint("see whether the sandbox has enough memory: `limits.memory_mb`")
        .caused_by(error)
}
