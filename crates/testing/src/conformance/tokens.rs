//! The contract of every implementation of `Tokens`.

use std::time::Duration;

use crate::sample;
use coracle_core::ceiling::{Bounds, Choice};
use coracle_core::clock::Timestamp;
use coracle_core::error::Kind;
use coracle_core::ids::TokenId;
use coracle_core::limits::LimitsInput;
use coracle_core::spec::Privileges;
use coracle_core::token::{Grant, Rejection, Scope, Seed, Shown, Token, Tokens};

/// A place where tokens are kept. Each opening stands for another process.
pub trait Keyring: Sync {
    fn tokens(&self) -> Box<dyn Tokens>;
}

/// Runs the suite against the [`Keyring`] that `$make()` returns, a fresh one for each test.
#[macro_export]
macro_rules! token_conformance {
    ($make:expr) => {
        $crate::conformance_clauses!(
            $make,
            tokens_contract,
            $crate::conformance::tokens,
            [
                a_token_is_found_again_with_every_field,
                a_token_nobody_added_is_not_found,
                an_id_of_a_token_is_used_once,
                tokens_are_listed_oldest_first,
                a_revoked_token_is_revoked_for_everybody_and_for_good,
                a_token_nobody_added_cannot_be_revoked,
            ]
        );
    };
}

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Returns a token with a fresh id, as it is stored and as it is shown.
pub fn issued(tenant: &str) -> (Token, Shown) {
    issued_at(tenant, NOW)
}

fn bounds() -> Bounds {
    Bounds {
        network: Some("allow=a.test,*.b.test:8080".parse().expect("a network")),
        limits: LimitsInput { memory_mb: Some(256), ..LimitsInput::default() },
        privileges: Some(Privileges::Minimal),
        images: Some(vec!["host".into(), "docker.io/library/*".into()]),
        let_choose: [Choice::Image, Choice::Limits].into_iter().collect(),
    }
}

fn issued_at(tenant: &str, now: Timestamp) -> (Token, Shown) {
    let grant = Grant {
        tenant: sample::tenant(tenant),
        scope: "sandbox_*,image_list".parse::<Scope>().expect("a scope"),
        label: Some("the \"build\" server".into()),
        lasts: Some(Duration::from_secs(3600)),
        bounds: Some(bounds()),
    };
    let id = sample::sandbox().as_str().bytes().rev().take(10).collect::<Vec<_>>();
    let seed = Seed { id: id.try_into().expect("ids are longer than that"), secret: [0xa5; 32] };
    grant.issue(now, &seed).expect("a token can be made")
}

pub fn a_token_is_found_again_with_every_field(ring: &impl Keyring) {
    let (token, shown) = issued("acme");

    ring.tokens().add(&token).expect("keeps it");

    let found = ring.tokens().find(&token.id).expect("looks").expect("it is there");
    assert_eq!(found, token);
    assert_eq!(found.admit(&shown, NOW), Ok(()));
}

pub fn a_token_nobody_added_is_not_found(ring: &impl Keyring) {
    assert_eq!(ring.tokens().find(&issued("acme").0.id).expect("looks"), None);
}

pub fn an_id_of_a_token_is_used_once(ring: &impl Keyring) {
    let (token, _) = issued("acme");
    ring.tokens().add(&token).expect("keeps it");

    let again = ring.tokens().add(&Token { tenant: sample::tenant("mallory"), ..token.clone() });

    assert_eq!(again.expect_err("it is refused").kind, Kind::Conflict);
    assert_eq!(ring.tokens().find(&token.id).expect("looks"), Some(token));
}

pub fn tokens_are_listed_oldest_first(ring: &impl Keyring) {
    let at = |millis| issued_at("acme", Timestamp::from_millis(NOW.as_millis() + millis)).0;
    let (second, first, third) = (at(20), at(10), at(30));
    for token in [&second, &first, &third] {
        ring.tokens().add(token).expect("keeps it");
    }

    let listed: Vec<TokenId> =
        ring.tokens().list().expect("lists").into_iter().map(|token| token.id).collect();

    assert_eq!(listed, [first.id, second.id, third.id]);
}

pub fn a_revoked_token_is_revoked_for_everybody_and_for_good(ring: &impl Keyring) {
    let (mine, theirs) = (ring.tokens(), ring.tokens());
    let (token, shown) = issued("acme");
    mine.add(&token).expect("keeps it");
    let (first, later) =
        (Timestamp::from_millis(NOW.as_millis() + 5), Timestamp::from_millis(NOW.as_millis() + 9));

    mine.revoke(&token.id, first).expect("revokes it");
    mine.revoke(&token.id, later).expect("once more is fine");

    let found = theirs.find(&token.id).expect("looks").expect("it stays, to tell who did what");
    assert_eq!(found.revoked_at, Some(first));
    assert_eq!(found.admit(&shown, NOW), Err(Rejection::Revoked));
}

pub fn a_token_nobody_added_cannot_be_revoked(ring: &impl Keyring) {
    let refused = ring.tokens().revoke(&issued("acme").0.id, NOW);

    assert_eq!(refused.expect_err("it is refused").kind, Kind::NotFound);
}
