//! A file of a sandbox that is swapped for another by `mv` while a call reads it.

use std::fs::File;
use std::io::Read;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::{Call, Finished, Home};

/// More than everything between a file and its reader holds.
pub const SIZE: usize = 16 << 20;

/// A file whose first version is of one letter, and whose second is of another.
#[derive(Debug, Clone, Copy)]
pub struct Swapped<'a> {
    pub home: &'a Home,
    pub sandbox: &'a str,
}

impl Swapped<'_> {
    /// What the file is called.
    pub const NAME: &'static str = "file";

    /// Makes the first version.
    pub fn begin(&self) {
        self.make("a");
    }

    /// Puts the second in its place.
    pub fn swap(&self) {
        self.make("b");
    }

    fn make(&self, letter: &str) {
        let script = format!("head -c {SIZE} /dev/zero | tr '\\0' {letter} > other; mv other {}", Self::NAME);
        self.home.exec(self.sandbox, ["sh", "-c", &script]).succeed();
    }

    /// Makes a call that writes the file to standard output, a pipe that is read only after the swap.
    pub fn read_across(&self, call: Call) -> Vec<u8> {
        let (read, end) = read_across(call, || self.swap());
        end.expect_code(0);
        read
    }
}

/// Makes a call whose standard output, a pipe, is read only after something else was done.
pub fn read_across(call: Call, meanwhile: impl FnOnce()) -> (Vec<u8>, Finished) {
    let room = tempfile::tempdir().expect("a directory can be made");
    let pipe = room.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("the directory is ours");
    let call = call.through(["sh", "-c", "exec \"$@\" > \"$0\"", &pipe.display().to_string()]).start();

    let mut reader = File::open(pipe).expect("the call opens its end");
    let mut read = vec![0; 1];
    reader.read_exact(&mut read).expect("the file begins");
    meanwhile();
    reader.read_to_end(&mut read).expect("the file ends");
    (read, call.finish())
}

/// Fails unless that is the first version, all of it.
#[track_caller]
pub fn expect_first_version(read: &[u8]) {
    assert_eq!(read.len(), SIZE);
    assert!(read.iter().all(|byte| *byte == b'a'), "it is mixed");
}
