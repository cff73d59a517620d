//! A daemon that is killed in the middle of a command's output: the client goes on where it was.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use coracle_tests::daemon::Daemon;
use coracle_tests::{Home, count, peers, requires};

use crate::door::url;

/// The official client: starts a command, reads its output from the last number on, and comes again where it fails.
const READER: &str = r#"
import asyncio, sys
from mcp import Client

async def session(url, work):
    while True:
        try:
            async with Client(url) as client:
                return await work(client)
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit, AssertionError)):
                raise
            print("again", flush=True)
            await asyncio.sleep(0.05)

async def main(url, lines):
    state = {"seq": 0, "text": "", "id": None, "exec": None}
    async def start(client):
        opened = await client.call_tool("sandbox_open", {"session_key": "user:resume"})
        state["id"] = opened.structured_content["sandbox_id"]
        script = f"i=1; while [ $i -le {lines} ]; do echo line $i; i=$((i + 1)); sleep 0.005; done"
        started = await client.call_tool("sandbox_exec", {
            "sandbox_id": state["id"], "cmd": ["sh", "-c", script], "stream": True})
        state["exec"] = started.structured_content["exec_id"]
    async def read(client):
        while True:
            got = await client.call_tool("sandbox_exec_read", {
                "sandbox_id": state["id"], "exec_id": state["exec"], "since_seq": state["seq"]})
            assert not got.is_error, got
            for chunk in got.structured_content["chunks"]:
                assert chunk["seq"] == state["seq"] + 1, (chunk, state["seq"])
                state["seq"] = chunk["seq"]
                state["text"] += chunk["text"]
                print("at", state["text"].count("\n"), flush=True)
            if got.structured_content["done"]:
                return
            await asyncio.sleep(0.02)
    await session(url, start)
    await session(url, read)
    wanted = "".join(f"line {i}\n" for i in range(1, lines + 1))
    assert state["text"] == wanted, state["text"][-200:]
    print("whole", flush=True)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"#;

#[test]
fn nothing_is_lost_or_doubled_when_the_daemon_is_killed_and_started_again() {
    requires!(mcp_python);
    let home = Home::new();
    let kills = count(2, 8);
    let apart = 120;
    let mut daemon = Some(Daemon::start(&home));
    let mut reader = Command::new(peers::python().expect("it is there"))
        .args(["-c", READER, &url(&home), &(apart * (kills + 1)).to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python can be started");

    let (mut killed, mut again, mut whole) = (0, 0, false);
    for line in BufReader::new(reader.stdout.take().expect("a pipe")).lines() {
        let line = line.expect("text");
        whole |= line == "whole";
        // It comes back once the client has noticed: a fast one would be back before the client asks again.
        if daemon.is_none() && line == "again" {
            again += 1;
            daemon = Some(Daemon::start(&home));
        }
        let at = line.strip_prefix("at ").and_then(|at| at.parse::<usize>().ok());
        if killed < kills && at.is_some_and(|at| at >= apart * killed + apart / 2) {
            killed += 1;
            daemon.take().map(Daemon::kill);
        }
    }

    assert!(reader.wait().expect("a child can be waited for").success());
    assert!(whole && killed == kills && again == kills, "killed {killed}, come again {again} times, {whole}");
}
