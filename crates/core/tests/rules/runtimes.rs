//! Languages by name, and the images they lead to.

use coracle_core::error::Kind;
use coracle_core::image::Allowed;
use coracle_core::policy::Policy;
use coracle_core::runtime::{Catalogue, Runtime};
use coracle_core::spec::{Spec, SpecInput};

fn catalogue(prefix: Option<&str>, written: &[(Runtime, &str)]) -> Catalogue {
    let written = written.iter().map(|(runtime, image)| (*runtime, (*image).to_owned())).collect();
    Catalogue { prefix: prefix.map(str::to_owned), written }
}

#[test]
fn every_language_is_read_by_the_name_it_is_written_by() {
    for runtime in Runtime::ALL {
        let text = serde_json::to_value(runtime).expect("a word");

        assert_eq!(text, runtime.name());
        assert_eq!(serde_json::from_value::<Runtime>(text).expect("a word"), runtime);
    }
    assert_eq!("nodejs".parse::<Runtime>().expect("its other name"), Runtime::Node);
}

#[test]
fn an_unknown_language_is_answered_with_those_there_are_and_the_nearest() {
    let error = "pyhton".parse::<Runtime>().expect_err("no language");
    let read = serde_json::from_str::<Runtime>("\"rubi\"").expect_err("no language").to_string();
    let other = "cobol-85".parse::<Runtime>().expect_err("no language").to_string();

    assert_eq!((error.kind, &error.details["field"]), (Kind::Invalid, &"runtime".into()));
    assert!(error.message.contains("did you mean python?"), "{error}");
    assert!(read.contains("did you mean ruby") && read.contains("powershell"), "{read}");
    assert!(other.contains("python, node, bash") && !other.contains("did you mean"), "{other}");
}

#[test]
fn without_a_prefix_only_what_was_written_has_an_image() {
    let images = catalogue(None, &[(Runtime::Ruby, "ruby:3.4")]).images().expect("valid");

    assert_eq!(images, [(Runtime::Ruby, "ruby:3.4".to_owned())].into());
}

#[test]
fn with_a_prefix_every_language_has_its_golden_image() {
    let images = catalogue(Some("registry.lan:5000/golden/"), &[]).images().expect("valid");

    assert_eq!(images.len(), Runtime::ALL.len());
    assert_eq!(images[&Runtime::Python], "registry.lan:5000/golden/coracle-python:latest");
}

#[test]
fn a_prefix_stands_before_names_without_a_registry_of_their_own() {
    let written = [
        (Runtime::Python, "python:3.13"),
        (Runtime::Node, "ghcr.io/owner/node:22"),
        (Runtime::Bash, "host"),
        (Runtime::Go, "localhost/go"),
    ];

    let images = catalogue(Some("registry.lan/"), &written).images().expect("valid");

    assert_eq!(images[&Runtime::Python], "registry.lan/python:3.13");
    assert_eq!(images[&Runtime::Node], "ghcr.io/owner/node:22");
    assert_eq!((images[&Runtime::Bash].as_str(), images[&Runtime::Go].as_str()), ("host", "localhost/go"));
}

#[test]
fn the_list_of_allowed_images_is_asked_with_the_prefix() {
    let prefixed = catalogue(Some("registry.lan/golden/"), &[]).images().expect("valid");
    let asks = |pattern: &str| {
        let images = Allowed::only(vec![pattern.to_owned()]).expect("a pattern");
        let policy = Policy { runtimes: prefixed.clone(), images, ..Policy::default() };
        let input = SpecInput { runtime: Some(Runtime::Python), ..SpecInput::default() };
        Spec::resolve(input, &policy).map(|spec| spec.image)
    };

    let allowed = asks("registry.lan/golden/*").expect("it is on the list");
    let refused = asks("docker.io/*").expect_err("it is not on the list");

    assert_eq!(allowed, "registry.lan/golden/coracle-python:latest");
    assert_eq!(refused.kind, Kind::ImageNotAllowed);
}

#[test]
fn the_word_language_means_the_same_field() {
    let input: SpecInput = serde_json::from_str(r#"{"language": "nodejs"}"#).expect("an alias");

    assert_eq!(input.runtime, Some(Runtime::Node));
}
