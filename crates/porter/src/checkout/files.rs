//! The files of `.git` that are no objects: directories, configuration, `HEAD` and refs.

use std::fs;
use std::io;
use std::path::Path;

use coracle_porter::{Checkout, Failed, Why};

/// Makes the directories and the configuration.
pub fn lay_out(git: &Path, order: &Checkout) -> Result<(), Failed> {
    let written = || -> io::Result<()> {
        for directory in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info", "hooks"] {
            fs::create_dir_all(git.join(directory))?;
        }
        fs::write(git.join("config"), configuration(order)?)?;
        fs::write(git.join("HEAD"), format!("ref: refs/heads/{}\n", order.branch))
    };
    written().map_err(|error| Failed::broken("write the files of `.git`", error))
}

/// Points the branch, and the base as a branch of `origin`, to the commit.
pub fn write_refs(git: &Path, order: &Checkout) -> Result<(), Failed> {
    // Packed, because a branch may be called like the directory of another one.
    let refs = format!(
        "# pack-refs with: peeled fully-peeled sorted \n{commit} refs/heads/{}\n{commit} refs/remotes/origin/{}\n",
        order.branch,
        order.base_branch,
        commit = order.commit,
    );
    if [&order.branch, &order.base_branch].iter().any(|name| name.contains(['\n', '\0', ' '])) {
        return Err(Failed::new(Why::Invalid, "the name of a branch holds what git forbids"));
    }
    fs::write(git.join("packed-refs"), refs).map_err(|error| Failed::broken("write refs", error))
}

fn configuration(order: &Checkout) -> io::Result<String> {
    let mut text = String::from(
        "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n",
    );
    text += &format!(
        "[user]\n\tname = {}\n\temail = {}\n",
        quoted(&order.author_name)?,
        quoted(&order.author_email)?
    );
    if let Some(origin) = &order.origin {
        let url = quoted(origin)?;
        text +=
            &format!("[remote \"origin\"]\n\turl = {url}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n");
    }
    Ok(text)
}

/// Returns a value in quotes. Refuses one with a line end, which would begin a setting of its own.
fn quoted(value: &str) -> io::Result<String> {
    if value.contains(['\n', '\r', '\0']) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a setting holds a line end"));
    }
    Ok(format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")))
}
