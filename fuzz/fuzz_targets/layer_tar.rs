//! Arbitrary bytes as a layer: no panic, and whatever is asked for stays inside of the layer and within bounds.
#![no_main]

use std::io::Read;

use coracle_unpack::limits::{
    ATTRIBUTE_VALUE_MAX, ATTRIBUTES_MAX, COMPONENT_MAX, ID_MAX, PATH_MAX, TIME_MAX,
};
use coracle_unpack::{Entry, Kind, Limits, Name, Refusal, Sink, walk};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { entries: 100, bytes: 1 << 20 };

#[derive(Default)]
struct Checked {
    entries: u64,
    bytes: u64,
}

impl Sink for Checked {
    fn put(&mut self, entry: &Entry, content: &mut dyn Read) -> Result<(), Refusal> {
        self.entries += 1;
        // Reading only a part of some must not shift what comes after.
        let part = if self.entries % 2 == 0 { 1 } else { u64::MAX };
        self.bytes +=
            std::io::copy(&mut content.take(part), &mut std::io::sink()).map_err(Refusal::reading)?;
        is_inside(&entry.name);
        if let Kind::HardLink(target) = &entry.kind {
            is_inside(target);
        }
        if let Kind::Symlink(target) = &entry.kind {
            assert!((1..=PATH_MAX).contains(&target.len()));
        }
        assert!(
            !entry.name.is_root() || matches!(entry.kind, Kind::Directory | Kind::Opaque | Kind::Skipped)
        );
        let attributes = &entry.attributes;
        assert!(attributes.uid <= ID_MAX && attributes.gid <= ID_MAX && attributes.time <= TIME_MAX);
        assert_eq!(attributes.mode & !0o3777, 0);
        assert!(entry.kind == Kind::Directory || attributes.mode & 0o2000 == 0);
        assert!(attributes.extended.len() <= ATTRIBUTES_MAX);
        for (name, value) in &attributes.extended {
            assert!(name.starts_with(b"user.") && !name.starts_with(b"user.overlay.") && !name.contains(&0));
            assert!(value.len() <= ATTRIBUTE_VALUE_MAX);
        }
        Ok(())
    }
}

fn is_inside(name: &Name) {
    assert!(name.as_bytes().len() <= PATH_MAX && !name.as_bytes().starts_with(b"/"));
    for part in name.parts() {
        assert!(!matches!(part, b"" | b"." | b"..") && part.len() <= COMPONENT_MAX && !part.contains(&0));
    }
}

fuzz_target!(|input: &[u8]| {
    let mut whole = Checked::default();
    let walked = walk(&mut &*with_checksums(input).as_slice(), &LIMITS, &mut whole);
    assert!(whole.entries <= LIMITS.entries && whole.bytes <= LIMITS.bytes);
    if let Ok(entries) = walked {
        assert!(whole.entries <= entries);
    }
});

/// Makes every block that could be a header one with the right checksum; no fuzzer finds those by itself.
fn with_checksums(input: &[u8]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for block in bytes.chunks_exact_mut(512).filter(|block| block[156] != 0 || block[0] != 0) {
        let others = block[..148].iter().chain(&block[156..]).map(|byte| u32::from(*byte)).sum::<u32>();
        block[148..156].copy_from_slice(format!("{:06o}\0 ", others + 256).as_bytes());
    }
    bytes
}
