//! Arbitrary JSON as the input of every operation: no panic, and a specification that is accepted is within its bounds.
#![no_main]

use coracle_core::{Policy, Spec};
use coracle_engine::ops::{self, sandbox};
use libfuzzer_sys::fuzz_target;

/// Reads the value as the input of each operation.
macro_rules! read_as {
    ($value:expr, $($operation:ident)+) => {
        $(let _ = serde_json::from_value::<sandbox::$operation::Input>($value.clone());)+
    };
}

fuzz_target!(|input: &[u8]| {
    let Ok(value) = ops::parse(input) else { return };
    read_as!(value, run exec exec_read exec_wait exec_stop exec_write fs_write fs_read fs_list fs_delete fs_stat fs_move);
    read_as!(value, close list get claim transfer release);
    let Ok(open) = serde_json::from_value::<sandbox::open::Input>(value) else { return };
    let policy = Policy::default();
    if let Ok(spec) = Spec::resolve(open.spec, &policy) {
        assert!(spec.limits.memory_mb.is_none_or(|memory| memory <= policy.limits.memory_mb.max));
        assert!(spec.workdir.starts_with('/') && !spec.workdir.contains('\0'));
    }
});
