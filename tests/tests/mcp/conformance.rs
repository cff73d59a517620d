//! The official conformance suite against the real server. What does not apply is listed here and in the docs.

use std::collections::BTreeSet;
use std::path::Path;

use coracle_tests::daemon::Daemon;
use coracle_tests::{Home, peers, requires};
use serde_json::Value;

use crate::door::url;

const DOCS: &str = include_str!("../../../docs/mcp.md");

const FIXTURE: &str = "calls a tool that only fixtures of the suite have";
const PROMPTS: &str = "needs prompts; there are none";
const ELICITATION: &str = "needs a tool that asks the user or the model; none of ours does";
const TASKS: &str = "needs the tasks extension; long commands are read and waited for by their id instead";

/// Scenarios, or single checks of one, that need what this server does not offer.
const NOT_APPLICABLE: &[(&str, &str)] = &[
    ("tools-call-simple-text", FIXTURE),
    ("tools-call-image", FIXTURE),
    ("tools-call-audio", FIXTURE),
    ("tools-call-embedded-resource", FIXTURE),
    ("tools-call-mixed-content", FIXTURE),
    ("tools-call-error", FIXTURE),
    ("tools-call-with-progress", FIXTURE),
    ("json-schema-2020-12", FIXTURE),
    ("http-custom-header-server-validation", FIXTURE),
    ("resources-read-text", "reads a resource that only fixtures of the suite have"),
    ("resources-read-binary", "reads a resource that only fixtures of the suite have"),
    ("resources-templates-read", "reads a resource that only fixtures of the suite have"),
    ("resources-subscribe", "needs subscriptions to resources; files of a sandbox have none"),
    ("resources-unsubscribe", "needs subscriptions to resources; files of a sandbox have none"),
    ("logging-set-level", "needs the logging capability, which the protocol has deprecated"),
    ("tools-call-with-logging", "needs the logging capability, which the protocol has deprecated"),
    ("completion-complete", "needs completions; nothing here has arguments to complete"),
    ("sep-2549-prompts-list-caching-hints", PROMPTS),
    ("prompts-list", PROMPTS),
    ("prompts-get-simple", PROMPTS),
    ("prompts-get-with-args", PROMPTS),
    ("prompts-get-embedded-resource", PROMPTS),
    ("prompts-get-with-image", PROMPTS),
    ("tools-call-sampling", ELICITATION),
    ("tools-call-elicitation", ELICITATION),
    ("elicitation-sep1034-defaults", ELICITATION),
    ("elicitation-sep1330-enums", ELICITATION),
    ("input-required-result-basic-elicitation", ELICITATION),
    ("input-required-result-basic-sampling", ELICITATION),
    ("input-required-result-basic-list-roots", ELICITATION),
    ("input-required-result-request-state", ELICITATION),
    ("input-required-result-multiple-input-requests", ELICITATION),
    ("input-required-result-multi-round", ELICITATION),
    ("input-required-result-non-tool-request", ELICITATION),
    ("input-required-result-result-type", ELICITATION),
    ("input-required-result-tampered-state", ELICITATION),
    ("input-required-result-capability-check", ELICITATION),
    ("sep-2575-server-rejects-undeclared-capability", FIXTURE),
    ("sep-2575-missing-capability-http-400", FIXTURE),
    ("sep-2575-http-server-no-independent-requests-on-stream", FIXTURE),
    ("sep-2575-server-no-log-without-loglevel", FIXTURE),
    ("tasks-lifecycle", TASKS),
    ("tasks-capability-negotiation", TASKS),
    ("tasks-wire-fields", TASKS),
    ("tasks-request-state-removal", TASKS),
    ("tasks-mrtr-input", TASKS),
    ("tasks-request-headers", TASKS),
    ("tasks-dispatch-and-envelope", TASKS),
    ("tasks-required-task-error", TASKS),
    ("tasks-mrtr-composition", TASKS),
];

/// What became of one scenario: its name, and the checks that failed.
#[derive(Debug)]
struct Scenario {
    name: String,
    failed: Vec<String>,
}

/// Reads the reports, one directory for each scenario: `server-NAME-TIME`.
fn scenarios(reports: &Path) -> Vec<Scenario> {
    let entries = std::fs::read_dir(reports).expect("the suite has written reports").flatten();
    let scenario = |directory: std::fs::DirEntry| {
        let name = directory.file_name().into_string().expect("text");
        let name = name.strip_prefix("server-").expect("a report on a server");
        // 2026-01-02T03-04-05-678Z has 24 characters, and a dash stands before it.
        let name = name[..name.len() - 25].to_owned();
        let checks = std::fs::read(directory.path().join("checks.json")).expect("a report");
        let checks: Vec<Value> = serde_json::from_slice(&checks).expect("JSON");
        let failed = checks.iter().filter(|check| check["status"] == "FAILURE");
        let failed = failed
            .map(|check| format!("{}: {}", check["id"].as_str().unwrap_or_default(), check["errorMessage"]));
        Scenario { name, failed: failed.collect() }
    };
    entries.map(scenario).collect()
}

#[test]
fn every_scenario_passes_or_is_listed_as_not_applicable() {
    requires!(mcp_node);
    let home = Home::new();
    let _daemon = Daemon::start(&home);
    let reports = tempfile::tempdir().expect("a directory");
    let mut suite = peers::node().expect("it is there").command("conformance");
    suite.args(["server", "--suite", "all", "--url", &url(&home), "--output-dir"]).arg(reports.path());

    let output = suite.output().expect("it can be started");

    let all = scenarios(reports.path());
    assert!(all.len() > 60, "the suite did not run: {}", String::from_utf8_lossy(&output.stdout));
    let listed: BTreeSet<&str> = NOT_APPLICABLE.iter().map(|(name, _)| *name).collect();
    let is_listed = |failed: &String| failed.split(':').next().is_some_and(|check| listed.contains(check));
    let mut unlisted = Vec::new();
    let mut met: BTreeSet<&str> = BTreeSet::new();
    for Scenario { name, failed } in &all {
        met.extend(failed.iter().filter_map(|failed| failed.split(':').next()));
        if !failed.is_empty() {
            met.insert(name);
        }
        if !listed.contains(name.as_str()) {
            unlisted.extend(
                failed.iter().filter(|failed| !is_listed(failed)).map(|failed| format!("{name}: {failed}")),
            );
        }
    }
    assert!(unlisted.is_empty(), "neither passed nor listed:\n{}", unlisted.join("\n"));
    let stale: Vec<_> = listed.iter().filter(|name| !met.contains(*name)).collect();
    assert!(stale.is_empty(), "listed, but they pass or are gone: {stale:?}");
}

#[test]
fn the_docs_list_what_does_not_apply_with_the_reason() {
    for (name, reason) in NOT_APPLICABLE {
        let line = DOCS.lines().find(|line| line.contains(&format!("`{name}`")));
        assert!(line.is_some_and(|line| line.contains(reason)), "`{name}` ({reason}) is not in docs/mcp.md");
    }
}
