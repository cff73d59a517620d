//! What a command finds around it.

use serde_json::json;

use crate::parity::stage::Stage;

pub fn play(stage: &mut Stage) {
    let sandbox = stage.open(&[]);
    let scripts = [
        "env | sort",
        "id; umask; pwd",
        "ls -ld / /workspace /tmp /root /home/worker /dev/shm | awk '{print $1, $3, $4, $NF}'",
        "grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups|Sig(Ign|Blk))' /proc/self/status",
        "ulimit -c; ulimit -n",
        "ls /sys/class/net; ip -o link | wc -l",
        "cat /etc/hosts; cat /etc/resolv.conf 2>&1",
        "hostname",
        "cat /proc/sys/kernel/ngroups_max; ls /dev | sort | tr '\\n' ' '",
        "for d in /workspace /tmp /var/tmp /root /etc /usr /dev/shm /opt; do touch $d/f 2>/dev/null && echo $d; done",
        "echo x > /proc/sys/kernel/hostname",
        "mkdir -p /usr/local/bin && printf '#!/bin/sh\\necho mine\\n' > /usr/local/bin/own && chmod +x /usr/local/bin/own && own",
        "mknod /tmp/null c 1 3",
        "chown worker /workspace; su worker -c id",
        "mount -t tmpfs none /tmp",
        "exec ls /proc/self/fd",
        "ls /proc | grep -c '^1$'",
        "kill -9 1; echo $?",
        "date -s 2020-01-01 >/dev/null",
        "nc 127.0.0.1 1; echo $?",
        "nc -w 1 192.0.2.1 80; echo $?",
        "ip route | wc -l",
        "stat -c %u:%g /workspace /tmp /etc/passwd",
        "readlink /proc/self/cwd /proc/self/exe",
        "test -t 0; echo $?; test -t 1; echo $?",
        "ls -l /.coracle 2>&1; cat /.coracle/guest 2>&1 | wc -c",
    ];
    for script in scripts {
        stage.shell(&sandbox, script);
    }
    for user in ["worker", "1000", "1000:1000", "nobody", "0", "65534:0", "stranger", "4242", ""] {
        stage.exec(&sandbox, &["sh", "-c", "id; pwd; echo $HOME $USER; umask"], json!({"user": user}));
    }
    for directory in ["/", "/tmp", "made/../made", "relative", "/none", "/etc/passwd", "/root"] {
        stage.exec(&sandbox, &["pwd"], json!({"cwd": directory}));
    }
    stage.exec(&sandbox, &["pwd"], json!({"cwd": "/root", "user": "worker"}));
    stage.exec(&sandbox, &["sh", "-c", "env | sort"], json!({"env": {"PATH": "/bin", "A": "a b", "Ü": "ü"}}));
    stage.exec(&sandbox, &["sh", "-c", "echo $TOKEN | wc -c"], json!({"secrets": {"TOKEN": "0123456789"}}));
    stage.call(&["close", &sandbox, "--json"]);
}
