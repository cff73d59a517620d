//! Settings about the daemon: its host names, and the pages that may send requests to it.

use coracle_core::{Error, Result};

use super::images::list;
use super::layers::{Found, Layers};
use super::{Setting, setting};

/// Which hosts and origins may reach the daemon over the network, besides the machine's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Doors {
    /// Host names that requests may use, besides those of the machine itself.
    pub hosts: Vec<String>,
    /// Pages whose scripts may send requests, as browsers write them: `https://app.example.com`.
    pub origins: Vec<String>,
}

/// All settings about the daemon, resolved.
#[derive(Debug)]
pub struct ServeSettings {
    hosts: Found<Vec<String>>,
    origins: Found<Vec<String>>,
}

impl ServeSettings {
    /// Resolves every setting and refuses text that is no host or origin.
    pub(super) fn from(layers: &Layers<'_>) -> Result<Self> {
        Ok(Self {
            hosts: layers
                .of_file(|file| file.serve.hosts.clone(), Vec::new())
                .checked(|hosts| hosts.iter().try_for_each(|host| check_host(host)))?,
            origins: layers
                .of_file(|file| file.serve.origins.clone(), Vec::new())
                .checked(|origins| origins.iter().try_for_each(|origin| check_origin(origin)))?,
        })
    }

    pub fn doors(&self) -> Doors {
        Doors { hosts: self.hosts.value.clone(), origins: self.origins.value.clone() }
    }

    /// Returns every setting for display.
    pub fn settings(&self) -> Vec<Setting> {
        vec![
            setting("serve.hosts", list(Some(&self.hosts.value)), &self.hosts.source),
            setting("serve.origins", list(Some(&self.origins.value)), &self.origins.source),
        ]
    }
}

/// Refuses a name with a port: the name counts for every port.
fn check_host(host: &str) -> Result<()> {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
    match !host.is_empty() && host.bytes().all(allowed) {
        true => Ok(()),
        false => Err(Error::invalid(
            "serve.hosts",
            format!(
                "has `{}`, which is no name of a host in small letters and without a port",
                host.escape_debug()
            ),
        )),
    }
}

fn check_origin(origin: &str) -> Result<()> {
    let rest = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    match rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['/', '*', ' '])) {
        true => Ok(()),
        false => Err(Error::invalid(
            "serve.origins",
            format!("has `{}`, which is no origin such as `https://app.example.com`", origin.escape_debug()),
        )),
    }
}
