//! The files of the fake guest, by absolute path. There are no links and no owners, and permissions are not enforced.

use std::collections::BTreeMap;

use coracle_wire::{Body, Entry, EntryKind, FaultCode, Reply};

use super::{Answer, errno, fault, file_fault};
use coracle_core::spec::WORKSPACE;

/// Every file and directory.
#[derive(Debug, Clone)]
pub struct Tree(BTreeMap<Vec<u8>, Node>);

#[derive(Debug, Clone)]
enum Node {
    Directory,
    File { data: Vec<u8>, mode: u32 },
}

/// A file that is not complete.
#[derive(Debug)]
struct Upload {
    path: Vec<u8>,
    mode: u32,
    overwrite: bool,
    keep_mode: bool,
    data: Vec<u8>,
}

/// What one request began on a connection and the next continues.
#[derive(Debug, Default)]
pub struct Begun {
    upload: Option<Upload>,
    /// The file that is being read in pieces.
    reading: Option<Vec<u8>>,
}

impl Tree {
    pub fn fresh() -> Self {
        let directories = [b"/".to_vec(), b"/tmp".to_vec(), WORKSPACE.into()];
        Self(directories.into_iter().map(|path| (path, Node::Directory)).collect())
    }

    /// Answers requests about files; panics on others.
    pub fn answer(&mut self, body: Body, begun: &mut Begun) -> Answer<Reply> {
        let Begun { upload, reading } = begun;
        match body {
            Body::FileOpen { path, max_bytes, .. } => {
                *reading = None;
                let path = absolute(&path)?;
                let entry = entry(&path, self.node(&path)?);
                let Reply::File { data, size } = self.read(&path, 0, max_bytes)? else {
                    panic!("reading is answered by the file")
                };
                *reading = ((data.len() as u64) < size).then(|| self.contents(&path)).flatten();
                Ok(Reply::Opened { entry, data })
            }
            Body::FileGoOn { offset, max_bytes } => match reading {
                Some(contents) => {
                    let answer = piece(contents, offset, max_bytes);
                    // A short piece is the last one.
                    if matches!(&answer, Reply::File { data, .. } if data.len() < max_bytes as usize) {
                        *reading = None;
                    }
                    Ok(answer)
                }
                None => Err(fault(FaultCode::Invalid, "no file was opened")),
            },
            Body::FileDirectory { path, .. } => {
                let path = absolute(&path)?;
                self.make_parents(&[&path, b"/".as_slice()].concat())?;
                Ok(Reply::Done {})
            }
            Body::FileFinish { path, .. } => match self.node(&absolute(&path)?)? {
                Node::Directory => Ok(Reply::Done {}),
                Node::File { .. } => Err(file_fault(errno::ENOTDIR, &path)),
            },
            Body::FileLink { .. } => Err(fault(FaultCode::Unsupported, "there are no links here")),
            Body::FileRead { path, offset, max_bytes } => self.read(&absolute(&path)?, offset, max_bytes),
            Body::FileWrite { path, mode, overwrite, data, last, placing } => {
                *upload = None;
                let keep_mode = placing.is_some_and(|placing| placing.keep_mode);
                let begun = Upload { path: absolute(&path)?, mode, overwrite, keep_mode, data };
                self.check_target(&begun.path, overwrite)?;
                self.go_on(begun, last, upload)
            }
            Body::FileMore { data, last } => {
                let mut begun =
                    upload.take().ok_or_else(|| fault(FaultCode::Invalid, "no file was begun"))?;
                begun.data.extend_from_slice(&data);
                self.go_on(begun, last, upload)
            }
            Body::FileList { path, recursive, .. } => self.list(&absolute(&path)?, recursive),
            Body::FileListMore {} => Err(fault(FaultCode::Invalid, "no listing was begun")),
            Body::FileStat { path } => {
                let path = absolute(&path)?;
                let entries = vec![entry(&path, self.node(&path)?)];
                Ok(Reply::Entries { entries, more: false })
            }
            Body::FileMove { from, to, overwrite, .. } => {
                self.rename(&absolute(&from)?, &absolute(&to)?, overwrite)
            }
            Body::FileDelete { path, recursive } => self.delete(&absolute(&path)?, recursive),
            other => panic!("{other:?} is not about files"),
        }
    }

    /// Returns the names of the files below a directory, one a line.
    pub fn names(&self, directory: &[u8]) -> Vec<u8> {
        let below = self
            .0
            .iter()
            .filter(|(path, node)| path.starts_with(directory) && matches!(node, Node::File { .. }));
        below.flat_map(|(path, _)| [path.as_slice(), b"\n"].concat()).collect()
    }

    /// Returns the contents of a file, if it exists.
    pub fn contents(&self, path: &[u8]) -> Option<Vec<u8>> {
        match self.0.get(&absolute(path).ok()?)? {
            Node::File { data, .. } => Some(data.clone()),
            Node::Directory => None,
        }
    }

    fn read(&self, path: &[u8], offset: u64, max_bytes: u32) -> Answer<Reply> {
        let Node::File { data, .. } = self.node(path)? else { return Err(file_fault(errno::EISDIR, path)) };
        Ok(piece(data, offset, max_bytes))
    }

    fn go_on(&mut self, begun: Upload, last: bool, upload: &mut Option<Upload>) -> Answer<Reply> {
        let path = begun.path.clone();
        match last {
            false => *upload = Some(begun),
            true => {
                self.check_target(&begun.path, begun.overwrite)?;
                self.make_parents(&begun.path)?;
                let mode = match self.0.get(&begun.path) {
                    Some(Node::File { mode, .. }) if begun.keep_mode => *mode,
                    _ => begun.mode,
                };
                self.0.insert(begun.path, Node::File { data: begun.data, mode });
            }
        }
        Ok(Reply::Written { path })
    }

    fn list(&self, path: &[u8], recursive: bool) -> Answer<Reply> {
        if let Node::File { .. } = self.node(path)? {
            return Err(file_fault(errno::ENOTDIR, path));
        }
        let wanted = |inner: &&[u8]| recursive || !inner.contains(&b'/');
        let entries = self
            .0
            .iter()
            .filter(|(name, _)| below(path, name).as_ref().is_some_and(wanted))
            .map(|(name, node)| entry(name, node))
            .collect();
        Ok(Reply::Entries { entries, more: false })
    }

    fn rename(&mut self, from: &[u8], to: &[u8], overwrite: bool) -> Answer<Reply> {
        self.node(from)?;
        self.check_target(to, overwrite)?;
        self.make_parents(to)?;
        let moved: Vec<_> =
            self.0.keys().filter(|name| *name == from || below(from, name).is_some()).cloned().collect();
        for name in moved {
            if let Some(node) = self.0.remove(&name) {
                self.0.insert([to, &name[from.len()..]].concat(), node);
            }
        }
        Ok(Reply::Done {})
    }

    fn delete(&mut self, path: &[u8], recursive: bool) -> Answer<Reply> {
        if let (Node::Directory, false) = (self.node(path)?, recursive) {
            return Err(file_fault(errno::EISDIR, path));
        }
        self.0.retain(|name, _| name != path && below(path, name).is_none());
        Ok(Reply::Done {})
    }

    fn node(&self, path: &[u8]) -> Answer<&Node> {
        self.0.get(path).ok_or_else(|| file_fault(errno::ENOENT, path))
    }

    fn check_target(&self, path: &[u8], overwrite: bool) -> Answer<()> {
        match self.0.get(path) {
            Some(Node::Directory) => Err(file_fault(errno::EISDIR, path)),
            Some(Node::File { .. }) if !overwrite => Err(file_fault(errno::EEXIST, path)),
            _ => Ok(()),
        }
    }

    fn make_parents(&mut self, path: &[u8]) -> Answer<()> {
        for (index, _) in path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/') {
            let parent = &path[..index];
            match self.0.get(parent) {
                Some(Node::Directory) => {}
                Some(Node::File { .. }) => return Err(file_fault(errno::ENOTDIR, parent)),
                None => {
                    self.0.insert(parent.to_vec(), Node::Directory);
                }
            }
        }
        Ok(())
    }
}

fn piece(data: &[u8], offset: u64, max_bytes: u32) -> Reply {
    let rest = data.get(offset as usize..).unwrap_or_default();
    Reply::File { data: rest[..rest.len().min(max_bytes as usize)].to_vec(), size: data.len() as u64 }
}

/// Returns the rest of a name below the directory.
fn below<'a>(directory: &[u8], name: &'a [u8]) -> Option<&'a [u8]> {
    let rest = name.strip_prefix(directory)?;
    let rest = if directory == b"/" { rest } else { rest.strip_prefix(b"/")? };
    (!rest.is_empty()).then_some(rest)
}

/// Resolves a path. Relative ones start at the workspace and may not leave it.
fn absolute(path: &[u8]) -> Answer<Vec<u8>> {
    if path.is_empty() || path.contains(&0) {
        return Err(fault(FaultCode::Invalid, "a path is neither empty nor holds a NUL byte"));
    }
    let relative = !path.starts_with(b"/");
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if parts.is_empty() && relative => return Err(file_fault(errno::EXDEV, path)),
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let inner = parts.join(&b'/');
    let workspace = WORKSPACE.as_bytes();
    Ok(match (relative, inner.is_empty()) {
        (true, true) => workspace.to_vec(),
        (true, false) => [workspace, b"/", &inner].concat(),
        (false, _) => [b"/", inner.as_slice()].concat(),
    })
}

fn entry(path: &[u8], node: &Node) -> Entry {
    let (kind, size, mode) = match node {
        Node::Directory => (EntryKind::Directory, 0, 0o755),
        Node::File { data, mode } => (EntryKind::File, data.len() as u64, *mode),
    };
    Entry {
        path: path.to_vec(),
        kind,
        size,
        mode,
        mtime: 0,
        uid: 0,
        gid: 0,
        mtime_nanos: Some(0),
        target: None,
    }
}
