//! Many clients at once: none is turned away, and nothing piles up.

use std::time::Duration;

use coracle_tests::{Daemon, Home, count, load, requires};

use crate::streams::memory;

#[test]
fn many_clients_get_answers_and_nothing_piles_up() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandboxes: Vec<_> = (0..20).map(|_| home.open()).collect();
    // Two hundred leave nothing of the machine to the tests beside this one.
    let (clients, seconds) = (count(40, 200), count(6, 60) as u64);

    // Threads and buffers come with the first burst; what grows afterwards would grow for ever.
    load::put_on(&daemon.unix(), &sandboxes, clients, Duration::from_secs(seconds / 3));
    let before = memory(daemon.pid());
    let load = load::put_on(&daemon.unix(), &sandboxes, clients, Duration::from_secs(seconds));
    let grown = memory(daemon.pid()).saturating_sub(before);

    eprintln!(
        "{} requests; exec p50 {:?}, p99 {:?}; memory {} MiB, grown by {} KiB",
        load.requests,
        load.quantile(0.5),
        load.quantile(0.99),
        before >> 20,
        grown >> 10
    );
    assert_eq!(load.failures, std::collections::BTreeMap::new());
    assert!(load.execs.len() > clients, "{} commands", load.execs.len());
    assert!(grown < 32 << 20, "{grown} bytes");
    sandboxes.iter().for_each(|sandbox| drop(home.call(["close", sandbox]).succeed()));
    daemon.end().expect_code(0);
    home.expect_no_orphans();
}
