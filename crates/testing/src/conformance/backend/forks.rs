//! Taking the files of a sandbox and making others from them. A backend that cannot do so returns no `Forking`, or
//! `unsupported`, and no other error.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use coracle_wire::{Body, Command, Ending, FaultCode, Reply, Running};

use super::{EPOCH, Sandbox, Subject};
use crate::client::command;
use crate::{Client, sample};
use coracle_core::backend::{EndsWith, Order};
use coracle_core::cancel::Cancel;
use coracle_core::clock::Timestamp;
use coracle_core::error::{Kind, Result};
use coracle_core::forking::{ForkSource, Forking, Grip, HeldSandbox, Lent};
use coracle_core::ids::ImageId;
use coracle_core::image;
use coracle_core::lease::Epoch;
use coracle_core::record::Secret;

/// Holds everything until the holder releases it or the connection ends.
const HOLD: Body = Body::Hold { lease_ms: None, changes_only: None };

/// The simplest holder of a sandbox.
#[derive(Debug)]
struct Holder {
    client: Mutex<Client>,
    stream: UnixStream,
}

impl Grip for Holder {
    fn confirm(&self) -> Result<()> {
        let held = self.client.lock().unwrap_or_else(PoisonError::into_inner).ask(HOLD);
        assert!(matches!(held, Reply::Held { .. }), "it is still held: {held:?}");
        Ok(())
    }

    fn lend(&self, deed: &mut dyn FnMut(&Lent<'_>)) {
        deed(&Lent { stream: self.stream.as_fd(), renewal: None });
    }
}

/// Holds a sandbox and takes its files; `None` if the backend cannot.
fn fork_source<'a>(sandbox: &Sandbox<'a>) -> Option<Box<dyn ForkSource + 'a>> {
    while_held(sandbox, &Cancel::default(), |forking, held| forking.fork_source(held)).and_then(supported)
}

/// Calls `deed` while a sandbox is held; `None` if the backend cannot take files.
fn while_held<'a, T>(
    sandbox: &Sandbox<'a>,
    cancel: &Cancel,
    deed: impl FnOnce(&'a dyn Forking, &HeldSandbox<'_>) -> Result<T>,
) -> Option<Result<T>> {
    let stream = sandbox.stream().expect("the guest is there");
    let copy = stream.try_clone().expect("a stream can be cloned");
    let mut client = Client::connect(stream, &sandbox.secret, EPOCH).expect("the guest welcomes us");
    let idle = match client.ask(HOLD) {
        Reply::Held { idle, .. } => idle,
        // A sandbox that cannot be held cannot have its files taken either.
        other => panic!("an idle sandbox can be held: {other:?}"),
    };
    let holder = Holder { client: Mutex::new(client), stream: copy };
    let config = image::Config::default();
    let held = HeldSandbox {
        sandbox: &sandbox.id,
        placement: &sandbox.placement,
        spec: &sandbox.subject.spec,
        tenant: None,
        image: &config,
        grip: &holder,
        idle,
        cancel,
    };
    let done = sandbox.subject.backend.forking().map(|forking| deed(forking, &held));
    let mut client = holder.client.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(client.ask(Body::LetGo {}), Reply::Done {});
    done
}

fn supported<T>(result: Result<T>) -> Option<T> {
    match result {
        Err(error) if error.kind == Kind::Unsupported => None,
        result => Some(result.expect("what is supported works")),
    }
}

fn make<'a>(subject: &'a Subject, source: &dyn ForkSource) -> Sandbox<'a> {
    let (id, secret) = (sample::sandbox(), Secret([0x5b; 32]));
    let order = Order {
        sandbox: &id,
        instance: &subject.instance,
        spec: &subject.spec,
        secret: &secret,
        epoch: Epoch(EPOCH),
        replaces: None,
        ends_with: EndsWith::Nothing,
    };
    let placement = source.create(&order).expect("a sandbox is made").placement;
    Sandbox { subject, id, secret, placement }
}

/// Checks that a refusal changed nothing: the sandbox is as it was, and there is no other.
fn expect_untouched(parent: &Sandbox<'_>) {
    let mut client = parent.client();
    assert_eq!(client.read_file("f"), b"before");
    assert_eq!(client.run("exec_after", &["echo", "on"]).stdout, b"on\n");
    let found = parent.subject.backend.survey().expect("surveys");
    assert_eq!(found.len(), 1, "a refusal makes nothing: {found:?}");
}

pub fn what_is_made_from_a_sandbox_has_its_files_and_shares_nothing(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let parent = Sandbox::make(subject);
    parent.client().write_file("f", b"before");

    let Some(taken) = fork_source(&parent) else {
        return expect_untouched(&parent);
    };
    let (one, other) = (make(subject, &*taken), make(subject, &*taken));
    one.client().write_file("f", b"one");
    parent.client().write_file("f", b"parent");

    assert_eq!(one.client().read_file("f"), b"one");
    assert_eq!(other.client().read_file("f"), b"before");
    parent.destroy();
    assert_eq!(other.client().read_file("f"), b"before");
}

pub fn a_sandbox_whose_files_were_taken_goes_on(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    client.run("exec_1", &["echo", "before"]);
    client.write_file("f", b"kept");

    drop(fork_source(&sandbox));

    assert_eq!(client.end("exec_1").stdout, b"before\n");
    assert_eq!(client.read_file("f"), b"kept");
    assert_eq!(client.run("exec_2", &["echo", "after"]).stdout, b"after\n");
    assert_eq!(
        subject.backend.survey().expect("surveys").len(),
        1,
        "files that were never used leave nothing"
    );
}

pub fn a_cancelled_snapshot_keeps_nothing(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    sandbox.client().write_file("f", b"before");
    let (image, cancel) = (ImageId::generate(Timestamp::from_millis(1), [7; 10]), Cancel::default());
    cancel.cancel();

    let Some(refused) = while_held(&sandbox, &cancel, |forking, held| forking.snapshot(held, &image)) else {
        return expect_untouched(&sandbox);
    };

    let kind = refused.map_err(|error| error.kind).expect_err("the call was cancelled");
    assert!(matches!(kind, Kind::Aborted | Kind::Unsupported), "{kind:?}");
    let images = subject.backend.images().expect("who snapshots has images").list().expect("a list");
    assert!(images.iter().all(|kept| kept.reference != image.as_str()), "{images:?}");
    assert_eq!(sandbox.client().read_file("f"), b"before");
}

pub fn a_hold_ends_with_its_connection(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut holder = sandbox.client();
    assert!(matches!(holder.ask(HOLD), Reply::Held { idle: true, .. }));

    drop(holder);

    assert_eq!(sandbox.client().run("exec_1", &["echo", "on"]).stdout, b"on\n");
}

pub fn a_hold_that_nobody_renews_ends_and_cannot_be_renewed(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut holder = sandbox.client();
    let lease = |lease_ms| Body::Hold { lease_ms: Some(lease_ms), changes_only: None };
    assert_eq!(holder.ask(lease(60_000)), Reply::Held { idle: true, lease_ms: Some(60_000) });
    assert_eq!(holder.ask(lease(200)), Reply::Held { idle: true, lease_ms: Some(200) });

    // The holder is connected and does not renew.
    assert_eq!(sandbox.client().run("exec_1", &["echo", "on"]).stdout, b"on\n");

    assert_eq!(holder.fault(lease(60_000)).code, FaultCode::Conflict);
    assert_eq!(sandbox.client().run("exec_2", &["echo", "on"]).stdout, b"on\n");
}

pub fn who_waited_for_a_hold_is_refused_if_the_fence_was_raised_in_it(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    sandbox.client().start("exec_1", Command { stdin: true, ..command(&["cat"]) });
    let (mut holder, mut late) = (sandbox.client(), sandbox.client());
    let hold = Body::Hold { lease_ms: Some(60_000), changes_only: Some(true) };

    assert_eq!(holder.ask(hold), Reply::Held { idle: false, lease_ms: Some(60_000) });
    late.send(Body::Start { exec: "exec_2".into(), command: command(&["true"]) });
    holder.epoch = EPOCH + 1;
    assert_eq!(holder.ask(Body::Fence { running: Running::Kill, before: None }), Reply::Done {});
    assert_eq!(holder.ask(Body::LetGo {}), Reply::Done {});

    let refused = late.answer();
    assert!(
        matches!(&refused, Reply::Fault(fault) if fault.code == FaultCode::StaleEpoch { current: EPOCH + 1 }),
        "{refused:?}"
    );
    let Reply::Execs(execs) = holder.ask(Body::Execs {}) else { panic!("a guest lists its execs") };
    assert_eq!(execs.len(), 1, "what waited was not started: {execs:?}");
    assert!(execs[0].state.ending.is_some(), "what ran was killed under the hold: {execs:?}");
}

pub fn a_fence_kills_what_is_from_before_the_epoch_it_names(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let sleeper = Command { stdin: true, ..command(&["cat"]) };
    sandbox.client().start("exec_1", sleeper.clone());
    sandbox.client_under(EPOCH + 1).start("exec_2", sleeper);
    let mut after = sandbox.client_under(EPOCH + 2);

    after.ask(Body::Fence { running: Running::Kill, before: Some(EPOCH + 1) });

    let Reply::State(kept) = after.ask(Body::Wait { exec: "exec_2".into(), wait_ms: 0 }) else {
        panic!("a guest tells how an exec is")
    };
    let ending = after.end("exec_1").state.ending;
    assert!(matches!(ending, Some(Ending::Stopped | Ending::Signalled(_))), "{ending:?}");
    assert_eq!(kept.ending, None, "the new owner started it");
}
