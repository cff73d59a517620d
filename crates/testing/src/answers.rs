//! Answers in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_core::answer::{Answer, Answers, Asked, Bounds, Fingerprint, Recalled};
use coracle_core::clock::Timestamp;
use coracle_core::error::Result;

/// Keeps answers for as long as a clone lives. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct FakeAnswers(Arc<Mutex<BTreeMap<Asked, Kept>>>);

#[derive(Debug, Clone)]
struct Kept {
    question: Fingerprint,
    asked_at: Timestamp,
    /// The number grows with every answer, of any tenant.
    answered: Option<(u64, Answer)>,
}

impl FakeAnswers {
    fn kept(&self) -> MutexGuard<'_, BTreeMap<Asked, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answers for FakeAnswers {
    fn ask(&self, asked: &Asked, question: &Fingerprint, now: Timestamp, bounds: Bounds) -> Result<Recalled> {
        let mut kept = self.kept();
        Ok(match kept.get(asked) {
            None => {
                kept.insert(asked.clone(), Kept { question: *question, asked_at: now, answered: None });
                while let Some(oldest) = unanswered_beyond(&kept, asked, bounds) {
                    kept.remove(&oldest);
                }
                Recalled::New
            }
            Some(known) if known.question != *question => Recalled::Other,
            Some(Kept { answered: Some((_, answer)), .. }) => Recalled::Answered(answer.clone()),
            Some(_) => Recalled::Unanswered,
        })
    }

    fn answer(&self, asked: &Asked, answer: &Answer, bounds: Bounds) -> Result<()> {
        let mut kept = self.kept();
        let last = kept.values().filter_map(|one| one.answered.as_ref()).map(|(turn, _)| *turn).max();
        let Some(noted) = kept.get_mut(asked) else { return Ok(()) };
        noted.answered = Some((last.unwrap_or(0) + 1, answer.clone()));
        while let Some(oldest) = answered_beyond(&kept, asked, bounds) {
            kept.remove(&oldest);
        }
        Ok(())
    }

    fn withdraw(&self, asked: &Asked) -> Result<()> {
        self.kept().remove(asked);
        Ok(())
    }

    fn forget_asked(&self, before: Timestamp) -> Result<usize> {
        let mut kept = self.kept();
        let count = kept.len();
        kept.retain(|_, one| one.asked_at >= before);
        Ok(count - kept.len())
    }
}

/// Returns the request to forget next, if there are too many without an answer.
fn unanswered_beyond(kept: &BTreeMap<Asked, Kept>, asked: &Asked, bounds: Bounds) -> Option<Asked> {
    let own = || kept.iter().filter(|(other, one)| other.tenant == asked.tenant && one.answered.is_none());
    let others = own().filter(|(other, _)| *other != asked);
    let oldest = others.min_by_key(|(_, one)| one.asked_at).map(|(other, _)| other.clone());
    oldest.filter(|_| own().count() > bounds.keys)
}

/// Returns the answer to forget next, if there are too many or they are too large.
fn answered_beyond(kept: &BTreeMap<Asked, Kept>, asked: &Asked, bounds: Bounds) -> Option<Asked> {
    let own: Vec<_> = kept
        .iter()
        .filter(|(other, _)| other.tenant == asked.tenant)
        .filter_map(|(other, one)| one.answered.as_ref().map(|(turn, answer)| (other, turn, answer)))
        .collect();
    let bytes: usize = own.iter().map(|(_, _, answer)| answer.body.len()).sum();
    let others = own.iter().filter(|(other, _, _)| *other != asked);
    let oldest = others.min_by_key(|(_, turn, _)| *turn).map(|(other, _, _)| (*other).clone());
    oldest.filter(|_| own.len() > bounds.keys || bytes > bounds.bytes)
}
