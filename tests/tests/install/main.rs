//! `open` installs what the lockfile of a workspace names: fetched once by a filler, from registries the tests make and
//! serve themselves, and then without a single connection.

mod attack;
mod crash;
mod ecosystems;
mod refusals;
mod site;
