//! The HTTP API as OpenAPI 3.1: the operations' own schemas, split by where each part of an input is written.

mod others;

use coracle_engine::Catalogue;
use serde_json::{Map, Value, json};

use super::routes::{Method, ROUTES, Route};

/// The prefix of references to shared schemas.
const SHARED: &str = "#/components/schemas/";

/// Returns the whole document.
pub fn document(catalogue: &Catalogue) -> Value {
    let mut shared = Shared::default();
    let mut paths = others::paths();
    for route in ROUTES {
        let described = operation(catalogue, route, &mut shared);
        paths.entry(route.path).or_insert_with(|| json!({}))[method(route)] = described;
    }
    shared.0.insert("Error".to_owned(), others::error());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "coracle",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Sandboxes for AI agents, owned by exactly one run at a time.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": shared.0,
            "parameters": others::headers(),
            "responses": {"Refused": others::refused()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        // On the unix socket the kernel identifies the client.
        "security": [{"token": []}, {}],
    })
}

fn method(route: &Route) -> &'static str {
    match route.method {
        Method::Get => "get",
        Method::Post => "post",
        Method::Delete => "delete",
    }
}

fn operation(catalogue: &Catalogue, route: &Route, shared: &mut Shared) -> Value {
    let mut schemas = route.schemas(catalogue);
    let mut input = shared.adopt(route.operation, schemas["input"].take());
    let output = shared.adopt(route.operation, schemas["output"].take());
    let mut parameters = taken(&mut input, "path", route.fields());
    let mut described = json!({
        "operationId": route.operation,
        "summary": catalogue.find(route.operation).map(|entry| entry.facts.about),
        "responses": others::responses(json!({"application/json": {"schema": output}})),
    });
    if route.operation == "event_list" {
        described["responses"]["200"]["content"]["text/event-stream"] = others::happenings();
    }
    match route.method {
        Method::Get | Method::Delete => {
            let names: Vec<_> =
                input["properties"].as_object().into_iter().flat_map(Map::keys).cloned().collect();
            parameters.extend(taken(&mut input, "query", names.iter().map(String::as_str)));
        }
        Method::Post => {
            let required = input.get("required").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
            described["requestBody"] =
                json!({"required": required, "content": {"application/json": {"schema": input}}});
        }
    }
    parameters.extend(
        others::header_names(route.method)
            .map(|name| json!({"$ref": format!("#/components/parameters/{name}")})),
    );
    described["parameters"] = parameters.into();
    described
}

/// Moves fields out of a schema and describes them as parameters.
fn taken<'a>(schema: &mut Value, place: &str, names: impl Iterator<Item = &'a str>) -> Vec<Value> {
    let mut parameters = Vec::new();
    for name in names {
        let Some(mut field) = schema["properties"].as_object_mut().and_then(|fields| fields.remove(name))
        else {
            continue;
        };
        let required = drop_required(schema, name);
        let about = field.as_object_mut().and_then(|field| field.remove("description"));
        let mut parameter = json!({"name": name, "in": place, "required": required, "schema": plain(field)});
        if let Some(about) = about {
            parameter["description"] = about;
        }
        if parameter["schema"]["type"] == "array" {
            // A list is written with commas.
            parameter["style"] = "form".into();
            parameter["explode"] = false.into();
        }
        parameters.push(parameter);
    }
    parameters
}

/// Removes `null` from a schema: a query leaves an absent field out.
fn plain(mut field: Value) -> Value {
    if let Some(types) = field.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|one| one != "null");
        if let [one] = types.as_slice() {
            field["type"] = one.clone();
        }
    }
    if let Some(Value::Array(choices)) = field.get("anyOf") {
        let mut kept: Vec<_> = choices.iter().filter(|choice| choice["type"] != "null").cloned().collect();
        if kept.len() == 1 {
            field = kept.remove(0);
        }
    }
    if let Some(field) = field.as_object_mut() {
        field.remove("default");
    }
    field
}

fn drop_required(schema: &mut Value, name: &str) -> bool {
    let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) else { return false };
    let before = required.len();
    required.retain(|one| one != name);
    let was = required.len() < before;
    if required.is_empty()
        && let Some(schema) = schema.as_object_mut()
    {
        schema.remove("required");
    }
    was
}

/// Schemas that several operations use, by name.
#[derive(Debug, Default)]
struct Shared(Map<String, Value>);

impl Shared {
    /// Moves a schema's own definitions here and redirects its references.
    fn adopt(&mut self, operation: &str, mut schema: Value) -> Value {
        let definitions = match schema.as_object_mut() {
            Some(object) => {
                object.remove("$schema");
                object.remove("title");
                object.remove("$defs")
            }
            None => None,
        };
        let mut names = Map::new();
        let Some(Value::Object(definitions)) = definitions else { return schema };
        for (name, definition) in &definitions {
            // Two different definitions of one name: this one gets the operation's name as well.
            let taken =
                self.0.get(name).is_some_and(|other| *other != redirected(definition.clone(), &Map::new()));
            let name_here = if taken { format!("{operation}_{name}") } else { name.clone() };
            names.insert(name.clone(), name_here.into());
        }
        for (name, definition) in definitions {
            let here = names[&name].as_str().unwrap_or(&name).to_owned();
            self.0.insert(here, redirected(definition, &names));
        }
        redirected(schema, &names)
    }
}

/// Rewrites references to where the definitions are now.
fn redirected(mut schema: Value, names: &Map<String, Value>) -> Value {
    match &mut schema {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                match value.as_str().and_then(|text| text.strip_prefix("#/$defs/")) {
                    Some(name) if key == "$ref" => {
                        let here = names.get(name).and_then(Value::as_str).unwrap_or(name);
                        *value = format!("{SHARED}{here}").into();
                    }
                    _ => *value = redirected(value.take(), names),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|one| *one = redirected(one.take(), names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(object) => object.iter().for_each(|(key, value)| match value {
                Value::String(text) if key == "$ref" => found.push(text.clone()),
                _ => references(value, found),
            }),
            Value::Array(all) => all.iter().for_each(|one| references(one, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document(Catalogue::own());
        let mut found = Vec::new();
        references(&document, &mut found);

        assert!(found.len() > 100);
        for reference in found {
            let pointer = reference.strip_prefix('#').expect("a local reference");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn every_operation_is_described_with_its_input_in_one_place() {
        let document = document(Catalogue::own());
        for route in ROUTES {
            let described = &document["paths"][route.path][method(route)];
            assert_eq!(described["operationId"], route.operation);
            let fields = route.schemas(Catalogue::own())["input"]["properties"].clone();
            let body = &described["requestBody"]["content"]["application/json"]["schema"]["properties"];
            let parameters = described["parameters"].as_array().expect("parameters");
            for field in fields.as_object().into_iter().flat_map(Map::keys) {
                let as_parameter = parameters.iter().filter(|one| one["name"] == field.as_str()).count();
                let in_body = usize::from(body.get(field).is_some());
                assert_eq!(as_parameter + in_body, 1, "{}: {field}", route.operation);
            }
        }
    }
}
