//! Pseudo-terminals.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};
use rustix::termios::{Winsize, tcsetwinsize};

/// Both ends of a pseudo-terminal.
#[derive(Debug)]
pub struct Pair {
    pub controller: OwnedFd,
    pub user: OwnedFd,
}

/// Opens a pair from the `devpts` instance whose root directory is given.
pub fn open(devpts: BorrowedFd<'_>) -> io::Result<Pair> {
    let controller = openat(devpts, "ptmx", OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::pty::unlockpt(&controller)?;
    let user = rustix::pty::ioctl_tiocgptpeer(
        &controller,
        rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY | rustix::pty::OpenptFlags::CLOEXEC,
    )?;
    Ok(Pair { controller, user })
}

/// Sets the size of the terminal, which the kernel reports to its programs.
pub fn resize(controller: BorrowedFd<'_>, rows: u16, columns: u16) -> io::Result<()> {
    Ok(tcsetwinsize(controller, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })?)
}

/// Makes the terminal the controlling terminal of the session this process leads.
pub fn control(user: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::process::ioctl_tiocsctty(user.as_fd())?)
}
