//! ClientHellos: the proxy finds the name however they are split, and does not guess at odd ones.

use coracle_egress::tls::{HELLO_MAX, Hello, hello};

/// An extension: its kind, then its data with a length in front.
fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat()
}

fn server_name(name: &[u8]) -> Vec<u8> {
    let entry = [&[0][..], &(name.len() as u16).to_be_bytes(), name].concat();
    extension(0, &[&(entry.len() as u16).to_be_bytes()[..], &entry].concat())
}

fn message(extensions: &[u8]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let length = body.len() as u32;
    [&[1][..], &length.to_be_bytes()[1..], &body].concat()
}

/// Puts a message into records of at most `size` bytes.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    let record = |piece: &[u8]| [&[22, 3, 1][..], &(piece.len() as u16).to_be_bytes(), piece].concat();
    message.chunks(size).flat_map(record).collect()
}

fn named(bytes: &[u8]) -> Option<String> {
    match hello(bytes) {
        Hello::Named(Some(Ok(host))) => Some(host.to_string()),
        _ => None,
    }
}

#[test]
fn the_name_is_found_behind_other_extensions_and_across_records() {
    let other = extension(0x002b, &[2, 3, 4]);
    let message = message(&[other, server_name(b"OK.test"), extension(0x0010, &[0; 300])].concat());

    for size in [1, 2, 5, 100, 16_384] {
        let bytes = records(&message, size);
        assert_eq!(named(&bytes).as_deref(), Some("ok.test"), "in records of {size}");
        for cut in 0..bytes.len() {
            assert_eq!(hello(&bytes[..cut]), Hello::Short, "cut at {cut} of records of {size}");
        }
    }
}

#[test]
fn a_greeting_without_a_name_says_so() {
    assert_eq!(hello(&records(&message(&[]), 16_384)), Hello::Named(None));
    assert_eq!(hello(&records(&message(&extension(0x002b, &[1])), 16_384)), Hello::Named(None));
}

#[test]
fn odd_names_are_not_names() {
    for name in [&b"evil\0.ok.test"[..], b"ok..test", b"127.1", b"", b"ok.test@evil", b"\xff"] {
        let bytes = records(&message(&server_name(name)), 16_384);
        assert_eq!(hello(&bytes), Hello::Named(Some(Err(name.to_vec()))), "{name:?}");
    }
}

#[test]
fn what_is_not_made_as_it_should_be_is_foreign() {
    let twice = message(&[server_name(b"ok.test"), server_name(b"evil.test")].concat());
    let two_names = extension(0, &[&[0, 20][..], &[0, 0, 7], b"ok.test", &[0, 0, 7], b"no.test"].concat());
    let long_inside = message(&[0, 0, 0, 99, 1]);
    let mut trailing = message(&server_name(b"ok.test"));
    trailing.extend(b"more");
    let length = (trailing.len() - 4) as u32;
    trailing[1..4].copy_from_slice(&length.to_be_bytes()[1..]);
    for odd in [twice, message(&two_names), long_inside, trailing] {
        assert_eq!(hello(&records(&odd, 16_384)), Hello::Foreign);
    }
    for bytes in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"SSH-2.0",
        b"\x16\x02\x00",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\xff\xff\x01",
        b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00",
        b"\x15\x03\x01\x00\x02\x01\x00",
        b"\x80\x2e\x01\x03\x01",
    ] {
        assert_eq!(hello(bytes), Hello::Foreign, "{bytes:?}");
    }
}

#[test]
fn an_endless_hello_is_refused() {
    let endless = records(&[&[1, 0, 0x3f, 0xff][..], &[0; 20_000]].concat(), 1);

    assert_eq!(hello(&endless[..HELLO_MAX]), Hello::Foreign);
}
