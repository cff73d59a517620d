//! What a guest that ends by itself leaves of its execs to the next guest of the same sandbox: ids, ends and output, in one file
//! of the storage.
//!
//! The file is at the top of the storage, of which commands see single layers alone. What is read from it is checked all the
//! same: its disk may have been damaged, and a guest that was broken into may have written it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime};

use coracle_sys::rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, openat2, renameat, syncfs, unlinkat};
use coracle_sys::rustix::io::Errno;
use coracle_wire::{Chunk, ExecState, FRAME_MAX, FrameError, HEADER_LEN, PastExec};

use super::counters::Reading;
use super::exec::{Exec, Phase};
use super::spool::Spool;
use super::start::ID_MAX;
use super::stopping::Stopping;
use super::table::{BUDGET, ENDED_MAX, Execs, Table};

const NAME: &str = "execs";
/// It gets its name only when it is whole.
const PART: &str = "execs.part";
/// The first bytes, with the version of what follows. Other versions are not read: ids of that life are unknown then.
const MAGIC: &[u8; 8] = b"corexec1";
/// Longer than any message: an exec without its output, or a chunk of that.
const MESSAGE_MAX: usize = FRAME_MAX + HEADER_LEN;

/// Where it is kept.
#[derive(Debug)]
pub struct Past(OwnedFd);

/// An ended exec, with what is kept of its output.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    exec: PastExec,
    chunks: Vec<Chunk>,
}

impl Past {
    /// Keeps it in this directory.
    pub fn at(storage: OwnedFd) -> Self {
        Self(storage)
    }

    /// Writes all files of the sandbox to the disk.
    pub fn sync(&self) -> io::Result<()> {
        Ok(syncfs(&self.0)?)
    }

    /// Forgets what is there: it is none of this sandbox's.
    pub fn forget(&self) {
        let _ = unlinkat(&self.0, NAME, AtFlags::empty());
    }

    /// Returns what the last guest left; nothing from the first thing on that no guest of ours has written.
    fn read(&self) -> (Vec<Left>, Duration) {
        let mut left = Vec::new();
        let opened = self.open(NAME, OFlags::RDONLY | OFlags::NONBLOCK).map(File::from);
        let plain = opened.ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()));
        // Somewhat more than all output that is ever kept, with what its numbers take.
        let room = (BUDGET + (BUDGET >> 1)) as u64;
        let Some(mut file) = plain.map(|file| BufReader::new(file.take(room))) else {
            return (left, Duration::ZERO);
        };
        let Some(written) = read_head(&mut file) else { return (left, Duration::ZERO) };
        while left.len() < ENDED_MAX {
            let Some(exec) = read_exec(&mut file) else { break };
            left.push(exec);
        }
        (left, SystemTime::now().duration_since(written).unwrap_or_default())
    }

    fn write(&self, execs: impl Iterator<Item = Left>) -> io::Result<()> {
        let _ = unlinkat(&self.0, PART, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut file = io::BufWriter::new(File::from(self.open(PART, flags)?));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        file.write_all(MAGIC)?;
        file.write_all(&(now.as_millis() as u64).to_le_bytes())?;
        for left in execs {
            write_message(&mut file, coracle_wire::encode(&left.exec))?;
            for chunk in &left.chunks {
                write_message(&mut file, coracle_wire::encode(chunk))?;
            }
        }
        file.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(renameat(&self.0, PART, &self.0, NAME)?)
    }

    fn open(&self, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o600) } else { Mode::empty() };
        openat2(&self.0, name, flags | OFlags::CLOEXEC, mode, within)
    }
}

fn write_message(file: &mut impl Write, encoded: Result<Vec<u8>, FrameError>) -> io::Result<()> {
    let message = encoded.map_err(io::Error::other)?;
    let length = u32::try_from(message.len()).map_err(io::Error::other)?;
    file.write_all(&length.to_le_bytes())?;
    file.write_all(&message)
}

fn read_head(file: &mut impl Read) -> Option<SystemTime> {
    let mut head = [0; 16];
    file.read_exact(&mut head).ok()?;
    let (magic, millis) = head.split_at(MAGIC.len());
    let millis = u64::from_le_bytes(millis.try_into().ok()?);
    (magic == MAGIC).then(|| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis)))?
}

fn read_message(file: &mut impl Read) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    file.read_exact(&mut length).ok()?;
    let length = u32::from_le_bytes(length) as usize;
    if !(HEADER_LEN..=MESSAGE_MAX).contains(&length) {
        return None;
    }
    let mut message = vec![0; length];
    file.read_exact(&mut message).ok()?;
    Some(message.split_off(HEADER_LEN))
}

/// Returns the next exec with its output, if all of it is there.
fn read_exec(file: &mut impl Read) -> Option<Left> {
    let exec: PastExec = coracle_wire::decode(&read_message(file)?).ok()?;
    let mut chunks = Vec::new();
    for _ in 0..exec.chunks {
        chunks.push(coracle_wire::decode(&read_message(file)?).ok()?);
    }
    let is_ended = exec.state.ending.is_some() && !exec.exec.is_empty() && exec.exec.len() <= ID_MAX;
    is_ended.then_some(Left { exec, chunks })
}

impl Execs {
    /// Takes over what the last guest has left.
    pub fn inherit(&self, past: &Past) {
        let (left, slept) = past.read();
        let mut table = self.lock();
        for exec in left {
            table.adopt(exec, slept);
        }
        table.bound_ended();
    }

    /// Leaves all execs to the next guest, and then calls `leave`, while no command can start. Does nothing if one runs.
    pub fn bequeath(&self, past: &Past, leave: impl FnOnce()) {
        let table = self.lock();
        if table.running() > 0 || table.starting > 0 {
            return;
        }
        // Where the output has no room the ends may have some. Without either their ids are unknown after this life.
        let ends = |exec: &Exec, id: &str| {
            let left = exec.left(id)?;
            Some(Left { exec: PastExec { chunks: 0, ..left.exec }, chunks: Vec::new() })
        };
        let _ = past.write(table.bequest(Exec::left)).or_else(|_| past.write(table.bequest(ends)));
        leave();
    }
}

impl Table {
    fn adopt(&mut self, left: Left, slept: Duration) {
        let id = left.exec.exec.clone();
        if self.execs.contains_key(&id) {
            return;
        }
        if let Some(exec) = Exec::of(left, slept) {
            self.execs.insert(id.clone(), exec);
            self.ended.push_back(id);
        }
    }

    /// Returns the ended execs, oldest first.
    fn bequest(&self, left: impl Fn(&Exec, &str) -> Option<Left>) -> impl Iterator<Item = Left> {
        self.ended.iter().filter_map(move |id| left(self.execs.get(id)?, id))
    }
}

impl Exec {
    fn left(&self, id: &str) -> Option<Left> {
        let (state, chunks) = (self.state(), self.spool.all());
        state.ending.as_ref()?;
        let exec = PastExec {
            exec: id.to_owned(),
            argv: self.argv.clone(),
            epoch: self.epoch,
            fingerprint: self.fingerprint,
            chunks: chunks.len() as u64,
            state,
        };
        Some(Left { exec, chunks })
    }

    /// Returns an exec of an earlier life.
    fn of(Left { exec, chunks }: Left, slept: Duration) -> Option<Self> {
        let PastExec { argv, epoch, fingerprint, state, .. } = exec;
        let ending = state.ending?;
        let age = Duration::from_millis(state.age_ms.unwrap_or(state.duration_ms)).saturating_add(slept);
        let now = Instant::now();
        let ExecState { limits, ended_background, duration_ms, .. } = state.clone();
        Some(Self {
            argv,
            epoch,
            fingerprint,
            phase: Phase::Ended { ending, duration: Duration::from_millis(duration_ms) },
            pid: 0,
            family: None,
            spool: Spool::left(&state, chunks),
            output_bytes: 0,
            stdin: None,
            terminal: None,
            started: now.checked_sub(age).unwrap_or(now),
            deadline: None,
            background_deadline: None,
            grace: Duration::ZERO,
            keep_background: false,
            cause: None,
            early_stop: None,
            stopping: Stopping::new(None),
            parting: None,
            left_behind: ended_background,
            before: Reading::default(),
            limits,
            attendants: HashMap::new(),
            expected: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use coracle_wire::{Ending, Stream};

    use super::*;

    fn past(id: &str) -> Left {
        let chunk = |seq, data: &[u8]| Chunk { seq, stream: Stream::Stdout, data: data.to_vec() };
        let state = ExecState {
            ending: Some(Ending::Exited(7)),
            stdout_bytes: 6,
            last_seq: 2,
            duration_ms: 5,
            ..ExecState::unseen()
        };
        let argv = vec![b"make".to_vec()];
        let exec = PastExec { exec: id.to_owned(), argv, epoch: 3, fingerprint: 9, state, chunks: 2 };
        Left { exec, chunks: vec![chunk(1, b"one"), chunk(2, b"two")] }
    }

    fn place() -> (tempfile::TempDir, Past) {
        let home = tempfile::tempdir().expect("a directory");
        let opened = File::open(home.path()).expect("it is there");
        (home, Past::at(opened.into()))
    }

    #[test]
    fn what_a_guest_leaves_the_next_one_has() {
        let (_home, place) = place();
        let mut first = Table::default();
        ["a", "b"].into_iter().for_each(|id| first.adopt(past(id), Duration::ZERO));
        place.write(first.bequest(Exec::left)).expect("it is written");

        let mut second = Table::default();
        place.read().0.into_iter().for_each(|exec| second.adopt(exec, Duration::from_secs(60)));

        assert_eq!(second.ended, ["a", "b"]);
        let exec = second.execs.get_mut("a").expect("it is there");
        let state = exec.state();
        assert_eq!((state.ending, state.stdout_bytes, state.last_seq), (Some(Ending::Exited(7)), 6, 2));
        assert!(state.age_ms >= Some(60_000), "{state:?}");
        assert_eq!(exec.spool.read(0, 10), past("a").chunks);
        assert_eq!((exec.fingerprint, exec.epoch), (9, 3));
    }

    #[test]
    fn what_no_guest_has_written_is_not_taken_for_an_exec() {
        let (home, place) = place();
        place.write([past("a"), past("b")].into_iter()).expect("it is written");
        let whole = std::fs::read(home.path().join(NAME)).expect("it is there");
        let entry = (whole.len() - 16) / 2;
        let with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = whole.clone();
            change(&mut bytes);
            std::fs::write(home.path().join(NAME), bytes).expect("ours");
            place.read().0.len()
        };

        assert_eq!(with(&|_| {}), 2);
        assert_eq!(with(&|bytes| bytes.truncate(bytes.len() - 1)), 1);
        assert_eq!(with(&|bytes| bytes[7] = b'2'), 0, "another version");
        assert_eq!(with(&|bytes| bytes[16..20].fill(0xff)), 0, "longer than any exec");
        assert_eq!(with(&|bytes| bytes[16 + entry + 4..].fill(0xff)), 1);
        assert_eq!(with(&Vec::clear), 0);
        let disordered = past("a").chunks.into_iter().rev().collect();
        assert!(Spool::left(&past("a").exec.state, disordered).all().is_empty());

        std::fs::remove_file(home.path().join(NAME)).expect("ours");
        std::os::unix::fs::symlink("/etc/passwd", home.path().join(NAME)).expect("ours");
        assert_eq!(place.read().0, []);
    }
}
