//! Sends requests: follows redirects itself, retries within bounds, and says in errors which host failed.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use coracle_core::cancel::Registration;
use coracle_core::{Cancel, Error, Kind, Result};
use ureq::config::Config;
use ureq::http::header::{ACCEPT, AUTHORIZATION, LOCATION, RANGE, RETRY_AFTER};
use ureq::http::{Response, Uri};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body};

use super::address::{Forbidden, Guard};
use super::origin::{Origin, Scheme};
use crate::store::Registries;

/// How many redirects to follow.
const HOPS_MAX: u32 = 5;
/// How often to try what may work the next time, and how long to wait first; each further wait is twice as long.
const TRIES: u32 = 4;
pub const FIRST_WAIT: Duration = Duration::from_millis(200);
/// We give up on a registry that asks us to wait longer.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// How long one small document may take, from the first attempt to its last byte.
pub const SMALL_TIME: Duration = Duration::from_secs(120);

/// Talks to one registry and to the hosts it leads to.
#[derive(Debug)]
pub struct Transport {
    agent: Agent,
    pub registry: Origin,
    registries: Registries,
    cancel: Cancel,
    /// What is being fetched, for messages.
    subject: String,
}

/// One request. The authorization goes only to the registry.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    pub accept: Option<&'a str>,
    pub authorization: Option<&'a str>,
    /// Where in the content to begin.
    pub from: u64,
    /// By then the complete answer must have been read.
    pub deadline: Instant,
}

impl Request<'_> {
    /// Returns a request with this deadline and nothing else.
    pub fn until(deadline: Instant) -> Self {
        Self { accept: None, authorization: None, from: 0, deadline }
    }
}

impl Transport {
    pub fn new(subject: String, registry: Origin, registries: &Registries, cancel: Cancel) -> Result<Self> {
        let guard = Guard { registry: registry.clone(), private: registries.private.clone() };
        let config = Config::builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            // We check the addresses we connect to; behind a proxy we could not.
            .proxy(None)
            .user_agent(concat!("coracle/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(Duration::from_secs(10)))
            .timeout_connect(Some(Duration::from_secs(10)))
            .timeout_send_request(Some(Duration::from_secs(10)))
            .timeout_recv_response(Some(Duration::from_secs(30)))
            .timeout_per_read(Some(Duration::from_secs(30)))
            .max_response_header_size(64 << 10)
            .tls_config(TlsConfig::builder().root_certs(roots(registries.extra_roots.as_deref())?).build())
            .build();
        let agent = Agent::with_parts(config, DefaultConnector::default(), guard);
        Ok(Self { agent, registry, registries: registries.clone(), cancel, subject })
    }

    /// Ends requests in progress, and refuses others, once the work is cancelled.
    pub fn cut_at(&self, cancel: &Cancel) -> Registration {
        let agent = self.agent.clone();
        cancel.on_cancel(move || agent.shutdown())
    }

    /// Asks the registry for a path. Follows redirects, and repeats what may work the next time.
    pub fn get(&self, path: &str, request: &Request<'_>) -> Result<Response<Body>> {
        let uri = self.address(&format!("{}{path}", self.registry))?;
        self.persevere(request.deadline, || self.follow(&uri, request))
    }

    /// Sends one request to a server that is not the registry, with an authorization for it alone. Follows no
    /// redirects.
    pub fn ask(&self, uri: &Uri, authorization: Option<&str>, form: Option<&str>) -> Result<Response<Body>> {
        self.check_scheme(&Origin::of(uri).map_err(|error| self.unusable(uri, error.0))?, uri)?;
        let deadline = Instant::now() + SMALL_TIME;
        self.persevere(deadline, || {
            let limit = Some(remaining(deadline));
            let answer = match form {
                Some(form) => {
                    let request = self.agent.post(uri).config().timeout_global(limit).build();
                    request.content_type("application/x-www-form-urlencoded").send(form)
                }
                None => {
                    let request = self.agent.get(uri).config().timeout_global(limit).build();
                    match authorization {
                        Some(authorization) => request.header(AUTHORIZATION, authorization),
                        None => request,
                    }
                    .call()
                }
            };
            answer.map_err(|error| self.failed(uri, error))
        })
    }

    /// Reads an address that a registry gave.
    pub fn address(&self, text: &str) -> Result<Uri> {
        text.parse().map_err(|error| {
            let shown: String = text.chars().take(200).collect();
            Error::new(
                Kind::Invalid,
                format!("could not get {}: the registry leads to a malformed address", self.subject),
            )
            .detail("address", shown)
            .caused_by(error)
        })
    }

    fn persevere(
        &self,
        deadline: Instant,
        attempt: impl Fn() -> Result<Response<Body>>,
    ) -> Result<Response<Body>> {
        let mut wait = FIRST_WAIT;
        for _ in 1..TRIES {
            let answer = attempt();
            self.cancel.check()?;
            let pause = match answer {
                Ok(answer) if is_passing(answer.status().as_u16()) => wait_for(&answer, wait),
                Err(error) if error.kind == Kind::NotAvailable => wait,
                result => return result,
            };
            self.cancel.sleep(pause.min(remaining(deadline)));
            if remaining(deadline).is_zero() {
                return Err(self.too_slow());
            }
            wait *= 2;
        }
        let answer = attempt()?;
        match answer.status().as_u16() {
            status if is_passing(status) => {
                Err(self.not_available(&format!("the registry answers {status}")))
            }
            _ => Ok(answer),
        }
    }

    fn follow(&self, uri: &Uri, request: &Request<'_>) -> Result<Response<Body>> {
        let mut uri = uri.clone();
        for _ in 0..=HOPS_MAX {
            let origin = Origin::of(&uri).map_err(|error| self.unusable(&uri, error.0))?;
            self.check_scheme(&origin, &uri)?;
            let answer = self.send(&uri, &origin, request)?;
            if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok(answer);
            }
            uri = self.next(&origin, &answer)?;
        }
        Err(Error::new(Kind::Invalid, format!("could not get {}: too many redirects", self.subject))
            .hint(format!("more than {HOPS_MAX} redirects are not followed")))
    }

    fn send(&self, uri: &Uri, origin: &Origin, request: &Request<'_>) -> Result<Response<Body>> {
        let mut sent = self.agent.get(uri);
        if let Some(accept) = request.accept {
            sent = sent.header(ACCEPT, accept);
        }
        if let Some(authorization) = request.authorization.filter(|_| *origin == self.registry) {
            sent = sent.header(AUTHORIZATION, authorization);
        }
        if request.from > 0 {
            sent = sent.header(RANGE, format!("bytes={}-", request.from));
        }
        let limited = sent.config().timeout_global(Some(remaining(request.deadline))).build();
        limited.call().map_err(|error| self.failed(uri, error))
    }

    /// Returns where a redirect leads.
    fn next(&self, origin: &Origin, answer: &Response<Body>) -> Result<Uri> {
        let location =
            answer.headers().get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let location = location.split('#').next().unwrap_or_default();
        let absolute = match location {
            rest if rest.starts_with("//") => format!("{}:{rest}", scheme_name(origin)),
            path if path.starts_with('/') => format!("{origin}{path}"),
            other => other.to_owned(),
        };
        let next = self.address(&absolute)?;
        let target = Origin::of(&next).map_err(|error| self.unusable(&next, error.0))?;
        match (origin.scheme, target.scheme) {
            (Scheme::Https, Scheme::Http) => Err(self.unusable(&next, "it gives up TLS on the way")),
            _ => Ok(next),
        }
    }

    /// Refuses to connect without TLS where the operator has not allowed it.
    fn check_scheme(&self, origin: &Origin, uri: &Uri) -> Result<()> {
        let plain = *origin == self.registry || origin.may_be_plain(&self.registries.plain_http);
        match origin.scheme {
            Scheme::Http if !plain => Err(self.unusable(uri, "it is not protected by TLS")),
            _ => Ok(()),
        }
    }

    fn unusable(&self, uri: &Uri, why: &str) -> Error {
        let place = uri.authority().map_or_else(|| uri.to_string(), ToString::to_string);
        let message = format!(
            "could not get {}: the registry leads to `{}`: {why}",
            self.subject,
            place.escape_debug()
        );
        Error::new(Kind::Invalid, message).detail("place", place)
    }

    pub fn too_slow(&self) -> Error {
        self.not_available("the download took too long")
    }

    pub fn not_available(&self, what: &str) -> Error {
        Error::new(Kind::NotAvailable, format!("could not get {}: {what}", self.subject))
            .detail("registry", self.registry.place())
            .hint(match self.registry.scheme {
                Scheme::Http => format!("is `{}` the right registry, and does it run?", self.registry),
                Scheme::Https => format!(
                    "can this machine reach `{}`? A registry without TLS must be listed in `registries.plain_http`",
                    self.registry
                ),
            })
    }

    fn failed(&self, uri: &Uri, error: ureq::Error) -> Error {
        if let ureq::Error::Io(inner) = &error
            && let Some(forbidden) = inner.get_ref().and_then(|inner| inner.downcast_ref::<Forbidden>())
        {
            return self.unusable(uri, &forbidden.to_string()).hint(
                "a registry must not lead into your network; if you trust this place, list it in `registries.private`",
            );
        }
        let place = Origin::of(uri)
            .map_or_else(|_| "the registry".to_owned(), |origin| format!("`{}`", origin.place()));
        match is_certificate(&error) {
            true => Error::new(
                Kind::Invalid,
                format!("could not get {}: {place} has no certificate that is trusted here", self.subject),
            )
            .caused_by(error)
            .hint("if you trust the registry, add the certificate it is signed with to `registries.extra_roots`"),
            false => self.not_available(&format!("{place} cannot be reached")).caused_by(error),
        }
    }
}

/// Tells whether the server failed to prove its identity. The connection's errors wrap these.
fn is_certificate(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) => true,
        ureq::Error::Io(inner) => {
            inner.kind() == io::ErrorKind::InvalidData && inner.to_string().contains("certificate")
        }
        _ => false,
    }
}

/// Too many requests, or an error of the registry's own.
fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504)
}

/// Returns how long to wait before the next attempt: what the registry asks for, or `wait`.
fn wait_for(answer: &Response<Body>, wait: Duration) -> Duration {
    let asked = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    asked.map_or(wait, Duration::from_secs).min(WAIT_MAX)
}

fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

fn scheme_name(origin: &Origin) -> &'static str {
    match origin.scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    }
}

/// Returns the certificates to trust: the machine's, and those in the operator's file.
fn roots(extra: Option<&Path>) -> Result<RootCerts> {
    let native = rustls_native_certs::load_native_certs().certs;
    let mut roots: Vec<Certificate<'static>> =
        native.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
    if let Some(path) = extra {
        let unreadable = || {
            Error::invalid(
                "registries.extra_roots",
                format!("is `{}`, which has no certificates", path.display()),
            )
        };
        let text = fs::read(path).map_err(|error| unreadable().caused_by(error))?;
        let before = roots.len();
        for item in parse_pem(&text) {
            if let PemItem::Certificate(certificate) = item.map_err(|error| unreadable().caused_by(error))? {
                roots.push(certificate);
            }
        }
        if roots.len() == before {
            return Err(unreadable());
        }
    }
    // A machine without certificates, as small ones are, uses Mozilla's.
    Ok(if roots.is_empty() { RootCerts::WebPki } else { RootCerts::from(roots.into_iter()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(from: &str, location: &str) -> Result<Uri> {
        let registry = Origin::of(&from.parse().expect("is an address")).expect("is of the web");
        let transport =
            Transport::new("it".into(), registry.clone(), &Registries::default(), Cancel::default())
                .expect("can be made");
        let answer = Response::builder()
            .status(307)
            .header(LOCATION, location)
            .body(Body::builder().data(""))
            .expect("is one");
        transport.next(&registry, &answer)
    }

    #[test]
    fn a_redirect_never_gives_up_tls() {
        for location in ["http://a.example/x", "http://127.0.0.1/x", "HTTP://a.example/x"] {
            assert!(next("https://a.example", location).is_err(), "{location}");
        }
        assert!(next("https://a.example", "https://b.example/x").is_ok());
    }

    #[test]
    fn a_redirect_may_leave_out_what_stays_the_same() {
        let of = |location| next("https://a.example:8443", location).map(|uri| uri.to_string()).ok();

        assert_eq!(of("/x?y#z").as_deref(), Some("https://a.example:8443/x?y"));
        assert_eq!(of("//b.example/x").as_deref(), Some("https://b.example/x"));
        assert_eq!(of("x/y"), None);
        assert_eq!(of("https://user:word@b.example/"), None);
    }
}
