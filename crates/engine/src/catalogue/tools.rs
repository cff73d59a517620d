//! Operations as tools of a model: plain JSON schemas, with the fields a person's ceiling leaves. No protocol is in here.
//!
//! What a schema does not list cannot be written, whatever the operation itself takes. The engine holds callers to the
//! ceiling, too; this keeps the schemas honest and the model from trying.

mod schema;

use coracle_core::ceiling::Choice;
use coracle_core::{Ceiling, Error, Kind, Result};
use serde_json::{Map, Value, json};

use super::{Catalogue, Entry, Facts, Model, Scope};

/// Which backend is asked and whose rights it has is not a model's to say, in any tool.
const NEVER: [&str; 2] = ["backend", "user"];
/// Writes to the standard input of a command, which has to be kept open for it.
const WRITER: &str = "sandbox_exec_write";
const WRITTEN_TO: (&str, &str) = ("sandbox_exec", "stdin_open");

/// One tool.
#[derive(Debug, Clone)]
pub struct Tool {
    pub facts: &'static Facts,
    /// A plain object at the root, self-contained.
    pub input: Map<String, Value>,
    /// What it answers: its output, or the error object.
    pub output: Map<String, Value>,
}

/// Returns the wanted operations as tools, in the order of the catalogue. Below a ceiling only those a model may see.
pub fn offer(catalogue: &Catalogue, wanted: impl Fn(&Facts) -> bool, ceiling: Option<&Ceiling>) -> Vec<Tool> {
    let for_models = |facts: &Facts| facts.model != Model::Hidden && facts.scope == Scope::Everybody;
    let seen = |facts: &Facts| ceiling.is_none() || for_models(facts);
    let entries = catalogue.all().iter().filter(|entry| wanted(entry.facts) && seen(entry.facts));
    let mut tools: Vec<Tool> = entries.map(Tool::of).collect();
    if let Some(ceiling) = ceiling {
        let writes = tools.iter().any(|tool| tool.facts.name == WRITER);
        tools.iter_mut().for_each(|tool| tool.narrow(ceiling, writes));
    }
    tools
}

impl Tool {
    fn of(entry: &Entry) -> Self {
        let mut schemas = entry.schemas();
        let mut take = |which: &str| match schemas[which].take() {
            Value::Object(schema) => schema,
            _ => Map::new(),
        };
        let (input, output) = (schema::of_input(take("input")), schema::of_output(take("output")));
        Self { facts: entry.facts, input, output }
    }

    /// Takes away the fields a model may not have. `writes` tells whether it can write to commands.
    fn narrow(&mut self, ceiling: &Ceiling, writes: bool) {
        let (name, model) = (self.facts.name, self.facts.model);
        let opened = |field: &str| {
            Choice::ALL.into_iter().any(|choice| choice.name() == field && ceiling.lets_choose(choice))
        };
        schema::keep(&mut self.input, |field| match model {
            Model::Hidden => false,
            Model::AllFields => !NEVER.contains(&field),
            Model::Fields(fields) => fields.contains(&field) || (writes && (name, field) == WRITTEN_TO),
            Model::Spec(fields) => fields.contains(&field) || opened(field),
        });
        if let Some(key) = self.input.get_mut("properties").and_then(|fields| fields.get_mut("session_key")) {
            // What a call without one returns depends on the door.
            key["description"] = json!("The name the sandbox is found again by.");
        }
        if name == "sandbox_run" {
            self.input.insert("required".to_owned(), json!(["code"]));
        }
    }

    /// Refuses an input with a field the tool does not list, or without one it needs.
    pub fn check(&self, input: &Value) -> Result<()> {
        let name = self.facts.name;
        let Some(written) = input.as_object() else { return Ok(()) };
        let listed = self.input.get("properties").and_then(Value::as_object);
        let is_listed = |field: &str| listed.is_some_and(|listed| listed.contains_key(field));
        if let Some(field) = written.keys().find(|field| !is_listed(field)) {
            let shown: String = field.escape_debug().take(64).collect();
            return Err(wrong(name, &format!("there is no field `{shown}`"), &shown).hint(
                "the tool's schema lists its fields; the person who started this server decides what its sandboxes are",
            ));
        }
        let required = self.input.get("required").and_then(Value::as_array).into_iter().flatten();
        match required.filter_map(Value::as_str).find(|field| !written.contains_key(*field)) {
            None => Ok(()),
            Some(field) => Err(wrong(name, &format!("the field `{field}` is missing"), field)
                .hint(format!("the schema of `{name}` lists its fields"))),
        }
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

    use super::*;

    fn below(choices: &[Choice], wanted: impl Fn(&Facts) -> bool) -> Vec<Tool> {
        let choices: Choices = choices.iter().copied().collect();
        let ceiling = Ceiling::of_model(SpecInput::default(), choices, &Policy::default()).expect("valid");
        offer(Catalogue::own(), wanted, Some(&ceiling))
    }

    fn find<'a>(tools: &'a [Tool], name: &str) -> &'a Tool {
        tools.iter().find(|tool| tool.facts.name == name).expect("it is there")
    }

    fn fields(tool: &Tool) -> Vec<&str> {
        assert_eq!(tool.input["additionalProperties"], false, "{}", tool.facts.name);
        tool.input["properties"].as_object().expect("an object").keys().map(String::as_str).collect()
    }

    #[test]
    fn tools_have_exactly_the_fields_that_were_promised() {
        let tools = below(&[], |facts| facts.name != WRITER);

        for tool in &tools {
            let (Model::Fields(promised) | Model::Spec(promised)) = tool.facts.model else { continue };
            let (mut found, mut promised) = (fields(tool), promised.to_vec());
            found.sort_unstable();
            promised.sort_unstable();
            assert_eq!(found, promised, "{}", tool.facts.name);
        }
    }

    #[test]
    fn what_is_opened_is_added_and_nothing_else() {
        let tools = below(&[Choice::Image, Choice::Limits], |_| true);

        let open = find(&tools, "sandbox_open");
        assert_eq!(fields(open), ["image", "limits", "session_key"]);
        assert_eq!(fields(find(&tools, "sandbox_run")).len(), 8);
        assert!(open.input["$defs"]["LimitsInput"].is_object(), "{:?}", open.input);
        assert!(open.input["$defs"].get("MountInput").is_none(), "{:?}", open.input);
    }

    #[test]
    fn no_tool_names_a_backend_a_user_or_a_path_of_the_machine() {
        let tools = below(&[Choice::Image, Choice::Network, Choice::Limits], |_| true);

        for tool in &tools {
            assert!(!fields(tool).iter().any(|field| NEVER.contains(field)), "{}", tool.facts.name);
        }
        let names: Vec<_> = tools.iter().map(|tool| tool.facts.name).collect();
        for hidden in ["image_build", "image_load", "image_prepull", "volume_remove"] {
            assert!(!names.contains(&hidden), "{hidden}");
        }
        assert!(fields(find(&tools, "sandbox_exec")).contains(&"stdin_open"));
    }

    #[test]
    fn a_field_that_is_not_listed_is_refused_by_its_name() {
        let tools = below(&[], |_| true);
        let open = find(&tools, "sandbox_open");

        let refused = open.check(&json!({"mounts": []})).expect_err("not listed");

        assert_eq!((refused.kind, &refused.details["field"]), (Kind::Invalid, &json!("mounts")));
        assert!(open.check(&json!({"session_key": "x"})).is_ok());
        assert!(find(&tools, "sandbox_exec").check(&json!({"sandbox_id": "sbx_1"})).is_err(), "no command");
    }
}
