//! Makes a repository in a sandbox: fetches one commit with its history, writes the work tree, the index and the files
//! of `.git`.

mod fetch;
mod files;
mod tree;

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use coracle_porter::{CheckedOut, Checkout, Failed, Why};
use gix_hash::ObjectId;

use crate::link::Link;

pub use fetch::chain;

/// Carries out the order. What was written stays where it is when it fails: the sandbox is thrown away then.
pub fn run<R: Read, W: Write>(order: &Checkout, link: &mut Link<R, W>) -> Result<CheckedOut, Failed> {
    let top = Path::new(OsStr::from_bytes(&order.directory));
    let commit = ObjectId::from_hex(order.commit.as_bytes())
        .map_err(|_| Failed::new(Why::Invalid, format!("`{}` is no object id", order.commit)))?;
    expect_empty(top)?;
    let git = top.join(".git");
    files::lay_out(&git, order)?;
    let objects = fetch::fetch(link, &git, commit, order)?;
    let (files, bytes) = tree::check_out(top, &git, commit, order.threads)?;
    // Last: until then there is no branch.
    files::write_refs(&git, order)?;
    Ok(CheckedOut { objects, files, bytes })
}

fn expect_empty(top: &Path) -> Result<(), Failed> {
    let mut entries =
        std::fs::read_dir(top).map_err(|error| Failed::broken(format!("open `{}`", top.display()), error))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Failed::new(Why::Occupied, format!("the image has files in `{}`", top.display()))),
    }
}
