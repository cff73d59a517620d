//! A sandbox with a list of hosts reaches those with the clients people use, and nothing else; denials name the refused hosts.

use coracle_tests::internet::{BANNER, Internet, wires};
use coracle_tests::{Home, requires};
use serde_json::{Value, json};

/// Everything a client sent that was to arrive at the allowed host alone.
const OF_OK: [&str; 3] = [wires::NAME_SERVER, wires::OK, wires::OK_SIX];
const NONE: [&str; 0] = [];

/// Runs a command in a sandbox and expects what it prints.
#[track_caller]
fn expect(home: &Home, sandbox: &str, command: &[&str], printed: &str) {
    let ran = home.exec(sandbox, command.iter().copied()).succeed();
    assert_eq!(ran.text(), printed, "{command:?}: {ran}");
}

#[test]
fn clients_of_the_web_reach_an_allowed_host() {
    requires!(internet);
    let net = Internet::new();
    let home = net.home();
    let sandbox = home.open_with(&["--network", "allow=ok.test"]);
    home.call(["fs", "write", &sandbox, "authority.pem"]).stdin(net.web.authority()).succeed();
    let urllib = "import urllib.request; print(urllib.request.urlopen('http://ok.test/hello').read().decode(), end='')";
    let direct = "import urllib.request as u; u.install_opener(u.build_opener(u.ProxyHandler({}))); \
                  print(u.urlopen('http://ok.test/hello').read().decode(), end='')";

    for proxy in [&[][..], &["--noproxy", "*"], &["--socks5-hostname", "127.0.0.1:3128"]] {
        let curl = [&["curl", "--silent", "--show-error"], proxy].concat();
        expect(&home, &sandbox, &[&curl[..], &["http://ok.test/hello"]].concat(), "hello from ok.test\n");
        let secure = [&curl[..], &["--cacert", "authority.pem", "https://ok.test/hello"]].concat();
        expect(&home, &sandbox, &secure, "hello from ok.test\n");
    }
    expect(&home, &sandbox, &["python3", "-c", urllib], "hello from ok.test\n");
    expect(&home, &sandbox, &["python3", "-c", direct], "hello from ok.test\n");
    if std::path::Path::new("/usr/bin/node").exists() {
        let fetch = "fetch('http://ok.test/hello').then(r => r.text()).then(t => process.stdout.write(t))";
        expect(&home, &sandbox, &["node", "-e", fetch], "hello from ok.test\n");
    }

    assert_eq!(net.strays(&OF_OK), NONE);
    assert_eq!(net.curiosity(&["ok.test"]), NONE);
}

#[test]
fn pip_and_git_reach_an_allowed_host() {
    requires!(internet);
    let net = Internet::new();
    let home = net.home();
    let sandbox = home.open_with(&["--network", "allow=ok.test"]);
    let index = ["--index-url", "http://ok.test/simple", "--trusted-host", "ok.test", "--no-cache-dir"];
    let install =
        [&["python3", "-m", "pip", "install", "--quiet", "--target", "packages"], &index[..], &["small"]];

    home.exec(&sandbox, install.concat()).succeed();
    home.exec(&sandbox, ["git", "clone", "--quiet", "http://ok.test/repository.git", "clone"]).succeed();
    let around = ["env", "-u", "http_proxy", "-u", "all_proxy", "-u", "HTTP_PROXY", "-u", "ALL_PROXY"];
    let again = ["git", "clone", "--quiet", "http://ok.test/repository.git", "again"];
    home.exec(&sandbox, [&around[..], &again].concat()).succeed();

    let use_it =
        ["python3", "-c", "import sys; sys.path.insert(0, 'packages'); import small; print(small.WHERE)"];
    expect(&home, &sandbox, &use_it, "from the internet\n");
    expect(
        &home,
        &sandbox,
        &["cat", "clone/README", "again/README"],
        "from the internet\nfrom the internet\n",
    );
    assert_eq!(net.strays(&OF_OK), NONE);
    assert_eq!(net.curiosity(&["ok.test"]), NONE);
}

#[test]
fn clients_that_know_no_proxy_reach_a_host_and_its_port() {
    requires!(internet);
    let net = Internet::new();
    let home = net.home();
    let sandbox = home.open_with(&["--network", "allow=db.test:5432,ok.test:2222"]);
    let database = "
import socket
stream = socket.create_connection(('db.test', 5432)).makefile('rw')
for line in ('select', 'insert'):
    stream.write(line + '\\n'); stream.flush(); print(stream.readline(), end='')";
    let greeting = "
import socket
stream = socket.create_connection(('ok.test', 2222)); lines = stream.makefile()
print(lines.readline(), end='')
stream.sendall(b'hello\\n'); stream.shutdown(socket.SHUT_WR)
print(lines.read(), end='')";

    expect(&home, &sandbox, &["python3", "-c", database], "you said select\nyou said insert\n");
    expect(&home, &sandbox, &["python3", "-c", greeting], &format!("{BANNER}\nyou said hello\n"));

    // The port is part of what was allowed.
    let web =
        home.exec(&sandbox, ["curl", "--silent", "--show-error", "--fail", "http://ok.test/hello"]).run();
    assert_ne!(web.code(), Some(0), "{web}");
    assert_eq!(net.strays(&[wires::NAME_SERVER, wires::DATABASE, wires::OK, wires::OK_SIX]), NONE);
    assert!(net.web.visits().is_empty());
}

/// Returns the denials of a result.
fn denied(result: &Value) -> Vec<Value> {
    result["egress_denied"].as_array().cloned().unwrap_or_default()
}

#[test]
fn what_is_refused_is_named_in_the_result() {
    requires!(internet);
    let net = Internet::new();
    let home = net.home();
    let curl = |flags: &[&str], address: &str| {
        let words =
            [&["run", "--json", "--network", "allow=ok.test", "--", "curl", "--silent"], flags, &[address]];
        home.call(words.concat()).run().json()
    };

    let by_proxy = curl(&["--fail"], "http://evil.test/hello");
    let secure = curl(&["--fail"], "https://evil.test:8443/hello");
    let socks = curl(&["--proxy", "socks5h://127.0.0.1:3128"], "http://evil.test/hello");
    let address = curl(&["--fail"], "http://93.184.216.66/hello");
    let allowed = curl(&["--fail"], "http://ok.test/hello");

    let evil = |host: &str, port: u16| json!({"host": host, "port": port, "reason": "not_allowed"});
    assert_eq!(denied(&by_proxy), [evil("evil.test", 80)], "{by_proxy}");
    assert_eq!(denied(&secure), [evil("evil.test", 8443)], "{secure}");
    assert_eq!(denied(&socks), [evil("evil.test", 80)], "{socks}");
    assert_eq!(denied(&address), [evil("93.184.216.66", 80)], "{address}");
    assert!(allowed.get("egress_denied").is_none() && allowed["exit_code"] == 0, "{allowed}");
    assert_eq!(net.strays(&OF_OK), NONE);
    assert_eq!(net.curiosity(&["ok.test"]), NONE, "a name that is not allowed is not looked up");
}

#[test]
fn denials_are_kept_and_shown_and_said_to_people() {
    requires!(internet);
    let net = Internet::new();
    let home = net.home();
    let sandbox = home.open_with(&["--network", "allow=ok.test"]);

    let ran = home.exec(&sandbox, ["curl", "--silent", "http://evil.test/hello"]).run();
    let shown = home.call(["show", &sandbox]).succeed();
    let next = home.call(["exec", "--json", &sandbox, "--", "true"]).succeed().json();

    assert!(ran.stderr.contains("evil.test"), "a person is told on stderr: {ran}");
    assert!(
        ran.text().contains("evil.test") && ran.text().contains("allow"),
        "the body says how to allow it: {ran}"
    );
    assert!(shown.text().contains("evil.test") && shown.text().contains("allow=ok.test"), "{shown}");
    assert!(next.get("egress_denied").is_none(), "another command's denials are not this one's: {next}");
}

#[test]
fn a_wildcard_is_about_names_below_it() {
    requires!(internet);
    let net = Internet::new();
    let home = net.home();
    let sandbox = home.open_with(&["--network", "allow=*.ok.test"]);
    let curl = |host: &str| {
        let address = format!("http://{host}/hello");
        home.exec(&sandbox, ["curl", "--silent", "--fail", &address]).run().code()
    };

    assert_eq!([curl("a.ok.test"), curl("A.OK.test.")], [Some(0); 2]);
    assert!(
        [curl("ok.test"), curl("notok.test"), curl("a.ok.test.evil.test")]
            .iter()
            .all(|code| *code != Some(0))
    );
    assert_eq!(net.curiosity(&["a.ok.test"]), NONE);
}

#[test]
fn bodies_and_upgrades_pass() {
    requires!(internet);
    let net = Internet::new();
    let home = net.home();
    let sandbox = home.open_with(&["--network", "allow=ok.test"]);
    let upgrade = "
import socket
stream = socket.create_connection(('ok.test', 80)); lines = stream.makefile('rb')
stream.sendall(b'GET /upgrade HTTP/1.1\\r\\nHost: ok.test\\r\\nConnection: Upgrade\\r\\nUpgrade: echo\\r\\n\\r\\n')
while lines.readline() not in (b'\\r\\n', b''): pass
stream.sendall(b'there and back\\n')
print(lines.readline().decode(), end='')";
    let chunks = "seq 1 20000 | curl --silent --show-error --header 'Transfer-Encoding: chunked' --data-binary @- http://ok.test/echo | tail -n 1";
    let length =
        "seq 1 20000 > body; curl --silent --show-error --data-binary @body http://ok.test/echo | tail -n 1";

    expect(&home, &sandbox, &["sh", "-c", chunks], "20000\n");
    expect(&home, &sandbox, &["sh", "-c", length], "20000\n");
    expect(&home, &sandbox, &["python3", "-c", upgrade], "there and back\n");
}

#[test]
fn an_ordinary_user_gets_the_same() {
    requires!(internet);
    let net = Internet::new();
    let home = net.ordinary_home();
    let sandbox = home.open_with(&["--network", "allow=ok.test,db.test:5432"]);
    let database = "
import socket
stream = socket.create_connection(('db.test', 5432)).makefile('rw')
stream.write('select\\n'); stream.flush(); print(stream.readline(), end='')";

    expect(&home, &sandbox, &["curl", "--silent", "http://ok.test/hello"], "hello from ok.test\n");
    expect(
        &home,
        &sandbox,
        &["curl", "--silent", "--noproxy", "*", "http://ok.test/hello"],
        "hello from ok.test\n",
    );
    expect(&home, &sandbox, &["python3", "-c", database], "you said select\n");
    let refused = home.exec(&sandbox, ["curl", "--silent", "--fail", "http://evil.test/hello"]).run();

    assert_ne!(refused.code(), Some(0), "{refused}");
    assert_eq!(net.strays(&[wires::NAME_SERVER, wires::OK, wires::OK_SIX, wires::DATABASE]), NONE);
}

#[test]
fn the_network_goes_with_the_sandbox_to_another_run() {
    requires!(internet);
    let net = Internet::new();
    let home = net.home();
    let sandbox = home.open_with(&["--network", "allow=ok.test"]);
    home.call(["transfer", &sandbox, "--to", "heir"]).succeed();

    let curl = ["exec", &sandbox, "--run", "heir", "--", "curl", "--silent", "http://ok.test/hello"];

    assert_eq!(home.call(curl).succeed().text(), "hello from ok.test\n");
}

#[test]
fn a_hostile_name_does_not_speak_to_the_terminal() {
    requires!(internet);
    let net = Internet::new();
    let home = net.home();
    let ask = "
import socket
stream = socket.create_connection(('127.0.0.1', 3128))
stream.sendall(b'\\x05\\x01\\0'); stream.recv(16)
name = b'\\x1b]0;owned\\x07\\r\\n\\xff' * 12
stream.sendall(b'\\x05\\x01\\0\\x03' + bytes([len(name)]) + name + b'\\0\\x50'); stream.recv(16)";
    let sandbox = home.open_with(&["--network", "allow=ok.test"]);

    let ran = home.exec(&sandbox, ["python3", "-c", ask]).succeed();
    let shown = home.call(["show", &sandbox]).succeed();

    for text in [&ran.stderr, shown.text()] {
        assert!(text.contains("owned"), "it is named: {text}");
        let raw = text.chars().filter(|character| character.is_control() && *character != '\n').count();
        assert_eq!(raw, 0, "{text:?}");
    }
}

#[test]
fn a_name_with_a_private_address_among_others_is_reached_at_the_others() {
    requires!(internet);
    let net = Internet::new();
    net.names.say("part.test", &["10.0.0.5", wires::OK, "169.254.169.254"]);
    let home = net.home();

    let ran = home.call([
        "run",
        "--network",
        "allow=part.test",
        "--",
        "curl",
        "--silent",
        "http://part.test/hello",
    ]);

    assert_eq!(ran.succeed().text(), "hello from part.test\n");
    assert_eq!(net.strays(&OF_OK), NONE);
}

#[test]
fn what_was_said_under_a_wider_network_ends_with_it() {
    requires!(internet);
    let net = Internet::new();
    let home = net.home();
    let sandbox = home.open_with(&["--network", "open"]);
    // Neither is HTTP to that host, which is all that is allowed later.
    let held = "
import os, socket, time
streams = []
for first in (b'GET /upgrade HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n', b'GET /upgrade HTTP/1.1\\r\\n\\r\\n'):
    stream = socket.create_connection(('127.0.0.1', 3128), 5)
    stream.sendall(b'CONNECT ok.test:80 HTTP/1.1\\r\\nHost: ok.test:80\\r\\n\\r\\n'); stream.recv(4096)
    stream.sendall(first); stream.recv(4096); streams.append(stream)
print('connected', flush=True)
while not os.path.exists('/workspace/narrowed'): time.sleep(0.01)
for stream in streams:
    stream.settimeout(5)
    try:
        stream.sendall(b'after\\n')
        if stream.recv(4096): print('still there')
    except OSError: pass";
    let client = home.exec(&sandbox, ["python3", "-c", held]).start();
    client.wait_for(|output| output.starts_with(b"connected"));

    home.call(["network", &sandbox, "allow=ok.test"]).succeed();
    home.exec(&sandbox, ["touch", "/workspace/narrowed"]).succeed();

    assert_eq!(client.finish().text(), "connected\n");
}
