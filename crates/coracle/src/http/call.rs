//! One operation: its input from path, query and body, its output as JSON.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use axum::{Extension, RequestExt};
use coracle::Error;
use serde_json::{Map, Value};

use super::auth::Identity;
use super::reply::{self, Refusal};
use super::routes::{Method, Route};
use super::{Door, body, query};

pub async fn serve(
    (route, fields): (&'static Route, Arc<Value>),
    State(door): State<Door>,
    Extension(identity): Extension<Identity>,
    names: Result<query::Names, PathRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    identity.may(route.operation)?;
    let Path(names) = names.map_err(Refusal::unreadable)?;
    let input = input(route, &fields, names, request).await?;
    let done = door.ask(move |engine| engine.call(&identity.caller, route.operation, input)).await?;
    Ok(reply::json(&done))
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
