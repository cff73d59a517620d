//! Finds the user a command runs as, in the sandbox's own `passwd` and `group`. The author of the image wrote both:
//! they are data, read within bounds, and cannot name a user outside the sandbox.

use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;

use coracle_sys::rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use crate::GUEST_ID;

/// The guest reads only this much of a longer file.
const READ_MAX: u64 = 1 << 20;
const GROUPS_MAX: usize = 64;

/// A user of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
    pub name: Option<String>,
    pub home: Option<String>,
}

/// Finds the user called `wanted`: a name, a number, or `user:group` of either. If absent, returns root without
/// looking it up.
pub fn find(wanted: Option<&[u8]>) -> Option<User> {
    find_by(wanted, read)
}

/// Does the same in a root that is not yet ours. Only the image's files may be mounted in it.
pub fn find_in(root: BorrowedFd<'_>, wanted: Option<&[u8]>) -> Option<User> {
    find_by(wanted, |path| read_in(root, path))
}

fn find_by(wanted: Option<&[u8]>, read: impl Fn(&str) -> String) -> Option<User> {
    let Some(wanted) = wanted else {
        return Some(User {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
            name: Some("root".into()),
            home: Some("/root".into()),
        });
    };
    let wanted = std::str::from_utf8(wanted).ok()?;
    let (user, group) = match wanted.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (wanted, None),
    };
    let mut found = lookup_user(user, &read("/etc/passwd"))?;
    let groups = read("/etc/group");
    if let Some(group) = group {
        found.gid = lookup_group(group, &groups)?;
    } else if let Some(name) = &found.name {
        found.groups = memberships(name, &groups);
    }
    let allowed = |id: u32| id < GUEST_ID;
    (allowed(found.uid) && allowed(found.gid) && found.groups.iter().all(|id| allowed(*id))).then_some(found)
}

fn lookup_user(user: &str, passwd: &str) -> Option<User> {
    let number: Option<u32> = user.parse().ok();
    let known = passwd.lines().filter_map(|line| {
        let fields: Vec<_> = line.split(':').collect();
        let [name, _, uid, gid, _, home, ..] = fields[..] else { return None };
        Some(User {
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
            groups: Vec::new(),
            name: Some(name.into()),
            home: Some(home.into()),
        })
    });
    let matches = |found: &User| found.name.as_deref() == Some(user) || number == Some(found.uid);
    known
        .into_iter()
        .find(matches)
        .or_else(|| Some(User { uid: number?, gid: number?, groups: Vec::new(), name: None, home: None }))
}

fn lookup_group(group: &str, groups: &str) -> Option<u32> {
    let named = groups.lines().filter_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(group)).then(|| fields.nth(1)).flatten()?.parse().ok()
    });
    group.parse().ok().or_else(|| named.into_iter().next())
}

fn memberships(name: &str, groups: &str) -> Vec<u32> {
    let member = |line: &str| -> Option<u32> {
        let fields: Vec<_> = line.split(':').collect();
        let [_, _, gid, members, ..] = fields[..] else { return None };
        members.split(',').any(|member| member == name).then(|| gid.parse().ok()).flatten()
    };
    groups.lines().filter_map(member).take(GROUPS_MAX).collect()
}

/// Returns the file's text, or nothing: a sandbox without the file has only numeric users. Reads only a plain file;
/// another kind could make the guest wait for ever.
fn read(path: &str) -> String {
    crate::files::open_plain(path.as_bytes(), crate::files::Links::Follow, None)
        .map(beginning)
        .unwrap_or_default()
}

fn read_in(root: BorrowedFd<'_>, path: &str) -> String {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let opened = openat2(root, path, flags, Mode::empty(), within).map(File::from).ok();
    let plain = |file: &File| file.metadata().is_ok_and(|found| found.is_file());
    opened.filter(plain).map(beginning).unwrap_or_default()
}

fn beginning(file: File) -> String {
    let mut text = Vec::new();
    let _ = file.take(READ_MAX).read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1001::/home/ada:/bin/sh\nbroken\nbig:x:99999999999:1::/:";

    #[test]
    fn a_name_and_a_number_find_the_same_user() {
        let ada = lookup_user("ada", PASSWD).expect("ada is listed");

        assert_eq!((ada.uid, ada.gid), (1000, 1001));
        assert_eq!(lookup_user("1000", PASSWD), Some(ada));
    }

    #[test]
    fn an_unlisted_number_is_a_user_and_an_unlisted_name_is_not() {
        assert_eq!(lookup_user("4242", PASSWD).map(|user| user.gid), Some(4242));
        assert_eq!(lookup_user("nobody-here", PASSWD), None);
        assert_eq!(lookup_user("big", PASSWD), None);
    }

    #[test]
    fn groups_come_from_membership() {
        let groups = "root:x:0:\naudio:x:29:ada,bob\nvideo:x:44:bob\n";

        assert_eq!(memberships("ada", groups), vec![29]);
        assert_eq!(lookup_group("video", groups), Some(44));
        assert_eq!(lookup_group("7", groups), Some(7));
    }
}
