//! RS: what a command can take from others.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_tests::attack::Ground;
use coracle_tests::call::peak_memory;
use coracle_tests::census::Process;
use coracle_tests::daemon::Daemon;
use coracle_tests::http::Request;
use coracle_tests::{Arena, Attack, Breaches, Route, SOON, count, eventually};
use serde_json::json;

use crate::GROUND;

const MEBIBYTE: u64 = 1 << 20;
/// The guest holds the spool and little else.
const GUEST_MEMORY_MAX: u64 = 32 * MEBIBYTE;
/// Execs at once, by the guest's own bound.
const RUNNING_MAX: usize = 256;
/// How long a sandbox may take to go, whatever is in it.
const CLOSING: Duration = Duration::from_secs(10);

#[test]
fn rs_01_memory_is_bounded() {
    let title = "take four times the memory there is: heap, mappings, memory files, pipes";
    Attack::starred(GROUND, "RS-01", title)
        .by(&[Route::Create, Route::Exec])
        .with(&["--memory", "64m"])
        .without(&["Limits"])
        .every(&["heap", "slowly", "mapping", "memfd"])
        .run(|arena| {
            let lived = |kind: &&str| {
                let ran = arena.python(include_str!("payloads/take_memory.py"), &[kind, "256"]);
                ran.text().contains("lived")
            };
            let kinds = ["heap", "slowly", "mapping", "memfd", "pipes"].into_iter();
            let mut breaches: Breaches =
                kinds.filter(lived).map(|kind| format!("{kind} was taken")).collect();
            // Pipes are bounded by the kernel for each user, limits or not.
            breaches.retain(|breach| !breach.starts_with("pipes") || breaches_memory(arena));
            let neighbour = arena.home.call(["run", "--", "true"]).run();
            breaches.extend((neighbour.code() != Some(0)).then(|| "a neighbour cannot run".to_owned()));
            breaches
        });
}

#[test]
fn bd_01_what_sockets_hold_is_bounded() {
    let title = "fill the buffers of TCP and UDP sockets with more than the memory there is";
    Attack::row(GROUND, "BD-01", title)
        .by(&[Route::Exec])
        .with(&["--memory", "64m"])
        .without(&["SocketBuffers"])
        .pointless_on_docker("what sockets hold is counted as the engine and its kernel do it")
        .every(&["tcp", "udp"])
        .run(|arena| {
            let held = |kind: &&str| -> Option<String> {
                let word = format!("hoard-{kind}-{}", arena.route.name());
                let hoarding = arena
                    .call(&["python3", "-c", include_str!("payloads/fill_sockets.py"), kind, "12", &word])
                    .start();
                hoarding.wait_for(|output| output.starts_with(b"filled"));
                let census = arena.home.census();
                let bytes = census.named(&word).first().map_or(0, |process| sockets_hold(process.pid));
                hoarding.kill();
                (bytes > 24 * MEBIBYTE).then(|| format!("{kind} held {} MiB", bytes / MEBIBYTE))
            };
            ["tcp", "udp"].iter().filter_map(held).collect()
        });
}

/// Returns what the sockets in a process's network hold, by the kernel's own list of them.
fn sockets_hold(pid: u32) -> u64 {
    let list = |name: &str| fs::read_to_string(format!("/proc/{pid}/net/{name}")).expect("it is there");
    let queued = |line: &str| -> Option<u64> {
        let (sent, received) = line.split_whitespace().nth(4)?.split_once(':')?;
        Some(u64::from_str_radix(sent, 16).ok()? + u64::from_str_radix(received, 16).ok()?)
    };
    ["tcp", "udp"].iter().map(|name| list(name).lines().skip(1).filter_map(queued).sum::<u64>()).sum()
}

/// Tells whether any sandbox ever had more than its limit, by the kernel's own count.
fn breaches_memory(arena: &Arena<'_>) -> bool {
    let groups = arena.home.census().cgroups;
    let peak = |name: &str| {
        groups
            .iter()
            .filter_map(|group| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok())
            .max()
    };
    peak("memory.max_usage_in_bytes")
        .or_else(|| peak("memory.peak"))
        .is_some_and(|bytes| bytes > 65 * MEBIBYTE)
}

#[test]
fn rs_02_processes_and_threads_are_bounded() {
    let title = "a fork bomb and a thread bomb";
    Attack::starred(GROUND, "RS-02", title)
        .by(&[Route::Exec, Route::Terminal])
        .with(&["--pids", "64"])
        .without(&["Limits"])
        .every(&["processes", "threads"])
        .run(|arena| {
            // At an engine there is one count for commands and for what serves them, which has 24 places.
            let most = if GROUND == Ground::Docker { 64 + 24 } else { 64 };
            let mut breaches = Breaches::new();
            for kind in ["processes", "threads"] {
                let word = format!("bomb-{kind}-{}", arena.route.name());
                let bomb = arena
                    .call(&["python3", "-c", include_str!("payloads/multiply.py"), kind, "150", &word])
                    .start();
                bomb.wait_for(|output| output.starts_with(b"multiplied"));
                let there = tasks(arena, &word);
                breaches.extend((there > most).then(|| format!("{there} {kind}")));
                bomb.kill();
                let stopped = arena.home.call(["close", &arena.home.open()]).run();
                breaches.extend((stopped.elapsed > CLOSING).then(|| "a neighbour has to wait".to_owned()));
                kill_execs(arena);
            }
            breaches
        });
}

/// Tells whether it is the guest, its forker, or a subreaper.
fn is_servant(process: &Process) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap_or_default();
    let guests_user = status.contains("\nUid:\t65535");
    !process.namespaces.is_empty()
        && (guests_user || process.inner_pid == 1 || GROUND == Ground::Native && process.inner_pid == 2)
}

/// Counts the threads of all commands with a word in their command line.
fn tasks(arena: &Arena<'_>, word: &str) -> usize {
    let census = arena.home.census();
    let inside = census.named(word).into_iter();
    inside.map(|process| fs::read_dir(format!("/proc/{}/task", process.pid)).map_or(0, Iterator::count)).sum()
}

fn kill_execs(arena: &Arena<'_>) {
    let shown = arena.home.call(["show", arena.sandbox(), "--json"]).succeed().json();
    for exec in shown["execs"].as_array().into_iter().flatten() {
        let id = exec["exec_id"].as_str().unwrap_or_default();
        arena.home.call(["stop", arena.sandbox(), id, "--grace", "0"]).run();
    }
}

#[test]
fn rs_03_space_is_bounded() {
    let title = "fill the workspace, `/tmp`, `/var/tmp` and the layer over `/usr`";
    Attack::starred(GROUND, "RS-03", title)
        .pointless_on_docker("engines with this storage driver cannot bound space; the profile says so")
        .by(&[Route::Exec, Route::Transfer])
        .with(&["--disk", "32m", "--allow-missing", "disk"])
        .without(&["Disk"])
        .run(|arena| {
            let before = taken(arena.home.path());
            arena.python(include_str!("payloads/fill.py"), &["24"]);
            let grown = taken(arena.home.path()).saturating_sub(before) / MEBIBYTE;
            // The structures of a filesystem of 32 MiB come on top.
            (grown > 48).then(|| format!("{grown} MiB of the machine's disk")).into_iter().collect()
        });
}

/// Returns what a directory takes on the machine's disk.
fn taken(path: &Path) -> u64 {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let of = |path: PathBuf| match path.symlink_metadata() {
        Ok(found) if found.is_dir() => taken(&path),
        Ok(found) => found.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(|entry| of(entry.path())).sum()
}

#[test]
fn rs_04_files_are_bounded() {
    let title = "make more empty files than there may be, then close";
    let most = "5000";
    Attack::starred(GROUND, "RS-04", title)
        .pointless_on_docker("engines with this storage driver cannot bound files; the profile says so")
        .by(&[Route::Exec, Route::Transfer])
        .with(&["--disk", "64m", "--inodes", "2000", "--allow-missing", "disk"])
        .without(&["Disk"])
        .run(|arena| {
            arena.python(include_str!("payloads/litter.py"), &[most]);
            let made = arena.sleeper(|process| {
                fs::read_dir(format!("/proc/{}/root/workspace/litter", process.pid))
                    .map_or(0, Iterator::count)
            });
            (made > 2000).then(|| format!("{made} files")).into_iter().collect()
        });
}

#[test]
fn rs_05_output_is_bounded() {
    let title = "write a hundred megabytes to both streams without a line break";
    let flood = "head -c 50M /dev/zero | tr '\\0' x; head -c 50M /dev/zero | tr '\\0' y >&2";
    Attack::starred(GROUND, "RS-05", title).by(&[Route::Exec, Route::Transfer]).without(&["Output"]).run(
        |arena| {
            let guests = arena.home.census().guests();
            let ran = arena.call_with(&["--json"], &["sh", "-c", flood]).run();
            let peaks = guests.into_iter().filter_map(peak_memory);
            let mut breaches: Breaches = peaks
                .filter(|peak| *peak > GUEST_MEMORY_MAX)
                .map(|peak| format!("the guest took {} MiB", peak / MEBIBYTE))
                .collect();
            let reply = ran.json();
            let length = |name: &str| reply[name].as_str().map_or(0, str::len) as u64;
            let told =
                length("stdout") + length("stderr") + reply["truncation"]["bytes"].as_u64().unwrap_or(0);
            if breaches.is_empty() && told != 100 * MEBIBYTE {
                breaches.push(format!("{told} bytes are accounted for"));
            }
            breaches
        },
    );
}

#[test]
fn rs_08_no_command_runs_before_all_others() {
    let title = "ask for real-time scheduling and for a better priority";
    let walls = &["UserNamespace", "Capabilities"];
    Attack::row(GROUND, "RS-08", title).without(walls).every(&["priority"]).run(|arena| {
        arena.watch(&["python3", "-c", include_str!("payloads/hurry.py")], |process| {
            let fields = || -> Vec<i64> {
                let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
                let numbers = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
                numbers.map(|number| number.parse().unwrap_or(0)).collect()
            };
            // Counted from the state, which follows the name: nice is the 17th, the policy the 39th.
            let better = |fields: &[i64]| fields.get(16).is_some_and(|nice| *nice < 0);
            let first = |fields: &[i64]| fields.get(38).is_some_and(|policy| matches!(policy, 1 | 2));
            eventually(Duration::from_secs(2), || better(&fields()) || first(&fields()));
            let better = better(&fields()).then(|| "has a better priority".to_owned());
            let first = first(&fields()).then(|| "runs before all others".to_owned());
            better.into_iter().chain(first).collect()
        })
    });
}

#[test]
fn rs_09_execs_are_bounded_and_leave_nothing() {
    let title = "start more execs than there may be; start and end many";
    Attack::starred(GROUND, "RS-09", title)
        .by(&[Route::Exec])
        .with(&["--pids", "2000"])
        .without(&["Execs"])
        .run(|arena| {
            let guest = arena.home.census().guests()[0];
            let open = || fs::read_dir(format!("/proc/{guest}/fd")).map_or(0, Iterator::count);
            arena.call(&["false"]).run();
            let before = open();
            (0..count(20, 100_000)).for_each(|_| drop(arena.call(&["false"]).run()));
            let leaked = eventually(SOON, || open() <= before).is_none();
            let mut breaches: Breaches =
                leaked.then(|| "the guest keeps descriptors".to_owned()).into_iter().collect();

            // By one daemon: a process for each would take minutes.
            let daemon = Daemon::start(arena.home);
            let path = format!("/v1/sandboxes/{}/execs", arena.sandbox());
            let request = Request::post(&path, &json!({"cmd": ["sleep", "600"], "stream": true}));
            let detached = |_: &usize| request.send(&daemon.unix()).status == 200;
            let started = (0..RUNNING_MAX + 4).take_while(detached).count();
            breaches.extend((started > RUNNING_MAX).then(|| format!("{started} execs run at once")));
            breaches
        });
}

#[test]
fn rs_11_nothing_lives_past_the_deadline() {
    let title = "descendants in other sessions, deaf, stopped, and forking against the killer";
    Attack::starred(GROUND, "RS-11", title).without(&["Killing"]).run(|arena| {
        let word = format!("lives-on-{}", arena.route.name());
        let flags = ["--timeout", "3s", "--grace", "0"];
        let call =
            arena.call_with(&flags, &["python3", "-c", include_str!("payloads/live_on.py"), &word]).start();
        call.wait_for(|output| output.starts_with(b"started"));
        let dead = eventually(Duration::from_secs(15), || arena.home.census().named(&word).is_empty());
        let left = arena.home.census().named(&word).len();
        call.kill();
        dead.is_none().then(|| format!("{left} processes live on")).into_iter().collect()
    });
}

#[test]
fn rs_15_the_guest_cannot_be_stopped() {
    let title = "stop or kill the guest and its forker";
    Attack::row(GROUND, "RS-15", title)
        .by(&[Route::Exec, Route::Transfer, Route::Terminal])
        .without(&["Capabilities"])
        .run(|arena| {
            let payload = "
import os, signal
for pid in range(1, 64):
    try:
        # Where they cannot be seen, those are the guest and its forker.
        if pid == os.getppid() or pid > 2 and '\\nUid:\\t65535' not in open(f'/proc/{pid}/status').read():
            continue
    except OSError:
        continue
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        try:
            os.kill(pid, number)
        except OSError:
            pass";
            let servants = || -> Vec<u32> {
                let census = arena.home.census();
                census
                    .processes
                    .iter()
                    .filter(|process| is_servant(process))
                    .map(|process| process.pid)
                    .collect()
            };
            let before = servants();
            arena.python(payload, &[]);
            let stopped = |pid: &u32| {
                fs::read_to_string(format!("/proc/{pid}/status"))
                    .map_or(true, |status| status.contains("State:\tT"))
            };
            before
                .iter()
                .filter(|pid| stopped(pid))
                .map(|_| "a servant of the sandbox was stopped".to_owned())
                .collect()
        });
}
