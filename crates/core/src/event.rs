//! Events of sandboxes, in the order they happened. The store derives them by comparing a record before and after a
//! change.
//!
//! The store appends them in the transaction that changes the record, so no door can change a sandbox without an
//! event, and no event reports a change that did not happen. The start and end of commands are appended by the
//! process that sees them first. Never in an event: a command line, its environment, its output.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::clock::Timestamp;
use crate::error::Result;
use crate::exec::{LimitHit, Outcome};
use crate::headroom::Level;
use crate::ids::{ExecId, RunId, SandboxId, TenantId};
use crate::lifecycle::State;
use crate::observed::Moment;
use crate::record::Record;

/// How much of a reason an event repeats; the record has all of it.
const REASON_MAX: usize = 500;

/// The kind of an event. The names are stable and the same on every door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A caller asked for it; it is being made, or taken from the spares.
    Opened,
    /// It can be used.
    Ready,
    /// It could not be made.
    Failed,
    Paused,
    Resumed,
    Hibernating,
    Hibernated,
    /// It is being started again from where it was saved.
    Resuming,
    /// Saving it failed, and it can be used as before.
    Revived,
    /// A run claimed it while it had no owner.
    Claimed,
    /// Its owner lent it to another run.
    Lent,
    /// Its owner gave it back, to the previous holder or to no owner.
    GivenBack,
    /// It may reach less than before.
    Narrowed,
    /// A fork was made from its files.
    Forked,
    /// It sleeps, and ends within a day if no caller uses it.
    Expiring,
    /// It reached its idle limit, or slept for as long as sleepers are kept, and ended.
    Expired,
    /// It is gone although no caller closed it.
    Lost,
    /// It was found without a record.
    Quarantined,
    Destroying,
    Destroyed,
    /// Its removal failed in part; the janitor tries again.
    DestroyFailed,
    ExecStarted,
    ExecEnded,
    /// The disk of the home is nearly full: nothing new is made. Belongs to no sandbox; tenants do not see it.
    StorageLow,
    /// The disk of the home has room again.
    StorageRecovered,
}

impl Kind {
    /// Every kind, in the order of a life.
    pub const ALL: [Self; 25] = [
        Self::Opened,
        Self::Ready,
        Self::Failed,
        Self::Paused,
        Self::Resumed,
        Self::Hibernating,
        Self::Hibernated,
        Self::Resuming,
        Self::Revived,
        Self::Claimed,
        Self::Lent,
        Self::GivenBack,
        Self::Narrowed,
        Self::Forked,
        Self::Expiring,
        Self::Expired,
        Self::Lost,
        Self::Quarantined,
        Self::Destroying,
        Self::Destroyed,
        Self::DestroyFailed,
        Self::ExecStarted,
        Self::ExecEnded,
        Self::StorageLow,
        Self::StorageRecovered,
    ];

    /// Returns the name users see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Ready => "ready",
            Self::Failed => "failed",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Hibernating => "hibernating",
            Self::Hibernated => "hibernated",
            Self::Resuming => "resuming",
            Self::Revived => "revived",
            Self::Claimed => "claimed",
            Self::Lent => "lent",
            Self::GivenBack => "given_back",
            Self::Narrowed => "narrowed",
            Self::Forked => "forked",
            Self::Expiring => "expiring",
            Self::Expired => "expired",
            Self::Lost => "lost",
            Self::Quarantined => "quarantined",
            Self::Destroying => "destroying",
            Self::Destroyed => "destroyed",
            Self::DestroyFailed => "destroy_failed",
            Self::ExecStarted => "exec_started",
            Self::ExecEnded => "exec_ended",
            Self::StorageLow => "storage_low",
            Self::StorageRecovered => "storage_recovered",
        }
    }

    /// Returns the kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// One event of a sandbox, or of the home.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// When it happened, in milliseconds since 1970. Events are ordered by number, not by this: the clock may be set
    /// back.
    pub at: Timestamp,
    pub kind: Kind,
    /// Absent for an event of the home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The run that owned it, or owned it last.
    pub run: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<ExecId>,
    /// Further fields; which ones depends on the kind.
    pub details: Map<String, Value>,
    /// When it happened in observed time, which decides when it is forgotten. Doors do not show it.
    #[serde(skip, default = "Event::never")]
    pub observed: Timestamp,
}

/// A stored event, with its number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Numbered {
    /// Grows with every event of the home; readers do not get the numbers of events they may not see.
    pub seq: u64,
    #[serde(flatten)]
    pub event: Event,
}

/// Returns the events of a change of a record; none for spares until a caller takes them.
pub fn between(before: Option<&Record>, after: &Record) -> Vec<Event> {
    if after.is_untaken() {
        return Vec::new();
    }
    match before.filter(|before| !before.is_untaken()) {
        None => beginning(before, after),
        Some(before) => changes(before, after),
    }
}

/// Tells whether this change ends all execs that still ran in a sandbox.
pub fn ends_execs(before: &Record, after: &Record) -> bool {
    let over = |state: State| state.is_ended() || matches!(state, State::Lost | State::Hibernated);
    // Of a guest that ended by itself none ran, and the next one tells how they ended.
    let known = after.state == State::Hibernated && after.kept.as_ref().is_some_and(|kept| kept.orderly);
    !over(before.state) && over(after.state) && !known
}

/// Returns the event of an exec that started.
pub fn exec_started(record: &Record, exec: &ExecId, at: impl Into<Moment>) -> Event {
    Event { exec_id: Some(exec.clone()), ..Event::new(record, Kind::ExecStarted, at, json!({})) }
}

/// Returns the event of an exec that ended.
pub fn exec_ended(record: &Record, exec: &ExecId, at: impl Into<Moment>, end: &End) -> Event {
    let details = json!({
        "outcome": end.outcome,
        "exit_code": end.outcome.exit_code(),
        "duration_ms": end.duration_ms,
        "limits_hit": end.limits_hit,
    });
    Event { exec_id: Some(exec.clone()), ..Event::new(record, Kind::ExecEnded, at, details) }
}

/// Returns the event that the disk of the home is nearly full, or no longer is.
pub fn storage(level: &Level, at: impl Into<Moment>) -> Event {
    let Moment { wall, observed } = at.into();
    Event {
        at: wall,
        kind: if level.low { Kind::StorageLow } else { Kind::StorageRecovered },
        sandbox_id: None,
        tenant: None,
        run: None,
        exec_id: None,
        details: object(json!({
            "free_bytes": level.free_bytes,
            "reserve_bytes": level.reserve_bytes,
            "free_inodes": level.free_inodes,
        })),
        observed,
    }
}

/// How an exec ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub outcome: Outcome,
    /// Absent if unknown.
    pub duration_ms: Option<u64>,
    pub limits_hit: Vec<LimitHit>,
}

impl End {
    /// The end of an exec whose sandbox was gone before any process saw it end.
    pub const UNSEEN: Self = Self { outcome: Outcome::Lost, duration_ms: None, limits_hit: Vec::new() };
}

impl Event {
    fn never() -> Timestamp {
        Timestamp::from_millis(0)
    }

    fn new(record: &Record, kind: Kind, at: impl Into<Moment>, details: Value) -> Self {
        let Moment { wall, observed } = at.into();
        Self {
            at: wall,
            observed,
            kind,
            sandbox_id: Some(record.id.clone()),
            tenant: record.tenant.clone(),
            run: record.lease.owner().cloned(),
            exec_id: None,
            details: object(details),
        }
    }

    fn of(record: &Record, kind: Kind, details: Value) -> Self {
        Self::new(record, kind, record.moment(), details)
    }
}

/// Events of a sandbox that becomes visible to callers: it is made, found, or taken from the spares.
fn beginning(before: Option<&Record>, after: &Record) -> Vec<Event> {
    if after.state == State::Quarantined {
        return vec![Event::of(after, Kind::Quarantined, why(after))];
    }
    let mut details = object(json!({"backend": after.backend, "image": after.spec.image}));
    if let Some(key) = &after.key {
        details.insert("session_key".to_owned(), json!(key));
    }
    if let Some(parent) = &after.forked_from {
        details.insert("forked_from".to_owned(), json!(parent));
    }
    let mut events = vec![Event::of(after, Kind::Opened, Value::Object(details))];
    if before.is_some() {
        events.extend(of_state(State::Creating, after));
    }
    events
}

fn changes(before: &Record, after: &Record) -> Vec<Event> {
    let mut events = Vec::new();
    if before.state != after.state {
        events.extend(of_state(before.state, after));
    }
    // A sandbox that is destroyed with a new reason leaves something behind.
    if after.state == State::Destroyed && before.reason != after.reason {
        events.iter_mut().for_each(|event| event.details = object(why(after)));
    }
    events.extend(of_lease(before, after));
    let told_end = |record: &Record| record.kept.as_ref().and_then(|kept| kept.ends_soon);
    if let (None, Some(ends), Some(kept)) = (told_end(before), told_end(after), &after.kept) {
        let details = json!({"expires_at": ends, "bytes": kept.bytes});
        events.push(Event::of(after, Kind::Expiring, details));
    }
    if before.narrowed != after.narrowed {
        events.push(Event::of(after, Kind::Narrowed, json!({"network": after.network()})));
    }
    for event in &mut events {
        event.run = event.run.take().or_else(|| before.lease.owner().cloned());
    }
    events
}

fn of_state(before: State, after: &Record) -> Vec<Event> {
    let (kind, details) = match after.state {
        State::Creating => (Kind::Opened, json!({})),
        // Callers do not see spares.
        State::Spare => return Vec::new(),
        State::Ready => return of_ready(before, after),
        State::Paused => (Kind::Paused, json!({})),
        State::Hibernating => (Kind::Hibernating, json!({})),
        State::Hibernated => (Kind::Hibernated, why(after)),
        State::Resuming => (Kind::Resuming, json!({})),
        State::Destroying => (Kind::Destroying, why(after)),
        State::Destroyed => (Kind::Destroyed, json!({})),
        State::Failed => (Kind::Failed, why(after)),
        State::Expired => (Kind::Expired, idle(after)),
        State::Lost => (Kind::Lost, why(after)),
        State::Quarantined => (Kind::Quarantined, why(after)),
        State::DestroyFailed => (Kind::DestroyFailed, why(after)),
    };
    vec![Event::of(after, kind, details)]
}

fn of_ready(before: State, after: &Record) -> Vec<Event> {
    match before {
        State::Paused | State::Resuming => vec![Event::of(after, Kind::Resumed, json!({}))],
        State::Hibernating => vec![Event::of(after, Kind::Revived, why(after))],
        State::Creating
        | State::Spare
        | State::Ready
        | State::Hibernated
        | State::Destroying
        | State::Destroyed
        | State::Failed
        | State::Expired
        | State::Lost
        | State::Quarantined
        | State::DestroyFailed => {
            let took = after.updated_at.since(after.created_at);
            let ready = Event::of(after, Kind::Ready, json!({"after_ms": took.as_millis() as u64}));
            [ready].into_iter().chain(of_parent(after)).collect()
        }
    }
}

/// Returns the event that the parent of a fork gets.
fn of_parent(child: &Record) -> Option<Event> {
    let parent = child.forked_from.clone()?;
    let event = Event::of(child, Kind::Forked, json!({"child": child.id}));
    Some(Event { sandbox_id: Some(parent), ..event })
}

fn of_lease(before: &Record, after: &Record) -> Option<Event> {
    let (then, now) = (before.lease.holders(), after.lease.holders());
    let epoch = after.lease.epoch();
    if before.lease == after.lease {
        return None;
    }
    let (from, to) = (before.lease.owner(), after.lease.owner());
    Some(match (then.is_empty(), now.len() > then.len()) {
        (true, _) => Event::of(after, Kind::Claimed, json!({"owner": to, "epoch": epoch})),
        (false, true) => Event::of(after, Kind::Lent, json!({"from": from, "to": to, "epoch": epoch})),
        (false, false) => Event::of(after, Kind::GivenBack, json!({"from": from, "to": to, "epoch": epoch})),
    })
}

fn idle(record: &Record) -> Value {
    json!({"reason": record.reason, "idle_since": record.idle_since})
}

fn why(record: &Record) -> Value {
    match &record.reason {
        Some(reason) => json!({"reason": reason.chars().take(REASON_MAX).collect::<String>()}),
        None => json!({}),
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => Map::from_iter([("value".to_owned(), other)]),
    }
}

/// Which events a reader wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only those of one tenant; all if absent.
    pub tenant: Option<TenantId>,
    pub sandbox: Option<SandboxId>,
    /// Only those of one exec.
    pub exec: Option<ExecId>,
    /// Only these kinds; all if empty.
    pub kinds: Vec<Kind>,
    /// Only events from this time on.
    pub from: Option<Timestamp>,
}

impl Filter {
    /// Tells whether the filter lets this event through.
    pub fn admits(&self, event: &Event) -> bool {
        (self.tenant.is_none() || self.tenant == event.tenant)
            && (self.sandbox.is_none() || self.sandbox == event.sandbox_id)
            && (self.exec.is_none() || self.exec == event.exec_id)
            && (self.kinds.is_empty() || self.kinds.contains(&event.kind))
            && self.from.is_none_or(|from| event.at >= from)
    }
}

/// Some events, and where to go on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    pub events: Vec<Numbered>,
    /// Every event up to this number was examined; pass it as `since` to go on.
    pub next: u64,
    /// All events of the filter's tenant up to this number are forgotten; zero if none are. Without a tenant in the
    /// filter, some events up to this number are forgotten. Never greater than `next`.
    pub forgotten: u64,
}

/// Returns how many events each owner may keep so that `keep` are left in all: the owners with the most events lose
/// some.
pub fn share(mut counts: Vec<u64>, keep: u64) -> u64 {
    counts.sort_unstable();
    let (mut room, mut owners) = (keep, counts.len() as u64);
    for count in counts {
        let share = room / owners;
        if count > share {
            return share;
        }
        room -= count;
        owners -= 1;
    }
    u64::MAX
}

/// Keeps events. Part of every store, because events are written together with the records they are about.
pub trait Log: Send + Sync {
    /// Appends events of execs. The start and the end of one exec are each written once, however often and by however
    /// many processes they are reported. Where events of a tenant were forgotten, an end older than everything still
    /// kept of that tenant was written before, and is not written again.
    fn tell(&self, events: &[Event]) -> Result<()>;

    /// Returns at most `max` events after number `since`, in order.
    fn events(&self, since: u64, filter: &Filter, max: usize) -> Result<Page>;

    /// Returns the number of the newest event, zero before the first. Cheap.
    fn newest_event(&self) -> Result<u64>;

    /// Forgets the oldest events: those from before `before`, and more until `keep` are left, taken from the owner
    /// with the most: a tenant, or the home's own people. Numbers are never reused. Returns how many.
    fn forget_events(&self, before: Timestamp, keep: u64) -> Result<u64>;
}
