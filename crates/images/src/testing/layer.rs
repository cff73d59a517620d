//! Makes a layer, entry by entry. The test decides what is wrong with it.

use std::io::Write;

use tar::{EntryType, Header};

/// How a layer is packed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compression {
    None,
    #[default]
    Gzip,
    Zstd,
}

impl Compression {
    pub fn media_type(self) -> &'static str {
        match self {
            Compression::None => "application/vnd.oci.image.layer.v1.tar",
            Compression::Gzip => "application/vnd.oci.image.layer.v1.tar+gzip",
            Compression::Zstd => "application/vnd.oci.image.layer.v1.tar+zstd",
        }
    }

    pub fn pack(self, archive: &[u8]) -> Vec<u8> {
        match self {
            Compression::None => archive.to_vec(),
            Compression::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(archive).expect("memory takes it");
                encoder.finish().expect("memory takes it")
            }
            Compression::Zstd => zstd::encode_all(archive, 1).expect("memory takes it"),
        }
    }
}

/// The archive of a layer, as it grows.
#[derive(Debug, Clone, Default)]
pub struct Layer {
    bytes: Vec<u8>,
}

impl Layer {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn directory(self, name: &str, mode: u32) -> Self {
        self.entry(name, EntryType::Directory, |header| header.set_mode(mode), b"")
    }

    pub fn file(self, name: &str, mode: u32, content: &[u8]) -> Self {
        self.entry(name, EntryType::Regular, |header| header.set_mode(mode), content)
    }

    pub fn symlink(self, name: &str, target: &str) -> Self {
        self.link(name, EntryType::Symlink, target)
    }

    pub fn hard_link(self, name: &str, target: &str) -> Self {
        self.link(name, EntryType::Link, target)
    }

    /// Hides a name of lower layers.
    pub fn whiteout(self, name: &str) -> Self {
        let (parent, last) = name.rsplit_once('/').map_or(("", name), |(parent, last)| (parent, last));
        let separator = if parent.is_empty() { "" } else { "/" };
        self.file(&format!("{parent}{separator}.wh.{last}"), 0o600, b"")
    }

    fn link(self, name: &str, kind: EntryType, target: &str) -> Self {
        let set = |header: &mut Header| {
            let field = &mut header.as_old_mut().linkname;
            field[..target.len()].copy_from_slice(target.as_bytes());
        };
        self.entry(name, kind, set, b"")
    }

    /// Appends an entry. `change` may alter its header, except for the checksum.
    pub fn entry(
        mut self,
        name: &str,
        kind: EntryType,
        change: impl FnOnce(&mut Header),
        content: &[u8],
    ) -> Self {
        let mut header = Header::new_ustar();
        // Written directly: the library would refuse the names that matter here.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(1_000_000_000);
        header.set_uid(0);
        header.set_gid(0);
        change(&mut header);
        header.set_cksum();
        self.bytes.extend(header.as_bytes());
        self.bytes.extend(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        self
    }

    /// Appends records that describe the next entry.
    pub fn records(self, records: &[(&str, &[u8])]) -> Self {
        let text: Vec<u8> = records.iter().flat_map(|(key, value)| record(key, value)).collect();
        self.entry("PaxHeaders/x", EntryType::XHeader, |_| {}, &text)
    }

    /// Appends raw bytes.
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    /// Ends the archive.
    pub fn archive(&self) -> Vec<u8> {
        [self.bytes.as_slice(), &[0; 1024]].concat()
    }

    /// Returns the archive so far, without an end.
    pub fn unfinished(&self) -> Vec<u8> {
        self.bytes.clone()
    }
}

fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = [b" ", key.as_bytes(), b"=", value, b"\n"].concat();
    let length = (1..)
        .map(|digits| rest.len() + digits)
        .find(|length| length.to_string().len() == length - rest.len());
    [length.unwrap_or_default().to_string().as_bytes(), &rest].concat()
}
