//! Names of images, and which of them an operator allows (TR-27: a name says one thing or is refused).

use coracle_core::error::{Error, Kind};
use coracle_core::image::{Allowed, HOST, Reference};
use coracle_core::policy::Policy;
use coracle_core::spec::{Spec, SpecInput};
use proptest::prelude::*;

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn parse(text: &str) -> Result<Reference, Error> {
    text.parse()
}

fn allowed(patterns: &[&str]) -> Policy {
    let patterns = patterns.iter().map(ToString::to_string).collect();
    Policy { images: Allowed::only(patterns).expect("valid patterns"), ..Policy::default() }
}

/// Returns why a sandbox of this image is refused, `None` if it is not.
fn refusal(policy: &Policy, image: &str) -> Option<Kind> {
    let input = SpecInput { image: Some(image.to_owned()), ..SpecInput::default() };
    Spec::resolve(input, policy).err().map(|error| error.kind)
}

#[test]
fn what_may_be_left_out_is_filled_in() {
    let pinned = format!("python@{DIGEST}");
    let both = format!("python:3.12@{DIGEST}");
    let cases = [
        ("python", "docker.io/library/python:latest".to_owned()),
        ("python:3.12", "docker.io/library/python:3.12".to_owned()),
        ("docker.io/python", "docker.io/library/python:latest".to_owned()),
        ("index.docker.io/python", "docker.io/library/python:latest".to_owned()),
        ("registry-1.docker.io/library/python", "docker.io/library/python:latest".to_owned()),
        ("owner/app", "docker.io/owner/app:latest".to_owned()),
        ("ghcr.io/owner/app:v1", "ghcr.io/owner/app:v1".to_owned()),
        ("ghcr.io/app", "ghcr.io/app:latest".to_owned()),
        ("localhost/app", "localhost/app:latest".to_owned()),
        ("localhost:5000/app:1", "localhost:5000/app:1".to_owned()),
        ("registry:5000/a/b/c", "registry:5000/a/b/c:latest".to_owned()),
        ("127.0.0.1:5000/app", "127.0.0.1:5000/app:latest".to_owned()),
        ("[::1]/app", "[::1]/app:latest".to_owned()),
        ("[::1]:5000/app:1", "[::1]:5000/app:1".to_owned()),
        ("x/a.b__c---d/e_f", "docker.io/x/a.b__c---d/e_f:latest".to_owned()),
        ("app:_Tag.1-x", "docker.io/library/app:_Tag.1-x".to_owned()),
        (pinned.as_str(), format!("docker.io/library/python@{DIGEST}")),
        (both.as_str(), format!("docker.io/library/python:3.12@{DIGEST}")),
    ];

    for (text, whole) in cases {
        assert_eq!(parse(text).expect(text).to_string(), whole, "{text}");
    }
}

#[test]
fn a_reference_is_taken_apart() {
    let reference = parse(&format!("localhost:5000/team/app:v1@{DIGEST}")).expect("valid");

    assert_eq!((reference.registry(), reference.repository()), ("localhost:5000", "team/app"));
    assert_eq!((reference.tag(), reference.digest()), (Some("v1"), Some(DIGEST)));
    assert_eq!(reference.name(), "localhost:5000/team/app");
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    let long_tag = format!("app:{}", "x".repeat(129));
    let long_name = "x".repeat(256);
    let long_with_prefix = "x".repeat(250);
    let upper_digest = format!("app@{}", DIGEST.to_uppercase().replace("SHA256", "sha256"));
    let twice = format!("app@{DIGEST}@{DIGEST}");
    let cases = [
        "",
        " ",
        " app",
        "app ",
        "app\n",
        "a\0b",
        "--flag",
        "-v",
        "PYTHON",
        "Docker.io/library/python",
        "docker.io/Library/python",
        "user@docker.io/python",
        "user:password@docker.io/python",
        "https://docker.io/python",
        "docker.io//python",
        "docker.io/",
        "/python",
        "python/",
        "..",
        "../python",
        "a/../b",
        "./a",
        "a..b",
        "a___b",
        ".a",
        "a.",
        "_a",
        "a-",
        "pythön",
        "рython",
        "app\u{200b}",
        "app:",
        "app:.tag",
        "app:-tag",
        "app:a:b",
        "app:a/b",
        &long_tag,
        &long_name,
        &long_with_prefix,
        "app@",
        "app@sha256:",
        "app@sha256:0123",
        "app@sha512:0123456789abcdef",
        "app@md5:0123456789abcdef0123456789abcdef",
        &upper_digest,
        &twice,
        DIGEST,
        &DIGEST[7..],
        "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "host:0/app",
        "host:65536/app",
        "host:+80/app",
        "host:/app",
        "-host.io/app",
        "host-.io/app",
        "host..io/app",
        "docker.io./library/python",
        "::1/app",
        "[::1/app",
        "[::1%eth0]/app",
        "[::1]5000/app",
        "[host]:80/app",
    ];

    for text in cases {
        let error = parse(text).expect_err(text);
        assert_eq!(error.kind, Kind::Invalid, "{text}");
        assert!(error.hint.is_some() && error.details.contains_key("field"), "{text}");
    }
}

#[test]
fn a_complaint_repeats_little_of_what_was_written() {
    let error = parse(&"ä".repeat(1 << 20)).expect_err("no reference");

    assert!(error.to_json().to_string().len() < 2000);
}

#[test]
fn a_stored_reference_is_checked_as_well() {
    assert!(serde_json::from_str::<Reference>("\"--flag\"").is_err());
    assert!(serde_json::from_str::<Reference>("\"python\"").is_ok());
}

#[test]
fn without_a_list_everything_is_allowed_and_with_an_empty_one_nothing() {
    let empty = allowed(&[]);

    for image in [HOST, "python", "ghcr.io/owner/app"] {
        assert_eq!(refusal(&Policy::default(), image), None, "{image}");
        assert_eq!(refusal(&empty, image), Some(Kind::ImageNotAllowed), "{image}");
    }
}

#[test]
fn a_name_allows_all_its_versions_however_it_is_spelt() {
    for pattern in
        ["python", "docker.io/python", "docker.io/library/python", "index.docker.io/library/python"]
    {
        let policy = allowed(&[pattern]);

        for image in ["python", "python:3.12", "docker.io/library/python", &format!("python@{DIGEST}")] {
            assert_eq!(refusal(&policy, image), None, "{pattern}: {image}");
        }
        for image in [HOST, "owner/python", "ghcr.io/library/python", "python3", "docker.io/python/x"] {
            assert_eq!(refusal(&policy, image), Some(Kind::ImageNotAllowed), "{pattern}: {image}");
        }
    }
}

#[test]
fn a_tag_allows_that_tag_and_no_digest_beside_it() {
    let policy = allowed(&["python:3.12"]);

    assert_eq!(refusal(&policy, "docker.io/library/python:3.12"), None);
    let others = [
        "python".to_owned(),
        "python:3.13".to_owned(),
        "docker.io:443/library/python:3.12".to_owned(),
        // The digest decides what runs, whatever the tag beside it says.
        format!("python@{DIGEST}"),
        format!("python:3.12@{DIGEST}"),
    ];
    for image in others {
        assert_eq!(refusal(&policy, &image), Some(Kind::ImageNotAllowed), "{image}");
    }
    assert_eq!(refusal(&policy, "PYTHON:3.12"), Some(Kind::Invalid));
}

#[test]
fn a_digest_allows_that_content_under_any_tag() {
    let policy = allowed(&[&format!("python@{DIGEST}")]);
    let other = DIGEST.replace('0', "1");

    assert_eq!(refusal(&policy, &format!("python@{DIGEST}")), None);
    assert_eq!(refusal(&policy, &format!("python:3.12@{DIGEST}")), None);
    for image in ["python".to_owned(), format!("python@{other}"), format!("ruby@{DIGEST}")] {
        assert_eq!(refusal(&policy, &image), Some(Kind::ImageNotAllowed), "{image}");
    }
}

#[test]
fn a_star_allows_what_is_below_and_nothing_beside() {
    let cases = [
        ("docker.io/library/*", "python", "owner/app"),
        ("library/*", "python:3.12", "libraryx/app"),
        ("docker.io/*", "owner/app", "ghcr.io/owner/app"),
        ("ghcr.io/owner/*", "ghcr.io/owner/a/b", "ghcr.io/owners/a"),
        ("localhost:5000/*", "localhost:5000/app", "localhost:5001/app"),
        // Words that look like those the check itself appends to a prefix.
        ("ghcr.io/x/x/*", "ghcr.io/x/x/app", "ghcr.io/other/app"),
        ("*", "ghcr.io/any/thing", HOST),
    ];

    for (pattern, inside, beside) in cases {
        let policy = allowed(&[pattern]);
        assert_eq!(refusal(&policy, inside), None, "{pattern}: {inside}");
        assert_eq!(refusal(&policy, beside), Some(Kind::ImageNotAllowed), "{pattern}: {beside}");
    }
}

#[test]
fn the_machines_own_programs_are_allowed_by_their_name() {
    let policy = allowed(&["host"]);

    assert_eq!(refusal(&policy, HOST), None);
    // A registry may have something of that name, too.
    assert_eq!(refusal(&policy, "docker.io/library/host"), Some(Kind::ImageNotAllowed));
}

#[test]
fn a_pattern_that_would_allow_more_than_it_says_is_refused() {
    for pattern in
        ["", "lib*", "docker.io/lib*", "*/python", "docker.io/*/app", "PYTHON", "/*", "python:*", "**"]
    {
        let refused = Allowed::only(vec![pattern.to_owned()]).expect_err(pattern);
        assert_eq!(
            (refused.kind, &refused.details["field"]),
            (Kind::Invalid, &"images.allow".into()),
            "{pattern}"
        );
    }
}

#[test]
fn a_refusal_names_the_image_and_what_is_allowed() {
    let input = SpecInput { image: Some("ruby".to_owned()), ..SpecInput::default() };

    let refused = Spec::resolve(input, &allowed(&["python", "host"])).expect_err("not on the list");

    assert_eq!(refused.details["image"], "docker.io/library/ruby:latest");
    assert_eq!(refused.details["allowed"], serde_json::json!(["docker.io/library/python", "host"]));
    assert!(refused.hint.is_some_and(|hint| hint.contains("images.allow")));
}

/// Mostly names, mixed with characters a name may not contain.
fn nearly_a_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "([a-z0-9.\\-]{1,8}(:[0-9]{1,5})?/)?[a-z0-9]{1,6}([._\\-]{0,2}[a-z0-9]{1,6}){0,3}(/[a-z0-9]{1,5}){0,2}(:[A-Za-z0-9_.\\-]{1,8})?",
        "[a-zA-Z0-9:/@._\\-\\[\\]* ]{0,40}",
        any::<String>(),
    ]
}

proptest! {
    #![proptest_config(super::cases())]

    #[test]
    fn a_name_written_out_is_read_as_the_same(text in nearly_a_name(), pinned in any::<bool>()) {
        let text = if pinned { format!("{text}@{DIGEST}") } else { text };
        match parse(&text) {
            Ok(reference) => {
                let whole = reference.to_string();
                prop_assert_eq!(parse(&whole).ok(), Some(reference));
                prop_assert!(whole.is_ascii() && !whole.starts_with('-') && !whole.contains(char::is_whitespace));
            }
            Err(error) => prop_assert_eq!(error.kind, Kind::Invalid),
        }
    }

    #[test]
    fn a_pattern_that_is_a_name_allows_that_name(text in nearly_a_name()) {
        if let Ok(reference) = parse(&text)
            && text != HOST
        {
            let list = Allowed::only(vec![text.clone()]).expect("a name is a pattern");
            prop_assert!(list.check_reference(&reference).is_ok(), "{}", text);
        }
    }

    #[test]
    fn a_spec_keeps_the_whole_name(text in nearly_a_name()) {
        let input = SpecInput { image: Some(text.clone()), ..SpecInput::default() };
        if let Ok(spec) = Spec::resolve(input, &Policy::default()) {
            prop_assert!(spec.image == HOST || parse(&spec.image).is_ok_and(|whole| whole.to_string() == spec.image));
        }
    }
}
