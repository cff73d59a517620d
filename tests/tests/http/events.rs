//! The stream of events: what happens to sandboxes, from every door.

use coracle_tests::http::{Event, Opened, Request};
use coracle_tests::{Daemon, Home, requires};
use serde_json::json;

fn stream(daemon: &Daemon, query: &str) -> Opened {
    let request = Request::get(&format!("/v1/events?{query}")).header("Accept", "text/event-stream");
    let opened = request.open(&daemon.unix()).expect("opens");
    assert_eq!(opened.status, 200);
    opened
}

/// Reads events until that of the end of a sandbox.
fn until_destroyed(stream: &mut Opened) -> Vec<Event> {
    let mut told: Vec<Event> = Vec::new();
    while told.last().is_none_or(|event| event.name != "destroyed") {
        told.push(stream.event().expect("the stream goes on"));
    }
    told
}

fn number(id: &str) -> u64 {
    id.parse().expect("an event's id is its number")
}

#[test]
fn events_come_as_they_happen_and_again_from_any_number() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let mut live = stream(&daemon, "");

    let sandbox = home.open();
    home.exec(&sandbox, ["true"]).succeed();
    home.call(["close", &sandbox]).succeed();
    let told = until_destroyed(&mut live);
    let middle = told[told.len() / 2].id.clone();
    let mut again = stream(&daemon, &format!("since_seq={middle}&sandbox_id={sandbox}"));
    let page =
        Request::get(&format!("/v1/events?since_seq={middle}")).send(&daemon.unix()).expect(200).json();

    let names: Vec<_> = told.iter().map(|event| event.name.as_str()).collect();
    for expected in ["ready", "exec_started", "exec_ended", "destroyed"] {
        assert!(names.contains(&expected), "{names:?}");
    }
    assert!(told.iter().all(|event| event.data["sandbox_id"] == sandbox.as_str()), "{told:?}");
    let rest: Vec<_> = told.iter().filter(|event| number(&event.id) > number(&middle)).collect();
    for event in &rest {
        assert_eq!(again.event().as_ref(), Some(*event));
    }
    assert_eq!(page["events"].as_array().map(Vec::len), Some(rest.len()));
}

#[test]
fn a_stream_of_events_takes_no_nonsense() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);

    for query in ["since_seq=x", "kinds=dancing", "wait_ms=5", "other=1"] {
        let request = Request::get(&format!("/v1/events?{query}")).header("Accept", "text/event-stream");
        let answer = request.send(&daemon.unix());
        assert_eq!((answer.status, answer.kind().as_str()), (400, "invalid"), "{query}: {answer}");
    }
}

#[test]
fn a_stream_tells_a_tenant_of_its_own_sandboxes_and_of_no_others() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let (mine, theirs) = (home.token("mine", &[]), home.token("theirs", &[]));
    let follow = |token: &str| {
        let request = Request::get("/v1/events").header("Accept", "text/event-stream").token(token);
        request.open(&daemon.tcp()).expect("opens")
    };
    let make_and_close = |token: &str| {
        let opened = Request::post("/v1/sandboxes", &json!({})).token(token).send(&daemon.tcp()).expect(200);
        let sandbox = opened.json()["sandbox_id"].as_str().expect("an id").to_owned();
        let path = format!("/v1/sandboxes/{sandbox}");
        Request::delete(&path).token(token).send(&daemon.tcp()).expect(200);
        sandbox
    };
    let live = follow(&mine);

    // Events of the other tenant, if the stream had any, would come before those of this one.
    let other = make_and_close(&theirs);
    let own = make_and_close(&mine);

    for (mut stream, sandbox) in [(live, &own), (follow(&mine), &own), (follow(&theirs), &other)] {
        let told = until_destroyed(&mut stream);
        assert!(told.iter().all(|event| event.data["sandbox_id"] == sandbox.as_str()), "{told:?}");
    }
}

#[test]
fn a_stream_ends_with_the_token_it_was_opened_by() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let token = home.token("acme", &[]);
    let request = Request::get("/v1/events").header("Accept", "text/event-stream").token(&token);
    let mut opened = request.open(&daemon.tcp()).expect("opens");
    assert_eq!(opened.status, 200);

    let id = home.call(["token", "list", "--json"]).succeed().json()[0]["token_id"].clone();
    home.call(["token", "revoke", id.as_str().expect("an id")]).succeed();

    while opened.event().is_some() {}
    request.send(&daemon.tcp()).expect(401);
}
