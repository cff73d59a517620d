//! CPU: a command gets the share it was given, and no more.

use std::time::Duration;

use coracle_tests::{Home, requires};

/// Burns two threads' worth of CPU for two seconds and prints how much it got.
const BURN: &str = "
import os, time
child = os.fork()
end = time.monotonic() + 2
while time.monotonic() < end:
    pass
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
t = os.times()
print(t.user + t.system + t.children_user + t.children_system)
";

#[test]
fn half_a_cpu_is_half_a_cpu() {
    requires!(native);
    let home = Home::new();

    let ran = home
        .call(["run", "--cpus", "0.5", "--", "python3", "-c", BURN])
        .within(Duration::from_secs(60))
        .succeed();

    let seconds: f64 = ran.text().trim().parse().expect("a number of seconds");
    // 1.0 is the share of two seconds; one period of slack, and a start that is charged before the limit bites.
    assert!(seconds < 1.4, "two processes had {seconds} s of CPU in 2 s under half a CPU");
}
