//! What the daemon counts, for whoever scrapes it and for a collector.

use std::collections::BTreeMap;
use std::time::Duration;

use coracle_tests::http::Request;
use coracle_tests::{Daemon, Home, eventually, requires};
use serde_json::json;

use super::collector::Collector;
use super::exposition::{Samples, parse};

fn scrape(daemon: &Daemon) -> Samples {
    let answer = Request::get("/metrics").send(&daemon.unix()).expect(200);
    parse(std::str::from_utf8(&answer.body).expect("text"))
}

fn value(samples: &Samples, name: &str, labels: &[(&str, &str)]) -> f64 {
    let labels: BTreeMap<_, _> =
        labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    samples.get(&(name.to_owned(), labels)).copied().unwrap_or(0.0)
}

#[test]
fn what_was_done_is_what_is_counted() {
    requires!(native);
    let home = Home::new().env("CORACLE_SPARES", "0");
    let daemon = Daemon::start(&home);
    let place = daemon.unix();

    let opened = Request::post("/v1/sandboxes", &json!({})).send(&place).expect(200).json();
    let sandbox = format!("/v1/sandboxes/{}", opened["sandbox_id"].as_str().expect("an id"));
    let execs = format!("{sandbox}/execs");
    for code in [0, 1, 2] {
        let cmd = json!({"cmd": ["sh", "-c", format!("echo hello; exit {code}")]});
        Request::post(&execs, &cmd).send(&place).expect(200);
    }
    let slow = json!({"cmd": ["sleep", "60"], "timeout_ms": 200});
    Request::post(&execs, &slow).send(&place).expect(200);
    Request::post(&execs, &json!({"cmd": "no list"})).send(&place).expect(400);
    Request::new("PUT", &format!("{sandbox}/files?path=f")).body("12345").send(&place).expect(200);
    Request::get(&format!("{sandbox}/files?path=f")).send(&place).expect(200);
    let during = scrape(&daemon);
    Request::delete(&sandbox).send(&place).expect(200);
    let after = scrape(&daemon);

    let operations = "coracle_operation_duration_seconds_count";
    let operation =
        |outcome| value(&during, operations, &[("operation", "sandbox_exec"), ("outcome", outcome)]);
    assert_eq!((operation("ok"), operation("invalid")), (4.0, 1.0));
    let exec = |outcome| {
        value(&during, "coracle_exec_duration_seconds_count", &[("backend", "native"), ("outcome", outcome)])
    };
    assert_eq!((exec("exited"), exec("timed_out")), (3.0, 1.0));
    let ok = [("backend", "native"), ("outcome", "ok")];
    assert_eq!(value(&during, "coracle_sandbox_create_duration_seconds_count", &ok), 1.0);
    assert_eq!(value(&during, "coracle_sandbox_destroy_duration_seconds_count", &ok), 0.0);
    assert_eq!(value(&after, "coracle_sandbox_destroy_duration_seconds_count", &ok), 1.0);
    assert_eq!(value(&during, "coracle_sandboxes", &[("state", "ready")]), 1.0);
    assert_eq!(value(&after, "coracle_sandboxes", &[("state", "ready")]), 0.0);
    assert_eq!(value(&during, "coracle_exec_output_bytes_total", &[]), 18.0);
    assert_eq!(value(&during, "coracle_file_written_bytes_total", &[]), 5.0);
    assert_eq!(value(&during, "coracle_file_read_bytes_total", &[]), 5.0);
    assert_eq!(value(&during, "coracle_limits_hit_total", &[("limit", "wall_time")]), 1.0);
}

#[test]
fn nobody_is_named_and_series_do_not_grow_with_what_is_done() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let place = daemon.unix();
    let round = |number: usize| {
        let run = Request::post("/v1/run", &json!({"cmd": ["true"]}))
            .header("Coracle-Run", &format!("run_{number}"));
        run.send(&place).expect(200);
        Request::get(&format!("/v1/sandboxes/sbx_0000000000000000000000000{number}"))
            .send(&place)
            .expect(404);
    };
    round(0);
    let first = scrape(&daemon);

    (1..9).for_each(round);
    let last = scrape(&daemon);

    let words: Vec<_> = last.keys().flat_map(|(_, labels)| labels.values()).collect();
    assert!(words.iter().all(|word| !word.contains("run_") && !word.contains("sbx_")), "{words:?}");
    let of_work =
        |samples: &Samples| samples.keys().filter(|(name, _)| name.starts_with("coracle_operation")).count();
    assert_eq!(of_work(&first), of_work(&last));
}

#[test]
fn spares_that_wait_are_counted() {
    requires!(native);
    let home = Home::new().env("CORACLE_SPARES", "2");
    let daemon = Daemon::start(&home);
    Request::post("/v1/run", &json!({"cmd": ["true"]})).send(&daemon.unix()).expect(200);

    let counted =
        eventually(Duration::from_secs(20), || value(&scrape(&daemon), "coracle_spares", &[]) >= 2.0);

    assert!(counted.is_some());
    daemon.end().expect_code(0);
}

#[test]
fn what_sandboxes_are_refused_of_the_network_is_counted_once() {
    requires!(native);
    let home = Home::new().env("CORACLE_SPARES", "0");
    let daemon = Daemon::start(&home);
    let place = daemon.unix();
    let opened =
        Request::post("/v1/sandboxes", &json!({"network": "allow=ok.test"})).send(&place).expect(200).json();
    let sandbox = format!("/v1/sandboxes/{}", opened["sandbox_id"].as_str().expect("an id"));
    let reach = "import urllib.request as r\ntry: r.urlopen('http://denied.test/')\nexcept OSError: pass";
    let ask = json!({"cmd": ["python3", "-c", reach]});

    let ran = Request::post(&format!("{sandbox}/execs"), &ask).send(&place).expect(200).json();
    let denied = || value(&scrape(&daemon), "coracle_egress_denied_total", &[]);
    let (during, again) = (denied(), denied());
    Request::delete(&sandbox).send(&place).expect(200);

    assert_eq!(ran["egress_denied"].as_array().map(Vec::len), Some(1), "{ran}");
    assert_eq!((during, again, denied()), (1.0, 1.0, 1.0));
}

#[test]
fn what_the_janitor_repairs_is_counted() {
    requires!(native);
    let home = Home::new().env("CORACLE_SPARES", "0");
    let crashed = home.call(["open"]).env("CORACLE_CRASH_AT", "create.backend.after").run();
    assert_ne!(crashed.code(), Some(0), "it was to die");

    let daemon = Daemon::start(&home);

    let samples = scrape(&daemon);
    let repaired =
        value(&samples, "coracle_reconcile_actions_total", &[("action", "fail"), ("outcome", "ok")]);
    assert_eq!(repaired, 1.0);
}

#[test]
fn a_collector_is_sent_the_same_numbers() {
    requires!(native);
    let collector = Collector::honest();
    let home = Home::new()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
        .env("OTEL_METRIC_EXPORT_INTERVAL", "200");
    let daemon = Daemon::start(&home);
    Request::post("/v1/run", &json!({"cmd": ["echo", "hello"]})).send(&daemon.unix()).expect(200);
    daemon.end().expect_code(0);

    let sent = collector.metrics();

    for name in [
        "coracle.operation.duration",
        "coracle.sandbox.create.duration",
        "coracle.exec.duration",
        "coracle.exec.output",
        "coracle.file.read",
        "coracle.file.written",
        "coracle.egress.denied",
        "coracle.sandboxes",
    ] {
        assert!(sent.contains_key(name), "{name} is missing: {:?}", sent.keys());
    }
    assert!(sent["coracle.operation.duration"].iter().any(|data| data.contains("sandbox_run")));
}

#[test]
fn metrics_are_shown_to_whoever_was_told_to_scrape_and_to_no_tenant() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);

    let token = |allow: &str| {
        let made = home.call(["token", "create", "--tenant", "acme", "--allow", allow]).succeed();
        made.text().trim().to_owned()
    };
    let scrape = |token: &str| Request::get("/metrics").token(token).send(&daemon.tcp());

    Request::get("/metrics").send(&daemon.tcp()).expect(401);
    scrape(&token("*")).expect(403);
    scrape(&token("sandbox_*")).expect(403);
    let shown = scrape(&token("metrics")).expect(200);
    parse(std::str::from_utf8(&shown.body).expect("text"));
}
