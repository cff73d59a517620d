//! The order of measurements: every case at every pace once a round, each round in another order, so that anything else
//! the machine does affects all of them alike.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::case::{Case, Pace};
use crate::measured::Measured;

/// Rounds whose numbers are thrown away: caches fill, pools grow.
const WARM_UP: usize = 3;
/// A case that arranges its own pace is slow; it gets one in this many rounds.
const OWN_PACE_EVERY: usize = 10;

/// How often a case is done before a hot sample: a burst, within what coracle keeps ahead. What a row without end costs
/// is measured as a rate.
const HOT_BEFORE: usize = 4;
/// What one case left to be done in the background, such as making the next spare, must not fall on another one.
/// After a burst that is a handful of them.
const SETTLE: Duration = Duration::from_millis(60);

/// Measures all cases side by side.
pub fn run(mut cases: Vec<Box<dyn Case>>, rounds: usize) -> Result<Measured> {
    let mut measured = Measured::default();
    let mut dice = Dice::new();
    for round in 0..rounds + WARM_UP {
        let mut turns: Vec<(usize, Pace)> = turns(&cases, round);
        dice.shuffle(&mut turns);
        for (index, pace) in turns {
            let case = &mut cases[index];
            let sample = take(&mut **case, pace, &mut dice)
                .with_context(|| format!("could not measure `{}`", case.name()))?;
            if round >= WARM_UP {
                measured.add((case.name(), pace), sample);
            }
        }
    }
    Ok(measured)
}

fn turns(cases: &[Box<dyn Case>], round: usize) -> Vec<(usize, Pace)> {
    let all = cases
        .iter()
        .enumerate()
        .flat_map(|(index, case)| case.paces().iter().map(move |pace| (index, *pace)));
    all.filter(|(_, pace)| *pace != Pace::Own || round.is_multiple_of(OWN_PACE_EVERY)).collect()
}

fn take(case: &mut dyn Case, pace: Pace, dice: &mut Dice) -> Result<Duration> {
    std::thread::sleep(SETTLE);
    match pace {
        // The case before was another one.
        Pace::Hot => (0..HOT_BEFORE).try_for_each(|_| case.once().map(drop))?,
        Pace::Gap => std::thread::sleep(Duration::from_micros(10_000 + dice.below(20_000) as u64)),
        Pace::Own => {}
    }
    case.once()
}

/// A source of random numbers, good enough for an order.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        Self(RandomState::new().hash_one(std::process::id()) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(&'static str, u64);

    impl Case for Fixed {
        fn name(&self) -> &'static str {
            self.0
        }

        fn paces(&self) -> &'static [Pace] {
            &[Pace::Hot]
        }

        fn once(&mut self) -> Result<Duration> {
            Ok(Duration::from_millis(self.1))
        }
    }

    #[test]
    fn every_case_gets_a_sample_a_round() {
        let measured =
            run(vec![Box::new(Fixed("one", 1)), Box::new(Fixed("two", 2))], 5).expect("they cannot fail");

        let medians: Vec<_> =
            measured.samples().map(|((name, _), samples)| (*name, samples.len(), samples.median())).collect();
        assert_eq!(medians, [("one", 5, 1.0), ("two", 5, 2.0)]);
    }

    #[test]
    fn a_shuffle_keeps_everyone() {
        let mut items: Vec<usize> = (0..50).collect();

        Dice::new().shuffle(&mut items);

        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
