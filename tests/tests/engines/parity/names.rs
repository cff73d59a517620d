//! What may differ between two runs of one script: ids, times, digests, the home and the place, and what depends on
//! the pace or the order of things in a directory. Nothing else is touched.

use std::collections::HashMap;
use std::path::Path;

use base64::Engine;
use serde_json::{Map, Value};

/// Ids that are made up, by how they begin; what follows has a fixed length.
const IDS: [&str; 4] = ["sbx_", "exec_", "run_", "ins_"];
const ID_LEN: usize = 26;
const DIGEST: &str = "sha256:";
const DIGEST_LEN: usize = 64;
/// Fields that tell a time or take some.
const TIMES: [&str; 8] =
    ["created_at", "updated_at", "pulled_at", "mtime_unix", "duration_ms", "idle_ms", "uptime_ms", "held_us"];
/// Fields with a number that depends on how many processes of ours a place counts with the commands'.
const COUNTS: [&str; 1] = ["ended_background"];
/// Fields in which a place says what it cannot do. What it says has a test of its own.
const DECLARED: [&str; 2] = ["missing", "profile"];
/// Text longer than this is compared by its length and the sum of its bytes.
const SHOWN_MAX: usize = 20_000;

/// Replaces generated ids by numbered names: the first sandbox is `sbx_1` everywhere.
#[derive(Debug)]
pub struct Names {
    home: String,
    backend: String,
    given: HashMap<String, String>,
    counts: HashMap<&'static str, usize>,
}

impl Names {
    pub fn new(home: &Path, backend: &str) -> Self {
        Self {
            home: home.display().to_string(),
            backend: backend.to_owned(),
            given: HashMap::new(),
            counts: HashMap::new(),
        }
    }

    /// Returns output as it would be anywhere: JSON by its fields, text by its words, other bytes as they are.
    pub fn output(&mut self, bytes: &[u8]) -> String {
        let documents: Result<Vec<Value>, _> =
            serde_json::Deserializer::from_slice(bytes).into_iter().collect();
        match (documents, std::str::from_utf8(bytes)) {
            (Ok(documents), _) if documents.iter().any(Value::is_object) => {
                let named = documents.into_iter().map(|document| self.value("", document).to_string());
                named.collect::<Vec<_>>().join("\n")
            }
            (_, Ok(text)) => self.text(text),
            (_, Err(_)) => short(&base64::engine::general_purpose::STANDARD.encode(bytes)),
        }
    }

    fn value(&mut self, field: &str, value: Value) -> Value {
        match value {
            Value::Number(_) if TIMES.contains(&field) => Value::from("TIME"),
            Value::Number(_) if COUNTS.contains(&field) => Value::from("COUNT"),
            _ if DECLARED.contains(&field) => Value::from("DECLARED"),
            Value::String(text) if field == "backend" && text == self.backend => Value::from("BACKEND"),
            Value::String(text) => Value::from(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(field, item)).collect(),
            Value::Object(fields) => self.fields(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }

    fn fields(&mut self, mut fields: Map<String, Value>) -> Value {
        // How large a directory is, its filesystem says, and filesystems differ.
        if fields.get("type").is_some_and(|kind| kind == "dir") && fields.contains_key("size") {
            fields.insert("size".to_owned(), Value::from("SIZE"));
        }
        for field in paced(&fields) {
            if let Some(value) = fields.get_mut(*field) {
                *value = Value::from("PACE");
            }
        }
        // So is the order things are listed in.
        if let Some(Value::Array(entries)) = fields.get_mut("entries") {
            entries.sort_by_key(|entry| entry["path"].to_string());
        }
        let fields = fields.into_iter().map(|(name, value)| {
            let value = self.value(&name, value);
            (name, value)
        });
        Value::Object(fields.collect())
    }

    /// Returns the notes on standard error. Notes about several files come in the order of their directory.
    pub fn talk(&mut self, text: &str) -> String {
        let mut lines: Vec<&str> = text.lines().collect();
        if lines.iter().all(|line| line.starts_with("note: ")) {
            lines.sort_unstable();
        }
        self.text(&lines.join("\n"))
    }

    /// Returns a text with everything that is made up replaced.
    pub fn text(&mut self, text: &str) -> String {
        let text = text.replace(&self.home, "HOME").replace(&format!("`{}`", self.backend), "`BACKEND`");
        let mut rest = text.as_str();
        let mut named = String::with_capacity(rest.len());
        while let Some((prefix, start)) = first_prefix(rest) {
            let (before, from) = rest.split_at(start);
            let length = prefix.len() + if prefix == DIGEST { DIGEST_LEN } else { ID_LEN };
            named.push_str(before);
            match from.get(..length).filter(|id| is_made_up(&id[prefix.len()..])) {
                Some(id) => {
                    named.push_str(&self.name(prefix, id));
                    rest = &from[length..];
                }
                None => {
                    named.push_str(prefix);
                    rest = &from[prefix.len()..];
                }
            }
        }
        named.push_str(rest);
        short(&without_durations(&named))
    }

    fn name(&mut self, prefix: &'static str, id: &str) -> String {
        // One image has other digests in other stores; it is the same image by its name.
        if prefix == DIGEST {
            return "DIGEST".to_owned();
        }
        if let Some(name) = self.given.get(id) {
            return name.clone();
        }
        let count = self.counts.entry(prefix).or_default();
        *count += 1;
        let name = format!("{prefix}{count}");
        self.given.insert(id.to_owned(), name.clone());
        name
    }
}

/// Returns the fields of an exec's report that depend on when one looked: how much there is of what still runs, and
/// which part of too much was thrown away.
fn paced(fields: &Map<String, Value>) -> &'static [&'static str] {
    let is = |name: &str, value: Value| fields.get(name).is_some_and(|found| *found == value);
    if is("status", Value::from("running")) {
        &["stdout_bytes", "stderr_bytes"]
    } else if is("truncated", Value::from(true)) && fields.contains_key("truncation") {
        &["truncation", "stdout", "stderr"]
    } else {
        &[]
    }
}

/// Replaces the times in messages such as `timed out after 1.309s`.
fn without_durations(text: &str) -> String {
    let mut parts = text.split(" after ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let rest = part.trim_start_matches(|character: char| character.is_ascii_digit() || character == '.');
        let unit = rest.trim_start_matches(['m', 's', 'h']);
        match rest.len() < part.len() && unit.len() < rest.len() {
            true => format!("{text} after TIME{unit}"),
            false => format!("{text} after {part}"),
        }
    })
}

fn first_prefix(text: &str) -> Option<(&'static str, usize)> {
    let found = IDS.iter().chain([&DIGEST]).filter_map(|prefix| Some((*prefix, text.find(prefix)?)));
    found.min_by_key(|(_, start)| *start)
}

fn is_made_up(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

fn short(text: &str) -> String {
    if text.len() <= SHOWN_MAX {
        return text.to_owned();
    }
    let sum = text.bytes().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!("{} bytes, sum {sum:016x}", text.len())
}

#[test]
fn what_is_made_up_is_named_by_its_turn_and_nothing_else_is_touched() {
    let mut names = Names::new(Path::new("/tmp/home-1"), "docker");
    let (one, two) = (format!("sbx_{}", "a1".repeat(13)), format!("sbx_{}", "b2".repeat(13)));

    let text = names.text(&format!("{two} {one} {two}: `docker` in /tmp/home-1/x, sbx_short, run_a"));
    let document =
        names.output(br#"{"backend":"docker","duration_ms":12,"exit_code":12,"type":"file","size":4}"#);

    assert_eq!(text, "sbx_1 sbx_2 sbx_1: `BACKEND` in HOME/x, sbx_short, run_a");
    assert_eq!(
        document,
        r#"{"backend":"BACKEND","duration_ms":"TIME","exit_code":12,"size":4,"type":"file"}"#
    );
}
