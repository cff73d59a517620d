//! The composition root: the only place that knows which store, backends and clock an engine is made of.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use coracle_core::headroom::{Disk, freeing};
use coracle_core::store::Which;
use coracle_core::{Answers, Clock, Error, Result, SandboxId, SessionKey, Store, Timestamp, Tokens};
use coracle_engine::egress::{Start, Threads};
use coracle_engine::{Caller, Claims, CrashPoints, Engine, Keepers, Parts, Roster};
use coracle_git::HostedRepos;
use coracle_stores::sqlite::SqliteStore;
use coracle_stores::{LogFiles, PackageFiles};
use rustix::process::{Signal, getpid, kill_process};

use crate::ballast::Ballast;
use crate::config::{Config, Registries, Repos};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Makes the engine of a home, and the home if it does not exist.
pub fn engine(config: &Config) -> Result<Engine> {
    engine_with(config, Arc::new(Threads))
}

/// Makes the same engine, with another way to start keepers.
pub fn engine_with(config: &Config, keepers: Arc<dyn Start>) -> Result<Engine> {
    compose(config, open_store(config)?, keepers)
}

/// Makes an engine for a home whose records are lost: it knows no sandbox, and finds existing ones by the home's
/// mark. What it stores is gone with it.
pub fn engine_without_records(config: &Config, keepers: Arc<dyn Start>) -> Result<Engine> {
    let recall = || coracle_backends::recall(&config.home);
    let store = freeing(&Ballast::of(&config.home), || SqliteStore::without_records(&config.home, &recall))?;
    compose(config, store, keepers)
}

/// Tells whether an error says that the records of a home are lost.
pub fn are_records_lost(error: &Error) -> bool {
    coracle_stores::sqlite::is_lost(error)
}

/// Opens the database. SQLite writes to a file beside it when the first process opens it, which needs room even if
/// nothing changes.
fn open_store(config: &Config) -> Result<SqliteStore> {
    if !coracle_backends::heeds_mark() {
        // Older homes have neither file.
        for path in [config.home.instance(), config.home.database_mark()] {
            let _ = std::fs::remove_file(path);
        }
    }
    let recall = || coracle_backends::recall(&config.home);
    freeing(&Ballast::of(&config.home), || SqliteStore::open_recalling(&config.home, &recall))
}

fn compose(config: &Config, store: SqliteStore, keepers: Arc<dyn Start>) -> Result<Engine> {
    #[cfg(feature = "weaken")]
    coracle_engine::egress::weak::heed(coracle_backends::weakened());
    let disk = Ballast::of(&config.home);
    let store = Arc::new(store);
    disk.refill();
    let home = config.home.clone();
    let Repos { search, push_max } = config.repos.clone();
    let hosting = coracle_git::Settings { search, push_max, crash: crash_at };
    let crash = arm(config.crash_at.as_deref());
    let backends = coracle_backends::BackendConfig {
        home: config.home.clone(),
        instance: store.instance()?,
        registries: registries(config),
        engines: config.engines.clone(),
        clock: || SystemClock.now(),
        crash: crash_at,
    };
    Ok(Engine::new(Parts {
        store,
        backends: Roster::with(coracle_backends::all(&backends), move |name| {
            coracle_backends::named(&backends, name)
        })
        .settled_on(move || coracle_backends::settled(&home)),
        clock: Arc::new(SystemClock),
        policy: config.policy.clone(),
        boot: boot()?,
        crash,
        keepers: Some(Keepers::new(config.home.keepers(), keepers)),
        logs: Some(Arc::new(LogFiles::new(config.home.logs(), config.logs_retention))),
        packages: Some(Arc::new(PackageFiles::new(config.home.packages(), config.policy.install.clone()))),
        disk: Some(Arc::new(disk)),
        claims: Some(Claims::new(config.home.claims())),
        repos: Arc::new(HostedRepos::new(config.home.repos(), hosting)),
    }))
}

/// Returns the names of at most `max` live sandboxes, the newest first. Makes no home, and leaves one of another
/// version as it is.
pub fn live_names(config: &Config, max: usize) -> Result<Vec<(SandboxId, Option<SessionKey>)>> {
    if !coracle_stores::sqlite::is_current(&config.home) {
        return Ok(Vec::new());
    }
    let newest = open_store(config)?.newest(None, Which::Live, max)?;
    Ok(newest.into_iter().map(|record| (record.id, record.key)).collect())
}

/// Returns where the tokens of a home are kept; makes the home if it does not exist.
pub fn tokens(config: &Config) -> Result<Arc<dyn Tokens>> {
    Ok(Arc::new(open_store(config)?))
}

/// Returns where answers to repeated requests are kept; makes the home if it does not exist.
pub fn answers(config: &Config) -> Result<Arc<dyn Answers>> {
    Ok(Arc::new(open_store(config)?))
}

fn registries(config: &Config) -> coracle_backends::Registries {
    let Registries { plain_http, private, docker_config, extra_roots, pace } = config.registries.clone();
    coracle_backends::Registries { plain_http, private, docker_config, extra_roots, pace }
}

/// Returns the caller that the configuration names.
pub fn caller(config: &Config) -> Caller {
    Caller::acting_as(config.run.clone()).under(config.epoch)
}

/// Returns by how many milliseconds a test shifts the clock, read from a file. Only builds for tests have this,
/// because tests cannot set the machine's clock.
#[cfg(debug_assertions)]
fn offset() -> i64 {
    static FILE: OnceLock<Option<std::path::PathBuf>> = OnceLock::new();
    let file = FILE.get_or_init(crate::config::test_clock);
    let text = file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[cfg(not(debug_assertions))]
const fn offset() -> i64 {
    0
}

/// The machine's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_millis(now.saturating_add_signed(offset()))
    }

    fn up(&self) -> Duration {
        coracle_sys::clock::up()
    }
}

/// The machine's clock for a long-lived process: setting it back does not take time back, and setting it forth and
/// back again changes nothing.
#[derive(Debug, Clone, Copy)]
pub struct SteadyClock {
    started: Timestamp,
    at: Instant,
}

impl SteadyClock {
    /// Starts with the machine's clock as it is now.
    pub fn new() -> Self {
        Self { started: SystemClock.now(), at: Instant::now() }
    }
}

impl Default for SteadyClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        let passed = u64::try_from(self.at.elapsed().as_millis()).unwrap_or(u64::MAX);
        SystemClock.now().max(Timestamp::from_millis(self.started.as_millis().saturating_add(passed)))
    }

    fn up(&self) -> Duration {
        SystemClock.up()
    }
}

fn boot() -> Result<String> {
    let id = std::fs::read_to_string(BOOT_ID)
        .map_err(|error| Error::internal(format!("could not read the boot id from `{BOOT_ID}`"), error))?;
    Ok(id.trim_end().to_owned())
}

/// The crash point at which this process dies or stops, for crash tests. A static, because backends call a plain
/// function.
static CRASH_AT: OnceLock<String> = OnceLock::new();

fn arm(point: Option<&str>) -> CrashPoints {
    match point {
        Some(point) => {
            CRASH_AT.get_or_init(|| point.to_owned());
            CrashPoints::calling(crash_at)
        }
        None => CrashPoints::default(),
    }
}

/// Dies at the armed crash point as if by `kill -9`, without a chance to clean up. Armed as `stop:POINT`, it stops
/// there until it gets SIGCONT; armed as `panic:POINT`, it panics, as a fault of ours would.
fn crash_at(point: &'static str) {
    let Some(armed) = CRASH_AT.get() else { return };
    let signal = match armed.split_once(':') {
        None if armed == point => Signal::KILL,
        Some(("stop", armed)) if armed == point => Signal::STOP,
        Some(("panic", armed)) if armed == point => panic!("told to panic at `{point}`"),
        None | Some(_) => return,
    };
    let _ = kill_process(getpid(), signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_the_clock_back_takes_no_time_back() {
        let ahead = Timestamp::from_millis(SystemClock.now().as_millis() + 3_600_000);
        // The clock started when the machine's clock was an hour ahead of what it says now.
        let clock = SteadyClock { started: ahead, at: Instant::now() };

        assert!(clock.now() >= ahead);
    }

    #[test]
    fn setting_the_clock_forth_is_believed_only_while_it_lasts() {
        let behind = Timestamp::from_millis(SystemClock.now().as_millis() - 3_600_000);
        let clock = SteadyClock { started: behind, at: Instant::now() };

        let before = SystemClock.now();
        assert!(clock.now() >= before);
        assert!(clock.now().since(before) < std::time::Duration::from_secs(60));
    }
}
