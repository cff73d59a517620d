//! The client of registries: gets manifests and blobs of one repository, by the distribution specification.

mod address;
mod challenge;
pub mod credentials;
mod origin;
mod token;
mod transport;

use std::io::Read;
use std::sync::Mutex;
use std::time::Instant;

use coracle_core::cancel::Registration;
use coracle_core::image::Reference;
use coracle_core::{Cancel, Error, Kind, Result};
use ureq::Body;
use ureq::http::Response;
use ureq::http::header::{CONTENT_RANGE, CONTENT_TYPE, WWW_AUTHENTICATE};

use crate::digest::Digest;
use crate::manifest::{MANIFEST_KINDS, MANIFEST_MAX};
use crate::store::Registries;
use challenge::Challenge;
use origin::Origin;
pub use transport::FIRST_WAIT;
use transport::{Request, SMALL_TIME, Transport};

/// Gets documents of one repository.
#[derive(Debug)]
pub struct Client<'a> {
    reference: &'a Reference,
    registries: &'a Registries,
    transport: Transport,
    /// Ends requests in progress when the work is cancelled.
    _cut: Registration,
    /// The `Authorization` that the registry accepted last.
    authorization: Mutex<Option<String>>,
}

/// A document with the media type it came with.
#[derive(Debug)]
pub struct Fetched {
    pub bytes: Vec<u8>,
    /// The digest of the bytes, computed by us.
    pub digest: Digest,
    pub media_type: Option<String>,
}

/// A blob on its way.
pub struct Arriving {
    /// Where in the blob the data begins. Not the requested position if the registry cannot send parts.
    pub from: u64,
    pub reader: Box<dyn Read + Send>,
}

impl<'a> Client<'a> {
    pub fn new(reference: &'a Reference, registries: &'a Registries, cancel: &Cancel) -> Result<Self> {
        let origin = Origin::of_registry(reference.registry(), &registries.plain_http);
        let transport = Transport::new(format!("`{reference}`"), origin, registries, cancel.clone())?;
        let _cut = transport.cut_at(cancel);
        Ok(Self { reference, registries, transport, _cut, authorization: Mutex::default() })
    }

    /// Gets a manifest or index by tag or digest.
    pub fn manifest(&self, which: &str) -> Result<Fetched> {
        let path = format!("/v2/{}/manifests/{which}", self.reference.repository());
        let request = Request { accept: Some(MANIFEST_KINDS), ..Request::until(Instant::now() + SMALL_TIME) };
        let mut answer = self.get(&path, &request)?;
        self.check_status(&answer, "its manifest")?;
        let header =
            |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let media_type = header(CONTENT_TYPE.as_str());
        let claimed = header("docker-content-digest");
        let bytes = self.read(&mut answer, MANIFEST_MAX)?;
        let digest = Digest::of(&bytes);
        let wanted = Digest::parse(which);
        let claimed = claimed.as_deref().and_then(Digest::parse);
        match wanted.into_iter().chain(claimed).find(|expected| *expected != digest) {
            Some(expected) => Err(self.wrong_digest("its manifest", &expected, &digest)),
            None => Ok(Fetched { bytes, digest, media_type }),
        }
    }

    /// Gets a complete small blob, and checks it.
    pub fn small_blob(&self, digest: &Digest, size: u64) -> Result<Vec<u8>> {
        let mut arriving = self.blob(digest, 0, Instant::now() + SMALL_TIME)?;
        let mut bytes = Vec::new();
        let read = arriving.reader.by_ref().take(size + 1).read_to_end(&mut bytes);
        read.map_err(|error| self.transport.not_available("the registry breaks off").caused_by(error))?;
        let found = Digest::of(&bytes);
        match bytes.len() as u64 == size && found == *digest {
            true => Ok(bytes),
            false => Err(self.wrong_digest("its configuration", digest, &found)),
        }
    }

    /// Begins to get a blob, from some position on. Reading it fails after the deadline. Checks nothing.
    pub fn blob(&self, digest: &Digest, from: u64, deadline: Instant) -> Result<Arriving> {
        let path = format!("/v2/{}/blobs/{digest}", self.reference.repository());
        let answer = self.get(&path, &Request { from, ..Request::until(deadline) })?;
        self.check_status(&answer, &format!("blob `{digest}`"))?;
        let from = match answer.status().as_u16() {
            206 => content_start(&answer).filter(|start| *start == from).ok_or_else(|| {
                self.invalid("the registry sends another part of a blob than it was asked for")
            })?,
            _ => 0,
        };
        Ok(Arriving { from, reader: Box::new(answer.into_body().into_reader()) })
    }

    /// Sends a request, and repeats it with the authorization the registry asks for.
    fn get(&self, path: &str, request: &Request<'_>) -> Result<Response<Body>> {
        let known = self.known();
        let answer =
            self.transport.get(path, &Request { authorization: known.as_deref(), ..request.clone() })?;
        if answer.status().as_u16() != 401 {
            return Ok(answer);
        }
        let headers = answer.headers().get_all(WWW_AUTHENTICATE);
        let challenge = headers.iter().filter_map(|header| Challenge::parse(header.to_str().ok()?)).next();
        let Some(challenge) = challenge else { return Ok(answer) };
        match token::authorize(&self.transport, self.registries, self.reference, &challenge)? {
            None => Ok(answer),
            Some(authorization) => {
                let request = Request { authorization: Some(&authorization), ..request.clone() };
                let answer = self.transport.get(path, &request)?;
                *self.authorization.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) =
                    Some(authorization);
                Ok(answer)
            }
        }
    }

    fn known(&self) -> Option<String> {
        self.authorization.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    fn read(&self, answer: &mut Response<Body>, limit: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = answer.body_mut().as_reader().take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|error| self.transport.not_available("the registry breaks off").caused_by(error))?;
        match bytes.len() as u64 > limit {
            true => Err(Error::new(
                Kind::LimitExceeded,
                format!("could not get `{}`: its manifest is larger than {limit} bytes", self.reference),
            )),
            false => Ok(bytes),
        }
    }

    fn check_status(&self, answer: &Response<Body>, what: &str) -> Result<()> {
        let reference = self.reference;
        match answer.status().as_u16() {
            200 | 206 => Ok(()),
            status @ (401 | 403) => Err(Error::new(
                Kind::ImageNotFound,
                format!(
                    "image `{reference}` was not found, or may not be read: the registry answers {status}"
                ),
            )
            .detail("image", reference.to_string())
            .hint(format!(
                "check the name; if it is not public, run `docker login {}`",
                reference.registry()
            ))),
            404 => Err(Error::new(
                Kind::ImageNotFound,
                format!("image `{reference}` was not found: the registry does not have {what}"),
            )
            .detail("image", reference.to_string())
            .hint("check the name and the tag")),
            // The range is past the end: our part belongs to another blob.
            416 => Err(self.invalid("the registry has less of a blob than it says")),
            status => Err(self.transport.not_available(&format!("the registry answers {status}"))),
        }
    }

    pub fn invalid(&self, what: &str) -> Error {
        Error::new(Kind::Invalid, format!("could not get `{}`: {what}", self.reference))
    }

    pub fn too_slow(&self) -> Error {
        self.transport.too_slow()
    }

    pub fn wrong_digest(&self, what: &str, expected: &Digest, found: &Digest) -> Error {
        self.invalid(&format!("{what} has another digest than it should"))
            .detail("expected", expected.as_str())
            .detail("found", found.as_str())
            .hint("the registry, or something on the way to it, changes what it sends")
    }
}

/// Returns where a part of a blob begins, as in `bytes 100-199/200`.
fn content_start(answer: &Response<Body>) -> Option<u64> {
    let range = answer.headers().get(CONTENT_RANGE)?.to_str().ok()?;
    range.strip_prefix("bytes ")?.split_once('-')?.0.parse().ok()
}
