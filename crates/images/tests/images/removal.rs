//! Removing images without taking anything from sandboxes that use them.

use std::collections::BTreeSet;

use coracle_core::Kind;
use coracle_core::image::Silent;
use coracle_images::testing::{Compression, Image, Layer, Registry};

use crate::workshop::{Workshop, count, reference};

/// A store with two images that share a layer.
fn two_images() -> (Workshop, String, String) {
    let registry = Registry::start();
    let workshop = Workshop::new();
    let shared = Layer::new().file("base", 0o644, b"base");
    let names = ["one", "two"].map(|own| {
        let layer = Layer::new().directory("d/", 0o000).file(&format!("d/{own}"), 0o644, own.as_bytes());
        let image = Image::new(&[(shared.clone(), Compression::Gzip), (layer, Compression::Gzip)]);
        let name = registry.push(&format!("{own}:1"), &image);
        workshop.store.pull(&reference(&name), &Silent).expect("it is there");
        name
    });
    let [one, two] = names;
    (workshop, one, two)
}

fn nothing() -> coracle_core::Result<BTreeSet<String>> {
    Ok(BTreeSet::new())
}

#[test]
fn a_layer_that_another_image_has_stays() {
    let (workshop, one, two) = two_images();

    let removed = workshop.store.remove(&one, &nothing).expect("it is here");

    assert_eq!((removed.references, removed.layers, removed.bytes), (vec![one.clone()], 1, 3));
    assert!(workshop.store.find(&reference(&one)).expect("the store can be read").is_none());
    assert_eq!(workshop.image(&two).layers.len(), 2);
}

#[test]
fn an_image_is_removed_by_its_digest_too() {
    let (workshop, one, _) = two_images();
    let digest = workshop.image(&one).digest;

    assert_eq!(workshop.store.remove(&digest[7..25], &nothing).expect("it is here").references, [one]);
    assert_eq!(
        workshop.store.remove(&digest, &nothing).map_err(|error| error.kind),
        Err(Kind::ImageNotFound)
    );
}

#[test]
fn what_a_sandbox_uses_stays_until_it_is_gone() {
    let (workshop, one, _) = two_images();
    let image = workshop.image(&one);
    let used = || Ok(BTreeSet::from([image.digest.clone()]));

    let removed = workshop.store.remove(&one, &used).expect("it is here");
    assert_eq!((removed.references.len(), removed.layers), (1, 0));
    assert!(image.layers.iter().all(|layer| layer.exists()));

    assert_eq!(workshop.store.collect(&used).expect("the store is ours").layers, 0);
    assert_eq!(workshop.store.collect(&nothing).expect("the store is ours").layers, 1);
}

#[test]
fn nothing_is_removed_while_the_store_is_held() {
    let (workshop, one, two) = two_images();
    let hold = workshop.store.hold().expect("the store is ours");

    let removed = workshop.store.remove(&one, &nothing).expect("it is here");
    assert_eq!((removed.references.len(), removed.layers), (1, 0));
    assert_eq!(count(&workshop.path().join("layers")), 3);

    drop(hold);
    assert_eq!(workshop.store.collect(&nothing).expect("the store is ours").layers, 1);
    assert_eq!(workshop.image(&two).layers.len(), 2);
}

#[test]
fn what_the_dead_left_is_collected() {
    let (workshop, ..) = two_images();
    std::fs::write(workshop.path().join("partial/x"), b"half").expect("the store is ours");
    std::fs::create_dir_all(workshop.path().join("drafts/y/tree")).expect("the store is ours");

    workshop.store.collect(&nothing).expect("the store is ours");

    for empty in ["partial", "drafts"] {
        assert_eq!(count(&workshop.path().join(empty)), 0, "{empty}");
    }
    assert_eq!(count(&workshop.path().join("locks")), 1);
    assert_eq!(count(&workshop.path().join("layers")), 3);
}

#[test]
fn an_empty_store_has_nothing_and_makes_nothing() {
    let workshop = Workshop::new();

    assert!(workshop.store.list().expect("there is nothing to read").is_empty());
    assert!(workshop.store.find(&reference("a")).expect("there is nothing to read").is_none());
    assert_eq!(workshop.store.collect(&nothing).expect("there is nothing to do").layers, 0);
    assert!(!workshop.path().exists());
}
