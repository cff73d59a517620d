//! Failures around a container engine: coracle killed, the engine killed, other people change its containers. Afterwards
//! one `gc` leaves nothing without an owner, and no call has ever hung.

mod anytime;
mod down;
mod instances;
mod meddling;
mod points;
mod purge;
mod restarts;
mod site;
mod sleep;
