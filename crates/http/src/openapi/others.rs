//! The routes that are not operations, and what all operations have in common.

use serde_json::{Map, Value, json};

use super::super::routes::Method;

const SANDBOX: &str = "/v1/sandboxes/{sandbox_id}";

/// Describes the routes that are no operation of their own.
pub fn paths() -> Map<String, Value> {
    let mut paths = Map::new();
    paths.insert(format!("{SANDBOX}/execs/{{exec_id}}/stream"), json!({"get": stream()}));
    paths.insert(format!("{SANDBOX}/execs/{{exec_id}}/attach"), json!({"get": attach()}));
    paths.insert(format!("{SANDBOX}/files"), json!({"get": download(), "put": upload()}));
    paths.insert("/v1/requests/{key}".to_owned(), json!({"delete": cancel()}));
    paths.insert("/healthz".to_owned(), json!({"get": public("health", "Tells that the daemon lives")}));
    paths.insert(
        "/readyz".to_owned(),
        json!({"get": public("ready", "Tells whether the daemon can do its work")}),
    );
    paths.insert(
        "/metrics".to_owned(),
        json!({"get": {
            "operationId": "metrics",
            "summary": "Returns metrics in the format of Prometheus",
            "responses": responses(json!({"text/plain": {"schema": {"type": "string"}}})),
        }}),
    );
    paths.insert(
        "/openapi.json".to_owned(),
        json!({"get": {
            "operationId": "openapi",
            "summary": "Returns this document",
            "responses": responses(json!({"application/json": {"schema": {"type": "object"}}})),
        }}),
    );
    paths
}

fn cancel() -> Value {
    let done = json!({"type": "object", "required": ["cancel_requested"],
        "properties": {"cancel_requested": {"const": true}}});
    json!({
        "operationId": "request_cancel",
        "summary": "Cancels a running request of the caller. The answer of that request says what came of it",
        "parameters": [{"name": "key", "in": "path", "required": true, "schema": {"type": "string"},
            "description": "The `Idempotency-Key` it was sent with"}, run()],
        "responses": responses(json!({"application/json": {"schema": done}})),
    })
}

fn stream() -> Value {
    let event = json!({
        "type": "object",
        "required": ["id", "event", "data"],
        "properties": {
            "id": {"type": "string", "description": "The number of the last chunk up to here"},
            "event": {"enum": ["chunk", "end", "error"]},
            "data": {"type": "string", "contentMediaType": "application/json"},
        },
    });
    json!({
        "operationId": "sandbox_exec_stream",
        "summary": "Streams the output of a command as server-sent events",
        "parameters": [sandbox_id(), run(), epoch(), deadline(), exec_id(), since_seq(), {
            "name": "Last-Event-ID", "in": "header", "required": false, "schema": {"type": "integer", "minimum": 0},
            "description": "Continues after this chunk; overrides `since_seq`",
        }],
        "responses": responses(json!({"text/event-stream": {"schema": event}})),
    })
}

/// Describes the stream of events.
pub fn happenings() -> Value {
    json!({"schema": {
        "type": "object",
        "required": ["id", "event", "data"],
        "properties": {
            "id": {"type": "string", "description": "The number of the event; `Last-Event-ID` continues after it"},
            "event": {"type": "string", "description": "The kind of the event, or `missed` where some were forgotten"},
            "data": {"type": "string", "contentMediaType": "application/json"},
        },
    }})
}

fn attach() -> Value {
    json!({
        "operationId": "sandbox_exec_attach",
        "summary": "Opens a WebSocket to a command: output one way, input, signals and terminal size the other",
        "parameters": [sandbox_id(), run(), epoch(), deadline(), exec_id(), since_seq(), {
            "name": "attend", "in": "query", "required": false, "schema": {"type": "boolean"},
            "description": "The command waits until this client has read its output, and its terminal hangs up when the client disconnects",
        }],
        "responses": {"101": {"description": "The connection is a WebSocket now"}, "4XX": refused_reference(), "5XX": refused_reference()},
    })
}

fn download() -> Value {
    json!({
        "operationId": "sandbox_file_download",
        "summary": "Sends a file as it is, of any size",
        "parameters": [sandbox_id(), run(), epoch(), deadline(), path()],
        "responses": responses(json!({"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}})),
    })
}

fn upload() -> Value {
    json!({
        "operationId": "sandbox_file_upload",
        "summary": "Writes a file from the body, whole or not at all",
        "parameters": [sandbox_id(), run(), epoch(), deadline(), path(),
            {"name": "mode", "in": "query", "required": false, "schema": {"type": "string", "pattern": "^[0-7]{3,4}$"}, "description": "Permissions in octal, `0644` if absent"},
            {"name": "overwrite", "in": "query", "required": false, "schema": {"type": "boolean"}, "description": "With `false` an existing file is a conflict"}],
        "requestBody": {"required": false, "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
        "responses": responses(json!({"application/json": {"schema": {
            "type": "object", "required": ["ok", "path"],
            "properties": {"ok": {"type": "boolean"}, "path": {"type": "string"}},
        }}})),
    })
}

fn public(name: &str, about: &str) -> Value {
    let status =
        json!({"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}});
    json!({
        "operationId": name,
        "summary": about,
        "security": [],
        "responses": responses(json!({"application/json": {"schema": status}})),
    })
}

fn sandbox_id() -> Value {
    json!({"name": "sandbox_id", "in": "path", "required": true, "schema": {"$ref": "#/components/schemas/SandboxId"}})
}

fn run() -> Value {
    json!({"$ref": "#/components/parameters/Run"})
}

fn epoch() -> Value {
    json!({"$ref": "#/components/parameters/Epoch"})
}

fn deadline() -> Value {
    json!({"$ref": "#/components/parameters/Deadline"})
}

fn exec_id() -> Value {
    json!({"name": "exec_id", "in": "path", "required": true, "schema": {"$ref": "#/components/schemas/ExecId"}})
}

fn since_seq() -> Value {
    json!({"name": "since_seq", "in": "query", "required": false, "schema": {"type": "integer", "minimum": 0},
        "description": "Continues after this chunk; chunks count from 1"})
}

fn path() -> Value {
    json!({"name": "path", "in": "query", "required": true, "schema": {"type": "string", "minLength": 1},
        "description": "Relative to the workspace, or absolute"})
}

/// Returns the responses of a route with this content on success.
pub fn responses(content: Value) -> Value {
    json!({"200": {"description": "Done", "content": content}, "4XX": refused_reference(), "5XX": refused_reference()})
}

fn refused_reference() -> Value {
    json!({"$ref": "#/components/responses/Refused"})
}

pub fn refused() -> Value {
    json!({"description": "Refused", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}})
}

/// Describes the error object of every door.
pub fn error() -> Value {
    json!({
        "type": "object",
        "required": ["error"],
        "properties": {"error": {
            "type": "object",
            "required": ["kind", "message", "hint", "details"],
            "properties": {
                "kind": {"type": "string", "description": "Stable, and the same on every door"},
                "message": {"type": "string"},
                "hint": {"type": ["string", "null"]},
                "details": {"type": "object"},
            },
        }},
    })
}

/// Describes the headers every operation takes.
pub fn headers() -> Value {
    json!({
        "Run": {"name": "Coracle-Run", "in": "header", "required": false,
            "schema": {"$ref": "#/components/schemas/RunId"}, "description": "The run that acts"},
        "Epoch": {"name": "Coracle-Epoch", "in": "header", "required": false,
            "schema": {"type": "integer", "minimum": 0}, "description": "The epoch the caller expects"},
        "Deadline": {"name": "Coracle-Deadline", "in": "header", "required": false, "schema": {"type": "string"},
            "description": "How long the request may take, as in `30s`: it is cancelled then, and a `timeout`"},
        "Key": {"name": "Idempotency-Key", "in": "header", "required": false,
            "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
            "description": "A request repeated under the same key is carried out once and gets the same answer"},
    })
}

pub fn header_names(method: Method) -> impl Iterator<Item = &'static str> {
    let key = match method {
        Method::Get => None,
        Method::Post | Method::Delete => Some("Key"),
    };
    ["Run", "Epoch", "Deadline"].into_iter().chain(key)
}
