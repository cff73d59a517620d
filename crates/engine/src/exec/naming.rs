//! What people call execs: from a word to the one it means.

use coracle_core::{Error, ExecId, Kind, Result, SandboxId};

use super::Execs;
use crate::Caller;
use crate::access::expiry::is_asleep;
use crate::access::gate::Inside;
use crate::access::naming::{SHOWN_MAX, ambiguous, begins};
use crate::exec::is_waiting_interpreter;
use crate::guest::Guest;

/// The exec that is meant where none is named, if a sandbox has one of this name.
pub const MAIN_EXEC: &str = "main";

/// Characters of a command that tell it from others, beside an id on a line of 80.
const COMMAND_MAX: usize = 40;

/// An exec a sandbox knows of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownExec {
    pub id: ExecId,
    pub running: bool,
    /// What was run, cut short; nothing of execs whose sandbox is gone.
    pub command: Option<String>,
}

impl KnownExec {
    fn described(&self) -> String {
        match &self.command {
            Some(command) => format!("{} (`{command}`)", self.id),
            None => self.id.to_string(),
        }
    }
}

impl Execs {
    /// Returns the exec of a sandbox a word means: its id, or the beginning of it, with or without `exec_`. A whole id is
    /// returned as it is: who looks for it next says that it is not there.
    pub fn named(&self, caller: &Caller, sandbox: &SandboxId, word: &str) -> Result<ExecId> {
        if let Some(id) = ExecId::whole(word) {
            return Ok(id);
        }
        let known = self.nameable(caller, sandbox)?;
        let fits = |exec: &&KnownExec| begins(exec.id.as_str(), "exec_", word);
        let fitting: Vec<_> = known.iter().filter(fits).collect();
        match fitting.as_slice() {
            _ if known.iter().any(|exec| exec.id.as_str() == word) => word.parse(),
            [one] => Ok(one.id.clone()),
            [] => Err(unknown(&word.parse()?, sandbox, &known)),
            several => {
                let ids = several.iter().map(|exec| exec.id.to_string()).collect();
                let described: Vec<_> = several.iter().take(SHOWN_MAX).map(|exec| exec.described()).collect();
                let hint = format!("write more of the one you mean:\n{}", described.join("\n"));
                Err(ambiguous(word, "exec", ids).hint(hint))
            }
        }
    }

    /// Returns the exec of a sandbox that is meant where none is named: [`MAIN_EXEC`], or else the only one there is.
    pub fn main(&self, caller: &Caller, sandbox: &SandboxId) -> Result<ExecId> {
        let known = self.nameable(caller, sandbox)?;
        match known.as_slice() {
            _ if known.iter().any(|exec| exec.id.as_str() == MAIN_EXEC) => MAIN_EXEC.parse(),
            [one] => Ok(one.id.clone()),
            [] => Err(Error::new(Kind::NotFound, format!("nothing was run in sandbox `{sandbox}`"))
                .hint("`coracle exec` runs a command in it")),
            several => {
                let message = format!("sandbox `{sandbox}` has {} execs", several.len());
                let shown = newest(several);
                Err(Error::new(Kind::Invalid, message)
                    .hint(format!("name the one you mean:\n{}", listed(shown)))
                    .detail("candidates", shown.iter().map(|exec| exec.id.as_str()).collect::<Vec<_>>()))
            }
        }
    }

    /// Returns the execs of a sandbox that can be ended, by their ids: those its guest knows, or those whose output was kept.
    /// In a sandbox that sleeps nothing runs, so it is not woken for that.
    pub fn known(&self, caller: &Caller, sandbox: &SandboxId) -> Result<Vec<KnownExec>> {
        match self.known_inside(caller, sandbox, || self.access.enter_to_look(caller, sandbox)) {
            Err(error) if is_asleep(&error) => Ok(Vec::new()),
            known => known,
        }
    }

    /// Returns the same for a word that is to mean one of them.
    fn nameable(&self, caller: &Caller, sandbox: &SandboxId) -> Result<Vec<KnownExec>> {
        self.known_inside(caller, sandbox, || self.entry.enter_to_look(&caller.into(), sandbox))
    }

    fn known_inside(
        &self,
        caller: &Caller,
        sandbox: &SandboxId,
        enter: impl FnOnce() -> Result<Inside>,
    ) -> Result<Vec<KnownExec>> {
        if let Some(ids) = self.kept_execs(caller, sandbox)? {
            return Ok(ids.into_iter().map(|id| KnownExec { id, running: false, command: None }).collect());
        }
        let execs = enter()?.guest.execs()?;
        let known = execs.into_iter().filter(|exec| !is_waiting_interpreter(&exec.argv)).filter_map(|exec| {
            let running = exec.state.ending.is_none();
            Some(KnownExec { id: exec.exec.parse().ok()?, running, command: Some(shown(&exec.argv)) })
        });
        Ok(known.collect())
    }
}

/// Returns the error for a start that the guest refused because another command has its id; any other error as it is.
pub(super) fn explain_taken(error: Error, guest: &mut Guest, id: &ExecId) -> Error {
    // The guest's other conflicts are about the sandbox as a whole.
    if error.kind != Kind::Conflict || !error.message.contains(&format!("`{id}`")) {
        return error;
    }
    let execs = guest.execs().unwrap_or_default();
    let command = match execs.iter().find(|exec| exec.exec == id.as_str()) {
        Some(exec) => format!("`{}`", shown(&exec.argv)),
        None => "another command".to_owned(),
    };
    Error::new(Kind::Conflict, format!("exec id `{id}` is taken by {command}"))
        .hint("choose another `exec_id`")
        .detail("exec_id", id.as_str())
}

fn unknown(id: &ExecId, sandbox: &SandboxId, known: &[KnownExec]) -> Error {
    let hint = match known.is_empty() {
        true => format!("nothing was run in sandbox `{sandbox}`"),
        false => format!("name one of these:\n{}", listed(newest(known))),
    };
    Error::new(Kind::NotFound, format!("there is no exec `{id}`")).hint(hint)
}

/// Returns the last ones, as many as a person looks through.
fn newest(execs: &[KnownExec]) -> &[KnownExec] {
    &execs[execs.len().saturating_sub(SHOWN_MAX)..]
}

fn listed(execs: &[KnownExec]) -> String {
    execs.iter().map(KnownExec::described).collect::<Vec<_>>().join("\n")
}

/// Returns a command as a person knows it again.
fn shown(argv: &[Vec<u8>]) -> String {
    let words: Vec<_> = argv.iter().map(|word| String::from_utf8_lossy(word)).collect();
    let whole = words.join(" ").replace(['\n', '`'], " ");
    match whole.chars().count() > COMMAND_MAX {
        true => whole.chars().take(COMMAND_MAX).chain(['…']).collect(),
        false => whole,
    }
}
