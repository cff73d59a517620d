//! Rows that cannot be tried yet, and why. Nothing is left out of the report in silence.

use coracle_tests::attack::not_applicable;

use crate::GROUND;

/// Id, star, what the attacker does, and what is missing.
const ROWS: &[(&str, bool, &str, &str)] = &[
    (
        "NS-13",
        false,
        "options of an overlay in names",
        "layers are attached by descriptor under names of ours, so there is no option to hide in",
    ),
    (
        "NS-16",
        false,
        "link a file of a mount into the workspace",
        "no wall of ours: the kernel links nothing across mounts",
    ),
    (
        "NW-16",
        false,
        "have the proxy send its credentials elsewhere, or read them back",
        "the proxy adds no credentials to anything",
    ),
    (
        "PS-10",
        false,
        "size of pools from `nproc` and `/proc/meminfo`",
        "not built: CPUs and memory are shown as the machine has them",
    ),
    ("CP-07", false, "the same suite as an ordinary user", "not built: the twin's walls are those of root"),
    (
        "DV-04",
        false,
        "devices after a pause, a resume or new limits",
        "a pause freezes a cgroup and touches no mount; there is no update of limits yet",
    ),
    ("FA-07", false, "a hard link to another tenant's file in a shared cache", "there are no shared caches"),
];

#[test]
fn rows_that_cannot_be_tried_say_why() {
    for (id, starred, title, reason) in ROWS {
        not_applicable(GROUND, id, *starred, title, reason);
    }
}
