//! One operation: its input from path, query and body, its output as JSON.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use axum::{Extension, RequestExt};
use coracle::{Error, SandboxId};
use coracle_core::answer::RequestKey;
use coracle_engine::Engine;
use serde_json::{Map, Value};

use super::auth::{self, Identity};
use super::idempotency;
use super::reply::{self, Refusal};
use super::routes::{Method, Route};
use super::shares::{Held, Share};
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
    let share = door.share_of(&identity);
    let (input, _held) = input(&share, route, &fields, names, request).await?;
    let booking = share.book()?;
    let response = match key {
        None => {
            let caller = identity.caller.clone();
            let work = move |engine: &Engine| Ok(answer(&engine.call(&caller, route.operation, input)?));
            door.carry_out(&booking, work).await?
        }
        Some(key) => {
            let (keys, asker) = (door.0.keys.clone(), identity.clone());
            let asked = idempotency::Request::new(&identity, key, route.operation, input);
            door.carry_out(&booking, move |engine| Ok(keys.once(engine, &asker, asked))).await??
        }
    };
    Ok(booking.carried(response).await)
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

/// Answers with what an operation returned.
pub fn answer(done: &Value) -> Response {
    about(sandbox_in(done), reply::json(done))
}

/// Returns the sandbox an input or an answer is about.
pub fn sandbox_in(done: &Value) -> Option<SandboxId> {
    done["sandbox_id"].as_str()?.parse().ok()
}

/// Says which sandbox a response is about, for the audit log.
pub fn about(sandbox: Option<SandboxId>, mut response: Response) -> Response {
    if let Some(sandbox) = sandbox {
        response.extensions_mut().insert(sandbox);
    }
    response
}

/// Puts together what an operation is told, and what that takes of the caller's share.
async fn input(
    share: &Share,
    route: &Route,
    fields: &Value,
    names: Vec<(String, String)>,
    mut request: Request,
) -> Result<(Value, Option<Held>), Refusal> {
    let mut input = Map::new();
    let mut held = None;
    query::put(&mut input, fields, names)?;
    let Query(pairs) = request.extract_parts::<query::Pairs>().await.map_err(Refusal::unreadable)?;
    match route.method {
        Method::Get | Method::Delete => query::put(&mut input, fields, pairs)?,
        Method::Post => {
            if let Some((name, _)) = pairs.first() {
                return Err(Error::invalid(&name.escape_debug().to_string(), "belongs into the body").into());
            }
            let (parts, body) = request.into_parts();
            let (object, taken) = body::object(share, &parts.headers, body).await?;
            held = Some(taken);
            for (name, value) in object {
                if input.insert(name.clone(), value).is_some() {
                    return Err(Error::invalid(&name, "is in the path already").into());
                }
            }
        }
    }
    Ok((Value::Object(input), held))
}
