//! Compares our reading of archives with GNU tar's: the same entries in the same order, or we refuse. Where two
//! readers see different things in one archive, an attacker can deceive one of them.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use coracle_unpack::{Entry, Kind, Limits, Refusal, Sink, walk};

/// Records entries in the way `tar --list --verbose` shows them: kind, size, name.
#[derive(Default)]
struct Listing(Vec<(char, u64, String)>);

impl Sink for Listing {
    fn put(&mut self, entry: &Entry, content: &mut dyn Read) -> Result<(), Refusal> {
        let length = std::io::copy(content, &mut std::io::sink()).map_err(Refusal::reading)?;
        let kind = match entry.kind {
            Kind::Directory => 'd',
            Kind::File(_) => '-',
            Kind::Symlink(_) => 'l',
            Kind::HardLink(_) => 'h',
            Kind::Fifo => 'p',
            Kind::Whiteout | Kind::Opaque | Kind::Skipped => '?',
        };
        self.0.push((kind, length, shown(entry.name.as_bytes())));
        Ok(())
    }
}

fn ours(archive: &[u8]) -> Option<Vec<(char, u64, String)>> {
    let mut listing = Listing::default();
    walk(&mut &*archive, &Limits::default(), &mut listing).ok()?;
    Some(listing.0)
}

/// Lists with GNU tar; `None` if it complains. Its names are escaped, and without redundant slashes.
fn theirs(archive: &[u8]) -> Option<Vec<(char, u64, String)>> {
    let mut tar = Command::new("tar")
        .args(["--list", "--verbose", "--numeric-owner", "--quoting-style=escape", "--full-time", "--file=-"])
        .env("TZ", "UTC")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("tar is installed");
    // Tar may stop reading before the end.
    let _ = tar.stdin.take().expect("it was asked for").write_all(archive);
    let output = tar.wait_with_output().expect("it was started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then(|| text.lines().filter_map(line).collect())
}

/// Reads `-rw-r--r-- 0/0 5 2001-09-09 01:46:40 name`, with ` -> target` or ` link to target` after a link's name.
fn line(line: &str) -> Option<(char, u64, String)> {
    let kind = match line.chars().next()? {
        // Tar alone distinguishes contiguous files.
        'C' => '-',
        'b' | 'c' => '?',
        kind => kind,
    };
    let mut rest = line;
    let mut words = Vec::new();
    for _ in 0..5 {
        let (word, more) = rest.trim_start().split_once(' ')?;
        words.push(word);
        rest = more;
    }
    let name = match kind {
        'l' => rest.split_once(" -> ").map_or(rest, |(name, _)| name),
        'h' => rest.split_once(" link to ").map_or(rest, |(name, _)| name),
        _ => rest,
    };
    let name: Vec<&str> = name.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let size = if kind == '-' { words[2].parse().ok()? } else { 0 };
    Some((kind, size, name.join("/")))
}

/// Writes a name as tar does.
fn shown(name: &[u8]) -> String {
    name.iter()
        .map(|byte| match byte {
            b'\\' => "\\\\".to_owned(),
            b'\n' => "\\n".to_owned(),
            b'\t' => "\\t".to_owned(),
            b'\r' => "\\r".to_owned(),
            0x20..0x7f => char::from(*byte).to_string(),
            other => format!("\\{other:03o}"),
        })
        .collect()
}

/// Checks that tar reads the same as we do, in every archive we accept.
fn agrees(what: &str, archive: &[u8]) {
    if let Some(ours) = ours(archive) {
        assert_eq!(Some(ours), theirs(archive), "{what}");
    }
}

fn entry(name: &str, kind: u8, size: u64, content: &[u8], change: impl FnOnce(&mut tar::Header)) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.as_old_mut().linkflag = [kind];
    header.set_size(size);
    header.set_mode(0o644);
    header.set_mtime(1_000_000_000);
    header.set_uid(0);
    header.set_gid(0);
    change(&mut header);
    header.set_cksum();
    let mut bytes = [header.as_bytes().as_slice(), content].concat();
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn file(name: &str, content: &[u8]) -> Vec<u8> {
    entry(name, b'0', content.len() as u64, content, |_| {})
}

fn records(text: &str) -> Vec<u8> {
    entry("x", b'x', text.len() as u64, text.as_bytes(), |_| {})
}

fn archive(parts: &[Vec<u8>]) -> Vec<u8> {
    [parts.concat(), vec![0; 1024]].concat()
}

#[test]
fn ordinary_archives_are_read_as_tar_reads_them() {
    let directory = tempfile::TempDir::new().expect("a temporary directory can be made");
    let path = directory.path();
    std::fs::create_dir_all(path.join("d/e")).expect("the directory is ours");
    std::fs::write(path.join("d/file"), vec![7; 3000]).expect("the directory is ours");
    std::fs::write(path.join("d").join("n".repeat(180)), b"x").expect("the directory is ours");
    std::fs::hard_link(path.join("d/file"), path.join("d/same")).expect("the directory is ours");
    std::os::unix::fs::symlink("file", path.join("d/link")).expect("the directory is ours");
    for format in ["gnu", "ustar", "posix", "v7", "oldgnu"] {
        let format_option = format!("--format={format}");
        let make = Command::new("tar")
            // A whole second: tar pads a fraction that ends with a zero, as if the name began with a space.
            .args([&format_option, "--mtime=@1000000000", "--create", "--file=-", "--directory"])
            .arg(path)
            .arg("d")
            .stderr(Stdio::null())
            .output();
        let archive = make.expect("tar is installed").stdout;

        let ours = ours(&archive).unwrap_or_else(|| panic!("{format} is taken"));

        assert_eq!(Some(ours), theirs(&archive), "{format}");
    }
}

#[test]
fn archives_made_to_be_read_in_two_ways_are_refused_or_read_as_tar_does() {
    let inner = file("smuggled", b"hidden");
    let padded = [inner.as_slice(), &[0; 512]].concat();
    let size =
        |text: &str| records(&format!("{} size={text}\n", text.len() + 8 + usize::from(text.len() > 1)));
    let cases: Vec<(&str, Vec<u8>)> = vec![
        (
            "a record's size is larger",
            archive(&[size("1536"), entry("a", b'0', 0, &padded, |_| {}), file("b", b"")]),
        ),
        (
            "a record's size is smaller",
            archive(&[size("0"), entry("a", b'0', 1024, &padded, |_| {}), file("b", b"")]),
        ),
        ("a size for a link", archive(&[entry("a", b'2', 1024, &padded, |_| {}), file("b", b"")])),
        ("a size for a hard link", archive(&[file("f", b""), entry("a", b'1', 1024, &padded, |_| {})])),
        ("a size for a directory", archive(&[entry("a/", b'5', 1024, &padded, |_| {}), file("b", b"")])),
        (
            "a size for a long name",
            archive(&[size("512"), entry("x", b'L', 2, b"n\0", |_| {}), file("a", b"x")]),
        ),
        ("a record in a value", archive(&[records("31 comment=a\n18 path=evil/../x\n"), file("a", b"x")])),
        ("two paths", archive(&[records("9 path=b\n9 path=c\n"), file("a", b"x")])),
        (
            "a path and a long name",
            archive(&[entry("x", b'L', 2, b"n\0", |_| {}), records("9 path=b\n"), file("a", b"")]),
        ),
        ("for all entries", archive(&[entry("g", b'g', 10, b"10 path=bb", |_| {}), file("a", b"x")])),
        ("an end in the middle", [file("a", b"x"), vec![0; 512], file("b", b"x"), vec![0; 1024]].concat()),
        (
            "a sparse file",
            archive(&[records("22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"), file("a", b"x")]),
        ),
        (
            "an old header that describes",
            archive(&[
                entry("x", b'L', 2, b"n\0", |header| header.as_mut_bytes()[257..265].fill(0)),
                file("a", b"x"),
            ]),
        ),
        (
            "a prefix",
            archive(&[entry("a", b'0', 0, b"", |header| {
                header.as_mut_bytes()[345..348].copy_from_slice(b"dir")
            })]),
        ),
        (
            "a prefix that is none",
            archive(&[entry("a", b'0', 0, b"", |header| {
                header.as_mut_bytes()[257..265].copy_from_slice(b"ustar  \0");
                header.as_mut_bytes()[345..348].copy_from_slice(b"dir");
            })]),
        ),
        (
            "digits and then letters",
            archive(&[entry("a", b'0', 0, b"", |header| {
                header.as_old_mut().size.copy_from_slice(b"0000000000z\0");
            })]),
        ),
        (
            "spaces around a size",
            archive(&[
                entry("a", b'0', 0, b"xxx", |header| {
                    header.as_old_mut().size.copy_from_slice(b"  3         ");
                }),
                file("b", b""),
            ]),
        ),
        (
            "a size in binary",
            archive(&[
                entry("a", b'0', 0, b"xxx", |header| {
                    header.as_old_mut().size.copy_from_slice(b"\x80\0\0\0\0\0\0\0\0\0\0\x03");
                }),
                file("b", b""),
            ]),
        ),
        ("a file with a slash", archive(&[file("a/", b"x"), file("b", b"")])),
        ("an old file with a slash", archive(&[entry("a/", 0, 0, b"", |_| {}), file("b", b"")])),
        ("an unknown kind", archive(&[entry("a", b'Z', 3, b"xxx", |_| {}), file("b", b"")])),
        ("a contiguous file", archive(&[entry("a", b'7', 3, b"xxx", |_| {}), file("b", b"")])),
    ];

    for (what, archive) in cases {
        agrees(what, &archive);
    }
}

#[test]
fn archives_with_any_byte_changed_are_refused_or_read_as_tar_does() {
    let seed = archive(&[
        records("9 path=b\n"),
        file("a", b"xxx"),
        entry("x", b'L', 4, b"nnn\0", |_| {}),
        entry("l", b'2', 0, b"", |header| header.as_old_mut().linkname[..1].copy_from_slice(b"t")),
        entry("d/", b'5', 0, b"", |_| {}),
    ]);
    let rounds = if std::env::var_os("CORACLE_FULL").is_some() { 20_000 } else { 400 };
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound as u64) as usize
    };
    let mut taken = 0;
    for round in 0..rounds {
        let mut changed = seed.clone();
        let block = random(seed.len() / 512) * 512;
        let position = block + [random(512), 124 + random(12), 156, random(100), 257 + random(8)][random(5)];
        // We clamp owners and times that tar finds impossible, on purpose.
        if (108..124).contains(&(position - block)) || (136..148).contains(&(position - block)) {
            continue;
        }
        changed[position] = [b'0', b'7', b' ', 0, b'\n', b'/', b'=', 0x80, random(256) as u8][random(9)];
        fix_checksum(&mut changed[block..block + 512]);
        taken += usize::from(ours(&changed).is_some());
        agrees(&format!("round {round}: byte {position}"), &changed);
    }
    assert!(taken > rounds / 10, "hardly anything was taken, so nothing was compared");
}

/// Fixes the checksum of a changed header, so that readers look at it.
fn fix_checksum(block: &mut [u8]) {
    if block[148..154].iter().all(u8::is_ascii_digit) {
        let sum: u32 =
            block[..148].iter().chain(&block[156..]).map(|byte| u32::from(*byte)).sum::<u32>() + 8 * 32;
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}
