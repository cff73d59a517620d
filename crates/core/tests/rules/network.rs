//! Networks: how hosts are parsed, which addresses are public, what a rule admits, and which network is narrower.

use std::net::IpAddr;

use coracle_core::network::address::is_public;
use coracle_core::network::listener::{hosts_lines, listeners};
use coracle_core::network::{Cidr, Denial, Host, NetworkPolicy, Reason, Speech, proxy};
use coracle_core::spec::SpecInput;
use coracle_core::{Kind, Network, Policy, Spec};
use proptest::prelude::*;

use super::cases;

fn host(text: &str) -> Host {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is a host"))
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is an address"))
}

fn network(text: &str) -> Network {
    text.parse().unwrap_or_else(|error| panic!("`{text}`: {error}"))
}

#[test]
fn a_host_is_written_in_one_way() {
    for (written, read) in [
        ("ok.com", "ok.com"),
        ("OK.Com", "ok.com"),
        ("ok.com.", "ok.com"),
        ("a_b.ok.com", "a_b.ok.com"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("localhost", "localhost"),
        ("1.2.3.4", "1.2.3.4"),
        ("4.ok", "4.ok"),
        ("0x7f.ok", "0x7f.ok"),
        ("[2606:4700::1]", "[2606:4700::1]"),
        ("[2606:4700:0:0::1]", "[2606:4700::1]"),
        ("[::ffff:1.2.3.4]", "1.2.3.4"),
    ] {
        assert_eq!(host(written).to_string(), read, "{written}");
    }
}

#[test]
fn what_could_be_read_in_two_ways_is_no_host() {
    let long_label = format!("{}.com", "a".repeat(64));
    let long_name = format!("{}com", "abcdefg.".repeat(32));
    for written in [
        "",
        ".",
        "..",
        "ok.com..",
        ".ok.com",
        "ok..com",
        "evil\0.ok.com",
        "ok.com\0",
        "ok.com%00",
        "ok.com%2eevil",
        "ok.com@evil",
        "user:pass@ok.com",
        "ok.com/",
        "ok.com:80",
        "ok.com#",
        "ok.com?",
        "ok com",
        " ok.com",
        "ok.com\t",
        "ok.com\r\n",
        "ok\u{3002}com",
        "ok\u{ff0e}com",
        "öl.com",
        "ｏｋ.com",
        "-ok.com",
        "ok-.com",
        "ok.com-",
        "*.ok.com",
        "2852039166",
        "0x7f.1",
        "0x7f000001",
        "0X7F000001",
        "127.1",
        "127.0.0",
        "127.0.0.01",
        "0177.0.0.1",
        "127.0.0.1.",
        "1.2.3.4.5",
        "256.1.1.1",
        "ok.1",
        "ok.0x1",
        "ok.0x",
        "::1",
        "2606:4700::1",
        "[::1",
        "::1]",
        "[::1]]",
        "[1.2.3.4]",
        "[fe80::1%eth0]",
        "[fe80::1%25eth0]",
        "[v1.fe80::a]",
        "[]",
        &long_label,
        &long_name,
    ] {
        assert!(written.parse::<Host>().is_err(), "{written:?}");
    }
    assert!(Host::read(b"ok\xff.com").is_err());
}

#[test]
fn addresses_that_are_ours_alone_are_not_public() {
    for text in [
        "0.0.0.0",
        "0.1.2.3",
        "10.1.2.3",
        "100.64.0.1",
        "100.100.100.200",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "198.19.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "100::1",
        "fe80::1",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
        "ff02::1",
        "2001::1",
        "2001:db8::1",
        "2001:0:7f00:1::",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "3fff::1",
        "2606:4700::5efe:a9fe:a9fe",
        "2606:4700::200:5efe:7f00:1",
        "4000::1",
    ] {
        assert!(!is_public(address(text)), "{text}");
    }
}

#[test]
fn addresses_of_the_internet_are_public() {
    for text in [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.1",
        "126.255.255.255",
        "128.0.0.1",
        "172.15.255.255",
        "172.32.0.1",
        "192.167.0.1",
        "223.255.255.255",
        "2606:4700::1",
        "2a00::1",
        "64:ff9b::101:101",
        "::ffff:1.1.1.1",
        "2606:4700::5efe:101:101",
    ] {
        assert!(is_public(address(text)), "{text}");
    }
}

#[test]
fn a_network_is_public_when_all_of_it_is() {
    for (text, public) in [
        ("1.1.1.0/24", true),
        ("8.0.0.0/7", true),
        ("10.0.0.0/8", false),
        ("10.1.0.0/16", false),
        ("8.0.0.0/6", false),
        ("0.0.0.0/0", false),
        ("169.254.169.254/32", false),
        ("[2606:4700::]/32", true),
        ("[2000::]/3", false),
        ("[fd00::]/8", false),
        ("[64:ff9b::]/96", false),
        ("[::]/0", false),
    ] {
        assert_eq!(text.parse::<Cidr>().expect(text).is_public(), public, "{text}");
    }
    for text in ["10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.0", "[::ffff:1.2.3.0]/120"]
    {
        assert!(text.parse::<Cidr>().is_err(), "{text}");
    }
}

#[test]
fn a_rule_admits_what_it_says_and_nothing_beside_it() {
    let rules = network("allow=ok.com,*.deep.com,db.com:5432,1.2.3.4:22,5.6.0.0/16:22,[2606:4700::]/32:443");
    for (at, port, speech) in [
        ("ok.com", 80, Some(Speech::Http)),
        ("ok.com", 443, Some(Speech::Tls)),
        ("ok.com", 8080, None),
        ("www.ok.com", 80, None),
        ("evil-ok.com", 80, None),
        ("ok.com.evil.com", 80, None),
        ("deep.com", 443, None),
        ("a.deep.com", 443, Some(Speech::Tls)),
        ("a.b.deep.com", 443, Some(Speech::Tls)),
        ("evildeep.com", 443, None),
        ("db.com", 5432, Some(Speech::Anything)),
        ("db.com", 80, None),
        ("1.2.3.4", 22, Some(Speech::Anything)),
        ("1.2.3.4", 80, None),
        ("5.6.7.8", 22, Some(Speech::Anything)),
        ("5.7.7.8", 22, None),
        ("[2606:4700::9]", 443, Some(Speech::Anything)),
        ("[2606:4701::9]", 443, None),
    ] {
        assert_eq!(rules.admits(&host(at), port), speech, "{at}:{port}");
    }
    assert_eq!(Network::None.admits(&host("ok.com"), 443), None);
    assert_eq!(Network::Open.admits(&host("ok.com"), 25), Some(Speech::Anything));
}

#[test]
fn a_private_address_is_dialled_only_where_a_rule_lists_it() {
    let listed = network("allow=db.com:5432,10.0.0.0/8:5432");

    assert!(listed.admits_address(address("10.1.1.1"), 5432));
    assert!(!listed.admits_address(address("10.1.1.1"), 5433));
    assert!(!listed.admits_address(address("127.0.0.1"), 5432));
    assert!(listed.admits_address(address("9.9.9.9"), 5432));
    assert!(!Network::Open.admits_address(address("169.254.169.254"), 80));
    assert!(!Network::None.admits_address(address("9.9.9.9"), 80));
}

#[test]
fn a_network_is_printed_as_it_is_read() {
    for text in [
        "none",
        "open",
        "allow=ok.com",
        "allow=ok.com:443,*.ok.com,*.x.com:8443,1.2.3.4,1.2.3.4:80,10.0.0.0/8:5432,[fd00::]/8,[::1]:80",
    ] {
        assert_eq!(network(text).to_string(), text);
        let json = serde_json::to_string(&network(text)).expect("JSON");
        assert_eq!(json, format!("{text:?}"));
        assert_eq!(serde_json::from_str::<Network>(&json).expect("the same"), network(text));
    }
    assert_eq!(network("allow=OK.com.,ok.COM").to_string(), "allow=ok.com");
}

#[test]
fn what_is_no_network_is_refused_by_the_name_of_its_field() {
    let many = format!("allow={}", (0..257).map(|n| format!("h{n}.com")).collect::<Vec<_>>().join(","));
    for text in [
        "",
        "None",
        "allow",
        "allow=",
        "allow=,",
        "allow=ok.com,",
        "allow=ok.com:0",
        "allow=ok.com:",
        "deny=x",
        "allow=ok.com:65536",
        "allow=ok.com:+80",
        "allow=ok.com:080",
        "allow=*",
        "allow=*.",
        "allow=a.*.com",
        "allow=*.1.2.3.4",
        "allow=http://ok.com",
        "allow=ok.com/path",
        "allow=::1",
        "allow=10.0.0.1/8",
        &many,
    ] {
        let refused = text.parse::<Network>().expect_err(text);
        assert_eq!((refused.kind, &refused.details["field"]), (Kind::Invalid, &"network".into()), "{text}");
    }
}

#[test]
fn narrower_is_what_admits_nothing_more() {
    for (narrow, wide, within) in [
        ("none", "none", true),
        ("none", "allow=a.com", true),
        ("allow=a.com", "none", false),
        ("open", "open", true),
        ("open", "allow=a.com", false),
        ("allow=a.com", "open", true),
        ("allow=10.0.0.1:80", "open", false),
        ("allow=9.9.9.9:80", "open", true),
        ("allow=a.com", "allow=a.com,b.com", true),
        ("allow=a.com,b.com", "allow=a.com", false),
        ("allow=x.a.com", "allow=*.a.com", true),
        ("allow=*.x.a.com", "allow=*.a.com", true),
        ("allow=*.a.com", "allow=*.x.a.com", false),
        ("allow=a.com", "allow=*.a.com", false),
        ("allow=a.com:443", "allow=a.com", false),
        ("allow=a.com", "allow=a.com:443", false),
        ("allow=10.1.0.0/16:80", "allow=10.0.0.0/8:80", true),
        ("allow=10.0.0.0/8:80", "allow=10.1.0.0/16:80", false),
    ] {
        assert_eq!(network(narrow).is_within(&network(wide)), within, "{narrow} within {wide}");
    }
}

#[test]
fn the_operator_bounds_what_is_asked_for() {
    let ruled = |max: &str, private: &[&str]| NetworkPolicy {
        max: network(max),
        private: private.iter().map(|text| text.parse().expect("a network")).collect(),
        ..NetworkPolicy::default()
    };
    for (policy, written, allowed) in [
        (ruled("open", &[]), "open", true),
        (ruled("open", &[]), "allow=ok.com,9.9.9.9:53", true),
        (ruled("open", &[]), "allow=10.0.0.1:80", false),
        (ruled("open", &[]), "allow=0.0.0.0/0", false),
        (ruled("open", &["10.0.0.0/8"]), "allow=10.0.0.1:80", true),
        (ruled("open", &["10.0.0.0/8"]), "allow=8.0.0.0/6", false),
        (ruled("open", &["10.0.0.0/8"]), "allow=169.254.169.254", false),
        (ruled("none", &[]), "none", true),
        (ruled("none", &[]), "open", false),
        (ruled("allow=*.ok.com", &[]), "allow=a.ok.com", true),
        (ruled("allow=*.ok.com", &[]), "allow=evil.com", false),
        (ruled("allow=*.ok.com", &[]), "open", false),
    ] {
        let resolved = policy.resolve(Some(written));
        assert_eq!(resolved.is_ok(), allowed, "{written} under {policy:?}");
        if let Err(error) = resolved {
            assert!(error.kind == Kind::Invalid && error.hint.is_some(), "{error:?}");
        }
    }
    assert_eq!(NetworkPolicy::default().resolve(None).expect("the default"), Network::None);
}

#[test]
fn each_named_host_has_a_place_of_its_own() {
    let all = listeners(&network("allow=b.com,a.com:22,b.com:8080,*.c.com,1.2.3.4"));

    let places: Vec<_> = all
        .iter()
        .map(|listener| {
            let host = listener.host.as_ref().map_or("proxy", |name| name.as_str());
            format!("{host} {}:{}", listener.address, listener.port)
        })
        .collect();
    assert_eq!(
        places,
        [
            "proxy 127.0.0.1:3128",
            "b.com 127.77.0.1:80",
            "b.com 127.77.0.1:443",
            "a.com 127.77.0.2:22",
            "b.com 127.77.0.1:8080"
        ]
    );
    assert_eq!(hosts_lines(&all), "127.77.0.2\ta.com\n127.77.0.1\tb.com\n");
    assert!(listeners(&Network::None).is_empty());
    assert_eq!(listeners(&Network::Open).len(), 1);
}

#[test]
fn the_proxy_is_named_to_commands_unless_the_caller_names_another() {
    let spec = |network: &str, env: &[(&str, &str)]| {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let input = SpecInput { network: Some(network.to_owned()), env, ..SpecInput::default() };
        Spec::resolve(input, &Policy::default()).expect("valid")
    };

    let given = proxy::variables(&spec("open", &[]));
    let own = proxy::variables(&spec("open", &[("HTTPS_PROXY", "http://mine")]));

    assert!(given.contains(&("https_proxy".to_owned(), "http://127.0.0.1:3128".to_owned())));
    assert!(!own.iter().any(|(name, _)| name.eq_ignore_ascii_case("https_proxy")));
    assert!(own.iter().any(|(name, _)| name == "http_proxy"));
    assert!(proxy::variables(&spec("none", &[])).is_empty());
}

#[test]
fn a_hostile_name_in_a_denial_is_short_and_printable() {
    let denial = Denial::new(&"\u{1b}[2Jevil\0".repeat(100), 80, Reason::InvalidName);

    assert!(denial.host.len() <= 256 && denial.host.chars().all(|c| !c.is_control()), "{denial}");
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_host_that_is_read_is_read_the_same_again(text in "[a-zA-Z0-9.:_\\[\\]%@/ -]{0,40}") {
        if let Ok(read) = text.parse::<Host>() {
            let printed = read.to_string();
            prop_assert_eq!(printed.parse::<Host>(), Ok(read));
            prop_assert!(printed.is_ascii() && !printed.contains(['%', '@', '/', ' ', '\0']));
        }
    }

    #[test]
    fn narrowing_never_admits_more(
        narrow in "allow=((\\*\\.)?[ab]\\.(com|org)(:80|:443)?)(,(\\*\\.)?[ab]\\.(com|org)(:80)?){0,2}",
        wide in "allow=((\\*\\.)?[ab]\\.(com|org)(:80|:443)?)(,(\\*\\.)?[ab]\\.(com|org)(:80)?){0,4}",
        at in "([ab]\\.)?[ab]\\.(com|org)",
        port in prop::sample::select(vec![80, 443, 8080]),
    ) {
        let (narrow, wide) = (network(&narrow), network(&wide));
        if narrow.is_within(&wide) {
            prop_assert!(narrow.admits(&host(&at), port) <= wide.admits(&host(&at), port));
        }
    }

    #[test]
    fn an_old_address_is_public_in_every_dress_or_in_none(bits: u32) {
        let old = std::net::Ipv4Addr::from_bits(bits);
        let (high, low) = ((bits >> 16) as u16, bits as u16);
        let mapped = old.to_ipv6_mapped();
        let translated = std::net::Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low);
        let tunnelled = std::net::Ipv6Addr::new(0x2606, 0x4700, 0, 0, 0, 0x5efe, high, low);
        for dress in [mapped, translated, tunnelled] {
            prop_assert_eq!(is_public(dress.into()), is_public(old.into()), "{}", dress);
        }
    }
}
