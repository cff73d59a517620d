//! Checks that the native backend fulfils the contract of all backends.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use coracle_backends::BackendConfig;
use coracle_backends::native::Native;
use coracle_core::Epoch;
use coracle_core::backend::{EndsWith, Order};
use coracle_core::record::Secret;
use coracle_testing::backend_conformance;
use coracle_testing::conformance::backend::Subject;
use coracle_testing::sample;

/// Returns a backend with a home of its own, or `None` if sandboxes cannot be made here and that is allowed.
fn native() -> Option<Subject> {
    let home = tempfile::tempdir().expect("a temporary directory can be made");
    let instance = sample::instance();
    let config = BackendConfig::at(home.path(), instance.clone());
    let backend: Box<dyn coracle_core::Backend> = Box::new(Native::new(config));
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

#[test]
fn many_threads_may_be_the_first_in_a_home() {
    let Some(subject) = native() else { return };
    let secret = Secret([7; 32]);

    let made: Vec<_> = std::thread::scope(|scope| {
        let (backend, instance, spec) = (&subject.backend, &subject.instance, &subject.spec);
        let create = || {
            let sandbox = sample::sandbox();
            let order = Order {
                sandbox: &sandbox,
                instance,
                spec,
                secret: &secret,
                epoch: Epoch(1),
                replaces: None,
                ends_with: EndsWith::Nothing,
            };
            (sandbox.clone(), backend.create(&order).map(drop))
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a create does not panic")).collect()
    });

    for (sandbox, created) in made {
        created.expect("each thread makes its sandbox");
        subject.backend.destroy(&sandbox).expect("what was made can be destroyed");
    }
}

/// Every clause again, as an ordinary user that exists on no machine we know.
#[test]
fn every_clause_holds_for_an_ordinary_user() {
    const USER: &str = "64321";
    if std::fs::metadata("/proc/self").is_ok_and(|found| found.uid() != 0) {
        return;
    }
    // Other users may not be able to enter the build directory.
    let all_users = std::fs::Permissions::from_mode(0o755);
    let shared = tempfile::Builder::new().permissions(all_users).tempdir().expect("a directory can be made");
    let suite = shared.path().join("native");
    let own = std::env::current_exe().expect("a test knows its own path");
    // Copied by another process: if this one had the file open for writing, a child could inherit it, and the
    // kernel would refuse to execute it.
    let copied = Command::new("cp").arg(own).arg(&suite).status();
    assert!(copied.is_ok_and(|status| status.success()), "the suite can be copied");

    let run = Command::new("setpriv")
        .args(["--reuid", USER, "--regid", USER, "--clear-groups"])
        .arg(&suite)
        .args(["--skip", "every_clause_holds_for_an_ordinary_user"])
        .env("HOME", shared.path())
        .current_dir("/")
        .output()
        .expect("setpriv can be started");

    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{text}\n{}", String::from_utf8_lossy(&run.stderr));
    assert!(!text.contains("running 0 tests"), "no clause was run");
}
