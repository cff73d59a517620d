//! Settings about installing dependencies: what fillers may reach, and how many packages are kept.

use std::collections::BTreeMap;
use std::time::Duration;

use coracle_core::bytes::Bytes;
use coracle_core::install::{Ecosystem, Rules};
use coracle_core::{Error, Network, Result, duration};

use super::layers::{Found, Layers};
use super::{Setting, setting};

/// All settings about installing, resolved.
#[derive(Debug)]
pub struct InstallSettings {
    networks: Found<BTreeMap<Ecosystem, Network>>,
    registries: Found<BTreeMap<Ecosystem, String>>,
    timeout: Found<Duration>,
    entry_max: Found<u64>,
    total: Found<u64>,
    keep: Found<Duration>,
}

impl InstallSettings {
    /// Resolves every setting; refuses a network or an address that cannot be parsed.
    pub(super) fn from(layers: &Layers<'_>) -> Result<Self> {
        let rules = Rules::default();
        Ok(Self {
            networks: layers
                .of_file(|file| Some(file.install.network.clone()), BTreeMap::new())
                .read(|written| by_ecosystem(written, |_, text| text.parse()))?,
            registries: layers
                .of_file(|file| Some(file.install.registry.clone()), BTreeMap::new())
                .read(|written| by_ecosystem(written, address))?,
            timeout: layers.of_file(|file| file.install.timeout, rules.timeout),
            entry_max: layers
                .of_file(|file| file.install.cache_max.map(|Bytes(bytes)| bytes), rules.entry_max),
            total: layers.of_file(|file| file.install.total.map(|Bytes(bytes)| bytes), rules.total),
            keep: layers.of_file(|file| file.install.keep, rules.keep),
        })
    }

    /// Returns the operator's rules.
    pub fn rules(&self) -> Rules {
        Rules {
            networks: self.networks.value.clone(),
            registries: self.registries.value.clone(),
            timeout: self.timeout.value,
            entry_max: self.entry_max.value,
            total: self.total.value,
            keep: self.keep.value,
        }
    }

    /// Returns every setting for display.
    pub fn settings(&self) -> Vec<Setting> {
        let network = |ecosystem: Ecosystem| {
            let value = self.networks.value.get(&ecosystem).unwrap_or(&Network::None).to_string();
            setting(NETWORKS[ecosystem as usize], value, &self.networks.source)
        };
        let mut all: Vec<_> = Ecosystem::ALL.into_iter().map(network).collect();
        let registries: Vec<_> =
            self.registries.value.iter().map(|(ecosystem, at)| format!("{ecosystem} = {at}")).collect();
        let registries = if registries.is_empty() { "none".to_owned() } else { registries.join(", ") };
        all.extend([
            setting("install.registry", registries, &self.registries.source),
            setting("install.timeout", duration::shown(self.timeout.value), &self.timeout.source),
            setting("install.cache_max", Bytes(self.entry_max.value).to_string(), &self.entry_max.source),
            setting("install.total", Bytes(self.total.value).to_string(), &self.total.source),
            setting("install.keep", duration::shown(self.keep.value), &self.keep.source),
        ]);
        all
    }
}

/// The names of the settings, in the order of the variants.
const NETWORKS: [&str; 7] = [
    "install.network.pnpm",
    "install.network.npm",
    "install.network.yarn",
    "install.network.uv",
    "install.network.pip",
    "install.network.cargo",
    "install.network.go",
];

fn by_ecosystem<T>(
    written: BTreeMap<String, String>,
    read: impl Fn(Ecosystem, String) -> Result<T>,
) -> Result<BTreeMap<Ecosystem, T>> {
    let one = |(name, text): (String, String)| {
        let ecosystem: Ecosystem = name.parse()?;
        Ok((ecosystem, read(ecosystem, text)?))
    };
    written.into_iter().map(one).collect()
}

/// Package managers read an address as they like; this is what all of them read alike.
fn address(ecosystem: Ecosystem, text: String) -> Result<String> {
    let rest = text.strip_prefix("sparse+").unwrap_or(&text);
    let is_address = rest.starts_with("https://") || rest.starts_with("http://");
    let plain =
        |character: char| character.is_ascii_graphic() && !matches!(character, '"' | '\'' | '\\' | '@');
    match is_address && text.chars().all(plain) {
        true => Ok(text),
        false => Err(Error::invalid(
            &format!("install.registry.{ecosystem}"),
            "must be an address as in `https://registry.example/`, without a password",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_named_like_its_package_manager() {
        for ecosystem in Ecosystem::ALL {
            assert_eq!(NETWORKS[ecosystem as usize], ecosystem.setting());
        }
    }

    #[test]
    fn an_address_with_a_password_or_a_quote_is_refused() {
        for text in ["ftp://x", "https://user:word@x/", "https://x/\"", "https://x/ y", "x.test"] {
            assert!(address(Ecosystem::Npm, text.to_owned()).is_err(), "{text}");
        }
        assert!(address(Ecosystem::Cargo, "sparse+https://x.test/index/".to_owned()).is_ok());
    }
}
