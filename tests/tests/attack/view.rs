//! What a command sees of the machine.

use std::collections::BTreeSet;

use coracle_tests::{Home, requires};

fn lines(home: &Home, script: &str) -> Vec<String> {
    let ran = home.call(["run", "--", "sh", "-c", script]).succeed();
    ran.text().lines().map(str::to_owned).collect()
}

#[test]
fn nothing_of_a_home_directory_is_there() {
    requires!(native);
    let home = Home::new();
    let ours = std::fs::read_dir("/home").into_iter().flatten().flatten();
    let names: Vec<String> = ours.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();

    assert_eq!(lines(&home, "find /root /home ! -type d"), Vec::<String>::new());
    assert_eq!(lines(&home, "ls -A /root"), Vec::<String>::new());
    let theirs = lines(&home, "ls -A /home");
    assert!(theirs.iter().all(|name| !names.contains(name)), "{theirs:?}");
}

#[test]
fn files_of_the_machine_are_not_there() {
    requires!(native);
    let home = Home::new();
    let mut canaries = Vec::new();
    for place in ["/tmp", "/var/tmp", "/opt", "/etc", "/srv", "/run", "/var/lib"] {
        let file = tempfile::Builder::new().prefix("coracle-canary-").tempfile_in(place);
        canaries.extend(file.ok());
    }
    assert!(!canaries.is_empty(), "without canaries this proves nothing");

    for canary in &canaries {
        let path = canary.path().to_string_lossy().into_owned();
        let seen = home.call(["run", "--", "cat", &path]).run();
        assert_ne!(seen.code(), Some(0), "{path} of the machine can be read");
    }
    let anywhere = "find / -xdev -name 'coracle-canary-*' 2>/dev/null || true";
    assert_eq!(lines(&home, anywhere), Vec::<String>::new());
}

#[test]
fn the_secrets_of_the_machine_are_not_there() {
    requires!(native);
    let home = Home::new();
    let script = "for f in /etc/shadow /etc/gshadow /etc/ssh /etc/sudoers /etc/machine-id /var/lib/coracle /boot /var/run/docker.sock; do cat $f/* $f 2>/dev/null; done | wc -c";

    assert_eq!(lines(&home, script), ["0"]);
}

#[test]
fn writing_to_the_system_does_not_reach_the_machine() {
    requires!(native);
    let home = Home::new();
    let name = format!("coracle-canary-{}", std::process::id());
    let script = format!(
        "for d in / /usr /usr/bin /etc /tmp /var/tmp /dev /run; do touch $d/{name} 2>/dev/null; done; rm -f /usr/bin/env /bin/ls; echo done"
    );

    assert_eq!(lines(&home, &script), ["done"]);

    for place in ["", "/usr", "/usr/bin", "/etc", "/tmp", "/var/tmp", "/dev", "/run"] {
        assert!(
            !std::path::Path::new(&format!("{place}/{name}")).exists(),
            "{place} of the machine was written to"
        );
    }
    assert!(std::path::Path::new("/usr/bin/env").exists() && std::path::Path::new("/bin/ls").exists());
}

#[test]
fn only_its_own_processes_are_there() {
    requires!(native);
    let home = Home::new();
    let ours = std::process::id().to_string();

    let script = "for p in /proc/[0-9]*; do echo ${p#/proc/}; done";
    let pids: BTreeSet<String> = lines(&home, script).into_iter().collect();
    let names = lines(&home, "cat /proc/[0-9]*/comm 2>/dev/null");

    assert!(pids.len() <= 6, "{pids:?}");
    assert!(!pids.contains(&ours) || ours.len() < 3, "{pids:?}");
    assert!(
        names.iter().all(|name| ["sh", "cat"].contains(&name.as_str()) || !name.contains("attack")),
        "{names:?}"
    );
}

#[test]
fn the_only_interface_is_loopback() {
    requires!(native);
    let home = Home::new();

    let interfaces = lines(&home, "sed -n 's/^ *\\([^:]*\\):.*/\\1/p' /proc/net/dev");
    let routes = lines(&home, "tail -n +2 /proc/net/route");

    assert_eq!(interfaces, ["lo"]);
    assert_eq!(routes, Vec::<String>::new());
}

#[test]
fn loopback_works_and_leads_nowhere_else() {
    requires!(native);
    let home = Home::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let dial = format!("import socket; socket.create_connection(('127.0.0.1', {port}), 2)");
    let own = "
import socket
server = socket.socket(); server.bind(('127.0.0.1', 0)); server.listen()
socket.create_connection(server.getsockname(), 2); print('own loopback')";

    let reached = home.call(["run", "--", "python3", "-c", &dial]).run();
    let own = home.call(["run", "--", "python3", "-c", own]).succeed();

    assert_ne!(reached.code(), Some(0), "the machine's loopback can be reached");
    assert_eq!(own.text(), "own loopback\n");
}
