//! Describes a sandbox's container to the container engine. Sets everything that an image could influence, so that
//! it influences nothing.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::Path;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount,
    MountBindOptions, MountBindOptionsPropagationEnum, MountTmpfsOptions, MountType, MountVolumeOptions,
    RestartPolicy, RestartPolicyNameEnum,
};
use coracle_core::backend::Order;
use coracle_core::mount::{Access, Source};
use coracle_core::spec::{Privileges, WORKSPACE};
use coracle_core::{Error, Result, Spec};

use super::flavour::Flavour;
use super::image::Root;
use super::{Docker, INSTANCE_LABEL, SANDBOX_LABEL, install, volumes};
use crate::boot::{self, HOSTNAME};
use crate::weak::{self, Wall};
use crate::{directory, filter};

/// The paths of the guest's program and of its socket.
pub const PROGRAM: &str = "/.coracle/guest";
pub const PROGRAM_DIRECTORY: &str = "/.coracle";
const RUN: &str = "/.coracle/run";

/// The capabilities of a container's root that the guest keeps, or gives to commands with `privileges: install`.
const CAPABILITIES: [&str; 8] =
    ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETPCAP", "SETUID"];
/// For listeners on ports below 1024; dropped once they are bound.
const BIND: &str = "NET_BIND_SERVICE";

/// The processes beside commands: the guest, its forker, its threads for a few connections, and a subreaper for
/// each of a few execs.
const OWN_PROCESSES: u64 = 24;

/// Container engines take CPU limits in billionths of a CPU.
const NANOCPUS_PER_MILLICORE: u64 = 1_000_000;

/// What container engines hide of `/proc` and `/sys`, and what else there speaks of the machine: only root may read
/// most of it, but without a user namespace commands are that root.
const MASKED: [&str; 32] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/diskstats",
    "/proc/interrupts",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    "/proc/pagetypeinfo",
    "/proc/partitions",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/tty/driver",
    "/proc/vmallocinfo",
    "/sys/block",
    "/sys/dev",
    "/sys/devices/virtual/dmi",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/kernel",
    "/sys/module",
];
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// How the host reaches the guest.
#[derive(Debug, Clone, Copy)]
pub enum Way<'a> {
    /// By its socket in this directory, which container engine and host share.
    Socket(&'a Path),
    /// Through a program the container engine starts in the container.
    Program,
}

/// Returns the description of the container.
pub fn describe(
    docker: &Docker,
    order: &Order<'_>,
    root: &Root,
    flavour: Flavour,
    way: Way<'_>,
) -> Result<ContainerCreateBody> {
    let labels = [
        (INSTANCE_LABEL.to_owned(), order.instance.to_string()),
        (SANDBOX_LABEL.to_owned(), order.sandbox.to_string()),
    ];
    Ok(ContainerCreateBody {
        // By its digest: the name may mean another image at any moment.
        image: Some(root.id.clone()),
        entrypoint: Some(vec![PROGRAM.to_owned(), "contained".to_owned()]),
        cmd: Some(Vec::new()),
        env: Some(Vec::new()),
        user: Some("0:0".to_owned()),
        working_dir: Some("/".to_owned()),
        hostname: Some(HOSTNAME.to_owned()),
        labels: Some(HashMap::from(labels)),
        // An image's health check would run with the container's rights instead of a command's.
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() }),
        open_stdin: Some(true),
        stdin_once: Some(true),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        host_config: Some(host_config(docker, order.spec, flavour, way)?),
        ..ContainerCreateBody::default()
    })
}

fn host_config(docker: &Docker, spec: &Spec, flavour: Flavour, way: Way<'_>) -> Result<HostConfig> {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut mounts = vec![install::mount(), run(way)];
    for mount in &spec.mounts {
        mounts.push(bring(docker, spec, mount)?);
    }
    if !spec.mounts.iter().any(|mount| mount.target == WORKSPACE) {
        mounts.push(workspace());
    }
    let masked = !weak::off(Wall::Masks);
    Ok(HostConfig {
        network_mode: Some(if weak::off(Wall::NetworkNamespace) { "host" } else { "none" }.to_owned()),
        // An address without a name server, instead of the machine's.
        dns: Some(owned(&["127.0.0.1"])),
        dns_search: Some(owned(&["."])),
        ipc_mode: Some(if weak::off(Wall::IpcNamespace) { "host" } else { "private" }.to_owned()),
        pid_mode: weak::off(Wall::PidNamespace).then(|| "host".to_owned()),
        cgroupns_mode: Some(match weak::off(Wall::CgroupNamespace) {
            false => HostConfigCgroupnsModeEnum::PRIVATE,
            true => HostConfigCgroupnsModeEnum::HOST,
        }),
        devices: weak::off(Wall::Devices).then(|| vec![weak::device()]),
        cap_drop: Some(owned(&["ALL"])),
        cap_add: Some(capabilities(spec)),
        security_opt: Some(security(spec, flavour)),
        ulimits: flavour.ulimits(),
        masked_paths: Some(if masked { owned(&MASKED) } else { Vec::new() }),
        readonly_paths: Some(if masked { owned(&READ_ONLY) } else { Vec::new() }),
        shm_size: Some(boot::shm_bytes(spec) as i64),
        mounts: Some(mounts),
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            ..RestartPolicy::default()
        }),
        // Docker's daemon would take such containers for ended when it restarts, even if they are well (20.10 does,
        // with live-restore), and the exit code tells how a guest has ended. The janitor removes them.
        auto_remove: Some(false),
        ..limits(spec)
    })
}

fn limits(spec: &Spec) -> HostConfig {
    if weak::off(Wall::Limits) {
        return HostConfig::default();
    }
    let memory = spec.limits.memory_mb.map(|megabytes| (megabytes << 20) as i64);
    HostConfig {
        nano_cpus: spec.limits.cpu_millicores.map(|millicores| (millicores * NANOCPUS_PER_MILLICORE) as i64),
        memory,
        // The sum of both: without it container engines add as much again in swap.
        memory_swap: memory,
        pids_limit: spec.limits.pids.map(|pids| (pids + OWN_PROCESSES) as i64),
        ..HostConfig::default()
    }
}

fn capabilities(spec: &Spec) -> Vec<String> {
    if weak::off(Wall::Capabilities) {
        return weak::capability_names();
    }
    let bind = (!spec.network.is_none()).then_some(BIND);
    let needed = |name: &&str| *name != "FSETID" || spec.privileges == Privileges::Install;
    CAPABILITIES.into_iter().filter(needed).chain(bind).map(str::to_owned).collect()
}

fn security(spec: &Spec, flavour: Flavour) -> Vec<String> {
    let mut options = Vec::new();
    if !weak::off(Wall::NoNewPrivileges) {
        options.push("no-new-privileges".to_owned());
    }
    if weak::off(Wall::Seccomp) {
        options.push("seccomp=unconfined".to_owned());
    } else if flavour == Flavour::Docker {
        // Podman takes the name of a file on its machine there. Its own profile applies, and our filters for
        // commands.
        let profile = match spec.privileges {
            Privileges::Minimal | Privileges::Install => filter::PROFILE,
            Privileges::Debug => filter::DEBUG_PROFILE,
        };
        options.push(format!("seccomp={profile}"));
    }
    options
}

/// Returns the mount for the guest's socket: a directory shared with the host, or one of the container's own.
fn run(way: Way<'_>) -> Mount {
    let mount = Mount { target: Some(RUN.to_owned()), ..Mount::default() };
    match way {
        Way::Socket(directory) => Mount {
            typ: Some(MountType::BIND),
            source: Some(directory.to_string_lossy().into_owned()),
            bind_options: Some(private()),
            ..mount
        },
        Way::Program => Mount {
            typ: Some(MountType::TMPFS),
            tmpfs_options: Some(MountTmpfsOptions {
                size_bytes: Some(64 << 10),
                mode: Some(0o700),
                ..MountTmpfsOptions::default()
            }),
            ..mount
        },
    }
}

/// Returns the sandbox's own workspace: an anonymous volume, which is removed with the container. As a mount it
/// cannot be removed from inside, and it covers what the image has there.
fn workspace() -> Mount {
    Mount {
        target: Some(WORKSPACE.to_owned()),
        typ: Some(MountType::VOLUME),
        volume_options: Some(MountVolumeOptions { no_copy: Some(true), ..MountVolumeOptions::default() }),
        ..Mount::default()
    }
}

/// Returns a directory of the caller's in the container engine's form.
fn bring(docker: &Docker, spec: &Spec, mount: &coracle_core::mount::Mount) -> Result<Mount> {
    if mount.access == Access::Overlay {
        return Err(docker.unsupported("mount a directory as an overlay"));
    }
    let described = Mount {
        target: Some(mount.target.clone()),
        read_only: Some(mount.access == Access::ReadOnly),
        ..Mount::default()
    };
    match &mount.source {
        Source::Volume(name) => {
            let Mount { typ, source, volume_options, .. } = volumes::bring(docker, name)?;
            Ok(Mount { typ, source, volume_options, ..described })
        }
        Source::Directory(_) if !docker.client.is_local() => {
            Err(docker.unsupported("mount a directory of this machine on another"))
        }
        Source::Directory(path) => Ok(Mount {
            typ: Some(MountType::BIND),
            // The container engine resolves the path again: a process that can change what it leads to meanwhile
            // chooses what is mounted.
            source: Some(real_path(docker, spec, path, mount.within.as_deref())?),
            bind_options: Some(private()),
            ..described
        }),
    }
}

/// Returns the real path of a caller's directory, if it may be mounted.
pub fn real_path(docker: &Docker, spec: &Spec, path: &str, within: Option<&[String]>) -> Result<String> {
    let (found, directory) = directory::find(docker.config.home.path(), Path::new(path), within)?;
    if !spec.allow_sockets {
        directory::sockets::expect_none(directory.as_fd(), &found)?;
    }
    let name = found.into_os_string().into_string();
    name.map_err(|_| {
        Error::invalid("mounts", format!("names `{path}`, which leads to a name that is not UTF-8"))
    })
}

/// Mounts made later on one side do not show on the other.
fn private() -> MountBindOptions {
    MountBindOptions {
        propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
        ..MountBindOptions::default()
    }
}

/// Returns the volume with the guest's program as a mount.
pub fn program_volume(name: &str, read_only: bool, target: &str) -> Mount {
    Mount {
        target: Some(target.to_owned()),
        typ: Some(MountType::VOLUME),
        source: Some(name.to_owned()),
        read_only: Some(read_only),
        volume_options: Some(MountVolumeOptions { no_copy: Some(true), ..MountVolumeOptions::default() }),
        ..Mount::default()
    }
}
