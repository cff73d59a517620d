//! What the engine tells of its work while it goes on: spans, for subscribers of `tracing`. Without one, each costs one
//! comparison.
//!
//! A span carries ids, kinds and numbers. Never what a caller or a command wrote: no arguments, environment, paths,
//! contents, and no message of an error, which may repeat any of them.

use coracle_core::install::Ecosystem;
use coracle_core::{Error, ExecId, Record, Result, SandboxId, Spec};
use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::exec::Captured;
use crate::exec::follow::Batch;
use crate::exec::progress::Progress;
use crate::{Call, Caller};

/// Spans that metrics count. Their names are written here alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    Operation,
    Create,
    Destroy,
    Exec,
    Follow,
    FileRead,
    FileWrite,
    Reconcile,
}

impl Counted {
    const ALL: [Self; 8] = [
        Self::Operation,
        Self::Create,
        Self::Destroy,
        Self::Exec,
        Self::Follow,
        Self::FileRead,
        Self::FileWrite,
        Self::Reconcile,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Operation => "operation",
            Self::Create => "sandbox create",
            Self::Destroy => "sandbox destroy",
            Self::Exec => "guest exec",
            Self::Follow => "guest exec follow",
            Self::FileRead => "file read",
            Self::FileWrite => "file write",
            Self::Reconcile => "janitor reconcile",
        }
    }

    /// Returns which of them a span is, if it is one.
    pub fn of(span: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|counted| counted.name() == span)
    }
}

/// Runs a deed inside a span and writes down how it ended.
pub(crate) fn within<T>(span: Span, deed: impl FnOnce() -> Result<T>) -> Result<T> {
    let done = span.in_scope(deed);
    match &done {
        Ok(_) => note(&span, "coracle.outcome", "ok"),
        Err(error) => failed(&span, error),
    }
    done
}

/// Writes down that it failed, and by what kind of failure.
pub(crate) fn failed(span: &Span, error: &Error) {
    note(span, "coracle.outcome", error.kind.as_str());
    note(span, "error.type", error.kind.as_str());
    note(span, "otel.status_code", "ERROR");
}

/// Says on the span one is in which sandbox it is about, once that is known.
pub(crate) fn name(record: &Record) {
    let span = Span::current();
    note(&span, "coracle.sandbox.id", record.id.as_str());
    note(&span, "coracle.backend", &record.backend);
    note(&span, "container.image.name", &record.spec.image);
}

/// An operation a caller has asked for.
pub(crate) fn operation(operation: &'static str, call: &Call) -> Span {
    let Caller { claim, tenant, .. } = &call.caller;
    info_span!(
        parent: &call.parent,
        Counted::Operation.name(),
        otel.name = operation,
        coracle.operation = operation,
        coracle.run.id = claim.run.as_str(),
        coracle.tenant.id = tenant.as_ref().map(|tenant| tenant.as_str()),
        coracle.sandbox.id = Empty,
        coracle.backend = Empty,
        container.image.name = Empty,
        coracle.outcome = Empty,
        error.type = Empty,
        otel.status_code = Empty,
    )
}

/// Spans of one kind: a name, and what is known of the sandbox they are about.
macro_rules! about_a_sandbox {
    ($($(#[$doc:meta])* $function:ident => $name:expr $(, $field:ident $(. $rest:ident)*)*;)+) => {
        $($(#[$doc])*
        pub(crate) fn $function(record: &Record) -> Span {
            info_span!(
                $name,
                coracle.sandbox.id = record.id.as_str(),
                coracle.backend = record.backend.as_str(),
                container.image.name = record.spec.image.as_str(),
                $($field $(. $rest)* = Empty,)*
                coracle.outcome = Empty,
                error.type = Empty,
                otel.status_code = Empty,
            )
        })+
    };
}

about_a_sandbox! {
    /// From the row of a sandbox to its readiness.
    create => Counted::Create.name();
    /// Starting another guest with the files it has.
    wake => "sandbox wake";
    /// Bringing what it is made from, its image for one.
    prepare => "backend prepare";
    /// The backend's part of making it.
    create_on_backend => "backend create";
    /// Starting the keeper of its network.
    give_network => "keeper start";
    /// Checking out its repository.
    check_out => "repository checkout";
    /// Giving out one that was made ahead.
    take_spare => "spare take";
    /// The way to its guest.
    connect => "guest connect";
    /// A file on its way in.
    write => Counted::FileWrite.name(), coracle.file.bytes;
    /// A file on its way out.
    read => Counted::FileRead.name(), coracle.file.bytes;
    /// Removing it.
    destroy => Counted::Destroy.name(), coracle.egress.denied;
}

/// The question whose sandbox it is.
pub(crate) fn admit(id: &SandboxId) -> Span {
    info_span!(
        "gate admit",
        coracle.sandbox.id = id.as_str(),
        coracle.outcome = Empty,
        error.type = Empty,
        otel.status_code = Empty,
    )
}

/// Bringing what a sandbox like this is made from, before there is one.
pub(crate) fn bring(spec: &Spec) -> Span {
    info_span!(
        "backend prepare",
        container.image.name = spec.image.as_str(),
        coracle.outcome = Empty,
        error.type = Empty,
        otel.status_code = Empty,
    )
}

/// Finding or making the sandbox of a session.
pub(crate) fn session() -> Span {
    info_span!(
        "session open",
        coracle.sandbox.created = Empty,
        coracle.outcome = Empty,
        error.type = Empty,
        otel.status_code = Empty,
    )
}

/// Writes down whether the sandbox is a new one.
pub(crate) fn opened(span: &Span, created: bool) {
    span.record("coracle.sandbox.created", created);
}

/// Chooses a backend.
pub(crate) fn select(choose: impl FnOnce() -> Option<String>) -> Option<String> {
    let span = info_span!("backend select", coracle.backend = Empty);
    let chosen = span.in_scope(choose);
    if let Some(name) = &chosen {
        note(&span, "coracle.backend", name);
    }
    chosen
}

/// Spans about one command.
macro_rules! about_an_exec {
    ($($(#[$doc:meta])* $function:ident => $name:expr;)+) => {
        $($(#[$doc])*
        pub(crate) fn $function(record: &Record, exec: &ExecId) -> Span {
            info_span!(
                $name,
                coracle.sandbox.id = record.id.as_str(),
                coracle.backend = record.backend.as_str(),
                container.image.name = record.spec.image.as_str(),
                coracle.exec.id = exec.as_str(),
                coracle.exec.outcome = Empty,
                coracle.exec.duration_ms = Empty,
                coracle.exec.output_bytes = Empty,
                coracle.exec.limits_hit = Empty,
                process.exit.code = Empty,
                coracle.outcome = Empty,
                error.type = Empty,
                otel.status_code = Empty,
            )
        })+
    };
}

about_an_exec! {
    /// A command in the guest, from its start to its end.
    exec => Counted::Exec.name();
    /// The start of a command that this call does not wait for.
    start => "guest exec start";
    /// Reading the output of a command as it comes.
    follow => Counted::Follow.name();
}

/// Runs a command to its end and writes down what that was.
pub(crate) fn captured(span: Span, run: impl FnOnce() -> Result<Captured>) -> Result<Captured> {
    let done = within(span.clone(), run);
    if let Ok(captured) = &done {
        ended(&span, &captured.progress, captured.stdout.len() as u64 + captured.stderr.len() as u64);
    }
    done
}

/// Says on the span one is in that the command runs now.
pub(crate) fn started() {
    tracing::info!("started");
}

/// Writes down how far a command has come; returns how many bytes have been handed out by now.
pub(crate) fn followed(span: &Span, batch: &Batch, before: u64) -> u64 {
    let carried = before + batch.chunks.iter().map(|chunk| chunk.data.len() as u64).sum::<u64>();
    if batch.progress.is_done() {
        note(span, "coracle.outcome", "ok");
        ended(span, &batch.progress, carried);
    }
    carried
}

fn ended(span: &Span, progress: &Progress, carried: u64) {
    if span.is_disabled() {
        return;
    }
    if let Some(outcome) = progress.outcome {
        note(span, "coracle.exec.outcome", outcome.as_str());
    }
    if let Some(code) = progress.exit_code {
        span.record("process.exit.code", code);
    }
    if !progress.limits_hit.is_empty() {
        let names: Vec<_> = progress.limits_hit.iter().map(|limit| limit.as_str()).collect();
        note(span, "coracle.exec.limits_hit", &names.join(","));
    }
    span.record("coracle.exec.duration_ms", progress.duration_ms);
    output(span, carried);
}

/// Writes down how much output was handed out.
pub(crate) fn output(span: &Span, bytes: u64) {
    span.record("coracle.exec.output_bytes", bytes);
}

/// Writes down how much of a file was carried.
pub(crate) fn carried(span: &Span, bytes: u64) {
    span.record("coracle.file.bytes", bytes);
}

/// Writes down how often the network was refused, if anyone wants to know: to count takes reading a file.
pub(crate) fn denied(span: &Span, count: impl FnOnce() -> u64) {
    if !span.is_disabled() {
        span.record("coracle.egress.denied", count());
    }
}

/// Installing the dependencies of a repository.
pub(crate) fn install(record: &Record) -> Span {
    installing("install", record, None)
}

/// Fetching packages in a sandbox of their own.
pub(crate) fn fill(record: &Record, ecosystem: Ecosystem) -> Span {
    installing("install fill", record, Some(ecosystem))
}

fn installing(name: &'static str, record: &Record, ecosystem: Option<Ecosystem>) -> Span {
    info_span!(
        "install",
        otel.name = name,
        coracle.sandbox.id = record.id.as_str(),
        coracle.backend = record.backend.as_str(),
        container.image.name = record.spec.image.as_str(),
        coracle.install.ecosystem = ecosystem.map(Ecosystem::name),
        coracle.outcome = Empty,
        error.type = Empty,
        otel.status_code = Empty,
    )
}

/// A visit of the janitor.
pub(crate) fn sweep() -> Span {
    info_span!("janitor sweep", coracle.outcome = Empty, error.type = Empty, otel.status_code = Empty)
}

/// One thing the janitor does.
pub(crate) fn reconcile(action: &'static str, id: &SandboxId, backend: &str) -> Span {
    info_span!(
        Counted::Reconcile.name(),
        coracle.reconcile.action = action,
        coracle.sandbox.id = id.as_str(),
        coracle.backend = backend,
        coracle.outcome = Empty,
        error.type = Empty,
        otel.status_code = Empty,
    )
}

fn note(span: &Span, field: &'static str, value: &str) {
    span.record(field, value);
}
