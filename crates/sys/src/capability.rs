//! Capabilities of the calling thread, as bit masks.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Highest capability number of any kernel we run on; the kernel refuses the ones it does not know.
const LAST: u32 = 63;

/// Makes `mask` the permitted and effective set, and empties the inheritable one.
pub fn keep(mask: u64) -> io::Result<()> {
    let set = CapabilitySet::from_bits_retain(mask);
    let sets = CapabilitySets { effective: set, permitted: set, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

/// Makes `mask` the effective set, as far as it is permitted. The permitted set stays, so that it can be made
/// effective again.
pub fn put_in_effect(mask: u64) -> io::Result<()> {
    let held = capabilities(None)?;
    let effective = held.permitted & CapabilitySet::from_bits_retain(mask);
    Ok(set_capabilities(None, CapabilitySets { effective, ..held })?)
}

/// Removes everything but `mask` from the bounding set, and empties the ambient one.
pub fn bound(mask: u64) -> io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    for number in (0..=LAST).filter(|number| mask & (1 << number) == 0) {
        // SAFETY: `PR_CAPBSET_DROP` takes a number and touches no memory.
        let dropped = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, u64::from(number), 0, 0, 0) };
        if dropped != 0 {
            let error = io::Error::last_os_error();
            // Past the last capability this kernel knows.
            if error.raw_os_error() == Some(libc::EINVAL) {
                break;
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Lets permitted capabilities survive the next change of user ids.
pub fn keep_across_setuid() -> io::Result<()> {
    Ok(rustix::thread::set_keep_capabilities(true)?)
}
