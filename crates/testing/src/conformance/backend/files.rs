//! Files in a sandbox.

use coracle_wire::{Body, EntryKind, FaultCode, Reply, Time};

use super::{Sandbox, Subject};
use crate::Client;
use crate::client::write_file;

const ENOENT: Option<i32> = Some(2);
const EEXIST: Option<i32> = Some(17);

pub fn a_written_file_is_read_back(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    let data: Vec<u8> = (0..100_000u32).map(|number| number as u8).collect();

    client.write_file("/workspace/data", &data);
    client.write_file("/workspace/empty", b"");

    assert_eq!(client.read_file("/workspace/data"), data);
    assert_eq!(client.read_file("/workspace/empty"), b"");
}

pub fn relative_paths_start_at_the_workspace(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();

    let written = client.write_file("here", b"x");

    assert_eq!(written, b"/workspace/here");
    assert_eq!(client.read_file("/workspace/here"), b"x");
}

pub fn a_relative_path_cannot_leave_the_workspace(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    client.write_file("inside", b"x");

    let faults = [
        client.fault(write_file("../tmp/escaped", b"x")),
        client.fault(Body::FileRead { path: b"../etc/passwd".to_vec(), offset: 0, max_bytes: 10 }),
        client.fault(Body::FileList { path: b"..".to_vec(), recursive: false, whole: None }),
        client.fault(Body::FileStat { path: b"a/../../tmp".to_vec() }),
        client.fault(Body::FileMove {
            from: b"inside".to_vec(),
            to: b"../tmp/escaped".to_vec(),
            overwrite: true,
            top: None,
        }),
        client.fault(Body::FileDelete { path: b"../tmp".to_vec(), recursive: true }),
    ];

    assert!(
        faults.iter().all(|fault| matches!(fault.code, FaultCode::File | FaultCode::Invalid)),
        "{faults:?}"
    );
    assert_eq!(stat_fault(&mut client, "/tmp/escaped"), ENOENT);
    assert_eq!(client.read_file("inside"), b"x");
}

pub fn a_missing_file_says_so(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    let path = || b"nothing".to_vec();

    let faults = [
        client.fault(Body::FileRead { path: path(), offset: 0, max_bytes: 10 }),
        client.fault(Body::FileStat { path: path() }),
        client.fault(Body::FileList { path: path(), recursive: false, whole: None }),
        client.fault(Body::FileDelete { path: path(), recursive: true }),
        client.fault(Body::FileMove { from: path(), to: b"other".to_vec(), overwrite: true, top: None }),
    ];

    assert!(faults.iter().all(|fault| fault.code == FaultCode::File && fault.errno == ENOENT), "{faults:?}");
}

pub fn a_file_is_read_in_pieces(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    client.write_file("digits", b"0123456789");

    let mut piece =
        |offset| match client.ask(Body::FileRead { path: b"digits".to_vec(), offset, max_bytes: 4 }) {
            Reply::File { data, size } => (data, size),
            other => panic!("reading is answered by the file, not {other:?}"),
        };

    assert_eq!(piece(0), (b"0123".to_vec(), 10));
    assert_eq!(piece(8), (b"89".to_vec(), 10));
    assert_eq!(piece(10), (Vec::new(), 10));
}

pub fn a_file_written_in_pieces_is_there_when_it_is_whole(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let (mut client, mut other) = (sandbox.client(), sandbox.client());

    client.ask(begin_file("whole", b"first "));
    assert_eq!(stat_fault(&mut other, "whole"), ENOENT);
    client.ask(Body::FileMore { data: b"second ".to_vec(), last: false });
    let last = client.ask(Body::FileMore { data: b"third".to_vec(), last: true });

    assert_eq!(last, Reply::Written { path: b"/workspace/whole".to_vec() });
    assert_eq!(other.read_file("whole"), b"first second third");
}

pub fn a_file_begun_and_abandoned_leaves_nothing(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let (mut client, mut other) = (sandbox.client(), sandbox.client());
    other.write_file("kept", b"old");

    client.ask(begin_file("kept", b"new"));
    drop(client);

    assert_eq!(other.read_file("kept"), b"old");
}

pub fn without_overwrite_the_old_file_stays(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    client.write_file("old", b"old");
    client.write_file("new", b"new");
    let (path, data) = (b"old".to_vec(), b"newer".to_vec());

    let written = client.fault(Body::FileWrite {
        path,
        mode: 0o644,
        overwrite: false,
        data,
        last: true,
        placing: None,
    });
    let moved = client.fault(Body::FileMove {
        from: b"new".to_vec(),
        to: b"old".to_vec(),
        overwrite: false,
        top: None,
    });

    assert_eq!((written.errno, moved.errno), (EEXIST, EEXIST));
    assert_eq!(client.read_file("old"), b"old");
    assert_eq!(client.read_file("new"), b"new");
}

pub fn a_directory_lists_what_is_in_it(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    client.write_file("list/one", b"1");
    client.write_file("list/inner/two", b"22");

    assert_eq!(listed(&mut client, "list", false), ["inner", "one"]);
    assert_eq!(listed(&mut client, "list", true), ["inner", "one", "two"]);
}

pub fn a_file_is_described(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    let (path, data) = (b"script".to_vec(), b"12345".to_vec());
    client.ask(Body::FileWrite {
        path: path.clone(),
        mode: 0o750,
        overwrite: true,
        data,
        last: true,
        placing: None,
    });

    let Reply::Entries { entries, more } = client.ask(Body::FileStat { path }) else {
        panic!("a file is described by an entry")
    };

    assert_eq!((entries.len(), more), (1, false));
    assert_eq!((entries[0].kind, entries[0].size, entries[0].mode & 0o777), (EntryKind::File, 5, 0o750));
}

pub fn a_file_moves(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    client.write_file("from", b"new");
    client.write_file("to", b"old");

    let moved =
        client.ask(Body::FileMove { from: b"from".to_vec(), to: b"to".to_vec(), overwrite: true, top: None });

    assert_eq!(moved, Reply::Done {});
    assert_eq!(client.read_file("to"), b"new");
    assert_eq!(stat_fault(&mut client, "from"), ENOENT);
}

pub fn a_file_is_deleted(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    client.write_file("gone", b"x");

    let deleted = client.ask(Body::FileDelete { path: b"gone".to_vec(), recursive: false });

    assert_eq!(deleted, Reply::Done {});
    assert_eq!(stat_fault(&mut client, "gone"), ENOENT);
}

pub fn a_directory_is_deleted_only_with_everything_in_it(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    client.write_file("directory/file", b"x");

    let refused = client.fault(Body::FileDelete { path: b"directory".to_vec(), recursive: false });
    assert_eq!(refused.code, FaultCode::File);
    assert_eq!(client.read_file("directory/file"), b"x");

    assert_eq!(client.ask(Body::FileDelete { path: b"directory".to_vec(), recursive: true }), Reply::Done {});
    assert_eq!(stat_fault(&mut client, "directory"), ENOENT);
}

/// `cat FILE` works on the fake as well: it reads its tree.
pub fn files_and_commands_see_the_same_workspace(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    client.write_file("shared", b"seen by both\n");

    let ended = client.run("exec_1", &["cat", "shared"]);

    assert_eq!(ended.stdout, b"seen by both\n");
}

fn begin_file(path: &str, data: &[u8]) -> Body {
    Body::FileWrite {
        path: path.into(),
        mode: 0o644,
        overwrite: true,
        data: data.to_vec(),
        last: false,
        placing: None,
    }
}

/// A file that is read in pieces stays the same file, and stays open only while there may be another piece.
pub fn an_opened_file_is_read_on_whatever_has_its_name(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    let go_on = |offset| Body::FileGoOn { offset, max_bytes: 4 };
    client.write_file("/workspace/data", b"0123456789");

    let opened = client.ask(Body::FileOpen {
        path: b"/workspace/data".to_vec(),
        max_bytes: 4,
        follow: false,
        top: None,
    });
    client.write_file("/workspace/data", b"another one");
    let (middle, last) = (client.ask(go_on(4)), client.ask(go_on(8)));

    assert!(
        matches!(&opened, Reply::Opened { entry, data } if data == b"0123" && entry.size == 10),
        "{opened:?}"
    );
    assert!(matches!(&middle, Reply::File { data, .. } if data == b"4567"), "{middle:?}");
    assert!(matches!(&last, Reply::File { data, .. } if data == b"89"), "{last:?}");
    assert_eq!(client.fault(go_on(10)).code, FaultCode::Invalid);
}

pub fn a_directory_is_made_with_those_above_it_and_finished(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = sandbox.client();
    let mtime = Time { seconds: 1_000_000_000, nanos: 0 };
    let finish = |path: &str| Body::FileFinish { path: path.into(), mode: 0o750, mtime, top: None };
    client.write_file("/workspace/file", b"x");

    for _ in 0..2 {
        let made = client.ask(Body::FileDirectory { path: b"/workspace/a/b".to_vec(), top: None });
        assert_eq!(made, Reply::Done {});
    }

    assert_eq!(client.ask(finish("/workspace/a/b")), Reply::Done {});
    assert_eq!(listed(&mut client, "/workspace/a", false), ["b"]);
    assert_eq!(client.fault(finish("/workspace/file")).code, FaultCode::File);
    assert_eq!(client.fault(finish("/workspace/none")).code, FaultCode::File);
}

fn stat_fault(client: &mut Client, path: &str) -> Option<i32> {
    client.fault(Body::FileStat { path: path.into() }).errno
}

/// Returns the last parts of the listed paths, sorted: whether a listing starts at the root or the directory does not
/// matter here.
fn listed(client: &mut Client, path: &str, recursive: bool) -> Vec<String> {
    let Reply::Entries { entries, more: false } =
        client.ask(Body::FileList { path: path.into(), recursive, whole: None })
    else {
        panic!("a short listing is answered at once")
    };
    let last = |path: &[u8]| String::from_utf8_lossy(path).rsplit('/').next().unwrap_or_default().to_owned();
    let mut names: Vec<_> = entries.iter().map(|entry| last(&entry.path)).collect();
    names.sort();
    names
}
