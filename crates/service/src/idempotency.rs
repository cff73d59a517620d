//! Idempotency keys, which make it safe to repeat a request: it is carried out once, and answered the same each time.
//! A request that was refused before it did anything was not carried out, so its key is free again.
//!
//! A call cut off by the end of the daemon has no answer. It is carried out again where that changes nothing more:
//! above all an exec, whose id is made from the key. For everything else the answer is that the outcome is unknown.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use coracle::{Engine, Error, Kind, Result};
use coracle_core::answer::{Answer, Answers, Asked, Bounds, EXEC_OF_KEY, Fingerprint, Recalled, RequestKey};
use coracle_core::redact::redact;
use coracle_core::{Cancel, Timestamp};
use coracle_engine::Call;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::auth::Identity;
use super::reply::{self, Refusal};
use crate::warning::warn;

/// How long answers are kept.
pub const KEPT: Duration = Duration::from_secs(24 * 3600);
/// Bounds for each tenant: a request every ten seconds for a day, and no more than a small disk notices.
const BOUNDS: Bounds = Bounds { keys: 10_000, bytes: 64 << 20 };
/// Longer answers are not kept.
const ANSWER_MAX: usize = 1 << 20;
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The known idempotency keys.
#[derive(Clone)]
pub struct Keys {
    answers: Arc<dyn Answers>,
    /// Requests being carried out. One without an answer that is not here was cut off.
    underway: UnderWay,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

/// One request with a key.
#[derive(Debug)]
pub struct Request {
    asked: Asked,
    question: Fingerprint,
    operation: &'static str,
    input: Value,
}

/// Returns the tenant, run and key of a request.
fn asked_by(identity: &Identity, key: RequestKey) -> Asked {
    let caller = &identity.caller;
    Asked { tenant: caller.tenant.clone(), run: caller.claim.run.clone(), key }
}

/// Returns what tells one ceiling from another.
fn ceiling_of(identity: &Identity) -> Option<String> {
    identity.caller.ceiling.as_ref().map(|ceiling| format!("{ceiling:?}"))
}

impl Request {
    pub fn new(identity: &Identity, key: RequestKey, operation: &'static str, mut input: Value) -> Self {
        let asked = asked_by(identity, key);
        let text = input.to_string();
        let mut parts = vec![operation.as_bytes(), text.as_bytes()];
        // Another token of the tenant that may have less must not get this token's answer.
        let ceiling = ceiling_of(identity);
        parts.extend(ceiling.as_ref().map(|ceiling| ceiling.as_bytes()));
        let question = fingerprint(&parts);
        if operation == "sandbox_exec" && input["exec_id"].is_null() {
            input["exec_id"] = exec_id(&asked).into();
        }
        Self { asked, question, operation, input }
    }

    /// Tells whether a repetition does no more than the first time.
    fn is_repeatable(&self, engine: &Engine) -> bool {
        let known = engine.catalogue().find(self.operation);
        known.is_some_and(|entry| entry.facts.is_repeatable(&self.input))
    }
}

/// Makes the id of an exec from the key, so that the guest recognises a repetition.
fn exec_id(asked: &Asked) -> String {
    let run = asked.run.as_str().as_bytes();
    let digest = fingerprint(&[run, asked.key.as_str().as_bytes()]);
    let digits: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{EXEC_OF_KEY}{digits}")
}

/// Hashes each part with its length, so that no two lists of parts are the same text.
fn fingerprint(parts: &[&[u8]]) -> Fingerprint {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

impl Keys {
    pub fn new(answers: Arc<dyn Answers>) -> Self {
        Self { answers, underway: Arc::default() }
    }

    /// Forgets answers that are past their retention.
    pub fn forget(&self, engine: &Engine) -> Result<usize> {
        let kept = u64::try_from(KEPT.as_millis()).unwrap_or(u64::MAX);
        let before = engine.records().observed()?.as_millis().saturating_sub(kept);
        self.answers.forget_asked(Timestamp::from_millis(before))
    }

    /// Cancels a request that is being carried out. The caller must have the right to its operation. The request of a
    /// token with another ceiling looks like one that does not exist.
    pub fn cancel(&self, identity: &Identity, key: RequestKey) -> Result<(), Refusal> {
        // Not under the lock: a cancelled request may end at once, and then releases its turn.
        let found = {
            let underway = self.underway.lock().unwrap_or_else(PoisonError::into_inner);
            underway.get(&asked_by(identity, key.clone())).cloned()
        };
        let found = found.filter(|found| found.ceiling == ceiling_of(identity));
        let Some(Cancellable { operation, cancel, .. }) = found else {
            let message = format!("no request with the key `{}` is being carried out", key.as_str());
            return Err(Error::new(Kind::NotFound, message)
                .hint("it has ended, or was never sent: sent again with its key, it has its answer")
                .into());
        };
        identity.may(operation)?;
        cancel.cancel();
        Ok(())
    }

    /// Carries out a request, or returns its earlier answer. Blocks.
    pub fn once(
        &self,
        engine: &Engine,
        identity: &Identity,
        call: &Call,
        request: Request,
    ) -> Result<Response, Refusal> {
        let cancellable = Cancellable {
            operation: request.operation,
            ceiling: ceiling_of(identity),
            cancel: call.cancel.clone(),
        };
        let Some(_turn) = Turn::take(&self.underway, &request.asked, cancellable) else {
            return Err(under_way());
        };
        match self.answers.ask(&request.asked, &request.question, engine.records().observed()?, BOUNDS)? {
            Recalled::New => self.carry_out(engine, identity, call, request),
            Recalled::Unanswered if request.is_repeatable(engine) => {
                self.carry_out(engine, identity, call, request)
            }
            Recalled::Unanswered => Err(cut_off()),
            Recalled::Other => Err(other_question()),
            Recalled::Answered(answer) => {
                engine.expect_room(answer.body.len() as u64)?;
                Ok(replayed(answer))
            }
        }
    }

    fn carry_out(
        &self,
        engine: &Engine,
        identity: &Identity,
        call: &Call,
        request: Request,
    ) -> Result<Response, Refusal> {
        let repeatable = request.is_repeatable(engine);
        let Request { asked, operation, input, .. } = request;
        let done = engine.call(call, operation, input);
        match &done {
            Ok(reply) => self.keep(&asked, StatusCode::OK, reply, repeatable),
            // What prevented it may be gone at the next attempt.
            Err(error) if did_nothing(error.kind) => self.answers.withdraw(&asked)?,
            // How far it came is unknown: without an answer it is carried out again when it is repeated.
            Err(error) if error.kind == Kind::NotAvailable && repeatable => {}
            Err(error) => {
                self.keep(&asked, reply::status(error.kind), &shown(identity, error), repeatable);
            }
        }
        done.map(|reply| reply::answer(&reply)).map_err(Refusal::from)
    }

    /// Keeps an answer that is not too long. A longer answer to a repeatable request is made again by repeating it. A
    /// failure to store the answer does not undo the work.
    fn keep(&self, asked: &Asked, status: StatusCode, document: &Value, repeatable: bool) {
        let body = document.to_string().into_bytes();
        let answer = match body.len() <= ANSWER_MAX {
            true => Answer { status: status.as_u16(), body },
            false if repeatable => return,
            false => {
                let refusal = too_long();
                Answer {
                    status: refusal.status.as_u16(),
                    body: refusal.error.to_json().to_string().into_bytes(),
                }
            }
        };
        if let Err(error) = self.answers.answer(asked, &answer, BOUNDS) {
            warn(&format!("an answer could not be kept: {}", error.chain()));
        }
    }
}

/// Tells whether an error of this kind means that a request was refused before it did anything. Such an answer is not
/// kept, because repeating the request does nothing twice.
fn did_nothing(kind: Kind) -> bool {
    match kind {
        Kind::Invalid
        | Kind::NotFound
        | Kind::Denied
        | Kind::NotOwner
        | Kind::StaleEpoch
        | Kind::LentOut
        | Kind::Conflict
        | Kind::LimitExceeded
        | Kind::ImageNotFound
        | Kind::ImageNotAllowed
        | Kind::Unsupported => true,
        // The work had started, and some of it may have been done.
        Kind::NotAvailable
        | Kind::StartFailed
        | Kind::ExecutionFailed
        | Kind::Timeout
        | Kind::Aborted
        | Kind::EgressDenied
        | Kind::Internal => false,
    }
}

/// Returns an error as its caller may see it: the kept answer is the one that was sent.
fn shown(identity: &Identity, error: &Error) -> Value {
    match identity.caller.tenant {
        None => error.to_json(),
        Some(_) => redact(error).to_json(),
    }
}

/// The requests with a key that are being carried out, whether or not their clients still wait.
type UnderWay = Arc<Mutex<HashMap<Asked, Cancellable>>>;

/// What ends a request early, which operation the canceller needs a right to, and below which ceiling.
#[derive(Debug, Clone)]
struct Cancellable {
    operation: &'static str,
    ceiling: Option<String>,
    cancel: Cancel,
}

/// The right to carry out the request of a key. Dropping it releases it.
struct Turn {
    underway: UnderWay,
    asked: Asked,
}

impl Turn {
    fn take(underway: &UnderWay, asked: &Asked, cancellable: Cancellable) -> Option<Self> {
        match underway.lock().unwrap_or_else(PoisonError::into_inner).entry(asked.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(place) => place.insert(cancellable),
        };
        Some(Self { underway: underway.clone(), asked: asked.clone() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.underway.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.asked);
    }
}

fn replayed(answer: Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let sandbox = serde_json::from_slice(&answer.body).ok().as_ref().and_then(reply::sandbox_in);
    let mut response = reply::written(status, answer.body);
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    reply::about(sandbox, response)
}

fn other_question() -> Refusal {
    let error = Error::new(Kind::Conflict, "another request was sent under this key")
        .hint("use a new `Idempotency-Key` for each new request");
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, error)
}

fn under_way() -> Refusal {
    let error = Error::new(Kind::Conflict, "a request under this key is being carried out")
        .hint("send it again to get its result");
    Refusal::from(error).header(header::RETRY_AFTER, HeaderValue::from(1))
}

fn cut_off() -> Refusal {
    let error =
        Error::new(Kind::Conflict, "the request under this key was cut off; how far it came is unknown")
            .hint("check the current state, then send it under a new key if it is still needed")
            .detail("outcome", json!("unknown"));
    error.into()
}

fn too_long() -> Refusal {
    let error = Error::new(
        Kind::Conflict,
        "the request under this key was carried out; its answer was too long to be kept",
    )
    .hint(format!("answers of up to {ANSWER_MAX} bytes are kept"))
    .detail("outcome", json!("done"));
    error.into()
}
