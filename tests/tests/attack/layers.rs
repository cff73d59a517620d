//! TR: archives and images made to break out. The twin of most is how `tar` and Python unpack what they trust.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use coracle_images::testing::{Compression, Image, Layer};
use coracle_tests::attack::{LEAK, not_applicable};
use coracle_tests::{Arena, Attack, Breaches, Canary, Home, Route};
use tempfile::TempDir;

use crate::GROUND;

const NAME: &str = "localhost/hostile:1";

/// Loads an image and returns whether it was taken.
fn load(home: &Home, image: &Image) -> bool {
    load_archive(home, &image.docker_save(&[NAME]))
}

fn load_archive(home: &Home, bytes: &[u8]) -> bool {
    let archive = tempfile::NamedTempFile::new().expect("a file");
    fs::write(archive.path(), bytes).expect("it is ours");
    let loaded = home.call(["image", "load", &archive.path().to_string_lossy()]).run();
    assert!(!loaded.stderr.contains("panicked"), "{loaded}");
    loaded.code() == Some(0)
}

/// What became of the canary: damage, or another name for it.
fn harm(canary: &Canary) -> Breaches {
    let linked = fs::metadata(canary.path()).is_ok_and(|file| file.nlink() > 1);
    let linked = linked.then(|| "linked a file of the machine".to_owned());
    linked.into_iter().chain(canary.damage()).collect()
}

fn load_all(arena: &Arena<'_>, canary: &Canary, layers: &[Vec<Layer>]) -> Breaches {
    let packed = |layers: &Vec<Layer>| {
        layers.iter().map(|layer| (layer.clone(), Compression::Gzip)).collect::<Vec<_>>()
    };
    for layers in layers {
        load(arena.home, &Image::new(&packed(layers)));
    }
    harm(canary)
}

/// Unpacks layers on the machine without any confinement.
fn unpack_naively(canary: &Canary, layers: &[Vec<Layer>]) -> Breaches {
    for layers in layers {
        let scratch = scratch();
        for layer in layers {
            let archive = scratch.path().join("archive");
            fs::write(&archive, layer.archive()).expect("it is ours");
            let into = scratch.path().join("a/b");
            fs::create_dir_all(&into).expect("it is ours");
            let unpacked = Command::new("tar").arg("-xPf").arg(&archive).arg("-C").arg(&into).output();
            unpacked.expect("`tar` is everywhere");
        }
    }
    harm(canary)
}

fn scratch() -> TempDir {
    tempfile::Builder::new().prefix("coracle-naive-").tempdir().expect("a directory")
}

#[test]
fn tr_01_names_do_not_lead_out() {
    let canary = Canary::new();
    let (made, up) = (format!("{}/made", canary.directory().display()), "../".repeat(16));
    let names = [made.clone(), format!("{up}{made}"), format!("a/../{up}{made}"), format!("./{up}{made}")];
    let layers: Vec<_> = names.iter().map(|name| vec![Layer::new().file(name, 0o644, b"x")]).collect();
    Attack::starred(GROUND, "TR-01", "absolute names and names with `..`")
        .by(&[Route::Create])
        .run_beside(|arena| load_all(arena, &canary, &layers), || unpack_naively(&canary, &layers));
}

#[test]
fn tr_02_links_do_not_lead_out() {
    let canary = Canary::new();
    let outside = canary.directory().to_string_lossy().into_owned();
    let layers = [
        vec![Layer::new().symlink("d", &outside).file("d/made", 0o644, b"x")],
        vec![Layer::new().symlink("d", &outside), Layer::new().file("d/made", 0o644, b"x")],
        vec![Layer::new().symlink("f", &canary.text()), Layer::new().file("f", 0o644, b"x")],
        vec![Layer::new().symlink("d", &outside), Layer::new().whiteout("d/canary")],
        vec![Layer::new().symlink("d", &outside).whiteout("d").file("d/made", 0o644, b"x")],
    ];
    let title =
        "a link to a directory of the machine, then a file in it: in one layer, in two, behind a whiteout";
    Attack::starred(GROUND, "TR-02", title)
        .by(&[Route::Create])
        .run_beside(|arena| load_all(arena, &canary, &layers), || unpack_naively(&canary, &layers));
}

#[test]
fn tr_03_hard_links_do_not_lead_out() {
    let canary = Canary::new();
    let up = format!("{}{}", "../".repeat(16), canary.text());
    let layers = [
        vec![Layer::new().hard_link("a", &canary.text())],
        vec![Layer::new().hard_link("a", &up)],
        vec![Layer::new().symlink("s", &canary.directory().to_string_lossy()).hard_link("a", "s/canary")],
    ];
    Attack::starred(GROUND, "TR-03", "hard links to files of the machine").by(&[Route::Create]).run_beside(
        |arena| load_all(arena, &canary, &layers),
        || {
            // Unpacked within one filesystem, or no link could be made anyway; and looked at before it is gone.
            let scratch = scratch();
            let archive = scratch.path().join("archive");
            fs::write(&archive, layers[0][0].archive()).expect("it is ours");
            let unpacked =
                Command::new("tar").arg("-xPf").arg(&archive).arg("-C").arg(scratch.path()).output();
            unpacked.expect("`tar` is everywhere");
            harm(&canary)
        },
    );
}

#[test]
fn tr_05_one_archive_is_one_list_of_files() {
    // A record says the file is as long as a whole archive; the header says it is empty. A reader that believes the header finds
    // the files of the inner archive among those of the outer.
    let smuggled = Layer::new().file("smuggled", 0o644, b"x").archive();
    let length = smuggled.len().to_string();
    let header = |size: &'static [u8]| {
        move |header: &mut tar::Header| header.as_old_mut().size[..size.len()].copy_from_slice(size)
    };
    let layer = Layer::new().records(&[("size", length.as_bytes())]).entry(
        "outer",
        tar::EntryType::Regular,
        header(b"00000000000\0"),
        &smuggled,
    );
    let title = "a size in a record that is not the size in the header";
    let attempt = |arena: &Arena<'_>| -> Breaches {
        let taken = load(arena.home, &Image::single(layer.clone()));
        let found = taken && has_file(&arena.home.path().join("images"), "smuggled");
        found.then(|| "a smuggled file is in the image".to_owned()).into_iter().collect()
    };
    // Reads headers alone, as the readers did that this was found in.
    let naive = || {
        let archive = layer.archive();
        let names = archive.chunks(512).filter(|block| block.starts_with(b"smuggled\0"));
        names.map(|_| "a reader of headers finds the smuggled file".to_owned()).collect()
    };
    Attack::starred(GROUND, "TR-05", title).by(&[Route::Create]).run_beside(attempt, naive);
}

fn has_file(directory: &Path, name: &str) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        path.file_name().is_some_and(|found| found == name)
            || (path.is_dir() && !path.is_symlink() && has_file(&path, name))
    })
}

#[test]
fn tr_12_nobody_reaches_what_is_being_unpacked() {
    let title = "get to the files of an image as another user of the machine";
    let found = |directory: &Path| -> Breaches {
        let seen = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "find"])
            .arg(directory)
            .args(["-name", "secret-of-an-image"])
            .output()
            .expect("`setpriv` is part of util-linux");
        (!seen.stdout.is_empty()).then(|| "found a file of an image".to_owned()).into_iter().collect()
    };
    let layer = Layer::new().file("secret-of-an-image", 0o644, b"x");
    let attempt = |arena: &Arena<'_>| {
        // The test opens the home to all users, so its files need permissions of their own.
        fs::set_permissions(arena.home.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        assert!(load(arena.home, &Image::single(layer.clone())), "an honest image is taken");
        assert!(has_file(&arena.home.path().join("images"), "secret-of-an-image"), "it was unpacked");
        found(arena.home.path())
    };
    let naive = || {
        let scratch = scratch();
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        fs::write(scratch.path().join("secret-of-an-image"), "x").expect("it is ours");
        found(scratch.path())
    };
    Attack::starred(GROUND, "TR-12", title).by(&[Route::Create]).run_beside(attempt, naive);
}

#[test]
fn an_02_a_layer_does_not_unpack_out_of_all_proportion() {
    let title = "a small layer that unpacks to a thousand times its size";
    let zeros = Layer::new().file("zeros", 0o644, &vec![0; 100 << 20]);
    let image = Image::new(&[(zeros.clone(), Compression::Gzip)]);
    let packed = Compression::Gzip.pack(&zeros.archive());
    let grown = |bytes: u64| -> Breaches {
        let breach = format!("{} KiB became {} MiB", packed.len() >> 10, bytes >> 20);
        (bytes > 100 * packed.len() as u64).then_some(breach).into_iter().collect()
    };
    let attempt = |arena: &Arena<'_>| {
        // What `docker save` writes is not compressed.
        let annotations = serde_json::json!({"org.opencontainers.image.ref.name": NAME});
        load_archive(arena.home, &image.oci_layout(annotations));
        let listed = arena.home.call(["image", "list", "--json"]).succeed().json();
        let sizes = listed.as_array().into_iter().flatten().filter_map(|one| one["size_bytes"].as_u64());
        grown(sizes.sum())
    };
    let naive = || {
        let scratch = scratch();
        let (archive, into) = (scratch.path().join("archive"), scratch.path().join("into"));
        fs::write(&archive, &packed).expect("it is ours");
        fs::create_dir(&into).expect("it is ours");
        let unpacked = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&into).output();
        unpacked.expect("`tar` is everywhere");
        grown(fs::metadata(into.join("zeros")).map_or(0, |file| file.len()))
    };
    Attack::row(GROUND, "AN-02", title).by(&[Route::Create]).run_beside(attempt, naive);
}

#[test]
fn tr_20_an_images_labels_are_not_ours() {
    let title = "labels of an image that look like ours";
    let labels = serde_json::json!({"coracle.instance": "ins_x", "owner": "run_x", "team": "planted"});
    let image = Image::single(busybox()).configured(|config| config["config"]["Labels"] = labels.clone());
    let attempt = |arena: &Arena<'_>| -> Breaches {
        assert!(load(arena.home, &image), "labels alone are no reason to refuse an image");
        let sandbox = arena.home.open_with(&["--image", NAME]);
        let shown = arena.home.call(["show", &sandbox, "--json"]).succeed();
        let told = ["planted", "ins_x", "run_x"].into_iter().filter(|word| shown.text().contains(word));
        told.map(|word| format!("`{word}` of the image is the sandbox's")).collect()
    };
    let naive = || {
        let home = GROUND.home();
        let sandbox = home.open_with(&["--label", "team=planted"]);
        let shown = home.call(["show", &sandbox, "--json"]).succeed();
        shown
            .text()
            .contains("planted")
            .then(|| "a label that was given is shown".to_owned())
            .into_iter()
            .collect()
    };
    Attack::starred(GROUND, "TR-20", title).by(&[Route::Create]).run_beside(attempt, naive);
}

#[test]
fn tr_21_an_images_directory_is_not_a_descriptor() {
    let title = "an image whose working directory is `/proc/self/fd/9`";
    if !Path::new(BUSYBOX).exists() {
        return not_applicable(
            GROUND,
            "TR-21",
            false,
            title,
            "there is no static busybox to make an image of",
        );
    }
    let canary = Canary::new();
    let image = Image::single(busybox())
        .configured(|config| config["config"]["WorkingDir"] = "/proc/self/fd/9".into());
    let outside = format!("{}{}", "../".repeat(16), canary.text());
    Attack::row(GROUND, "TR-21", title)
        .by(&[Route::Create])
        .through(&LEAK)
        .without(&["Descriptors", "Landlock"])
        .run(|arena| {
            assert!(load(arena.home, &image), "a strange directory is no reason to refuse an image");
            canary.leaked(&arena.call_with(&["--image", NAME], &["/busybox", "cat", &outside]).run())
        });
}

const BUSYBOX: &str = "/bin/busybox";

fn busybox() -> Layer {
    let program = fs::read(BUSYBOX).unwrap_or_default();
    Layer::new().directory("etc", 0o755).file("busybox", 0o755, &program)
}
