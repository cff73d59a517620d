//! The sandbox a caller wants, flag by flag.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use coracle::SpecInput;
use coracle_core::limits::{Limit, LimitsInput};
use coracle_core::spec::{LimitsChoice, Privileges, Runtime, Unlimited};
use serde::de::DeserializeOwned;

use super::pair::Pair;
use super::quantity::{Span, bytes, mebibytes, millicores, span};

/// What the sandbox shall be.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sandbox")]
pub struct SpecArgs {
    /// Use this image; `host` is the machine's own programs
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Ask for this interpreter
    #[arg(long, value_name = "NAME", value_parser = word::<Runtime>(&["python", "node", "bash"]))]
    pub runtime: Option<Runtime>,
    /// Set an environment variable
    #[arg(short, long, value_name = "NAME=VALUE")]
    env: Vec<Pair>,
    /// Start commands in this directory
    #[arg(long, value_name = "DIR")]
    workdir: Option<String>,
    /// Allow this much memory, as in 512m
    #[arg(long, value_name = "SIZE", value_parser = mebibytes)]
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
    /// Run without limits that cannot be enforced here, though they were asked for
    #[arg(long, value_name = "LIMIT", value_delimiter = ',', value_parser = word::<Limit>(&["cpu", "memory", "pids", "disk"]))]
    allow_missing: Vec<Limit>,
    /// Remove the sandbox after this long without use, as in 1h
    #[arg(long, value_name = "TIME", value_parser = span)]
    ttl: Option<Span>,
    /// Allow the network: none, open or allow=HOST,…
    #[arg(long, value_name = "NETWORK")]
    network: Option<String>,
    /// Let commands change owners and users inside the sandbox, as package managers do
    #[arg(long, value_name = "WHICH", value_parser = word::<Privileges>(&["minimal", "install"]))]
    privileges: Option<Privileges>,
    /// Use this backend
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
    /// Attach a label
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<Pair>,
}

impl From<SpecArgs> for SpecInput {
    fn from(args: SpecArgs) -> Self {
        let limits = LimitsInput {
            cpu_millicores: args.cpus,
            memory_mb: args.memory,
            pids: args.pids,
            timeout_seconds: None,
            workspace_mb: args.disk,
            inodes: args.inodes,
            output_bytes: args.output,
        };
        Self {
            image: args.image,
            runtime: args.runtime,
            env: args.env.into_iter().map(|pair| (pair.name, pair.value)).collect(),
            workdir: args.workdir,
            limits: match args.unlimited {
                true => Some(LimitsChoice::Word(Unlimited::Unlimited)),
                false => Some(LimitsChoice::Limits(limits)),
            },
            storage: None,
            network: args.network,
            mounts: Vec::new(),
            privileges: args.privileges,
            backend: args.backend,
            ttl: args.ttl.map(|ttl| ttl.text),
            labels: args.label.into_iter().map(|pair| (pair.name, pair.value)).collect(),
            require: Vec::new(),
            allow_missing: args.allow_missing,
        }
    }
}

/// Reads one of a few words, spelt as in JSON.
fn word<T: DeserializeOwned + Clone + Send + Sync + 'static>(
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
        Line::try_parse_from(["coracle"].iter().chain(words)).map(|line| line.spec.into())
    }

    #[test]
    fn flags_become_the_fields_of_the_operation() {
        let flags =
            "--memory 512m --cpus 0.5 --pids 64 --ttl 1h -e A=b=c --runtime node --privileges install";

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
            ["--privileges", "minimal"],
            ["--allow-missing", "cpu,memory,pids,disk"],
        ] {
            assert!(read(&words).is_ok(), "{words:?}");
        }
        assert!(read(&["--runtime", "cobol"]).is_err());
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
