//! What holds at every door alike.

mod cancel;
