//! LV: faults that could make coracle destroy a working sandbox.

use coracle_tests::{Attack, Breaches, Route, count};

use crate::GROUND;

/// Calls that look at every sandbox of the home, or at this one.
fn looks(sandbox: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["gc"],
        vec!["ps"],
        vec!["exec", sandbox, "--", "true"],
        vec!["doctor", "--orphans"],
        vec!["close", sandbox, "--run", "run_somebody_else"],
        vec!["show", sandbox],
    ]
}

#[test]
fn lv_01_a_lack_of_descriptors_is_no_proof_of_death() {
    let title = "have coracle look at a sandbox with too few descriptors to reach it";
    Attack::starred(GROUND, "LV-01", title).by(&[Route::Exec]).without(&["Proof"]).run(|arena| {
        let (home, sandbox) = (arena.home, arena.sandbox());
        home.exec(sandbox, ["sh", "-c", "echo kept > /workspace/canary"]).succeed();

        // From what is too little to start to what is enough: somewhere between, each step is the one that fails.
        for few in 3..=count(24, 40) {
            for words in looks(sandbox).iter().take(count(1, 6).max(if few % 6 == 0 { 6 } else { 1 })) {
                let limit = format!("--nofile={few}");
                home.call(words).through(["prlimit", &limit]).run();
            }
        }

        let kept = home.exec(sandbox, ["cat", "/workspace/canary"]).run();
        let lost = kept.code() != Some(0) || kept.text() != "kept\n";
        Breaches::from_iter(lost.then(|| format!("a working sandbox is lost: {kept}")))
    });
}
