//! The sandbox a caller wants, flag by flag.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use coracle::{Error, Kind, Result, SpecInput};
use coracle_core::VolumeName;
use coracle_core::install;
use coracle_core::limits::{Limit, LimitsInput};
use coracle_core::mount::{Access, MountInput};
use coracle_core::repo::{BranchName, RepoChoice};
use coracle_core::spec::{LimitsChoice, OnIdle, Privileges, Runtime, Storage, Unlimited, WORKSPACE};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::mount::{Directory, MountFlag};
use super::pair::Pair;
use super::quantity::{Span, bytes, mebibytes, millicores, span};
use super::variable::Variable;

/// Flags that describe a sandbox to make.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sandbox")]
pub struct SpecArgs {
    /// Use this image, pulling it if it is not here, as in python:3.12; `host` is the machine's own programs
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Ask for this language, in the image that `coracle config` shows for it
    #[arg(long, value_name = "NAME", visible_alias = "language", value_parser = runtime())]
    pub runtime: Option<Runtime>,
    /// Set an environment variable; NAME alone passes yours on, if it is set
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    env: Vec<Variable>,
    /// Start commands in this directory
    #[arg(short, long, value_name = "DIR")]
    workdir: Option<String>,
    /// Use this directory as the workspace; `:ro` forbids changes, `:overlay` makes them the sandbox's own
    ///
    /// The owner of DIR and the user that commands run as (`--user`, else the image's, else root) count as one user: each
    /// may change what the other makes. Other users of the sandbox cannot make files there that belong to a user of this machine.
    #[arg(long, value_name = "DIR[:ACCESS]")]
    workspace: Option<Directory>,
    /// Use this volume as the workspace, making it if it is not there; it outlives the sandbox
    #[arg(long, value_name = "NAME", conflicts_with = "workspace", value_parser = workspace_volume)]
    volume: Option<VolumeName>,
    /// Mount a directory or a volume; ACCESS is rw (the default), ro, or overlay for changes of the sandbox's own
    #[arg(short = 'v', long, value_name = "SOURCE:TARGET[:ACCESS]")]
    mount: Vec<MountFlag>,
    /// Keep the sandbox's own files on disk, or in its memory
    #[arg(long, value_name = "WHERE", value_parser = word::<Storage>(&["disk", "memory"]))]
    storage: Option<Storage>,
    /// Allow this much memory, as in 512m
    #[arg(short, long, value_name = "SIZE", value_parser = mebibytes)]
    memory: Option<u64>,
    /// Allow this many CPUs, as in 0.5
    #[arg(long, value_name = "N", value_parser = millicores)]
    cpus: Option<u64>,
    /// Allow this many processes and threads
    #[arg(long, value_name = "N")]
    pids: Option<u64>,
    /// Allow this much space for the workspace, as in 2g
    #[arg(long, value_name = "SIZE", value_parser = mebibytes)]
    disk: Option<u64>,
    /// Allow this many files and directories
    #[arg(long, value_name = "N")]
    inodes: Option<u64>,
    /// Keep this much output of each command, as in 10m
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    output: Option<u64>,
    /// Lift the limits on memory, CPU, processes and disk
    #[arg(long, conflicts_with_all = ["memory", "cpus", "pids", "disk", "inodes", "output"])]
    unlimited: bool,
    /// Refuse to run without this wall; `coracle doctor` has their names
    #[arg(long, value_name = "WALL", value_delimiter = ',')]
    require: Vec<String>,
    /// Run without limits that cannot be enforced here, though they were asked for
    #[arg(long, value_name = "LIMIT", value_delimiter = ',', value_parser = word::<Limit>(&["cpu", "memory", "pids", "disk"]))]
    allow_missing: Vec<Limit>,
    /// Mount directories although they hold unix sockets, which commands can then connect to
    #[arg(long)]
    allow_sockets: bool,
    /// Put the sandbox to sleep after this long without use, as in 1h
    #[arg(long, value_name = "TIME", value_parser = span)]
    ttl: Option<Span>,
    /// Keep the files when it was unused for that long or its guest was killed, and start with them at the next use
    /// (hibernate, the default), or remove them (destroy)
    #[arg(long, value_name = "WHAT", value_parser = word::<OnIdle>(&["hibernate", "destroy"]))]
    on_idle: Option<OnIdle>,
    /// Allow the network: none, open or allow=HOST,…
    #[arg(long, value_name = "NETWORK")]
    network: Option<String>,
    /// Let commands do more: `install` changes owners and users, as package managers do; `debug` traces processes
    #[arg(long, value_name = "WHICH", value_parser = word::<Privileges>(&["minimal", "install", "debug"]))]
    privileges: Option<Privileges>,
    /// Use this backend: native, docker, podman, ssh://HOST, or auto for the first that can
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
    /// Use these backends, in this order, where that one cannot
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    fallback: Vec<String>,
    /// Check out this repository in the workspace, on a branch of the sandbox's own; a name or an id
    #[arg(long, value_name = "NAME", conflicts_with_all = ["workspace", "volume"])]
    repo: Option<String>,
    /// Start from this branch of the repository; its default branch if absent
    #[arg(long, value_name = "BRANCH", requires = "repo")]
    base: Option<BranchName>,
    /// Make this branch for the work, instead of one named after the run
    #[arg(long, value_name = "BRANCH", requires = "repo")]
    branch: Option<BranchName>,
    /// Bring only this many commits of the repository's history
    #[arg(long, value_name = "N", requires = "repo", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    /// Install what the repository depends on: auto (the default) where there is a lockfile, off, or required to fail without
    #[arg(long, value_name = "WHEN", value_parser = word::<install::Mode>(&["auto", "off", "required"]))]
    install: Option<install::Mode>,
    /// Attach a label
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<Pair>,
}

impl SpecArgs {
    /// Returns the spec as operations take it. Resolves the directories to mount.
    pub fn input(self) -> Result<SpecInput> {
        let limits = LimitsInput {
            cpu_millicores: self.cpus,
            memory_mb: self.memory,
            pids: self.pids,
            timeout_seconds: None,
            workspace_mb: self.disk,
            inodes: self.inodes,
            output_bytes: self.output,
        };
        Ok(SpecInput {
            mounts: self.mounts()?,
            image: self.image,
            runtime: self.runtime,
            env: Variable::entries(self.env)?,
            workdir: self.workdir,
            user: None,
            limits: match self.unlimited {
                true => Some(LimitsChoice::Word(Unlimited::Unlimited)),
                false => Some(LimitsChoice::Limits(limits)),
            },
            storage: self.storage,
            network: self.network,
            privileges: self.privileges,
            backend: self.backend,
            fallback: self.fallback,
            ttl: self.ttl.map(|ttl| ttl.text),
            on_idle: self.on_idle,
            labels: self.label.into_iter().map(|pair| (pair.name, pair.value)).collect(),
            require: self.require,
            allow_missing: self.allow_missing,
            allow_sockets: self.allow_sockets,
            repo: self.repo.map(|repo_id| RepoChoice {
                repo_id,
                base_branch: self.base,
                branch: self.branch,
                depth: self.depth,
                remote: false,
            }),
            install: self.install,
        })
    }

    /// Returns flags that mean the same from any directory.
    pub fn flags(&self) -> Result<Vec<String>> {
        let mut flags = Vec::new();
        let mut add = |name: &str, value: Option<String>| {
            flags.extend(value.into_iter().flat_map(|value| [format!("--{name}"), value]));
        };
        let list = |words: Vec<String>| (!words.is_empty()).then(|| words.join(","));
        let millicores = |cpus: u64| format!("{}.{:03}", cpus / 1000, cpus % 1000);
        add("image", self.image.clone());
        add("runtime", self.runtime.map(|runtime| runtime.name().to_owned()));
        self.env.iter().for_each(|variable| add("env", Some(variable.to_string())));
        add("workdir", self.workdir.clone());
        add("workspace", self.workspace.as_ref().map(|directory| directory.text("workspace")).transpose()?);
        add("volume", self.volume.as_ref().map(ToString::to_string));
        for mount in &self.mount {
            add("mount", Some(mount.text()?));
        }
        add("storage", self.storage.map(spelt));
        add("memory", self.memory.map(|megabytes| format!("{megabytes}m")));
        add("cpus", self.cpus.map(millicores));
        add("pids", self.pids.map(|pids| pids.to_string()));
        add("disk", self.disk.map(|megabytes| format!("{megabytes}m")));
        add("inodes", self.inodes.map(|inodes| inodes.to_string()));
        add("output", self.output.map(|bytes| bytes.to_string()));
        add("require", list(self.require.clone()));
        add("allow-missing", list(self.allow_missing.iter().map(|limit| limit.name().to_owned()).collect()));
        add("ttl", self.ttl.as_ref().map(|ttl| ttl.text.clone()));
        add("on-idle", self.on_idle.map(spelt));
        add("network", self.network.clone());
        add("privileges", self.privileges.map(spelt));
        add("backend", self.backend.clone());
        add("fallback", list(self.fallback.clone()));
        add("repo", self.repo.clone());
        add("base", self.base.as_ref().map(ToString::to_string));
        add("branch", self.branch.as_ref().map(ToString::to_string));
        add("depth", self.depth.map(|depth| depth.to_string()));
        add("install", self.install.map(spelt));
        self.label.iter().for_each(|pair| add("label", Some(pair.to_string())));
        for (name, given) in [("--unlimited", self.unlimited), ("--allow-sockets", self.allow_sockets)] {
            flags.extend(given.then(|| name.to_owned()));
        }
        Ok(flags)
    }

    fn mounts(&self) -> Result<Vec<MountInput>> {
        let workspace = self.workspace.iter().map(|directory| directory.at("workspace", WORKSPACE));
        let volume = self.volume.iter().map(|name| {
            Ok(MountInput {
                source: name.to_string(),
                target: WORKSPACE.to_owned(),
                access: Access::ReadWrite,
            })
        });
        workspace.chain(volume).chain(self.mount.iter().map(MountFlag::input)).collect()
    }
}

/// Reads the name of the workspace's volume. Other tools have `--volume SOURCE:TARGET`, so the error explains the
/// difference.
fn workspace_volume(text: &str) -> Result<VolumeName> {
    text.parse().map_err(|error: Error| match text.contains(":/") {
        true => Error::new(Kind::Invalid, format!("`{}` is more than a name", text.escape_debug())).hint(
            "`--volume NAME` is the workspace; `-v SOURCE:TARGET` mounts a volume or a directory elsewhere",
        ),
        false => error,
    })
}

/// Reads the name of a language; the error lists the known ones.
fn runtime() -> impl TypedValueParser<Value = Runtime> {
    PossibleValuesParser::new(Runtime::ALL.map(possible)).try_map(|name| name.parse::<Runtime>())
}

fn possible(runtime: Runtime) -> PossibleValue {
    let value = PossibleValue::new(runtime.name());
    runtime.other_name().map_or(value.clone(), |name| value.alias(name))
}

/// Returns a word as JSON spells it.
fn spelt(word: impl Serialize) -> String {
    serde_json::to_value(word).ok().and_then(|word| Some(word.as_str()?.to_owned())).unwrap_or_default()
}

/// Reads one of a few words, spelt as in JSON.
pub(super) fn word<T: DeserializeOwned + Clone + Send + Sync + 'static>(
    words: &'static [&'static str],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words).try_map(|word| serde_json::from_value::<T>(word.into()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        spec: SpecArgs,
    }

    fn read(words: &[&str]) -> Result<SpecInput, clap::Error> {
        let line = Line::try_parse_from(["coracle"].iter().chain(words))?;
        Ok(line.spec.input().expect("what it names is there"))
    }

    #[test]
    fn flags_become_the_fields_of_the_operation() {
        let flags = "-m 512m --cpus 0.5 --pids 64 --ttl 1h -e A=b=c --runtime node --privileges install";

        let spec = read(&flags.split(' ').collect::<Vec<_>>()).expect("valid flags");

        let expected = serde_json::json!({
            "runtime": "node", "env": {"A": "b=c"}, "ttl": "1h", "privileges": "install",
            "limits": {"memory_mb": 512, "cpu_millicores": 500, "pids": 64},
        });
        assert_eq!(serde_json::to_value(spec).expect("JSON"), expected);
    }

    #[test]
    fn every_word_of_an_enumeration_is_understood() {
        for words in [
            ["--runtime", "python"],
            ["--runtime", "bash"],
            ["--language", "nodejs"],
            ["--language", "powershell"],
            ["--privileges", "minimal"],
            ["--privileges", "debug"],
            ["--storage", "disk"],
            ["--storage", "memory"],
            ["--allow-missing", "cpu,memory,pids,disk"],
        ] {
            assert!(read(&words).is_ok(), "{words:?}");
        }
        assert!(read(&["--runtime", "cobol"]).is_err());
    }

    #[test]
    fn mounts_and_walls_become_the_fields_of_the_operation() {
        let flags = "--volume project -v cache:/cache:overlay --mount /:/machine:ro --require seccomp,pids \
                     --require memory";

        let spec = read(&flags.split_whitespace().collect::<Vec<_>>()).expect("valid flags");

        let expected = serde_json::json!({
            "limits": {}, "require": ["seccomp", "pids", "memory"],
            "mounts": [
                {"source": "project", "target": "/workspace", "access": "rw"},
                {"source": "cache", "target": "/cache", "access": "overlay"},
                {"source": "/", "target": "/machine", "access": "ro"},
            ],
        });
        assert_eq!(serde_json::to_value(spec).expect("JSON"), expected);
    }

    #[test]
    fn flags_can_be_written_down_and_read_again() {
        let place = tempfile::tempdir().expect("a directory");
        let workspace = format!("{}:ro", place.path().display());
        let lines = [
            "",
            "--unlimited --allow-sockets --volume data --mount cache:/cache:overlay --require seccomp,pids",
            "--image a/b:1 --runtime node -e A=b=c -e D= --workdir /x --storage disk --memory 512m --cpus 0.5 \
             --pids 7 --disk 2g --inodes 99 --output 10m --allow-missing cpu,disk --ttl 1h --network allow=a.test \
             --privileges install --backend docker --fallback native,podman --label k=v --mount /:/machine:ro",
        ];

        for line in lines {
            let mut words: Vec<&str> = line.split_whitespace().collect();
            if !line.contains("--volume") {
                words.extend(["--workspace", &workspace]);
            }
            let before = Line::try_parse_from(["coracle"].iter().chain(&words)).expect("valid flags").spec;
            let flags = before.flags().expect("can be written");
            let again = read(&flags.iter().map(String::as_str).collect::<Vec<_>>()).expect("can be read");
            assert_eq!(again, before.input().expect("what it names is there"), "{flags:?}");
        }
    }

    #[test]
    fn there_is_one_workspace() {
        assert!(read(&["--workspace", "/", "--volume", "v"]).is_err());
        assert!(read(&["--workspace", "/", "--workspace", "/tmp"]).is_err());
        assert!(read(&["--volume", "../v"]).is_err());
        assert_eq!(read(&["--workspace", "/:ro"]).expect("valid").mounts[0].access, Access::ReadOnly);
    }

    #[test]
    fn limits_and_no_limits_exclude_each_other() {
        assert!(read(&["--unlimited", "--memory", "1g"]).is_err());
        assert_eq!(
            read(&["--unlimited"]).expect("valid").limits,
            Some(LimitsChoice::Word(Unlimited::Unlimited))
        );
    }
}
