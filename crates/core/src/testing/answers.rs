//! Answers in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::answer::{Answer, Answers, Asked, Bounds, Fingerprint, Recalled};
use crate::clock::Timestamp;
use crate::error::Result;

/// Keeps answers for as long as anybody has it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct FakeAnswers(Arc<Mutex<BTreeMap<Asked, Kept>>>);

#[derive(Debug, Clone)]
struct Kept {
    question: Fingerprint,
    asked_at: Timestamp,
    answer: Option<Answer>,
}

impl FakeAnswers {
    fn kept(&self) -> MutexGuard<'_, BTreeMap<Asked, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answers for FakeAnswers {
    fn ask(&self, asked: &Asked, question: &Fingerprint, now: Timestamp) -> Result<Recalled> {
        let mut kept = self.kept();
        Ok(match kept.get(asked) {
            None => {
                kept.insert(asked.clone(), Kept { question: *question, asked_at: now, answer: None });
                Recalled::New
            }
            Some(known) if known.question != *question => Recalled::Other,
            Some(Kept { answer: Some(answer), .. }) => Recalled::Answered(answer.clone()),
            Some(_) => Recalled::Unanswered,
        })
    }

    fn answer(&self, asked: &Asked, answer: &Answer, bounds: Bounds) -> Result<()> {
        let mut kept = self.kept();
        let noted = kept.get_mut(asked);
        assert!(noted.is_some(), "an answer to what nobody asked");
        noted.into_iter().for_each(|noted| noted.answer = Some(answer.clone()));
        while let Some(oldest) = beyond(&kept, asked, bounds) {
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

/// Returns what is to be forgotten next, if there is too much.
fn beyond(kept: &BTreeMap<Asked, Kept>, asked: &Asked, bounds: Bounds) -> Option<Asked> {
    let own = || kept.iter().filter(|(other, _)| other.tenant == asked.tenant);
    let bytes: usize = own().filter_map(|(_, one)| one.answer.as_ref()).map(|answer| answer.body.len()).sum();
    let answered = own().filter(|(_, one)| one.answer.is_some());
    let oldest = answered.min_by_key(|(_, one)| one.asked_at).map(|(asked, _)| asked.clone());
    oldest.filter(|_| own().count() > bounds.keys || bytes > bounds.bytes)
}
