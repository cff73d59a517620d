//! Files of kept output keep the contract, are their owner's alone, and are bounded.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_core::{KeptExec, KeptLogs, Record, Timestamp};
use coracle_stores::LogFiles;
use coracle_testing::conformance::kept_logs::Archive;
use coracle_testing::sample;
use serde_json::json;

coracle_testing::kept_log_conformance!(Directory::new);

const HOUR: Duration = Duration::from_secs(3600);
const NOW: Timestamp = Timestamp::from_millis(600_000);

struct Directory(tempfile::TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn logs(&self) -> LogFiles {
        LogFiles::new(self.0.path().join("logs"), HOUR)
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.0.path().join("logs")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// Keeps output of a new sandbox and returns its record.
    fn keep(&self, tenant: Option<&str>) -> Record {
        let record = Record { tenant: tenant.map(sample::tenant), ..sample::record() };
        let kept = KeptExec::of(&json!({ "exec_id": "exec_1", "text": "out" })).expect("an object");
        self.logs().write(&record, &[kept], NOW, &|| {}).expect("writes");
        record
    }

    fn has(&self, record: &Record) -> bool {
        self.logs().execs(record, NOW).expect("looks").is_some()
    }
}

impl Archive for Directory {
    fn open(&self, retention: Duration) -> Box<dyn KeptLogs> {
        Box::new(LogFiles::new(self.0.path().join("logs"), retention))
    }
}

#[test]
fn it_is_the_owners_file_alone() {
    let directory = Directory::new();
    directory.keep(None);

    let files = directory.files();

    assert_eq!(files.len(), 1);
    let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&files[0]), 0o600);
    assert_eq!(mode(files[0].parent().expect("it is in a directory")), 0o700);
}

#[test]
fn one_tenants_output_does_not_go_for_anothers() {
    // Too many files, then too many bytes.
    for (count, bytes) in [(600, 0), (40, 4 << 20)] {
        let directory = Directory::new();
        let (quiet, own) = (directory.keep(Some("quiet")), directory.keep(None));
        directory.keep(Some("busy"));
        let theirs = directory.files().into_iter().find(|path| path.to_string_lossy().contains("busy"));
        for number in 0..count {
            let path = theirs.as_ref().expect("it is named for its tenant").to_string_lossy();
            let file = File::create(path.replace('~', &format!("{number}~"))).expect("a file");
            file.set_len(bytes).expect("it takes no room where it is empty");
        }

        directory.keep(Some("busy"));

        assert!(directory.has(&quiet) && directory.has(&own), "{count}");
        let left = directory.files();
        let total: u64 = left.iter().map(|path| path.metadata().expect("it is there").len()).sum();
        assert!(left.len() <= 512 && total <= 128 << 20, "{} files, {total} bytes", left.len());
        assert!(left.len() > 30, "no more goes than has to");
    }
}
