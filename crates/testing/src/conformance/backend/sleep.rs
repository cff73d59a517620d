//! Keeping the files of a sandbox without its guest, and starting another with them. A backend that cannot do so returns no
//! `Hibernation`.

use super::{EPOCH, Sandbox, Subject};
use crate::sample;
use coracle_core::backend::{EndsWith, Order};
use coracle_core::error::Kind;
use coracle_core::hibernation::Hibernation;
use coracle_core::lease::Epoch;
use coracle_core::record::Secret;

/// Returns the backend under test, if it can.
fn able(subject: &Option<Subject>) -> Option<(&Subject, &dyn Hibernation)> {
    let subject = subject.as_ref()?;
    Some((subject, subject.backend.hibernation()?))
}

/// Starts the next guest of a sandbox at rest.
fn wake<'a>(sandbox: Sandbox<'a>, secret: Secret) -> Sandbox<'a> {
    let subject = sandbox.subject;
    let order = Order {
        sandbox: &sandbox.id,
        instance: &subject.instance,
        spec: &subject.spec,
        secret: &secret,
        epoch: Epoch(EPOCH),
        replaces: None,
        ends_with: EndsWith::Nothing,
    };
    let woken = subject.backend.hibernation().expect("it was put to rest").wake(&order).expect("it wakes");
    sandbox.again(secret, woken.placement)
}

pub fn a_sandbox_at_rest_wakes_with_its_files(subject: &Option<Subject>) {
    let Some((subject, hibernation)) = able(subject) else { return };
    let mut sandbox = Sandbox::make(subject);
    for life in 0..3_u8 {
        sandbox.client().write_file("note", &[life]);
        hibernation.rest(&sandbox.id).expect("it can rest");
        sandbox = wake(sandbox, Secret([life; 32]));
        assert_eq!(sandbox.client().read_file("note"), [life]);
    }
}

pub fn a_sandbox_at_rest_has_files_and_no_guest(subject: &Option<Subject>) {
    let Some((subject, hibernation)) = able(subject) else { return };
    let sandbox = Sandbox::make(subject);

    hibernation.rest(&sandbox.id).expect("it can rest");

    assert_eq!(hibernation.has_files(&sandbox.id).ok(), Some(true));
    assert_eq!(sandbox.stream().map_err(|error| error.kind).err(), Some(Kind::NotFound));
    let survey = subject.backend.survey().expect("the backend answers");
    let found = survey.iter().find(|found| found.sandbox == sandbox.id).expect("its files are found");
    assert!(!found.alive && found.files, "{found:?}");
}

pub fn resting_twice_does_no_more(subject: &Option<Subject>) {
    let Some((subject, hibernation)) = able(subject) else { return };
    let sandbox = Sandbox::make(subject);
    sandbox.client().write_file("note", b"kept");

    hibernation.rest(&sandbox.id).expect("it can rest");
    hibernation.rest(&sandbox.id).expect("it can rest again");

    assert_eq!(wake(sandbox, Secret([9; 32])).client().read_file("note"), b"kept");
}

pub fn what_has_no_files_cannot_rest(subject: &Option<Subject>) {
    let Some((_, hibernation)) = able(subject) else { return };
    let unknown = sample::sandbox();

    let refused = hibernation.rest(&unknown).map_err(|error| error.kind);

    assert_eq!(refused.err(), Some(Kind::NotFound));
    assert_eq!(hibernation.has_files(&unknown).ok(), Some(false));
}

pub fn the_secret_of_an_earlier_life_opens_nothing(subject: &Option<Subject>) {
    let Some((subject, hibernation)) = able(subject) else { return };
    let sandbox = Sandbox::make(subject);
    let old = sandbox.secret.clone();
    hibernation.rest(&sandbox.id).expect("it can rest");

    let woken = wake(sandbox, Secret([9; 32]));

    let stream = woken.stream().expect("its guest is there");
    assert!(crate::Client::connect(stream, &old, EPOCH).is_err());
    drop(woken.client());
}

pub fn a_destroyed_sleeper_leaves_nothing(subject: &Option<Subject>) {
    let Some((subject, hibernation)) = able(subject) else { return };
    let sandbox = Sandbox::make(subject);
    hibernation.rest(&sandbox.id).expect("it can rest");

    sandbox.destroy();

    assert_eq!(hibernation.has_files(&sandbox.id).ok(), Some(false));
    assert!(
        subject
            .backend
            .survey()
            .expect("the backend answers")
            .iter()
            .all(|found| found.sandbox != sandbox.id)
    );
}
