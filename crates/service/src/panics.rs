//! A panic in one request ends that request alone: its client gets a 500, and everything else goes on.
//!
//! Operations run on threads of their own, whose panics the runtime reports as an error. This layer covers the code
//! before and after them, on the threads all requests share.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use coracle::{Error, Kind};

use super::reply::Refusal;

/// Serves a request, and answers 500 if its code panics.
pub async fn contain(request: Request, next: Next) -> Response {
    contained(next.run(request)).await
}

async fn contained(serving: impl Future<Output = Response>) -> Response {
    let mut serving = Box::pin(serving);
    poll_fn(move |context| {
        // A future that panicked is not polled again, so its half-done state is not seen. Our locks ignore poison.
        let polled = catch_unwind(AssertUnwindSafe(|| serving.as_mut().poll(context)));
        polled.unwrap_or_else(|_| Poll::Ready(Refusal::from(fault()).into_response()))
    })
    .await
}

/// The error a client gets. The daemon's standard error has the place of the panic.
pub fn fault() -> Error {
    Error::new(Kind::Internal, "the request failed because of a bug in coracle")
        .hint("the header `coracle-request` names it in the audit log")
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    fn served(serving: impl Future<Output = Response>) -> Response {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be made");
        runtime.block_on(contained(serving))
    }

    #[test]
    fn a_panic_is_an_answer_and_others_are_not_touched() {
        let broken = served(async { panic!("a fault of ours") });
        let whole = served(async { "fine".into_response() });

        assert_eq!(broken.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(whole.status(), StatusCode::OK);
    }
}
