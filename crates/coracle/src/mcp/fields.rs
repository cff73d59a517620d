//! The fields tools have for a model: what a sandbox is, the person who started the door has decided.
//!
//! What is not listed here cannot be written, whatever the operation itself takes. The engine holds callers to the
//! ceiling, too; this is what keeps the schemas honest and the model from trying.

use coracle_core::ceiling::Choice;
use coracle_core::{Ceiling, Error, Kind, Result};
use rmcp::model::{JsonObject, Tool};
use serde_json::{Value, json};

/// The tools of the two modes, with exactly the fields their clients were promised.
const FIELDS: [(&str, &[&str]); 10] = [
    ("sandbox_run", &["runtime", "code", "args", "env", "files", "timeout_seconds"]),
    ("sandbox_open", &["session_key"]),
    ("sandbox_exec", &["sandbox_id", "cmd", "cwd", "env", "timeout_seconds", "stream"]),
    ("sandbox_exec_read", &["sandbox_id", "exec_id", "since_seq", "max_chunks"]),
    ("sandbox_exec_wait", &["sandbox_id", "exec_id", "timeout_seconds"]),
    ("sandbox_fs_write", &["sandbox_id", "path", "contents", "contents_b64", "mode", "overwrite"]),
    ("sandbox_fs_read", &["sandbox_id", "path", "max_bytes"]),
    ("sandbox_fs_list", &["sandbox_id", "path", "recursive"]),
    ("sandbox_fs_delete", &["sandbox_id", "path", "recursive"]),
    ("sandbox_close", &["sandbox_id", "delete_workspace"]),
];
/// Tools that make a sandbox, and so have the fields that were opened.
const MAKERS: [&str; 2] = ["sandbox_run", "sandbox_open"];
/// Which backend is asked and whose rights it has is not a model's to say, in any tool.
const NEVER: [&str; 2] = ["backend", "user"];
/// Operations on files of the machine, or for everybody who uses it, and what would delete what a person gave.
const HIDDEN: [&str; 4] = ["image_build", "image_load", "image_prepull", "volume_remove"];
/// Writes to the standard input of a command, which has to be kept open for it.
const WRITER: &str = "sandbox_exec_write";

/// Takes away tools and fields a model may not have below a ceiling.
pub fn narrow(tools: &mut Vec<Tool>, ceiling: &Ceiling) {
    tools.retain(|tool| !HIDDEN.contains(&tool.name.as_ref()));
    let can_write = tools.iter().any(|tool| tool.name == WRITER);
    for tool in tools {
        let name = tool.name.as_ref();
        let promised = FIELDS.iter().find(|(tool, _)| *tool == name).map(|(_, fields)| *fields);
        let opened: Vec<&str> = match MAKERS.contains(&name) {
            true => {
                Choice::ALL.into_iter().filter(|one| ceiling.lets_choose(*one)).map(Choice::name).collect()
            }
            false => Vec::new(),
        };
        let mut schema = (*tool.input_schema).clone();
        keep(&mut schema, |field| match promised {
            Some(promised) => {
                promised.contains(&field)
                    || opened.contains(&field)
                    || (can_write && name == "sandbox_exec" && field == "stdin_open")
            }
            None => !NEVER.contains(&field),
        });
        if let Some(key) = schema.get_mut("properties").and_then(|fields| fields.get_mut("session_key")) {
            // What a call without one returns depends on the door.
            key["description"] = json!("The name the sandbox is found again by.");
        }
        if name == "sandbox_run" {
            schema.insert("required".to_owned(), json!(["code"]));
        }
        tool.input_schema = schema.into();
    }
}

/// Keeps some fields of a schema, and the definitions those refer to.
fn keep(schema: &mut JsonObject, keeps: impl Fn(&str) -> bool) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|field, _| keeps(field));
    }
    schema.insert("additionalProperties".to_owned(), json!(false));
    loop {
        let text = Value::Object(schema.clone()).to_string();
        let Some(definitions) = schema.get_mut("$defs").and_then(Value::as_object_mut) else { return };
        let before = definitions.len();
        definitions.retain(|name, _| text.contains(&format!("\"#/$defs/{name}\"")));
        match definitions.len() {
            0 => drop(schema.remove("$defs")),
            left if left == before => return,
            _ => {}
        }
    }
}

/// Refuses an input with a field the tool does not list, or without one it needs.
pub fn check(tool: &Tool, input: &Value) -> Result<()> {
    let (name, schema) = (&tool.name, &tool.input_schema);
    let Some(written) = input.as_object() else { return Ok(()) };
    let listed = schema.get("properties").and_then(Value::as_object);
    let is_listed = |field: &str| listed.is_some_and(|listed| listed.contains_key(field));
    if let Some(field) = written.keys().find(|field| !is_listed(field)) {
        let shown: String = field.escape_debug().take(64).collect();
        return Err(wrong(name, &format!("there is no field `{shown}`"), &shown).hint(
            "the tool's schema lists its fields; what a sandbox is, the person who started this door decides",
        ));
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    match required.filter_map(Value::as_str).find(|field| !written.contains_key(*field)) {
        None => Ok(()),
        Some(field) => Err(wrong(name, &format!("the field `{field}` is missing"), field)
            .hint(format!("the schema of `{name}` lists its fields"))),
    }
}

fn wrong(tool: &str, what: &str, field: &str) -> Error {
    Error::new(Kind::Invalid, format!("the input of `{tool}` is not valid: {what}")).detail("field", field)
}

#[cfg(test)]
mod tests {
    use coracle_core::Policy;
    use coracle_core::ceiling::Choices;
    use coracle_core::spec::SpecInput;

    use super::super::toolbox::{Mode, Set, Toolbox};
    use super::*;

    fn below(choices: &[Choice], sets: &[Set]) -> Toolbox {
        let choices: Choices = choices.iter().copied().collect();
        let ceiling = Ceiling::of_model(SpecInput::default(), choices, &Policy::default()).expect("valid");
        Toolbox::of(Mode::Code, sets, Some(&ceiling))
    }

    fn fields(toolbox: &Toolbox, tool: &str) -> Vec<String> {
        let schema = &toolbox.find(tool).expect("it is there").input_schema;
        assert_eq!(schema["additionalProperties"], false, "{tool}");
        schema["properties"].as_object().expect("an object").keys().cloned().collect()
    }

    #[test]
    fn tools_have_exactly_the_fields_that_were_promised() {
        let toolbox = below(&[], &[Set::Run]);

        for (tool, promised) in FIELDS {
            let (mut found, mut promised) = (fields(&toolbox, tool), promised.to_vec());
            found.sort();
            promised.sort_unstable();
            assert_eq!(found, promised, "{tool}");
        }
    }

    #[test]
    fn what_is_opened_is_added_and_nothing_else() {
        let toolbox = below(&[Choice::Image, Choice::Limits], &[Set::Run]);

        assert_eq!(fields(&toolbox, "sandbox_open"), ["image", "limits", "session_key"]);
        assert_eq!(fields(&toolbox, "sandbox_run").len(), 8);
        let schema = &toolbox.find("sandbox_open").expect("it is there").input_schema;
        assert!(schema["$defs"]["LimitsInput"].is_object(), "{schema:?}");
        assert!(schema["$defs"].get("MountInput").is_none(), "{schema:?}");
    }

    #[test]
    fn no_tool_names_a_backend_a_user_or_a_path_of_the_machine() {
        let toolbox = below(&[Choice::Image, Choice::Network, Choice::Limits], &[Set::All]);

        for tool in toolbox.all() {
            let fields = fields(&toolbox, &tool.name);
            assert!(!fields.iter().any(|field| NEVER.contains(&field.as_str())), "{}", tool.name);
            assert!(!HIDDEN.contains(&tool.name.as_ref()));
        }
        assert!(fields(&toolbox, "sandbox_exec").contains(&"stdin_open".to_owned()));
    }

    #[test]
    fn a_field_that_is_not_listed_is_refused_by_its_name() {
        let toolbox = below(&[], &[]);

        let refused = toolbox.check("sandbox_open", &json!({"mounts": []})).expect_err("not listed");

        assert_eq!((refused.kind, &refused.details["field"]), (Kind::Invalid, &json!("mounts")));
        assert!(toolbox.check("sandbox_open", &json!({"session_key": "x"})).is_ok());
        assert!(toolbox.check("sandbox_exec", &json!({"sandbox_id": "sbx_1"})).is_err(), "no command");
    }
}
