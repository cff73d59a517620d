//! Observed time never runs ahead of real time, and setting a clock makes nothing old.

use std::time::Duration;

use coracle_core::Timestamp;
use coracle_core::observed::{Anchor, Reading, UNCOUNTED_MAX};
use proptest::prelude::*;

const DAY: u64 = 24 * 3_600_000;
const YEARS: u64 = 10 * 365 * DAY;
const NOW: u64 = 1_700_000_000_000;

fn reading(wall: u64, boot: u32, up: u64) -> Reading {
    Reading {
        wall: Timestamp::from_millis(wall),
        boot: format!("boot-{boot}"),
        up: Duration::from_millis(up),
    }
}

/// One event between two readings of the clocks.
#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    Set(u64),
    Reboot { off: u64, up: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..2 * DAY).prop_map(Step::Pass),
        (0..60_000_u64).prop_map(Step::Pass),
        (NOW - YEARS..NOW + YEARS).prop_map(Step::Set),
        (0..DAY, 0..DAY).prop_map(|(off, up)| Step::Reboot { off, up }),
    ]
}

proptest! {
    #![proptest_config(crate::cases())]

    #[test]
    fn it_goes_back_by_little_and_never_ahead_of_time(steps in prop::collection::vec(step(), 1..40)) {
        let (mut wall, mut boot, mut up, mut passed) = (NOW, 0, 5000, 0);
        let mut anchor = Anchor::first(&reading(wall, boot, up));
        let first = anchor.at(&reading(wall, boot, up)).as_millis();
        let mut before = first;
        for step in steps {
            match step {
                Step::Pass(by) => (wall, up, passed) = (wall + by, up + by, passed + by),
                Step::Set(to) => wall = to,
                Step::Reboot { off, up: since } => {
                    (wall, boot, up, passed) = (wall + off + since, boot + 1, since, passed + off + since);
                }
            }
            let now = reading(wall, boot, up);
            let observed = anchor.at(&now).as_millis();
            let uncounted = before.saturating_sub(observed);
            prop_assert!(uncounted < UNCOUNTED_MAX.as_millis() as u64, "it went back by {} ms", uncounted);
            prop_assert!(observed - first <= passed, "{} observed, {} passed", observed - first, passed);
            if anchor.is_due(&now) {
                anchor = anchor.moved(&now);
            }
            before = observed;
        }
    }

    #[test]
    fn while_the_clock_is_not_set_it_is_the_time_that_passes(passes in prop::collection::vec(0..2 * DAY, 1..20)) {
        let (mut anchor, mut up) = (Anchor::first(&reading(NOW, 0, 0)), 0);
        let first = anchor.at(&reading(NOW, 0, 0)).as_millis();
        for pass in passes {
            up += pass;
            let now = reading(NOW + up, 0, up);
            prop_assert_eq!(anchor.at(&now).as_millis() - first, up);
            anchor = anchor.moved(&now);
        }
    }
}

#[test]
fn ten_years_forth_and_back_are_no_time() {
    let anchor = Anchor::first(&reading(NOW, 0, 0));
    let first = anchor.at(&reading(NOW, 0, 0));

    let forth = anchor.moved(&reading(NOW + YEARS, 0, 1));
    let back = forth.moved(&reading(NOW, 0, 2));
    let far_back = back.moved(&reading(NOW - YEARS, 0, 3));
    let later = far_back.at(&reading(NOW - YEARS + DAY, 0, DAY));

    assert!(far_back.at(&reading(NOW - YEARS, 0, 3)).since(first) <= Duration::from_millis(3));
    assert!(later.since(first) >= Duration::from_millis(DAY - 3), "and then it goes on");
}
