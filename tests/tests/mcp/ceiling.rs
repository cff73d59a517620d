//! The ceiling a person sets for a door, and what a model may choose below it.

use coracle_tests::daemon::Daemon;
use coracle_tests::http::Request;
use coracle_tests::{Home, requires};
use serde_json::{Value, json};

use crate::client::Client;
use crate::door::{calling, current, message, request};

fn error(result: &Value) -> Value {
    result["structuredContent"]["error"].clone()
}

#[test]
fn flags_say_what_sandboxes_are() {
    requires!(native);
    let (home, place) = (Home::new(), tempfile::tempdir().expect("a directory"));
    let directory = place.path().to_str().expect("UTF-8");
    let flags =
        ["--workspace", directory, "--memory", "256m", "--network", "allow=a.test", "-e", "GIVEN=yes"];
    let client = Client::start(&home, &flags);
    let sandbox = client.open();

    client.data("sandbox_fs_write", json!({"sandbox_id": sandbox, "path": "made", "contents": "inside"}));
    let told = json!({"sandbox_id": sandbox, "cmd": ["sh", "-c", "echo $GIVEN"]});
    let told = client.data("sandbox_exec", told);

    assert_eq!(std::fs::read_to_string(place.path().join("made")).expect("it is here"), "inside");
    assert_eq!(told["stdout"], "yes\n");
    let shown = home.call(["show", &sandbox, "--json"]).succeed().json();
    assert_eq!((&shown["limits"]["memory_mb"], &shown["network"]), (&json!(256), &json!("allow=a.test")));
    client.finish().expect_code(0);
}

#[test]
fn commands_run_as_the_user_the_person_named() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &["--user", "65534"]);
    let sandbox = client.open();

    let told = client.data("sandbox_exec", json!({"sandbox_id": sandbox, "cmd": ["id", "-u"]}));

    assert_eq!(told["stdout"], "65534\n");
    client.finish().expect_code(0);
}

#[test]
fn a_volume_the_person_gave_is_not_the_models_to_delete() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &["--volume", "data"]);
    let sandbox = client.open();

    let closed = client.data("sandbox_close", json!({"sandbox_id": sandbox, "delete_workspace": true}));

    assert!(closed["note"].as_str().is_some_and(|note| note.contains("`data` stays")), "{closed}");
    let volumes = home.call(["volume", "list", "--json"]).succeed().text().to_owned();
    assert!(volumes.contains("\"data\""), "{volumes}");
    client.finish().expect_code(0);
}

#[test]
fn what_is_opened_can_be_chosen_within_the_flags() {
    requires!(native);
    let home = Home::new();
    let flags = ["--memory", "256m", "--network", "allow=a.test,b.test", "--let-choose", "limits,network"];
    let client = Client::start(&home, &flags);
    let open = |arguments: Value| client.call("sandbox_open", arguments);

    let less = json!({"session_key": "less", "limits": {"memory_mb": 64}, "network": "allow=b.test"});
    let less = open(less)["structuredContent"].clone();
    let higher = error(&open(json!({"session_key": "x", "limits": {"memory_mb": 257}})));
    let wider = error(&open(json!({"session_key": "x", "network": "open"})));
    let closed = error(&open(json!({"session_key": "x", "image": "alpine"})));

    let shown = home.call(["show", less["sandbox_id"].as_str().expect("an id"), "--json"]).succeed().json();
    assert_eq!((&shown["limits"]["memory_mb"], &shown["network"]), (&json!(64), &json!("allow=b.test")));
    assert_eq!((&higher["kind"], &higher["details"]["max"]), (&json!("denied"), &json!(256)), "{higher}");
    assert_eq!(
        (&wider["kind"], &wider["details"]["field"]),
        (&json!("denied"), &json!("network")),
        "{wider}"
    );
    assert_eq!(
        (&closed["kind"], &closed["details"]["field"]),
        (&json!("invalid"), &json!("image")),
        "{closed}"
    );
    assert_eq!(home.live().len(), 1);
    client.finish().expect_code(0);
}

#[test]
fn a_sandbox_with_more_is_not_found_by_its_key_or_its_id() {
    requires!(native);
    let home = Home::new();
    let wide = home.open_with(&["--key", "user:mine", "--network", "open"]);
    let plain = home.open_with(&["--key", "user:plain"]);
    let client = Client::start(&home, &[]);
    let kind = |tool: &str, arguments: Value| error(&client.call(tool, arguments))["kind"].clone();

    assert_eq!(kind("sandbox_open", json!({"session_key": "user:mine"})), "denied");
    assert_eq!(kind("sandbox_exec", json!({"sandbox_id": wide, "cmd": ["true"]})), "denied");
    assert_eq!(kind("sandbox_close", json!({"sandbox_id": wide})), "denied");
    let found = client.data("sandbox_open", json!({"session_key": "user:plain"}));

    assert_eq!(found["sandbox_id"], json!(plain));
    assert_eq!(home.live().len(), 2);
    client.finish().expect_code(0);
}

#[test]
fn flags_that_were_changed_are_not_ignored() {
    requires!(native);
    let home = Home::new();
    let before = Client::start(&home, &["--network", "none"]);
    let first = before.data("sandbox_open", json!({}));
    before.finish().expect_code(0);

    let after = Client::start(&home, &["--network", "allow=a.test"]);
    let refused = error(&after.call("sandbox_open", json!({})));
    after.data("sandbox_close", json!({"sandbox_id": refused["details"]["sandbox_id"]}));
    let second = after.data("sandbox_open", json!({}));

    assert_eq!(
        (&refused["kind"], &refused["details"]["fields"]),
        (&json!("conflict"), &json!(["network"])),
        "{refused}"
    );
    assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains("`sandbox_close`")), "{refused}");
    assert_ne!(first["sandbox_id"], second["sandbox_id"]);
    after.finish().expect_code(0);
}

#[test]
fn a_door_that_could_not_give_it_does_not_open() {
    requires!(native);
    let home = Home::new();
    let path = home.path().join("config.toml");
    std::fs::write(path, "[network]\nmax = 'none'\n").expect("the home is ours");

    for words in [["mcp", "--network", "open"], ["mcp", "--memory", "1t"], ["mcp", "--let-choose", "mounts"]]
    {
        let refused = home.call(words).run();
        assert_eq!(refused.code(), Some(125), "{words:?}: {refused}");
    }
}

fn at_mcp(daemon: &Daemon, token: Option<&str>, tool: &str, arguments: Value) -> Value {
    let request = request(&current(tool), &calling(tool, arguments).to_string());
    let answer = match token {
        None => request.send(&daemon.unix()),
        Some(token) => request.token(token).send(&daemon.tcp()),
    };
    message(&answer)["result"].clone()
}

#[test]
fn settings_say_what_models_at_the_daemon_get() {
    requires!(native);
    let home = Home::new();
    let settings =
        "[mcp]\nnetwork = 'allow=a.test'\nlet_choose = ['limits']\n[mcp.limits]\nmemory_mb = 256\n";
    std::fs::write(home.path().join("config.toml"), settings).expect("the home is ours");
    let daemon = Daemon::start(&home);

    let opened = at_mcp(&daemon, None, "sandbox_open", json!({"limits": {"pids": 9}}));
    let wider = error(&at_mcp(&daemon, None, "sandbox_open", json!({"network": "none"})));
    let person = json!({"network": "open", "limits": "unlimited"});
    let person = Request::post("/v1/sandboxes", &person).send(&daemon.unix());

    let opened = opened["structuredContent"]["sandbox_id"].as_str().expect("an id").to_owned();
    let shown = home.call(["show", &opened, "--json"]).succeed().json();
    assert_eq!(
        (&shown["limits"]["memory_mb"], &shown["limits"]["pids"]),
        (&json!(256), &json!(9)),
        "{shown}"
    );
    assert_eq!(shown["network"], "allow=a.test");
    assert_eq!(wider["kind"], "invalid", "{wider}");
    assert_eq!(person.status, 200, "plain HTTP on the socket is the person: {person}");
    for wrong in ["[mcp]\nnetworks = 'none'", "[mcp]\nnetwork = 'some'", "[mcp]\nlet_choose = ['mounts']"] {
        std::fs::write(home.path().join("config.toml"), wrong).expect("the home is ours");
        assert_eq!(home.call(["ps"]).run().code(), Some(125), "{wrong}");
    }
    std::fs::write(home.path().join("config.toml"), "").expect("the home is ours");
}

#[test]
fn a_token_carries_its_ceiling_to_both_doors() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let max = ["--max-memory", "256m", "--max-network", "allow=a.test", "--max-privileges", "minimal"];
    let bounded = home.token("acme", &max);
    let free = home.token("other", &[]);
    let post =
        |token: &str, body: Value| Request::post("/v1/sandboxes", &body).token(token).send(&daemon.tcp());
    let limits_of = |answer: &Value| {
        let sandbox = answer["sandbox_id"].as_str().expect("an id").to_owned();
        home.call(["show", &sandbox, "--json"]).succeed().json()
    };

    let plain = limits_of(&post(&bounded, json!({})).expect(200).json());
    let chosen = post(&bounded, json!({"limits": {"memory_mb": 128}, "network": "allow=a.test"})).expect(200);
    for (body, kind) in [
        (json!({"limits": {"memory_mb": 257}}), "denied"),
        (json!({"network": "open"}), "denied"),
        (json!({"privileges": "install"}), "denied"),
        (json!({"allow_missing": ["memory"]}), "denied"),
    ] {
        assert_eq!(post(&bounded, body.clone()).kind(), kind, "{body}");
    }
    let model = at_mcp(&daemon, Some(&bounded), "sandbox_open", json!({}));
    let refused = error(&at_mcp(&daemon, Some(&bounded), "sandbox_open", json!({"network": "none"})));
    let other = post(&free, json!({"limits": {"memory_mb": 512}, "privileges": "install"})).expect(200);
    let of_free = at_mcp(&daemon, Some(&free), "sandbox_open", json!({}));

    assert_eq!((&plain["limits"]["memory_mb"], &plain["network"]), (&json!(256), &json!("none")), "{plain}");
    assert_eq!(limits_of(&chosen.json())["limits"]["memory_mb"], 128);
    let model = limits_of(&model["structuredContent"]);
    assert_eq!((&model["limits"]["memory_mb"], &model["network"]), (&json!(256), &json!("allow=a.test")));
    assert_eq!(refused["kind"], "invalid", "{refused}");
    assert_eq!(limits_of(&other.json())["limits"]["memory_mb"], 512, "a token without one is as it was");
    assert_eq!(limits_of(&of_free["structuredContent"])["network"], "none");
    let listed = home.call(["token", "list", "--json"]).succeed().json();
    assert_eq!(listed[0]["max"]["limits"]["memory_mb"], 256, "{listed}");
    assert!(listed[1]["max"].is_null(), "{listed}");
}
