//! What happens to sandboxes, told as it happens, whichever door it came through.

use coracle_tests::http::{Opened, Request};
use coracle_tests::{Daemon, Home, requires};

fn stream(daemon: &Daemon, query: &str) -> Opened {
    let request = Request::get(&format!("/v1/events?{query}")).header("Accept", "text/event-stream");
    let opened = request.open(&daemon.unix()).expect("opens");
    assert_eq!(opened.status, 200);
    opened
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
    let mut told = Vec::new();
    while told.last().is_none_or(|event: &coracle_tests::http::Event| event.name != "destroyed") {
        told.push(live.event().expect("the stream goes on"));
    }
    let middle = told[told.len() / 2].id.clone();
    let mut again = stream(&daemon, &format!("since_seq={middle}&sandbox_id={sandbox}"));
    let page =
        Request::get(&format!("/v1/events?since_seq={middle}")).send(&daemon.unix()).expect(200).json();

    let names: Vec<_> = told.iter().map(|event| event.name.as_str()).collect();
    for expected in ["ready", "exec_started", "exec_ended", "destroyed"] {
        assert!(names.contains(&expected), "{names:?}");
    }
    assert!(told.iter().all(|event| event.data["sandbox_id"] == sandbox.as_str()), "{told:?}");
    let rest: Vec<_> = told.iter().filter(|event| event.id.parse::<u64>() > middle.parse::<u64>()).collect();
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
