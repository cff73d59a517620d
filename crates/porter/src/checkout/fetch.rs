//! Fetches one commit with its history, by version 2 of git's protocol, from an `upload-pack` at the other end.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use coracle_porter::{Checkout, Failed, Why};
use gix_hash::ObjectId;
use gix_pack::Bundle;
use gix_utils::progress::Discard;

use crate::link::Link;

/// The longest line of the protocol, its length included.
const LINE_MAX: usize = 65_520;
/// More lines before a pack than any server sends.
const LINES_MAX: usize = 100_000;
const BAND_DATA: u8 = 1;
const BAND_ERROR: u8 = 3;

/// One line of the protocol.
enum Line {
    Data(Vec<u8>),
    Flush,
    Delimiter,
    End,
}

/// Fetches the commit into the repository. Returns how many objects came.
pub fn fetch<R: Read, W: Write>(
    link: &mut Link<R, W>,
    git: &Path,
    commit: ObjectId,
    order: &Checkout,
) -> Result<u64, Failed> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Failed::new(Why::NotFound, error.to_string()),
        _ => Failed::broken("fetch the repository", error),
    };
    greet(link).map_err(failed)?;
    ask(link, commit, order.depth).map_err(failed)?;
    let shallow = headings(link).map_err(failed)?;
    if !shallow.is_empty() {
        std::fs::write(git.join("shallow"), shallow)
            .map_err(|error| Failed::broken("write `.git/shallow`", error))?;
    }
    let objects = receive(link, git, order.threads)?;
    link.hang_up().map_err(failed)?;
    // What the other side still says is of no interest, but it must be able to end.
    io::copy(link, &mut io::sink()).map_err(failed)?;
    Ok(objects)
}

/// Reads what the server can do.
fn greet<R: Read, W: Write>(link: &mut Link<R, W>) -> io::Result<()> {
    let mut version = false;
    for _ in 0..LINES_MAX {
        match line(link)? {
            Line::Data(data) => {
                version |= data.trim_ascii_end() == b"version 2";
                if let Some(said) = data.strip_prefix(b"ERR ") {
                    return Err(io::Error::other(String::from_utf8_lossy(said).into_owned()));
                }
            }
            Line::Flush if version => return Ok(()),
            _ => return Err(malformed("the server does not speak version 2")),
        }
    }
    Err(malformed("the server says too much"))
}

fn ask<R: Read, W: Write>(link: &mut Link<R, W>, commit: ObjectId, depth: Option<u32>) -> io::Result<()> {
    let mut request = Vec::new();
    put(&mut request, "command=fetch\n");
    put(&mut request, "agent=coracle\n");
    put(&mut request, "object-format=sha1\n");
    request.extend(b"0001");
    put(&mut request, "ofs-delta\n");
    put(&mut request, "no-progress\n");
    put(&mut request, &format!("want {commit}\n"));
    if let Some(depth) = depth {
        put(&mut request, &format!("deepen {depth}\n"));
    }
    put(&mut request, "done\n");
    request.extend(b"0000");
    link.say(&request)
}

fn put(request: &mut Vec<u8>, text: &str) {
    request.extend(format!("{:04x}{text}", text.len() + 4).into_bytes());
}

/// Reads up to the beginning of the pack. Returns the ids of commits whose parents do not come, a line each.
fn headings<R: Read, W: Write>(link: &mut Link<R, W>) -> io::Result<String> {
    let mut shallow = String::new();
    for _ in 0..LINES_MAX {
        let Line::Data(data) = line(link)? else { continue };
        let text = String::from_utf8_lossy(data.trim_ascii_end()).into_owned();
        if let Some(id) = text.strip_prefix("shallow ") {
            let id =
                ObjectId::from_hex(id.as_bytes()).map_err(|_| malformed("a shallow line without an id"))?;
            shallow += &format!("{id}\n");
        } else if let Some(said) = text.strip_prefix("ERR ") {
            let missing = said.contains("not our ref");
            let kind = if missing { io::ErrorKind::NotFound } else { io::ErrorKind::Other };
            return Err(io::Error::new(kind, said.to_owned()));
        } else if text == "packfile" {
            return Ok(shallow);
        }
    }
    Err(malformed("the server says too much before the pack"))
}

fn receive<R: Read, W: Write>(link: &mut Link<R, W>, git: &Path, threads: u32) -> Result<u64, Failed> {
    let mut pack =
        BufReader::with_capacity(LINE_MAX, Bands { link, rest: Vec::new(), taken: 0, ended: false });
    // An empty stream is no pack.
    pack.fill_buf().map_err(|error| Failed::broken("receive objects", error))?;
    let options = gix_pack::bundle::write::Options {
        thread_limit: Some(threads.max(1) as usize),
        ..gix_pack::bundle::write::Options::default()
    };
    let written = Bundle::write_to_directory(
        &mut pack,
        Some(&git.join("objects/pack")),
        &mut Discard,
        &AtomicBool::new(false),
        None::<gix_object::find::Never>,
        gix_hash::Kind::Sha1,
        options,
    );
    let written = written.map_err(|error| Failed::broken("receive objects", chain(&error)))?;
    if let Some(keep) = &written.keep_path {
        std::fs::remove_file(keep).map_err(|error| Failed::broken("release the pack", error))?;
    }
    io::copy(&mut pack, &mut io::sink()).map_err(|error| Failed::broken("receive objects", error))?;
    Ok(u64::from(written.index.num_objects))
}

/// Returns an error with its causes.
pub fn chain(error: &gix_error::Error) -> String {
    format!("{error:#}")
}

/// The pack, taken out of the lines it comes in.
struct Bands<'a, R: Read, W: Write> {
    link: &'a mut Link<R, W>,
    rest: Vec<u8>,
    taken: usize,
    ended: bool,
}

impl<R: Read, W: Write> Read for Bands<'_, R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.rest.len() && !self.ended {
            match line(self.link)? {
                Line::Data(data) => match data.first() {
                    Some(&BAND_DATA) => (self.rest, self.taken) = (data, 1),
                    Some(&BAND_ERROR) => {
                        return Err(io::Error::other(String::from_utf8_lossy(&data[1..]).into_owned()));
                    }
                    // Progress.
                    Some(_) => {}
                    None => return Err(malformed("a line without a band")),
                },
                Line::Flush | Line::End => self.ended = true,
                Line::Delimiter => return Err(malformed("a delimiter within the pack")),
            }
        }
        let length = buffer.len().min(self.rest.len() - self.taken);
        buffer[..length].copy_from_slice(&self.rest[self.taken..self.taken + length]);
        self.taken += length;
        Ok(length)
    }
}

fn line(from: &mut impl Read) -> io::Result<Line> {
    let mut head = [0; 4];
    from.read_exact(&mut head)?;
    let length = std::str::from_utf8(&head)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .and_then(|text| usize::from_str_radix(text, 16).ok())
        .ok_or_else(|| malformed("a line without a length"))?;
    match length {
        0 => Ok(Line::Flush),
        1 => Ok(Line::Delimiter),
        2 => Ok(Line::End),
        4..=LINE_MAX => {
            let mut data = vec![0; length - 4];
            from.read_exact(&mut data)?;
            Ok(Line::Data(data))
        }
        _ => Err(malformed("a line of an impossible length")),
    }
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
