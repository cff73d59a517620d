//! What ends with this process, however that dies: a command in the foreground, the sandbox of a `run`.

use coracle::{Kind, Result, SandboxId};
use coracle_engine::{Caller, Engine, Leash};

use super::signals::Target;
use super::stderr;

/// Has a command that is about to be started end with this process.
pub fn of_exec(target: &Target) -> Result<Option<Leash>> {
    told(target.engine.leash_exec(&target.caller, &target.sandbox, &target.exec))
}

/// Has a sandbox end with this process.
pub fn of_sandbox(engine: &Engine, caller: &Caller, sandbox: &SandboxId) -> Result<Option<Leash>> {
    told(engine.leash_sandbox(caller, sandbox))
}

/// Goes on where it cannot be done, and says so; what fails otherwise would leave something behind without a word.
fn told(leash: Result<Leash>) -> Result<Option<Leash>> {
    let untied = "what is started does not end with this process";
    match leash {
        Ok(leash) => Ok(Some(leash)),
        Err(error) if error.kind == Kind::Unsupported => {
            stderr::note(&format!("the sandbox was made by an older coracle: {untied}"));
            Ok(None)
        }
        Err(error) if error.kind == Kind::LimitExceeded => {
            stderr::warning(&format!("{}; {untied}", error.chain()));
            Ok(None)
        }
        // The start, which comes next, is refused by the same rule, and its span tells of it.
        Err(error) if is_refused_by_the_gate(error.kind) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_refused_by_the_gate(kind: Kind) -> bool {
    matches!(kind, Kind::NotFound | Kind::NotOwner | Kind::LentOut | Kind::StaleEpoch)
}

#[cfg(test)]
mod tests {
    use coracle::Error;

    use super::*;

    #[test]
    fn only_what_is_said_is_gone_on_without() {
        let told = |kind| told(Err(Error::new(kind, "no"))).map(|leash| leash.is_some());

        assert_eq!(
            (told(Kind::Unsupported).ok(), told(Kind::LimitExceeded).ok()),
            (Some(false), Some(false))
        );
        assert_eq!(told(Kind::NotOwner).ok(), Some(false), "the start says it");
        for kind in [Kind::NotAvailable, Kind::Internal, Kind::Conflict, Kind::Timeout] {
            assert!(told(kind).is_err(), "{kind:?}");
        }
    }
}
