//! A tool: an operation, in the words of MCP.

use std::sync::Arc;

use coracle_engine::ops;
use rmcp::model::{JsonObject, Tool};
use serde_json::Value;

use super::{nature, schema};

/// Returns the tool an operation is, or nothing where there is no such operation.
pub fn of(name: &'static str) -> Option<Tool> {
    let mut schemas = ops::schema(name)?;
    let input = schema::of_input(taken(&mut schemas, "input"));
    let output = schema::of_output(taken(&mut schemas, "output"));
    let annotations = nature::of(name);
    let mut tool = Tool::new(name, ops::about(name)?, Arc::new(input));
    tool.output_schema = Some(Arc::new(output));
    tool.title = annotations.title.clone();
    tool.annotations = Some(annotations);
    Some(tool)
}

fn taken(schemas: &mut Value, which: &str) -> JsonObject {
    match schemas[which].take() {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    }
}
