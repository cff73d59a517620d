//! Makes a sandbox: its directory, its cage, its namespaces, its mounts, its guest.

mod boot;
mod bring;
mod limits;
pub(super) mod trees;

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use coracle_core::backend::{Created, EndsWith, Order, Placement};
use coracle_core::spec::OnIdle;
use coracle_core::{Error, ImageId, Kind, Result, Spec, fit, user};
use coracle_sys::cgroup::Group;
use coracle_sys::descriptors;
use coracle_sys::launch::{Launch, Launched, launch};
use coracle_wire::Boot;

use super::cage::Cage;
use super::disk::{self, Purpose};
use super::fork_source::{Base, Taken};
use super::hibernate::{self, KeptFiles};
use super::home::{SandboxDir, Uses};
use super::image::Root;
use super::probe::{self, Seen};
use super::storage::Storage;
use super::{Child, Native, destroy, ids, snapshot};
use crate::boot::expect_known;
use crate::{program, weak};
use bring::Brought;
use trees::{Owner, Shared, Site, Trees};

/// A guest that has not come up by then never will. Building a sandbox takes a millisecond; on a loaded machine it
/// once took more than twenty seconds.
const BOOT_TIME: Duration = Duration::from_secs(60);

/// Makes the sandbox. On error nothing of it is left.
pub fn create(native: &Native, order: &Order<'_>, taken: Option<&Taken>) -> Result<Created> {
    let kept = match ImageId::among_names(&order.spec.image).filter(|_| taken.is_none()) {
        Some(image) => Some(snapshot::find(native, &image)?.open(native.privilege)?),
        None => None,
    };
    let taken = taken.or(kept.as_ref());
    let expected = probe::expect(native, order.spec)?;
    fit::check("native", &expected, order.spec)?;
    expect_user(native, order.spec)?;
    let storage = Storage::choose(order.spec, native.privilege);
    if order.spec.on_idle() == OnIdle::Hibernate {
        hibernate::expect_keeping(order.spec, native.privilege)?;
    }
    let parts = Parts {
        root: match taken {
            Some(taken) => native.root(&taken.origin, taken.digest.as_deref())?,
            None => native.root(&order.spec.image, None)?,
        },
        brought: bring::all(native, order)?,
        storage,
        cage: native.cage(order.sandbox)?,
        base: ids::base(order.sandbox),
        taken,
        kept: None,
    };
    let created = start_guest(native, order, &parts)
        .and_then(|(created, ready)| expect_known(order.spec, ready.knows_user).map(|()| created));
    created.map_err(|error| match destroy::destroy(native, order.sandbox) {
        Ok(()) => error,
        Err(left) => error.detail("left_behind", left.chain()),
    })
}

/// Starts a new guest with the files that the sandbox's last one left. On error the files are as they were, and what else was
/// made may be left.
pub(super) fn wake(native: &Native, order: &Order<'_>, kept: &KeptFiles) -> Result<Created> {
    let expected = probe::expect(native, order.spec)?;
    fit::check("native", &expected, order.spec)?;
    let parts = Parts {
        root: native.root(&kept.files.origin, kept.files.digest.as_deref())?,
        brought: bring::all(native, order)?,
        storage: kept.storage,
        cage: native.cage(order.sandbox)?,
        base: ids::base(order.sandbox),
        taken: Some(&kept.files),
        kept: Some(kept),
    };
    // Its commands may have removed its user; the files are kept all the same.
    start_guest(native, order, &parts).map(|(created, _)| created)
}

fn start_guest(native: &Native, order: &Order<'_>, parts: &Parts<'_>) -> Result<(Created, Ready)> {
    make(native, order, parts).map_err(|failure| {
        Error::new(
            Kind::StartFailed,
            format!("could not {} for sandbox `{}`", failure.attempted, order.sandbox),
        )
        .caused_by(failure.cause)
        .hint("run `coracle doctor` to see what this machine offers")
    })
}

/// Refuses a user that does not exist.
fn expect_user(native: &Native, spec: &Spec) -> Result<()> {
    let other = spec.user.as_deref().filter(|named| !user::is_root(Some(named)));
    match other.filter(|_| !native.privilege.is_root()) {
        None => Ok(()),
        Some(user) => {
            let what = format!(
                "could not give the sandbox the user `{user}`: without root it has only your own user"
            );
            Err(Error::new(Kind::Unsupported, what)
                .hint("leave `user` out, or run coracle as root")
                .detail("field", "user"))
        }
    }
}

/// What a sandbox is made of, decided before anything is made.
struct Parts<'a> {
    root: Root,
    brought: Vec<Brought>,
    storage: Storage,
    cage: Cage<'a>,
    /// The machine's id that is root in the sandbox, if the sandbox has its own ids.
    base: u32,
    /// Files of another sandbox that it starts with.
    taken: Option<&'a Taken>,
    /// Its own files, if it wakes: its directory and its storage exist then.
    kept: Option<&'a KeptFiles>,
}

impl Parts<'_> {
    fn bases(&self) -> &[Base] {
        self.taken.map_or(&[], |taken| &taken.bases)
    }
}

/// A step that failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub attempted: &'static str,
    pub cause: io::Error,
}

pub(super) fn at(attempted: &'static str) -> impl FnOnce(io::Error) -> Failure {
    move |cause| Failure { attempted, cause }
}

/// The guest's message that it serves.
#[derive(Debug, Clone, Copy)]
struct Ready {
    /// Landlock confines commands.
    fenced: bool,
    /// The image has the user that commands run as.
    knows_user: bool,
}

fn make(native: &Native, order: &Order<'_>, parts: &Parts<'_>) -> Result<(Created, Ready), Failure> {
    let crash = native.config.crash;
    let dir = match parts.kept {
        None => make_dir(native, order, parts)?,
        Some(_) => native.home.dir(order.sandbox).map_err(at("open its directory"))?,
    };
    crash("native.create.directories");
    parts.cage.make(&limits::values(order.spec), parts.base).map_err(at("make a cgroup"))?;
    crash("native.create.cgroup");
    let listener = dir.listen().map_err(at("make the guest's socket"))?;
    let (ours, theirs) = UnixStream::pair().map_err(at("make the boot socket"))?;
    let launched = start(native, parts.cage.group(), &ours, theirs)?;
    parts.cage.note(launched.pid).map_err(at("write down the first process"))?;
    // Kept from here on: if the process that makes the sandbox dies now, the guest ends with it.
    let boot = (order.ends_with == EndsWith::Maker).then(|| ours.try_clone()).transpose();
    let child = Child { guest: launched.pidfd, _boot: boot.map_err(at("keep the boot socket"))? };
    // This process may have started an earlier guest, which another one found dead.
    if let Some(earlier) = native.children().insert(order.sandbox.clone(), child) {
        coracle_sys::signal::reap_descriptor(&earlier.guest);
    }
    crash("native.create.launched");
    let namespace = native.privilege.map_ids(launched.pid, parts.base).map_err(at("map users"))?;
    (&ours).write_all(&[1]).map_err(at("start the guest"))?;
    crash("native.create.mapped");
    let known: Vec<_> = std::iter::once(parts.kept.map_or_else(PathBuf::new, |kept| kept.device.clone()))
        .chain(parts.bases().iter().map(|base| base.device.clone()))
        .collect();
    let site = Site {
        root: &parts.root,
        dir: &dir,
        storage: parts.storage,
        brought: &parts.brought,
        bases: parts.bases().len(),
        wakes: parts.kept.is_some(),
        known: &known,
        base: parts.base,
        namespace: namespace.as_fd(),
    };
    let trees = Trees::open(&site, native.privilege)?;
    let mut plan = boot::plan(order, parts, native.privilege);
    let (trees, shared) = settle_owner(trees, &mut plan).map_err(at("map a mount to its owner"))?;
    plan.wakes = parts.kept.is_some();
    plan.bases = parts.bases().iter().map(|base| base.generation).collect();
    let capabilities = plan.capabilities;
    let end = dir.make_end().map_err(at("make the file the guest writes its end to"))?;
    send_plan(plan, trees, parts.cage.group(), &ours, &[listener.as_fd(), end.as_fd()])?;
    let ready = wait_until_ready(&ours, &shared).map_err(at("boot the guest"))?;
    crash("native.create.ready");
    let seen = Seen { guest: launched.pid, capabilities, landlock: ready.fenced };
    let profile = probe::observe(native, order.spec, seen).map_err(at("check the walls"))?;
    let created = Created {
        placement: Placement(serde_json::json!({"pid": launched.pid})),
        profile,
        image: parts.root.config.clone(),
    };
    Ok((created, ready))
}

/// Makes the sandbox's directory, records what it will use before it uses it, and makes its disk.
fn make_dir(native: &Native, order: &Order<'_>, parts: &Parts<'_>) -> Result<SandboxDir, Failure> {
    let dir = native.home.make_dir(order.sandbox, &native.config.instance).map_err(at("make a directory"))?;
    let uses = Uses {
        image: parts.root.config.digest.clone(),
        volumes: bring::volumes(order.spec),
        bases: parts.bases().iter().map(|base| base.generation).collect(),
        origin: parts.taken.map(|taken| taken.origin.clone()),
    };
    if uses.image.is_some() || !uses.volumes.is_empty() || !uses.bases.is_empty() {
        dir.note(&uses).map_err(at("note what it uses"))?;
    }
    for (index, base) in parts.bases().iter().enumerate() {
        dir.link_base(index, &base.file).map_err(at("keep what it starts from"))?;
        (native.config.crash)("native.fork.linked");
    }
    if let Storage::Disk(size) = parts.storage {
        disk::make(&native.home.disks, &dir.disk(), size, Purpose::Scratch).map_err(at("make a disk"))?;
    }
    Ok(dir)
}

/// Launches the guest's process; it waits for its id maps.
fn start(
    native: &Native,
    group: Option<&Group<'_>>,
    boot_peer: &UnixStream,
    boot: UnixStream,
) -> Result<Launched, Failure> {
    let program = program::open(&native.home.guest).map_err(at("open the guest's program"))?;
    let null = fs::File::options().read(true).write(true).open("/dev/null").map_err(at("open /dev/null"))?;
    let cgroup = group.map(Group::guest).transpose().map_err(at("open the cgroup"))?;
    let joins = group.map(Group::guest_joins).transpose().map_err(at("open the guests' cgroup"))?;
    let joins: Vec<_> = joins.iter().flatten().map(AsFd::as_fd).collect();
    let order = Launch {
        program: program.as_fd(),
        boot: boot.as_fd(),
        boot_peer: boot_peer.as_fd(),
        null: null.as_fd(),
        cgroup: cgroup.as_ref().map(AsFd::as_fd),
        joins: &joins,
        single_user: !native.privilege.is_root(),
        shared: weak::shared_namespaces(),
        inherits: weak::off(weak::Wall::Descriptors),
    };
    launch(&order).map_err(at("make namespaces"))
}

/// Sends the plan with its descriptors, in the order the guest expects. The guest's `own` come first: its socket,
/// and the file it writes its end to.
fn send_plan(
    mut plan: Boot,
    trees: Vec<OwnedFd>,
    group: Option<&Group<'_>>,
    socket: &UnixStream,
    own: &[BorrowedFd<'_>],
) -> Result<(), Failure> {
    let mut descriptors = trees;
    if let Some(group) = group {
        descriptors.push(group.commands().map_err(at("open the commands' cgroup"))?);
        let joins = group.joins().map_err(at("open the commands' cgroup"))?;
        let (memory, pids) = (group.memory_counter(), group.pids_counter());
        plan.joins = joins.len() as u32;
        (plan.memory_counter, plan.pids_counter) = (memory.is_some(), pids.is_some());
        descriptors.extend(joins.into_iter().chain(memory).chain(pids));
    }
    let payload = coracle_wire::encode(&plan).map_err(io::Error::other).map_err(at("write the boot plan"))?;
    let sent: Vec<_> = own.iter().copied().chain(descriptors.iter().map(AsFd::as_fd)).collect();
    descriptors::send(socket, &payload[coracle_wire::HEADER_LEN..], &sent).map_err(at("send the boot plan"))
}

/// Adds to the plan what the guest opens itself, and returns the rest: all mounts, and those directories of the
/// machine that wait for the guest to name the user. Root's ids are known in advance; those of another user only
/// the image has.
fn settle_owner(trees: Trees, plan: &mut Boot) -> io::Result<(Vec<OwnedFd>, Vec<Shared>)> {
    match trees {
        Trees::Named(sources) => {
            plan.sources = sources;
            Ok((Vec::new(), Vec::new()))
        }
        Trees::Opened { trees, shared } if plan.user.is_some() => {
            plan.asks_owner = !shared.is_empty();
            Ok((trees, shared))
        }
        Trees::Opened { trees, shared } => {
            shared.iter().try_for_each(|directory| directory.show_to(Owner::ROOT))?;
            Ok((trees, Vec::new()))
        }
    }
}

/// Waits for the guest's message: that it serves, with its report, or a 0 and what went wrong. Before that it may
/// name the user that commands run as, for the directories that must appear as that user's.
fn wait_until_ready(mut socket: &UnixStream, shared: &[Shared]) -> io::Result<Ready> {
    socket.set_read_timeout(Some(BOOT_TIME))?;
    let mut word = first_byte(socket)?;
    let waiting = !shared.is_empty();
    if word == Boot::READY && waiting {
        return Err(io::Error::other("it serves before directories were mapped to its user"));
    }
    if word == Boot::OWNER && waiting {
        let owner = Owner { uid: number(socket)?, gid: number(socket)? };
        shared.iter().try_for_each(|directory| directory.show_to(owner))?;
        socket.write_all(&[1])?;
        word = first_byte(socket)?;
    }
    if word == Boot::READY {
        let mut words = [0; 2];
        socket.read_exact(&mut words)?;
        let [fenced, knows_user] = words.map(|word| word == 1);
        return Ok(Ready { fenced, knows_user });
    }
    let mut reason = String::new();
    let _ = socket.take(4096).read_to_string(&mut reason);
    Err(io::Error::other(reason))
}

fn first_byte(mut socket: &UnixStream) -> io::Result<u8> {
    let mut byte = [0];
    socket.read_exact(&mut byte).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other("its process ended at once"),
        _ => error,
    })?;
    Ok(byte[0])
}

/// Reads the id of a user or group of the sandbox, and checks that it is in range.
fn number(mut socket: &UnixStream) -> io::Result<u32> {
    let mut bytes = [0; 4];
    socket.read_exact(&mut bytes)?;
    let number = u32::from_le_bytes(bytes);
    match number < ids::COUNT {
        true => Ok(number),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}
