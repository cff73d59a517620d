//! What goes wrong around an engine: coracle killed, the engine killed, somebody else at its containers. Afterwards one
//! `gc` leaves nothing that nobody owns, and no call has ever hung.

mod anytime;
mod down;
mod instances;
mod meddling;
mod points;
mod purge;
mod restarts;
mod site;
