//! Ending a call early: one signal that everything which waits on behalf of the call listens to.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Error, Kind, Result};

/// Cancels one call. All clones share one signal; once sent, it stays sent.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    cancelled: Condvar,
}

#[derive(Default)]
struct State {
    cancelled: Option<Why>,
    next: u64,
    /// Callbacks that end waits elsewhere: in the kernel, at a guest, in a runtime.
    hooks: Vec<(u64, Hook)>,
}

type Hook = Box<dyn FnOnce() + Send>;

#[derive(Clone, Copy)]
enum Why {
    /// The caller no longer wants it.
    Caller,
    /// Its deadline is over.
    Deadline,
}

/// Cancels when it is dropped: for a future that the runtime drops when the client disconnects.
#[derive(Debug)]
pub struct CancelOnDrop(Option<Cancel>);

impl CancelOnDrop {
    pub fn of(cancel: &Cancel) -> Self {
        Self(Some(cancel.clone()))
    }

    /// Drops the guard without cancelling.
    pub fn disarm(mut self) {
        self.0 = None;
    }
}

/// Keeps a hook registered. Dropping it unregisters the hook; another thread may be calling the hook at that moment.
#[must_use = "the hook is gone as soon as this is dropped"]
pub struct Registration {
    cancel: Cancel,
    id: u64,
}

impl Cancel {
    /// Ends the call: runs every hook once on this thread, and wakes all waiting threads.
    pub fn cancel(&self) {
        self.end(Why::Caller);
    }

    /// Ends the call because its deadline is over.
    pub fn expire(&self) {
        self.end(Why::Deadline);
    }

    fn end(&self, why: Why) {
        let hooks = {
            let mut state = self.state();
            state.cancelled.get_or_insert(why);
            std::mem::take(&mut state.hooks)
        };
        self.0.cancelled.notify_all();
        hooks.into_iter().for_each(|(_, hook)| hook());
    }

    /// Tells whether there is another clone. If not, nothing can send the signal, and nothing has to listen.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    pub fn is_cancelled(&self) -> bool {
        self.state().cancelled.is_some()
    }

    /// Fails with `aborted`, or `timeout` after a deadline, if the call was cancelled. For places where nothing has
    /// to be undone.
    pub fn check(&self) -> Result<()> {
        match self.is_cancelled() {
            true => Err(self.reason()),
            false => Ok(()),
        }
    }

    /// Returns the error that says why the call was cancelled.
    pub fn reason(&self) -> Error {
        match self.state().cancelled {
            None | Some(Why::Caller) => Error::new(Kind::Aborted, "the call was cancelled"),
            Some(Why::Deadline) => Error::new(Kind::Timeout, "the call took longer than its deadline"),
        }
    }

    /// Registers `hook` to run when the call is cancelled; runs it at once if it already was. The hook must not block
    /// for long, because it runs on the thread that cancels.
    pub fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) -> Registration {
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        if state.cancelled.is_some() {
            drop(state);
            hook();
        } else {
            state.hooks.push((id, Box::new(hook)));
        }
        Registration { cancel: self.clone(), id }
    }

    /// Waits for `time` or until the call is cancelled; returns `true` if it was cancelled.
    pub fn sleep(&self, time: Duration) -> bool {
        let waited =
            self.0.cancelled.wait_timeout_while(self.state(), time, |state| state.cancelled.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.cancelled.is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancel").field(&self.is_cancelled()).finish()
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(cancel) = &self.0 {
            cancel.cancel();
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.cancel.state().hooks.retain(|(id, _)| *id != self.id);
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registration").field(&self.id).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn counting(cancel: &Cancel) -> (Arc<AtomicUsize>, Registration) {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let registration = cancel.on_cancel(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        (calls, registration)
    }

    #[test]
    fn a_hook_is_called_once_and_only_while_it_is_registered() {
        let cancel = Cancel::default();
        let (kept, _registration) = counting(&cancel);
        let (dropped, registration) = counting(&cancel);
        drop(registration);

        cancel.cancel();
        cancel.cancel();

        assert_eq!((kept.load(Ordering::Relaxed), dropped.load(Ordering::Relaxed)), (1, 0));
    }

    #[test]
    fn a_hook_that_comes_too_late_is_called_at_once() {
        let cancel = Cancel::default();
        cancel.cancel();

        let (calls, _registration) = counting(&cancel);

        assert_eq!(calls.load(Ordering::Relaxed), 1);
        assert_eq!(cancel.check().map_err(|error| error.kind), Err(Kind::Aborted));
    }

    #[test]
    fn what_ended_it_first_is_what_it_says() {
        let (late, unwanted) = (Cancel::default(), Cancel::default());
        late.expire();
        late.cancel();
        unwanted.cancel();
        unwanted.expire();

        let kind = |cancel: &Cancel| cancel.check().map_err(|error| error.kind);
        assert_eq!((kind(&late), kind(&unwanted)), (Err(Kind::Timeout), Err(Kind::Aborted)));
    }

    #[test]
    fn who_sleeps_is_woken() {
        let cancel = Cancel::default();
        let other = cancel.clone();
        assert!(!cancel.sleep(Duration::from_millis(1)));

        let sleeper = std::thread::spawn(move || other.sleep(Duration::from_secs(3600)));
        cancel.cancel();

        assert!(sleeper.join().expect("it does not panic"));
    }
}
