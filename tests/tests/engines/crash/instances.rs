//! Two homes on one container engine: neither ever touches the other's sandboxes.

use std::sync::atomic::{AtomicBool, Ordering};

use coracle_tests::engines::Containers;
use coracle_tests::{count, requires};

use super::site::{Site, engine};

#[test]
fn homes_that_share_an_engine_never_touch_each_others_sandboxes() {
    requires!(docker);
    let engine = engine(Containers::End);
    // Both at once: the first thing each does is to bring the guest's program to the same place.
    let sites = [Site::at(&engine), Site::at(&engine)];
    let number = count(4, 20);
    let done = AtomicBool::new(false);

    let opened: Vec<Vec<String>> = std::thread::scope(|scope| {
        let sweepers = sites.each_ref().map(|site| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    site.call(&["gc"]).succeed();
                }
            })
        });
        let openers = sites
            .each_ref()
            .map(|site| scope.spawn(move || (0..number).map(|_| site.open()).collect::<Vec<_>>()));
        let opened = openers.map(|opener| opener.join());
        done.store(true, Ordering::Relaxed);
        sweepers.into_iter().for_each(|sweeper| sweeper.join().expect("every `gc` succeeds"));
        opened.into_iter().map(|opened| opened.expect("every sandbox opens")).collect()
    });
    for (site, sandboxes) in sites.iter().zip(&opened) {
        for sandbox in sandboxes {
            assert_eq!(site.exec(sandbox, "echo works").succeed().text(), "works\n");
        }
    }

    // The first closes everything it knows, and sweeps; the second has all of its own.
    sites[0].expect_all_gone();
    let theirs: Vec<_> = opened[1].iter().map(String::as_str).collect();
    sites[1].expect_only(&theirs);
    for sandbox in theirs {
        assert_eq!(sites[1].exec(sandbox, "echo works").succeed().text(), "works\n");
    }
    sites[1].expect_all_gone();
}

#[test]
fn one_home_brings_the_guest_once_however_many_ask_for_it() {
    requires!(docker);
    let engine = engine(Containers::End);
    let site = Site::at(&engine);

    let opens: Vec<_> = (0..3).map(|_| site.open_call(&[]).start()).collect();
    for open in opens {
        open.finish().expect_code(0);
    }

    site.expect_all_gone();
}
