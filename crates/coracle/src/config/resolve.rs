//! One value from four sources, for every setting.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use coracle_backends::Engines;
use coracle_core::bytes::Bytes;
use coracle_core::headroom::Reserve;
use coracle_core::limits::{Range, Ranges};
use coracle_core::{Epoch, Error, Policy, Result, RunId, duration};

use super::backends::BackendSettings;
use super::engines::EngineSettings;
use super::file::{self, PartialRange};
use super::images::{ImageSettings, check_image};
use super::layers::{Environment, Found, Layers};
use super::mcp::McpSettings;
use super::network::NetworkSettings;
use super::project::{self, ProjectSettings};
use super::serve::ServeSettings;
use super::telemetry::TelemetrySettings;
use super::tenants::TenantSettings;
use super::{Flags, Setting, Source, home, setting};

/// Every setting, decided.
#[derive(Debug)]
pub struct Resolved {
    pub home: Found<PathBuf>,
    pub run: Found<RunId>,
    pub epoch: Found<Option<Epoch>>,
    pub image: Found<String>,
    pub exec_timeout: Found<Duration>,
    pub exec_timeout_max: Found<Duration>,
    pub grace: Found<Duration>,
    pub inline_output: Found<u64>,
    pub spares: Found<Option<usize>>,
    pub logs_retention: Found<Duration>,
    pub reserve: Found<Reserve>,
    pub limits: [(&'static str, Found<Range>); 7],
    pub backends: BackendSettings,
    pub images: ImageSettings,
    pub network: NetworkSettings,
    pub engines: EngineSettings,
    pub projects: ProjectSettings,
    pub telemetry: TelemetrySettings,
    pub serve: ServeSettings,
    pub mcp: McpSettings,
    pub tenants: TenantSettings,
    pub notes: Vec<String>,
    pub crash_at: Option<String>,
}

impl Resolved {
    /// Decides every setting and refuses those that contradict each other.
    pub fn from(flags: Flags, environment: Environment<'_>, user: u32) -> Result<Self> {
        let home = home::find(flags.home, environment, user)?;
        let file = file::read(home::settings_files(&home.value, environment))?;
        let layers = Layers { environment, file };
        let policy = Policy::default();
        let mut resolved = Self {
            home,
            run: layers.of_caller("CORACLE_RUN", flags.run, home::person(user))?,
            epoch: layers.epoch(flags.epoch)?,
            image: layers
                .pick("CORACLE_IMAGE", text, |file| file.image.clone(), policy.image)?
                .checked(|image| check_image("image", image))?,
            exec_timeout: layers.pick(
                "CORACLE_EXEC_TIMEOUT",
                span,
                |file| file.exec_timeout,
                policy.exec_timeout,
            )?,
            exec_timeout_max: layers.pick(
                "CORACLE_EXEC_TIMEOUT_MAX",
                span,
                |file| file.exec_timeout_max,
                policy.exec_timeout_max,
            )?,
            grace: layers.pick("CORACLE_GRACE", span, |file| file.grace, policy.grace)?,
            inline_output: layers
                .pick("CORACLE_INLINE_OUTPUT", bytes, |file| file.inline_output, policy.inline_output)?
                .checked(|bytes| check_inline_output(*bytes))?,
            spares: layers
                .pick(
                    "CORACLE_SPARES",
                    |name, text| count(name, text).map(Some),
                    |file| file.spares.map(Some),
                    None,
                )?
                .checked(|spares| check_spares(*spares))?,
            logs_retention: layers.pick(
                "CORACLE_LOGS_RETENTION",
                span,
                |file| file.logs.retention,
                LOGS_RETENTION,
            )?,
            reserve: layers.pick(
                "CORACLE_STORAGE_RESERVE",
                reserve,
                |file| file.storage.reserve.map(|Bytes(bytes)| Reserve::Bytes(bytes)),
                policy.reserve,
            )?,
            limits: layers.limits(&policy.limits),
            backends: BackendSettings::from(&layers)?,
            images: ImageSettings::from(&layers)?,
            network: NetworkSettings::from(&layers)?,
            engines: EngineSettings::from(&layers)?,
            projects: ProjectSettings::from(&layers)?,
            telemetry: TelemetrySettings::from(&layers)?,
            serve: ServeSettings::from(&layers)?,
            mcp: McpSettings::from(&layers),
            tenants: TenantSettings::from(&layers)?,
            notes: Vec::new(),
            crash_at: environment("CORACLE_CRASH_AT").and_then(|name| name.into_string().ok()),
        };
        if let Some(start) = flags.project.filter(|_| resolved.projects.read.value)
            && let Some(found) = project::find(&start, home::of_user(environment), user)?
        {
            resolved.notes = resolved.adopt(&found);
        }
        resolved.notes.extend(resolved.telemetry.notes.iter().cloned());
        resolved.check()?;
        Ok(resolved)
    }

    /// Returns the operator's rules.
    pub fn policy(&self) -> Policy {
        let [cpu_millicores, memory_mb, pids, timeout_seconds, workspace_mb, inodes, output_bytes] =
            self.limits.each_ref().map(|(_, found)| found.value);
        let mut policy = Policy {
            limits: Ranges {
                cpu_millicores,
                memory_mb,
                pids,
                timeout_seconds,
                workspace_mb,
                inodes,
                output_bytes,
            },
            exec_timeout: self.exec_timeout.value,
            exec_timeout_max: self.exec_timeout_max.value,
            grace: self.grace.value,
            inline_output: self.inline_output.value,
            image: self.image.value.clone(),
            reserve: self.reserve.value,
            ..Policy::default()
        };
        self.images.apply(&mut policy);
        policy.network = self.network.policy();
        policy.backends = self.backends.preference();
        policy.tenants = self.tenants.tenants(&policy.limits);
        policy
    }

    /// Returns what was said about engines.
    pub fn engines(&self) -> Engines {
        self.engines.engines(self.images.registries().docker_config)
    }

    /// Returns every setting for people.
    pub fn settings(&self) -> Vec<Setting> {
        let epoch = self.epoch.value.map_or("current".to_owned(), |epoch| epoch.0.to_string());
        let mut all = vec![
            setting("home", self.home.value.display().to_string(), &self.home.source),
            setting("run", self.run.value.to_string(), &self.run.source),
            setting("epoch", epoch, &self.epoch.source),
            setting("image", self.image.value.clone(), &self.image.source),
            setting("exec_timeout", format!("{:?}", self.exec_timeout.value), &self.exec_timeout.source),
            setting(
                "exec_timeout_max",
                format!("{:?}", self.exec_timeout_max.value),
                &self.exec_timeout_max.source,
            ),
            setting("grace", format!("{:?}", self.grace.value), &self.grace.source),
            setting("inline_output", self.inline_output.value.to_string(), &self.inline_output.source),
            setting(
                "spares",
                self.spares.value.map_or("none on the command line, 6 in the library".to_owned(), |count| {
                    count.to_string()
                }),
                &self.spares.source,
            ),
            setting(
                "logs.retention",
                format!("{:?}", self.logs_retention.value),
                &self.logs_retention.source,
            ),
            setting("storage.reserve", self.reserve.value.to_string(), &self.reserve.source),
        ];
        all.extend(self.limits.iter().map(|(name, found)| {
            let Range { default, max } = found.value;
            setting(name, format!("{default} (at most {max})"), &found.source)
        }));
        all.extend(self.backends.settings());
        all.extend(self.projects.settings());
        all.extend(self.images.settings());
        all.extend(self.network.settings());
        all.extend(self.engines.settings());
        all.extend(self.telemetry.settings());
        all.extend(self.serve.settings());
        all.extend(self.mcp.settings());
        all.extend(self.tenants.settings());
        all
    }

    fn check(&self) -> Result<()> {
        let policy = self.policy();
        self.tenants.check(&policy.limits)?;
        self.mcp.check(&policy)?;
        if self.exec_timeout.value > self.exec_timeout_max.value || self.exec_timeout.value.is_zero() {
            let (value, max) = (self.exec_timeout.value, self.exec_timeout_max.value);
            return Err(Error::invalid("exec_timeout", format!("is {value:?}, outside 1ms to {max:?}")));
        }
        match self.limits.iter().find(|(_, found)| found.value.default > found.value.max) {
            Some((name, Found { value: Range { default, max }, source })) => {
                Err(Error::invalid(name, format!("has the default {default}, more than its maximum {max}"))
                    .hint(format!("correct the {source}")))
            }
            None => Ok(()),
        }
    }
}

impl Layers<'_> {
    fn epoch(&self, flag: Option<Epoch>) -> Result<Found<Option<Epoch>>> {
        match flag {
            Some(epoch) => Ok(Found { value: Some(epoch), source: Source::Flag }),
            None => self.pick("CORACLE_EPOCH", |name, text| epoch(name, text).map(Some), |_| None, None),
        }
    }

    fn limits(&self, defaults: &Ranges) -> [(&'static str, Found<Range>); 7] {
        let written = self.file.as_ref().map(|(_, file)| file.limits).unwrap_or_default();
        [
            ("limits.cpu_millicores", self.range(written.cpu_millicores, defaults.cpu_millicores)),
            ("limits.memory_mb", self.range(written.memory_mb, defaults.memory_mb)),
            ("limits.pids", self.range(written.pids, defaults.pids)),
            ("limits.timeout_seconds", self.range(written.timeout_seconds, defaults.timeout_seconds)),
            ("limits.workspace_mb", self.range(written.workspace_mb, defaults.workspace_mb)),
            ("limits.inodes", self.range(written.inodes, defaults.inodes)),
            ("limits.output_bytes", self.range(written.output_bytes, defaults.output_bytes)),
        ]
    }

    fn range(&self, written: PartialRange, default: Range) -> Found<Range> {
        let source = match &self.file {
            Some((path, _)) if written.is_written() => Source::File(path.clone()),
            _ => Source::Default,
        };
        Found { value: written.over(default), source }
    }
}

fn text(_: &str, text: &str) -> Result<String> {
    Ok(text.to_owned())
}

fn span(variable: &str, text: &str) -> Result<Duration> {
    duration::parse(text)
        .map_err(|_| Error::invalid(variable, format!("is `{}`, not a duration", text.escape_debug())))
}

fn reserve(variable: &str, text: &str) -> Result<Reserve> {
    let refuse = |_| Error::invalid(variable, format!("is `{}`, not a size", text.escape_debug()));
    text.parse().map(|Bytes(bytes)| Reserve::Bytes(bytes)).map_err(refuse)
}

fn count(variable: &str, text: &str) -> Result<usize> {
    let refuse = || Error::invalid(variable, format!("is `{}`, not a number", text.escape_debug()));
    text.parse().map_err(|_| refuse())
}

fn bytes(variable: &str, text: &str) -> Result<u64> {
    count(variable, text).map(|count| count as u64)
}

/// A line or two is the least that says how a command went; an answer is held in memory, so it is bounded.
const INLINE_OUTPUT: RangeInclusive<u64> = 1 << 10..=8 << 20;

fn check_inline_output(bytes: u64) -> Result<()> {
    match INLINE_OUTPUT.contains(&bytes) {
        true => Ok(()),
        false => {
            let (least, most) = (INLINE_OUTPUT.start(), INLINE_OUTPUT.end());
            Err(Error::invalid("inline_output", format!("is {bytes} bytes, outside {least} to {most}")))
        }
    }
}

/// How long the output of closed sandboxes can be read, unless somebody says otherwise: failed ones are looked at soon.
pub const LOGS_RETENTION: Duration = Duration::from_secs(3600);

/// Each is a sandbox at rest; more than a few would only be of use to somebody who starts as many at once.
const SPARES_MAX: usize = 64;

fn check_spares(spares: Option<usize>) -> Result<()> {
    match spares {
        Some(count) if count > SPARES_MAX => {
            Err(Error::invalid("spares", format!("is {count}, more than {SPARES_MAX}")))
        }
        Some(_) | None => Ok(()),
    }
}

fn epoch(variable: &str, text: &str) -> Result<Epoch> {
    let refuse = || Error::invalid(variable, format!("is `{}`, not an epoch", text.escape_debug()));
    text.parse().map(Epoch).map_err(|_| refuse())
}

#[cfg(test)]
mod tests {
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
    fn how_much_room_is_left_alone_and_what_tenants_may_keep_are_sizes() {
        let home = home_with("[storage]\nreserve = '3g'\n[tenants.acme]\nstorage = '5m'\n");
        let place = ("CORACLE_HOME", text_of(home.path()));
        let resolved = resolve(Flags::default(), &[place]).expect("valid");
        let off = resolve(Flags::default(), &[place, ("CORACLE_STORAGE_RESERVE", "0")]).expect("valid");
        let refused = resolve(Flags::default(), &[place, ("CORACLE_STORAGE_RESERVE", "much")]);

        let storage = |tenant: &str| resolved.policy().tenants.of(&tenant.parse().expect("an id")).storage;
        assert_eq!(
            (resolved.policy().reserve, off.reserve.value),
            (Reserve::Bytes(3 << 30), Reserve::Bytes(0))
        );
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
             [tenants.acme]\nsandboxes = 5\nrate = 20\n\
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

        let resolved =
            resolve(Flags::default(), &[("CORACLE_HOME", text_of(home.path())), ("HOME", "/home/u")])
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

    /// Returns the settings of a home in which a repository asks for something, and where that is.
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

    const ASKS: &str = r#"{"backend": "docker", "image": "oven/bun:1", "memoryLimit": "2G", "cpuLimit": 1, "timeoutMs": 9000}"#;

    #[test]
    fn a_project_has_a_say_where_the_user_has_none() {
        let (resolved, path) = in_project("", ASKS, &[]);

        let policy = resolved.policy();
        assert_eq!(
            (policy.image.as_str(), policy.backends.backend.as_deref()),
            ("oven/bun:1", Some("docker"))
        );
        assert_eq!((policy.limits.memory_mb.default, policy.limits.cpu_millicores.default), (2048, 1000));
        assert_eq!(policy.exec_timeout, Duration::from_secs(9));
        assert_eq!(resolved.image.source, Source::Project(path));
        assert_eq!(resolved.notes.len(), 2);
        // The maxima stay the operator's.
        assert_eq!(policy.limits.memory_mb.max, Ranges::default().memory_mb.max);
    }

    #[test]
    fn what_the_user_said_stands_above_the_project() {
        let settings = "image = 'own'\nexec_timeout = '1m'\n[limits]\nmemory_mb = { default = 1024 }\n\
                        cpu_millicores = { default = 4000 }\n";

        let (resolved, _) = in_project(settings, ASKS, &[("CORACLE_BACKEND", "native")]);

        let policy = resolved.policy();
        assert_eq!((policy.image.as_str(), policy.backends.backend.as_deref()), ("own", Some("native")));
        assert_eq!(policy.exec_timeout, Duration::from_secs(60));
        // Less than the user's own default is taken, more is not.
        assert_eq!((policy.limits.memory_mb.default, policy.limits.cpu_millicores.default), (1024, 1000));
    }

    #[test]
    fn a_project_gets_no_more_than_the_maximum_and_no_backend_it_may_not_name() {
        let settings = "[projects]\nbackends = ['native']\n[limits]\nmemory_mb = { max = 8192 }\n";
        let greedy =
            r#"{"backend": "auto", "memoryLimit": "1T", "cpuLimit": 1000, "timeoutMs": 99999999999}"#;

        let policy = in_project("", greedy, &[]).0.policy();
        let (bounded, _) = in_project(settings, greedy, &[]);

        assert_eq!(policy.limits.memory_mb.default, policy.limits.memory_mb.max);
        assert_eq!(policy.limits.cpu_millicores.default, policy.limits.cpu_millicores.max);
        assert_eq!(policy.exec_timeout, policy.exec_timeout_max);
        assert_eq!(policy.backends.backend.as_deref(), Some("auto"));
        assert_eq!(bounded.policy().backends.backend, None);
        assert!(bounded.notes[0].contains("projects.backends"), "{:?}", bounded.notes);
    }

    #[test]
    fn a_project_without_a_sandbox_changes_nothing_and_one_can_be_left_out_of_account() {
        let (off, _) =
            in_project("", r#"{"enabled": false, "image": "oven/bun:1", "memoryLimit": "1G"}"#, &[]);
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
        let variables =
            [at, ("CORACLE_NODE_IMAGE", "ghcr.io/o/node"), ("CORACLE_IMAGE_PREFIX", "other.lan/")];
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
}
