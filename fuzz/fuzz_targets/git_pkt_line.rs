//! Arbitrary bytes as packets, as the commands of a push and as git's report: no panic, and commands that are read are read
//! again as the same from what we write.
#![no_main]

use coracle_core::repo::RefChange;
use coracle_git::{pkt, push};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut rest = input;
    while let Ok(Some(_)) = pkt::read(&mut rest) {}
    let _ = push::Report::read(input);
    let Ok(Some(push)) = push::read(&mut &input[..]) else { return };
    let admitted = |change: &RefChange| change.name.is_public();
    let changes: Vec<RefChange> = push.commands.into_iter().filter_map(|one| one.change).filter(admitted).collect();
    if changes.is_empty() {
        return;
    }
    let again = push::read(&mut push::commands(&changes, &push.shallow, push.atomic).as_slice());
    let again = again.expect("what we write is a push").expect("it changes something");
    assert_eq!(again.commands.into_iter().filter_map(|one| one.change).collect::<Vec<_>>(), changes);
});
