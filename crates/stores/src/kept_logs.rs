//! Output of closed sandboxes in files of the home, one for each sandbox, with a line of JSON for each exec.
//!
//! Files are the owner's alone, whole or not there, and bounded in size and number.

mod surplus;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Lines, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use coracle_core::clock::Timestamp;
use coracle_core::{Error, ExecId, KeptExec, KeptLogs, Record, Result, TenantId};

use self::surplus::{KeptFile, surplus};

/// A file that is being written is done within seconds; one that is older was left by somebody who died.
const DRAFT_AGE: Duration = Duration::from_secs(60);
const DRAFT: &str = ".draft";
/// Every sandbox's id begins so; a file named like a sandbox would look like something of it that was left behind.
const PREFIX: &str = "sbx_";
/// Stands between a sandbox and its tenant in the name of a file; neither has one in its own.
const OF: char = '~';

/// Where output is kept, and for how long.
#[derive(Debug, Clone)]
pub struct LogFiles {
    directory: PathBuf,
    retention: Duration,
}

impl KeptLogs for LogFiles {
    fn is_on(&self) -> bool {
        !self.retention.is_zero()
    }

    fn write(&self, record: &Record, kept: &[KeptExec], now: Timestamp, written: &dyn Fn()) -> Result<()> {
        self.write_file(record, kept, now, written)
            .map_err(|error| Error::internal("could not keep the output of a sandbox", error))
    }

    fn read(&self, record: &Record, exec: &ExecId, now: Timestamp) -> Result<Option<KeptExec>> {
        for line in self.lines(record, now)?.into_iter().flatten() {
            let kept = KeptExec::parse(line.map_err(unread)?)?;
            if kept.exec_id() == exec {
                return Ok(Some(kept));
            }
        }
        Ok(None)
    }

    fn execs(&self, record: &Record, now: Timestamp) -> Result<Option<Vec<ExecId>>> {
        let Some(lines) = self.lines(record, now)? else { return Ok(None) };
        let ids = lines.map(|line| Ok(KeptExec::parse(line.map_err(unread)?)?.exec_id().clone()));
        ids.collect::<Result<_>>().map(Some)
    }

    fn taken_by(&self, tenant: &TenantId) -> u64 {
        let own = format!("{OF}{tenant}.");
        let is_own = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(&own));
        let files = self.files().unwrap_or_default();
        files.iter().filter(|(path, _)| is_own(path)).map(|(_, metadata)| metadata.len()).sum()
    }

    fn sweep(&self, now: Timestamp) -> Result<usize> {
        let files = self.files().map_err(|error| Error::internal("could not list kept output", error))?;
        let mut gone = 0;
        for (path, metadata) in files {
            let most = if is_draft(&path) { DRAFT_AGE } else { self.retention };
            match age(&metadata, now) {
                Some(age) if age >= most => gone += usize::from(fs::remove_file(&path).is_ok()),
                Some(_) => {}
                // By the machine's clock: an older coracle kept it, or somebody still writes it. It is new from now on.
                None => drop(
                    File::options().write(true).open(&path).and_then(|file| file.set_modified(moment(now))),
                ),
            }
        }
        Ok(gone)
    }
}

impl LogFiles {
    /// Keeps output in a directory, made when it is needed. A retention of zero keeps none.
    pub fn new(directory: PathBuf, retention: Duration) -> Self {
        Self { directory, retention }
    }

    fn write_file(
        &self,
        record: &Record,
        kept: &[KeptExec],
        now: Timestamp,
        written: &dyn Fn(),
    ) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let path = self.path(record);
        let draft = path.with_extension(&DRAFT[1..]);
        // Somebody who died may have left one.
        let _ = fs::remove_file(&draft);
        let finished = write_draft(&draft, kept, now).and_then(|()| {
            written();
            fs::rename(&draft, &path)
        });
        if finished.is_err() {
            // On a full disk half a log would keep the room others need.
            let _ = fs::remove_file(&draft);
        }
        finished?;
        self.make_room()
    }

    /// Returns the lines kept of a sandbox, unless they were kept for long enough.
    fn lines(&self, record: &Record, now: Timestamp) -> Result<Option<Lines<BufReader<File>>>> {
        let file = match File::open(self.path(record)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(unread)?,
        };
        let metadata = file.metadata().map_err(unread)?;
        match age(&metadata, now).is_some_and(|age| age >= self.retention) {
            true => Ok(None),
            false => Ok(Some(BufReader::new(file).lines())),
        }
    }

    /// Removes files until the rest is within bounds.
    fn make_room(&self) -> io::Result<()> {
        let mut files = self.files()?;
        files.retain(|(path, _)| !is_draft(path));
        files.sort_by_key(|(_, metadata)| metadata.modified().unwrap_or(UNIX_EPOCH));
        let kept = files.into_iter().map(|(path, metadata)| KeptFile::new(path, metadata.len()));
        for path in surplus(kept.collect()) {
            // Somebody else may be at it, too.
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    fn files(&self) -> io::Result<Vec<(PathBuf, fs::Metadata)>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        // What is gone between the two looks was removed by somebody else.
        Ok(entries.flatten().filter_map(|entry| Some((entry.path(), entry.metadata().ok()?))).collect())
    }

    fn path(&self, record: &Record) -> PathBuf {
        let id = record.id.as_str();
        let name = id.strip_prefix(PREFIX).unwrap_or(id);
        self.directory.join(match &record.tenant {
            Some(tenant) => format!("{name}{OF}{tenant}.log"),
            None => format!("{name}.log"),
        })
    }
}

fn write_draft(draft: &Path, kept: &[KeptExec], now: Timestamp) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    let mut sink = io::BufWriter::new(&file);
    for one in kept {
        writeln!(sink, "{}", one.line())?;
    }
    sink.flush()?;
    drop(sink);
    file.set_modified(moment(now))
}

fn is_draft(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == &DRAFT[1..])
}

/// Returns for how long a file was kept, in observed time; nothing if it was not stamped with that.
fn age(metadata: &fs::Metadata, now: Timestamp) -> Option<Duration> {
    metadata.modified().ok().and_then(|at| moment(now).duration_since(at).ok())
}

/// Observed time as the time of a file: some days after 1970, which no clock shows.
fn moment(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(at.as_millis())
}

fn unread(error: io::Error) -> Error {
    Error::internal("could not read the kept output of a sandbox", error)
}
