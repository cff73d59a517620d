//! Making, finding and destroying sandboxes.

use coracle_wire::Body;

use super::{Sandbox, Subject};
use crate::client::command;
use crate::sample;
use coracle_core::error::Kind;

pub fn a_sandbox_that_was_made_answers_and_is_surveyed(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);

    assert_eq!(sandbox.client().run("exec_1", &["true"]).state.ending, Some(coracle_wire::Ending::Exited(0)));
    let found = subject.backend.survey().expect("surveys");

    assert_eq!(found.len(), 1);
    assert_eq!(found[0].sandbox, sandbox.id);
    assert!(found[0].alive);
    assert!(!found[0].objects.is_empty());
}

pub fn a_survey_shows_only_sandboxes_of_its_instance(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };

    // Sandboxes that other tests made on this machine meanwhile do not count.
    assert_eq!(subject.backend.survey().expect("surveys"), []);
    let sandbox = Sandbox::make(subject);
    let found = subject.backend.survey().expect("surveys");

    assert!(found.iter().all(|found| found.sandbox == sandbox.id));
}

pub fn a_destroyed_sandbox_leaves_nothing(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);

    sandbox.destroy();

    assert_eq!(sandbox.stream().expect_err("its guest is gone").kind, Kind::NotFound);
    assert_eq!(subject.backend.survey().expect("surveys"), []);
}

pub fn destroying_twice_succeeds(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);

    sandbox.destroy();
    sandbox.destroy();
}

pub fn destroying_what_never_was_succeeds(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };

    subject.backend.destroy(&sample::sandbox()).expect("there is nothing to do");
}

pub fn destroying_one_sandbox_leaves_others_alone(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let (first, second) = (Sandbox::make(subject), Sandbox::make(subject));
    let mut client = second.client();

    first.destroy();

    assert_eq!(client.run("exec_1", &["echo", "here"]).stdout, b"here\n");
    assert_eq!(subject.backend.survey().expect("surveys").len(), 1);
}

pub fn destroying_ends_running_commands_and_connections(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    client.start("exec_1", command(&["sleep", "600"]));

    sandbox.destroy();

    assert!(client.hears_end_of(Body::Wait { exec: "exec_1".into(), wait_ms: 20_000 }));
    assert_eq!(subject.backend.survey().expect("surveys"), []);
}
