//! The id of a request may be any number or string, and the answer repeats it as it was written.

use coracle_tests::daemon::Daemon;
use coracle_tests::{Home, SOON, eventually, requires};

use crate::client::Client;
use crate::door::request;

const IDS: &[&str] = &[
    "0",
    "-1",
    "1.0",
    "1.5",
    "1e2",
    "9223372036854775808",
    "123456789012345678901234567890",
    "1e400",
    r#""""#,
    r#""1""#,
    r#""coracle-id:7""#,
    r#""a \"quoted\" one""#,
];

fn ping(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)
}

#[test]
fn ids_are_echoed_as_they_were_written_on_standard_output() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &[]);

    for id in IDS {
        client.raw(format!("{}\n", ping(id)).as_bytes());
        let echoed = format!("\"id\":{id},");
        let told = eventually(SOON, || {
            let heard = String::from_utf8_lossy(&client.process.stdout()).into_owned();
            heard.lines().last().is_some_and(|line| line.contains(&echoed) && line.contains("\"result\""))
        });
        assert!(told.is_some(), "{id}: {}", String::from_utf8_lossy(&client.process.stdout()));
    }
    client.finish().expect_code(0);
}

#[test]
fn ids_are_echoed_as_they_were_written_over_http() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);

    for id in IDS {
        let answer = request(&[], &ping(id)).send(&daemon.unix()).expect(200);
        let told = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(told.contains(&format!("\"id\":{id},")) && told.contains("\"result\""), "{id}: {answer}");
    }
}

/// A call that is named by a number the library cannot hold is taken back by it.
#[test]
fn a_call_is_taken_back_by_any_id() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &[]);
    let sandbox = client.open();
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":2.5,"method":"tools/call","params":{{"name":"sandbox_exec","arguments":
           {{"sandbox_id":"{sandbox}","cmd":["sleep","993"]}}}}}}"#
    );
    client.raw(format!("{}\n", call.replace('\n', " ")).as_bytes());
    let runs = eventually(SOON, || !home.census().named("993").is_empty());

    client.raw(
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2.5}}\n",
    );

    assert!(runs.is_some(), "{}", home.census().describe());
    let ended = eventually(SOON, || home.census().named("993").is_empty());
    assert!(ended.is_some(), "{}", home.census().describe());
}
