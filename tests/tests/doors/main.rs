//! What holds at every door alike: cancelling, and the end of the process that serves a call.

mod cancel;
mod ends;
