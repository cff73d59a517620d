//! Values for tests that do not care which they get.

use std::sync::atomic::{AtomicU64, Ordering};

use coracle_core::clock::Timestamp;
use coracle_core::ids::{InstanceId, RunId, SandboxId, SessionKey, TenantId};
use coracle_core::lease::Lease;
use coracle_core::lifecycle::State;
use coracle_core::observed::Moment;
use coracle_core::policy::Policy;
use coracle_core::record::{Record, Secret};
use coracle_core::spec::{Spec, SpecInput};

/// The boot of sample records.
pub const BOOT: &str = "4f6c5d1e-boot";

/// Returns the spec of a caller that asks for nothing in particular.
pub fn spec() -> Spec {
    Spec::resolve(SpecInput::default(), &Policy::default()).expect("an empty spec is valid")
}

/// Returns a record in state `creating`, owned by `run_sample`, with a fresh id.
pub fn record() -> Record {
    let at = Moment { wall: Timestamp::from_millis(1_700_000_000_000), observed: Timestamp::from_millis(0) };
    Record {
        lease: Lease::new(run("run_sample")),
        backend: "fake".to_owned(),
        secret: Secret([7; 32]),
        boot: BOOT.to_owned(),
        ..Record::new(sandbox(), State::Creating, spec(), at)
    }
}

/// Returns a fresh sandbox id.
pub fn sandbox() -> SandboxId {
    SandboxId::generate(Timestamp::from_millis(1_700_000_000_000), unique())
}

/// Returns a fresh instance id.
pub fn instance() -> InstanceId {
    InstanceId::generate(Timestamp::from_millis(1_700_000_000_000), unique())
}

pub fn run(name: &str) -> RunId {
    name.parse().expect("the name of a sample run is an id")
}

pub fn key(name: &str) -> SessionKey {
    name.parse().expect("the name of a sample key is printable")
}

pub fn tenant(name: &str) -> TenantId {
    name.parse().expect("the name of a sample tenant is an id")
}

/// Counts within the process and differs between processes: test binaries run side by side on one machine.
fn unique() -> [u8; 10] {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut bytes = [0; 10];
    bytes[..4].copy_from_slice(&std::process::id().to_be_bytes());
    bytes[4..].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes()[2..]);
    bytes
}
