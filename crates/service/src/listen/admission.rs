//! A request that has arrived is admitted, even if its client disconnects at that very moment.
//!
//! Otherwise a few microseconds would decide whether such a request is carried out and logged, or lost without a
//! trace. After its admission the order is carried out, and work that only its client needs ends.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// Tells whether a request has been admitted or refused. All clones share one flag.
#[derive(Debug, Clone, Default)]
pub struct Admission(Arc<AtomicBool>);

impl Admission {
    /// Notes that the client and the operation are known.
    pub fn decide(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Answers a request; goes on in the background if it is dropped before its admission.
pub struct Begun<F: Future + Send + 'static>
where
    F::Output: Send,
{
    answer: Option<Pin<Box<F>>>,
    admission: Admission,
}

impl<F: Future + Send + 'static> Begun<F>
where
    F::Output: Send,
{
    pub fn new(answer: F, admission: Admission) -> Self {
        Self { answer: Some(Box::pin(answer)), admission }
    }
}

impl<F: Future + Send + 'static> Future for Begun<F>
where
    F::Output: Send,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.answer.as_mut().expect("it is not asked again after its answer");
        let answered = answer.as_mut().poll(context);
        if answered.is_ready() {
            self.answer = None;
        }
        answered
    }
}

impl<F: Future + Send + 'static> Drop for Begun<F>
where
    F::Output: Send,
{
    fn drop(&mut self) {
        let undecided = !self.admission.0.load(Ordering::Relaxed);
        if let (Some(answer), true, Ok(runtime)) = (self.answer.take(), undecided, Handle::try_current()) {
            drop(runtime.spawn(answer));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_is_dropped_before_its_admission_goes_on_and_no_other() {
        let tried = |decided: bool| async move {
            let (done, heard) = oneshot::channel();
            let admission = Admission::default();
            if decided {
                admission.decide();
            }
            drop(Begun::new(async move { done.send(()) }, admission));
            heard.await.is_ok()
        };

        assert!(tried(false).await);
        assert!(!tried(true).await);
    }
}
