//! One command is one trace, at every door.

use std::io::Write;
use std::process::ChildStdin;

use coracle_tests::http::Request;
use coracle_tests::{Call, Daemon, Home, Started, requires};
use serde_json::{Value, json};

use super::collector::{Collector, Span, names};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

fn traceparent() -> String {
    format!("00-{TRACE}-{CALLER}-01")
}

fn home_with(collector: &Collector) -> Home {
    Home::new()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
        // So that a test need not wait for the next turn.
        .env("OTEL_BSP_SCHEDULE_DELAY", "100")
}

#[track_caller]
fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no `{name}` among {:?}", names(spans)));
    assert!(found.next().is_none(), "more than one `{name}` among {:?}", names(spans));
    span
}

/// Fails unless each is the parent of the next.
#[track_caller]
fn expect_path(spans: &[Span], path: &[&str]) {
    for pair in path.windows(2) {
        let (above, below) = (named(spans, pair[0]), named(spans, pair[1]));
        assert_eq!(below.parent, above.id, "`{}` is not below `{}`", below.name, above.name);
    }
}

#[track_caller]
fn expect(span: &Span, attributes: &[(&str, &str)]) {
    for (name, value) in attributes {
        assert_eq!(span.attributes.get(*name).map(String::as_str), Some(*value), "{name} of {span:?}");
    }
}

fn message(method: &str, params: &Value) -> Request {
    message_to("/mcp", method, params)
}

fn message_to(path: &str, method: &str, params: &Value) -> Request {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    Request::post(path, &message)
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2025-06-18")
}

/// Starts a server on standard input and shakes hands.
fn client_of(call: Call) -> (Started, ChildStdin) {
    let (server, mut stdin) = call.start_talking();
    let client = json!({"name": "tests", "version": "1"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    say(&mut stdin, &json!({"id": 1, "method": "initialize", "params": hello}));
    say(&mut stdin, &json!({"method": "notifications/initialized"}));
    (server, stdin)
}

fn say(stdin: &mut ChildStdin, message: &Value) {
    let mut message = message.clone();
    message["jsonrpc"] = "2.0".into();
    writeln!(stdin, "{message}").expect("the server reads");
}

#[test]
fn a_command_is_one_trace_from_the_command_line_to_the_guest() {
    requires!(native);
    let collector = Collector::honest();
    let home = Home::new();
    let sandbox = home.open();

    let call = home.call([
        "exec",
        &sandbox,
        "--json",
        "--id",
        "exec_traced",
        "--",
        "sh",
        "-c",
        "echo hello; exit 3",
    ]);
    let endpoint = collector.endpoint();
    call.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).env("TRACEPARENT", traceparent()).run().expect_code(3);

    // Nothing to wait for: a call sends what it has before it ends.
    let spans = collector.spans();
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:#?}");
    assert_eq!(named(&spans, "coracle exec").parent, CALLER);
    for below in ["gate admit", "guest connect", "guest exec"] {
        expect_path(&spans, &["coracle exec", "sandbox_exec", below]);
    }
    let door = named(&spans, "coracle exec");
    expect(door, &[("process.exit.code", "3"), ("coracle.door", "cli")]);
    assert_eq!(door.service, "coracle");
    let of_sandbox = [("coracle.sandbox.id", sandbox.as_str()), ("coracle.backend", "native")];
    let operation = named(&spans, "sandbox_exec");
    expect(operation, &of_sandbox);
    expect(operation, &[("coracle.outcome", "ok"), ("container.image.name", "host")]);
    assert!(operation.attributes.contains_key("coracle.run.id"), "{operation:?}");
    let exec = named(&spans, "guest exec");
    expect(exec, &of_sandbox);
    expect(
        exec,
        &[
            ("coracle.exec.id", "exec_traced"),
            ("coracle.exec.outcome", "exited"),
            ("process.exit.code", "3"),
            ("coracle.exec.output_bytes", "6"),
        ],
    );
    assert_eq!(exec.events, ["started"]);
    assert!(!exec.failed, "a command that fails is a result");
}

#[test]
fn making_and_removing_a_sandbox_has_spans_down_to_the_backend() {
    requires!(native);
    let collector = Collector::honest();
    let home = home_with(&collector);

    let sandbox = home.open();
    home.call(["close", &sandbox]).succeed();

    let made = collector.trace_with("sandbox create");
    for below in ["backend prepare", "backend create"] {
        expect_path(&made, &["coracle open", "sandbox_open", "session open", "sandbox create", below]);
    }
    expect(named(&made, "sandbox_open"), &[("coracle.sandbox.id", &sandbox)]);
    let removed = collector.trace_with("sandbox destroy");
    expect_path(&removed, &["coracle close", "sandbox_close", "sandbox destroy"]);
}

#[test]
fn output_that_is_passed_on_as_it_comes_ends_with_its_outcome() {
    requires!(native);
    let collector = Collector::honest();
    let home = home_with(&collector);
    let sandbox = home.open();

    home.call(["exec", &sandbox, "--timeout", "300ms", "--", "sleep", "60"]).run().expect_code(124);

    let spans = collector.trace_with("guest exec follow");
    expect_path(&spans, &["coracle exec", "sandbox_exec", "guest exec start"]);
    let followed = named(&spans, "guest exec follow");
    expect(followed, &[("coracle.exec.outcome", "timed_out"), ("coracle.exec.limits_hit", "wall_time")]);
}

#[test]
fn a_failure_has_its_kind_in_the_span_and_not_its_message() {
    requires!(native);
    let collector = Collector::honest();
    let home = home_with(&collector);

    home.call(["exec", "sbx_00000000000000000000000000", "--json", "--", "true"]).run().expect_code(125);

    let spans = collector.trace_with("sandbox_exec");
    let admit = named(&spans, "gate admit");
    expect(admit, &[("error.type", "not_found"), ("coracle.outcome", "not_found")]);
    for name in ["gate admit", "sandbox_exec", "coracle exec"] {
        assert!(named(&spans, name).failed, "{name}");
        expect(named(&spans, name), &[("error.type", "not_found")]);
    }
}

#[test]
fn a_request_over_http_is_one_trace_below_its_caller() {
    requires!(native);
    let collector = Collector::honest();
    let home = home_with(&collector);
    let sandbox = home.open();
    let daemon = Daemon::start(&home);

    let exec = Request::post(&format!("/v1/sandboxes/{sandbox}/execs"), &json!({"cmd": ["true"]}));
    exec.header("traceparent", &traceparent()).send(&daemon.unix()).expect(200);

    // The span of the request is the last to end.
    let post = "POST /v1/sandboxes/{sandbox_id}/execs";
    let spans = collector.trace_with(post);
    assert_eq!(named(&spans, post).trace, TRACE);
    assert_eq!(named(&spans, post).parent, CALLER);
    for below in ["gate admit", "guest connect", "guest exec"] {
        expect_path(&spans, &[post, "sandbox_exec", below]);
    }
    let request = named(&spans, post);
    expect(request, &[("http.response.status_code", "200"), ("coracle.door", "http")]);
    expect(request, &[("http.request.method", "POST"), ("http.route", "/v1/sandboxes/{sandbox_id}/execs")]);
    drop(daemon);
}

#[test]
fn a_call_of_a_tool_is_one_trace_below_what_the_client_names() {
    requires!(native);
    let collector = Collector::honest();
    let home = home_with(&collector);
    let sandbox = home.open();
    let daemon = Daemon::start(&home);

    let call = |meta: Value| {
        let arguments = json!({"sandbox_id": sandbox, "cmd": ["true"]});
        message("tools/call", &json!({"name": "sandbox_exec", "arguments": arguments, "_meta": meta}))
    };
    call(json!({"traceparent": traceparent()})).send(&daemon.unix()).expect(200);
    let spans = collector.trace_with("tools/call sandbox_exec");

    assert_eq!(named(&spans, "tools/call sandbox_exec").trace, TRACE);
    assert_eq!(named(&spans, "tools/call sandbox_exec").parent, CALLER);
    expect_path(&spans, &["tools/call sandbox_exec", "sandbox_exec", "guest exec"]);

    // Without a word of the client's it belongs to the request it came with.
    let other = TRACE.replace("0af7", "1af7");
    let request = call(json!({})).header("traceparent", &format!("00-{other}-{CALLER}-01"));
    request.send(&daemon.unix()).expect(200);
    let arrived = coracle_tests::eventually(std::time::Duration::from_secs(15), || {
        collector.spans().iter().any(|span| span.trace == other && span.name == "POST /mcp")
    });
    assert!(arrived.is_some(), "{:?}", names(&collector.spans()));
    let spans: Vec<_> = collector.spans().into_iter().filter(|span| span.trace == other).collect();
    expect_path(&spans, &["POST /mcp", "tools/call sandbox_exec", "sandbox_exec", "guest exec"]);
    drop(daemon);
}

#[test]
fn a_file_read_as_a_resource_is_one_trace_below_what_the_client_names() {
    requires!(native);
    let collector = Collector::honest();
    let home = home_with(&collector);
    let sandbox = home.open();
    let daemon = Daemon::start(&home);
    home.call(["fs", "write", &sandbox, "f"]).stdin("hello").succeed();

    let uri = format!("coracle://{sandbox}/f");
    let read = message("resources/read", &json!({"uri": uri, "_meta": {"traceparent": traceparent()}}));
    let answer = read.send(&daemon.unix()).expect(200);

    assert!(String::from_utf8_lossy(&answer.body).contains("hello"));
    let spans = collector.trace_with("resources/read");
    assert_eq!(named(&spans, "resources/read").trace, TRACE);
    assert_eq!(named(&spans, "resources/read").parent, CALLER);
    expect(
        named(&spans, "resources/read"),
        &[("mcp.method.name", "resources/read"), ("coracle.door", "mcp")],
    );
    expect_path(&spans, &["resources/read", "sandbox_fs_read"]);
    daemon.end().expect_code(0);
}

#[test]
fn progress_messages_are_neither_traces_nor_operations() {
    requires!(native);
    let collector = Collector::honest();
    let home = home_with(&collector).env("CORACLE_SPARES", "0");
    let sandbox = home.open();
    let daemon = Daemon::start(&home);
    let before = collector.spans().len();

    let long = ["sh", "-c", "echo hello; sleep 2"];
    let calls = [
        ("/mcp", json!({"name": "sandbox_exec", "arguments": {"sandbox_id": sandbox, "cmd": long}})),
        (
            "/mcp?mode=compute",
            json!({"name": "sandbox_run", "arguments": {"runtime": "bash", "code": long[2]}}),
        ),
    ];
    for (path, mut params) in calls {
        params["_meta"] = json!({"progressToken": "p"});
        let answer = message_to(path, "tools/call", &params).send(&daemon.unix()).expect(200);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(text.contains("6 bytes of output"), "a progress message was sent: {text}");
    }
    let scraped = Request::get("/metrics").send(&daemon.unix()).expect(200);
    daemon.end().expect_code(0);

    let spans = collector.spans().split_off(before);
    // The daemon sweeps when it starts, and by itself.
    let roots = spans.iter().filter(|span| span.parent.is_empty() && span.name != "janitor sweep");
    assert_eq!(roots.map(|span| &*span.name).collect::<Vec<_>>(), ["POST /mcp", "POST /mcp"]);
    assert!(
        !names(&spans).contains(&"sandbox_exec_wait") && !names(&spans).contains(&"sandbox_get"),
        "{spans:?}"
    );
    let text = String::from_utf8_lossy(&scraped.body).into_owned();
    assert!(!text.contains("sandbox_exec_wait") && !text.contains("sandbox_get"), "{text}");
}

#[test]
fn a_client_on_standard_input_is_below_the_process_that_started_the_server() {
    requires!(native);
    let collector = Collector::honest();
    let home = home_with(&collector);

    let (server, mut stdin) = client_of(home.call(["mcp"]).env("TRACEPARENT", traceparent()));
    say(&mut stdin, &json!({"id": 2, "method": "tools/call", "params": {"name": "sandbox_open"}}));
    server.wait_for(|said| String::from_utf8_lossy(said).contains("\"id\":2"));
    drop(stdin);
    server.finish().expect_code(0);

    let spans = collector.trace_with("tools/call sandbox_open");
    assert_eq!(named(&spans, "tools/call sandbox_open").trace, TRACE);
    assert_eq!(named(&spans, "tools/call sandbox_open").parent, CALLER);
    expect_path(&spans, &["tools/call sandbox_open", "sandbox_open", "session open", "sandbox create"]);
}

#[test]
fn stopping_what_a_client_takes_back_belongs_to_its_call() {
    requires!(native);
    let collector = Collector::honest();
    let home = home_with(&collector);
    let sandbox = home.open();
    let (server, mut stdin) = client_of(home.call(["mcp"]));

    let arguments = json!({"sandbox_id": sandbox, "cmd": ["sh", "-c", "touch started; sleep 60"]});
    let exec = json!({"name": "sandbox_exec", "arguments": arguments});
    say(&mut stdin, &json!({"id": 2, "method": "tools/call", "params": exec}));
    let started = coracle_tests::eventually(std::time::Duration::from_secs(15), || {
        home.call(["fs", "read", &sandbox, "started"]).run().code() == Some(0)
    });
    assert!(started.is_some(), "the command does not start");
    say(&mut stdin, &json!({"method": "notifications/cancelled", "params": {"requestId": 2}}));

    // The span of the call is the last to end.
    let spans = collector.trace_with("tools/call sandbox_exec");
    expect_path(&spans, &["tools/call sandbox_exec", "sandbox_exec_stop"]);
    drop(stdin);
    server.finish().expect_code(0);
}

#[test]
fn every_verb_that_calls_the_engine_has_a_span() {
    requires!(native);
    let collector = Collector::honest();
    let home = home_with(&collector);

    home.call(["stats"]).succeed();

    expect_path(&collector.spans(), &["coracle stats", "sandbox_stats"]);
}

#[test]
fn what_a_daemon_has_not_sent_yet_goes_out_when_it_ends() {
    requires!(native);
    let collector = Collector::honest();
    // Longer than the test: only the end can be what sends it.
    let home = Home::new()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
        .env("OTEL_BSP_SCHEDULE_DELAY", "600000");
    let daemon = Daemon::start(&home);

    Request::get("/v1/sandboxes").send(&daemon.unix()).expect(200);
    daemon.end().expect_code(0);

    let spans = collector.spans();
    expect_path(&spans, &["GET /v1/sandboxes", "sandbox_list"]);
}

#[test]
fn nothing_is_sent_when_it_is_switched_off() {
    requires!(native);
    let collector = Collector::honest();
    let home = home_with(&collector).env("OTEL_SDK_DISABLED", "true");

    home.call(["ps"]).succeed();

    assert!(collector.received().is_empty());
}

#[test]
fn nonsense_for_a_parent_makes_a_root() {
    requires!(native);
    let collector = Collector::honest();
    let home = home_with(&collector);
    let long = "0".repeat(100_000);

    for nonsense in ["", "x", "00-0-0-0", "00-00000000000000000000000000000000-0000000000000000-01", &long] {
        home.call(["ps"]).env("TRACEPARENT", nonsense).succeed();
    }

    let roots: Vec<_> = collector.spans().into_iter().filter(|span| span.name == "coracle ps").collect();
    assert_eq!(roots.len(), 5);
    assert!(roots.iter().all(|root| root.parent.is_empty()), "{roots:?}");
}
