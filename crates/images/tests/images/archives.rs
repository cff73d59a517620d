//! Loading images from archives.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

use coracle_core::image::{Silent, Stored};
use coracle_core::{Kind, Result};
use coracle_images::testing::image::descriptor;
use coracle_images::testing::{Compression, Image, Layer};
use serde_json::{Value, json};

use crate::workshop::{Workshop, count};

fn image() -> Image {
    Image::new(&[
        (Layer::new().file("a", 0o644, b"bottom"), Compression::Gzip),
        (Layer::new().file("b", 0o644, b"top"), Compression::Zstd),
    ])
}

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a temporary file can be made");
    file.write_all(bytes).expect("there is space");
    file.seek(SeekFrom::Start(0)).expect("files can be rewound");
    file
}

fn load(workshop: &Workshop, bytes: &[u8]) -> Result<Vec<Stored>> {
    workshop.store.load(file(bytes), &Silent)
}

fn has_both_files(workshop: &Workshop, name: &str) {
    let layers = workshop.image(name).layers;
    assert_eq!(std::fs::read(layers[0].join("a")).expect("it is there"), b"bottom");
    assert_eq!(std::fs::read(layers[1].join("b")).expect("it is there"), b"top");
}

#[test]
fn what_docker_saved_is_loaded_under_all_its_names() {
    let workshop = Workshop::new();

    let stored = load(&workshop, &image().docker_save(&["tools/a:1", "b"])).expect("it is an archive");

    let names: Vec<&str> = stored.iter().map(|stored| stored.reference.as_str()).collect();
    assert_eq!(names, ["docker.io/tools/a:1", "docker.io/library/b:latest"]);
    has_both_files(&workshop, "b");
}

#[test]
fn a_compressed_archive_and_one_from_a_pipe_are_loaded_too() {
    let archive = image().docker_save(&[]);
    let compressed = Workshop::new();
    let piped = Workshop::new();

    let stored = load(&compressed, &Compression::Gzip.pack(&archive)).expect("it is an archive");
    let (reader, mut writer) = std::io::pipe().expect("pipes can be made");
    let whole = archive.clone();
    let writing = std::thread::spawn(move || writer.write_all(&whole));
    let reader = File::from(std::os::fd::OwnedFd::from(reader));
    let same = piped.store.load(reader, &Silent).expect("it is an archive");
    writing.join().expect("no thread panicked").expect("all of it was read");

    // An image without a name is kept under its digest's, the same each time.
    assert_eq!(stored, same);
    assert_eq!(stored[0].reference, format!("localhost/loaded:{}", &stored[0].digest[7..19]));
    has_both_files(&compressed, &stored[0].reference);
    assert_eq!(count(&compressed.path().join("drafts")), 0);
}

#[test]
fn an_oci_layout_is_loaded_with_the_digest_of_its_manifest() {
    for (annotations, name) in [
        (json!({"io.containerd.image.name": "ghcr.io/x/y:2"}), "ghcr.io/x/y:2".to_owned()),
        (json!({"org.opencontainers.image.ref.name": "ghcr.io/x/y:2"}), "ghcr.io/x/y:2".to_owned()),
        (
            json!({"org.opencontainers.image.ref.name": "2"}),
            format!("localhost/loaded:{}", &image().digest()[7..19]),
        ),
    ] {
        let workshop = Workshop::new();

        let stored = load(&workshop, &image().oci_layout(annotations)).expect("it is an archive");

        assert_eq!(
            (stored[0].reference.as_str(), stored[0].digest.as_str()),
            (name.as_str(), image().digest().as_str())
        );
        has_both_files(&workshop, &name);
    }
}

#[test]
fn the_same_image_from_an_archive_brings_nothing_new() {
    let workshop = Workshop::new();
    let archive = image().oci_layout(json!({}));

    load(&workshop, &archive).expect("it is an archive");
    load(&workshop, &archive).expect("it is an archive");

    assert_eq!(count(&workshop.path().join("layers")), 2);
}

#[test]
fn links_inside_of_an_archive_lead_to_the_same_layer() {
    let configuration = image().configuration_blob();
    let manifest =
        json!([{"Config": "c.json", "RepoTags": ["a:1"], "Layers": ["0/layer.tar", "1/layer.tar"]}]);
    let archive = Layer::new()
        .file("real/one.tar", 0o644, &image().archives[0])
        .symlink("0/layer.tar", "../real/one.tar")
        .file("1/layer.tar", 0o644, &image().archives[1])
        .file("c.json", 0o644, &configuration.bytes)
        .file("manifest.json", 0o644, manifest.to_string().as_bytes())
        .archive();
    let workshop = Workshop::new();

    load(&workshop, &archive).expect("it is an archive");

    has_both_files(&workshop, "a:1");
}

#[test]
fn an_archive_whose_documents_are_two_things_at_once_is_refused() {
    let manifest = image().manifest_blob().bytes;
    let listed = |kind: &str| descriptor(&format!("application/vnd.oci.image.{kind}.v1+json"), &manifest);
    let whole: Value = serde_json::from_slice(&manifest).expect("a manifest");
    let mut both = json!({"schemaVersion": 2, "manifests": [listed("manifest")]});
    (both["config"], both["layers"]) = (whole["config"].clone(), whole["layers"].clone());

    for index in [both, json!({"schemaVersion": 2, "manifests": [listed("index")]})] {
        let archive = with_index(&index);
        let refused = load(&Workshop::new(), &archive).expect_err("it is two things at once");
        assert_eq!(refused.kind, Kind::Invalid, "{index}");
    }
    assert!(
        load(&Workshop::new(), &with_index(&json!({"schemaVersion": 2, "manifests": [listed("manifest")]})))
            .is_ok()
    );
}

/// Returns an OCI layout with all parts of the image, and this index.
fn with_index(index: &Value) -> Vec<u8> {
    let image = image();
    let mut archive = Layer::new().file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#);
    for blob in [image.configuration_blob(), image.manifest_blob()].iter().chain(&image.layers) {
        archive = archive.file(&format!("blobs/{}", blob.digest.replace(':', "/")), 0o644, &blob.bytes);
    }
    archive.file("index.json", 0o644, index.to_string().as_bytes()).archive()
}

#[test]
fn archives_that_lie_are_refused() {
    let image = image();
    let swapped =
        Image { archives: vec![image.archives[1].clone(), image.archives[0].clone()], ..image.clone() };
    let mut short = image.clone();
    short.layers[0].bytes.pop();
    let mut changed = image.clone();
    changed.layers[0].bytes[30] ^= 1;
    let pinned = format!("x/y@sha256:{}", "0".repeat(64));
    let layout = |index: serde_json::Value| {
        Layer::new()
            .file("oci-layout", 0o644, b"{}")
            .file("index.json", 0o644, index.to_string().as_bytes())
            .archive()
    };
    let loops = Layer::new().symlink("manifest.json", "a").symlink("a", "b").symlink("b", "a").archive();
    let outside = Layer::new().symlink("manifest.json", "../../etc/passwd").archive();
    let config = json!([{"Config": "../../etc/passwd", "RepoTags": null, "Layers": []}]);
    let config = Layer::new().file("manifest.json", 0o644, config.to_string().as_bytes()).archive();
    let missing = descriptor("application/vnd.oci.image.manifest.v1+json", b"not there");

    for (what, archive) in [
        ("layers swapped", swapped.docker_save(&["a"])),
        ("a layer cut", short.oci_layout(json!({}))),
        ("a layer changed", changed.oci_layout(json!({}))),
        ("a name that is no name", image.docker_save(&["--flag"])),
        ("another's digest", image.oci_layout(json!({"io.containerd.image.name": pinned}))),
        ("a manifest that is missing", layout(json!({"schemaVersion": 2, "manifests": [missing]}))),
        ("links in a circle", loops),
        ("a link that leads out", outside),
        ("a configuration outside", config),
        ("nothing in it", Layer::new().archive()),
        ("not an archive", b"GIF89a".repeat(100)),
        ("a damaged gzip", Compression::Gzip.pack(&image.docker_save(&["a"]))[..500].to_vec()),
    ] {
        let workshop = Workshop::new();

        let error = load(&workshop, &archive).expect_err(what);

        assert!(matches!(error.kind, Kind::Invalid | Kind::Unsupported), "{what}: {}", error.chain());
        assert!(workshop.store.list().expect("the store can be read").is_empty(), "{what}");
        assert_eq!(count(&workshop.path().join("drafts")), 0, "{what}");
    }
}
