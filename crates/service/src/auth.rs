//! Authenticates requests: by the kernel's peer credentials on the unix socket, by a token everywhere else.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use base64::Engine as _;
use coracle::{Epoch, Error, Kind, RunId};
use coracle_core::Ceiling;
use coracle_core::ceiling::Bounds;
use coracle_core::redact::redact;
use coracle_core::token::{Scope, Shown, Token, TokenStatus};
use coracle_core::{TenantId, TokenId};
use coracle_engine::Caller;

use super::admit::RequestId;
use super::reply::Refusal;
use super::{Peer, Service};
use crate::warning::warn;

/// The client of a request, as far as the door knows.
#[derive(Debug, Clone)]
pub struct Identity {
    pub caller: Caller,
    /// For the audit log: `uid:1000` or `token:tok_…`.
    pub who: String,
    pub scope: Scope,
    /// The token the client sent.
    token: Option<TokenId>,
    /// The bounds of the token, besides those of the tenant.
    pub bounds: Option<Box<Bounds>>,
    /// The client's network address.
    pub from: Option<IpAddr>,
    /// The request's id, in the answer and in the audit log.
    pub request: String,
}

impl Identity {
    /// Returns an error as this caller may see it, possibly redacted. The full error then goes to standard error, for
    /// the operator.
    pub fn told(&self, error: Error) -> Error {
        self.told_instead(&error).unwrap_or(error)
    }

    /// Returns the redacted error, if this caller may not see the full one.
    pub fn told_instead(&self, error: &Error) -> Option<Error> {
        let tenant = self.caller.tenant.as_ref()?;
        let (redacted, chain) = (redact(error), error.chain());
        if redacted.message != chain {
            warn(&format!("request `{}` of tenant `{tenant}` failed: {chain}", self.request));
        }
        Some(redacted)
    }

    /// Refuses an operation that the token's scope does not cover.
    pub fn may(&self, operation: &str) -> Result<(), Refusal> {
        match self.scope.covers(operation) {
            true => Ok(()),
            false => Err(out_of_scope(operation)),
        }
    }
}

/// An authenticated client, before the run it acts as is known.
struct Known {
    who: String,
    token: Option<TokenId>,
    tenant: Option<TenantId>,
    bounds: Option<Bounds>,
    scope: Scope,
    /// The run it acts as by default.
    run: RunId,
}

/// The credentials in a request.
pub(crate) struct Shows {
    peer: Option<Peer>,
    token: Option<Shown>,
    run: Option<RunId>,
    epoch: Option<Epoch>,
    request: String,
}

impl Shows {
    /// Reads the credentials, or refuses ambiguous ones.
    pub fn read(request: &Request) -> Result<Self, Refusal> {
        let headers = request.headers();
        let epoch = text(headers, "coracle-epoch")?.map(|epoch| {
            epoch.parse().map(Epoch).map_err(|_| Error::invalid("Coracle-Epoch", "is not a number"))
        });
        Ok(Self {
            peer: request.extensions().get::<Peer>().cloned(),
            token: authorization(headers, is_git(request))?,
            run: text(headers, "coracle-run")?.map(str::parse).transpose()?,
            epoch: epoch.transpose()?,
            request: request.extensions().get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default(),
        })
    }
}

/// Returns who sent a request, or refuses it.
///
/// A token counts on the unix socket, too: the home's owner can have a program do less.
pub(crate) async fn identify(service: &Service, shows: Shows) -> Result<Identity, Refusal> {
    let from = shows.peer.as_ref().and_then(Peer::address);
    let known = match (shows.peer, shows.token) {
        // Root could do anything to us anyway.
        (Some(Peer::Unix { uid }), token) if is_own(uid) => match token {
            Some(shown) => of_token(service, shown).await?,
            None => Known {
                who: format!("uid:{uid}"),
                token: None,
                tenant: None,
                bounds: None,
                scope: Scope::all(),
                run: service.0.run.clone(),
            },
        },
        (Some(Peer::Tcp(_)), Some(shown)) => of_token(service, shown).await?,
        _ => return Err(unauthenticated()),
    };
    let caller = Caller::acting_as(shows.run.unwrap_or(known.run)).under(shows.epoch);
    let caller = Caller { tenant: known.tenant, ..caller };
    let caller = match &known.bounds {
        Some(bounds) => caller.below(Ceiling::of_token(bounds.clone())),
        None => caller,
    };
    Ok(Identity {
        caller,
        who: known.who,
        scope: known.scope,
        token: known.token,
        bounds: known.bounds.map(Box::new),
        from,
        request: shows.request,
    })
}

/// Tells whether the caller's token is still valid. It counts as valid if it cannot be looked up now.
pub async fn is_still_valid(service: &Service, identity: &Identity) -> bool {
    let Some(id) = identity.token.clone() else { return true };
    let (tokens, clock) = (service.0.tokens.clone(), service.0.clock.clone());
    let found = service.look(move |_| Ok(tokens.find(&id)?.map(|token| token.status(clock.now()))));
    match found.await {
        Ok(status) => status == Some(TokenStatus::Valid),
        Err(_) => true,
    }
}

fn is_own(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Returns the client a token belongs to. Only the operator may learn why a token is invalid; `coracle token list`
/// shows it.
async fn of_token(service: &Service, shown: Shown) -> Result<Known, Refusal> {
    let (tokens, clock) = (service.0.tokens.clone(), service.0.clock.clone());
    let found = tokio::task::spawn_blocking(move || -> Result<Option<Token>, Error> {
        let found = tokens.find(&shown.id)?;
        Ok(found.filter(|token| token.admit(&shown, clock.now()).is_ok()))
    });
    match found.await.map_err(|error| Error::internal("the token could not be looked up", error))?? {
        Some(token) => Ok(known_by(token)?),
        None => Err(unauthenticated()),
    }
}

/// A tenant acts as a run of its own name, so that all its tokens reach what one of them opened.
fn known_by(token: Token) -> Result<Known, Error> {
    Ok(Known {
        who: format!("token:{}", token.id),
        token: Some(token.id),
        run: token.tenant.as_str().parse()?,
        tenant: Some(token.tenant),
        bounds: token.bounds,
        scope: token.scope,
    })
}

/// Tells whether a request comes from a client of git, which asks its person for a name and a password.
pub(crate) fn is_git(request: &Request) -> bool {
    request.uri().path().starts_with("/git/")
}

/// Returns a refusal as clients of git understand it: they send a password only when they are asked for one.
pub(crate) fn asking_for_password(refusal: Refusal) -> Refusal {
    match refusal.status {
        StatusCode::UNAUTHORIZED => {
            refusal.header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"coracle\""))
        }
        _ => refusal,
    }
}

/// Returns the password of `Basic`; the name before it says nothing.
fn password(encoded: &str) -> Option<String> {
    let decoded = base64::engine::general_purpose::STANDARD.decode(encoded.trim()).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    text.split_once(':').map(|(_, password)| password.to_owned())
}

/// Returns the token the client sent. Any other authorization is refused, not ignored.
fn authorization(headers: &HeaderMap, takes_passwords: bool) -> Result<Option<Shown>, Refusal> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let value = value.to_str().ok().filter(|_| values.next().is_none()).ok_or_else(unauthenticated)?;
    let (scheme, token) = value.split_once(' ').ok_or_else(unauthenticated)?;
    let shown = if scheme.eq_ignore_ascii_case("bearer") {
        token.trim_start_matches(' ').to_owned()
    } else if takes_passwords && scheme.eq_ignore_ascii_case("basic") {
        password(token).ok_or_else(unauthenticated)?
    } else {
        return Err(unauthenticated());
    };
    shown.parse().map(Some).map_err(|_| unauthenticated())
}

/// Returns the only value of a header. With two, it would be left to chance which one counts.
pub fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(value), None) => Ok(Some(value)),
        _ => Err(Error::invalid(name, "must appear once, in plain characters").into()),
    }
}

/// The same answer for a missing, a wrong, an expired, a revoked and an unknown token.
fn unauthenticated() -> Refusal {
    let error = Error::new(Kind::Denied, "missing or invalid token")
        .hint("send `Authorization: Bearer TOKEN`; `coracle token create` makes one");
    Refusal::new(StatusCode::UNAUTHORIZED, error)
        .header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"coracle\""))
}

fn out_of_scope(operation: &str) -> Refusal {
    let error = Error::new(Kind::Denied, format!("this token is not good for `{operation}`"))
        .hint("have the operator make one with `coracle token create --allow`")
        .detail("operation", operation);
    Refusal::new(StatusCode::FORBIDDEN, error)
}
