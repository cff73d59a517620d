//! Layers made to break out, to confuse, or to fill the disk. Each is refused, and nothing of it is left.

use coracle_core::Kind;
use coracle_images::testing::{Compression, Image, Layer};
use coracle_unpack::Limits;
use tar::EntryType;

use crate::server::{Server, registry_of};
use crate::workshop::{Workshop, reference};

/// Pulls an image of one layer and returns how it was refused.
fn refusal(image: &Image) -> (Kind, String) {
    let server = Server::start(registry_of(image));
    let error = Workshop::new().refusal(&format!("{}/a:1", server.host()));
    (error.kind, error.chain())
}

fn is_refused(layer: Layer) {
    let (kind, message) = refusal(&Image::single(layer));
    assert!(matches!(kind, Kind::Invalid | Kind::Unsupported | Kind::LimitExceeded), "{kind:?}: {message}");
}

#[test]
fn names_that_lead_up_are_refused() {
    for name in ["../a", "a/../../b", "..", "a/..", "/../a"] {
        is_refused(Layer::new().file(name, 0o644, b"x"));
    }
}

#[test]
fn nothing_is_written_through_a_link() {
    is_refused(Layer::new().symlink("d", "/tmp").file("d/f", 0o644, b"x"));
    is_refused(Layer::new().symlink("d", ".").directory("d/e/", 0o755));
    is_refused(Layer::new().directory("a/", 0o755).symlink("a/d", "..").file("a/d/f", 0o644, b"x"));
    // Hiding the link does not make it a directory.
    is_refused(Layer::new().symlink("d", "/tmp").whiteout("d").file("d/f", 0o644, b"x"));
}

#[test]
fn hard_links_lead_to_files_of_the_layer_only() {
    is_refused(Layer::new().hard_link("a", "/etc/passwd"));
    is_refused(Layer::new().hard_link("a", "../../etc/passwd"));
    is_refused(Layer::new().symlink("s", "/etc/passwd").hard_link("a", "s"));
    is_refused(Layer::new().symlink("s", "/etc").hard_link("a", "s/passwd"));
    is_refused(Layer::new().hard_link("a", "a"));
    is_refused(Layer::new().hard_link("a", "b").hard_link("b", "a"));
    is_refused(Layer::new().directory("d/", 0o755).hard_link("a", "d"));
    is_refused(Layer::new().whiteout("w").hard_link("a", "w"));
}

#[test]
fn headers_that_readers_understand_differently_are_refused() {
    let size = |text: &'static [u8]| {
        move |header: &mut tar::Header| header.as_old_mut().size[..text.len()].copy_from_slice(text)
    };
    // A record's size that is not a number; a second size; a size for an entry without content.
    is_refused(Layer::new().records(&[("size", b"0x10")]).file("a", 0o644, b"x"));
    is_refused(Layer::new().records(&[("size", b"1"), ("size", b"2")]).file("a", 0o644, b"x"));
    is_refused(Layer::new().records(&[("size", b"512")]).symlink("a", "b"));
    is_refused(Layer::new().entry("d/", EntryType::Directory, size(b"00000001000\0"), b""));
    is_refused(Layer::new().entry(
        "a",
        EntryType::Regular,
        size(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        b"",
    ));
    is_refused(Layer::new().records(&[("path", b"a")]).records(&[("path", b"b")]).file("c", 0o644, b""));
    let long = |name: &[u8]| Layer::new().entry("x", EntryType::GNULongName, |_| {}, name);
    is_refused(long(b"a\0").records(&[("path", b"b")]).file("c", 0o644, b""));
    is_refused(long(b"a\0b\0").file("c", 0o644, b""));
    is_refused(
        Layer::new().entry("g", EntryType::XGlobalHeader, |_| {}, b"11 path=ab\n").file("c", 0o644, b""),
    );
    is_refused(Layer::new().file("a", 0o644, b"x").raw(&[0; 512]).file("b", 0o644, b"hidden behind the end"));
    is_refused(Layer::new().entry("a", EntryType::GNUSparse, |_| {}, b""));
}

#[test]
fn what_is_larger_than_we_take_is_refused() {
    let limits = Limits { entries: 100, bytes: 1 << 20 };
    let refusal = |layer: Layer, compression| {
        let server = Server::start(registry_of(&Image::new(&[(layer, compression)])));
        let workshop = Workshop::new();
        let store = coracle_images::Store::new(crate::workshop::config(&workshop.path(), Default::default()));
        let name = format!("{}/a:1", server.host());
        store
            .with_limits(limits)
            .pull(&reference(&name), &coracle_core::image::Silent)
            .expect_err("it is refused")
            .kind
    };
    let bomb = || Layer::new().file("zeroes", 0o644, &vec![0; 8 << 20]);
    let many = (0..101).fold(Layer::new(), |layer, index| layer.file(&format!("f{index}"), 0o644, b""));

    assert_eq!(refusal(bomb(), Compression::Gzip), Kind::LimitExceeded);
    assert_eq!(refusal(bomb(), Compression::Zstd), Kind::LimitExceeded);
    assert_eq!(refusal(many, Compression::Gzip), Kind::LimitExceeded);
    let records = Layer::new().entry("x", EntryType::XHeader, |header| header.set_size(4 << 30), b"");
    assert_eq!(refusal(records, Compression::Gzip), Kind::LimitExceeded);
    let name = Layer::new().entry("x", EntryType::GNULongName, |_| {}, &[b'a'; 5000]).file("a", 0o644, b"");
    assert_eq!(refusal(name, Compression::Gzip), Kind::LimitExceeded);
}

/// This many mebibytes of zeros, which compress to a thousandth.
fn zeros(name: &str, mebibytes: usize) -> Layer {
    Layer::new().file(name, 0o644, &vec![0; mebibytes << 20])
}

#[test]
fn what_unpacks_out_of_all_proportion_is_refused() {
    for compression in [Compression::Gzip, Compression::Zstd] {
        let (kind, message) = refusal(&Image::new(&[(zeros("bomb", 100), compression)]));
        assert_eq!(kind, Kind::LimitExceeded, "{message}");
    }
    // Small enough each, and too much together.
    let layers: Vec<_> =
        ["a", "b", "c"].map(|name| (zeros(name, 60), Compression::Gzip)).into_iter().collect();
    let server = Server::start(registry_of(&Image::new(&layers)));
    let workshop = Workshop::new();
    let name = reference(&format!("{}/a:1", server.host()));
    let refused = workshop.store.pull(&name, &coracle_core::image::Silent).expect_err("it is too much");
    assert_eq!(refused.kind, Kind::LimitExceeded, "{refused:?}");
    assert!(workshop.store.list().expect("the store can be read").is_empty(), "no name leads to it");
}

#[test]
fn a_layer_that_compresses_very_well_is_taken() {
    let server = Server::start(registry_of(&Image::new(&[
        (zeros("swap", 60), Compression::Gzip),
        (zeros("log", 60), Compression::Zstd),
    ])));

    let name = reference(&format!("{}/a:1", server.host()));
    let pulled = Workshop::new().store.pull(&name, &coracle_core::image::Silent);

    let stored = pulled.expect("an honest image");
    assert!(stored.size_bytes >= 120 << 20, "{stored:?}");
}

#[test]
fn compressed_streams_that_are_damaged_are_refused() {
    for compression in [Compression::Gzip, Compression::Zstd] {
        let archive = Layer::new().file("a", 0o644, &[7; 10_000]).archive();
        let packed = compression.pack(&archive);
        let cut = packed[..packed.len() - 5].to_vec();
        let garbage = [&packed, b"garbage".as_slice()].concat();
        for spoiled in [cut, garbage] {
            let (kind, _) = refusal(&Image::of_parts(vec![archive.clone()], vec![(spoiled, compression)]));
            assert_eq!(kind, Kind::Invalid);
        }
    }
}

#[test]
fn an_archive_that_ends_too_early_is_refused() {
    let archive = Layer::new().file("a", 0o644, &[7; 10_000]).unfinished();
    for length in [archive.len() - 600, 700, 511] {
        let part = archive[..length].to_vec();
        let packed = Compression::Gzip.pack(&part);
        let (kind, _) = refusal(&Image::of_parts(vec![part], vec![(packed, Compression::Gzip)]));
        assert_eq!(kind, Kind::Invalid, "{length}");
    }
}

#[test]
fn a_layer_that_is_not_the_one_its_configuration_names_is_refused() {
    let archive = Layer::new().file("a", 0o644, b"x").archive();
    let other = Layer::new().file("a", 0o644, b"y").archive();
    let packed = Compression::Gzip.pack(&other);

    let (kind, message) = refusal(&Image::of_parts(vec![archive], vec![(packed, Compression::Gzip)]));

    assert_eq!(kind, Kind::Invalid);
    assert!(message.contains("configuration"), "{message}");
}
