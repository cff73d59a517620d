//! The spans of doors: each request, with the attributes of the semantic conventions, and its parent.

use std::fmt::Arguments;
use std::sync::OnceLock;

use coracle::Kind;
use tracing::field::Empty;
use tracing::{Span, info_span};

use super::parent::adopt;

/// The span of the program that started this process, if it passed one.
static STARTED_BY: OnceLock<String> = OnceLock::new();

/// The span of the HTTP request that a message came with.
#[derive(Debug, Clone)]
pub struct Came(pub Span);

/// Remembers the span of the program that started this process.
pub fn started_by(traceparent: Option<&str>) {
    if let Some(traceparent) = traceparent {
        STARTED_BY.get_or_init(|| traceparent.to_owned());
    }
}

/// One call of the binary.
pub fn command(verb: &'static str) -> Span {
    let span = info_span!(
        "call",
        otel.name = format_args!("coracle {verb}"),
        coracle.door = "cli",
        process.executable.name = "coracle",
        process.exit.code = Empty,
        error.type = Empty,
        otel.status_code = Empty,
    );
    adopt_starter(&span);
    span
}

/// Records on the span of a call how the process ends.
pub fn exits(code: i32) {
    Span::current().record("process.exit.code", code);
}

/// Records on it that coracle itself failed, and how.
pub fn failed(kind: Kind) {
    Span::current().record("error.type", kind.as_str());
    Span::current().record("otel.status_code", "ERROR");
}

/// One request over HTTP. Records the route and not the path, which names sandboxes, files and volumes.
pub fn request(method: &str, route: &str, traceparent: Option<&str>) -> Span {
    let method = known(method);
    let span = info_span!(
        "request",
        otel.name = format_args!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
        coracle.door = "http",
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
    );
    if let Some(traceparent) = traceparent {
        adopt(&span, traceparent);
    }
    span
}

/// Records how a request was answered. Only a fault of ours is an error.
pub fn answered(span: &Span, status: u16) {
    span.record("http.response.status_code", status);
    if status >= 500 {
        span.record("otel.status_code", "ERROR");
    }
}

/// The origin of an MCP client's message.
#[derive(Debug, Clone, Copy, Default)]
pub struct Origin<'a> {
    /// The parent the client names.
    pub traceparent: Option<&'a str>,
    /// The HTTP request it came with.
    pub came: Option<&'a Came>,
}

/// One call of a tool.
pub fn tool(operation: &'static str, origin: Origin<'_>) -> Span {
    message(format_args!("tools/call {operation}"), "tools/call", Some(operation), origin)
}

/// One reading of a resource. Does not record which one: it names sandboxes and files.
pub fn resource(origin: Origin<'_>) -> Span {
    message(format_args!("resources/read"), "resources/read", None, origin)
}

/// Makes a span whose parent is the one the client names, the HTTP request, or the program that started us.
fn message(
    name: Arguments<'_>,
    method: &'static str,
    tool: Option<&'static str>,
    origin: Origin<'_>,
) -> Span {
    macro_rules! span {
        ($($parent:tt)*) => {
            info_span!(
                $($parent)*
                "message",
                otel.name = name,
                otel.kind = "server",
                coracle.door = "mcp",
                mcp.method.name = method,
                gen_ai.tool.name = tool,
            )
        };
    }
    match (origin.traceparent, origin.came) {
        (Some(traceparent), _) => {
            let span = span!(parent: None,);
            adopt(&span, traceparent);
            span
        }
        (None, Some(Came(request))) => span!(parent: request,),
        (None, None) => {
            let span = span!();
            adopt_starter(&span);
            span
        }
    }
}

fn adopt_starter(span: &Span) {
    if let Some(traceparent) = STARTED_BY.get() {
        adopt(span, traceparent);
    }
}

/// Replaces unknown methods, which clients may make up.
fn known(method: &str) -> &'static str {
    const METHODS: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"];
    METHODS.into_iter().find(|known| *known == method).unwrap_or("_OTHER")
}
