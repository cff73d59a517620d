//! One operation: its input from path, query and body, its output as JSON.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use axum::{Extension, RequestExt};
use coracle::Error;
use coracle_core::answer::RequestKey;
use coracle_core::cancel::{Cancel, CancelOnDrop};
use coracle_engine::{Call, Engine};
use serde_json::{Map, Value, json};

use super::query;
use super::routes::{Method, Route};
use coracle_service::auth::{self, Identity};
use coracle_service::idempotency;
use coracle_service::reply::{self, Refusal};
use coracle_service::shares::{Permit, Share};
use coracle_service::{Deadline, Service, body};

/// A route to an operation, and the schemas of its input's fields.
pub type Way = (&'static Route, Arc<Value>);

pub async fn serve(
    (route, fields): Way,
    State(service): State<Service>,
    Extension(identity): Extension<Identity>,
    names: Result<query::Names, PathRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    identity.may(route.operation)?;
    let Path(names) = names.map_err(Refusal::unreadable)?;
    let facts = service.engine().catalogue().expect(route.operation)?.facts;
    let (key, deadline) = (key(route, &request)?, Deadline::kept_in(request.extensions()));
    let share = service.share_of(&identity);
    // Before anything is done, and before the key is taken.
    let (input, _held) = deadline.bound(input(&share, route, &fields, names, request)).await??;
    let booking = share.book()?;
    let cancel = Cancel::default();
    let call = Call::by(identity.caller.clone()).cancelled_by(cancel.clone()).under_key(key);
    let call = call.until(deadline.instant());
    let ends = (!facts.outlives_client).then(|| service.ending().include(&cancel));
    let response = match call.key.clone() {
        None => {
            // Only this client could ever get the answer.
            let unwanted = (!facts.outlives_client).then(|| CancelOnDrop::of(&cancel));
            let work = move |engine: &Engine| {
                let _ends = ends;
                Ok(reply::answer(&engine.call(call, route.operation, input)?))
            };
            let response = service.carry_out(&booking, work).await;
            if let Some(unwanted) = unwanted {
                unwanted.disarm();
            }
            response?
        }
        Some(key) => {
            let (keys, asker) = (service.keys().clone(), identity.clone());
            let asked = idempotency::Request::new(&identity, key, route.operation, input);
            let work = move |engine: &Engine| {
                let _ends = ends;
                Ok(keys.once(engine, &asker, &call, asked))
            };
            service.carry_out(&booking, work).await??
        }
    };
    Ok(booking.carried(response).await)
}

/// Returns the key of a request that changes something. A read-only one may be repeated without a key.
fn key(route: &Route, request: &Request) -> Result<Option<RequestKey>, Refusal> {
    match route.method {
        Method::Get => Ok(None),
        Method::Post | Method::Delete => {
            let text = auth::text(request.headers(), "idempotency-key")?;
            Ok(text.map(str::parse).transpose()?)
        }
    }
}

/// Cancels a running request of the caller.
pub async fn cancel(
    State(service): State<Service>,
    Extension(identity): Extension<Identity>,
    named: Result<Path<String>, PathRejection>,
) -> Result<Response, Refusal> {
    let Path(key) = named.map_err(Refusal::unreadable)?;
    let key: RequestKey = key.parse()?;
    service.keys().cancel(&identity, key)?;
    // It may be too late: what came of the request is in its own answer.
    Ok(reply::answer(&json!({"cancel_requested": true})))
}

/// Builds the input of an operation, and takes its memory from the caller's share.
async fn input(
    share: &Share,
    route: &Route,
    fields: &Value,
    names: Vec<(String, String)>,
    mut request: Request,
) -> Result<(Value, Option<Permit>), Refusal> {
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
