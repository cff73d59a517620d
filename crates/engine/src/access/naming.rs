//! What people call sandboxes: from a word to the one it means. For doors with a person behind them; programs have whole
//! ids.

use coracle_core::store::Which;
use coracle_core::{Error, Kind, Record, Result, SandboxId, SessionKey};

use super::Access;
use crate::Caller;

/// How many of the newest sandboxes are looked through for one that had a key before. A home may have many thousands.
const RECENT_MAX: usize = 200;

/// Candidates a person still reads.
pub(crate) const SHOWN_MAX: usize = 10;

impl Access {
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
            let mut found = self.records.store().newest(caller.tenant.as_ref(), which, usize::MAX)?;
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
        let newest = self.records.store().newest(caller.tenant.as_ref(), Which::All, RECENT_MAX)?;
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
            Ok(id) => self.records.store().find(&id)?.filter(|record| self.shows(caller, record)),
            Err(_) => None,
        };
        match (by_id, word.parse::<SessionKey>()) {
            (None, Ok(key)) => self.records.store().find_key(caller.tenant.as_ref(), &key),
            (by_id, _) => Ok(by_id),
        }
    }
}

fn has_key(record: &Record, word: &str) -> bool {
    record.key.as_ref().is_some_and(|key| key.as_str() == word)
}

/// Tells whether a word is the beginning of an id. A word without any character of its own fits none.
pub(crate) fn begins(id: &str, prefix: &str, word: &str) -> bool {
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

pub(crate) fn ambiguous(word: &str, what: &str, mut candidates: Vec<String>) -> Error {
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
