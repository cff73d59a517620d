//! The program, embedded.

use std::io::{self, Read};
use std::sync::OnceLock;

static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/porter.zlib"));
static PROGRAM: OnceLock<Vec<u8>> = OnceLock::new();

/// Returns the program. Unpacks it the first time.
pub fn program() -> io::Result<&'static [u8]> {
    if let Some(program) = PROGRAM.get() {
        return Ok(program);
    }
    let size: usize = env!("CORACLE_PORTER_SIZE").parse().map_err(io::Error::other)?;
    let mut program = Vec::with_capacity(size);
    flate2::read::ZlibDecoder::new(PACKED).read_to_end(&mut program)?;
    Ok(PROGRAM.get_or_init(|| program))
}
