//! A disk that fills up: what backends are told of it.

use std::sync::{Arc, Mutex};

use coracle_core::Policy;
use coracle_core::headroom::{Disk, Left, Reserve, Shortage};
use coracle_engine::{Engine, Parts};
use serde_json::json;

use crate::world::{World, caller, parts};

const GIB: u64 = 1 << 30;

/// A disk of 100 GiB.
#[derive(Debug)]
struct Fake {
    free: Mutex<u64>,
    noted: Mutex<Vec<Shortage>>,
}

impl Disk for Fake {
    fn left(&self) -> Option<Left> {
        let bytes = *self.free.lock().expect("no panic");
        Some(Left { bytes, total_bytes: 100 * GIB, inodes: None })
    }

    fn held_back(&self) -> u64 {
        0
    }

    fn give_way(&self) -> bool {
        false
    }

    fn refill(&self) {}

    fn note(&self, shortage: Shortage, is_there: bool) -> bool {
        let mut noted = self.noted.lock().expect("no panic");
        let changed = noted.contains(&shortage) != is_there;
        noted.retain(|other| *other != shortage);
        if is_there {
            noted.push(shortage);
        }
        changed
    }
}

#[test]
fn without_a_reserve_backends_still_learn_that_the_disk_is_nearly_full() {
    let world = World::new();
    let disk = Arc::new(Fake { free: Mutex::new(GIB), noted: Mutex::default() });
    let engine = Engine::new(Parts {
        policy: Policy { reserve: Reserve::Bytes(0), ..Policy::default() },
        disk: Some(disk.clone()),
        ..parts(&world.store, &world.backend, &world.clock, &world.keepers)
    });
    let open = || engine.call(caller("run_a"), "sandbox_open", json!({})).expect("nothing is refused");

    open();
    assert_eq!(world.backend.braced(), Some(true));

    *disk.free.lock().expect("no panic") = 50 * GIB;
    open();
    assert_eq!(world.backend.braced(), Some(false));
    let told = engine.call(caller("run_a"), "event_list", json!({})).expect("it has events").to_string();
    assert!(!told.contains("storage_"), "there is no reserve to be below: {told}");
}
