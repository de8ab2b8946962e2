//! The table of routes for programs, in the format of OpenAPI.

use super::{Route, templates};
use crate::call::{Answer, Call, Outcome};
use serde_json::{Map, Value, json};

pub(super) fn answer(call: &Call) -> Outcome {
    Ok(Answer::Json(document(&call.api.management.node_info.version)))
}

fn document(version: &str) -> Value {
    let operation = |route: &Route| {
        json!({
            "summary": route.summary,
            "tags": [route.group.as_str()],
            "description": format!("Needs: {}. Cost: {}", route.needs.as_str(), route.cost.as_str()),
            "parameters": parameters(route.template),
            "responses": {"default": {"description": "as RabbitMQ's HTTP API"}},
        })
    };
    let mut paths = Map::new();
    for routes in templates() {
        let methods = routes.iter().map(|it| (it.method.as_str().to_lowercase(), operation(it)));
        let template = routes.first().map_or("", |route| route.template);
        paths.insert(format!("/api{template}"), Value::Object(methods.collect()));
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Leveret HTTP API", "version": version},
        "paths": paths,
    })
}

/// The parameters of a template.
fn parameters(template: &str) -> Value {
    let names = template.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let one =
        |name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}});
    names.map(one).collect()
}
