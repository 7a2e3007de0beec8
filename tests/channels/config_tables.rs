//! The tables of `handler_config` in the book, one for each channel. They come from the types of the channels: a chapter names the
//! channel by `<!-- handler_config of webhook -->` above its table and ends it by `<!-- end -->`.
//!
//! With `WRITE_DOCUMENTS=1` in the environment, the tables are written instead of compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use solid_notify::channels::{Amqp, Channel, Chat, Mail, Nats, RedisStreams, Webhook, schema};

/// Returns the chapters of the book.
fn chapters() -> Vec<PathBuf> {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src");
    let files = fs::read_dir(book).unwrap().map(|entry| entry.unwrap().path());
    let chapters: Vec<PathBuf> = files.filter(|file| file.extension().is_some_and(|end| end == "md")).collect();
    assert!(chapters.len() >= 20, "only {} chapters found", chapters.len());
    chapters
}

/// Returns the schemas of all channels by their names.
fn schemas() -> BTreeMap<&'static str, Value> {
    BTreeMap::from([
        (Chat::NAME, schema::<Chat>().to_value()),
        (Mail::NAME, schema::<Mail>().to_value()),
        (Amqp::NAME, schema::<Amqp>().to_value()),
        (Nats::NAME, schema::<Nats>().to_value()),
        (RedisStreams::NAME, schema::<RedisStreams>().to_value()),
        (Webhook::NAME, schema::<Webhook>().to_value()),
    ])
}

/// Returns the definition that a schema refers to, or the schema.
fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'));
    target.and_then(|path| root.pointer(path)).unwrap_or(schema)
}

/// Returns what a schema is when it is not null.
fn present<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let choices = schema.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let some: Vec<&Value> = choices.filter(|choice| choice["type"] != "null").collect();
    if let [one] = some[..] { resolved(one, root) } else { resolved(schema, root) }
}

fn words(value: &Value) -> Vec<&str> {
    match value {
        Value::String(word) => vec![word],
        Value::Array(words) => words.iter().filter_map(Value::as_str).filter(|word| *word != "null").collect(),
        _ => Vec::new(),
    }
}

/// Returns the shape of a value as people read it.
fn shape(schema: &Value, root: &Value) -> String {
    let schema = present(schema, root);
    if let Some(format) = schema.get("format").and_then(Value::as_str)
        && words(&schema["type"]) == ["string"]
    {
        return format.to_owned();
    }
    let constants = |schemas: &Value| {
        let of = |schema: &Value| {
            let list = schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default();
            schema.get("const").cloned().into_iter().chain(list).collect::<Vec<_>>()
        };
        schemas.as_array().into_iter().flatten().flat_map(of).collect::<Vec<_>>()
    };
    let mut values = schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default();
    values.extend(constants(&schema["oneOf"]));
    if !values.is_empty() {
        let quoted: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        return quoted.join(", ");
    }
    match words(&schema["type"]).first() {
        Some(&"array") => format!("list of: {}", shape(&schema["items"], root)),
        Some(&"object") if schema.get("properties").is_none() => {
            format!("object, each value: {}", shape(&schema["additionalProperties"], root))
        }
        Some(&word) => word.to_owned(),
        None if schema.get("oneOf").or(schema.get("anyOf")).is_some() => "one of those below".to_owned(),
        None => "any JSON".to_owned(),
    }
}

fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Appends the rows of an object's fields, and of the objects in them. `needed`: what is said of a field that the object must have.
fn rows(prefix: &str, schema: &Value, root: &Value, needed: &str, table: &mut String) {
    let schema = present(schema, root);
    let empty = Map::new();
    let required = words(&schema["required"]);
    for (name, field) in schema.get("properties").and_then(Value::as_object).unwrap_or(&empty) {
        let path = format!("{prefix}{name}");
        let default = match field.get("default") {
            Some(Value::Null) | None if required.contains(&name.as_str()) => needed.to_owned(),
            Some(Value::Null) | None => String::new(),
            Some(value) => format!("`{value}`"),
        };
        // A choice between objects of one field each is documented at the choice.
        let places = [field, present(field, root), schema];
        let text = places.iter().find_map(|place| place.get("description")).and_then(Value::as_str);
        let text = text.unwrap_or_else(|| panic!("the field `{path}` has no documentation comment"));
        let _ = writeln!(table, "| `{path}` | {} | {default} | {} |", cell(&shape(field, root)), cell(text));
        let inner = present(field, root);
        rows(&format!("{path}."), inner, root, REQUIRED, table);
        rows(&format!("{path}[]."), inner.get("items").unwrap_or(&Value::Null), root, REQUIRED, table);
        for choice in ["oneOf", "anyOf"].iter().flat_map(|key| inner[*key].as_array().into_iter().flatten()) {
            rows(&format!("{path}."), choice, root, "one of these", table);
        }
    }
}

const REQUIRED: &str = "required";

fn table(schema: &Value) -> String {
    let mut table = "| field | shape | default | |\n|---|---|---|---|\n".to_owned();
    rows("", schema, schema, REQUIRED, &mut table);
    table
}

/// Returns a chapter with the tables of the channels that it names.
fn refreshed(text: &str, schemas: &BTreeMap<&str, Value>, found: &mut Vec<String>) -> String {
    const BEGIN: &str = "<!-- handler_config of ";
    const END: &str = "<!-- end -->";
    let mut fresh = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after.split_once(" -->").unwrap_or_else(|| panic!("`{BEGIN}` has no end"));
        let (_, after) = after.split_once(END).unwrap_or_else(|| panic!("the table of {name} has no `{END}`"));
        let schema = schemas.get(name).unwrap_or_else(|| panic!("there is no channel {name}"));
        let _ = write!(fresh, "{before}{BEGIN}{name} -->\n{}{END}", table(schema));
        found.push(name.to_owned());
        rest = after;
    }
    fresh + rest
}

#[test]
fn book_has_the_fields_of_each_channel_as_its_type_has_them() {
    let schemas = schemas();
    let mut found = Vec::new();
    for file in chapters() {
        let text = fs::read_to_string(&file).unwrap();
        let fresh = refreshed(&text, &schemas, &mut found);
        if std::env::var_os("WRITE_DOCUMENTS").is_none() {
            assert_eq!(text, fresh, "{} differs; WRITE_DOCUMENTS=1 writes it", file.display());
        } else if text != fresh {
            fs::write(&file, fresh).unwrap();
        }
    }
    found.sort_unstable();
    assert_eq!(found, schemas.keys().copied().collect::<Vec<_>>(), "each channel has one table");
}

#[test]
fn table_shows_nested_fields_choices_and_defaults() {
    let schema = serde_json::json!({
        "type": "object",
        "required": ["url"],
        "properties": {
            "url": { "type": "string", "format": "template (text)", "description": "The URL\nof the receiver." },
            "tries": { "type": ["integer", "null"], "default": 3, "description": "How often." },
            "auth": { "anyOf": [{ "$ref": "#/$defs/Auth" }, { "type": "null" }], "description": "Who." },
            "kind": { "oneOf": [{ "const": "a" }, { "const": "b" }], "default": "a", "description": "Which." },
            "headers": { "type": "object", "additionalProperties": { "type": "string" }, "default": {}, "description": "More." }
        },
        "$defs": {
            "Auth": { "type": "object", "required": ["user"], "properties": { "user": { "type": "string", "description": "The name." } } }
        }
    });
    let expected = "| field | shape | default | |\n|---|---|---|---|\n\
                    | `auth` | object |  | Who. |\n\
                    | `auth.user` | string | required | The name. |\n\
                    | `headers` | object, each value: string | `{}` | More. |\n\
                    | `kind` | `\"a\"`, `\"b\"` | `\"a\"` | Which. |\n\
                    | `tries` | integer | `3` | How often. |\n\
                    | `url` | template (text) | required | The URL of the receiver. |\n";
    assert_eq!(table(&schema), expected);
}
