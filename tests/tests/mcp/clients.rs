//! The official clients, with the two lines of settings from the README.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use coracle_tests::daemon::Daemon;
use coracle_tests::{Home, binary, peers, requires};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::door::url;

const README: &str = include_str!("../../../README.md");

/// Calls the tools of every server in a file of settings, under the revision in its argument.
const PROGRAM: &str = r#"
import asyncio, json, os, sys
from mcp import Client, StdioServerParameters

async def main(server, mode):
    async with Client(server, mode=mode) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        opened = await client.call_tool("sandbox_open", {})
        sandbox = opened.structured_content["sandbox_id"]
        ran = await client.call_tool("sandbox_exec", {"sandbox_id": sandbox, "cmd": ["sh", "-c", "echo $((6 * 7)); exit 3"]})
        wrong = await client.call_tool("sandbox_exec", {"sandbox_id": "sbx_nope", "cmd": ["true"]})
        await client.call_tool("sandbox_fs_write", {"sandbox_id": sandbox, "path": "a", "contents": "b"})
        read = await client.read_resource(f"coracle://{sandbox}/a")
        await client.call_tool("sandbox_close", {"sandbox_id": sandbox})
        print(json.dumps({"tools": tools, "ran": ran.structured_content, "ran_is_error": ran.is_error,
                          "wrong": wrong.structured_content, "wrong_is_error": wrong.is_error,
                          "read": read.contents[0].text}))

if sys.argv[1].startswith("http"):
    server = sys.argv[1]
else:
    entry = json.load(open(sys.argv[1]))["mcpServers"]["coracle"]
    server = StdioServerParameters(command=entry["command"], args=entry["args"], env=dict(os.environ))
asyncio.run(main(server, sys.argv[2]))
"#;

/// A file with the settings the README gives, and the `PATH` they are meant for.
struct Settings {
    directory: TempDir,
    path: String,
}

impl Settings {
    /// The `coracle` on that path uses the test's home: clients hand few variables on to a server, and without this one
    /// it would use the machine's.
    fn of_readme(home: &Home) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("mcp.json"), snippet()).expect("it can be written");
        let program = directory.path().join("coracle");
        let (binary, home) = (binary::path().display(), home.path().display());
        let script = format!("#!/bin/sh\nCORACLE_HOME='{home}' exec '{binary}' \"$@\"\n");
        std::fs::write(&program, script).expect("it can be written");
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("it is ours");
        let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap_or_default());
        Self { directory, path }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("mcp.json")
    }
}

/// Returns the settings in the README: the first block of JSON that names servers.
fn snippet() -> &'static str {
    let blocks = README.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.into_iter().find(|block| block.contains("mcpServers")).expect("the README has the settings")
}

fn succeeded(command: &mut Command) -> Value {
    let output = command.output().expect("it can be started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let start = text.find('{').unwrap_or_else(|| panic!("no JSON: {text}"));
    serde_json::from_str(&text[start..]).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn expect_all(told: &Value) {
    assert_eq!(told["tools"].as_array().map(Vec::len), Some(9), "{told}");
    assert_eq!((&told["ran"]["stdout"], &told["ran"]["exit_code"]), (&json!("42\n"), &json!(3)), "{told}");
    assert_eq!((&told["ran_is_error"], &told["wrong_is_error"]), (&json!(false), &json!(true)), "{told}");
    assert_eq!(
        (&told["wrong"]["error"]["kind"], &told["read"]),
        (&json!("not_found"), &json!("b")),
        "{told}"
    );
}

#[test]
fn the_settings_of_the_readme_are_two_lines() {
    let settings: Value = serde_json::from_str(snippet()).expect("JSON");

    let entry = settings["mcpServers"]["coracle"].as_object().expect("an entry");
    assert_eq!(entry.len(), 2, "{settings}");
}

#[test]
fn the_official_client_for_python_works_with_them() {
    requires!(mcp_python);
    let home = Home::new();
    let settings = Settings::of_readme(&home);
    for mode in ["legacy", "auto", "2026-07-28"] {
        let mut command = Command::new(peers::python().expect("it is there"));
        command.args(["-c", PROGRAM]).arg(settings.file()).arg(mode);

        let told = succeeded(command.env("PATH", &settings.path));

        expect_all(&told);
    }
}

#[test]
fn the_official_client_for_python_works_over_http() {
    requires!(mcp_python);
    let home = Home::new();
    let _daemon = Daemon::start(&home);
    let url = url(&home);
    for mode in ["legacy", "auto", "2026-07-28"] {
        let mut command = Command::new(peers::python().expect("it is there"));

        expect_all(&succeeded(command.args(["-c", PROGRAM, &url, mode])));
    }
}

#[test]
fn the_official_inspector_works_with_them() {
    requires!(mcp_node);
    let home = Home::new();
    let settings = Settings::of_readme(&home);
    let node = peers::node().expect("it is there");
    let inspect = |method: &[&str]| {
        let mut command = node.command("mcp-inspector");
        command.arg("--cli").arg("--config").arg(settings.file()).args(["--server", "coracle", "--method"]);
        command
            .args(method)
            .env("MCP_INSPECTOR_SECRET_STORE", "memory")
            .env("HOME", settings.directory.path());
        succeeded(command.env("PATH", &settings.path))
    };

    let listed = inspect(&["tools/list"]);
    let opened = inspect(&["tools/call", "--tool-name", "sandbox_open"]);
    let sandbox = opened["structuredContent"]["sandbox_id"].as_str().expect("an id").to_owned();
    let ran = inspect(&[
        "tools/call",
        "--tool-name",
        "sandbox_exec",
        "--tool-arg",
        &format!("sandbox_id={sandbox}"),
        "--tool-arg",
        r#"cmd=["echo","42"]"#,
    ]);

    assert_eq!(listed["tools"].as_array().map(Vec::len), Some(9), "{listed}");
    assert_eq!(ran["structuredContent"]["stdout"], "42\n", "{ran}");
    assert_eq!(home.call(["show", &sandbox, "--json"]).succeed().json()["sandbox_id"], sandbox.as_str());
}
