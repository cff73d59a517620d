//! Who may do what: the way to a guest, changes of owner, tenants, and what callers can name.

pub mod claims;
pub(crate) mod gate;
pub(crate) mod handover;
pub mod naming;
pub(crate) mod rejoin;
pub(crate) mod tenancy;
pub(crate) mod volumes;
