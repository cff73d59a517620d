//! FA: the file API, against trees an agent has prepared.
//!
//! The guest opens files inside the sandbox, so a way to the machine has to lead through a descriptor of the guest's.
//! In these rows it would have one: coracle has inherited the machine's root as number 9.

use coracle_tests::attack::{Ground, way_to};
use coracle_tests::{Arena, Attack, Breaches, Canary, Home, Route, SOON, count};
use serde_json::json;

use crate::GROUND;

const OPEN: &[Route] = &[Route::Exec, Route::Transfer];
const BY_NAME: &[&str] = &["Descriptors", "Resolution", "Confinement"];

/// Where the canary's directory is, for an attack that gets out.
fn leaked(canary: &Canary) -> String {
    way_to(canary, GROUND)
}

#[test]
fn fa_01_a_path_is_taken_at_its_word() {
    let title = "`..`, absolute, encoded, backslashed, empty, overlong and NUL paths";
    Attack::starred(GROUND, "FA-01", title).by(OPEN).without(BY_NAME).run(|arena| {
        let secret = Canary::new().secret().to_owned();
        arena.call(&["sh", "-c", &format!("mkdir -p a; echo {secret} > /outside")]).succeed();
        let long = "x/".repeat(2100);
        let mut breaches = Breaches::new();
        let paths =
            ["../outside", "a/../../outside", ".//..//outside", "%2e%2e/outside", "..\\outside", "", &long];
        for path in paths {
            let read = arena.file("read", &[path]).run();
            if read.code() == Some(0) || read.stderr.contains("panicked") {
                breaches.push(format!("read `{}`", path.chars().take(32).collect::<String>()));
            }
            // Where the length is not checked either, making all those directories takes a minute.
            for verb in ["write", "delete"].into_iter().filter(|_| path != long) {
                arena.file(verb, &[path]).stdin("overwritten").run();
            }
        }
        let input = json!({"sandbox_id": arena.sandbox(), "path": "a\u{0}/../../outside"});
        if arena.route == Route::Exec
            && arena.home.operation("sandbox_fs_read", &input).run().code() == Some(0)
        {
            breaches.push("read a path with a NUL byte".to_owned());
        }
        let kept = arena.call(&["cat", "/outside"]).run();
        if !String::from_utf8_lossy(&kept.stdout).contains(&secret) {
            breaches.push("wrote to a file outside the workspace".to_owned());
        }
        breaches
    });
}

/// Does to `path` all that can be done, and tells what of it reached the machine.
fn meddle(arena: &Arena<'_>, canary: &Canary, directory: &str) -> Breaches {
    let file = format!("{directory}/canary");
    let mut breaches = canary.leaked(&arena.file("read", &[&file]).run());
    let listed = arena.file("list", &[directory]).run();
    if String::from_utf8_lossy(&listed.stdout).contains("canary") {
        breaches.push("listed a directory of the machine".to_owned());
    }
    arena.file("write", &[&format!("{directory}/new")]).stdin("x").run();
    arena.file("write", &[&file]).stdin("x").run();
    breaches.extend(canary.damage());
    arena.file("delete", &[&file]).run();
    breaches.extend(canary.damage());
    breaches
}

#[test]
fn fa_02_a_link_at_the_end_is_not_followed_out() {
    let canary = Canary::new();
    let title = "a link to a file of the machine: read, write, stat, delete";
    Attack::starred(GROUND, "FA-02", title).by(OPEN).reaching(&canary).without(BY_NAME).run(|arena| {
        let link = format!("ln -sfn {}/canary link", leaked(&canary));
        let mut breaches = Breaches::new();
        for verb in ["read", "stat", "write", "delete"] {
            arena.call(&["sh", "-c", &link]).succeed();
            breaches.extend(canary.leaked(&arena.file(verb, &["link"]).stdin("x").run()));
        }
        breaches.extend(canary.damage());
        breaches
    });
}

#[test]
fn fa_03_a_link_on_the_way_is_not_followed_out() {
    let canary = Canary::new();
    let title = "a link to a directory of the machine on the way";
    Attack::starred(GROUND, "FA-03", title)
        .by(OPEN)
        .reaching(&canary)
        .without(BY_NAME)
        .every(&["read", "listed", "made", "removed"])
        .run(|arena| {
            arena.call(&["ln", "-sfn", &leaked(&canary), "way"]).succeed();
            meddle(arena, &canary, "way")
        });
}

#[test]
fn fa_04_a_path_that_changes_under_way_leads_nowhere() {
    let canary = Canary::new();
    let title = "exchange a directory and a link while files in it are read, written, listed and deleted";
    let walls = &["Descriptors", "Resolution"];
    Attack::starred(GROUND, "FA-04", title).by(OPEN).reaching(&canary).without(walls).run(|arena| {
        let payload = include_str!("payloads/swap.py");
        let swapper = arena.call(&["python3", "-c", payload, &leaked(&canary), "way"]).start();
        swapper.wait_for(|output| output.starts_with(b"swapping"));
        let mut breaches = Breaches::new();
        // Each call takes longer at an engine, and hits the moment less often.
        let quick = if GROUND == Ground::Docker { 40 } else { 12 };
        for _ in 0..count(quick, 100_000) {
            breaches.extend(
                meddle(arena, &canary, "way").into_iter().filter(|breach| !breach.starts_with("listed")),
            );
            if !breaches.is_empty() {
                break;
            }
        }
        arena.call(&["touch", "/workspace/stop"]).succeed();
        swapper.finish();
        breaches
    });
}

#[test]
fn fa_05_links_of_the_kernel_are_not_paths() {
    let canary = Canary::new();
    let title = "`/proc/self/fd/N`, `/proc/self/root` and `/dev/fd/N` as paths";
    Attack::row(GROUND, "FA-05", title).by(OPEN).reaching(&canary).without(BY_NAME).run(|arena| {
        let directory = match GROUND {
            Ground::Native => canary.directory().display().to_string(),
            Ground::Docker => leaked(&canary),
        };
        let mut breaches = Breaches::new();
        let starts = ["/proc/self/fd/9", "/dev/fd/9", "/proc/1/fd/9", "/proc/thread-self/fd/9"];
        for start in starts.into_iter().chain(["/proc/self/root", "/proc/1/root"]) {
            breaches.extend(meddle(arena, &canary, &format!("{start}{directory}")));
        }
        for number in 3..count(12, 64) {
            let listed = arena.file("list", &[&format!("/proc/self/fd/{number}")]).run();
            breaches.extend((listed.code() == Some(0)).then(|| format!("listed descriptor {number}")));
        }
        breaches
    });
}

#[test]
fn fa_08_deleting_a_tree_stays_in_the_tree() {
    let canary = Canary::new();
    let names: Vec<String> = (0..60).map(|number| format!("tree/{number}")).collect();
    let title = "exchange directories of a tree and links while the tree is deleted";
    let walls = &["Descriptors", "Removal"];
    Attack::starred(GROUND, "FA-08", title).by(&[Route::Exec]).reaching(&canary).without(walls).run(
        |arena| {
            let mut breaches = Breaches::new();
            for _ in 0..count(16, 1000) {
                let target = leaked(&canary);
                let arguments: Vec<&str> = ["python3", "-c", include_str!("payloads/swap.py"), &target]
                    .into_iter()
                    .chain(names.iter().map(String::as_str))
                    .collect();
                let swapper = arena.call(&arguments).start();
                swapper.wait_for(|output| output.starts_with(b"swapping"));
                arena.file("delete", &["--recursive", "tree"]).run();
                arena.call(&["touch", "/workspace/stop"]).succeed();
                swapper.finish();
                arena.call(&["rm", "-rf", "tree", "stop"]).succeed();
                breaches.extend(canary.damage());
                if !breaches.is_empty() {
                    break;
                }
            }
            breaches
        },
    );
}

#[test]
fn fa_09_no_directory_is_made_through_a_link() {
    let canary = Canary::new();
    let title = "write a file whose missing parents lie behind a link";
    Attack::row(GROUND, "FA-09", title).by(OPEN).reaching(&canary).without(BY_NAME).run(|arena| {
        arena.call(&["ln", "-sfn", &leaked(&canary), "way"]).succeed();
        arena.file("write", &["way/made/deep/file"]).stdin("x").run();
        canary.damage()
    });
}

#[test]
fn fa_10_no_bit_that_lends_rights_is_set() {
    let title = "write a file with mode 4777 or 2777";
    let attempt = |arena: &Arena<'_>| -> Breaches {
        for mode in ["4777", "2777", "07777"] {
            arena.file("write", &["lent", "--mode", mode]).stdin("x").run();
            let input = json!({"sandbox_id": arena.sandbox(), "path": "lent", "content": "x", "mode": mode});
            arena.home.operation("sandbox_fs_write", &input).run();
        }
        let found = arena.call(&["find", "/workspace", "-perm", "/6000"]).succeed();
        found.text().lines().map(|path| format!("{path} lends rights")).collect()
    };
    let naive = || {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("lent");
        std::fs::write(&path, "x").expect("it is ours");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4777);
        std::fs::set_permissions(&path, mode).expect("it is ours");
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).expect("it is there"));
        (mode & 0o6000 != 0).then(|| "an ordinary write lends rights".to_owned()).into_iter().collect()
    };
    Attack::row(GROUND, "FA-10", title).by(OPEN).run_beside(attempt, naive);
}

#[test]
fn fa_15_another_runs_sandbox_is_not_ones_own() {
    let title = "name another run's sandbox and exec in one's own requests";
    let requests = |home: &Home, run: &str| -> Breaches {
        let sandbox = home.open_with(&["--run", "run_b"]);
        home.call([
            "exec",
            &sandbox,
            "--run",
            "run_b",
            "--id",
            "told",
            "--",
            "sh",
            "-c",
            "echo b > note; echo told",
        ])
        .succeed();
        let verbs: [(&str, &[&str]); 8] = [
            ("logs", &["logs", &sandbox, "told", "--run", run]),
            ("wait", &["wait", &sandbox, "told", "--run", run]),
            ("read", &["fs", "read", &sandbox, "note", "--run", run]),
            ("list", &["fs", "list", &sandbox, "--run", run]),
            ("exec", &["exec", &sandbox, "--run", run, "--", "sh", "-c", "echo a > note"]),
            ("write", &["fs", "write", &sandbox, "note", "--run", run]),
            ("delete", &["fs", "delete", &sandbox, "note", "--run", run]),
            ("close", &["close", &sandbox, "--run", run]),
        ];
        let taken = verbs
            .iter()
            .filter(|(_, words)| home.call(*words).stdin("a").within(SOON).run().code() == Some(0));
        taken.map(|(verb, _)| format!("{verb} was done for a run that does not own it")).collect()
    };
    let attempt = |arena: &Arena<'_>| {
        let stranger = GROUND.home();
        let elsewhere = stranger.open();
        let foreign = arena.home.exec(&elsewhere, ["true"]).run().code() == Some(0);
        let foreign = foreign.then(|| "reached a sandbox of another home".to_owned());
        requests(arena.home, "run_a").into_iter().chain(foreign).collect()
    };
    Attack::starred(GROUND, "FA-15", title)
        .by(&[Route::Create])
        .every(&["logs", "read", "exec", "close"])
        .run_beside(attempt, || requests(&GROUND.home(), "run_b"));
}

#[test]
fn fa_16_the_file_api_has_no_more_rights_than_commands() {
    let title = "read, write, list and delete by the file API what commands may not";
    Attack::starred(GROUND, "FA-16", title).by(OPEN).without(&["FileRights"]).every(&["read", "wrote", "listed", "deleted"]).run(|arena| {
        let script = "rm -rf shut; mkdir shut; echo secret > closed; chmod 000 closed; touch shut/victim; chmod 500 shut; \
                      mkdir -p blind; touch blind/name; chmod 300 blind";
        arena.call(&["sh", "-c", script]).succeed();
        let done = |verb: &str, path: &str| arena.file(verb, &[path]).stdin("x").run().code() == Some(0);
        let mut breaches = Breaches::new();
        breaches.extend(done("read", "closed").then(|| "read a closed file".to_owned()));
        breaches.extend(done("write", "closed").then(|| "wrote to a closed file".to_owned()));
        breaches.extend(done("list", "blind").then(|| "listed a closed directory".to_owned()));
        breaches.extend(done("delete", "shut/victim").then(|| "deleted in a closed directory".to_owned()));
        arena.call(&["sh", "-c", "chmod 700 shut blind; rm -rf shut blind closed"]).succeed();
        breaches
    });
}
