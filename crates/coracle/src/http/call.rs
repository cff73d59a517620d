//! One operation: its input from path, query and body, its output as JSON.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use axum::{Extension, RequestExt};
use coracle::{Error, SandboxId};
use coracle_core::answer::RequestKey;
use serde_json::{Map, Value};

use super::auth::{self, Identity};
use super::idempotency;
use super::reply::{self, Refusal};
use super::routes::{Method, Route};
use super::{Door, body, query};

/// The way to an operation, and the schemas of its input's fields.
pub type Way = (&'static Route, Arc<Value>);

pub async fn serve(
    (route, fields): Way,
    State(door): State<Door>,
    Extension(identity): Extension<Identity>,
    names: Result<query::Names, PathRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    identity.may(route.operation)?;
    let Path(names) = names.map_err(Refusal::unreadable)?;
    let key = key(route, &request)?;
    let input = input(route, &fields, names, request).await?;
    let Some(key) = key else {
        let done = door.ask(move |engine| engine.call(&identity.caller, route.operation, input)).await?;
        let sandbox = about(&done);
        return Ok(with(sandbox, reply::json(&done)));
    };
    let keys = door.0.keys.clone();
    let asked = idempotency::Request::new(&identity, key, route.operation, input);
    door.ask(move |engine| Ok(keys.once(engine, &identity, asked))).await?
}

/// Returns the key of a request that changes something. One that only asks may be sent again anyway.
fn key(route: &Route, request: &Request) -> Result<Option<RequestKey>, Refusal> {
    match route.method {
        Method::Get => Ok(None),
        Method::Post | Method::Delete => {
            let text = auth::text(request.headers(), "idempotency-key")?;
            Ok(text.map(str::parse).transpose()?)
        }
    }
}

/// Returns the sandbox an answer is about, for the audit log.
fn about(done: &Value) -> Option<SandboxId> {
    done["sandbox_id"].as_str()?.parse().ok()
}

fn with(sandbox: Option<SandboxId>, mut response: Response) -> Response {
    if let Some(sandbox) = sandbox {
        response.extensions_mut().insert(sandbox);
    }
    response
}

/// Puts together what an operation is told.
async fn input(
    route: &Route,
    fields: &Value,
    names: Vec<(String, String)>,
    mut request: Request,
) -> Result<Value, Refusal> {
    let mut input = Map::new();
    query::put(&mut input, fields, names)?;
    let Query(pairs) = request.extract_parts::<query::Pairs>().await.map_err(Refusal::unreadable)?;
    match route.method {
        Method::Get | Method::Delete => query::put(&mut input, fields, pairs)?,
        Method::Post => {
            if let Some((name, _)) = pairs.first() {
                return Err(Error::invalid(&name.escape_debug().to_string(), "belongs into the body").into());
            }
            let (parts, body) = request.into_parts();
            for (name, value) in body::object(&parts.headers, body).await? {
                if input.insert(name.clone(), value).is_some() {
                    return Err(Error::invalid(&name, "is in the path already").into());
                }
            }
        }
    }
    Ok(Value::Object(input))
}
