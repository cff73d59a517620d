//! Where a request goes: scheme, host and port. Credentials belong to one origin and to no other.

use std::fmt;
use std::net::IpAddr;

use ureq::http::Uri;

/// An origin, as the web defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub scheme: Scheme,
    /// In lower case; an IPv6 address in brackets.
    pub host: String,
    pub port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// Why we refuse an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable(pub &'static str);

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Unusable {}

impl Origin {
    /// Returns the origin of a registry as references name it. Without TLS only on this machine and where listed.
    pub fn of_registry(registry: &str, plain_http: &[String]) -> Self {
        // Docker's own registry has another host name than the one users write.
        let registry = if registry == "docker.io" { "registry-1.docker.io" } else { registry };
        let (host, port) = split_port(registry);
        let plain = is_here(host) || plain_http.iter().any(|entry| entry == registry);
        let scheme = if plain { Scheme::Http } else { Scheme::Https };
        Self { scheme, host: host.to_ascii_lowercase(), port: port.unwrap_or(scheme.default_port()) }
    }

    /// Returns the origin of an address. Refuses other schemes than HTTP's, and credentials in the address.
    pub fn of(uri: &Uri) -> Result<Self, Unusable> {
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            _ => return Err(Unusable("it is not an address of the web")),
        };
        let authority = uri.authority().ok_or(Unusable("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(Unusable("it has credentials in it"));
        }
        let host = authority.host().to_ascii_lowercase();
        if host.is_empty() {
            return Err(Unusable("it has no host"));
        }
        Ok(Self { scheme, host, port: authority.port_u16().unwrap_or(scheme.default_port()) })
    }

    /// Tells whether we may connect to it without TLS.
    pub fn may_be_plain(&self, plain_http: &[String]) -> bool {
        is_here(&self.host) || plain_http.iter().any(|entry| self.is_listed(entry))
    }

    /// Tells whether an operator's entry, `host` or `host:port`, names it.
    pub fn is_listed(&self, entry: &str) -> bool {
        let (host, port) = split_port(entry);
        host.eq_ignore_ascii_case(&self.host) && port.unwrap_or(self.scheme.default_port()) == self.port
    }

    /// Returns host and port, for messages and lists.
    pub fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.scheme == Scheme::Http { "http" } else { "https" };
        match self.port == self.scheme.default_port() {
            true => write!(f, "{scheme}://{}", self.host),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

fn split_port(text: &str) -> (&str, Option<u16>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (text, None),
        },
        _ => (text, None),
    }
}

/// Tells whether a host is this machine, by its name alone.
fn is_here(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host == "localhost" || bare.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_registries_here_and_listed_ones_are_spoken_to_in_the_clear() {
        let listed = ["registry.lan:5000".to_owned()];
        let scheme = |registry| Origin::of_registry(registry, &listed).scheme;

        for plain in ["localhost:5000", "127.0.0.1:1", "127.9.9.9", "[::1]:5000", "registry.lan:5000"] {
            assert_eq!(scheme(plain), Scheme::Http, "{plain}");
        }
        for safe in ["docker.io", "registry.lan", "registry.lan:5001", "localhost.example", "10.0.0.1:5000"] {
            assert_eq!(scheme(safe), Scheme::Https, "{safe}");
        }
    }

    #[test]
    fn the_default_port_is_the_same_origin_as_the_written_one() {
        let of = |text: &str| Origin::of(&text.parse().expect("is an address")).expect("is of the web");

        assert_eq!(of("https://a.example/x"), of("https://A.example:443/y"));
        assert_ne!(of("https://a.example/x"), of("http://a.example:443/x"));
    }

    #[test]
    fn addresses_with_credentials_or_of_other_kinds_are_refused() {
        for text in ["file:///etc/passwd", "ftp://a/", "https://user:word@a.example/", "/path"] {
            assert!(Origin::of(&text.parse().unwrap_or_default()).is_err(), "{text}");
        }
    }
}
