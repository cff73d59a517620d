//! Keys that make it safe to send a request again: it is carried out once, and answered the same each time. A request
//! that was refused before it did anything was not carried out, so its key is free again.
//!
//! A call that was cut off by the end of the daemon has no answer. Where carrying it out again changes nothing more, an
//! exec above all, whose id is made from the key, that is done; of everything else it is said that nobody knows.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use coracle::{Engine, Error, Kind, Result};
use coracle_core::answer::{Answer, Answers, Asked, Bounds, Fingerprint, Recalled, RequestKey};
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
/// What is kept for each tenant: a request every ten seconds for a day, and no more than a small disk notices.
const BOUNDS: Bounds = Bounds { keys: 10_000, bytes: 64 << 20 };
/// Longer answers are not kept.
const ANSWER_MAX: usize = 1 << 20;
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// What is known of requests with a key.
#[derive(Clone)]
pub struct Keys {
    answers: Arc<dyn Answers>,
    /// Those that are being carried out. One without an answer that is not here was cut off.
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

/// Returns whose request under a key it is.
fn asked_by(identity: &Identity, key: RequestKey) -> Asked {
    let caller = &identity.caller;
    Asked { tenant: caller.tenant.clone(), run: caller.claim.run.clone(), key }
}

impl Request {
    pub fn new(identity: &Identity, key: RequestKey, operation: &'static str, mut input: Value) -> Self {
        let (caller, asked) = (&identity.caller, asked_by(identity, key));
        let text = input.to_string();
        let mut parts = vec![operation.as_bytes(), text.as_bytes()];
        // What one token was answered is not for another of the tenant's that may have less.
        let ceiling = caller.ceiling.as_ref().map(|ceiling| format!("{ceiling:?}"));
        parts.extend(ceiling.as_ref().map(|ceiling| ceiling.as_bytes()));
        let question = fingerprint(&parts);
        if operation == "sandbox_exec" && input["exec_id"].is_null() {
            input["exec_id"] = exec_id(&asked).into();
        }
        Self { asked, question, operation, input }
    }

    /// Tells whether it may be carried out once more without doing more than the first time.
    fn is_repeatable(&self, engine: &Engine) -> bool {
        let known = engine.catalogue().find(self.operation);
        known.is_some_and(|entry| entry.facts.is_repeatable(&self.input))
    }
}

/// Makes the id of an exec from the key, so that the guest knows it for the one it has.
fn exec_id(asked: &Asked) -> String {
    let run = asked.run.as_str().as_bytes();
    let digest = fingerprint(&[run, asked.key.as_str().as_bytes()]);
    let digits: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("exec_key_{digits}")
}

/// Each part with its length, so that no two lists of parts are the same text.
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

    /// Forgets answers that were kept long enough.
    pub fn forget(&self, engine: &Engine) -> Result<usize> {
        let kept = u64::try_from(KEPT.as_millis()).unwrap_or(u64::MAX);
        let before = engine.observed()?.as_millis().saturating_sub(kept);
        self.answers.forget_asked(Timestamp::from_millis(before))
    }

    /// Cancels a request that is being carried out, for whoever may ask for what it does.
    pub fn cancel(&self, identity: &Identity, key: RequestKey) -> Result<(), Refusal> {
        // Not under the lock: what is cancelled may end at once, and gives back its turn then.
        let found = {
            let underway = self.underway.lock().unwrap_or_else(PoisonError::into_inner);
            underway.get(&asked_by(identity, key.clone())).cloned()
        };
        let Some(Cancellable { operation, cancel }) = found else {
            let message = format!("no request with the key `{}` is being carried out", key.as_str());
            return Err(Error::new(Kind::NotFound, message)
                .hint("it has ended, or was never sent: sent again with its key, it has its answer")
                .into());
        };
        identity.may(operation)?;
        cancel.cancel();
        Ok(())
    }

    /// Carries out a request, or tells what came of it before. Blocks.
    pub fn once(
        &self,
        engine: &Engine,
        identity: &Identity,
        call: &Call,
        request: Request,
    ) -> Result<Response, Refusal> {
        let cancellable = Cancellable { operation: request.operation, cancel: call.cancel.clone() };
        let Some(_turn) = Turn::take(&self.underway, &request.asked, cancellable) else {
            return Err(under_way());
        };
        match self.answers.ask(&request.asked, &request.question, engine.observed()?, BOUNDS)? {
            Recalled::New => self.carry_out(engine, identity, call, request),
            Recalled::Unanswered if request.is_repeatable(engine) => {
                self.carry_out(engine, identity, call, request)
            }
            Recalled::Unanswered => Err(cut_off()),
            Recalled::Other => Err(other_question()),
            Recalled::Answered(answer) => {
                engine.expect_room(answer.body.len() as u64)?;
                Ok(told_again(answer))
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
            // What stood in its way may be gone when it is sent again.
            Err(error) if did_nothing(error.kind) => self.answers.withdraw(&asked)?,
            // How far it came nobody knows: without an answer it is carried out again when it is sent again.
            Err(error) if error.kind == Kind::NotAvailable && repeatable => {}
            Err(error) => {
                self.keep(&asked, reply::status(error.kind), &shown(identity, error), repeatable);
            }
        }
        done.map(|reply| reply::answer(&reply)).map_err(Refusal::from)
    }

    /// Keeps an answer that is not too long. A longer one of what can be repeated is found by repeating it. What was done
    /// was done, even if that cannot be written down.
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

/// Tells whether an error of this kind says that a request was refused before it did anything. Such an answer is not
/// kept: there is nothing that must not be done twice.
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
        // It was begun, and some of it may have been done.
        Kind::NotAvailable
        | Kind::StartFailed
        | Kind::ExecutionFailed
        | Kind::Timeout
        | Kind::Aborted
        | Kind::EgressDenied
        | Kind::Internal => false,
    }
}

/// Returns an error as its caller is shown it: what is kept is what was told.
fn shown(identity: &Identity, error: &Error) -> Value {
    match identity.caller.tenant {
        None => error.to_json(),
        Some(_) => redact(error).to_json(),
    }
}

/// The requests under a key that are being carried out, whether or not their clients wait for them.
type UnderWay = Arc<Mutex<HashMap<Asked, Cancellable>>>;

/// What ends a request early, and who may do that.
#[derive(Debug, Clone)]
struct Cancellable {
    operation: &'static str,
    cancel: Cancel,
}

/// The right to carry out what was asked under a key. Dropping it gives it back.
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

fn told_again(answer: Answer) -> Response {
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
        .hint("send it again to learn what came of it");
    Refusal::from(error).header(header::RETRY_AFTER, HeaderValue::from(1))
}

fn cut_off() -> Refusal {
    let error = Error::new(
        Kind::Conflict,
        "the request under this key was cut off, and nobody knows how far it came",
    )
    .hint("look at what is there now, then send it under a new key if it is still to be done")
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
