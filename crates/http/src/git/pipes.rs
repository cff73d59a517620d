//! The pipes between a connection and git: bodies go through them in pieces, as fast as both sides are ready.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::time::Duration;

use axum::body::BodyDataStream;
use bytes::{Bytes, BytesMut};
use coracle::Result;
use coracle_service::Deadline;
use futures_util::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::time::timeout;

use super::gzip::{self, Gunzip};

/// How long a client may send nothing before its body counts as broken off.
const PATIENCE: Duration = Duration::from_secs(60);
const PIECE: usize = 64 << 10;

/// Our ends.
pub struct Pipes {
    pub input: Sender,
    pub output: Receiver,
}

/// The ends of git, which block.
pub struct Theirs {
    pub input: OwnedFd,
    pub output: OwnedFd,
}

impl Pipes {
    pub fn new() -> io::Result<(Self, Theirs)> {
        let (their_input, our_input): (PipeReader, PipeWriter) = io::pipe()?;
        let (our_output, their_output) = io::pipe()?;
        let pipes = Self {
            input: Sender::from_owned_fd(our_input.into())?,
            output: Receiver::from_owned_fd(our_output.into())?,
        };
        Ok((pipes, Theirs { input: their_input.into(), output: their_output.into() }))
    }
}

/// Passes a body on to git. Where it breaks off or is too large, git sees an end too early and refuses it.
pub async fn feed(mut body: BodyDataStream, mut input: Sender, encoding: gzip::Encoding) {
    let mut gunzip = match encoding {
        gzip::Encoding::Plain => None,
        gzip::Encoding::Gzip => Some(Gunzip::default()),
    };
    while let Ok(Some(Ok(piece))) = timeout(PATIENCE, body.next()).await {
        let sent = match &mut gunzip {
            None => input.write_all(&piece).await,
            Some(gunzip) => inflate(gunzip, &piece, &mut input).await,
        };
        if sent.is_err() {
            // Git has read enough.
            return;
        }
    }
}

async fn inflate(gunzip: &mut Gunzip, piece: &[u8], input: &mut Sender) -> io::Result<()> {
    for part in piece.chunks(gzip::PART) {
        input.write_all(&gunzip.take(part)?).await?;
    }
    Ok(())
}

/// What git says, in pieces.
pub struct Output {
    pipe: Receiver,
    deadline: Deadline,
}

impl Output {
    pub fn new(pipe: Receiver, deadline: Deadline) -> Self {
        Self { pipe, deadline }
    }

    /// Returns the next piece; nothing at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let mut piece = BytesMut::with_capacity(PIECE);
        match self.deadline.bound(self.pipe.read_buf(&mut piece)).await? {
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some(piece.freeze())),
            Err(error) => Err(coracle::Error::internal("could not read from git", error)),
        }
    }
}
