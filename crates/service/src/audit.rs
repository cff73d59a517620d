//! The audit log: which client asked for what, and the outcome. One JSON object per line in `audit.jsonl` of the
//! home.
//!
//! The HTTP and MCP doors of the daemon write it. It never contains inputs, outputs, tokens or secrets. A line is one
//! `write` to a file opened for appending, so lines of many threads and processes never mix, and a killed process
//! leaves whole lines.

use std::fs::File;
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coracle::{Error, Kind, Result};
use coracle_core::{Clock, Home, SandboxId, TenantId, Timestamp};
use rustix::fs::{Mode, OFlags};
use serde::Serialize;

/// How many unauthenticated requests are logged per second. More would let any client fill the disk; the log has the
/// number of those left out.
const UNAUTHENTICATED_MAX: u64 = 10;
/// How much of a client's own words is kept.
const WORD_MAX: usize = 128;

/// The audit log of a home.
#[derive(Debug)]
pub struct Audit {
    file: File,
    /// For unauthenticated requests: the second they came in, how many, and how many were left out in all.
    second: AtomicU64,
    noted: AtomicU64,
    left_out: AtomicU64,
    failing: AtomicU64,
}

/// What the log keeps of one request.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    /// `http` or `mcp`.
    pub door: &'static str,
    /// `uid:1000` or `token:tok_…`; absent for unauthenticated requests.
    pub who: Option<&'a str>,
    pub tenant: Option<&'a TenantId>,
    /// The client's network address.
    pub from: Option<IpAddr>,
    pub operation: Option<&'a str>,
    pub sandbox: Option<&'a SandboxId>,
    pub end: End,
    /// The status, where the door has one.
    pub status: Option<u16>,
    pub took: Duration,
    /// The request's id, as in the answer.
    pub request: &'a str,
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was carried out, or a library refused it, which the status shows.
    Answered,
    Failed(Kind),
    /// Its client disconnected before there was an answer. The daemon still carries out the call.
    Abandoned,
}

impl End {
    /// Returns the outcome of an operation.
    pub fn of<T>(outcome: &Result<T>) -> Self {
        outcome.as_ref().err().map_or(Self::Answered, |error| Self::Failed(error.kind))
    }
}

/// One line.
#[derive(Debug, Serialize)]
struct Line<'a> {
    time: Timestamp,
    request: &'a str,
    door: &'static str,
    who: Option<&'a str>,
    tenant: Option<&'a TenantId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<IpAddr>,
    operation: Option<&'a str>,
    sandbox: Option<&'a SandboxId>,
    /// `ok`, `refused`, `abandoned`, or the kind of the error.
    outcome: serde_json::Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    took_us: u64,
    /// Unauthenticated requests that were not logged since the last line.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
}

impl Audit {
    /// Opens the log of a home, for its owner alone.
    pub fn open(home: &Home) -> Result<Self> {
        let path = home.audit();
        let failed = |error: std::io::Error| {
            Error::new(Kind::NotAvailable, format!("could not open the audit log `{}`", path.display()))
                .hint("it must be a plain file of yours; move away what is there")
                .caused_by(error)
        };
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(&path, flags | OFlags::NONBLOCK, Mode::from_raw_mode(0o600))
            .map(File::from)
            .map_err(|error| failed(error.into()))?;
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
            return Err(failed(std::io::Error::other("it is not a plain file of ours")));
        }
        file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(Self {
            file,
            second: AtomicU64::new(0),
            noted: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
            failing: AtomicU64::new(0),
        })
    }

    /// Logs a request. A failure to write must not keep a caller from closing a sandbox: it is reported on standard
    /// error.
    pub fn note(&self, clock: &dyn Clock, entry: &Entry<'_>) {
        let now = clock.now();
        if entry.who.is_none() && !self.has_room_for_unauthenticated(now) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let line = self.line(now, entry);
        let whole = rustix::io::write(&self.file, &line).is_ok_and(|written| written == line.len());
        if !whole && self.failing.fetch_add(1, Ordering::Relaxed) == 0 {
            crate::warning::warn("the audit log cannot be written; requests go on without it");
        }
    }

    fn line(&self, now: Timestamp, entry: &Entry<'_>) -> Vec<u8> {
        let left_out = Some(self.left_out.swap(0, Ordering::Relaxed)).filter(|count| *count > 0);
        let outcome = match entry.end {
            // Not every refusal is ours: a library may have answered.
            End::Answered if entry.status.is_some_and(|status| status >= 400) => "refused".into(),
            End::Answered => "ok".into(),
            End::Failed(kind) => serde_json::to_value(kind).unwrap_or_default(),
            End::Abandoned => "abandoned".into(),
        };
        let mut line = serde_json::to_vec(&Line {
            time: now,
            request: short(entry.request),
            door: entry.door,
            who: entry.who,
            tenant: entry.tenant,
            from: entry.from,
            operation: entry.operation,
            sandbox: entry.sandbox,
            outcome,
            status: entry.status,
            took_us: u64::try_from(entry.took.as_micros()).unwrap_or(u64::MAX),
            left_out,
        })
        .unwrap_or_default();
        line.push(b'\n');
        line
    }

    fn has_room_for_unauthenticated(&self, now: Timestamp) -> bool {
        let second = now.as_millis() / 1000;
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.noted.store(0, Ordering::Relaxed);
        }
        self.noted.fetch_add(1, Ordering::Relaxed) < UNAUTHENTICATED_MAX
    }
}

fn short(text: &str) -> &str {
    text.char_indices().nth(WORD_MAX).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use coracle_testing::ManualClock;
    use serde_json::Value;

    use super::*;

    const ENTRY: Entry<'static> = Entry {
        door: "http",
        who: Some("token:tok_1"),
        tenant: None,
        from: None,
        operation: Some("sandbox_exec"),
        sandbox: None,
        end: End::Answered,
        status: Some(200),
        took: Duration::from_micros(1500),
        request: "req_1",
    };

    fn directory() -> (tempfile::TempDir, Home) {
        let directory = tempfile::tempdir().expect("a directory");
        let home = Home::at(directory.path());
        (directory, home)
    }

    fn lines(home: &Home) -> Vec<Value> {
        let text = std::fs::read_to_string(home.audit()).expect("a log");
        text.lines().map(|line| serde_json::from_str(line).expect("a line is one document")).collect()
    }

    #[test]
    fn a_line_says_who_did_what_and_what_came_of_it() {
        let ((_directory, home), clock) = (directory(), ManualClock::default());
        let audit = Audit::open(&home).expect("opens");
        let tenant = "acme".parse().expect("an id");

        audit.note(&clock, &ENTRY);
        audit.note(&clock, &Entry { end: End::Failed(Kind::NotFound), tenant: Some(&tenant), ..ENTRY });

        let lines = lines(&home);
        assert_eq!((&lines[0]["who"], &lines[0]["outcome"]), (&"token:tok_1".into(), &"ok".into()));
        assert_eq!((&lines[0]["took_us"], &lines[0]["status"]), (&1500.into(), &200.into()));
        assert_eq!((&lines[1]["tenant"], &lines[1]["outcome"]), (&"acme".into(), &"not_found".into()));
        let mode = home.audit().metadata().expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn lines_of_many_are_whole_and_none_is_lost() {
        let ((_directory, home), clock) = (directory(), ManualClock::default());
        let write = || {
            let audit = Audit::open(&home).expect("opens");
            (0..200).for_each(|_| audit.note(&clock, &ENTRY));
        };

        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(write))));

        assert_eq!(lines(&home).len(), 800);
    }

    #[test]
    fn unauthenticated_requests_cannot_fill_the_disk_and_are_counted() {
        let ((_directory, home), clock) = (directory(), ManualClock::default());
        let audit = Audit::open(&home).expect("opens");
        let unauthenticated = Entry { who: None, end: End::Failed(Kind::Denied), status: Some(401), ..ENTRY };

        (0..1000).for_each(|_| audit.note(&clock, &unauthenticated));
        audit.note(&clock, &ENTRY);

        let lines = lines(&home);
        assert_eq!(lines.len(), 11);
        assert_eq!(lines[10]["left_out"], 990);
    }

    #[test]
    fn a_link_in_the_place_of_the_log_is_refused() {
        let (_directory, home) = directory();
        std::fs::write(home.path().join("victim"), "").expect("writes");
        std::os::unix::fs::symlink(home.path().join("victim"), home.audit()).expect("links");

        assert_eq!(Audit::open(&home).expect_err("it is refused").kind, Kind::NotAvailable);
    }
}
