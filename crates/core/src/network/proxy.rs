//! The variables by which programs find the proxy.

use super::listener::PROXY;
use crate::spec::Spec;

/// Each is set in capitals, too: programs differ in which they read. `all_proxy` speaks HTTP like the others; as
/// `socks5h://` it would break Python clients that lack a library for that before they connect to anything.
const NAMES: [&str; 3] = ["http_proxy", "https_proxy", "all_proxy"];
/// What is inside needs no proxy.
const DIRECT: (&str, &str) = ("no_proxy", "localhost,127.0.0.1,::1");
/// Node looks at the others only with this.
const NODE: (&str, &str) = ("NODE_USE_ENV_PROXY", "1");

/// Returns what commands of a sandbox get to see, below what its maker says. A variable its maker has set in either
/// spelling is left alone in both: programs prefer one of them, and not all the same one.
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
