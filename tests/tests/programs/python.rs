//! Python as people use it: an environment, packages from an index, their tests.

use coracle_tests::{peers, requires};

use crate::registry::Workplace;

const INDEX: &str = "--quiet --no-cache-dir --disable-pip-version-check --trusted-host ok.test --index-url";

#[test]
fn pytest_is_installed_into_an_environment_and_runs() {
    requires!(programs);
    requires!(pytest);
    let wheels = peers::pytest_wheels().expect("they are there").to_string_lossy().into_owned();
    let place = Workplace::new(include_str!("registries/pip.py"), &[&wheels], &[]);

    let told = place.sh(&format!(
        "python -m venv env
         env/bin/pip install {INDEX} http://ok.test/index/ pytest
         env/bin/pip install {INDEX} http://ok.test/simple/ small
         printf 'import small\\ndef test_origin(tmp_path):\\n    assert small.WHERE == \"from the internet\"\\n' > test_small.py
         env/bin/python -m pytest -q test_small.py | tail -n 1 | cut -d' ' -f1,2"
    ));

    assert_eq!(told, "1 passed\n");
}
