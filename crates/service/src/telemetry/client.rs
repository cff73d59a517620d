//! Sends telemetry to a collector: one bounded request at a time, over the HTTP client we have anyway.

use std::future::Future;
use std::io::Read;
use std::pin::Pin;
use std::time::Duration;

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use ureq::Agent;

/// The most of a collector's answer that is read. It says which spans were rejected; the beginning is enough.
const ANSWER_MAX: u64 = 64 << 10;

/// Sends, waits for the answer within the timeout, and follows no redirects.
#[derive(Debug)]
pub struct Client(Agent);

impl Client {
    pub fn new(patience: Duration) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // The headers may hold secrets, which must not go to another place.
            .max_redirects(0)
            .max_redirects_will_error(false)
            // Only `config` reads the environment.
            .proxy(None)
            .user_agent(concat!("coracle/", env!("CARGO_PKG_VERSION")))
            .timeout_global(Some(patience))
            .max_response_header_size(16 << 10)
            .build();
        Self(config.new_agent())
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = self.0.run(request.map(|body| body.to_vec()))?.into_parts();
        let mut answer = Vec::new();
        body.into_reader().take(ANSWER_MAX).read_to_end(&mut answer)?;
        Ok(Response::from_parts(parts, answer.into()))
    }
}

impl HttpClient for Client {
    // Blocks: the exporters have threads of their own and nothing else to do there.
    fn send_bytes<'client, 'answer>(
        &'client self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'answer>>
    where
        'client: 'answer,
        Self: 'answer,
    {
        Box::pin(async move { self.send(request) })
    }
}
