//! The metrics of the daemon, for Prometheus and for a collector.

use coracle_tests::http::Request;
use coracle_tests::{Daemon, Home, SOON, eventually, requires};
use serde_json::json;
use std::collections::BTreeMap;

use super::collector::{Collector, Numbers};
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
fn metrics_name_no_caller_and_series_do_not_grow_with_use() {
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

    let mut samples = Samples::new();
    let counted = eventually(SOON, || {
        samples = scrape(&daemon);
        value(&samples, "coracle_spares", &[]) >= 2.0
    });

    assert!(counted.is_some());
    // The sum over the states must be the sandboxes that callers have.
    assert_eq!(value(&samples, "coracle_sandboxes", &[("state", "spare")]), 0.0);
    daemon.end().expect_code(0);
}

#[test]
fn refused_connections_of_sandboxes_are_counted_once() {
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

/// What something is called where it is scraped, and where it is sent.
type Names = (&'static str, &'static str);

/// Every family, with its labels.
const SAME: [(&str, &str, &[Names]); 14] = [
    (
        "coracle_operation_duration_seconds_count",
        "coracle.operation.duration",
        &[("operation", "coracle.operation"), ("outcome", "coracle.outcome")],
    ),
    (
        "coracle_sandbox_create_duration_seconds_count",
        "coracle.sandbox.create.duration",
        &[("backend", "coracle.backend"), ("outcome", "coracle.outcome")],
    ),
    (
        "coracle_sandbox_destroy_duration_seconds_count",
        "coracle.sandbox.destroy.duration",
        &[("backend", "coracle.backend"), ("outcome", "coracle.outcome")],
    ),
    (
        "coracle_exec_duration_seconds_count",
        "coracle.exec.duration",
        &[("backend", "coracle.backend"), ("outcome", "coracle.exec.outcome")],
    ),
    ("coracle_exec_output_bytes_total", "coracle.exec.output", &[]),
    ("coracle_file_read_bytes_total", "coracle.file.read", &[]),
    ("coracle_file_written_bytes_total", "coracle.file.written", &[]),
    ("coracle_egress_denied_total", "coracle.egress.denied", &[]),
    (
        "coracle_reconcile_actions_total",
        "coracle.reconcile.actions",
        &[("action", "coracle.reconcile.action"), ("outcome", "coracle.outcome")],
    ),
    ("coracle_limits_hit_total", "coracle.limits.hit", &[("limit", "coracle.limit")]),
    ("coracle_sandboxes", "coracle.sandboxes", &[("state", "coracle.state")]),
    ("coracle_spares", "coracle.spares", &[]),
    ("coracle_storage_reserve_bytes", "coracle.storage.reserve", &[]),
    ("coracle_storage_low", "coracle.storage.low", &[]),
];

/// Changes between two looks, because other programs write to the machine's disk.
const RESTLESS: &str = "coracle.storage.free";

/// Returns what was scraped as it would have been sent.
fn as_sent(samples: &Samples) -> Numbers {
    let translated = |((name, labels), value): (&(String, BTreeMap<String, String>), &f64)| {
        let (_, sent, words) = SAME.iter().find(|(scraped, ..)| scraped == name)?;
        let word = |label: &String| words.iter().find(|(scraped, _)| scraped == label).expect("known").1;
        let labels = labels.iter().map(|(label, value)| (word(label).to_owned(), value.clone())).collect();
        Some((((*sent).to_owned(), labels), *value))
    };
    samples.iter().filter_map(translated).collect()
}

#[test]
fn a_collector_is_sent_the_same_numbers() {
    requires!(native);
    let collector = Collector::honest();
    let home = Home::new()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
        .env("OTEL_METRIC_EXPORT_INTERVAL", "200")
        .env("CORACLE_SPARES", "2");
    // Something for the janitor, and a sandbox that stays.
    home.call(["open"]).env("CORACLE_CRASH_AT", "create.backend.after").run();
    let sandbox = home.open();
    let daemon = Daemon::start(&home);
    let place = daemon.unix();

    Request::post("/v1/run", &json!({"cmd": ["echo", "hello"]})).send(&place).expect(200);
    let slow = json!({"cmd": ["sleep", "60"], "timeout_ms": 200});
    Request::post(&format!("/v1/sandboxes/{sandbox}/execs"), &slow).send(&place).expect(200);
    let file = format!("/v1/sandboxes/{sandbox}/files?path=f");
    Request::new("PUT", &file).body("12345").send(&place).expect(200);
    Request::get(&file).send(&place).expect(200);

    // The pool makes spares meanwhile, and exported numbers are a moment behind.
    let (mut scraped, mut sent) = (Numbers::new(), Numbers::new());
    let same = eventually(SOON, || {
        (scraped, sent) = (as_sent(&scrape(&daemon)), collector.metrics());
        sent.retain(|(name, _), _| name != RESTLESS);
        scraped == sent && scraped.get(&("coracle.spares".to_owned(), BTreeMap::new())) == Some(&2.0)
    });
    assert!(same.is_some(), "scraped {scraped:#?}\nsent {sent:#?}");
    // Of every family something was compared, and more than zeros but of refusals and a disk that is not full.
    for (_, name, _) in SAME {
        let may_be_zero = ["coracle.egress.denied", "coracle.storage.low"].contains(&name);
        let least = if may_be_zero { 0.0 } else { 1.0 };
        let mut values =
            sent.iter().filter(|((sent, _), _)| sent == name).map(|(_, value)| *value).peekable();
        assert!(values.peek().is_some() && values.all(|value| value >= least), "{name}: {sent:#?}");
    }
    daemon.end().expect_code(0);
}

#[test]
fn metrics_need_a_token_made_for_them() {
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
