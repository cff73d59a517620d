//! Passes descriptors over a socket, beside a payload that may be longer than one packet.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// The most descriptors the kernel sends with one message.
pub const DESCRIPTORS_MAX: usize = 253;

/// Sends the length of the payload, the payload and the descriptors.
pub fn send(socket: &UnixStream, payload: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    if descriptors.len() > DESCRIPTORS_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let length = (payload.len() as u32).to_le_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(descriptors));
    // The descriptors ride on the length alone, so that a short send of the payload cannot separate them.
    let sent = sendmsg(socket, &[IoSlice::new(&length)], &mut control, SendFlags::NOSIGNAL)?;
    if sent != length.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    (&*socket).write_all(payload)
}

/// Receives what [`send`] sent. Refuses a payload longer than `limit`.
pub fn receive(socket: &UnixStream, limit: usize) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut length = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message =
        recvmsg(socket, &mut [IoSliceMut::new(&mut length)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if message.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    (&*socket).read_exact(&mut length[message.bytes..])?;
    let descriptors = control
        .drain()
        .flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect::<Vec<_>>(),
            _ => Vec::new(),
        })
        .collect();

    let length = u32::from_le_bytes(length) as usize;
    if length > limit {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut payload = vec![0; length];
    (&*socket).read_exact(&mut payload)?;
    Ok((payload, descriptors))
}
