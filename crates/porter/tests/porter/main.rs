//! Porter's program as the host and the guest run it, against repositories that the machine's git has made.

#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its files has failed")]

mod checkout;
mod hostile;
mod run;
mod source;
