//! What holds at every door alike: cancelling.

mod cancel;
