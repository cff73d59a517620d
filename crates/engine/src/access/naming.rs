//! What people call things: from a word to the sandbox or the exec it means. For doors with a person behind them; programs
//! have whole ids.

use coracle_core::store::Which;
use coracle_core::{Error, ExecId, Kind, Record, Result, SandboxId, SessionKey};

use crate::exec::is_waiting_interpreter;
use crate::{Caller, Engine};

/// The exec that is meant where none is named, if a sandbox has one of this name.
pub const MAIN_EXEC: &str = "main";

/// How many of the newest sandboxes are looked through for one that had a key before. A home may have many thousands.
const RECENT_MAX: usize = 200;

/// Candidates a person still reads.
const SHOWN_MAX: usize = 10;

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

impl Engine {
    /// Returns the sandbox a word means: its id, then its session key, then the beginning of its id, with or without
    /// `sbx_`. Sandboxes that have ended count only where no live one fits.
    pub fn sandbox_named(&self, caller: &Caller, word: &str) -> Result<SandboxId> {
        // Most callers write a whole id, and who looks for it next says whether it is there.
        if let Some(id) = SandboxId::whole(word) {
            return Ok(id);
        }
        if let Some(exact) = self.exactly_named(caller, word)? {
            return Ok(exact.id);
        }
        for which in [Which::Live, Which::All] {
            let mut found = self.store().newest(caller.tenant.as_ref(), which, usize::MAX)?;
            found.retain(|record| self.shows(caller, record));
            // The newest that had the key: it says why it has ended, and its output may have been kept.
            if let Some(record) = found.iter().find(|record| has_key(record, word)) {
                return Ok(record.id.clone());
            }
            found.retain(|record| begins(record.id.as_str(), "sbx_", word));
            match found.as_slice() {
                [] => {}
                [one] => return Ok(one.id.clone()),
                several => return Err(ambiguous(word, "sandbox", several.iter().map(described).collect())),
            }
        }
        Err(nothing_called(word))
    }

    /// Returns the sandbox that had a key last and has ended, if that is not long ago.
    pub fn ended_with_key(&self, caller: &Caller, key: &SessionKey) -> Result<Option<Record>> {
        let newest = self.store().newest(caller.tenant.as_ref(), Which::All, RECENT_MAX)?;
        let fits = |record: &Record| {
            record.state.is_ended() && has_key(record, key.as_str()) && self.shows(caller, record)
        };
        Ok(newest.into_iter().find(fits))
    }

    /// Tells whether a word is the whole id or the session key of a sandbox.
    pub fn is_exact_name(&self, caller: &Caller, word: &str) -> Result<bool> {
        Ok(self.exactly_named(caller, word)?.is_some())
    }

    fn exactly_named(&self, caller: &Caller, word: &str) -> Result<Option<Record>> {
        let by_id = match word.parse::<SandboxId>() {
            Ok(id) => self.store().find(&id)?.filter(|record| self.shows(caller, record)),
            Err(_) => None,
        };
        match (by_id, word.parse::<SessionKey>()) {
            (None, Ok(key)) => self.store().find_key(caller.tenant.as_ref(), &key),
            (by_id, _) => Ok(by_id),
        }
    }

    /// Returns the exec of a sandbox a word means: its id, or the beginning of it, with or without `exec_`. A word that
    /// fits none is returned as it is: who looks for it next says that it is not there.
    pub fn exec_named(&self, caller: &Caller, sandbox: &SandboxId, word: &str) -> Result<ExecId> {
        if let Some(id) = ExecId::whole(word) {
            return Ok(id);
        }
        let known = self.known_execs(caller, sandbox)?;
        let fits = |exec: &&KnownExec| begins(exec.id.as_str(), "exec_", word);
        let fitting: Vec<_> = known.iter().filter(fits).collect();
        match fitting.as_slice() {
            _ if known.iter().any(|exec| exec.id.as_str() == word) => word.parse(),
            [one] => Ok(one.id.clone()),
            [] => word.parse(),
            several => {
                let ids = several.iter().map(|exec| exec.id.to_string()).collect();
                let described: Vec<_> = several.iter().take(SHOWN_MAX).map(|exec| exec.described()).collect();
                let hint = format!("write more of the one you mean:\n{}", described.join("\n"));
                Err(ambiguous(word, "exec", ids).hint(hint))
            }
        }
    }

    /// Returns the exec of a sandbox that is meant where none is named: [`MAIN_EXEC`], or else the only one there is.
    pub fn main_exec(&self, caller: &Caller, sandbox: &SandboxId) -> Result<ExecId> {
        let known = self.known_execs(caller, sandbox)?;
        match known.as_slice() {
            _ if known.iter().any(|exec| exec.id.as_str() == MAIN_EXEC) => MAIN_EXEC.parse(),
            [one] => Ok(one.id.clone()),
            [] => Err(Error::new(Kind::NotFound, format!("nothing was run in sandbox `{sandbox}`"))
                .hint("`coracle exec` runs a command in it")),
            several => {
                // The newest are the last.
                let shown = &several[several.len().saturating_sub(SHOWN_MAX)..];
                let described: Vec<_> = shown.iter().map(KnownExec::described).collect();
                let message = format!("sandbox `{sandbox}` has {} execs", several.len());
                Err(Error::new(Kind::Invalid, message)
                    .hint(format!("name the one you mean:\n{}", described.join("\n")))
                    .detail("candidates", shown.iter().map(|exec| exec.id.as_str()).collect::<Vec<_>>()))
            }
        }
    }

    /// Returns the execs of a sandbox, by their ids: those its guest knows, or those whose output was kept.
    pub fn known_execs(&self, caller: &Caller, sandbox: &SandboxId) -> Result<Vec<KnownExec>> {
        if let Some(ids) = self.kept_execs(caller, sandbox)? {
            return Ok(ids.into_iter().map(|id| KnownExec { id, running: false, command: None }).collect());
        }
        let execs = self.enter_to_look(caller, sandbox)?.guest.execs()?;
        let known = execs.into_iter().filter(|exec| !is_waiting_interpreter(&exec.argv)).filter_map(|exec| {
            let running = exec.state.ending.is_none();
            Some(KnownExec { id: exec.exec.parse().ok()?, running, command: Some(shown(&exec.argv)) })
        });
        Ok(known.collect())
    }
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

fn has_key(record: &Record, word: &str) -> bool {
    record.key.as_ref().is_some_and(|key| key.as_str() == word)
}

/// Tells whether a word is the beginning of an id. A word without any character of its own fits none.
fn begins(id: &str, prefix: &str, word: &str) -> bool {
    let rest = word.strip_prefix(prefix).unwrap_or(word);
    !prefix.starts_with(word)
        && (id.starts_with(word) || id.strip_prefix(prefix).is_some_and(|id| id.starts_with(rest)))
}

fn described(record: &Record) -> String {
    match &record.key {
        Some(key) => format!("{} ({})", record.id, key.as_str().escape_debug()),
        None => record.id.to_string(),
    }
}

fn ambiguous(word: &str, what: &str, mut candidates: Vec<String>) -> Error {
    let count = candidates.len();
    candidates.truncate(SHOWN_MAX);
    let more = if count > SHOWN_MAX { ", …" } else { "" };
    let message = format!("`{}` is the beginning of {count} {what} ids", word.escape_debug());
    Error::new(Kind::Invalid, message)
        .hint(format!("write more of the one you mean: {}{more}", candidates.join(", ")))
        .detail("candidates", candidates)
}

fn nothing_called(word: &str) -> Error {
    let shown: String = word.escape_debug().take(64).collect();
    Error::new(Kind::NotFound, format!("there is no sandbox `{shown}`"))
        .hint("name one by its id, the beginning of its id, or its key; `coracle ps` lists them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_known_by_its_beginning_with_or_without_its_prefix() {
        for word in ["sbx_01kca", "01kca", "sbx_0", "0", "sbx_01kcab"] {
            assert!(begins("sbx_01kcab", "sbx_", word), "{word}");
        }
        for word in ["", "sbx_", "sbx", "1kca", "sbx_01kcac", "sbx_01kcabc", "exec_01"] {
            assert!(!begins("sbx_01kcab", "sbx_", word), "{word}");
        }
    }

    #[test]
    fn a_name_somebody_chose_has_a_beginning_too() {
        assert!(begins("build-all", "exec_", "build"));
        assert!(!begins("build-all", "exec_", "exec_build"));
    }

    #[test]
    fn several_that_fit_are_all_named() {
        let error = ambiguous("0", "sandbox", vec!["sbx_1".to_owned(), "sbx_2 (web)".to_owned()]);

        assert_eq!(error.kind, Kind::Invalid);
        assert!(error.hint.is_some_and(|hint| hint.contains("sbx_1, sbx_2 (web)")));
    }
}
