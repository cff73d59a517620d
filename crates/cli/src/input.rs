//! Standard input of coracle: passes it on to a command, or notices that it is left unread.

use std::io::{self, Read};

use rustix::fs::{FileType, SeekFrom, fstat, seek};
use rustix::io::ioctl_fionread;

use super::signals::Target;
use super::stderr;

/// The capacity of a pipe; larger pieces would only delay their first byte.
const PIECE_LEN: usize = 64 << 10;

/// Passes on bytes as they come, and the end, on a thread of its own.
///
/// A command that reads none of it, or has ended, is no failure. The thread ends with the process.
pub fn pass_on(target: Target) {
    std::thread::spawn(move || {
        if let Err(error) = pump(&target) {
            stderr::warning(&format!("could not read standard input: {error}"));
        }
    });
}

/// Tells whether standard input is a pipe with bytes in it, or a file of which nothing was read.
///
/// In `while read line; do coracle run …; done < list` the file belongs to the loop, which has read from it.
pub fn is_left_unread() -> bool {
    let stdin = io::stdin();
    let Ok(facts) = fstat(&stdin) else { return false };
    match FileType::from_raw_mode(facts.st_mode) {
        FileType::Fifo => ioctl_fionread(&stdin).is_ok_and(|waiting| waiting > 0),
        FileType::RegularFile => facts.st_size > 0 && seek(&stdin, SeekFrom::Current(0)) == Ok(0),
        _ => false,
    }
}

fn pump(target: &Target) -> io::Result<()> {
    let Ok(mut control) = target.control() else { return Ok(()) };
    let mut stdin = io::stdin().lock();
    let mut piece = vec![0; PIECE_LEN];
    loop {
        let length = match stdin.read(&mut piece) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let passed = match length {
            0 => control.close_input(),
            _ => control.write(&piece[..length]),
        };
        if length == 0 || passed.is_err() {
            return Ok(());
        }
    }
}
