//! What one user leaves behind does not reach the next: every spare is used once, and nothing of it again.

use coracle::{Coracle, SpecInput, run};
use coracle_core::spec::Storage;
use coracle_tests::{Home, count, requires};

use super::{await_spare, library};

/// Leaves something in every place that could outlive a command: files, shared memory, message queues, the host name,
/// abstract and other sockets, connections that linger, a process, limits, terminals.
const TAINT: &str = r#"
import os, socket, subprocess, ctypes, time
for path in ["/tmp/taint", "/workspace/taint", "/dev/shm/taint", "/usr/local/bin/taint", "/etc/taint", "/var/tmp/taint"]:
    try: open(path, "w").write("taint")
    except OSError: pass
libc = ctypes.CDLL(None)
libc.shmget(4242, 4096, 0o1666)
libc.msgget(4242, 0o1666)
libc.semget(4242, 1, 0o1666)
server = socket.socket(); server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", 4242)); server.listen()
client = socket.create_connection(("127.0.0.1", 4242)); peer, _ = server.accept()
client.close(); peer.close()
stay = "import socket, time; s = socket.socket(socket.AF_UNIX); s.bind('\\0taint'); s.listen(); time.sleep(600)"
subprocess.Popen(["python3", "-c", stay], start_new_session=True)
while b"@taint" not in open("/proc/net/unix", "rb").read(): time.sleep(0.01)
try: os.symlink("/taint", "/workspace/main.py.taint")
except OSError: pass
print("tainted")
"#;

/// Prints every trace of it.
const LOOK: &str = r#"
import ctypes, os, socket
found = []
for root in ["/tmp", "/workspace", "/dev/shm", "/usr/local/bin", "/etc", "/var/tmp"]:
    for name in os.listdir(root):
        if "taint" in name: found.append(f"{root}/{name}")
libc = ctypes.CDLL(None)
for call in ["shmget", "msgget"]:
    args = (4242, 4096, 0) if call == "shmget" else (4242, 0)
    if getattr(libc, call)(*args) >= 0: found.append(call)
if libc.semget(4242, 1, 0) >= 0: found.append("semget")
if b"@taint" in open("/proc/net/unix", "rb").read(): found.append("abstract socket")
if ":1092" in open("/proc/net/tcp").read(): found.append("lingering connection")
counters = open("/proc/net/snmp").read().splitlines()
tcp = dict(zip(*[line.split()[1:] for line in counters if line.startswith("Tcp:")]))
if tcp["ActiveOpens"] != "0": found.append("counters of the network")
for pid in os.listdir("/proc"):
    try:
        if pid.isdigit() and "taint" in open(f"/proc/{pid}/cmdline").read() and int(pid) != os.getpid(): found.append("process")
    except OSError: pass
print(sorted(set(found)))
"#;

fn run_python(coracle: &Coracle, code: &str) -> String {
    let cmd = ["python3", "-c", code].map(str::to_owned).into();
    let input = run::Input { cmd: Some(cmd), ..run::Input::default() };
    serde_json::to_value(coracle.run(input).expect("it runs")).expect("it is JSON")["stdout"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn nothing_a_user_leaves_reaches_the_next() {
    requires!(native);
    let home = Home::new();
    let coracle = library(&home);

    for _ in 0..count(10, 100) {
        assert_eq!(run_python(&coracle, TAINT), "tainted\n");
        await_spare(&coracle);
        assert_eq!(run_python(&coracle, LOOK), "[]\n");
    }
}

/// The twin: a pool that gives a used sandbox out again. Everything is found there, so the look above is a real one.
#[test]
fn a_sandbox_that_is_used_twice_would_show_it() {
    requires!(native);
    let home = Home::new();
    let coracle = library(&home);
    let spec = SpecInput { storage: Some(Storage::Memory), ..SpecInput::default() };
    let sandbox = coracle.create(spec).expect("a sandbox");

    let taint = coracle::Command::new("python3").args(["-c", TAINT]).keep_background();
    sandbox.exec(taint).expect("it runs");
    let seen = sandbox.exec(["python3", "-c", LOOK]).expect("it runs");

    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    for trace in [
        "/tmp/taint",
        "/workspace/taint",
        "/dev/shm/taint",
        "shmget",
        "msgget",
        "semget",
        "abstract socket",
        "lingering",
        "counters",
        "process",
    ] {
        assert!(seen.contains(trace), "{trace} is not in {seen}");
    }
    sandbox.close().expect("closed");
}
