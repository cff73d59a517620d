//! Bounds, and what says that they were hit.

use serde_json::json;

use crate::parity::stage::Stage;

pub fn play(stage: &mut Stage) {
    memory(stage);
    processes(stage);
    let shown = stage.open(&["--memory", "100m", "--pids", "50", "--cpus", "0.5", "--ttl", "1h"]);
    stage.call(&["show", &shown, "--json"]);
    stage.call(&["close", &shown, "--json"]);
    let lifted = stage.open(&["--unlimited"]);
    stage.shell(&lifted, "dd if=/dev/zero of=/dev/null bs=100M count=1 2>/dev/null && echo survived");
    stage.call(&["close", &lifted, "--json"]);
}

fn memory(stage: &mut Stage) {
    let sandbox = stage.open(&["--memory", "64m"]);
    let hog = "dd if=/dev/zero of=/dev/null bs=256M count=1 2>/dev/null";
    stage.exec(&sandbox, &["dd", "if=/dev/zero", "of=/dev/null", "bs=256M", "count=1"], json!({}));
    stage.shell(&sandbox, &format!("{hog}; echo $?"));
    stage.shell(&sandbox, &format!("{hog} & wait $!; exit 0"));
    stage.shell(&sandbox, "echo alive");
    stage.shell(&sandbox, "head -c 32M /dev/zero > on-disk && echo written");
    stage.shell(&sandbox, "head -c 200M /dev/zero > /dev/shm/fill; ls /dev/shm; rm -f /dev/shm/fill");
    stage.shell(&sandbox, "echo alive");
    stage.call(&["close", &sandbox, "--json"]);
    stage.make(&["run", "--json", "--memory", "64m", "--", "sh", "-c", hog]);
}

fn processes(stage: &mut Stage) {
    let sandbox = stage.open(&["--pids", "40"]);
    stage.shell(&sandbox, "for n in $(seq 100); do sleep 100 & done; echo all");
    stage.shell(&sandbox, "for n in $(seq 10); do sleep 0 & done; wait; echo all");
    stage.shell(&sandbox, "echo alive");
    stage.call(&["close", &sandbox, "--json"]);
}
