//! What a command can see and do beyond its sandbox: nothing. Judged from outside wherever that is possible.

mod environment;
mod guest;
mod kernel;
mod neighbours;
mod view;
