//! The goals, each a ratio of two medians, and whether they are met.

use crate::case::Pace;
use crate::cases::name;
use crate::schedule::Measured;

/// How much a goal counts now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Missing it is a failure under `--check`.
    Due,
    /// Measured and told, to be met later.
    Reported,
}

/// One line of the table of goals.
#[derive(Debug)]
pub struct Goal {
    pub id: &'static str,
    pub case: &'static str,
    pub pace: Pace,
    pub against: &'static str,
    pub against_pace: Pace,
    /// The most the ratio may be.
    pub at_most: f64,
    pub standing: Standing,
}

const fn goal(
    id: &'static str,
    (case, pace): (&'static str, Pace),
    (against, against_pace): (&'static str, Pace),
    at_most: f64,
) -> Goal {
    Goal { id, case, pace, against, against_pace, at_most, standing: Standing::Due }
}

impl Goal {
    const fn reported(mut self) -> Self {
        self.standing = Standing::Reported;
        self
    }
}

/// The thresholds. This is the only place they stand in.
pub const GOALS: &[Goal] = &[
    goal("P1", (name::LIBRARY_RUN, Pace::Hot), (name::BASE, Pace::Hot), 10.0).reported(),
    goal("P1", (name::LIBRARY_RUN, Pace::Gap), (name::BASE, Pace::Gap), 6.0).reported(),
    goal("P1", (name::LIBRARY_RUN, Pace::Hot), (name::BWRAP, Pace::Hot), 0.5).reported(),
    goal("P1", (name::LIBRARY_RUN, Pace::Hot), (name::DOCKER_RUN, Pace::Hot), 1.0 / 100.0).reported(),
    goal("P2", (name::CLI_RUN, Pace::Hot), (name::BWRAP, Pace::Hot), 0.75).reported(),
    goal("P2", (name::CLI_RUN, Pace::Hot), (name::CRUN, Pace::Hot), 0.4).reported(),
    goal("P2", (name::CLI_RUN, Pace::Hot), (name::DOCKER_RUN, Pace::Hot), 1.0 / 70.0).reported(),
    goal("P3", (name::EXEC, Pace::Hot), (name::BASE, Pace::Hot), 2.0),
    goal("P3", (name::EXEC, Pace::Gap), (name::BASE, Pace::Gap), 2.0),
    goal("P3 stretch", (name::EXEC, Pace::Hot), (name::BASE, Pace::Hot), 1.3).reported(),
    goal("P5", (name::WRITE, Pace::Hot), (name::DIRECT_WRITE, Pace::Hot), 3.0),
    goal("P5", (name::WRITE, Pace::Hot), (name::DOCKER_ARCHIVE, Pace::Hot), 1.0 / 100.0),
    goal("P7 idle", (name::EXEC_AFTER_IDLE, Pace::Own), (name::EXEC, Pace::Gap), 3.0).reported(),
    goal("P7 dirty", (name::EXEC_WHILE_DIRTY, Pace::Own), (name::EXEC, Pace::Gap), 3.0).reported(),
    goal("P7 idle", (name::RUN_AFTER_IDLE, Pace::Own), (name::LIBRARY_RUN, Pace::Gap), 3.0).reported(),
    goal("P7 dirty", (name::RUN_WHILE_DIRTY, Pace::Own), (name::LIBRARY_RUN, Pace::Gap), 3.0).reported(),
];

/// How a goal came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Pass,
    Fail,
    /// One of the two was not measured.
    Absent,
}

impl Outcome {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Absent => "not measured",
        }
    }
}

/// A goal beside its ratio.
#[derive(Debug)]
pub struct Verdict {
    pub goal: &'static Goal,
    pub ratio: Option<f64>,
    pub outcome: Outcome,
}

impl Verdict {
    /// Tells whether it fails a run with `--check`.
    pub fn is_missed(&self) -> bool {
        self.goal.standing == Standing::Due && self.outcome == Outcome::Fail
    }
}

/// Holds every goal against what was measured.
pub fn judge(measured: &Measured) -> Vec<Verdict> {
    GOALS.iter().map(|goal| verdict(goal, measured)).collect()
}

fn verdict(goal: &'static Goal, measured: &Measured) -> Verdict {
    let case = measured.get(&(goal.case, goal.pace));
    let against = measured.get(&(goal.against, goal.against_pace));
    let ratio = case.zip(against).map(|(case, against)| case.median() / against.median());
    let outcome = match ratio {
        None => Outcome::Absent,
        Some(ratio) if ratio <= goal.at_most => Outcome::Pass,
        Some(_) => Outcome::Fail,
    };
    Verdict { goal, ratio, outcome }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_ratio_over_the_threshold_fails_only_what_is_due() {
        let mut measured = Measured::new();
        for (name, millis) in [(name::BASE, 10), (name::EXEC, 25), (name::LIBRARY_RUN, 90)] {
            measured.entry((name, Pace::Hot)).or_default().add(Duration::from_millis(millis));
        }

        let verdicts = judge(&measured);

        let outcome = |id: &str| {
            verdicts
                .iter()
                .find(|verdict| verdict.goal.id == id)
                .map(|verdict| (verdict.outcome, verdict.is_missed()))
        };
        assert_eq!(outcome("P1"), Some((Outcome::Pass, false)));
        assert_eq!(outcome("P2"), Some((Outcome::Absent, false)));
        assert_eq!(outcome("P3"), Some((Outcome::Fail, true)));
        assert_eq!(outcome("P3 stretch"), Some((Outcome::Fail, false)));
    }
}
