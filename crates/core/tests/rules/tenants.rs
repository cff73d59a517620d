//! Tenants: their names never collide, and they may not have what is for the home's own people.

use coracle_core::image::Allowed;
use coracle_core::limits::{Range, Ranges};
use coracle_core::spec::SpecInput;
use coracle_core::tenant::{self, TenantPolicy, Tenants};
use coracle_core::{Kind, Policy, TenantId, VolumeName};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cases;

fn spec(value: Value) -> SpecInput {
    serde_json::from_value(value).expect("an input")
}

#[test]
fn directories_and_unbounded_sandboxes_are_not_for_tenants() {
    for (input, field) in [
        (json!({"mounts": [{"source": "/etc", "target": "/x"}]}), "mounts.source"),
        (
            json!({"mounts": [{"source": "v", "target": "/v"}, {"source": "/", "target": "/x"}]}),
            "mounts.source",
        ),
        (json!({"limits": "unlimited"}), "limits"),
    ] {
        let refused = tenant::check_spec(&spec(input)).expect_err("it is refused");

        assert_eq!((refused.kind, &refused.details["field"]), (Kind::Denied, &json!(field)));
    }
    let ordinary = json!({"mounts": [{"source": "cache", "target": "/cache"}], "limits": {"memory_mb": 64}});
    assert!(tenant::check_spec(&spec(ordinary)).is_ok());
}

#[test]
fn a_tenant_has_its_own_rules_and_others_those_for_others() {
    let acme: TenantId = "acme".parse().expect("an id");
    let images = Allowed::only(vec!["python".to_owned()]).expect("a list");
    let limits = Ranges { pids: Range { default: 4, max: 8 }, ..Ranges::default() };
    let own = TenantPolicy {
        images: Some(images.clone()),
        limits: Some(limits.clone()),
        sandboxes: 2,
        ..TenantPolicy::default()
    };
    let tenants = Tenants { named: [(acme.clone(), own)].into(), others: TenantPolicy::default() };

    let ours = Policy::default().of_tenant(tenants.of(&acme));
    let theirs = Policy::default().of_tenant(tenants.of(&"other".parse().expect("an id")));

    assert_eq!((ours.images, ours.limits), (images, limits));
    assert_eq!(theirs, Policy::default());
    assert_eq!(tenants.of(&acme).sandboxes, 2);
}

#[test]
fn a_tenant_cannot_have_the_daemon_go_to_machines_next_to_it() {
    let (any, list) = (Allowed::default(), Allowed::only(vec!["*".to_owned()]).expect("a list"));

    for near in [
        "127.0.0.1:1/x",
        "localhost:5000/x",
        "localhost/x",
        "10.0.0.1/x/y",
        "169.254.169.254/x",
        "127.1:1/x",
        "127.0x1/x",
        "1.2/x",
    ] {
        let refused = tenant::check_registry(near, &any).expect_err(near);
        assert_eq!(refused.kind, Kind::ImageNotAllowed, "{near}");
        assert!(tenant::check_registry(near, &list).is_ok(), "the operator decides: {near}");
    }
    for fine in [
        "host",
        "python:3.12",
        "ghcr.io/o/n",
        "registry.example.com:5000/x",
        "img_00000000000000000000000000",
    ] {
        assert!(tenant::check_registry(fine, &any).is_ok(), "{fine}");
    }
}

#[test]
fn a_name_that_is_too_long_with_its_tenant_is_refused() {
    let tenant: TenantId = "t".repeat(100).parse().expect("an id");

    let refused = tenant::qualify(&tenant, &"v".repeat(30).parse().expect("a name"));

    assert_eq!(refused.expect_err("too long").kind, Kind::Invalid);
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_two_tenants_volumes_meet(
        one in "[a-c0-9:.]{1,4}", other in "[a-c0-9:.]{1,4}", first in "[a-c0-9:.]{1,6}", second in "[a-c0-9:.]{1,6}"
    ) {
        let parsed = (one.parse::<TenantId>(), other.parse::<TenantId>(), first.parse::<VolumeName>(), second.parse::<VolumeName>());
        let (Ok(one), Ok(other), Ok(first), Ok(second)) = parsed else { return Ok(()) };

        let qualified = tenant::qualify(&one, &first).expect("short enough");
        let another = tenant::qualify(&other, &second).expect("short enough");

        prop_assert_eq!(qualified == another, one == other && first == second);
        prop_assert_eq!(tenant::unqualify(&one, &qualified), Some(first));
        prop_assert!(one == other || tenant::unqualify(&other, &qualified).is_none());
    }
}
