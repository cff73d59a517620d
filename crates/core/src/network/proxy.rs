//! The variables by which programs find the proxy.

use super::listener::PROXY;
use crate::spec::Spec;

/// Each is set in capitals as well, because programs differ in which they read. `all_proxy` is an HTTP URL like the
/// others: with `socks5h://`, Python clients without a SOCKS library would fail before they connect to anything.
const NAMES: [&str; 3] = ["http_proxy", "https_proxy", "all_proxy"];
/// Addresses inside the sandbox need no proxy.
const DIRECT: (&str, &str) = ("no_proxy", "localhost,127.0.0.1,::1");
/// Node reads the other variables only if this one is set.
const NODE: (&str, &str) = ("NODE_USE_ENV_PROXY", "1");

/// Returns the proxy variables of commands; the spec overrides them. A variable that the spec sets in either
/// spelling is left out in both: programs differ in which spelling they prefer.
pub fn variables(spec: &Spec) -> Vec<(String, String)> {
    if spec.network.is_none() {
        return Vec::new();
    }
    let address = format!("http://{}:{}", PROXY.0, PROXY.1);
    let proxies = NAMES.iter().map(|name| (*name, address.as_str()));
    let mut all = Vec::new();
    for (name, value) in proxies.chain([DIRECT]) {
        let capitals = name.to_ascii_uppercase();
        if !spec.env.contains_key(name) && !spec.env.contains_key(&capitals) {
            all.push((name.to_owned(), value.to_owned()));
            all.push((capitals, value.to_owned()));
        }
    }
    if !spec.env.contains_key(NODE.0) {
        all.push((NODE.0.to_owned(), NODE.1.to_owned()));
    }
    all
}
