//! The native backend keeps the contract every backend keeps.

use coracle_backends::Setting;
use coracle_backends::native::Native;
use coracle_core::backend_conformance;
use coracle_core::testing::conformance::backend::Subject;
use coracle_core::testing::sample;

/// Returns a backend with a home of its own, or `None` where sandboxes cannot be made and that is allowed.
fn native() -> Option<Subject> {
    let home = tempfile::tempdir().expect("a temporary directory can be made");
    let instance = sample::instance();
    let setting = Setting { home: home.path().to_path_buf(), instance: instance.clone(), crash: |_| {} };
    let backend: Box<dyn coracle_core::Backend> = Box::new(Native::new(setting));
    let probe = backend.probe();
    if probe.available {
        return Some(Subject { backend, instance, spec: sample::spec(), keep: Box::new(home) });
    }
    let reason = probe.reason.unwrap_or_default();
    let required =
        std::env::var("CORACLE_REQUIRE").is_ok_and(|needs| needs.split(',').any(|need| need == "native"));
    assert!(!required, "the native backend is required and not available: {reason}");
    eprintln!("skipped: {reason}");
    None
}

backend_conformance!(native);
