//! The layer's bytes: read in place, decompressed, and digested on the way.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use coracle_unpack::{Order, Refusal, Report};
use flate2::bufread::MultiGzDecoder;
use sha2::{Digest, Sha256};

/// How much to read between two progress reports.
const PROGRESS: u64 = 1 << 20;
/// The largest window `zstd` uses by default: 128 MiB.
const WINDOW_LOG_MAX: u32 = 27;
const BUFFER: usize = 128 << 10;

/// The decompressed archive.
pub struct Stream<'a> {
    inner: Decompressed<'a>,
    digest: Sha256,
}

enum Decompressed<'a> {
    Plain(BufReader<Section<'a>>),
    Gzip(Box<MultiGzDecoder<BufReader<Section<'a>>>>),
    Zstd(zstd::Decoder<'a, BufReader<Section<'a>>>),
}

impl<'a> Stream<'a> {
    /// Begins to read. The first bytes decide the compression, because the manifest may be wrong about it.
    pub fn open(file: File, order: &Order, host: &'a UnixStream) -> Result<Self, Refusal> {
        let section = Section { file, position: order.offset, left: order.length, read: 0, told: 0, host };
        let mut buffered = BufReader::with_capacity(BUFFER, section);
        let inner = match buffered.fill_buf().map_err(Refusal::reading)? {
            [0x1f, 0x8b, ..] => Decompressed::Gzip(Box::new(MultiGzDecoder::new(buffered))),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                Decompressed::Zstd(zstd(buffered)?)
            }
            _ => Decompressed::Plain(buffered),
        };
        Ok(Self { inner, digest: Sha256::new() })
    }

    /// Returns the digest of everything read.
    pub fn digest(self) -> [u8; 32] {
        self.digest.finalize().into()
    }
}

fn zstd<'a>(buffered: BufReader<Section<'a>>) -> Result<zstd::Decoder<'a, BufReader<Section<'a>>>, Refusal> {
    let failed = |error: io::Error| Refusal::machine("start decompressing", error);
    let mut decoder = zstd::Decoder::with_buffer(buffered).map_err(failed)?;
    decoder.window_log_max(WINDOW_LOG_MAX).map_err(failed)?;
    Ok(decoder)
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.inner {
            Decompressed::Plain(inner) => inner.read(buffer),
            Decompressed::Gzip(inner) => inner.read(buffer),
            Decompressed::Zstd(inner) => inner.read(buffer),
        }?;
        self.digest.update(&buffer[..read]);
        Ok(read)
    }
}

/// A part of a file that other processes may read at the same time. Reports its progress to the host.
struct Section<'a> {
    file: File,
    position: u64,
    left: u64,
    read: u64,
    told: u64,
    host: &'a UnixStream,
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.file.read_at(&mut buffer[..wanted], self.position)?;
        self.position += read as u64;
        self.left -= read as u64;
        self.read += read as u64;
        if self.read - self.told >= PROGRESS {
            self.told = self.read;
            // Without a host there is nothing to unpack for, so fail.
            Report::Progress(self.read).write(&mut &*self.host)?;
        }
        Ok(read)
    }
}
