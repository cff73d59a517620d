//! Making a sandbox: its directory, its cgroup, its namespaces, its mounts, its guest.

mod boot;
mod fit;
mod layers;

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use coracle_core::backend::{Created, Order, Placement};
use coracle_core::{Error, Kind, Result};
use coracle_images::host::Host;
use coracle_sys::cgroup::Group;
use coracle_sys::descriptors;
use coracle_sys::launch::{Launch, Launched, launch};

use super::{Native, destroy, ids, probe, program};
use layers::Layers;

/// A guest that has not come up by then never will; building a sandbox takes a millisecond.
const BOOT_TIME: Duration = Duration::from_secs(20);

/// Makes the sandbox. On error nothing of it is left.
pub fn create(native: &Native, order: &Order<'_>) -> Result<Created> {
    probe::check_privileges()?;
    let layout = native.layout()?;
    fit::check(layout, order.spec)?;
    let image = native.image(order.spec)?;
    let group = native.group(layout, order.sandbox);
    let made = make(native, order, &image, &group);
    made.map_err(|failure| {
        let error = Error::new(
            Kind::StartFailed,
            format!("could not {} for sandbox `{}`", failure.attempted, order.sandbox),
        )
        .caused_by(failure.cause)
        .hint("run `coracle doctor` to see what this machine offers");
        match destroy::destroy(native, order.sandbox) {
            Ok(()) => error,
            Err(left) => error.detail("left_behind", left.chain()),
        }
    })
}

/// A step that failed.
#[derive(Debug)]
struct Failure {
    attempted: &'static str,
    cause: io::Error,
}

fn at(attempted: &'static str) -> impl FnOnce(io::Error) -> Failure {
    move |cause| Failure { attempted, cause }
}

fn make(native: &Native, order: &Order<'_>, image: &Host, group: &Group<'_>) -> Result<Created, Failure> {
    let crash = native.setting.crash;
    let base = ids::base(order.sandbox);
    let room =
        native.home.make_room(order.sandbox, image.shared.len(), base).map_err(at("make a directory"))?;
    crash("native.create.directories");
    group.create(&fit::values(order.spec), base).map_err(at("make a cgroup"))?;
    crash("native.create.cgroup");
    let listener = room.listen().map_err(at("make the guest's socket"))?;
    let (ours, theirs) = UnixStream::pair().map_err(at("make the boot socket"))?;
    let (launched, commands) = start(native, group, &ours, theirs)?;
    native.children().insert(order.sandbox.clone(), launched.pidfd);
    crash("native.create.launched");
    let namespace = map_ids(launched.pid, base).map_err(at("map users"))?;
    (&ours).write_all(&[1]).map_err(at("start the guest"))?;
    crash("native.create.mapped");
    let layers = Layers::open(image, &room, namespace.as_fd())?;
    send_plan(
        order,
        image,
        group,
        &Parts { ours: &ours, listener: &listener, layers: &layers, commands: commands.as_fd() },
    )?;
    wait_until_ready(&ours).map_err(at("boot the guest"))?;
    crash("native.create.ready");
    let profile = probe::observe(
        native.layout().map_err(|error| at("find cgroups")(io::Error::other(error)))?,
        launched.pid,
    )
    .map_err(at("see the walls stand"))?;
    Ok(Created {
        placement: Placement(serde_json::json!({"pid": launched.pid})),
        profile,
        image: coracle_core::image::Config::default(),
    })
}

/// Launches the guest's process; it waits for its ids.
fn start(
    native: &Native,
    group: &Group<'_>,
    boot_peer: &UnixStream,
    boot: UnixStream,
) -> Result<(Launched, OwnedFd), Failure> {
    let program = program::open(&native.home.guest).map_err(at("open the guest's program"))?;
    let null = fs::File::options().read(true).write(true).open("/dev/null").map_err(at("open /dev/null"))?;
    let (cgroup, commands) = group.directories().map_err(at("open the cgroup"))?;
    let joins = group.guest_joins().map_err(at("open the guests' cgroup"))?;
    let joins: Vec<_> = joins.iter().map(AsFd::as_fd).collect();
    let order = Launch {
        program: program.as_fd(),
        boot: boot.as_fd(),
        boot_peer: boot_peer.as_fd(),
        null: null.as_fd(),
        cgroup: cgroup.as_fd(),
        joins: &joins,
    };
    let launched = launch(&order).map_err(at("make namespaces"))?;
    Ok((launched, commands))
}

/// Gives the new namespace its users. Returns the namespace.
fn map_ids(pid: i32, base: u32) -> io::Result<OwnedFd> {
    let map = format!("0 {base} {}", ids::COUNT);
    fs::write(format!("/proc/{pid}/uid_map"), &map)?;
    fs::write(format!("/proc/{pid}/gid_map"), &map)?;
    fs::File::open(format!("/proc/{pid}/ns/user")).map(OwnedFd::from)
}

/// What goes to the guest beside the plan.
struct Parts<'a> {
    ours: &'a UnixStream,
    listener: &'a UnixListener,
    layers: &'a Layers,
    commands: BorrowedFd<'a>,
}

/// Sends the plan with its descriptors, in the order the guest expects them.
fn send_plan(order: &Order<'_>, image: &Host, group: &Group<'_>, parts: &Parts<'_>) -> Result<(), Failure> {
    let joins = group.joins().map_err(at("open the commands' cgroup"))?;
    let (memory, pids) = (group.memory_counter(), group.pids_counter());
    let mut plan = boot::plan(order, image);
    plan.joins = joins.len() as u32;
    (plan.memory_counter, plan.pids_counter) = (memory.is_some(), pids.is_some());
    let payload = coracle_wire::encode(&plan).map_err(io::Error::other).map_err(at("write the boot plan"))?;

    let mut descriptors = vec![parts.listener.as_fd()];
    descriptors.extend(parts.layers.fixed());
    descriptors.push(parts.commands);
    descriptors.extend(parts.layers.shared());
    descriptors.extend(joins.iter().chain(&memory).chain(&pids).map(AsFd::as_fd));
    descriptors::send(parts.ours, &payload[coracle_wire::HEADER_LEN..], &descriptors)
        .map_err(at("send the boot plan"))
}

/// Waits for the guest's word: a 1, or a 0 and what went wrong.
fn wait_until_ready(socket: &UnixStream) -> io::Result<()> {
    socket.set_read_timeout(Some(BOOT_TIME))?;
    let mut word = [0];
    let mut socket = socket;
    socket.read_exact(&mut word).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other("its process ended at once"),
        _ => error,
    })?;
    if word == [1] {
        return Ok(());
    }
    let mut reason = String::new();
    let _ = socket.take(4096).read_to_string(&mut reason);
    Err(io::Error::other(reason))
}
