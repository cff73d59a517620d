//! Refuses requests that foreign pages make a browser send, before authentication.
//!
//! A page can make a browser send requests to this machine under the page's own name that resolves here (DNS
//! rebinding), or send forms. The daemon answers only to names of this machine and of the settings. A request that
//! names its page is answered if the settings list that page, or if it is ours. No answer ever allows a page to read
//! it (CORS).
//!
//! The unix socket is guarded as well, because a person may have forwarded a port to it. Programs use any name for
//! it, so any name of one word is accepted; those of pages have a dot.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use coracle::config::Doors;
use coracle::{Error, Kind};

use super::Peer;
use super::reply::Refusal;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses requests under a foreign name, and those of pages that are not allowed.
pub fn check(doors: &Doors, request: &Request) -> Result<(), Refusal> {
    let host = check_host(doors, request)?;
    check_page(doors, host, request.headers())
}

/// Returns the host of a request, if it is ours.
fn check_host<'a>(doors: &Doors, request: &'a Request) -> Result<&'a str, Refusal> {
    let host = only(request.headers(), &header::HOST).ok_or_else(misdirected)?;
    let on_socket = matches!(request.extensions().get(), Some(Peer::Unix { .. }));
    let is_ours = |name: &str| is_ours(doors, name) || (on_socket && is_one_word(name));
    // Where the target contains a name, some programs use that one and some use the header; so they must agree.
    let same = request.uri().authority().is_none_or(|target| target.as_str().eq_ignore_ascii_case(host));
    match same && name(host).is_some_and(is_ours) {
        true => Ok(host),
        false => Err(misdirected()),
    }
}

/// Returns the only value of a header; `None` if there is none, or more than one.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(first)
}

/// Returns the name in `NAME[:PORT]` or `[ADDRESS][:PORT]`, with its brackets.
fn name(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.find(']')) {
        Some(end) => host.split_at(end + 2),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let whole = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    whole.then_some(name)
}

fn is_ours(doors: &Doors, name: &str) -> bool {
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    let loopback = bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let listed = || doors.hosts.iter().any(|host| host.eq_ignore_ascii_case(name));
    loopback || name.eq_ignore_ascii_case("localhost") || listed()
}

fn is_one_word(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn check_page(doors: &Doors, host: &str, headers: &HeaderMap) -> Result<(), Refusal> {
    if headers.contains_key(header::ORIGIN) {
        let ours = |origin: &str| {
            let name = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            name.is_some_and(|name| name.eq_ignore_ascii_case(host))
        };
        let allowed = |origin: &str| ours(origin) || doors.origins.iter().any(|known| known == origin);
        return match only(headers, &header::ORIGIN).is_some_and(allowed) {
            true => Ok(()),
            false => Err(foreign_page()),
        };
    }
    // Browsers send this header for links and pictures, too, which have no origin.
    match only(headers, &FETCH_SITE) {
        Some("same-origin" | "none") => Ok(()),
        None if !headers.contains_key(FETCH_SITE) => Ok(()),
        Some(_) | None => Err(foreign_page()),
    }
}

fn misdirected() -> Refusal {
    let error = Error::new(Kind::Denied, "the request is for another host")
        .hint("use `localhost`, or have the operator list the name in `serve.hosts`");
    Refusal::new(StatusCode::MISDIRECTED_REQUEST, error)
}

fn foreign_page() -> Refusal {
    let error = Error::new(Kind::Denied, "the request comes from a page that is not allowed")
        .hint("requests of programs have no `Origin`; `serve.origins` lists pages that may send some");
    Refusal::new(StatusCode::FORBIDDEN, error)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn doors() -> Doors {
        Doors { hosts: vec!["box.example.com".into()], origins: vec!["https://app.example.com".into()] }
    }

    fn asked(target: &str, headers: &[(&str, &str)]) -> u16 {
        asked_by(Peer::Tcp("127.0.0.1:5".parse().expect("an address")), target, headers)
    }

    fn asked_by(peer: Peer, target: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).expect("a request");
        request.extensions_mut().insert(peer);
        check(&doors(), &request).map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
    }

    #[test]
    fn names_of_this_machine_and_of_the_settings_are_answered() {
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1",
            "127.0.0.1:7070",
            "127.9.9.9",
            "[::1]",
            "[::1]:7070",
            "box.example.com",
            "Box.Example.Com:443",
        ] {
            assert_eq!(asked("/v1/sandboxes", &[("host", host)]), 200, "{host}");
        }
    }

    #[test]
    fn other_names_are_misdirected() {
        for host in [
            "evil.com",
            "localhost.evil.com",
            "127.0.0.1.nip.io",
            "localhost.",
            "localhost:",
            "localhost:x",
            "localhost:99999",
            "localhost:80:80",
            "",
            "0.0.0.0",
            "[::]",
            "[::1",
            "::1",
            "127.1",
            "2130706433",
            "127.0.0.1@evil.com",
            "evil.com#localhost",
            "localhost evil.com",
            "10.0.0.1",
            "xbox.example.com",
            "[::1]evil.com",
            "[::ffff:8.8.8.8]",
        ] {
            assert_eq!(asked("/v1/sandboxes", &[("host", host)]), 421, "{host}");
        }
        assert_eq!(asked("/", &[]), 421, "none at all");
        assert_eq!(asked("/", &[("host", "localhost"), ("host", "localhost")]), 421, "two");
        assert_eq!(asked("/", &[("host", "localhost"), ("host", "evil.com")]), 421, "two");
    }

    #[test]
    fn the_socket_has_any_name_of_one_word_and_no_name_of_a_page() {
        let by = |host: &str| asked_by(Peer::Unix { uid: 0 }, "/v1/sandboxes", &[("host", host)]);

        for host in ["localhost", "coracle", "x", "127.0.0.1:8080", "docker_1"] {
            assert_eq!(by(host), 200, "{host}");
        }
        for host in ["evil.com", "evil.com:8080", "coracle.", "", "a b", "10.0.0.1"] {
            assert_eq!(by(host), 421, "{host}");
        }
        let page = [("host", "localhost:8080"), ("origin", "https://evil.com")];
        assert_eq!(asked_by(Peer::Unix { uid: 0 }, "/", &page), 403);
    }

    #[test]
    fn a_name_in_the_target_must_be_that_in_the_header() {
        assert_eq!(asked("http://localhost/v1", &[("host", "localhost")]), 200);
        assert_eq!(asked("http://evil.com/v1", &[("host", "localhost")]), 421);
        assert_eq!(asked("http://localhost/v1", &[("host", "evil.com")]), 421);
        assert_eq!(asked("http://evil.com/v1", &[("host", "evil.com")]), 421);
    }

    #[test]
    fn only_pages_of_the_settings_may_send_requests() {
        let from = |origin: &str| asked("/", &[("host", "localhost"), ("origin", origin)]);

        assert_eq!(from("https://app.example.com"), 200);
        assert_eq!(from("http://localhost"), 200, "the page is ours");
        for origin in [
            "null",
            "https://evil.com",
            "http://localhost:3000",
            "http://localhost:80",
            "http://localhost.evil.com",
            "http://app.example.com",
            "https://app.example.com.evil.com",
            "https://app.example.com:444",
            "",
            "https://APP.example.com ",
        ] {
            assert_eq!(from(origin), 403, "{origin}");
        }
        let two =
            [("host", "localhost"), ("origin", "https://app.example.com"), ("origin", "https://evil.com")];
        assert_eq!(asked("/", &two), 403);
    }

    #[test]
    fn links_and_pictures_of_other_sites_are_refused() {
        let by = |site: &str| asked("/", &[("host", "localhost"), ("sec-fetch-site", site)]);

        assert_eq!((by("none"), by("same-origin")), (200, 200));
        assert_eq!((by("cross-site"), by("same-site"), by("anything")), (403, 403, 403));
        let allowed =
            [("host", "localhost"), ("sec-fetch-site", "cross-site"), ("origin", "https://app.example.com")];
        assert_eq!(asked("/", &allowed), 200);
    }
}
