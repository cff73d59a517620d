//! What a client of `receive-pack` asks for, and what it is told: the commands of a push, and the report. Pure.

use std::io::Read;

use coracle_core::repo::{Oid, Ref, RefChange};

use crate::pkt::{self, Malformed, Packet};

/// More refs than a person or a mirror of a large repository pushes at once.
const COMMANDS_MAX: usize = 10_000;
const LINE_MAX: usize = 2048;
/// What we know of a push. No push options, no certificates: nothing here reads them. No progress either.
const CAPABILITIES: &str =
    "report-status delete-refs side-band-64k quiet atomic ofs-delta object-format=sha1";

/// Why a push cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum Unclear {
    #[error("the client does not speak pkt-line")]
    Malformed(#[from] Malformed),
    #[error("a line of the push is no command")]
    Command,
    #[error("a push may change at most {COMMANDS_MAX} refs")]
    TooMany,
    #[error("a push names a ref twice")]
    Twice,
    #[error("the client asks for `{0}`, which is not offered")]
    NotOffered(&'static str),
}

/// What a client wants to push.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Push {
    pub commands: Vec<Command>,
    /// Commits whose parents the client does not have.
    pub shallow: Vec<Oid>,
    pub atomic: bool,
    /// The report goes to a channel of its own.
    pub side_band: bool,
    /// The client wants to know what became of it.
    pub report: bool,
}

/// One ref a client wants to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The name, as the client wrote it.
    pub name: String,
    /// The change; absent if no ref may have this name.
    pub change: Option<RefChange>,
}

/// Reads the commands, up to the flush and not a byte more. Returns nothing where the client wants nothing.
pub fn read(from: &mut impl Read) -> Result<Option<Push>, Unclear> {
    let mut push = Push::default();
    let mut first = true;
    loop {
        let line = match pkt::read(from)? {
            Some(Packet::Line(line)) => line,
            Some(Packet::Flush) => break,
            Some(Packet::Delimiter | Packet::ResponseEnd) => return Err(Unclear::Command),
            None if push.commands.is_empty() && push.shallow.is_empty() => return Ok(None),
            None => return Err(Malformed::Truncated.into()),
        };
        push.take(&line, &mut first)?;
    }
    match push.commands.is_empty() {
        true => Ok(None),
        false => push.checked().map(Some),
    }
}

impl Push {
    fn take(&mut self, line: &[u8], first: &mut bool) -> Result<(), Unclear> {
        if line.len() > LINE_MAX {
            return Err(Unclear::Command);
        }
        let text = std::str::from_utf8(line).map_err(|_| Unclear::Command)?;
        let (text, capabilities) = match text.split_once('\0') {
            Some((text, capabilities)) if *first => (text, Some(capabilities)),
            Some(_) => return Err(Unclear::Command),
            None => (text, None),
        };
        let text = text.strip_suffix('\n').unwrap_or(text);
        if let Some(id) = text.strip_prefix("shallow ") {
            self.shallow.push(id.parse().map_err(|_| Unclear::Command)?);
        } else if text.starts_with("push-cert") {
            return Err(Unclear::NotOffered("push-cert"));
        } else {
            *first = false;
            self.commands.push(command(text)?);
        }
        capabilities.map_or(Ok(()), |words| self.wish(words))?;
        match self.commands.len() + self.shallow.len() > COMMANDS_MAX {
            true => Err(Unclear::TooMany),
            false => Ok(()),
        }
    }

    fn wish(&mut self, capabilities: &str) -> Result<(), Unclear> {
        for word in capabilities.split_ascii_whitespace() {
            match word {
                "report-status" => self.report = true,
                "side-band-64k" => self.side_band = true,
                "atomic" => self.atomic = true,
                "push-options" => return Err(Unclear::NotOffered("push-options")),
                "report-status-v2" => return Err(Unclear::NotOffered("report-status-v2")),
                other => match other.strip_prefix("object-format=") {
                    Some("sha1") | None => {}
                    Some(_) => return Err(Unclear::NotOffered("object-format")),
                },
            }
        }
        Ok(())
    }

    fn checked(self) -> Result<Self, Unclear> {
        let mut names: Vec<_> = self.commands.iter().map(|command| &command.name).collect();
        names.sort();
        match names.windows(2).any(|pair| pair[0] == pair[1]) {
            true => Err(Unclear::Twice),
            false => Ok(self),
        }
    }

    /// Tells whether a pack follows the commands: one does unless all of them delete.
    pub fn brings_pack(&self) -> bool {
        self.commands.iter().any(|command| command.change.as_ref().is_none_or(|change| change.new.is_some()))
    }
}

fn command(text: &str) -> Result<Command, Unclear> {
    let mut words = text.splitn(3, ' ');
    let (Some(old), Some(new), Some(name)) = (words.next(), words.next(), words.next()) else {
        return Err(Unclear::Command);
    };
    let id = |text: &str| Oid::from_wire(text).ok_or(Unclear::Command);
    let (old, new) = (id(old)?, id(new)?);
    // It is repeated in the report.
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(Unclear::Command);
    }
    let change = name.parse().ok().map(|name| RefChange { name, old, new });
    Ok(Command { name: name.to_owned(), change })
}

/// Returns the list of refs a client sees before it pushes. `agent` names us.
pub fn advertisement(refs: &[Ref], agent: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let capabilities = format!("{CAPABILITIES} agent={agent}");
    if refs.is_empty() {
        let line = format!("{} capabilities^{{}}\0{capabilities}\n", Oid::NULL);
        pkt::line(&mut bytes, line.as_bytes());
    }
    for (index, Ref { name, target }) in refs.iter().enumerate() {
        let line = match index {
            0 => format!("{target} {name}\0{capabilities}\n"),
            _ => format!("{target} {name}\n"),
        };
        pkt::line(&mut bytes, line.as_bytes());
    }
    pkt::flush(&mut bytes);
    bytes
}

/// Returns commands as git's `receive-pack` reads them. They are written here, whatever the client wrote.
pub fn commands<'a>(
    changes: impl IntoIterator<Item = &'a RefChange>,
    shallow: &[Oid],
    atomic: bool,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    for id in shallow {
        pkt::line(&mut bytes, format!("shallow {id}").as_bytes());
    }
    for (index, RefChange { name, old, new }) in changes.into_iter().enumerate() {
        let (old, new) = (Oid::to_wire(old.as_ref()), Oid::to_wire(new.as_ref()));
        let line = match (index, atomic) {
            (0, true) => format!("{old} {new} {name}\0report-status quiet atomic object-format=sha1\n"),
            (0, false) => format!("{old} {new} {name}\0report-status quiet object-format=sha1\n"),
            (_, _) => format!("{old} {new} {name}\n"),
        };
        pkt::line(&mut bytes, line.as_bytes());
    }
    pkt::flush(&mut bytes);
    bytes
}

/// What git says became of a push.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Why the pack was refused, if it was.
    pub unpack: Option<String>,
    /// The refs, and why one was refused.
    pub refs: Vec<(String, Option<String>)>,
}

impl Report {
    /// Reads git's own report.
    pub fn read(mut bytes: &[u8]) -> Result<Self, Unclear> {
        let mut report = Self::default();
        let mut unpacked = false;
        while let Some(Packet::Line(line)) = pkt::read(&mut bytes)? {
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches('\n');
            if let Some(end) = text.strip_prefix("unpack ") {
                unpacked = true;
                report.unpack = (end != "ok").then(|| end.to_owned());
            } else if let Some(name) = text.strip_prefix("ok ") {
                report.refs.push((name.to_owned(), None));
            } else if let Some((name, why)) = text.strip_prefix("ng ").and_then(|rest| rest.split_once(' ')) {
                report.refs.push((name.to_owned(), Some(why.to_owned())));
            } else {
                return Err(Unclear::Command);
            }
        }
        match unpacked {
            true => Ok(report),
            false => Err(Malformed::Truncated.into()),
        }
    }

    /// Returns why a ref was refused; a ref git does not mention was.
    pub fn refusal(&self, name: &str) -> Option<String> {
        match self.refs.iter().find(|(mentioned, _)| mentioned == name) {
            Some((_, why)) => why.clone(),
            None => Some("not carried out".to_owned()),
        }
    }

    /// Returns it as a client reads it, if the client wants it at all.
    pub fn written(&self, push: &Push) -> Vec<u8> {
        if !push.report {
            return Vec::new();
        }
        let mut bytes = Vec::new();
        pkt::line(&mut bytes, format!("unpack {}\n", self.unpack.as_deref().unwrap_or("ok")).as_bytes());
        for (name, why) in &self.refs {
            let line = match why {
                Some(why) => format!("ng {name} {why}\n"),
                None => format!("ok {name}\n"),
            };
            pkt::line(&mut bytes, line.as_bytes());
        }
        pkt::flush(&mut bytes);
        if !push.side_band {
            return bytes;
        }
        let mut banded = Vec::new();
        pkt::band(&mut banded, 1, &bytes);
        pkt::flush(&mut banded);
        banded
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const NULL: &str = Oid::NULL;

    fn of(lines: &[String]) -> Vec<u8> {
        let mut bytes = Vec::new();
        lines.iter().for_each(|line| pkt::line(&mut bytes, line.as_bytes()));
        pkt::flush(&mut bytes);
        bytes
    }

    fn pushed(lines: &[String]) -> Result<Option<Push>, Unclear> {
        read(&mut of(lines).as_slice())
    }

    #[test]
    fn commands_and_wishes_are_read_and_the_pack_is_left() {
        let mut bytes = of(&[
            format!("shallow {A}"),
            format!("{NULL} {A} refs/heads/a\0 report-status side-band-64k atomic agent=x"),
            format!("{A} {NULL} refs/tags/b\n"),
        ]);
        bytes.extend_from_slice(b"PACK");
        let mut rest = bytes.as_slice();

        let push = read(&mut rest).expect("a push").expect("not nothing");

        assert_eq!(rest, b"PACK");
        assert!(push.report && push.side_band && push.atomic && push.brings_pack());
        assert_eq!(push.shallow.len(), 1);
        let names: Vec<_> = push.commands.iter().map(|command| command.name.as_str()).collect();
        assert_eq!(names, ["refs/heads/a", "refs/tags/b"]);
    }

    #[test]
    fn a_name_no_ref_may_have_is_kept_to_be_refused() {
        let push = pushed(&[format!("{NULL} {A} refs/heads/--upload-pack=x")]).expect("a push").expect("one");

        assert_eq!(push.commands[0].change, None);
    }

    #[test]
    fn what_is_no_push_is_refused() {
        let bad = [
            vec!["hello".to_owned()],
            vec![format!("{NULL} {A}")],
            vec![format!("{NULL} {A} ")],
            vec![format!("{NULL} {A} refs/heads/a\nok refs/heads/b")],
            vec![format!("{NULL} x refs/heads/a")],
            vec![format!("{NULL} {A} a\0"), format!("{NULL} {A} b\0x")],
            vec![format!("{NULL} {A} a"), format!("{NULL} {A} a")],
            vec![format!("{NULL} {A} a\0push-options")],
            vec![format!("{NULL} {A} a\0object-format=sha256")],
            vec!["push-cert\0".to_owned()],
            vec!["shallow x".to_owned()],
        ];
        for lines in bad {
            assert!(pushed(&lines).is_err(), "{lines:?}");
        }
        assert!(read(&mut &b"0010shallow aaaa"[..]).is_err());
        assert!(matches!(pushed(&[]), Ok(None)), "a client that is up to date sends a flush alone");
        assert!(matches!(read(&mut &b""[..]), Ok(None)));
    }

    #[test]
    fn more_refs_than_a_push_may_have_are_refused() {
        let lines: Vec<_> = (0..=COMMANDS_MAX).map(|n| format!("{NULL} {A} refs/heads/{n}")).collect();

        assert!(matches!(pushed(&lines), Err(Unclear::TooMany)));
    }

    #[test]
    fn a_report_is_read_and_written_word_for_word() {
        let report = Report {
            unpack: None,
            refs: vec![
                ("refs/heads/a".to_owned(), None),
                ("refs/heads/b".to_owned(), Some("non-fast-forward".to_owned())),
            ],
        };
        let plain = Push { report: true, ..Push::default() };

        assert_eq!(Report::read(&report.written(&plain)).expect("a report"), report);
        assert_eq!(report.refusal("refs/heads/a"), None);
        assert!(report.refusal("refs/heads/c").is_some());
        assert!(report.written(&Push::default()).is_empty());
        let banded = report.written(&Push { side_band: true, ..plain });
        assert_eq!(
            pkt::read(&mut banded.as_slice())
                .expect("a line")
                .map(|one| matches!(one, Packet::Line(line) if line[0] == 1)),
            Some(true)
        );
    }

    proptest! {
        #[test]
        fn commands_of_ours_are_read_as_they_were_meant(names in proptest::collection::btree_set("[a-z]{1,8}", 1..20), atomic: bool) {
            let changes: Vec<RefChange> = names
                .iter()
                .map(|name| RefChange { name: format!("refs/heads/{name}").parse().expect("a ref"), old: None, new: A.parse().ok() })
                .collect();

            let push = read(&mut commands(&changes, &[], atomic).as_slice()).expect("a push").expect("one");

            let read: Vec<_> = push.commands.into_iter().filter_map(|command| command.change).collect();
            prop_assert_eq!(read, changes);
            prop_assert_eq!(push.atomic, atomic);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = read(&mut bytes.as_slice());
            let _ = Report::read(&bytes);
        }
    }
}
