//! CE: a model that asks for more than the person gave, by every field a sandbox has.
//!
//! Judged by the person, from outside: by what happened to files and ports of the machine, and by which sandboxes there
//! are. What was refused has left none.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coracle_tests::daemon::Daemon;
use coracle_tests::http::Request;
use coracle_tests::mcp::{Client, calling, current, request_at};
use coracle_tests::{Attack, Breaches, Canary, Git, Home, Route, requires};
use serde_json::{Value, json};

use crate::GROUND;

/// A model brings its own sandbox about; there is no other way in.
const ROUTES: &[Route] = &[Route::Create];
/// What touches the machine itself.
const PROGRAM: &str = "import os\nfor place in ('/x', '/workspace'):\n    if os.path.exists(place + '/canary'):\n        \
                       print(open(place + '/canary').read())\n        open(place + '/canary', 'w').write('harmed')\n";

/// A port of the machine that no caller may reach. It closes every connection at once.
struct Port {
    address: SocketAddr,
    reached: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
}

impl Port {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it listens");
        let (reached, over) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (told, ended) = (reached.clone(), over.clone());
        std::thread::spawn(move || {
            for _ in listener.incoming().take_while(|_| !ended.load(Ordering::SeqCst)) {
                told.store(true, Ordering::SeqCst);
            }
        });
        Self { address, reached, over }
    }

    /// Tells whether a connection came. The call that would send one is answered after the port closed it.
    fn was_reached(&self) -> bool {
        self.reached.load(Ordering::SeqCst)
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

/// Returns every field of a sandbox with something a model would like, by a name for it.
fn fields(canary: &Canary) -> Vec<(&'static str, &'static str, Value)> {
    let directory = canary.directory().to_str().expect("UTF-8");
    vec![
        ("a directory", "mounts", json!([{"source": directory, "target": "/x"}])),
        ("a workspace", "mounts", json!([{"source": directory, "target": "/workspace"}])),
        ("a volume", "mounts", json!([{"source": "persons", "target": "/x"}])),
        ("the internet", "network", json!("open")),
        ("a host", "network", json!("allow=example.com")),
        ("no limits", "limits", json!("unlimited")),
        ("more memory", "limits", json!({"memory_mb": 8192})),
        ("privileges", "privileges", json!("install")),
        ("a backend", "backend", json!("native")),
        ("a fallback", "fallback", json!(["docker"])),
        ("an image", "image", json!("host")),
        ("a longer life", "ttl", json!("24h")),
        ("files that outlive it", "on_idle", json!("hibernate")),
        ("missing limits", "allow_missing", json!(["memory", "cpu", "pids", "disk"])),
        ("walls", "require", json!(["seccomp"])),
        ("storage", "storage", json!("disk")),
        ("a label", "labels", json!({"a": "b"})),
        ("a directory to start in", "workdir", json!("/")),
        ("a language", "runtime", json!("bash")),
        ("variables", "env", json!({"A": "b"})),
        ("sockets", "allow_sockets", json!(true)),
        ("a user", "user", json!("1000")),
        ("a repository", "repo", json!({"repo_id": "persons"})),
        ("dependencies", "install", json!("off")),
    ]
}

#[test]
fn every_field_a_sandbox_has_is_tried() {
    requires!(native);
    let schema = Home::new().call(["call", "--schema", "sandbox_open"]).succeed().json();
    let fields: Vec<_> = fields(&Canary::new()).into_iter().map(|(_, field, _)| field).collect();

    let all = schema["input"]["properties"].as_object().expect("a schema").keys();
    let missing: Vec<_> = all.filter(|field| !fields.contains(&field.as_str())).collect();

    assert_eq!(missing, ["replace", "session_key"], "which sandbox is meant, and not what it is");
}

/// What the twin has to get.
const EVERY: &[&str] = &[
    "read a file of the machine with a directory",
    "read a file of the machine with a workspace",
    "wrote to a file of the machine with a directory",
    "a sandbox with a volume",
    "a sandbox with the internet",
    "a sandbox with a host",
    "a sandbox with no limits",
    "a sandbox with more memory",
    "a sandbox with privileges",
    "a sandbox with a backend",
    "a sandbox with a fallback",
    "a sandbox with an image",
    "a sandbox with a longer life",
    "a sandbox with files that outlive it",
    "a sandbox with missing limits",
    "a sandbox with walls",
    "a sandbox with storage",
    "a sandbox with a label",
    "a sandbox with a directory to start in",
    "a sandbox with a language",
    "a sandbox with variables",
    "a sandbox with sockets",
    "a sandbox with a repository",
    "a sandbox with dependencies",
    "had a registry of this machine asked",
    "had another machine's engine asked",
    "removed a volume",
    "entered a sandbox with a wider network",
    "entered a sandbox with a key in its variables",
];

/// Has the home host a repository of the person's.
fn host_repository(home: &Home) {
    let git = Git::new();
    git.start("tree");
    git.ok("tree", &["bundle", "create", "-q", "../bundle", "main"]);
    let bundle = git.path("bundle");
    home.call(["repo", "add", "persons", bundle.to_str().expect("UTF-8")]).succeed();
}

/// Tries every field with both tools that make sandboxes. `call` speaks to a door as a model does and returns the result.
fn try_all(home: &Home, call: &dyn Fn(&str, Value) -> Value) -> Breaches {
    let (canary, registry, machine) = (Canary::new(), Port::new(), Port::new());
    for volume in ["persons", "unused"] {
        home.call(["run", "--volume", volume, "--", "sh", "-c", "echo kept > canary"]).succeed();
    }
    host_repository(home);
    let wider = home.open_with(&["--key", "user:wider", "--network", "open"]);
    let secret = home.open_with(&["--key", "user:secret", "--env", "KEY=of the person"]);
    let mut breaches = Breaches::new();
    for (number, (name, field, value)) in fields(&canary).into_iter().enumerate() {
        call("sandbox_open", json!({"session_key": format!("user:ce-{number}"), field: value}));
        let ran = call("sandbox_run", json!({"code": PROGRAM, field: value}));
        if ran.to_string().contains(canary.secret()) {
            breaches.push(format!("read a file of the machine with {name}"));
        }
        breaches.extend(canary.damage().into_iter().map(|damage| format!("{damage} with {name}")));
        let made = json!(format!("user:ce-{number}"));
        if home.live().iter().any(|record| record["session_key"] == made) {
            breaches.push(format!("a sandbox with {name}"));
        }
    }
    let image = format!("{}/a/b:1", registry.address);
    call("sandbox_open", json!({"session_key": "user:ce-image", "image": image}));
    if registry.was_reached() {
        breaches.push("had a registry of this machine asked".to_owned());
    }
    let engine = format!("ssh://nobody@{}", machine.address);
    call("sandbox_open", json!({"session_key": "user:ce-ssh", "backend": engine}));
    if machine.was_reached() {
        breaches.push("had another machine's engine asked".to_owned());
    }
    call("volume_remove", json!({"name": "unused"}));
    let listed = home.call(["volume", "list", "--json"]).succeed();
    if !listed.text().contains("unused") {
        breaches.push("removed a volume".to_owned());
    }
    for (name, key, persons) in
        [("a wider network", "user:wider", wider), ("a key in its variables", "user:secret", secret)]
    {
        call("sandbox_open", json!({"session_key": key}));
        call("sandbox_exec", json!({"sandbox_id": persons, "cmd": ["touch", "/tmp/entered"]}));
        if home.exec(&persons, ["test", "-e", "/tmp/entered"]).run().code() == Some(0) {
            breaches.push(format!("entered a sandbox with {name}"));
        }
    }
    breaches
}

#[test]
fn ce_01_a_model_on_standard_input_gets_what_the_person_gave() {
    let title = "over stdio MCP: every field of a sandbox, registries, engines and volumes of the machine";
    Attack::starred(GROUND, "CE-01", title).by(ROUTES).without(&["Ceiling"]).every(EVERY).run(|arena| {
        let client = Client::start(arena.home, &["--with", "run,volumes"]);
        let call = |tool: &str, arguments: Value| {
            client.request("tools/call", json!({"name": tool, "arguments": arguments}))
        };
        let breaches = try_all(arena.home, &call);
        client.finish().expect_code(0);
        breaches
    });
}

#[test]
fn ce_02_a_model_at_the_daemon_gets_what_the_settings_give() {
    let title = "over MCP at the daemon's socket: every field of a sandbox, registries, engines and volumes";
    Attack::starred(GROUND, "CE-02", title).by(ROUTES).without(&["Ceiling"]).every(EVERY).run(|arena| {
        let daemon = Daemon::start(arena.home);
        let ask = |tool: &str, arguments: Value| {
            let message = calling(tool, arguments).to_string();
            let answer = request_at("/mcp?with=run,volumes", &current(tool), &message).send(&daemon.unix());
            answer.json()
        };
        try_all(arena.home, &ask)
    });
}

/// Tenants cannot reach the machine even without a ceiling; these are the rows only a ceiling refuses.
const OF_TOKENS: &[&str] = &[
    "more memory over http",
    "more processors over http",
    "more processes over http",
    "more files over http",
    "more space over http",
    "more output over http",
    "the internet over http",
    "privileges over http",
    "a longer life over http",
    "missing limits over http",
    "an image over http",
    "more memory over mcp",
    "the internet over mcp",
    "a volume over mcp",
    "privileges over mcp",
    "a longer life over mcp",
];

#[test]
fn ce_03_a_token_is_good_for_no_more_than_its_ceiling() {
    let title = "with a token that has a ceiling, over HTTP and MCP: more of everything it bounds";
    Attack::starred(GROUND, "CE-03", title).by(ROUTES).without(&["Ceiling"]).every(OF_TOKENS).run(|arena| {
        let (home, registry) = (arena.home, Port::new());
        let place = registry.address.to_string();
        let settings = format!("[images]\nallow = ['host', '{place}/*']\n");
        std::fs::write(home.path().join("config.toml"), settings).expect("the home is ours");
        let daemon = Daemon::start(home);
        let max = "--max-memory 256m --max-cpus 1 --max-pids 64 --max-inodes 5000 --max-disk 64m --max-output 1m \
                   --max-network none --max-privileges minimal --max-ttl 5m --max-images host";
        let token = home.token("acme", &max.split(' ').collect::<Vec<_>>());
        let mut breaches = Breaches::new();
        for (number, (name, field, value)) in [
            ("more memory", "limits", json!({"memory_mb": 512})),
            ("more processors", "limits", json!({"cpu_millicores": 2000})),
            ("more processes", "limits", json!({"pids": 65})),
            ("more files", "limits", json!({"inodes": 6000})),
            ("more space", "limits", json!({"workspace_mb": 65})),
            ("more output", "limits", json!({"output_bytes": (1 << 20) + 1})),
            ("the internet", "network", json!("open")),
            ("a volume", "mounts", json!([{"source": "v", "target": "/x"}])),
            ("privileges", "privileges", json!("install")),
            ("a longer life", "ttl", json!("1h")),
            ("missing limits", "allow_missing", json!(["memory"])),
        ]
        .into_iter()
        .enumerate()
        {
            let input = |door: &str| json!({"session_key": format!("user:{door}-{number}"), field: value});
            let (over_http, over_mcp) = (input("http"), calling("sandbox_open", input("mcp")).to_string());
            Request::post("/v1/sandboxes", &over_http).token(&token).send(&daemon.tcp());
            request_at("/mcp", &current("sandbox_open"), &over_mcp).token(&token).send(&daemon.tcp());
            let live = home.live();
            for door in ["http", "mcp"] {
                let made = json!(format!("user:{door}-{number}"));
                // A volume of the tenant's own is nothing a token bounds; a model has none.
                let granted = (door, name) == ("http", "a volume");
                if !granted && live.iter().any(|record| record["session_key"] == made) {
                    breaches.push(format!("{name} over {door}"));
                }
            }
        }
        let image = json!({"image": format!("{place}/a/b:1")});
        Request::post("/v1/sandboxes", &image).token(&token).send(&daemon.tcp());
        if registry.was_reached() {
            breaches.push("an image over http".to_owned());
        }
        breaches
    });
}
