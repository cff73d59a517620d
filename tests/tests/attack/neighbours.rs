//! Two sandboxes share nothing.

use coracle_tests::{SOON, eventually, needs};

use crate::GROUND;

#[test]
fn neither_files_nor_processes_nor_sockets_are_shared() {
    if !needs::met(GROUND.name()) {
        return;
    }
    let home = GROUND.home();
    let (left, right) = (home.open(), home.open());
    let serve = "
import socket, time
for name in ('\\0abstract-canary', '/tmp/canary.sock'):
    server = socket.socket(socket.AF_UNIX); server.bind(name); server.listen()
    globals()[name] = server
tcp = socket.socket(); tcp.bind(('127.0.0.1', 7777)); tcp.listen()
open('/tmp/canary', 'w').write('left'); open('/dev/shm/canary', 'w').write('left'); open('/workspace/canary', 'w').write('left')
print('up', flush=True)
time.sleep(600)";
    let look = "
import os, socket
for name in ('\\0abstract-canary', '/tmp/canary.sock'):
    try:
        socket.socket(socket.AF_UNIX).connect(name); print('connected', repr(name))
    except OSError: pass
try:
    socket.create_connection(('127.0.0.1', 7777), 1); print('connected tcp')
except OSError: pass
for path in ('/tmp/canary', '/dev/shm/canary', '/workspace/canary'):
    if os.path.exists(path): print('found', path)
for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
        if b'left-' + b'canary' in open(f'/proc/{pid}/cmdline', 'rb').read(): print('sees', pid)
    except OSError: pass";
    home.call(["exec", &left, "--detach", "--id", "serve", "--", "python3", "-c", serve, "left-canary"])
        .succeed();
    let up = eventually(SOON, || home.call(["logs", &left, "serve"]).succeed().text() == "up\n");
    assert!(up.is_some());

    let itself = home.exec(&left, ["python3", "-c", look]).succeed();
    let other = home.exec(&right, ["python3", "-c", look]).succeed();

    assert!(itself.text().lines().count() >= 6, "in its own sandbox all of it is there: {itself}");
    assert_eq!(other.text(), "");
}
