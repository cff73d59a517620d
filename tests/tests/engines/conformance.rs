//! Every container engine keeps the contract of a backend.

use coracle_backends::BackendConfig;
use coracle_backends::docker::Docker;
use coracle_backends::docker::endpoint::Endpoint;
use coracle_core::policy::Policy;
use coracle_core::spec::{Spec, SpecInput};
use coracle_testing::backend_conformance;
use coracle_testing::conformance::backend::Subject;
use coracle_testing::sample;
use coracle_tests::count;
use coracle_tests::engines::TEST_IMAGE;
use coracle_tests::engines::test_backend::{TestBackend, brief_ssh};
use coracle_tests::needs::met;

/// Returns a backend on an engine, as an instance with a home of its own.
fn at(name: &str, address: &str) -> Subject {
    let home = tempfile::tempdir().expect("a temporary directory can be made");
    let instance = sample::instance();
    let mut config = BackendConfig::at(home.path(), instance.clone());
    config.engines.ssh = address.starts_with("ssh://").then(brief_ssh);
    let backend = Docker::new(config, name, Endpoint::parse(address));
    Subject { backend: Box::new(backend), instance, spec: spec(), keep: Box::new(home) }
}

fn spec() -> Spec {
    let input = SpecInput { image: Some(TEST_IMAGE.to_owned()), ..SpecInput::default() };
    Spec::resolve(input, &Policy::default()).expect("a spec with an image is valid")
}

/// Tells whether this clause runs on every engine: with `--full` each one does, else those about life and death and
/// some of the others. On Docker all run, and the guest is the same everywhere.
fn in_sample() -> bool {
    let clause = std::thread::current().name().unwrap_or_default().to_owned();
    count(0, 1) == 1
        || clause.contains("::life::")
        || clause.contains("::sleep::")
        || clause.bytes().map(usize::from).sum::<usize>() % 4 == 0
}

mod docker {
    use super::*;

    fn subject() -> Option<Subject> {
        met("docker").then(|| at("docker", &coracle_tests::engines::docker().address()))
    }

    backend_conformance!(subject);
}

mod podman {
    use super::*;

    fn subject() -> Option<Subject> {
        (in_sample() && met("podman")).then(|| at("podman", &coracle_tests::engines::podman().address()))
    }

    backend_conformance!(subject);
}

mod ssh {
    use super::*;

    fn subject() -> Option<Subject> {
        (in_sample() && met("ssh")).then(|| at(&TestBackend::Ssh.name(), &TestBackend::Ssh.name()))
    }

    backend_conformance!(subject);
}
