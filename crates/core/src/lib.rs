//! Coracle's vocabulary and pure rules, and the ports that everything else implements.
//!
//! Nothing here reads a clock, a file, a socket or the environment. Ownership, lifecycle and reconciliation are
//! functions from facts to decisions, so the property tests run the code that ships.

pub mod answer;
pub mod backend;
pub mod bytes;
pub mod cancel;
pub mod ceiling;
pub mod clock;
pub mod complaint;
pub mod count;
mod decimal;
pub mod difference;
pub mod duration;
pub mod error;
pub mod event;
pub mod exec;
pub mod fit;
pub mod forking;
pub mod headroom;
pub mod hibernation;
pub mod home;
pub mod ids;
pub mod image;
pub mod install;
pub mod kept_log;
pub mod lease;
pub mod lifecycle;
pub mod limits;
pub mod mount;
pub mod near;
pub mod network;
pub mod observed;
pub mod policy;
pub mod printable;
pub mod reconcile;
pub mod record;
pub mod redact;
pub mod repo;
pub mod runtime;
pub mod selection;
pub mod spec;
pub mod store;
pub mod tenant;
pub mod token;
pub mod usage;
pub mod user;
pub mod volume;

pub use answer::Answers;
pub use backend::Backend;
pub use cancel::Cancel;
pub use ceiling::Ceiling;
pub use clock::{Clock, Timestamp};
pub use error::{Error, Kind, Result};
pub use home::Home;
pub use ids::{
    ExecId, ImageId, InstanceId, RepoId, RunId, SandboxId, SessionKey, TenantId, TokenId, VolumeName,
};
pub use kept_log::{KeptExec, KeptLogs};
pub use lease::{Claim, Epoch, Lease};
pub use lifecycle::State;
pub use limits::Limits;
pub use network::Network;
pub use policy::Policy;
pub use record::Record;
pub use repo::Repos;
pub use spec::Spec;
pub use store::Store;
pub use token::{Token, Tokens};
