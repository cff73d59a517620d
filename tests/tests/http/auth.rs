//! Authentication: every route with every kind of token, and what tenants learn of each other.

use coracle_tests::http::{Answer, DaemonAddress, Request};
use coracle_tests::{Daemon, Home, requires};
use serde_json::{Map, Value, json};

/// An id of the right form that no sandbox ever had.
const NEVER: &str = "sbx_00000000000000000000000000";

/// One thing that is served.
#[derive(Debug, Clone)]
struct Route {
    name: String,
    method: String,
    path: String,
    body: Option<Value>,
    query: String,
    is_public: bool,
}

impl Route {
    fn about(&self, sandbox: &str) -> Request {
        let path = self
            .path
            .replace("{sandbox_id}", sandbox)
            .replace("{exec_id}", "exec_1")
            .replace("{name}", "none")
            .replace("{repo}", "none");
        let request = Request::new(&self.method, &format!("{path}{}", self.query));
        match &self.body {
            Some(body) => request.header("Content-Type", "application/json").body(body.to_string()),
            None => request,
        }
    }

    fn is_about_a_sandbox(&self) -> bool {
        self.path.contains("{sandbox_id}")
    }

    /// Tells whether it can be asked for without being a WebSocket's client.
    fn is_plain(&self) -> bool {
        !self.path.ends_with("/attach")
    }
}

/// Reads the routes from what the daemon says of itself.
fn routes(daemon: &Daemon) -> Vec<Route> {
    let document = Request::get("/openapi.json").send(&daemon.unix()).expect(200).json();
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, described) in methods.as_object().expect("methods") {
            routes.push(Route {
                name: described["operationId"].as_str().expect("a name").to_owned(),
                method: method.to_uppercase(),
                path: path.clone(),
                body: described["requestBody"]["content"]["application/json"].get("schema").map(least),
                query: query(&described["parameters"]),
                is_public: described["security"] == json!([]),
            });
        }
    }
    assert!(routes.len() >= 40, "{}", routes.len());
    routes
}

/// Fields an operation cannot do without, though each of them may be left out where another stands for it.
const EITHER: [&str; 2] = ["contents", "data"];

/// Returns the least that an operation takes.
fn least(schema: &Value) -> Value {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let needed = |name: &&String| required.contains(&json!(name)) || EITHER.contains(&name.as_str());
    let names = schema["properties"].as_object().into_iter().flat_map(Map::keys).filter(needed);
    let fields = names.map(|name| (name.clone(), word(name, &schema["properties"][name])));
    Value::Object(fields.collect::<Map<_, _>>())
}

fn word(name: &str, schema: &Value) -> Value {
    match (name, schema["type"].as_str()) {
        ("network", _) => json!("none"),
        // At a registry that cannot be reached.
        ("reference", _) => json!("registry.invalid/x"),
        (_, Some("array")) => json!(["true"]),
        (_, Some("integer")) => json!(1),
        (_, Some("boolean")) => json!(false),
        _ => json!("x"),
    }
}

fn query(parameters: &Value) -> String {
    let needed = parameters
        .as_array()
        .into_iter()
        .flatten()
        .filter(|one| one["in"] == "query" && one["required"] == true);
    let pairs: Vec<_> = needed.map(|one| format!("{}=x", one["name"].as_str().expect("a name"))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// Operations that are for the home's own people.
const OWN: [&str; 5] = ["image_prepull", "image_build", "image_load", "image_remove", "repo_push"];

#[test]
fn every_route_admits_only_valid_tokens() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let right = home.token("acme", &[]);
    let narrow = home.token("acme", &["--allow", "volume_list"]);
    let other = home.token("acme", &["--allow", "image_list"]);
    let expired = home.token("acme", &["--expires", "1ms"]);
    let revoked = home.token("acme", &[]);
    let id = format!("tok_{}", revoked.split('_').nth(1).expect("it has parts"));
    home.call(["token", "revoke", &id]).succeed();
    let wrong = format!("{}0", &right[..right.len() - 1]);
    let wrong = if wrong == right { format!("{}g", &right[..right.len() - 1]) } else { wrong };
    let strangers = [&wrong, &expired, &revoked, &right[..40].to_owned(), &String::new()];

    for route in routes(&daemon) {
        let ask = |token: &str| route.about(NEVER).token(token).send(&daemon.tcp());
        if route.is_public {
            assert_eq!(route.about(NEVER).send(&daemon.tcp()).status, 200, "{}", route.name);
            continue;
        }
        let mut refused: Vec<_> = strangers.iter().map(|token| ask(token)).collect();
        refused.push(route.about(NEVER).send(&daemon.tcp()));
        refused.push(route.about(NEVER).header("Authorization", "Basic eDp5").send(&daemon.tcp()));
        for answer in &refused {
            assert_eq!((answer.status, answer.kind().as_str()), (401, "denied"), "{}", route.name);
            assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"coracle\""), "{}", route.name);
            assert_eq!(answer.body, refused[0].body, "{}: one answer for all of them", route.name);
        }
        // To cancel a request takes the scope of its operation; here there is no request.
        if ["openapi", "request_cancel"].contains(&route.name.as_str()) || !route.is_plain() {
            continue;
        }
        let narrow = if route.name == "volume_list" { &other } else { &narrow };
        let out_of_scope = ask(narrow);
        assert_eq!((out_of_scope.status, out_of_scope.kind().as_str()), (403, "denied"), "{}", route.name);
        assert_eq!(ask(&right).status, expected(&route), "{}: {:?}", route.name, ask(&right));
        let of_the_home = route.about(NEVER).send(&daemon.unix()).status;
        assert!(of_the_home != 401 && of_the_home != 403, "{}: {of_the_home}", route.name);
    }
}

/// Returns the status of an allowed request about something that does not exist.
fn expected(route: &Route) -> u16 {
    match route.name.as_str() {
        name if OWN.contains(&name) => 403,
        // For tokens that name it, and that of a tenant's other things does not.
        "metrics" => 403,
        "sandbox_list" | "sandbox_stats" | "image_list" | "volume_list" | "sandbox_open" | "event_list" => {
            200
        }
        "repo_list" | "repo_add" => 200,
        // Nothing to run, and no image of that name.
        "sandbox_run" => 400,
        "image_pull" => 424,
        _ => 404,
    }
}

#[test]
fn an_open_attach_is_asked_for_a_token_too() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let narrow = home.token("acme", &["--allow", "sandbox_exec_read"]);
    let attach = |token: Option<&str>| {
        let request = Request::get(&format!("/v1/sandboxes/{NEVER}/execs/exec_1/attach"))
            .header("Upgrade", "websocket")
            .header("Connection", "Upgrade")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
        token.into_iter().fold(request, Request::token).open(&daemon.tcp()).expect("answers").status
    };

    assert_eq!((attach(None), attach(Some(&narrow))), (401, 403));
}

/// Returns what an answer says, without what differs each time.
fn said(answer: &Answer, id: &str) -> (u16, String, Vec<(String, String)>) {
    let told = |name: &str| !matches!(name, "coracle-request" | "date" | "content-length");
    let headers = answer.headers.iter().filter(|(name, _)| told(name)).cloned().collect();
    (answer.status, String::from_utf8_lossy(&answer.body).replace(id, "ID"), headers)
}

#[test]
fn ids_of_others_are_answered_byte_for_byte_like_ids_that_never_were() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let (mine, theirs) = (home.token("mine", &[]), home.token("theirs", &[]));
    let open = |token: &str| {
        let opened =
            Request::post("/v1/sandboxes", &json!({})).token(token).send(&daemon.tcp()).expect(200).json();
        opened["sandbox_id"].as_str().expect("an id").to_owned()
    };
    let (foreign, of_home) = (open(&theirs), home.open());
    let started = json!({"cmd": ["echo", "x"], "exec_id": "exec_1"});
    Request::post(&format!("/v1/sandboxes/{foreign}/execs"), &started)
        .token(&theirs)
        .send(&daemon.tcp())
        .expect(200);

    for route in routes(&daemon).into_iter().filter(|route| route.is_about_a_sandbox() && route.is_plain()) {
        let unknown = said(&route.about(NEVER).token(&mine).send(&daemon.tcp()), NEVER);
        for id in [&foreign, &of_home] {
            assert_eq!(
                said(&route.about(id).token(&mine).send(&daemon.tcp()), id),
                unknown,
                "{}",
                route.name
            );
        }
        assert_eq!(unknown.0, 404, "{}: {}", route.name, unknown.1);
    }
    let alive = Request::get(&format!("/v1/sandboxes/{foreign}"))
        .token(&theirs)
        .send(&daemon.tcp())
        .expect(200)
        .json();
    assert_eq!(alive["state"], "ready");
    let listed = |address: &DaemonAddress, request: Request| -> usize {
        let listed = request.send(address).expect(200).json();
        listed["sandboxes"].as_array().map_or(0, Vec::len)
    };
    let list = || Request::get("/v1/sandboxes");
    assert_eq!(listed(&daemon.tcp(), list().token(&mine)), 0);
    assert_eq!(listed(&daemon.tcp(), list().token(&theirs)), 1);
    assert_eq!(listed(&daemon.unix(), list()), 2);
    assert_eq!(listed(&daemon.unix(), list().token(&theirs)), 1, "a token narrows on the unix socket, too");
}

#[test]
fn a_token_that_is_revoked_opens_nothing_from_then_on() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let text = home.token("acme", &[]);
    let list = Request::get("/v1/sandboxes").token(&text);
    list.send(&daemon.tcp()).expect(200);

    let id = home.call(["token", "list", "--json"]).succeed().json()[0]["token_id"].clone();
    home.call(["token", "revoke", id.as_str().expect("an id")]).succeed();

    list.send(&daemon.tcp()).expect(401);
    list.send(&daemon.unix()).expect(401);
}

#[test]
fn tenants_have_as_many_sandboxes_and_requests_as_the_settings_say() {
    requires!(native);
    let home = Home::new();
    let settings = "[tenants.few]\nsandboxes = 1\n[tenants.seldom]\nrate = 1\nburst = 2\n";
    std::fs::write(home.path().join("config.toml"), settings).expect("ours");
    let daemon = Daemon::start(&home);
    let (few, seldom) = (home.token("few", &[]), home.token("seldom", &[]));

    let open = || Request::post("/v1/sandboxes", &json!({})).token(&few).send(&daemon.tcp());
    open().expect(200);
    let second = open();
    let asked: Vec<_> =
        (0..4).map(|_| Request::get("/v1/sandboxes").token(&seldom).send(&daemon.tcp())).collect();

    assert_eq!((second.status, second.kind().as_str()), (429, "limit_exceeded"));
    assert_eq!(asked.iter().filter(|answer| answer.status == 200).count(), 2);
    let refused = asked.last().expect("the last");
    assert_eq!((refused.status, refused.kind().as_str()), (429, "limit_exceeded"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    (0..10).for_each(|_| drop(Request::get("/v1/sandboxes").token(&few).send(&daemon.tcp()).expect(200)));
}

#[test]
fn faults_of_the_machine_show_tenants_no_path() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let text = home.token("acme", &[]);
    // An image whose registry cannot be reached.
    let body = json!({"image": "registry.invalid/nothing"});

    let told = Request::post("/v1/sandboxes", &body).token(&text).send(&daemon.tcp());
    let own = Request::post("/v1/sandboxes", &body).send(&daemon.unix());

    let tellings: Vec<_> = ["/v1/sandboxes?all=true", "/v1/events"]
        .iter()
        .map(|path| Request::get(path).token(&text).send(&daemon.tcp()).expect(200).json().to_string())
        .collect();
    let (told, own) = (told.json().to_string(), own.json().to_string());
    let path = home.path().to_str().expect("UTF-8");
    for told in tellings.iter().chain([&told]) {
        assert!(!told.contains(path) && !told.contains("os error") && !told.contains("lookup"), "{told}");
    }
    assert!(own.len() > told.len(), "{own}");
}
