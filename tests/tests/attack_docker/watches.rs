//! What the kernel counts for each user: without a user namespace the sandbox's users are the machine's.

use std::time::Duration;

use coracle_tests::attack::Ground;
use coracle_tests::{Attack, Route, SOON, eventually};

use crate::GROUND;

/// Takes a few of what there are 128 of for each user of the machine, says how that went, and stays.
const TAKE: &str = include_str!("payloads/take_watches.py");
/// How long that may take.
const TRIED: Duration = SOON;

#[test]
fn dk_13_what_the_machines_root_watches_files_with_is_not_used_up() {
    assert_eq!(GROUND, Ground::Docker, "a sandbox of our own has users of its own");
    let title = "take inotify instances that count as the machine's root's";
    Attack::starred(GROUND, "DK-13", title).by(&[Route::Create, Route::Exec]).without(&["Watches"]).run(
        |arena| {
            arena.watch(&["python3", "-c", TAKE], |process| {
                let tried = || std::fs::read_to_string(format!("/proc/{}/root/tmp/tried", process.pid));
                eventually(TRIED, || tried().is_ok_and(|told| told.contains("done"))).expect("it has tried");
                let held = std::fs::read_dir(format!("/proc/{}/fd", process.pid)).expect("it is there");
                let links = held.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
                let watches = links.filter(|link| link.to_string_lossy().contains("inotify")).count();
                (watches > 0)
                    .then(|| format!("holds {watches} of the machine's root's"))
                    .into_iter()
                    .collect()
            })
        },
    );
}
