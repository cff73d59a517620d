//! SOCKS5: names and addresses of both kinds, however the messages are split.

use coracle_egress::head::Authority;
use coracle_egress::socks::{Answer, Odd, Read, greeting, request};

fn asked(bytes: &[u8]) -> Option<(String, u16)> {
    match request(bytes) {
        Ok(Read::Whole(Authority { host, port }, taken)) if taken == bytes.len() => {
            Some((host.to_string(), port))
        }
        _ => None,
    }
}

fn by_name(name: &[u8]) -> Vec<u8> {
    [&[5, 1, 0, 3, name.len() as u8][..], name, &[1, 187]].concat()
}

#[test]
fn names_and_addresses_are_read() {
    let six = [&[5, 1, 0, 4][..], &[0x26, 6, 0x47, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], &[0, 80]].concat();
    let mapped = [&[5, 1, 0, 4][..], &[0; 10], &[0xff, 0xff, 127, 0, 0, 1], &[0, 80]].concat();

    assert_eq!(asked(&by_name(b"OK.test")), Some(("ok.test".to_owned(), 443)));
    assert_eq!(asked(&by_name(b"1.2.3.4")), Some(("1.2.3.4".to_owned(), 443)));
    assert_eq!(asked(&[5, 1, 0, 1, 9, 9, 9, 9, 0, 53]), Some(("9.9.9.9".to_owned(), 53)));
    assert_eq!(asked(&six), Some(("[2606:4700::1]".to_owned(), 80)));
    assert_eq!(asked(&mapped), Some(("127.0.0.1".to_owned(), 80)));
}

#[test]
fn half_a_message_waits_for_the_rest() {
    for whole in [by_name(b"ok.test"), vec![5, 1, 0, 1, 9, 9, 9, 9, 0, 53]] {
        for cut in 0..whole.len() {
            assert_eq!(request(&whole[..cut]), Ok(Read::Short), "cut at {cut}");
        }
    }
    assert_eq!(greeting(&[5]), Read::Short);
    assert_eq!(greeting(&[5, 2, 0]), Read::Short);
    assert_eq!(greeting(&[5, 2, 1, 0, 9]), Read::Whole(true, 4));
    assert_eq!(greeting(&[5, 1, 2]), Read::Whole(false, 3));
}

#[test]
fn odd_names_and_other_commands_are_refused() {
    for name in [&b"evil\0.ok.test"[..], b"", b"ok.test\n", b"127.1", b"::1", b"\xff\xfe"] {
        assert_eq!(request(&by_name(name)), Err(Odd::Host { written: name.to_vec(), port: 443 }), "{name:?}");
    }
    for command in [0, 2, 3] {
        let bytes = [5, command, 0, 1, 9, 9, 9, 9, 0, 53];
        assert_eq!(request(&bytes), Err(Odd::Answer(Answer::UnknownCommand)));
    }
    assert_eq!(request(&[5, 1, 0, 9, 1, 1]), Err(Odd::Answer(Answer::UnknownAddress)));
    assert_eq!(request(&[4, 1, 0, 1, 1, 1]), Err(Odd::Answer(Answer::Failed)));
}
