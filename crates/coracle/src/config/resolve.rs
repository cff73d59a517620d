//! Resolves every setting from its four sources.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use coracle_backends::Engines;
use coracle_core::bytes::Bytes;
use coracle_core::headroom::Reserve;
use coracle_core::limits::{Range, Ranges};
use coracle_core::repo::{Author, BranchName, RepoPolicy};
use coracle_core::{Epoch, Error, Policy, Result, RunId, duration};

use super::backends::BackendSettings;
use super::engines::EngineSettings;
use super::file::{self, PartialRange};
use super::images::{ImageSettings, check_image};
use super::install::InstallSettings;
use super::layers::{Environment, Found, Layers};
use super::mcp::McpSettings;
use super::network::NetworkSettings;
use super::project::{self, ProjectSettings};
use super::repos::RepoSettings;
use super::serve::ServeSettings;
use super::telemetry::TelemetrySettings;
use super::tenants::TenantSettings;
use super::{Flags, Setting, Source, home, setting};

/// All settings, resolved.
#[derive(Debug)]
pub struct Resolved {
    pub home: Found<PathBuf>,
    pub run: Found<RunId>,
    pub epoch: Found<Option<Epoch>>,
    pub image: Found<String>,
    pub exec_timeout: Found<Duration>,
    pub exec_timeout_max: Found<Option<Duration>>,
    pub grace: Found<Duration>,
    pub inline_output: Found<u64>,
    pub spares: Found<Option<usize>>,
    pub logs_retention: Found<Duration>,
    pub hibernate_keep: Found<Option<Duration>>,
    pub reserve: Found<Reserve>,
    pub repos_prefix: Found<BranchName>,
    pub repos_author: Found<Author>,
    pub limits: [(&'static str, Found<Range>); 7],
    pub backends: BackendSettings,
    pub images: ImageSettings,
    pub network: NetworkSettings,
    pub install: InstallSettings,
    pub engines: EngineSettings,
    pub projects: ProjectSettings,
    pub telemetry: TelemetrySettings,
    pub serve: ServeSettings,
    pub repos: RepoSettings,
    pub mcp: McpSettings,
    pub tenants: TenantSettings,
    pub notes: Vec<String>,
    pub crash_at: Option<String>,
}

impl Resolved {
    /// Resolves every setting and refuses those that contradict each other.
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
                |name, text| if text == "none" { Ok(None) } else { span(name, text).map(Some) },
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
            hibernate_keep: layers.pick(
                "CORACLE_HIBERNATE_KEEP",
                |name, text| if text == "forever" { Ok(None) } else { span(name, text).map(Some) },
                |file| file.hibernate.keep,
                policy.hibernate_keep,
            )?,
            repos_prefix: layers.pick(
                "CORACLE_REPOS_PREFIX",
                |_, text| text.parse(),
                |file| file.repos.prefix.clone(),
                policy.repos.prefix,
            )?,
            repos_author: layers.pick(
                "CORACLE_REPOS_AUTHOR",
                |_, text| text.parse(),
                |file| file.repos.author.clone(),
                policy.repos.author,
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
            install: InstallSettings::from(&layers)?,
            engines: EngineSettings::from(&layers)?,
            projects: ProjectSettings::from(&layers)?,
            telemetry: TelemetrySettings::from(&layers)?,
            serve: ServeSettings::from(&layers)?,
            repos: RepoSettings::from(&layers)?,
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
            hibernate_keep: self.hibernate_keep.value,
            reserve: self.reserve.value,
            repos: RepoPolicy {
                prefix: self.repos_prefix.value.clone(),
                author: self.repos_author.value.clone(),
            },
            ..Policy::default()
        };
        self.images.apply(&mut policy);
        policy.network = self.network.policy();
        policy.install = self.install.rules();
        policy.backends = self.backends.preference();
        policy.tenants = self.tenants.tenants(&policy.limits);
        policy
    }

    /// Returns the settings about container engines.
    pub fn engines(&self) -> Engines {
        self.engines.engines(self.images.registries().docker_config)
    }

    /// Returns every setting for display.
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
                self.exec_timeout_max.value.map_or("none".to_owned(), |max| format!("{max:?}")),
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
            setting(
                "hibernate.keep",
                self.hibernate_keep.value.map_or("forever".to_owned(), duration::shown),
                &self.hibernate_keep.source,
            ),
            setting("repos.prefix", self.repos_prefix.value.to_string(), &self.repos_prefix.source),
            setting("repos.author", self.repos_author.value.to_string(), &self.repos_author.source),
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
        all.extend(self.install.settings());
        all.extend(self.engines.settings());
        all.extend(self.telemetry.settings());
        all.extend(self.repos.settings());
        all.extend(self.serve.settings());
        all.extend(self.mcp.settings());
        all.extend(self.tenants.settings());
        all
    }

    fn check(&self) -> Result<()> {
        let policy = self.policy();
        self.tenants.check(&policy.limits)?;
        self.mcp.check(&policy)?;
        let (value, max) = (self.exec_timeout.value, self.exec_timeout_max.value.unwrap_or(Duration::MAX));
        if value > max || value.is_zero() {
            let value = duration::shown(value);
            let most =
                self.exec_timeout_max.value.map(|max| format!(" and at most {}", duration::shown(max)));
            let what = format!("is {value}, and has to be at least 1ms{}", most.unwrap_or_default());
            return Err(Error::invalid("exec_timeout", what)
                .hint(format!("correct the {}", self.exec_timeout.source)));
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

/// A line or two is the least that shows how a command went; the maximum bounds the memory of an answer.
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

/// The default retention of closed sandboxes' output: people look at failed ones soon.
pub const LOGS_RETENTION: Duration = Duration::from_secs(3600);

/// Each is an idle sandbox; more than a few help only a caller that starts as many at once.
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
mod tests;
