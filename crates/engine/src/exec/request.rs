//! What a caller asks to be run, and the bounds it has to keep.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use coracle_core::spec::{PATH_MAX, check_env, check_path, check_user};
use coracle_core::{Error, ExecId, Policy, Record, Result};
use coracle_wire::{Command, Terminal};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

use super::Timeout;
use crate::guest::GRACE_MAX;

/// What the kernel takes for one argument, its terminator included.
const ARGUMENT_MAX: usize = 128 << 10;

/// A command to run in a sandbox.
#[derive(Debug, Clone, Default)]
pub struct ExecRequest {
    /// Chosen by the caller, so that asking twice starts one; made up if absent.
    pub exec_id: Option<ExecId>,
    pub argv: Vec<Vec<u8>>,
    pub cwd: Option<String>,
    pub env: BTreeMap<String, String>,
    pub secrets: Secrets,
    /// A user of the sandbox, by name or number; the sandbox's own if absent.
    pub user: Option<String>,
    pub timeout: Timeout,
    /// Between TERM and KILL; the policy's if absent.
    pub grace: Option<Duration>,
    pub keep_background: bool,
    pub stdin: Stdin,
    pub terminal: Option<Terminal>,
    /// It ends with this process, however that dies: the guest ends it with the connection it was started on.
    pub tied: bool,
    /// The life of the sandbox it is meant for: a later one refuses to start it. Any if absent.
    pub life: Option<u32>,
}

/// Where a command's standard input comes from.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Stdin {
    #[default]
    Empty,
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// Whatever is written to it later.
    Open,
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Self::Open => f.write_str("Open"),
        }
    }
}

/// Environment variables that reach the command and nothing else. Shown nowhere, not even by `Debug`.
#[derive(Clone, Default, PartialEq, Eq, JsonSchema)]
#[schemars(transparent)]
pub struct Secrets(pub BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Secrets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        // Serde's own complaint would repeat what it could not read.
        BTreeMap::deserialize(deserializer)
            .map(Self)
            .map_err(|_| de::Error::custom("`secrets` must be an object whose values are strings"))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl ExecRequest {
    /// Refuses what is wrong with the request wherever it is carried out, its command aside.
    pub(crate) fn check(&self, policy: &Policy) -> Result<()> {
        check_env("env", &self.env)?;
        check_env("secrets", &self.secrets.0)?;
        self.cwd.as_deref().map_or(Ok(()), |cwd| check_path("cwd", cwd))?;
        self.user.as_deref().map_or(Ok(()), check_user)?;
        self.timeout.checked(policy)?;
        check_grace(self.grace).map(drop)
    }

    /// Returns the command for the guest of a sandbox, or what is wrong with the request.
    pub(crate) fn checked(&self, record: &Record, policy: &Policy) -> Result<Command> {
        self.check(policy)?;
        check_argv(&self.argv)?;
        let user = command_user(record, self.user.as_deref())?;
        Ok(Command {
            argv: self.argv.clone(),
            env: pairs(&self.env),
            secrets: pairs(&self.secrets.0),
            cwd: self.cwd.as_ref().map(|cwd| cwd.clone().into_bytes()),
            user: user.map(|user| user.as_bytes().to_vec()),
            deadline_ms: self.timeout.checked(policy)?.map(millis),
            grace_ms: millis(check_grace(self.grace)?.unwrap_or(policy.grace)),
            keep_background: self.keep_background,
            stdin: self.stdin != Stdin::Empty,
            terminal: self.terminal,
            output_bytes: record.spec.limits.output_bytes,
            attended: false,
            background_ms: policy.exec_timeout_max.filter(|_| self.keep_background).map(millis),
            tied: Some(self.tied),
        })
    }
}

/// Reads a grace.
pub fn checked_grace(ms: Option<u64>) -> Result<Option<Duration>> {
    check_grace(ms.map(Duration::from_millis))
}

fn check_grace(grace: Option<Duration>) -> Result<Option<Duration>> {
    match grace {
        Some(grace) if grace > GRACE_MAX => {
            let max = u64::try_from(GRACE_MAX.as_millis()).unwrap_or(u64::MAX);
            Err(Error::invalid("grace_ms", format!("is more than {max}")).detail("max_ms", max))
        }
        grace => Ok(grace),
    }
}

pub(crate) fn check_argv(argv: &[Vec<u8>]) -> Result<()> {
    let Some(program) = argv.first() else { return Err(Error::invalid("cmd", "is empty")) };
    if program.is_empty() {
        return Err(Error::invalid("cmd", "names no program"));
    }
    if program.len() >= PATH_MAX {
        return Err(Error::invalid(
            "cmd",
            format!("names a program with {} bytes, more than {}", program.len(), PATH_MAX - 1),
        ));
    }
    if argv.iter().any(|argument| argument.contains(&0)) {
        return Err(Error::invalid("cmd", "holds a NUL byte"));
    }
    match argv.iter().find(|argument| argument.len() >= ARGUMENT_MAX) {
        Some(argument) => Err(Error::invalid(
            "cmd",
            format!("has an argument of {} bytes, more than {}", argument.len(), ARGUMENT_MAX - 1),
        )
        .hint("put it into a file of the sandbox or on standard input")),
        None => Ok(()),
    }
}

/// Returns whom a command runs as: the user that was named, or the sandbox's own. Without either it is root.
pub(crate) fn command_user<'a>(record: &'a Record, named: Option<&'a str>) -> Result<Option<&'a str>> {
    if let Some(user) = named {
        return check_user(user).map(|()| Some(user));
    }
    let user = record.user();
    user.map_or(Ok(()), check_user)
        .map_err(|error| error.hint("the image names this user; choose another with `user`"))?;
    Ok(user)
}

fn pairs(map: &BTreeMap<String, String>) -> Vec<(Vec<u8>, Vec<u8>)> {
    map.iter().map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes())).collect()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
