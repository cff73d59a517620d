//! The engine against strict fakes of store and backend: what the operations promise.

mod attach;
mod builds;
mod ceilings;
mod crash;
mod egress;
mod events;
mod exec;
mod files;
mod follow;
mod fork;
mod guest;
mod holdings;
mod images;
mod input;
mod janitor;
mod logs;
mod open;
mod ownership;
mod run;
mod selection;
mod spans;
mod spares;
mod standstill;
mod tenants;
mod volumes;
mod world;
