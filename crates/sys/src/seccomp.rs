//! Installs a compiled seccomp filter.

use std::io;

const INSTRUCTION_LEN: usize = size_of::<libc::sock_filter>();

/// Puts the calling thread and all it will start under `filter`, an array of `sock_filter` in memory order.
///
/// The caller must have set `no_new_privs`. A filter cannot be removed.
pub fn install(filter: &[u8]) -> io::Result<()> {
    if filter.is_empty() || !filter.len().is_multiple_of(INSTRUCTION_LEN) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut instructions: Vec<libc::sock_filter> = filter
        .chunks_exact(INSTRUCTION_LEN)
        .map(|bytes| libc::sock_filter {
            code: u16::from_ne_bytes([bytes[0], bytes[1]]),
            jt: bytes[2],
            jf: bytes[3],
            k: u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        })
        .collect();
    let program = libc::sock_fprog { len: instructions.len() as u16, filter: instructions.as_mut_ptr() };
    // SAFETY: `program` points at `instructions`, alive until after the call, with its true length (the kernel's own
    // bound of 4096 instructions fits `u16`); the kernel copies it.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
