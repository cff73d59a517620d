//! Tokens: one text each, only the right secret is admitted, and time never makes an invalid token valid.

use std::time::Duration;

use coracle_core::token::{Grant, Rejection, Scope, Seed, Shown, Token, TokenStatus};
use coracle_core::{Kind, Timestamp};
use proptest::prelude::*;

use crate::cases;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const HOUR: Duration = Duration::from_secs(3600);

fn later(span: Duration) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis() + span.as_millis() as u64)
}

fn grant(lasts: Option<Duration>) -> Grant {
    Grant { tenant: "acme".parse().expect("an id"), scope: Scope::all(), label: None, lasts, bounds: None }
}

fn issue(lasts: Option<Duration>, secret: [u8; 32]) -> (Token, Shown) {
    grant(lasts).issue(NOW, &Seed { id: [3; 10], secret }).expect("a token can be made")
}

#[test]
fn a_token_is_its_id_and_a_long_secret() {
    let (token, shown) = issue(None, [0xff; 32]);

    let text = shown.reveal();

    let parts: Vec<_> = text.split('_').collect();
    assert_eq!((parts[0], parts[1].len(), parts[2].len()), ("crl", 26, 52), "{text}");
    assert_eq!(token.id.as_str(), format!("tok_{}", parts[1]));
}

#[test]
fn neither_what_is_kept_nor_what_is_printed_shows_the_secret() {
    let (token, shown) = issue(None, [0x5a; 32]);
    let text = shown.reveal();
    let secret = text.rsplit('_').next().expect("it has parts");

    let kept = serde_json::to_string(&token).expect("it can be written");

    assert!(!kept.contains(secret) && !format!("{token:?}{shown:?}").contains(secret));
    // The secret is all 90s, as bytes are printed.
    assert!(!kept.contains("90,90,90") && !format!("{token:?}{shown:?}").contains("90, 90"));
}

#[test]
fn only_the_right_secret_is_admitted_and_only_while_it_counts() {
    let (token, shown) = issue(Some(HOUR), [1; 32]);
    let (_, other) = issue(Some(HOUR), [2; 32]);
    let revoked = Token { revoked_at: Some(NOW), ..token.clone() };

    assert_eq!(token.admit(&shown, NOW), Ok(()));
    assert_eq!(token.admit(&shown, later(HOUR - Duration::from_millis(1))), Ok(()));
    assert_eq!(token.admit(&shown, later(HOUR)), Err(Rejection::Expired));
    assert_eq!(revoked.admit(&shown, NOW), Err(Rejection::Revoked));
    // A client without the secret does not learn that the token is revoked or expired.
    assert_eq!(revoked.admit(&other, NOW), Err(Rejection::WrongSecret));
    assert_eq!(token.admit(&other, later(HOUR)), Err(Rejection::WrongSecret));
}

#[test]
fn a_token_that_never_ends_is_valid_for_ever_and_can_be_revoked() {
    let (token, _) = issue(None, [1; 32]);

    assert_eq!(token.status(Timestamp::from_millis(u64::MAX)), TokenStatus::Valid);
    let revoked = Token { revoked_at: Some(NOW), ..token };
    assert_eq!(revoked.status(Timestamp::from_millis(0)), TokenStatus::Revoked);
}

#[test]
fn a_clock_set_back_behind_its_making_admits_nothing() {
    let (token, shown) = issue(Some(HOUR), [1; 32]);
    let earlier = |seconds: u64| Timestamp::from_millis(NOW.as_millis() - seconds * 1000);

    assert_eq!(token.admit(&shown, earlier(299)), Ok(()), "clocks are put right by a little now and then");
    assert_eq!(token.admit(&shown, earlier(301)), Err(Rejection::NotYet));
    assert_eq!(token.admit(&shown, Timestamp::from_millis(0)), Err(Rejection::NotYet));
}

#[test]
fn an_end_that_is_none_is_refused() {
    for lasts in [Duration::ZERO, Duration::from_micros(1), Duration::MAX, Duration::from_millis(u64::MAX)] {
        let refused = grant(Some(lasts)).issue(NOW, &Seed { id: [3; 10], secret: [1; 32] });

        assert_eq!(refused.expect_err("no end").kind, Kind::Invalid, "{lasts:?}");
    }
}

#[test]
fn a_label_is_short_and_printable() {
    for label in ["a\nb".to_owned(), "\u{1b}[31m".to_owned(), "x".repeat(129)] {
        let grant = Grant { label: Some(label), ..grant(None) };

        let refused = grant.issue(NOW, &Seed { id: [3; 10], secret: [1; 32] });

        assert_eq!(refused.expect_err("no label").kind, Kind::Invalid);
    }
}

#[test]
fn a_scope_covers_names_and_beginnings() {
    let scope: Scope = "sandbox_fs_*, image_list".parse().expect("a scope");

    let covered = ["sandbox_fs_read", "sandbox_fs_", "image_list"];
    let others = ["sandbox_exec", "sandbox_fs", "image_lists", "image_", "", "volume_list"];

    assert!(covered.iter().all(|name| scope.covers(name)));
    assert!(!others.iter().any(|name| scope.covers(name)));
    assert!(Scope::all().covers("anything"));
}

#[test]
fn a_scope_that_could_cover_nothing_is_refused() {
    for text in ["", ",", "sandbox_*,", "Sandbox_*", "*_list", "sandbox_exec/x", "a**", "sandbox exec"] {
        assert_eq!(text.parse::<Scope>().expect_err(text).kind, Kind::Invalid, "{text}");
    }
    assert!(vec!["*".to_owned(); 65].try_into().map(|_: Scope| ()).is_err());
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn every_token_is_read_back_as_it_was(secret: [u8; 32], id: [u8; 10]) {
        let (token, shown) = grant(None).issue(NOW, &Seed { id, secret }).expect("a token can be made");

        let read: Shown = shown.reveal().parse().expect("it reads its own text");

        prop_assert_eq!(&read, &shown);
        prop_assert_eq!(token.admit(&read, NOW), Ok(()));
    }

    #[test]
    fn no_other_text_is_the_token(secret: [u8; 32], place in 0usize..83, with in any::<char>()) {
        let (token, shown) = issue(None, secret);
        let text = shown.reveal();
        let mut changed: Vec<char> = text.chars().collect();
        changed[place] = with;
        let changed: String = changed.into_iter().collect();
        prop_assume!(changed != text);

        if let Ok(read) = changed.parse::<Shown>() {
            let same = read.id == token.id && token.admit(&read, NOW).is_ok();
            prop_assert!(!same, "{changed} was admitted for {text}");
        }
    }

    #[test]
    fn whatever_is_shown_is_read_or_refused(text in ".{0,100}") {
        if let Ok(read) = text.parse::<Shown>() {
            prop_assert_eq!(read.reveal(), text);
        }
    }

    #[test]
    fn shortened_and_lengthened_tokens_are_refused(secret: [u8; 32], cut in 1usize..83, more in "[0-9a-z]{1,5}") {
        let text = issue(None, secret).1.reveal();

        prop_assert!(text[..cut].parse::<Shown>().is_err());
        let longer = format!("{text}{more}");
        prop_assert!(longer.parse::<Shown>().is_err());
        let around = format!(" {text}");
        prop_assert!(around.parse::<Shown>().is_err());
    }
}
