//! Pages of JSON outputs, of their schemas in `docs/`.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::Value;

use super::text;

/// A schema: its file's name in `docs/`, and its text.
type Schema = (&'static str, &'static str);

/// All of them.
pub(super) const ALL: [Schema; 4] = [
    ("flightctl-dump.schema", include_str!("../../../../docs/flightctl-dump.schema.json")),
    ("flightctl-report.schema", include_str!("../../../../docs/flightctl-report.schema.json")),
    ("flightctl-diff.schema", include_str!("../../../../docs/flightctl-diff.schema.json")),
    ("flightctl-why.schema", include_str!("../../../../docs/flightctl-why.schema.json")),
];

/// The page of a schema: its fields as a list, nested ones by their paths.
pub(super) fn page((name, json): Schema) -> Result<(String, String)> {
    let schema: Value = serde_json::from_str(json).with_context(|| name.to_owned())?;
    let word = |key: &str| schema[key].as_str().unwrap_or_default();
    // Writing to a string can't fail.
    let mut out = format!("# {}\n\n{}\n\n", word("title"), text(word("description")));
    let _ = writeln!(out, "The schema itself, for programs: [{name}.json](../docs/{name}.json).\n");
    let _ = writeln!(out, "## Fields\n");
    fields(&mut out, &schema, "");
    let kinds = schema["allOf"].as_array().into_iter().flatten();
    for kind in kinds {
        let condition = &kind["if"]["properties"];
        let Some((key, is)) = condition.as_object().and_then(|all| all.iter().next()) else {
            continue;
        };
        let _ = writeln!(out, "\n## Where `{key}` is {}\n", values(is));
        fields(&mut out, &kind["then"], "");
    }
    for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
        let about = definition["description"].as_str().unwrap_or_default();
        let _ = writeln!(out, "\n## Type `{name}`\n\n{}: {}\n", kind(definition), text(about));
        fields(&mut out, definition, "");
    }
    Ok((format!("{name}.md"), out))
}

/// The fields of an object, and of those in it.
fn fields(out: &mut String, object: &Value, path: &str) {
    let required: Vec<&str> =
        object["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let Some(all) = object["properties"].as_object() else {
        // Nothing more than which there must be.
        for name in required {
            let _ = writeln!(out, "- `{path}{name}` is there");
        }
        return;
    };
    for (name, field) in all {
        let about = field["description"].as_str().unwrap_or_default();
        let optional = if required.contains(&&**name) { "" } else { " *Optional*." };
        let colon = if about.is_empty() { "." } else { ": " };
        let _ = writeln!(out, "- `{path}{name}`, {}{colon}{}{optional}", kind(field), text(about));
        fields(out, field, &format!("{path}{name}."));
        fields(out, &field["items"], &format!("{path}{name}[]."));
    }
}

/// The type of a value, in words.
fn kind(of: &Value) -> String {
    if let Some(name) = of["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
        return format!("`{name}`");
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(all) = of[key].as_array() {
            return all.iter().map(kind).collect::<Vec<_>>().join(" or ");
        }
    }
    if of.get("const").is_some() || of.get("enum").is_some() {
        return values(of);
    }
    match &of["type"] {
        Value::String(name) if name == "array" && of["items"].is_object() => {
            format!("array of {}", kind(&of["items"]))
        }
        Value::String(name) => name.clone(),
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    }
}

/// The values that it may have.
fn values(of: &Value) -> String {
    let one = of.get("const").into_iter();
    let all = one.chain(of["enum"].as_array().into_iter().flatten());
    all.map(|value| format!("`{value}`")).collect::<Vec<_>>().join(" or ")
}
