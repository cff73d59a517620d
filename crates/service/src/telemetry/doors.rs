//! The spans of doors: what came in, in the words the conventions have for it, and whom it came from.

use std::fmt::Arguments;
use std::sync::OnceLock;

use coracle::Kind;
use tracing::field::Empty;
use tracing::{Span, info_span};

use super::parent::adopt;

/// The span of whoever started this process, if they said.
static STARTED_BY: OnceLock<String> = OnceLock::new();

/// The span of the request something came with, for those it is passed on to.
#[derive(Debug, Clone)]
pub struct Came(pub Span);

/// Remembers who started this process.
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

/// Writes on the span of a call how the process ends.
pub fn exits(code: i32) {
    Span::current().record("process.exit.code", code);
}

/// Writes on it that coracle itself failed, and how.
pub fn failed(kind: Kind) {
    Span::current().record("error.type", kind.as_str());
    Span::current().record("otel.status_code", "ERROR");
}

/// One request over HTTP. Its path is not told: it names sandboxes, files and volumes. The route is ours.
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

/// Writes down how a request was answered. Only what is our fault is an error of ours.
pub fn answered(span: &Span, status: u16) {
    span.record("http.response.status_code", status);
    if status >= 500 {
        span.record("otel.status_code", "ERROR");
    }
}

/// What a message of an MCP client says of where it comes from.
#[derive(Debug, Clone, Copy, Default)]
pub struct Origin<'a> {
    /// What the client names.
    pub traceparent: Option<&'a str>,
    /// The request it came with.
    pub came: Option<&'a Came>,
}

/// One call of a tool.
pub fn tool(operation: &'static str, origin: Origin<'_>) -> Span {
    message(format_args!("tools/call {operation}"), "tools/call", Some(operation), origin)
}

/// One reading of a resource. Which one is not told: it names sandboxes and files.
pub fn resource(origin: Origin<'_>) -> Span {
    message(format_args!("resources/read"), "resources/read", None, origin)
}

/// The child of what the client names, of the request it came with, or of who started us.
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

/// A method anybody may make up is not told.
fn known(method: &str) -> &'static str {
    const METHODS: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"];
    METHODS.into_iter().find(|known| *known == method).unwrap_or("_OTHER")
}
