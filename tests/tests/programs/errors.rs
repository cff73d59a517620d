//! The error a system call returns that commands may not make: by it, programs choose another way or give up.

use coracle_tests::{Home, requires};

const CALLS: &str = include_str!("payloads/make_calls.py");
const TOLD: &str = include_str!("payloads/made_calls");

#[test]
#[cfg(target_arch = "x86_64")]
fn a_refusal_names_its_reason_as_the_kernel_would() {
    requires!(native);

    for privileges in ["minimal", "install"] {
        let ran =
            Home::new().call(["run", "--privileges", privileges, "--", "python3", "-c", CALLS]).succeed();

        assert_eq!(ran.text(), TOLD, "{privileges}");
    }
}
