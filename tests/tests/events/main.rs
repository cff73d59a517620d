//! What operations leave behind to look at: events, usage, output of closed sandboxes; and how everything goes, or stays
//! when coracle itself is replaced.

mod events;
mod logs;
mod purge;
mod stats;
mod upgrade;
