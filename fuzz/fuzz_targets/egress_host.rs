//! Arbitrary bytes as a host: no panic, and what is accepted is written so that it is read as the same again, by us and
//! by a resolver.
#![no_main]

use std::net::IpAddr;

use coracle_core::network::{Host, Rule};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(rule) = text.parse::<Rule>()
    {
        assert_eq!(rule.to_string().parse::<Rule>().as_ref(), Ok(&rule));
    }
    let Ok(host) = Host::read(input) else { return };
    let text = host.to_string();
    assert_eq!(text.parse::<Host>().as_ref(), Ok(&host));
    assert!(text.is_ascii() && !text.bytes().any(|byte| byte.is_ascii_control() || b"%@/\\ ?#*".contains(&byte)));
    match host {
        Host::Address(address) => assert_eq!(address, address.to_canonical()),
        // No reader may take a name for an address.
        Host::Name(name) => {
            assert!(name.as_str().parse::<IpAddr>().is_err());
            assert!(!name.as_str().rsplit('.').next().unwrap_or_default().bytes().all(|byte| byte.is_ascii_digit()));
        }
    }
});
