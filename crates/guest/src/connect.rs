//! `guest connect`: joins its standard streams to the guest's socket, for a host that can only start a program in
//! the container.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use coracle_sys::rustix::net::sockopt::socket_peercred;
use coracle_sys::{capability, identity};

use crate::GUEST_ID;
use crate::boot::contained::SOCKET;

/// Bytes copied at once.
const PIECE: usize = 64 << 10;

/// Sent first, so that the host can tell a connection from a container whose guest is gone.
const JOINED: &[u8] = &[1];

/// Joins the streams, and returns when either side has ended.
pub fn run() {
    let Ok(guest) = find() else { return };
    // The container engine starts us as root, which commands may signal.
    let become_guest = || {
        identity::become_user(GUEST_ID, GUEST_ID, &[])?;
        capability::keep(0)?;
        identity::be_opaque()
    };
    let (Ok(()), Ok(reader)) = (become_guest(), guest.try_clone()) else { return };
    let (Ok(input), Ok(output)) =
        (io::stdin().as_fd().try_clone_to_owned(), io::stdout().as_fd().try_clone_to_owned())
    else {
        return;
    };
    let (mut input, mut output) = (File::from(input), File::from(output));
    if output.write_all(JOINED).is_err() {
        return;
    }
    std::thread::spawn(move || {
        let _ = carry(&mut input, &mut &guest);
        let _ = guest.shutdown(Shutdown::Write);
    });
    let _ = carry(&mut &reader, &mut output);
}

/// Connects only to a socket of the guest's user: a command with write access could have put its own there, and
/// would receive the host's secret.
fn find() -> io::Result<UnixStream> {
    let stream = UnixStream::connect(SOCKET)?;
    let peer = socket_peercred(stream.as_fd())?;
    match peer.uid.as_raw() == GUEST_ID {
        true => Ok(stream),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

fn carry(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(()),
            length => to.write_all(&piece[..length])?,
        }
    }
}
