//! Arbitrary bytes as what a client of the proxy says: no panic, and what is passed on is one request to the host that
//! was judged.
#![no_main]

use coracle_egress::body::Measure;
use coracle_egress::head::{self, Head, Target};
use coracle_egress::{socks, tls};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = tls::hello(input);
    let _ = socks::greeting(input);
    let _ = socks::request(input);
    let _ = head::resemblance(input);
    let Some(length) = head::length(input) else { return };
    let Ok(request) = Head::read(&input[..length]) else { return };
    let authority = match &request.target {
        Target::Tunnel(_) => return,
        Target::Absolute(authority, _) => authority.clone(),
        Target::Origin(named, _) => match named {
            Some(authority) => authority.clone(),
            None => return,
        },
    };
    let written = request.rewritten(&authority);
    // It is one head, and read again it says the same.
    assert_eq!(head::length(&written), Some(written.len()));
    let again = Head::read(&written).expect("what was written by us is no riddle");
    assert_eq!((&again.method, again.body, &again.upgrade), (&request.method, request.body, &request.upgrade));
    assert!(matches!(&again.target, Target::Origin(Some(named), _) if named.host == authority.host));
    let mut measure = Measure::new(request.body);
    if let Ok(taken) = measure.take(&input[length..]) {
        assert!(taken <= input.len() - length);
    }
});
