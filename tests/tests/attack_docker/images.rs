//! TR and DK: images whose configuration tries to change the container they run in.

use std::fs;
use std::time::Duration;

use coracle_images::testing::{Image, Layer};
use coracle_tests::attack::engine;
use coracle_tests::{Arena, Attack, Breaches, Canary, Route, SOON, eventually};
use serde_json::{Value, json};

use crate::GROUND;

/// How long an engine may take to remove the volumes of a container that is gone.
const FORGETTING: Duration = SOON;

/// Brings an image of busybox and more to the engine, and returns its name.
fn bring(name: &str, more: impl FnOnce(Layer) -> Layer, config: Value) -> String {
    let busybox = fs::read("/bin/busybox").expect("Debian's package `busybox-static` is installed");
    let layer = Layer::new().directory("home", 0o755).file("busybox", 0o755, &busybox);
    let image = Image::single(more(layer)).configured(|described| described["config"] = config.clone());
    let name = format!("localhost/{name}:1");
    engine().load(&image.docker_save(&[&name]));
    name
}

#[test]
fn dk_07_a_link_where_the_guest_belongs_is_refused() {
    let canary = Canary::new();
    let outside = canary.directory().to_string_lossy().into_owned();
    let places = [(".coracle", "/home"), (".coracle", &outside), ("workspace", &outside), ("tmp", &outside)];
    let images: Vec<String> = places
        .iter()
        .enumerate()
        .map(|(number, (name, target))| {
            bring(&format!("links-{number}"), |layer| layer.symlink(name, target), json!({}))
        })
        .collect();
    let title = "an image with a link where the guest's program, the workspace or `/tmp` belongs";
    Attack::starred(GROUND, "DK-07", title).by(&[Route::Create]).without(&["Targets"]).run(|arena| {
        let script = "/busybox mv /.coracle /old && /busybox mkdir /.coracle && echo replaced; \
                      /busybox touch /workspace/made /tmp/made";
        let mut breaches = Breaches::new();
        for image in &images {
            let ran = arena.call_with(&["--image", image], &["/busybox", "sh", "-c", script]).run();
            if String::from_utf8_lossy(&ran.stdout).contains("replaced") {
                breaches.push("replaced what the engine starts with the guest's rights".to_owned());
            }
        }
        breaches.extend(canary.damage());
        breaches
    });
}

#[test]
fn tr_20_an_images_labels_make_no_container_ours() {
    let title = "an image with our labels: in a sandbox, and in a foreign container";
    let attempt = |arena: &Arena<'_>| -> Breaches {
        arena.home.open();
        let instance = arena.home.instance().expect("it was used").to_owned();
        let image = labelled(&instance);
        let foreign = Foreign::run(&image);
        let sandbox = arena.home.open_with(&["--image", &image, "--label", "team=ours"]);
        arena.home.call(["gc"]).succeed();
        arena.home.call(["ps"]).succeed();
        let mut breaches = Breaches::new();
        breaches.extend((!foreign.runs()).then(|| "removed a foreign container".to_owned()));
        let container = engine().document(&format!("/containers/coracle-{sandbox}/json"));
        let label = container["Config"]["Labels"]["coracle.sandbox"].as_str().unwrap_or_default();
        breaches.extend((label != sandbox).then(|| format!("the sandbox is labelled `{label}`")));
        let doctor = arena.home.call(["doctor", "--orphans", "--json"]).run();
        breaches.extend(doctor.text().contains(PLANTED).then(|| "took it for an orphan of ours".to_owned()));
        breaches
    };
    let naive = || {
        let image = labelled("ins_naive");
        let foreign = Foreign::run(&image);
        // As reapers do that go by labels.
        for id in engine().container_ids("coracle.instance=ins_naive") {
            engine().client(["rm", "-f", &id]).output().expect("`docker` can be started");
        }
        (!foreign.runs()).then(|| "a reaper that goes by labels removes it".to_owned()).into_iter().collect()
    };
    Attack::starred(GROUND, "TR-20", title).by(&[Route::Create]).run_beside(attempt, naive);
}

/// An id that no sandbox has.
const PLANTED: &str = "sbx_01m7hfge4zpvwf0d3nhdzv54wc";

fn labelled(instance: &str) -> String {
    let labels = json!({"coracle.instance": instance, "coracle.sandbox": PLANTED, "team": "planted"});
    bring(&format!("labels-{}", instance.to_lowercase()), |layer| layer, json!({"Labels": labels}))
}

/// A container that is not ours.
struct Foreign(String);

impl Foreign {
    fn run(image: &str) -> Self {
        Self::make(&["run", "--detach"], image)
    }

    /// With a verb of Docker's: made, or made and started.
    fn make(verb: &[&str], image: &str) -> Self {
        let words = [verb, &["--network", "none", image, "/busybox", "sleep", "600"]].concat();
        let ran = engine().client(words).output();
        let ran = ran.expect("`docker` can be started");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        Self(String::from_utf8_lossy(&ran.stdout).trim().to_owned())
    }

    fn runs(&self) -> bool {
        let shown = engine().client(["inspect", "--format", "{{.State.Running}}", &self.0]).output();
        shown.expect("`docker` can be started").stdout.starts_with(b"true")
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = engine().client(["rm", "--force", "--volumes", &self.0]).output();
    }
}

#[test]
fn tr_21_an_image_says_nothing_about_its_container() {
    let config = json!({
        "Entrypoint": ["/busybox", "touch", "/entered"], "User": "1000", "WorkingDir": "/proc/self/fd/7",
        "Volumes": {"/data": {}, "/workspace": {}, "/.coracle": {}, "/.coracle/run": {}},
        "Healthcheck": {"Test": ["CMD", "/busybox", "touch", "/checked"], "Interval": 1_000_000_000_u64},
        "OnBuild": ["RUN touch /built"], "StopSignal": "SIGCONT",
        "Env": ["LD_PRELOAD=/evil.so", "PATH=/home:/usr/bin", "CORACLE_HOME=/home"],
        "ExposedPorts": {"80/tcp": {}},
    });
    let image = bring("talks", |layer| layer, config);
    let title = "VOLUME, ENTRYPOINT, USER, WORKDIR, HEALTHCHECK, ONBUILD, STOPSIGNAL and ENV of an image";
    let attempt = |arena: &Arena<'_>| -> Breaches {
        let sandbox = arena.home.open_with(&["--image", &image]);
        let container = engine().document(&format!("/containers/coracle-{sandbox}/json"));
        arena.home.exec(&sandbox, ["/busybox", "true"]).run();
        let mut breaches = checks(&container);
        let user = container["Config"]["User"].as_str().unwrap_or_default();
        breaches.extend((user != "0:0").then(|| format!("the guest was started as `{user}`")));
        arena.home.call(["close", &sandbox]).succeed();
        // Engines forget a container first and its volumes a moment later. Those of others that run are not looked at.
        let own = own_volumes(&container);
        assert!(own.len() > 1, "the image has volumes, or this proves nothing");
        let left = || -> Vec<String> { volumes().into_iter().filter(|name| own.contains(name)).collect() };
        eventually(FORGETTING, || left().is_empty());
        breaches.extend(left().into_iter().map(|name| format!("left volume {name}")));
        breaches
    };
    let naive = || {
        let foreign = Foreign::make(&["create"], &image);
        checks(&engine().document(&format!("/containers/{}/json", foreign.0)))
    };
    Attack::row(GROUND, "TR-21", title).by(&[Route::Create]).run_beside(attempt, naive);
}

/// Tells whether a check of the image's runs, with the container's rights.
fn checks(container: &Value) -> Breaches {
    let test = container["Config"]["Healthcheck"]["Test"][0].as_str().unwrap_or_default();
    (test != "NONE").then(|| format!("a check of the image's runs: {test}")).into_iter().collect()
}

/// Returns the volumes that were made for one container.
fn own_volumes(container: &Value) -> Vec<String> {
    let mounts = container["Mounts"].as_array().into_iter().flatten();
    let names = mounts.filter_map(|mount| mount["Name"].as_str());
    names.filter(|name| !name.starts_with("coracle-")).map(str::to_owned).collect()
}

/// Returns the volumes without a name of ours.
fn volumes() -> Vec<String> {
    let listed = engine().document("/volumes");
    let names =
        listed["Volumes"].as_array().into_iter().flatten().filter_map(|volume| volume["Name"].as_str());
    names.filter(|name| !name.starts_with("coracle-")).map(str::to_owned).collect()
}
