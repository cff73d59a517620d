//! Walls left out on purpose, in builds for the attack suite only: there the same attack has to succeed. Without
//! the feature `weaken` every wall stands, and all of this is constant.

use std::os::fd::BorrowedFd;

use coracle_sys::mount::{self, Attributes};
pub use coracle_wire::Wall;

/// Tells whether a wall is left out.
pub fn off(wall: Wall) -> bool {
    set() & wall.bit() != 0
}

/// Returns the set of left-out walls for the guest.
pub fn weakened() -> Option<u64> {
    (set() != 0).then(set)
}

#[cfg(not(feature = "weaken"))]
const fn set() -> u64 {
    0
}

/// The only place that reads the variable. Names are those of [`Wall`]'s variants.
#[cfg(feature = "weaken")]
fn set() -> u64 {
    use std::sync::OnceLock;
    static SET: OnceLock<u64> = OnceLock::new();
    *SET.get_or_init(|| {
        let names = std::env::var("CORACLE_WEAKEN").unwrap_or_default();
        names.split(',').filter(|name| !name.is_empty()).map(bit).sum()
    })
}

#[cfg(feature = "weaken")]
fn bit(name: &str) -> u64 {
    let wall = Wall::ALL.into_iter().find(|wall| format!("{wall:?}") == name);
    wall.unwrap_or_else(|| panic!("there is no wall `{name}`")).bit()
}

/// Returns the namespaces a guest shares with the machine, as flags of `clone`: none if all walls stand.
pub fn shared_namespaces() -> i32 {
    const NAMESPACES: [(Wall, i32); 5] = [
        (Wall::NetworkNamespace, 0x4000_0000),
        (Wall::UserNamespace, 0x1000_0000),
        (Wall::PidNamespace, 0x2000_0000),
        (Wall::IpcNamespace, 0x0800_0000),
        (Wall::CgroupNamespace, 0x0200_0000),
    ];
    NAMESPACES.into_iter().filter(|(wall, _)| off(*wall)).map(|(_, flag)| flag).sum()
}

/// Returns the namespace whose ids files are mapped to, if there is one.
pub fn mapped(namespace: Option<BorrowedFd<'_>>) -> Option<BorrowedFd<'_>> {
    namespace.filter(|_| !off(Wall::UserNamespace))
}

/// Returns the attributes every mount has.
pub fn plain() -> Attributes {
    if off(Wall::Attributes) { Attributes::empty() } else { mount::plain() }
}

/// Returns all our own capabilities, for commands that may have any.
pub fn all_capabilities() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let permitted = status.lines().find_map(|line| line.strip_prefix("CapPrm:"));
    let permitted = permitted.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // Container engines of some years ago know no more than these, and the three later ones are parts of one of
    // them.
    permitted & ((1 << 38) - 1)
}

/// Returns the container engines' names of all capabilities of this machine's root: no container engine can give
/// more.
pub fn capability_names() -> Vec<String> {
    const NAMES: &str = "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE \
        NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE \
        SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL \
        SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ";
    let all = all_capabilities();
    let held = |(number, _): &(usize, &str)| all & 1 << number != 0;
    NAMES.split_whitespace().enumerate().filter(held).map(|(_, name)| name.to_owned()).collect()
}

/// Returns a device that has no place in a sandbox.
pub fn device() -> bollard::models::DeviceMapping {
    let path = || Some("/dev/kmsg".to_owned());
    bollard::models::DeviceMapping {
        path_on_host: path(),
        path_in_container: path(),
        cgroup_permissions: Some("rwm".to_owned()),
    }
}
