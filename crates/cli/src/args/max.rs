//! The bounds of a token, flag by flag.

use clap::Args;
use coracle::Result;
use coracle_core::Network;
use coracle_core::ceiling::{Bounds, Choice};
use coracle_core::limits::LimitsInput;
use coracle_core::spec::Privileges;

use super::quantity::{Span, bytes, mebibytes, millicores, span};
use super::spec::word;

/// Bounds on sandboxes. Only the operator's rules for the tenant bound an absent field.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "The most its sandboxes may have")]
pub struct MaxArgs {
    /// Allow at most this much memory, as in 512m
    #[arg(long, value_name = "SIZE", value_parser = mebibytes)]
    max_memory: Option<u64>,
    /// Allow at most this many CPUs, as in 0.5
    #[arg(long, value_name = "N", value_parser = millicores)]
    max_cpus: Option<u64>,
    /// Allow at most this many processes and threads
    #[arg(long, value_name = "N")]
    max_pids: Option<u64>,
    /// Allow at most this much space for files, as in 2g
    #[arg(long, value_name = "SIZE", value_parser = mebibytes)]
    max_disk: Option<u64>,
    /// Allow at most this many files and directories
    #[arg(long, value_name = "N")]
    max_inodes: Option<u64>,
    /// Allow to keep at most this much output of each command, as in 10m
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    max_output: Option<u64>,
    /// Allow sandboxes to be idle for at most this long, as in 1h
    #[arg(long, value_name = "TIME", value_parser = span)]
    max_ttl: Option<Span>,
    /// Allow at most this network: none, open or allow=HOST,…
    #[arg(long, value_name = "NETWORK")]
    max_network: Option<Network>,
    /// Allow at most these privileges
    #[arg(long, value_name = "WHICH", value_parser = word::<Privileges>(&["minimal", "install", "debug"]))]
    max_privileges: Option<Privileges>,
    /// Allow only these images: names, or beginnings with `/*`, as in host,docker.io/library/*
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    max_images: Vec<String>,
    /// Let a model that shows the token over MCP choose some of: image, network, limits
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    let_choose: Vec<Choice>,
}

impl MaxArgs {
    /// Returns the bounds, if there are any.
    pub fn bounds(self) -> Result<Option<Bounds>> {
        let bounds = Bounds {
            network: self.max_network,
            limits: LimitsInput {
                cpu_millicores: self.max_cpus,
                memory_mb: self.max_memory,
                pids: self.max_pids,
                timeout_seconds: self.max_ttl.map(|ttl| ttl.duration.as_millis().div_ceil(1000) as u64),
                workspace_mb: self.max_disk,
                inodes: self.max_inodes,
                output_bytes: self.max_output,
            },
            privileges: self.max_privileges,
            images: (!self.max_images.is_empty()).then_some(self.max_images),
            let_choose: self.let_choose.into_iter().collect(),
        };
        bounds.check_self()?;
        Ok((!bounds.is_empty()).then_some(bounds))
    }
}
