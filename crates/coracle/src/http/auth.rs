//! Who a request comes from.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use coracle::{Epoch, Error, Kind, RunId};
use coracle_engine::Caller;

use super::reply::Refusal;
use super::{Door, Peer};

/// Who asks, as far as the door knows.
#[derive(Debug, Clone)]
pub struct Identity {
    pub caller: Caller,
    /// For the audit log: `uid:1000`.
    pub who: String,
}

impl Identity {
    /// Refuses an operation that was not granted.
    pub fn may(&self, _operation: &str) -> Result<(), Refusal> {
        Ok(())
    }
}

/// Returns who sent a request, or refuses it.
pub fn identify(door: &Door, request: &Request) -> Result<Identity, Refusal> {
    let peer = request.extensions().get::<Peer>();
    let caller = caller(door, request.headers())?;
    match peer {
        // Root may do anything to us anyway.
        Some(Peer::Unix { uid }) if *uid == 0 || *uid == rustix::process::geteuid().as_raw() => {
            Ok(Identity { caller, who: format!("uid:{uid}") })
        }
        _ => Err(nobody()),
    }
}

fn caller(door: &Door, headers: &HeaderMap) -> Result<Caller, Refusal> {
    let run = match text(headers, "coracle-run")? {
        Some(run) => run.parse::<RunId>()?,
        None => door.0.run.clone(),
    };
    let epoch = match text(headers, "coracle-epoch")? {
        Some(epoch) => {
            Some(Epoch(epoch.parse().map_err(|_| Error::invalid("Coracle-Epoch", "is not a number"))?))
        }
        None => None,
    };
    Ok(Caller::acting_as(run).under(epoch))
}

/// Returns the one value of a header. Two would leave it to chance which counts.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(value), None) => Ok(Some(value)),
        _ => Err(Error::invalid(name, "must stand once, in plain characters").into()),
    }
}

fn nobody() -> Refusal {
    let error = Error::new(Kind::Denied, "the request shows nothing that would allow it")
        .hint("send `Authorization: Bearer TOKEN`; `coracle token create` makes one");
    Refusal::new(StatusCode::UNAUTHORIZED, error)
        .header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}
