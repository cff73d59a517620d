//! The first exchange with a guest.

use coracle_wire::{Refusal, VERSION_MAX, VERSION_MIN};

use super::{EPOCH, Sandbox, Subject};
use crate::Client;
use coracle_core::record::Secret;

pub fn the_guest_welcomes_who_knows_the_secret(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);

    let welcome = sandbox.client().welcome;

    assert_eq!(welcome.version, VERSION_MAX);
    assert_eq!(welcome.epoch, EPOCH);
}

pub fn a_wrong_secret_is_refused(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut close = sandbox.secret.0;
    close[31] ^= 1;
    let mut short = sandbox.hello(VERSION_MIN, VERSION_MAX);
    short.secret.truncate(31);

    let other = Client::connect(sandbox.stream().expect("the guest is there"), &Secret(close), EPOCH);
    let short = Client::introduce(sandbox.stream().expect("the guest is there"), &short, EPOCH);

    assert_eq!(other.expect_err("it is refused"), Refusal::WrongSecret);
    assert_eq!(short.expect_err("it is refused"), Refusal::WrongSecret);
}

pub fn a_client_of_the_future_gets_a_version_both_speak(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);

    let stream = sandbox.stream().expect("the guest is there");
    let client = Client::introduce(stream, &sandbox.hello(1, 99), EPOCH).expect("the guest welcomes us");

    assert!((VERSION_MIN..=VERSION_MAX).contains(&client.welcome.version));
}

pub fn a_client_without_a_common_version_is_refused(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);

    let stream = sandbox.stream().expect("the guest is there");
    let refused = Client::introduce(stream, &sandbox.hello(98, 99), EPOCH);

    assert_eq!(refused.expect_err("it is refused"), Refusal::NoCommonVersion);
}

pub fn the_same_guest_answers_every_connection(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let (sandbox, other) = (Sandbox::make(subject), Sandbox::make(subject));

    let boots = [&sandbox, &sandbox, &other].map(|sandbox| sandbox.client().welcome.boot);

    assert_eq!(boots[0], boots[1]);
    assert_ne!(boots[0], boots[2]);
}
