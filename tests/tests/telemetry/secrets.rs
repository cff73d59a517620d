//! Telemetry contains nothing a person wrote: the tests search every byte that is sent.

use std::collections::BTreeSet;

use coracle_tests::http::Request;
use coracle_tests::{Daemon, Home, requires};
use serde_json::json;

use super::collector::{Collector, Received};

const CANARY: &str = "canary-7c1f9e";

/// Every attribute a span may have. Before you add one, consider who could have written its value.
const KNOWN: &[&str] = &[
    "container.image.name",
    "coracle.backend",
    "coracle.door",
    "coracle.egress.denied",
    "coracle.exec.duration_ms",
    "coracle.exec.id",
    "coracle.exec.limits_hit",
    "coracle.exec.outcome",
    "coracle.exec.output_bytes",
    "coracle.file.bytes",
    "coracle.operation",
    "coracle.outcome",
    "coracle.reconcile.action",
    "coracle.run.id",
    "coracle.sandbox.created",
    "coracle.sandbox.id",
    "coracle.tenant.id",
    "error.type",
    "gen_ai.tool.name",
    "http.request.method",
    "http.response.status_code",
    "http.route",
    "mcp.method.name",
    "process.executable.name",
    "process.exit.code",
];

fn holds_canary(request: &Received) -> bool {
    let holds = |bytes: &[u8]| bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
    holds(&request.body) || holds(request.head.as_bytes())
}

fn home_with(collector: &Collector) -> Home {
    Home::new()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
        .env("OTEL_BSP_SCHEDULE_DELAY", "100")
        .env("OTEL_METRIC_EXPORT_INTERVAL", "200")
        .env("THE_SECRET", CANARY)
}

#[track_caller]
fn expect_no_canary(collector: &Collector) {
    let received = collector.received();
    assert!(!received.is_empty(), "nothing was sent, so nothing is shown");
    let bad: Vec<_> = received.iter().filter(|request| holds_canary(request)).collect();
    assert!(bad.is_empty(), "{} of {} exports hold the canary", bad.len(), received.len());
    let told: BTreeSet<String> =
        collector.spans().into_iter().flat_map(|span| span.attributes.into_keys()).collect();
    let unknown: Vec<_> = told.iter().filter(|name| !KNOWN.contains(&name.as_str())).collect();
    assert!(unknown.is_empty(), "attributes that are not in the list: {unknown:?}");
}

#[test]
fn nothing_of_what_a_person_writes_is_sent_from_the_command_line() {
    requires!(native);
    let collector = Collector::honest();
    let home = home_with(&collector);
    let sandbox = home.open_with(&["--env", &format!("SPEC={CANARY}"), "--label", &format!("a={CANARY}")]);
    let script = format!("cat; echo {CANARY}; echo $TOKEN $E >&2; exit 1");

    for json in [&["--json"][..], &[]] {
        let words = ["exec", &sandbox, "--secret", "TOKEN=env:THE_SECRET", "-e", "E=canary-7c1f9e"];
        let command = ["--", "sh", "-c", script.as_str()];
        let call = home.call(words.iter().chain(json).chain(&command));
        call.stdin(CANARY).run().expect_code(1);
    }
    let path = format!("{CANARY}.txt");
    home.call(["fs", "write", &sandbox, &path]).stdin(CANARY).succeed();
    home.call(["fs", "read", &sandbox, &path]).succeed();
    // Error messages repeat the input.
    home.call(["fs", "read", &sandbox, &format!("nothing-{CANARY}")]).run().expect_code(125);
    home.exec(&sandbox, [CANARY]).run().expect_code(127);
    home.operation("sandbox_exec", &json!({"sandbox_id": sandbox, "cmd": CANARY})).run();
    home.call(["run", "-c", &format!("print('{CANARY}')")]).succeed();

    expect_no_canary(&collector);
}

#[test]
fn nothing_of_what_a_client_writes_is_sent_by_the_daemon() {
    requires!(native);
    let collector = Collector::honest();
    let home = home_with(&collector);
    let sandbox = home.open();
    let daemon = Daemon::start(&home);
    let at = |path: &str| format!("/v1/sandboxes/{sandbox}/{path}");

    let written = json!({
        "cmd": ["sh", "-c", format!("cat; echo {CANARY}")],
        "secrets": {"TOKEN": CANARY}, "env": {"E": CANARY}, "stdin": CANARY,
    });
    Request::post(&at("execs"), &written).send(&daemon.unix()).expect(200);
    let file = Request::new("PUT", &at(&format!("files?path={CANARY}"))).body(CANARY);
    file.send(&daemon.unix()).expect(200);
    Request::get(&at(&format!("files?path={CANARY}"))).send(&daemon.unix()).expect(200);
    Request::get(&format!("/v1/{CANARY}")).token(CANARY).send(&daemon.unix());
    Request::new(CANARY, &at("execs")).send(&daemon.unix());
    let tool = json!({"name": "sandbox_exec", "arguments": {"sandbox_id": sandbox, "cmd": ["echo", CANARY]}});
    let call = json!({"jsonrpc": "2.0", "id": CANARY, "method": "tools/call", "params": tool});
    let call = Request::post("/mcp", &call).header("Accept", "application/json, text/event-stream");
    call.send(&daemon.unix()).expect(200);
    let resource = json!({"uri": format!("coracle://{sandbox}/{CANARY}")});
    let read = json!({"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": resource});
    let read = Request::post("/mcp", &read).header("Accept", "application/json, text/event-stream");
    read.send(&daemon.unix()).expect(200);
    daemon.end().expect_code(0);

    expect_no_canary(&collector);
    assert!(!collector.metrics().is_empty(), "metrics were looked at, too");
}

/// The twin of the others: what looks for the canary finds it where it is put on purpose.
#[test]
fn a_canary_that_is_sent_is_found() {
    requires!(native);
    let collector = Collector::honest();
    let home = home_with(&collector);

    // Spans carry the name of a run.
    home.call(["ps", "--run", CANARY]).succeed();

    assert!(collector.received().iter().any(holds_canary));
}
