//! The names of the kernel's error numbers.
//!
//! The numbers are those of Linux, whatever the host is: the guest always runs on it.

pub const EPERM: i32 = 1;
pub const ENOENT: i32 = 2;
pub const ENOEXEC: i32 = 8;
pub const EAGAIN: i32 = 11;
pub const ENOMEM: i32 = 12;
pub const EACCES: i32 = 13;
pub const EBUSY: i32 = 16;
pub const EEXIST: i32 = 17;
pub const EXDEV: i32 = 18;
pub const ENOTDIR: i32 = 20;
pub const EISDIR: i32 = 21;
pub const EINVAL: i32 = 22;
pub const EFBIG: i32 = 27;
pub const ENOSPC: i32 = 28;
pub const EROFS: i32 = 30;
pub const EMLINK: i32 = 31;
pub const ENAMETOOLONG: i32 = 36;
pub const ENOTEMPTY: i32 = 39;
pub const ELOOP: i32 = 40;
pub const EDQUOT: i32 = 122;

const NAMES: &[(i32, &str)] = &[
    (EPERM, "EPERM"),
    (ENOENT, "ENOENT"),
    (3, "ESRCH"),
    (4, "EINTR"),
    (5, "EIO"),
    (6, "ENXIO"),
    (7, "E2BIG"),
    (ENOEXEC, "ENOEXEC"),
    (9, "EBADF"),
    (10, "ECHILD"),
    (EAGAIN, "EAGAIN"),
    (ENOMEM, "ENOMEM"),
    (EACCES, "EACCES"),
    (14, "EFAULT"),
    (EBUSY, "EBUSY"),
    (EEXIST, "EEXIST"),
    (EXDEV, "EXDEV"),
    (19, "ENODEV"),
    (ENOTDIR, "ENOTDIR"),
    (EISDIR, "EISDIR"),
    (EINVAL, "EINVAL"),
    (23, "ENFILE"),
    (24, "EMFILE"),
    (25, "ENOTTY"),
    (26, "ETXTBSY"),
    (EFBIG, "EFBIG"),
    (ENOSPC, "ENOSPC"),
    (29, "ESPIPE"),
    (EROFS, "EROFS"),
    (EMLINK, "EMLINK"),
    (32, "EPIPE"),
    (34, "ERANGE"),
    (ENAMETOOLONG, "ENAMETOOLONG"),
    (38, "ENOSYS"),
    (ENOTEMPTY, "ENOTEMPTY"),
    (ELOOP, "ELOOP"),
    (75, "EOVERFLOW"),
    (80, "ELIBBAD"),
    (95, "EOPNOTSUPP"),
    (110, "ETIMEDOUT"),
    (116, "ESTALE"),
    (EDQUOT, "EDQUOT"),
];

/// Returns the name of a number, `E…` with the number where it has none here.
pub fn name(errno: i32) -> String {
    match NAMES.iter().find(|(number, _)| *number == errno) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("E{errno}"),
    }
}
