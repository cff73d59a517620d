//! How settings resolve, layer by layer.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use coracle_core::Kind;
use coracle_core::spec::Runtime;

use super::super::Registries;
use super::*;

const USER: u32 = 1000;

fn resolve(flags: Flags, variables: &[(&str, &str)]) -> Result<Resolved> {
    let variables: BTreeMap<String, OsString> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
    Resolved::from(flags, &|name| variables.get(name).cloned(), USER)
}

fn home_with(settings: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a directory can be made");
    std::fs::write(home.path().join("config.toml"), settings).expect("the directory is ours");
    home
}

fn text_of(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

#[test]
fn a_flag_beats_the_environment_and_that_the_default() {
    let flags = Flags { home: Some("/by/flag".into()), ..Flags::default() };
    let variables = [("CORACLE_HOME", "/by/variable"), ("XDG_STATE_HOME", "/state")];

    let by_flag = resolve(flags, &variables).expect("valid").home;
    let by_variable = resolve(Flags::default(), &variables).expect("valid").home;
    let by_default = resolve(Flags::default(), &variables[1..]).expect("valid").home;

    assert_eq!((by_flag.value, by_flag.source), ("/by/flag".into(), Source::Flag));
    assert_eq!(
        (by_variable.value, by_variable.source),
        ("/by/variable".into(), Source::Environment("CORACLE_HOME"))
    );
    assert_eq!((by_default.value, by_default.source), ("/state/coracle".into(), Source::Default));
}

#[test]
fn the_environment_beats_the_file_and_that_the_default() {
    let home = home_with("image = 'by-file'\ngrace = '7s'\n");
    let path = text_of(home.path());

    let resolved = resolve(Flags::default(), &[("CORACLE_HOME", path), ("CORACLE_IMAGE", "by-variable")])
        .expect("valid");

    assert_eq!(resolved.image.value, "by-variable");
    assert_eq!(resolved.image.source, Source::Environment("CORACLE_IMAGE"));
    assert_eq!(resolved.grace.value, Duration::from_secs(7));
    assert_eq!(resolved.grace.source, Source::File(home.path().join("config.toml")));
    assert_eq!(resolved.exec_timeout.source, Source::Default);
}

#[test]
fn a_deadline_of_nothing_is_refused_in_words_and_the_longest_one_can_be_lifted() {
    let home = home_with("exec_timeout_max = 'none'\n");
    let place = ("CORACLE_HOME", text_of(home.path()));
    let lifted = resolve(Flags::default(), &[place]).expect("valid");
    let bound = resolve(Flags::default(), &[place, ("CORACLE_EXEC_TIMEOUT_MAX", "4h")]).expect("valid");
    let other = home_with("exec_timeout_max = '4h'\n");
    let other = ("CORACLE_HOME", text_of(other.path()));
    let unbound = resolve(Flags::default(), &[other, ("CORACLE_EXEC_TIMEOUT_MAX", "none")]).expect("valid");
    let refused = resolve(Flags::default(), &[other, ("CORACLE_EXEC_TIMEOUT", "0")]).expect_err("nothing");

    assert_eq!((lifted.exec_timeout_max.value, unbound.exec_timeout_max.value), (None, None));
    assert_eq!(bound.exec_timeout_max.value, Some(Duration::from_secs(4 * 3600)));
    assert_eq!(refused.message, "`exec_timeout` is 0s, and has to be at least 1ms and at most 4h");
}

#[test]
fn how_much_room_is_left_alone_and_what_tenants_may_keep_are_sizes() {
    let home = home_with("[storage]\nreserve = '3g'\n[tenants.acme]\nstorage = '5m'\n");
    let place = ("CORACLE_HOME", text_of(home.path()));
    let resolved = resolve(Flags::default(), &[place]).expect("valid");
    let off = resolve(Flags::default(), &[place, ("CORACLE_STORAGE_RESERVE", "0")]).expect("valid");
    let refused = resolve(Flags::default(), &[place, ("CORACLE_STORAGE_RESERVE", "much")]);

    let storage = |tenant: &str| resolved.policy().tenants.of(&tenant.parse().expect("an id")).storage;
    assert_eq!((resolved.policy().reserve, off.reserve.value), (Reserve::Bytes(3 << 30), Reserve::Bytes(0)));
    assert_eq!((storage("acme"), storage("other")), (5 << 20, 50 << 30));
    assert_eq!(refused.expect_err("no size").kind, Kind::Invalid);
}

#[test]
fn a_range_may_be_written_in_part() {
    let home = home_with("[limits]\nmemory_mb = { max = 1024 }\npids = { default = 64 }\n");
    let resolved = resolve(Flags::default(), &[("CORACLE_HOME", text_of(home.path()))]).expect("valid");

    let limits = resolved.policy().limits;

    assert_eq!(limits.memory_mb, Range { default: 1024, max: 1024 });
    assert_eq!(limits.pids, Range { default: 64, max: Ranges::default().pids.max });
}

#[test]
fn what_is_unknown_or_contradictory_is_refused() {
    for settings in [
        "colour = 'blue'",
        "[limits]\nmemory = 1",
        "[limits]\npids = { default = 9, max = 8 }",
        "grace = 'soon'",
        "exec_timeout = '2h'\nexec_timeout_max = '1h'",
        "image",
        "[images]\nallowed = []",
        "[runtimes]\ncobol = 'host'",
        "[registries]\nplain_http = 'localhost:5000'",
    ] {
        let home = home_with(settings);

        let refused = resolve(Flags::default(), &[("CORACLE_HOME", text_of(home.path()))]);

        assert_eq!(refused.expect_err(settings).kind, Kind::Invalid);
    }
}

#[test]
fn what_is_written_about_tenants_reaches_the_policy() {
    let home = home_with(
        "[limits]\nmemory_mb = { max = 2048 }\n\
         [tenants.acme]\nsandboxes = 5\nhibernated = 3\nrate = 20\n\
         [tenants.acme.images]\nallow = ['python']\n\
         [tenants.acme.limits]\nmemory_mb = { max = 256 }\n\
         [tenants.'*']\nsandboxes = 2\nrate = 1\nburst = 9\n",
    );
    let policy =
        resolve(Flags::default(), &[("CORACLE_HOME", text_of(home.path()))]).expect("valid").policy();

    let (acme, other) = ("acme".parse().expect("an id"), "other".parse().expect("an id"));
    let (acme, other) = (policy.tenants.of(&acme), policy.tenants.of(&other));
    let rate = |per_second, burst| Some(coracle_core::tenant::Rate { per_second, burst });
    assert_eq!((acme.sandboxes, acme.rate), (5, rate(20, 20)));
    assert_eq!((other.sandboxes, other.rate), (2, rate(1, 9)));
    assert_eq!((acme.hibernated, other.hibernated), (3, coracle_core::tenant::HIBERNATED));
    assert!(acme.images.is_some() && other.images.is_none() && other.limits.is_none());
    let limits = policy.of_tenant(acme).limits;
    assert_eq!((limits.memory_mb, limits.pids), (Range { default: 256, max: 256 }, policy.limits.pids));
}

#[test]
fn contradictions_about_tenants_and_doors_are_refused() {
    for settings in [
        "[tenants.'a/b']",
        "[tenants.acme]\nsandbox = 1",
        "[tenants.acme]\nrate = 0",
        "[tenants.acme]\nburst = 5",
        "[tenants.acme.limits]\npids = { default = 9, max = 8 }",
        "[tenants.acme.images]\nallow = ['docker.io/lib*']",
        "[serve]\nhosts = ['example.com:80']",
        "[serve]\nhosts = ['*']",
        "[serve]\norigins = ['*']",
        "[serve]\norigins = ['https://example.com/']",
        "[serve]\norigins = ['null']",
    ] {
        let home = home_with(settings);

        let refused = resolve(Flags::default(), &[("CORACLE_HOME", text_of(home.path()))]);

        assert_eq!(refused.expect_err(settings).kind, Kind::Invalid);
    }
}

#[test]
fn rules_about_images_and_mounts_reach_the_policy() {
    let home = home_with(
        "[images]\nallow = ['host', 'docker.io/library/*']\n\
         [runtimes]\npython = 'docker.io/library/python:3.12'\n\
         [registries]\nplain_http = ['registry.lan:5000']\nprivate = ['registry.lan:5000', '10.0.0.1']\n\
         extra_roots = '/etc/ca.pem'\n\
         [mounts]\nallow = ['/srv']\n",
    );

    let resolved = resolve(Flags::default(), &[("CORACLE_HOME", text_of(home.path())), ("HOME", "/home/u")])
        .expect("valid");

    let policy = resolved.policy();
    let registries = resolved.images.registries();
    assert_eq!(policy.images.patterns().map(<[_]>::len), Some(2));
    assert_eq!(policy.runtimes[&Runtime::Python], "docker.io/library/python:3.12");
    assert_eq!(policy.mounts.allow, Some(vec!["/srv".to_owned()]));
    assert_eq!(registries.plain_http, ["registry.lan:5000"]);
    assert_eq!(registries.private, ["registry.lan:5000", "10.0.0.1"]);
    assert_eq!(registries.docker_config, Some("/home/u/.docker".into()));
    assert_eq!(registries.extra_roots, Some("/etc/ca.pem".into()));
}

#[test]
fn the_choice_of_backends_reaches_the_policy() {
    let home = home_with("backend = 'auto'\nfallback = ['podman']\nbackends = ['docker', 'native']\n");
    let at = ("CORACLE_HOME", text_of(home.path()));

    let by_file = resolve(Flags::default(), &[at]).expect("valid").policy().backends;
    let variables = [at, ("CORACLE_BACKEND", "docker"), ("CORACLE_FALLBACK", "ssh://vm, native")];
    let by_variable = resolve(Flags::default(), &variables).expect("valid").policy().backends;

    assert_eq!((by_file.backend.as_deref(), by_file.fallback), (Some("auto"), vec!["podman".to_owned()]));
    assert_eq!(by_file.order, Some(vec!["docker".to_owned(), "native".to_owned()]));
    assert_eq!(by_variable.backend.as_deref(), Some("docker"));
    assert_eq!(by_variable.fallback, ["ssh://vm", "native"]);
}

/// Returns the settings of a home for a repository with this `sandbox` block, and the path of its file.
fn in_project(settings: &str, block: &str, variables: &[(&str, &str)]) -> (Resolved, PathBuf) {
    let (home, repository) = (home_with(settings), tempfile::tempdir().expect("a directory"));
    let path = repository.path().join(".openagents/project.json");
    std::fs::create_dir(repository.path().join(".openagents")).expect("ours");
    std::fs::write(&path, format!("{{\"sandbox\": {block}}}")).expect("ours");
    let flags = Flags { project: Some(repository.path().to_owned()), ..Flags::default() };
    let variables: Vec<_> =
        [("CORACLE_HOME", text_of(home.path()))].iter().chain(variables).copied().collect();
    (resolve(flags, &variables).expect("valid"), path)
}

const ASKS: &str =
    r#"{"backend": "docker", "image": "oven/bun:1", "memoryLimit": "2G", "cpuLimit": 1, "timeoutMs": 9000}"#;

#[test]
fn a_project_has_a_say_where_the_user_has_none() {
    let (resolved, path) = in_project("", ASKS, &[]);

    let policy = resolved.policy();
    assert_eq!((policy.image.as_str(), policy.backends.backend.as_deref()), ("oven/bun:1", Some("docker")));
    assert_eq!((policy.limits.memory_mb.default, policy.limits.cpu_millicores.default), (2048, 1000));
    assert_eq!(policy.exec_timeout, Duration::from_secs(9));
    assert_eq!(resolved.image.source, Source::Project(path));
    assert_eq!(resolved.notes.len(), 2);
    // The maxima stay the operator's.
    assert_eq!(policy.limits.memory_mb.max, Ranges::default().memory_mb.max);
}

#[test]
fn the_users_settings_override_the_project() {
    let settings = "image = 'own'\nexec_timeout = '1m'\n[limits]\nmemory_mb = { default = 1024 }\n\
                    cpu_millicores = { default = 4000 }\n";

    let (resolved, _) = in_project(settings, ASKS, &[("CORACLE_BACKEND", "native")]);

    let policy = resolved.policy();
    assert_eq!((policy.image.as_str(), policy.backends.backend.as_deref()), ("own", Some("native")));
    assert_eq!(policy.exec_timeout, Duration::from_secs(60));
    // The project may lower the user's own default, not raise it.
    assert_eq!((policy.limits.memory_mb.default, policy.limits.cpu_millicores.default), (1024, 1000));
}

#[test]
fn a_project_gets_no_more_than_the_maximum_and_no_backend_it_may_not_name() {
    let settings =
        "exec_timeout_max = '4h'\n[projects]\nbackends = ['native']\n[limits]\nmemory_mb = { max = 8192 }\n";
    let greedy = r#"{"backend": "auto", "memoryLimit": "1T", "cpuLimit": 1000, "timeoutMs": 99999999999}"#;

    let policy = in_project("", greedy, &[]).0.policy();
    let (bounded, _) = in_project(settings, greedy, &[]);

    assert_eq!(policy.limits.memory_mb.default, policy.limits.memory_mb.max);
    assert_eq!(policy.limits.cpu_millicores.default, policy.limits.cpu_millicores.max);
    assert_eq!(policy.backends.backend.as_deref(), Some("auto"));
    assert_eq!(bounded.policy().backends.backend, None);
    assert_eq!(bounded.policy().exec_timeout, Duration::from_secs(4 * 3600));
    assert!(bounded.notes[0].contains("projects.backends"), "{:?}", bounded.notes);
}

#[test]
fn a_project_without_a_sandbox_changes_nothing_and_one_can_be_left_out_of_account() {
    let (off, _) = in_project("", r#"{"enabled": false, "image": "oven/bun:1", "memoryLimit": "1G"}"#, &[]);
    let (by_variable, _) = in_project("", ASKS, &[("CORACLE_PROJECT", "ignore")]);
    let (by_file, _) = in_project("[projects]\nread = false\n", "not even JSON", &[]);

    assert_eq!(off.policy(), Policy::default());
    assert!(off.notes[0].contains("asks for no sandbox"), "{:?}", off.notes);
    assert_eq!((by_variable.policy(), by_variable.notes.len()), (Policy::default(), 0));
    assert_eq!((by_file.policy(), by_file.notes.len()), (Policy::default(), 0));
}

#[test]
fn what_is_not_written_allows_everything_and_names_nothing() {
    let resolved = resolve(Flags::default(), &[("CORACLE_HOME", "/nowhere")]).expect("valid");

    assert_eq!(resolved.policy(), Policy::default());
    assert_eq!(resolved.images.registries(), Registries::default());
}

#[test]
fn dockers_own_variable_says_where_its_settings_are() {
    let home = home_with("[registries]\ndocker_config = '/by/file'\n");
    let at = ("CORACLE_HOME", text_of(home.path()));

    let by_file = resolve(Flags::default(), &[at]).expect("valid").images.registries();
    let by_variable = resolve(Flags::default(), &[at, ("DOCKER_CONFIG", "/by/variable")]).expect("valid");

    assert_eq!(by_file.docker_config, Some("/by/file".into()));
    assert_eq!(by_variable.images.registries().docker_config, Some("/by/variable".into()));
}

#[test]
fn what_no_image_host_or_directory_is_called_is_refused_with_the_file() {
    for (settings, field) in [
        ("image = 'PYTHON'", "image"),
        ("[images]\nallow = ['docker.io/lib*']", "images.allow"),
        ("[runtimes]\npython = 'https://docker.io/python'", "runtimes.python"),
        ("[images]\nprefix = 'https://registry.lan/'", "images.prefix"),
        ("[images]\nprefix = 'Registry/'", "images.prefix"),
        ("[images]\nprepull = ['ruby']", "images.prepull"),
        ("[images]\nprepull = ['PYTHON']", "images.prepull"),
        ("[registries]\nplain_http = ['http://localhost:5000']", "registries.plain_http"),
        ("[registries]\nplain_http = ['registry']", "registries.plain_http"),
        ("backend = '-oProxyCommand=x'", "backend"),
        ("fallback = ['docker', '']", "fallback"),
        ("backends = ['a b']", "backends"),
        ("[registries]\nprivate = ['10.0.0.1/8']", "registries.private"),
        ("[registries]\nprivate = ['user@registry.lan']", "registries.private"),
        ("[mounts]\nallow = ['srv']", "mounts.allow"),
        ("[mounts]\nallow = ['/srv/../etc']", "mounts.allow"),
    ] {
        let home = home_with(settings);

        let refused = resolve(Flags::default(), &[("CORACLE_HOME", text_of(home.path()))]);

        let error = refused.expect_err(settings);
        assert_eq!((error.kind, &error.details["field"]), (Kind::Invalid, &field.into()), "{settings}");
        let hint = error.hint.expect(settings);
        assert!(hint.contains("config.toml"), "{settings}: {hint}");
    }
}

#[test]
fn languages_lead_to_images_by_variable_file_and_prefix() {
    let home = home_with(
        "[images]\nprefix = 'registry.lan/golden/'\nprepull = ['python', 'nodejs', 'bash', 'alpine:3']\n\
         [runtimes]\nnode = 'node:22'\nbash = 'host'\n",
    );
    let at = ("CORACLE_HOME", text_of(home.path()));

    let by_file = resolve(Flags::default(), &[at]).expect("valid").policy();
    let variables = [at, ("CORACLE_NODE_IMAGE", "ghcr.io/o/node"), ("CORACLE_IMAGE_PREFIX", "other.lan/")];
    let by_variable = resolve(Flags::default(), &variables).expect("valid").policy();

    assert_eq!(by_file.runtimes[&Runtime::Node], "registry.lan/golden/node:22");
    assert_eq!(by_file.runtimes[&Runtime::Ruby], "registry.lan/golden/coracle-ruby:latest");
    let golden = "registry.lan/golden/coracle-python:latest";
    assert_eq!(by_file.prepull, [golden, "registry.lan/golden/node:22", "docker.io/library/alpine:3"]);
    assert_eq!(by_variable.runtimes[&Runtime::Node], "ghcr.io/o/node");
    assert_eq!(by_variable.runtimes[&Runtime::Ruby], "other.lan/coracle-ruby:latest");
}

#[test]
fn every_setting_is_shown() {
    let home = home_with("[images]\nallow = []\n[runtimes]\nnode = 'node:22'\n");
    let resolved = resolve(Flags::default(), &[("CORACLE_HOME", text_of(home.path()))]).expect("valid");

    let settings = resolved.settings();

    let value = |name: &str| {
        let found = settings.iter().find(|setting| setting.name == name);
        found.unwrap_or_else(|| panic!("`{name}` is not shown")).value.as_str()
    };
    assert_eq!((value("images.allow"), value("mounts.allow")), ("none", "all"));
    assert_eq!((value("runtimes.node"), value("runtimes.python")), ("node:22", "as image"));
    assert_eq!((value("registries.plain_http"), value("registries.private")), ("none", "none"));
}

#[test]
fn the_home_comes_before_the_settings_all_homes_share() {
    let (home, shared) = (home_with("image = 'own'"), tempfile::tempdir().expect("a directory"));
    std::fs::create_dir(shared.path().join("coracle")).expect("ours");
    std::fs::write(shared.path().join("coracle/config.toml"), "image = 'shared'").expect("ours");
    let xdg = ("XDG_CONFIG_HOME", text_of(shared.path()));

    let own = resolve(Flags::default(), &[("CORACLE_HOME", text_of(home.path())), xdg]).expect("valid");
    let other = resolve(Flags::default(), &[("CORACLE_HOME", "/nowhere"), xdg]).expect("valid");

    assert_eq!((own.image.value.as_str(), other.image.value.as_str()), ("own", "shared"));
}

#[test]
fn who_calls_comes_from_flag_or_environment_and_else_is_the_person() {
    let home = ("CORACLE_HOME", "/nowhere");

    let person = resolve(Flags::default(), &[home]).expect("valid");
    let named = resolve(Flags::default(), &[home, ("CORACLE_RUN", "run_a"), ("CORACLE_EPOCH", "3")]);
    let refused = resolve(Flags::default(), &[home, ("CORACLE_RUN", "../x")]);

    assert_eq!(person.run.value.as_str(), "run_user_1000");
    let named = named.expect("valid");
    assert_eq!((named.run.value.as_str(), named.epoch.value), ("run_a", Some(Epoch(3))));
    assert_eq!(refused.expect_err("not an id").kind, Kind::Invalid);
}
