//! The route of each operation. A test compares the table with the list of operations: none is missing, and none is
//! there twice.

use axum::extract::{MatchedPath, Request};
use axum::routing::MethodFilter;
use coracle_engine::Catalogue;
use coracle_engine::catalogue::Entry;
use serde_json::Value;

/// What a request does, which decides whether it may be repeated without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Reads; its input is in the path and the query.
    Get,
    /// Changes something; its input is in the path and the body.
    Post,
    /// Removes something; its input is in the path and the query.
    Delete,
}

/// The route of one operation.
#[derive(Debug)]
pub struct Route {
    pub operation: &'static str,
    pub method: Method,
    /// Names in braces are fields of the operation's input.
    pub path: &'static str,
}

impl Route {
    pub fn filter(&self) -> MethodFilter {
        match self.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Delete => MethodFilter::DELETE,
        }
    }

    /// Tells whether the route is for requests of this method.
    pub fn is(&self, method: &axum::http::Method) -> bool {
        match self.method {
            Method::Get => method == axum::http::Method::GET || method == axum::http::Method::HEAD,
            Method::Post => method == axum::http::Method::POST,
            Method::Delete => method == axum::http::Method::DELETE,
        }
    }

    /// Returns the schemas of its operation.
    pub fn schemas(&self, catalogue: &Catalogue) -> Value {
        catalogue.find(self.operation).map(Entry::schemas).unwrap_or_default()
    }

    /// Returns the fields of the input that are in the path.
    pub fn fields(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }
}

macro_rules! table {
    ($($operation:literal => $method:ident $path:literal;)+) => {
        &[$(Route { operation: $operation, method: Method::$method, path: $path }),+]
    };
}

/// Every operation.
pub const ROUTES: &[Route] = table! {
    "sandbox_run" => Post "/v1/run";
    "sandbox_open" => Post "/v1/sandboxes";
    "sandbox_list" => Get "/v1/sandboxes";
    "sandbox_get" => Get "/v1/sandboxes/{sandbox_id}";
    "sandbox_close" => Delete "/v1/sandboxes/{sandbox_id}";
    "sandbox_exec" => Post "/v1/sandboxes/{sandbox_id}/execs";
    "sandbox_exec_read" => Get "/v1/sandboxes/{sandbox_id}/execs/{exec_id}/output";
    "sandbox_exec_wait" => Get "/v1/sandboxes/{sandbox_id}/execs/{exec_id}/wait";
    "sandbox_exec_stop" => Post "/v1/sandboxes/{sandbox_id}/execs/{exec_id}/stop";
    "sandbox_exec_write" => Post "/v1/sandboxes/{sandbox_id}/execs/{exec_id}/stdin";
    "sandbox_fs_read" => Get "/v1/sandboxes/{sandbox_id}/fs/read";
    "sandbox_fs_list" => Get "/v1/sandboxes/{sandbox_id}/fs/list";
    "sandbox_fs_stat" => Get "/v1/sandboxes/{sandbox_id}/fs/stat";
    "sandbox_fs_write" => Post "/v1/sandboxes/{sandbox_id}/fs/write";
    "sandbox_fs_move" => Post "/v1/sandboxes/{sandbox_id}/fs/move";
    "sandbox_fs_delete" => Post "/v1/sandboxes/{sandbox_id}/fs/delete";
    "sandbox_pause" => Post "/v1/sandboxes/{sandbox_id}/pause";
    "sandbox_resume" => Post "/v1/sandboxes/{sandbox_id}/resume";
    "sandbox_fork" => Post "/v1/sandboxes/{sandbox_id}/fork";
    "sandbox_snapshot" => Post "/v1/sandboxes/{sandbox_id}/snapshot";
    "sandbox_claim" => Post "/v1/sandboxes/{sandbox_id}/claim";
    "sandbox_transfer" => Post "/v1/sandboxes/{sandbox_id}/transfer";
    "sandbox_release" => Post "/v1/sandboxes/{sandbox_id}/release";
    "sandbox_network" => Post "/v1/sandboxes/{sandbox_id}/network";
    "sandbox_stats" => Get "/v1/stats";
    "event_list" => Get "/v1/events";
    "image_list" => Get "/v1/images";
    "image_pull" => Post "/v1/images/pull";
    "image_prepull" => Post "/v1/images/prepull";
    "image_build" => Post "/v1/images/build";
    "image_load" => Post "/v1/images/load";
    "image_remove" => Post "/v1/images/remove";
    "repo_add" => Post "/v1/repos";
    "repo_list" => Get "/v1/repos";
    "repo_get" => Get "/v1/repos/{repo}";
    "repo_pull" => Post "/v1/repos/{repo}/pull";
    "repo_push" => Post "/v1/repos/{repo}/push";
    "repo_remove" => Delete "/v1/repos/{repo}";
    "volume_list" => Get "/v1/volumes";
    "volume_remove" => Delete "/v1/volumes/{name}";
};

/// Returns the operation a route stands for.
pub fn operation_of(request: &Request) -> Option<&'static str> {
    let path = request.extensions().get::<MatchedPath>()?.as_str();
    if let Some(last) = path.strip_prefix("/v1/sandboxes/{sandbox_id}/") {
        match (request.method(), last) {
            (&axum::http::Method::GET, "execs/{exec_id}/stream") => return Some("sandbox_exec_read"),
            (&axum::http::Method::GET, "execs/{exec_id}/attach") => return Some("sandbox_exec_write"),
            (&axum::http::Method::GET, "files") => return Some("sandbox_fs_read"),
            (&axum::http::Method::PUT, "files") => return Some("sandbox_fs_write"),
            _ => {}
        }
    }
    if let Some(last) = path.strip_prefix("/git/{repo}/") {
        let asked = request.uri().query().unwrap_or_default();
        return match last == "git-receive-pack" || asked.contains("service=git-receive-pack") {
            true => Some(super::git::PUSH_SCOPE),
            false => Some(super::git::FETCH_SCOPE),
        };
    }
    let route = ROUTES.iter().find(|route| route.path == path && route.is(request.method()));
    route.map(|route| route.operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_one_route() {
        let mut routed: Vec<_> = ROUTES.iter().map(|route| route.operation).collect();
        let mut named = Catalogue::own().names();
        routed.sort_unstable();
        named.sort_unstable();

        assert_eq!(routed, named);
    }

    #[test]
    fn what_stands_in_a_path_is_a_field_of_the_input() {
        for route in ROUTES {
            let schema = route.schemas(Catalogue::own());
            for field in route.fields() {
                assert!(schema["input"]["properties"].get(field).is_some(), "{}: {field}", route.path);
            }
        }
    }
}
