//! NS: ways out of the namespaces and the filesystem.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use coracle_tests::attack::{Ground, LEAK, Sysctl, machine};
use coracle_tests::{Arena, Attack, Breaches, Canary, Route, count};

use crate::GROUND;

/// All of root's powers, on the machine itself.
const ROOT: &[&str] = &["UserNamespace", "Capabilities", "Seccomp", "NoNewPrivileges", "Landlock"];
/// On the machine: the one that sandboxes have too.
const PYTHON: &str = "/usr/bin/python3";
const CORE_PATTERN: &str = "/proc/sys/kernel/core_pattern";

#[test]
fn ns_01_the_guests_program_cannot_be_changed() {
    let title = "change the guest's program through `/proc/<n>/exe`, while a `#!/proc/self/exe` is started";
    // What is changed once in a volume all sandboxes of the engine share cannot be changed by the next route.
    let routes: &[Route] = match GROUND {
        Ground::Native => &[Route::Exec, Route::Transfer],
        Ground::Docker => &[Route::Exec],
    };
    let walls: &[&str] = match GROUND {
        Ground::Native => {
            &["UserNamespace", "Capabilities", "Seccomp", "NoNewPrivileges", "Landlock", "Opaque", "Hidepid"]
        }
        // There this leaves nothing open but the volume with the program.
        Ground::Docker => &["Capabilities", "Seccomp", "NoNewPrivileges", "Landlock", "Opaque", "Layers"],
    };
    Attack::starred(GROUND, "NS-01", title).by(routes).without(walls).run(|arena| {
        let script = "printf '#!/proc/self/exe\\n' > evil; chmod +x evil";
        arena.call(&["sh", "-c", script]).succeed();
        let program = guest_program(arena);
        let before = fingerprint(&program);
        let chase = arena.call(&["python3", "-c", include_str!("payloads/chase_exe.py"), "0.4"]).start();
        for _ in 0..count(5, 500) {
            arena.call(&["./evil"]).run();
            arena.call(&["/proc/self/exe"]).run();
        }
        chase.finish();

        let changed = fingerprint(&program) != before;
        // At an engine it lies in a volume that is read-only from here, too.
        if GROUND == Ground::Native {
            fs::set_permissions(&program, fs::Permissions::from_mode(0o555)).expect("it is ours");
        }
        changed.then(|| "changed the guest's program".to_owned()).into_iter().collect()
    });
}

/// Returns where the program can be found from outside.
fn guest_program(arena: &Arena<'_>) -> PathBuf {
    if GROUND == Ground::Docker {
        let guest = arena.home.census().guests()[0];
        // The very file that runs: the next sandbox on the engine puts the same program there again.
        return PathBuf::from(format!("/proc/{guest}/exe"));
    }
    let programs = fs::read_dir(arena.home.path().join("guest")).expect("the guest's program is in the home");
    programs.flatten().map(|entry| entry.path()).next().expect("a guest was started")
}

fn fingerprint(path: &Path) -> (Vec<u8>, u32, i64) {
    let metadata = fs::metadata(path).expect("it is there");
    (fs::read(path).expect("it can be read"), metadata.mode(), metadata.mtime())
}

#[test]
fn ns_02_a_directory_by_descriptor_leads_nowhere() {
    let canary = Canary::new();
    let outside = format!("{}{}", "../".repeat(16), canary.text());
    let title = "start in `/proc/self/fd/N` while coracle has inherited the machine's root";
    Attack::starred(GROUND, "NS-02", title).pointless_on_docker("an engine starts containers itself and they inherit nothing of coracle; descriptors of the guest are DK-02").through(&LEAK).without(&["Descriptors", "Landlock"]).run(|arena| {
        let mut breaches = Breaches::new();
        for number in 3..count(12, 1024) {
            let directory = format!("/proc/self/fd/{number}");
            let named = arena.call_with(&["--cwd", &directory], &["cat", &outside]).run();
            breaches.extend(canary.leaked(&named));
            let walked = arena.call(&["cat", &format!("{directory}{}", canary.text())]);
            if number == 9 {
                breaches.extend(canary.leaked(&walked.run()));
                breaches.extend(by_image_or_link(arena, &directory, &outside, &canary));
            }
        }
        breaches
    });
}

/// Has the directory named by the spec, or by a link the agent has put where the caller expects a directory.
fn by_image_or_link(arena: &Arena<'_>, directory: &str, outside: &str, canary: &Canary) -> Breaches {
    if arena.route == Route::Create {
        let ran = arena.call_with(&["--workdir", directory], &["cat", outside]).run();
        return canary.leaked(&ran);
    }
    arena.call(&["ln", "-sfn", directory, "build"]).succeed();
    canary.leaked(&arena.call_with(&["--cwd", "build"], &["cat", outside]).run())
}

#[test]
fn ns_03_nothing_is_open_but_three_descriptors() {
    let title = "find something open in a fresh command, while coracle has inherited descriptors";
    Attack::starred(GROUND, "NS-03", title)
        .pointless_on_docker(
            "an engine starts containers itself and they inherit nothing of coracle; the guest's are DK-02",
        )
        .through(&LEAK)
        .without(&["Descriptors"])
        .run(|arena| {
            let open = |pid: u32| {
                let entries = fs::read_dir(format!("/proc/{pid}/fd")).expect("it sleeps").flatten();
                entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
            };
            let looks = (0..count(2, 125)).flat_map(|_| arena.sleeper(|process| open(process.pid)));
            let more = looks.filter(|name| !["0", "1", "2"].contains(&name.as_str()));
            more.map(|name| format!("descriptor {name} is open")).collect()
        });
}

#[test]
fn ns_04_a_chroot_is_not_what_holds() {
    let canary = Canary::new();
    let walls = &["Pivot", "Capabilities", "Seccomp", "NoNewPrivileges", "Landlock"];
    Attack::row(GROUND, "NS-04", "double chroot, `..`, and a saved directory")
        .pointless_on_docker("the engine enters the root, and nothing of ours takes part")
        .without(walls)
        .run(|arena| {
            canary.leaked(&arena.python(include_str!("payloads/leave_chroot.py"), &[&canary.text()]))
        });
}

#[test]
fn ns_06_no_other_namespace_can_be_joined() {
    let canary = Canary::new();
    // An engine of the tests is in a process namespace of its own, whose first process is a shell.
    let (pid, name) = match GROUND {
        Ground::Native => (std::process::id().to_string(), own_name()),
        Ground::Docker => ("1".to_owned(), "bash".to_owned()),
    };
    let walls = &["PidNamespace", "UserNamespace", "Capabilities", "Seccomp", "NoNewPrivileges", "Landlock"];
    let title = "`setns` to every `/proc/*/ns/*`; look for processes of the machine";
    Attack::row(GROUND, "NS-06", title).without(walls).every(&["read a file", "saw a process"]).run(
        |arena| {
            let payload = include_str!("payloads/join_namespaces.py");
            let ran = arena.python(payload, &[&canary.text(), &pid, &name]);
            let seen = ran.text().contains("saw a process of the machine");
            let seen = seen.then(|| "saw a process of the machine".to_owned());
            canary.leaked(&ran).into_iter().chain(seen).collect()
        },
    );
}

fn own_name() -> String {
    fs::read_to_string("/proc/self/comm").expect("/proc is mounted").trim().to_owned()
}

#[test]
fn ns_07_no_namespace_can_be_made() {
    let title = "`unshare`, `clone` and `clone3` with every namespace";
    Attack::row(GROUND, "NS-07", title).without(&["Seccomp", "Nesting"]).run(|arena| {
        let payload = include_str!("payloads/make_namespaces.py");
        let word = format!("namespaces-{}", arena.route.name());
        let started = arena.call(&["python3", "-c", payload, &word]).start();
        started.wait_for(|output| output.starts_with(b"asked"));
        let makers = arena.home.census();
        let inside: Vec<_> = makers.named(&word).into_iter().filter(|maker| maker.inner_pid > 1).collect();
        started.kill();

        // The one that asked is the first; all others have what it has, or have made something.
        let first = inside.iter().min_by_key(|maker| maker.inner_pid).expect("it asks");
        let made = |maker: &&&coracle_tests::census::Process| {
            first.namespaces.len() != maker.namespaces.len()
                || !maker.namespaces.is_subset(&first.namespaces) && maker.command == first.command
        };
        inside.iter().filter(made).map(|_| "made a namespace".to_owned()).collect()
    });
}

#[test]
fn ns_08_mount_points_that_are_links_lead_nowhere() {
    let canary = Canary::new();
    let source = tempfile::tempdir().expect("a directory");
    let mount = format!("{}:/way/made", source.path().display());
    let title = "an image whose mount points, or the way to one, are links to paths of the machine";
    Attack::starred(GROUND, "NS-08", title).pointless_on_docker("the engine mounts, and nothing of ours takes part; links of an image where ours belong are DK-07").by(&[Route::Create]).without(&["Targets"]).run(|arena| {
        let image = arena.image();
        symlink(canary.directory(), image.join("way")).expect("the image is ours");
        arena.call_with(&["--mount", &mount], &["touch", "/way/made/file"]).run();
        let mut breaches = canary.damage();
        for name in ["proc", "dev", "workspace", "sys", "etc"] {
            let aside = image.join(format!("{name}.aside"));
            fs::rename(image.join(name), &aside).expect("the image is ours");
            symlink(canary.directory(), image.join(name)).expect("the image is ours");
            arena.call(&["sh", "-c", &format!("touch /{name}/file; mkdir /{name}/directory")]).run();
            breaches.extend(canary.damage());
            fs::remove_file(image.join(name)).expect("the image is ours");
            fs::rename(aside, image.join(name)).expect("the image is ours");
        }
        breaches
    });
}

#[test]
fn ns_09_a_volume_changing_under_way_moves_no_mount() {
    let canary = Canary::new();
    let source = tempfile::tempdir().expect("a directory");
    let inner = format!("{}:/cache/point/new", source.path().display());
    let title = "exchange a directory of a shared volume and a link while sandboxes mount below it";
    Attack::starred(GROUND, "NS-09", title)
        .pointless_on_docker("volumes are not mounted at engines yet")
        .by(&[Route::Create])
        .without(&["Targets"])
        .run(|arena| {
            let sandbox = arena.home.open_with(&["--mount", "cache:/cache"]);
            let target = canary.directory().to_string_lossy().into_owned();
            let payload = include_str!("payloads/swap.py");
            let swapper =
                arena.home.exec(&sandbox, ["python3", "-c", payload, &target, "/cache/point"]).start();
            swapper.wait_for(|output| output.starts_with(b"swapping"));
            let mut breaches = Breaches::new();
            for _ in 0..count(12, 10_000) {
                arena.call_with(&["--mount", "cache:/cache", "--mount", &inner], &["true"]).run();
                breaches.extend(canary.damage());
                if !breaches.is_empty() {
                    break;
                }
            }
            arena.home.exec(&sandbox, ["touch", "/workspace/stop"]).succeed();
            swapper.finish();
            breaches
        });
}

#[test]
fn ns_10_covers_are_not_taken_from_the_image() {
    let _machine = machine();
    let title = "an image whose `/dev/null` is a link to `core_pattern`, used to cover the kernel's files";
    let walls = &["Covers", "UserNamespace"];
    Attack::starred(GROUND, "NS-10", title)
        .pointless_on_docker("the engine covers files, with its own `/dev`")
        .by(&[Route::Create])
        .without(walls)
        .run(|arena| {
            let pattern = Sysctl::new(CORE_PATTERN).expect("every kernel has it");
            let image = arena.image();
            for name in ["dev/null", "etc/null"] {
                let _ = fs::remove_file(image.join(name));
                symlink(CORE_PATTERN, image.join(name)).expect("the image is ours");
            }
            arena.python(include_str!("payloads/write_covers.py"), &["covers-canary"]);
            pattern.damage()
        });
}

#[test]
fn ns_11_settings_are_written_only_to_our_own_proc() {
    let canary = Canary::new();
    let title = "an image whose `/proc` redirects what is written at boot to a file of the machine";
    Attack::starred(GROUND, "NS-11", title)
        .pointless_on_docker("the guest of a container writes to no setting")
        .by(&[Route::Create])
        .without(&["Procfs"])
        .run(|arena| {
            let image = arena.image();
            for name in ["proc/sys/user/max_user_namespaces", "proc/sys/kernel/shmall", "proc/sysrq-trigger"]
            {
                let link = image.join(name);
                fs::create_dir_all(link.parent().expect("it is below `proc`")).expect("the image is ours");
                symlink(canary.path(), link).expect("the image is ours");
            }
            arena.call(&["true"]).run();
            canary.damage()
        });
}

#[test]
fn ns_14_a_set_user_id_file_is_nobodys() {
    let title = "leave a set-user-id file in the workspace for a user of the machine to run";
    Attack::row(GROUND, "NS-14", title).pointless_on_docker("a container of a rootful engine has the machine's ids; its files are behind the engine's own directory").without(&["UserNamespace"]).run(|arena| {
        let script = "cp /usr/bin/id /workspace/lent; chmod 4755 /workspace/lent; exec sleep \"$1\"";
        arena.watch(&["sh", "-c", script, "sh"], |process| {
            let path = format!("/proc/{}/root/workspace/lent", process.pid);
            let found = coracle_tests::eventually(std::time::Duration::from_secs(5), || {
                fs::metadata(&path).is_ok_and(|file| file.permissions().mode() & 0o4000 != 0)
            });
            assert!(found.is_some(), "the file was not made");
            let owner = fs::metadata(&path).expect("it is there").uid();
            let lent = owner == 0 || reachable(arena.home.path(), "lent");
            lent.then(|| format!("a set-user-id file of user {owner}")).into_iter().collect()
        })
    });
}

#[test]
fn ns_14_no_set_user_id_file_is_left_in_the_callers_directory() {
    let project = tempfile::tempdir().expect("a directory");
    let mount = format!("{}:/project", project.path().display());
    let title = "leave a set-user-id file of the caller's in a directory they have mounted";
    let attempt = |arena: &Arena<'_>| -> Breaches {
        let script = "cd /project; for how in plain copied opened; do cp /usr/bin/id $how; done; chmod 4755 plain; \
                      cp -p plain copied; python3 -c 'import os; os.close(os.open(\"opened\", os.O_CREAT | os.O_WRONLY, 0o4755)); \
                      os.mknod(\"made\", 0o104755)'; true";
        arena.call_with(&["--mount", &mount], &["sh", "-c", script]).run();
        let files = fs::read_dir(project.path()).expect("it is ours").flatten().map(|entry| entry.path());
        let lent = files.filter(|path| {
            let lends = fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o6000 != 0);
            let _ = fs::remove_file(path);
            lends
        });
        lent.map(|path| {
            format!("`{}` lends its owner's rights", path.file_name().unwrap_or_default().display())
        })
        .collect()
    };
    let naive = || {
        let path = project.path().join("naive");
        fs::write(&path, "").expect("it is ours");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).expect("it is ours");
        let lends = fs::metadata(&path).is_ok_and(|file| file.permissions().mode() & 0o6000 != 0);
        lends.then(|| "a bit that is set is seen".to_owned()).into_iter().collect()
    };
    Attack::row(GROUND, "NS-14b", title).by(&[Route::Create]).run_beside(attempt, naive);
}

/// Tells whether a user without any rights can get to a file of that name below a directory.
fn reachable(directory: &Path, name: &str) -> bool {
    let found = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "find"])
        .arg(directory)
        .args(["-name", name])
        .output()
        .expect("`setpriv` is part of util-linux");
    !found.stdout.is_empty()
}

#[test]
fn ns_15_mounts_stay_as_they_are() {
    let _machine = machine();
    let title = "remount read-only mounts, take off covers, move mounts; then write a setting";
    Attack::row(GROUND, "NS-15", title).without(ROOT).run(|arena| {
        let pattern = Sysctl::new(CORE_PATTERN).expect("every kernel has it");
        arena.python(include_str!("payloads/remount.py"), &["mounts-canary"]);
        pattern.damage()
    });
}

#[test]
fn ns_18_shared_memory_and_queues_are_private() {
    let canary = Canary::new();
    let key = (0x0c0_0000 + std::process::id()).to_string();
    let queue = format!("/coracle-canary-{key}");
    let make = include_str!("payloads/host/share_memory.py");
    let on_the_machine = |verb: &str| {
        let made = Command::new(PYTHON).args(["-c", make, verb, &key, &queue, canary.secret()]).status();
        assert!(made.expect("python3 can be started").success(), "could not {verb} the segment");
    };
    let title = "read the machine's SysV memory and POSIX queue by their names";
    let walls = &["IpcNamespace"];
    Attack::row(GROUND, "NS-18", title).without(walls).run(|arena| {
        on_the_machine("make");
        let ran = arena.python(include_str!("payloads/shared_memory.py"), &[&key, &queue[1..]]);
        on_the_machine("remove");
        canary.leaked(&ran)
    });
}

#[test]
fn ns_19_the_callers_keys_cannot_be_read() {
    let canary = Canary::new();
    let with_key = include_str!("payloads/host/with_key.py");
    let name = "coracle-canary";
    Attack::row(GROUND, "NS-19", "read the keyring of the session coracle was started in")
        .pointless_on_docker("an engine starts containers in its own session, where no key of the caller is")
        .through(&[PYTHON, "-c", with_key, name, canary.secret()])
        .without(&["Seccomp"])
        .run(|arena| canary.leaked(&arena.python(include_str!("payloads/read_key.py"), &[name])));
}

#[test]
fn ns_20_a_command_cannot_be_read_before_it_is_one() {
    let _machine = machine();
    // On machines set up for debugging, changing users does not hide a process by itself.
    let setting = Sysctl::new("/proc/sys/fs/suid_dumpable").expect("every kernel has it");
    fs::write("/proc/sys/fs/suid_dumpable", "1").expect("root may set it");
    let title = "trace or read a command between its fork and its program, where `fs.suid_dumpable` is 1";
    let walls = &["Opaque", "Hidepid"];
    Attack::starred(GROUND, "NS-20", title).by(&[Route::Exec, Route::Transfer]).without(walls).run(|arena| {
        let payload = include_str!("payloads/spy_on_newborns.py");
        let spy = arena.call(&["python3", "-c", payload]).start();
        spy.wait_for(|output| output.starts_with(b"watching"));
        let hit = |output: &[u8]| output.len() > b"watching\n".len();
        for _ in 0..count(60, 10_000) {
            arena.call(&["true"]).run();
            if hit(&spy.stdout()) {
                break;
            }
        }
        arena.call(&["touch", "/workspace/stop"]).succeed();
        let finished = spy.finish();
        finished.text().lines().skip(1).map(str::to_owned).collect()
    });
    drop(setting);
}

#[test]
fn ns_21_nothing_can_be_typed_at_a_terminal() {
    let _machine = machine();
    // Kernels that refuse it by themselves would make this prove nothing.
    let legacy = Sysctl::new("/proc/sys/dev/tty/legacy_tiocsti");
    let _ = legacy.as_ref().map(|_| fs::write("/proc/sys/dev/tty/legacy_tiocsti", "1"));
    let title = "`TIOCSTI` and `TIOCLINUX` at the terminal of an interactive exec";
    Attack::starred(GROUND, "NS-21", title)
        .by(&[Route::Terminal])
        .without(&["Seccomp", "Capabilities", "NoNewPrivileges"])
        .every(&["typed"])
        .run(|arena| arena.confess(include_str!("payloads/type_at_terminal.py"), &[]));
}

#[test]
fn ns_22_what_is_shared_with_the_machine_cannot_be_changed() {
    let _machine = machine();
    let name = format!("coracle-canary-{}", std::process::id());
    let title = "write to, or link, files of the layers every sandbox shares";
    Attack::row(GROUND, "NS-22", title)
        .pointless_on_docker(
            "layers are the engine's, below an overlay it mounts; the program that is shared is DK-03",
        )
        .without(&["Layers"])
        .run(|arena| {
            arena.python(include_str!("payloads/write_layers.py"), &[&name]);
            let places = ["/usr", "/usr/share", "/usr/bin", "/usr/lib", "/bin", "/lib", "/etc", "/opt"];
            let paths = places.iter().map(|place| Path::new(place).join(&name));
            paths
                .filter(|path| fs::remove_file(path).is_ok())
                .map(|path| format!("wrote {}", path.display()))
                .collect()
        });
}

#[test]
fn ns_23_a_sandbox_id_is_not_a_path() {
    let victim = "victim";
    let ids = |home: &Path| -> Vec<String> {
        let long = "x".repeat(300);
        let absolute = home.join(victim).to_string_lossy().into_owned();
        [
            "../victim",
            "../../victim",
            "sbx_/../../victim",
            "%2e%2e/victim",
            ".",
            "..",
            &absolute,
            &long,
            "",
            "a\nb",
        ]
        .map(str::to_owned)
        .into()
    };
    let prepared = |home: &Path| {
        fs::create_dir_all(home.join("sandboxes/x")).expect("the home is ours");
        fs::create_dir_all(home.join(victim)).expect("the home is ours");
        fs::write(home.join(victim).join("kept"), "kept").expect("the home is ours");
    };
    let damage = |home: &Path| -> Breaches {
        let kept = home.join(victim).join("kept").exists();
        (!kept).then(|| "removed a directory beside the sandboxes".to_owned()).into_iter().collect()
    };
    let attempt = |arena: &Arena<'_>| {
        let home = arena.home.path();
        prepared(home);
        let mut breaches = Breaches::new();
        for id in ids(home) {
            for verb in
                [&["close", &id][..], &["show", &id], &["fs", "delete", &id, "kept"], &["stop", &id, "x"]]
            {
                let ran = arena.home.call(verb).run();
                if ran.code() == Some(0) || ran.stderr.contains("panicked") {
                    breaches.push(format!("`{}` took `{id}`", verb[0]));
                }
            }
        }
        breaches.extend(damage(home));
        fs::remove_dir_all(home.join(victim)).expect("the home is ours");
        let _ = fs::remove_dir_all(home.join("sandboxes/x"));
        breaches
    };
    let naive = || {
        let home = tempfile::tempdir().expect("a directory");
        prepared(home.path());
        ids(home.path())
            .iter()
            .take(1)
            .for_each(|id| drop(fs::remove_dir_all(home.path().join("sandboxes").join(id))));
        damage(home.path())
    };
    let title = "a sandbox id that is a path, too long, empty, or has a line break";
    Attack::row(GROUND, "NS-23", title).by(&[Route::Create]).run_beside(attempt, naive);
}

#[test]
fn ns_24_root_inside_is_nobody_outside() {
    let title = "make files and processes as the sandbox's root; look whose they are outside";
    Attack::row(GROUND, "NS-24", title)
        .pointless_on_docker("a container of a rootful engine has the machine's ids; the profile says so")
        .without(&["UserNamespace"])
        .every(&["process", "file"])
        .run(|arena| {
            let script = "touch /workspace/mine; exec sleep \"$1\"";
            arena.watch(&["sh", "-c", script, "sh"], |process| {
                let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).expect("it sleeps");
                let ids = status.lines().filter(|line| line.starts_with("Uid:") || line.starts_with("Gid:"));
                let root = ids.flat_map(|line| line.split_whitespace().skip(1)).any(|id| id == "0");
                let path = format!("/proc/{}/root/workspace/mine", process.pid);
                let file = coracle_tests::eventually(std::time::Duration::from_secs(5), || {
                    fs::metadata(&path).is_ok()
                })
                .and_then(|_| fs::metadata(&path).ok());
                let process = root.then(|| "a process of the machine's root".to_owned());
                let file = file
                    .is_none_or(|file| file.uid() == 0)
                    .then(|| "a file of the machine's root".to_owned());
                process.into_iter().chain(file).collect()
            })
        });
}
