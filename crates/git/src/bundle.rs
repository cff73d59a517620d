//! The head of a git bundle: which refs it has. The pack follows. Pure.

use std::io::{self, Read};

use coracle_core::repo::{BranchName, Oid, Ref, RefName};

/// A line names one ref.
const LINE_MAX: usize = 1024;
/// As many as a large mirror has.
const REFS_MAX: usize = 100_000;
const SIGNATURES: [&str; 2] = ["# v2 git bundle", "# v3 git bundle"];

/// Why a file is no bundle we take.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("it does not begin like a bundle")]
    NoBundle,
    #[error("it ends too early")]
    Truncated,
    #[error("a line of its head says nothing known")]
    Line,
    #[error("it has more than {REFS_MAX} refs")]
    TooMany,
    #[error("it lacks objects: it was made with a filter")]
    Filtered,
    #[error("its objects have names of another kind than SHA-1")]
    OtherHash,
    #[error("it is only a part: it needs commits of another repository")]
    Incremental,
    #[error("it has neither branches nor tags")]
    Empty,
    #[error("could not read it")]
    Read(#[source] io::Error),
}

/// What a bundle brings.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Branches and tags.
    pub refs: Vec<Ref>,
    /// Where its `HEAD` leads.
    pub head: Option<Oid>,
    /// Refs it has besides, which are left out.
    pub others: usize,
}

/// Reads the head and not a byte of the pack.
pub fn read(from: &mut impl Read) -> Result<Head, Refused> {
    let signature = line(from)?.ok_or(Refused::NoBundle)?;
    if !SIGNATURES.contains(&signature.as_str()) {
        return Err(Refused::NoBundle);
    }
    let mut head = Head::default();
    loop {
        let Some(text) = line(from)? else { return Err(Refused::Truncated) };
        if text.is_empty() {
            break;
        }
        head.take(&text)?;
    }
    head.refs.sort_by(|a, b| a.name.cmp(&b.name));
    head.refs.dedup_by(|a, b| a.name == b.name);
    match head.refs.is_empty() {
        true => Err(Refused::Empty),
        false => Ok(head),
    }
}

impl Head {
    fn take(&mut self, text: &str) -> Result<(), Refused> {
        match text.as_bytes()[0] {
            b'-' => return Err(Refused::Incremental),
            b'@' if text == "@object-format=sha1" => return Ok(()),
            b'@' if text.starts_with("@object-format=") => return Err(Refused::OtherHash),
            b'@' if text.starts_with("@filter=") => return Err(Refused::Filtered),
            b'@' => return Err(Refused::Line),
            _ => {}
        }
        let (id, name) = text.split_once(' ').ok_or(Refused::Line)?;
        let target: Oid = id.parse().map_err(|_| Refused::Line)?;
        match name.parse::<RefName>() {
            Ok(name) if name.is_public() => self.refs.push(Ref { name, target }),
            _ if name == "HEAD" => self.head = Some(target),
            Ok(_) | Err(_) => self.others += 1,
        }
        match self.refs.len() + self.others > REFS_MAX {
            true => Err(Refused::TooMany),
            false => Ok(()),
        }
    }

    /// Returns the branch a clone should start on: the one `HEAD` leads to, `main` or `master` before others.
    pub fn default_branch(&self) -> Option<BranchName> {
        let branches = || self.refs.iter().filter_map(|one| Some((one.name.branch()?, &one.target)));
        let at_head =
            || branches().filter(|(_, target)| self.head.as_ref().is_none_or(|head| head == *target));
        let usual = |name: &str| at_head().find(|(branch, _)| branch.as_str() == name);
        let found = usual("main").or_else(|| usual("master")).or_else(|| at_head().next());
        found.or_else(|| branches().next()).map(|(branch, _)| branch)
    }
}

/// Reads one line, byte by byte: the pack begins right behind the last.
fn line(from: &mut impl Read) -> Result<Option<String>, Refused> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    loop {
        match from.read(&mut byte) {
            Ok(0) if line.is_empty() => return Ok(None),
            Ok(0) => return Err(Refused::Truncated),
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) if line.len() >= LINE_MAX => return Err(Refused::Line),
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Refused::Read(error)),
        }
    }
    String::from_utf8(line).map(Some).map_err(|_| Refused::Line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn head(lines: &str) -> Result<Head, Refused> {
        read(&mut format!("# v2 git bundle\n{lines}\nPACK").as_bytes())
    }

    #[test]
    fn branches_and_tags_are_read_and_the_pack_is_left() {
        let text = format!(
            "# v3 git bundle\n@object-format=sha1\n{A} HEAD\n{A} refs/heads/trunk\n{B} refs/tags/v1\n{B} refs/stash\n\nPACK"
        );
        let mut rest = text.as_bytes();

        let head = read(&mut rest).expect("a bundle");

        assert_eq!(rest, b"PACK");
        let names: Vec<_> = head.refs.iter().map(|one| one.name.as_str()).collect();
        assert_eq!((names, head.others), (vec!["refs/heads/trunk", "refs/tags/v1"], 1));
        assert_eq!(head.default_branch().expect("one").as_str(), "trunk");
    }

    #[test]
    fn the_default_is_where_head_leads() {
        let of = |lines: &str| head(lines).expect("a bundle").default_branch().expect("one").to_string();

        assert_eq!(of(&format!("{A} refs/heads/a\n{B} refs/heads/z\n{B} HEAD\n")), "z");
        assert_eq!(of(&format!("{A} refs/heads/a\n{A} refs/heads/master\n{A} HEAD\n")), "master");
        assert_eq!(of(&format!("{A} refs/heads/a\n{B} HEAD\n")), "a", "a detached HEAD");
    }

    #[test]
    fn what_is_no_whole_bundle_is_refused() {
        assert!(matches!(read(&mut &b"PACK"[..]), Err(Refused::Truncated | Refused::NoBundle)));
        assert!(matches!(read(&mut &b""[..]), Err(Refused::NoBundle)));
        assert!(matches!(
            read(&mut format!("# v2 git bundle\n{A} refs/heads/a\n").as_bytes()),
            Err(Refused::Truncated)
        ));
        assert!(matches!(head(&format!("-{A} x\n{A} refs/heads/a\n")), Err(Refused::Incremental)));
        assert!(matches!(head("@object-format=sha256\n"), Err(Refused::OtherHash)));
        assert!(matches!(head("@filter=blob:none\n"), Err(Refused::Filtered)));
        assert!(matches!(head("nonsense\n"), Err(Refused::Line)));
        assert!(matches!(head(&format!("{A} refs/notes/x\n")), Err(Refused::Empty)));
        assert!(matches!(head(&format!("{A} {}\n", "x".repeat(2000))), Err(Refused::Line)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = read(&mut bytes.as_slice());
            let _ = read(&mut [b"# v2 git bundle\n", bytes.as_slice()].concat().as_slice());
        }
    }
}
