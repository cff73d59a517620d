//! Taking the files of a sandbox and making others from them. A backend that cannot says `unsupported`, and nothing else.

use std::os::fd::AsFd;

use coracle_wire::{Body, Reply};

use super::{EPOCH, Sandbox, Subject};
use crate::backend::Order;
use crate::branch::{Branch, Held};
use crate::error::{Kind, Result};
use crate::image;
use crate::lease::Epoch;
use crate::record::Secret;
use crate::testing::{Client, sample};

/// Holds a sandbox and takes its files; nothing if the backend cannot.
fn branch<'a>(sandbox: &Sandbox<'a>) -> Option<Box<dyn Branch + 'a>> {
    let stream = sandbox.stream().expect("the guest is there");
    let held_by = stream.try_clone().expect("a stream can be cloned");
    let mut client = Client::connect(stream, &sandbox.secret, EPOCH).expect("the guest welcomes us");
    let idle = match client.ask(Body::Hold {}) {
        Reply::Held { idle } => idle,
        // Without what standing still takes, nothing can be taken either.
        other => panic!("an idle sandbox can be held: {other:?}"),
    };
    let config = image::Config::default();
    let taken = sandbox.subject.backend.branch(&Held {
        sandbox: &sandbox.id,
        placement: &sandbox.placement,
        spec: &sandbox.subject.spec,
        tenant: None,
        image: &config,
        stream: held_by.as_fd(),
        idle,
    });
    assert_eq!(client.ask(Body::LetGo {}), Reply::Done {});
    supported(taken)
}

fn supported<T>(result: Result<T>) -> Option<T> {
    match result {
        Err(error) if error.kind == Kind::Unsupported => None,
        result => Some(result.expect("what is supported works")),
    }
}

fn make<'a>(subject: &'a Subject, branch: &dyn Branch) -> Sandbox<'a> {
    let (id, secret) = (sample::sandbox(), Secret([0x5b; 32]));
    let order = Order {
        sandbox: &id,
        instance: &subject.instance,
        spec: &subject.spec,
        secret: &secret,
        epoch: Epoch(EPOCH),
    };
    let placement = branch.create(&order).expect("a sandbox is made").placement;
    Sandbox { subject, id, secret, placement }
}

/// A backend that refuses has not begun: the sandbox is as it was, and there is no other.
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

    let Some(taken) = branch(&parent) else {
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

    drop(branch(&sandbox));

    assert_eq!(client.end("exec_1").stdout, b"before\n");
    assert_eq!(client.read_file("f"), b"kept");
    assert_eq!(client.run("exec_2", &["echo", "after"]).stdout, b"after\n");
    assert_eq!(subject.backend.survey().expect("surveys").len(), 1, "what nobody used is nowhere");
}

pub fn a_hold_ends_with_its_connection(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut holder = sandbox.client();
    assert!(matches!(holder.ask(Body::Hold {}), Reply::Held { idle: true }));

    drop(holder);

    assert_eq!(sandbox.client().run("exec_1", &["echo", "on"]).stdout, b"on\n");
}
