//! Decides what one entry of the archive asks for, from its header and its extensions.

use crate::extensions::Extensions;
use crate::header::Header;
use crate::limits::{ID_MAX, PATH_MAX, TIME_MAX};
use crate::name::Name;
use crate::refusal::Refusal;

/// Files whose names begin like this hide names of lower layers.
const WHITEOUT: &[u8] = b".wh.";
/// Names for the bookkeeping of a filesystem that is out of use (AUFS); one of them still has a meaning.
const BOOKKEEPING: &[u8] = b".wh..wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// One thing to do in the layer.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where to do it. The root only with [`Kind::Directory`], [`Kind::Opaque`] and [`Kind::Skipped`].
    pub name: Name,
    pub kind: Kind,
    pub attributes: Attributes,
}

/// What to do there.
#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    Directory,
    /// A file with this many bytes.
    File(u64),
    /// A link with this text, which is data: the unpacker never follows it.
    Symlink(Vec<u8>),
    /// A second name of a file in this layer.
    HardLink(Name),
    Fifo,
    /// Hide this name of lower layers.
    Whiteout,
    /// Hide everything that lower layers have in this directory.
    Opaque,
    /// Nothing: devices have no place in a sandbox.
    Skipped,
}

/// The metadata of a file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Attributes {
    /// Permissions; never set-user-id, set-group-id only on directories.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// In seconds.
    pub time: u64,
    /// Names and values, all of the `user.` kind.
    pub extended: Vec<(Vec<u8>, Vec<u8>)>,
    /// How many attributes were left out.
    pub stripped: u64,
}

impl Entry {
    /// Decides about an entry of the given size.
    pub fn decide(header: &Header, extensions: Extensions, size: u64) -> Result<Self, Refusal> {
        let raw = extensions.name.clone().unwrap_or_else(|| header.name());
        let name = Name::parse(&raw)?;
        let kind = kind(header, &extensions, &raw, size)?;
        if !matches!(kind, Kind::File(_)) && size != 0 {
            // Some readers skip these bytes and some take them for the next header.
            return Err(Refusal::malformed(format!("{name:?} is not a file but has {size} bytes")));
        }
        let (name, kind) = whiteout(name, kind)?;
        if name.is_root() && !matches!(kind, Kind::Directory | Kind::Opaque | Kind::Skipped) {
            return Err(Refusal::malformed("the root of the layer is not a directory"));
        }
        let attributes = attributes(header, extensions, &kind)?;
        Ok(Self { name, kind, attributes })
    }
}

fn kind(header: &Header, extensions: &Extensions, raw: &[u8], size: u64) -> Result<Kind, Refusal> {
    let link = || extensions.link.clone().unwrap_or_else(|| header.link().to_vec());
    let slash = raw.ends_with(b"/");
    match header.kind() {
        0 if slash => Ok(Kind::Directory),
        b'0' | b'7' if slash => Err(Refusal::malformed("a file's name ends in a slash")),
        0 | b'0' | b'7' => Ok(Kind::File(size)),
        b'1' => Ok(Kind::HardLink(Name::parse(&link())?)),
        b'2' => symlink(link()),
        b'3' | b'4' => Ok(Kind::Skipped),
        b'5' => Ok(Kind::Directory),
        b'6' => Ok(Kind::Fifo),
        b'S' => Err(Refusal::unsupported("the archive has sparse files")),
        other => {
            Err(Refusal::unsupported(format!("the archive has an entry of kind `{}`", other.escape_ascii())))
        }
    }
}

fn symlink(target: Vec<u8>) -> Result<Kind, Refusal> {
    match target.len() {
        0 => Err(Refusal::malformed("a symbolic link has no target")),
        1..=PATH_MAX => Ok(Kind::Symlink(target)),
        _ => Err(Refusal::limit(format!("a symbolic link is longer than {PATH_MAX} bytes"))),
    }
}

/// Turns whiteout names into what they mean.
fn whiteout(name: Name, kind: Kind) -> Result<(Name, Kind), Refusal> {
    let (parent, last) = name.split();
    if name.parts().any(|part| part.starts_with(BOOKKEEPING)) && last != OPAQUE {
        return Ok((name, Kind::Skipped));
    }
    if parent.parts().any(|part| part.starts_with(WHITEOUT)) {
        return Err(Refusal::malformed(format!("{name:?} is inside a whiteout")));
    }
    if last == OPAQUE {
        return Ok((parent, Kind::Opaque));
    }
    match last.strip_prefix(WHITEOUT) {
        None => Ok((name, kind)),
        Some(b"" | b"." | b"..") => Err(Refusal::malformed(format!("{name:?} is a whiteout without a name"))),
        Some(hidden) => Ok((parent.join(hidden), Kind::Whiteout)),
    }
}

fn attributes(header: &Header, extensions: Extensions, kind: &Kind) -> Result<Attributes, Refusal> {
    let special = if *kind == Kind::Directory { 0o3000 } else { 0o1000 };
    let uid = extensions.uid.map_or_else(|| header.uid(), |uid| Ok(i128::from(uid)))?;
    let gid = extensions.gid.map_or_else(|| header.gid(), |gid| Ok(i128::from(gid)))?;
    let time = extensions.time.map_or_else(|| header.time(), |time| Ok(i128::from(time)))?;
    Ok(Attributes {
        mode: header.mode()? & (0o777 | special),
        uid: id(uid),
        gid: id(gid),
        time: u64::try_from(time).map_or(if time < 0 { 0 } else { TIME_MAX }, |time| time.min(TIME_MAX)),
        extended: extensions.attributes.into_iter().collect(),
        stripped: extensions.stripped,
    })
}

/// Replaces an id that a sandbox does not have with the one that means `nobody`.
fn id(id: i128) -> u32 {
    u32::try_from(id).map_or(ID_MAX, |id| id.min(ID_MAX))
}
