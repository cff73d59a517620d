//! A collector may be gone, slow or hostile: no call waits for it for more than a moment.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use coracle_tests::{Daemon, Home, SOON, eventually, requires};

use super::collector::{Collector, Manner};

/// What a call may be held up by: half a second for the collector, the rest for a busy machine.
const MOMENT: Duration = Duration::from_secs(4);

fn time_of(home: &Home, endpoint: Option<&str>) -> Duration {
    let call = home.call(["ps"]);
    let call = match endpoint {
        Some(endpoint) => call.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        None => call,
    };
    let began = Instant::now();
    let finished = call.succeed();
    assert_eq!(finished.stderr, "");
    began.elapsed()
}

#[track_caller]
fn expect_no_delay(endpoint: &str) {
    let home = Home::new();
    time_of(&home, None);
    let alone = time_of(&home, None);

    let told = time_of(&home, Some(endpoint));

    assert!(told < alone + MOMENT, "{told:?} instead of {alone:?}");
}

#[test]
fn a_collector_that_is_not_there_delays_no_call() {
    requires!(native);
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");

    expect_no_delay(&format!("http://{gone}"));
}

#[test]
fn a_collector_whose_name_does_not_resolve_delays_no_call() {
    requires!(native);

    expect_no_delay("http://collector.invalid:4318");
}

#[test]
fn a_collector_that_does_not_accept_delays_no_call() {
    requires!(native);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");

    expect_no_delay(&format!("http://{address}"));
}

#[test]
fn hostile_collectors_delay_no_call() {
    requires!(native);

    for manner in [Manner::Silent, Manner::Busy, Manner::Endless, Manner::Babbling] {
        let collector = Collector::start(manner);

        // A call on a busy machine may give up before it has sent anything.
        let sent = eventually(SOON, || {
            expect_no_delay(&collector.endpoint());
            !collector.received().is_empty()
        });
        assert!(sent.is_some(), "{manner:?} was never sent anything");
    }
}

#[test]
fn redirects_of_a_collector_are_not_followed() {
    requires!(native);
    let other = Collector::honest();
    let collector = Collector::start(Manner::Elsewhere(other.address()));
    let home = Home::new().env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hunter2");

    home.call(["ps"]).env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()).succeed();

    let came = collector.received();
    assert!(came[0].head.to_ascii_lowercase().contains("authorization: bearer hunter2"), "{}", came[0].head);
    assert!(other.received().is_empty(), "the header went to another collector");
}

#[test]
fn variables_meant_for_other_programs_fail_no_call() {
    requires!(native);
    let home = Home::new();

    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://[::"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_TRACES_EXPORTER", "console"),
        ("OTEL_TRACES_SAMPLER", "nonsense"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "\u{7f}=,,=\n"),
    ] {
        let call = home.call(["ps"]).env("OTEL_TRACES_EXPORTER", "otlp").env(name, value);
        call.succeed();
    }
}

#[test]
fn a_daemon_says_each_time_that_nothing_is_sent_and_why() {
    requires!(native);
    let home = Home::new().env("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317");

    for _ in 0..2 {
        let daemon = Daemon::start(&home);
        let said = daemon.said();
        daemon.end().expect_code(0);

        assert_eq!(said.matches("note: nothing is sent by OTLP: ").count(), 1, "{said}");
    }
}

#[test]
fn compression_that_is_asked_for_is_left_out_and_everything_is_sent() {
    requires!(native);
    let collector = Collector::honest();
    let home = Home::new()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
        .env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip");

    let finished = home.call(["ps"]).succeed();

    assert_eq!(finished.stderr, "");
    assert!(collector.spans().iter().any(|span| span.name == "coracle ps"));
}
