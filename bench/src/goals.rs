//! The goals, and whether they are met.

use std::time::Duration;

use crate::case::Pace::{self, Gap, Hot, Own};
use crate::cases::name;
use crate::measured::{Measured, Paced, Unit};

/// How much a goal counts now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoalStatus {
    /// Missing it is a failure under `--check`.
    Due,
    /// Measured and reported. `--check` does not fail on it.
    Reported,
}

/// What a goal demands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Demand {
    /// The median of a case is at most so many times another's. Holds on any machine.
    Ratio { case: Paced, against: Paced, at_most: f64 },
    /// The median of a case is at most this.
    Median { case: Paced, at_most: Duration },
    /// An amount is at most this.
    AtMost { amount: &'static str, limit: f64, unit: Unit },
    /// An amount is at least this.
    AtLeast { amount: &'static str, limit: f64, unit: Unit },
}

/// One line of the table of goals.
#[derive(Debug)]
pub struct Goal {
    pub id: &'static str,
    pub demand: Demand,
    pub status: GoalStatus,
}

const fn due(id: &'static str, demand: Demand) -> Goal {
    Goal { id, demand, status: GoalStatus::Due }
}

const fn reported(id: &'static str, demand: Demand) -> Goal {
    Goal { id, demand, status: GoalStatus::Reported }
}

const fn ratio(case: Paced, against: Paced, at_most: f64) -> Demand {
    Demand::Ratio { case, against, at_most }
}

/// How much a case may cost in a crowd, in times of what it costs alone.
const fn growth(crowded: &'static str, alone: &'static str) -> Demand {
    ratio((crowded, Own), (alone, Own), 1.5)
}

const fn idle_memory(amount: &'static str) -> Demand {
    Demand::AtMost { amount, limit: 700.0, unit: Unit::KibibytesEach }
}

/// The thresholds. This is the only place they stand in.
pub const GOALS: &[Goal] = &[
    reported("P1", ratio((name::LIBRARY_RUN, Hot), (name::BASE, Hot), 10.0)),
    reported("P1", ratio((name::LIBRARY_RUN, Gap), (name::BASE, Gap), 6.0)),
    reported("P1", ratio((name::LIBRARY_RUN, Hot), (name::BWRAP, Hot), 0.5)),
    reported("P1", ratio((name::LIBRARY_RUN, Hot), (name::DOCKER_RUN, Own), 1.0 / 100.0)),
    reported("P2", ratio((name::CLI_RUN, Hot), (name::BWRAP, Hot), 0.75)),
    reported("P2", ratio((name::CLI_RUN, Hot), (name::CRUN, Hot), 0.4)),
    reported("P2", ratio((name::CLI_RUN, Hot), (name::DOCKER_RUN, Own), 1.0 / 70.0)),
    reported("P2 spares", ratio((name::CLI_RUN_SPARES, Hot), (name::BWRAP, Hot), 0.75)),
    reported("P2 spares", ratio((name::CLI_RUN_SPARES, Hot), (name::CRUN, Hot), 0.4)),
    reported("P2 spares", ratio((name::CLI_RUN_SPARES, Hot), (name::DOCKER_RUN, Own), 1.0 / 70.0)),
    due("P3", ratio((name::EXEC, Hot), (name::BASE, Hot), 2.0)),
    due("P3", ratio((name::EXEC, Gap), (name::BASE, Gap), 2.0)),
    reported("P3 stretch", ratio((name::EXEC, Hot), (name::BASE, Hot), 1.3)),
    reported("P3 docker", ratio((name::ENGINE_EXEC, Own), (name::DOCKER_EXEC, Own), 1.0 / 30.0)),
    reported("P4", ratio((name::WARM_PYTHON_RUN, Hot), (name::BARE_PYTHON, Hot), 1.25)),
    reported("P4 cold", ratio((name::PYTHON_RUN, Gap), (name::BARE_PYTHON, Gap), 1.25)),
    reported("P4 warm", ratio((name::WARM_PYTHON_RUN, Gap), (name::BARE_PYTHON, Gap), 0.35)),
    due("P5", ratio((name::WRITE, Hot), (name::DIRECT_WRITE, Hot), 3.0)),
    due("P5", ratio((name::WRITE, Hot), (name::DOCKER_ARCHIVE, Own), 1.0 / 100.0)),
    reported("P5 new", ratio((name::WRITE_NEW, Hot), (name::DIRECT_WRITE_NEW, Hot), 3.0)),
    reported("P6", idle_memory(name::IDLE_IN_MEMORY)),
    reported("P6", idle_memory(name::IDLE_ON_DISK)),
    reported("P6", Demand::AtLeast { amount: name::CHURN, limit: 400.0, unit: Unit::PerSecond }),
    reported("P7 idle", ratio((name::EXEC_AFTER_IDLE, Own), (name::EXEC, Gap), 3.0)),
    reported("P7 dirty", ratio((name::EXEC_WHILE_DIRTY, Own), (name::EXEC, Gap), 3.0)),
    reported("P7 idle", ratio((name::RUN_AFTER_IDLE, Own), (name::LIBRARY_RUN, Gap), 3.0)),
    reported("P7 dirty", ratio((name::RUN_WHILE_DIRTY, Own), (name::LIBRARY_RUN, Gap), 3.0)),
    due("HTTP", ratio((name::HTTP_EXEC, Own), (name::HTTP_BESIDE, Own), 3.0)),
    reported("P8", Demand::Median { case: (name::FORK, Own), at_most: Duration::from_millis(5) }),
    reported("P8", ratio((name::FORK, Own), (name::COPY, Own), 1.0 / 100.0)),
    reported("wake", ratio((name::WAKE_FEW, Own), (name::NAP_OPEN, Own), 1.3)),
    reported("wake", ratio((name::WAKE_MANY, Own), (name::NAP_OPEN, Own), 1.3)),
    reported("P9", ratio((name::ENGINE_OPEN, Own), (name::DOCKER_START, Own), 1.1)),
    reported("P9", ratio((name::ENGINE_CLOSE, Own), (name::DOCKER_REMOVE, Own), 1.5)),
    reported("P10", growth(name::CROWDED_RUN, name::ALONE_RUN)),
    reported("P10", growth(name::CROWDED_EXEC, name::ALONE_EXEC)),
    reported("P10", growth(name::CROWDED_OPEN, name::ALONE_OPEN)),
    reported("P10", growth(name::CROWDED_SHOW, name::ALONE_SHOW)),
];

impl Demand {
    /// Returns the number it speaks of, if all it takes was measured.
    fn number(&self, measured: &Measured) -> Option<f64> {
        match *self {
            Self::Ratio { case, against, .. } => Some(measured.median(case)? / measured.median(against)?),
            Self::Median { case, .. } => measured.median(case),
            Self::AtMost { amount, .. } | Self::AtLeast { amount, .. } => {
                measured.amount(amount).map(|amount| amount.value)
            }
        }
    }

    fn is_met_by(&self, number: f64) -> bool {
        match *self {
            Self::Ratio { at_most, .. } => number <= at_most,
            Self::Median { at_most, .. } => number <= at_most.as_secs_f64() * 1e3,
            Self::AtMost { limit, .. } => number <= limit,
            Self::AtLeast { limit, .. } => number >= limit,
        }
    }

    /// Says what is compared, for people.
    pub fn subject(&self) -> String {
        let paced = |(case, pace): Paced| format!("{case} ({})", pace.name());
        match *self {
            Self::Ratio { case, against, .. } if case.1 == against.1 => {
                format!("{} / {} ({})", case.0, against.0, case.1.name())
            }
            Self::Ratio { case, against, .. } => format!("{} / {}", paced(case), paced(against)),
            Self::Median { case, .. } => paced(case),
            Self::AtMost { amount, .. } | Self::AtLeast { amount, .. } => amount.to_owned(),
        }
    }

    /// Says what is demanded, for people.
    pub fn limit(&self) -> String {
        match *self {
            Self::Ratio { at_most, .. } => format!("<= {at_most:.3}"),
            Self::Median { at_most, .. } => format!("<= {} ms", at_most.as_millis()),
            Self::AtMost { limit, unit, .. } => format!("<= {limit} {}", unit.name()),
            Self::AtLeast { limit, unit, .. } => format!(">= {limit} {}", unit.name()),
        }
    }
}

/// How a goal came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Pass,
    Fail,
    /// Something it takes was not measured.
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

/// A goal beside its number.
#[derive(Debug)]
pub struct Verdict {
    pub goal: &'static Goal,
    pub number: Option<f64>,
    pub outcome: Outcome,
}

impl Verdict {
    /// Tells whether it fails a run with `--check`.
    pub fn is_missed(&self) -> bool {
        self.goal.status == GoalStatus::Due && self.outcome == Outcome::Fail
    }
}

/// Holds every goal against what was measured.
pub fn judge(measured: &Measured) -> Vec<Verdict> {
    GOALS.iter().map(|goal| verdict(goal, measured)).collect()
}

fn verdict(goal: &'static Goal, measured: &Measured) -> Verdict {
    let number = goal.demand.number(measured);
    let outcome = match number {
        None => Outcome::Absent,
        Some(number) if goal.demand.is_met_by(number) => Outcome::Pass,
        Some(_) => Outcome::Fail,
    };
    Verdict { goal, number, outcome }
}

/// Returns the pace of `base` a pace is compared with: idle ones with the idle one.
pub fn base_pace(pace: Pace) -> Pace {
    match pace {
        Hot => Hot,
        Gap | Own => Gap,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(measured: &Measured, id: &str) -> Vec<(Outcome, bool)> {
        let verdicts = judge(measured);
        let of_goal = verdicts.iter().filter(|verdict| verdict.goal.id == id);
        of_goal.map(|verdict| (verdict.outcome, verdict.is_missed())).collect()
    }

    #[test]
    fn a_ratio_over_the_threshold_fails_only_what_is_due() {
        let mut measured = Measured::default();
        for (name, millis) in [(name::BASE, 10), (name::EXEC, 25), (name::LIBRARY_RUN, 90)] {
            measured.add((name, Hot), Duration::from_millis(millis));
        }

        assert_eq!(outcomes(&measured, "P1")[0], (Outcome::Pass, false));
        assert_eq!(outcomes(&measured, "P2")[0], (Outcome::Absent, false));
        assert_eq!(outcomes(&measured, "P3")[0], (Outcome::Fail, true));
        assert_eq!(outcomes(&measured, "P3 stretch")[0], (Outcome::Fail, false));
    }

    #[test]
    fn an_amount_is_held_against_its_own_side_of_the_limit() {
        let mut measured = Measured::default();
        measured.note(name::IDLE_IN_MEMORY, 699.0, Unit::KibibytesEach);
        measured.note(name::IDLE_ON_DISK, 701.0, Unit::KibibytesEach);
        measured.note(name::CHURN, 399.0, Unit::PerSecond);

        let found: Vec<Outcome> = outcomes(&measured, "P6").into_iter().map(|(outcome, _)| outcome).collect();

        assert_eq!(found, [Outcome::Pass, Outcome::Fail, Outcome::Fail]);
    }

    #[test]
    fn a_fork_is_held_against_a_time_and_a_copy() {
        let mut measured = Measured::default();
        measured.add((name::FORK, Own), Duration::from_micros(5_100));
        measured.add((name::COPY, Own), Duration::from_millis(600));

        let found: Vec<Outcome> = outcomes(&measured, "P8").into_iter().map(|(outcome, _)| outcome).collect();

        assert_eq!(found, [Outcome::Fail, Outcome::Pass]);
    }
}
