//! The first use of a container engine, which installs the guest there.

use coracle_tests::engines::test_backend::TestBackend;
use coracle_tests::{Started, requires};

/// As many as an agent starts at once.
const MANY: usize = 6;

#[test]
fn many_may_be_the_first_at_an_engine() {
    requires!(docker);
    requires!(podman);

    for backend in [TestBackend::Docker, TestBackend::Podman] {
        let home = backend.home();
        let flags = backend.flags();
        let words = ["run"].into_iter().chain(flags.iter().map(String::as_str)).chain(["--", "echo", "here"]);
        let words: Vec<&str> = words.collect();

        let calls: Vec<Started> = (0..MANY).map(|_| home.call(&words).start()).collect();

        for call in calls {
            assert_eq!(call.finish().expect_code(0).text(), "here\n", "{backend:?}");
        }
    }
}
