//! Standard output that is full or closed: no new sandbox is lost, and no token is left that the user never saw.

use coracle_tests::{Finished, Home, requires};

/// Carries out a verb whose standard output is full.
fn unprinted(home: &Home, words: &[&str]) -> Finished {
    home.call(words).through(["sh", "-c", r#"exec "$@" > /dev/full"#, "sh"]).run().expect_code(125)
}

#[test]
fn a_token_that_could_not_be_printed_is_revoked() {
    requires!(native);
    let home = Home::new();

    for flags in [&["--json"][..], &[]] {
        let words = [&["token", "create", "--tenant", "acme"], flags].concat();
        assert!(unprinted(&home, &words).stderr.contains("is revoked"));
    }

    let listed = home.call(["token", "list", "--json"]).succeed().json();
    let tokens = listed.as_array().expect("a list");
    assert_eq!(tokens.len(), 2, "{listed}");
    assert!(tokens.iter().all(|token| token["state"] == "revoked"), "{listed}");
}

#[test]
fn a_sandbox_that_could_not_be_printed_is_named_on_standard_error() {
    requires!(native);
    let home = Home::new();
    let ids = |home: &Home| -> Vec<String> {
        home.live().iter().filter_map(|row| row["sandbox_id"].as_str().map(str::to_owned)).collect()
    };

    for (made, words) in
        [&["open"][..], &["open", "--json"], &["run", "-d", "sleep", "60"]].into_iter().enumerate()
    {
        let before = ids(&home);
        let said = unprinted(&home, words).stderr;
        let new: Vec<_> = ids(&home).into_iter().filter(|id| !before.contains(id)).collect();
        assert_eq!((before.len(), new.len()), (made, 1), "{words:?}");
        assert!(said.contains(&format!("sandbox `{}` is there", new[0])), "{words:?}: {said}");
    }
}
