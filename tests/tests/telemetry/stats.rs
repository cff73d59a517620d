//! `stats` reports what sandboxes really use.

use coracle_tests::{Home, SOON, eventually, requires};
use serde_json::Value;

fn stats(home: &Home, sandbox: &str) -> Value {
    let listed = home.call(["stats", sandbox, "--json"]).succeed().json();
    listed[0].clone()
}

#[test]
fn time_memory_processes_and_files_are_counted() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let before = stats(&home, &sandbox);
    let script = "dd if=/dev/zero of=file bs=1M count=32 2>/dev/null; i=0; \
                  while [ $i -lt 300000 ]; do i=$((i + 1)); done; sleep 60 & sleep 60 & echo ready; wait";
    let started = home.exec(&sandbox, ["sh", "-c", script]).start();
    started.wait_for(|output| output.ends_with(b"ready\n"));

    let now = stats(&home, &sandbox);

    started.kill();
    let grown = |name: &str| now[name].as_u64().expect("it is told") - before[name].as_u64().unwrap_or(0);
    assert!(grown("disk_bytes") >= 32 << 20, "{now}");
    assert!(grown("cpu_ms") >= 50, "{now}");
    assert!(now["memory_peak_bytes"].as_u64() >= now["memory_bytes"].as_u64(), "{now}");
    assert!(grown("processes") >= 3, "{now}");
    assert_eq!(now["execs_running"], 1, "{now}");
    assert!(now["output_bytes"].as_u64() >= Some(6), "{now}");
    assert!(now["disk_limit_bytes"].as_u64() > Some(64 << 20), "{now}");
    assert_eq!(now["network_denied"], Value::Null);
}

#[test]
fn watching_stats_does_not_keep_a_sandbox_alive() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--ttl", "2s"]);

    let gone = eventually(SOON, || {
        let seen = home.call(["stats", "--json"]).succeed().json();
        seen.as_array().expect("a list").iter().all(|one| one["uptime_ms"].is_null())
    });

    assert!(gone.is_some(), "`{sandbox}` lives on");
}

#[test]
fn others_see_its_usage_and_not_its_commands() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    let seen = home.call(["stats", &sandbox, "--json", "--run", "run_other"]).succeed().json();

    assert!(seen[0]["cpu_ms"].is_u64(), "{seen}");
    assert_eq!((&seen[0]["execs_running"], &seen[0]["uptime_ms"]), (&Value::Null, &Value::Null));
}

#[test]
fn without_root_unknown_usage_is_null() {
    requires!(native);
    let home = Home::ordinary();
    let sandbox = home.open();

    let seen = stats(&home, &sandbox);

    for name in ["cpu_ms", "memory_bytes", "processes", "disk_bytes"] {
        assert_eq!(seen[name], Value::Null, "{name}");
    }
    assert_eq!(seen["execs_running"], 0);
}
