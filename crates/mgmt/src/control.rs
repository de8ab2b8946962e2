//! The server behind the control socket: `POST /ctl/QUESTION` with a JSON object, answered with
//! `{"ok": ...}` or `{"error": {"kind", "text"}}`.

mod audit;
mod deprecated;
mod node;
mod operations;
mod quorum;
mod streams;

pub use audit::Operator;

use crate::api_error::{ApiError, Kind};
use crate::node_info::is_same_node;
use crate::request::Request;
use crate::{
    DOCUMENT_BYTES_MAX, Management, certificates, definitions, definitions_io, listing, salt,
};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Names the node that the operator means.
const NODE_HEADER: &str = "leveret-node";
/// Longest request, bytes: twice the longest text that definitions hold.
const REQUEST_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The router of the questions.
pub fn questions(management: Arc<Management>) -> Router {
    Router::new()
        .route("/ctl/{endpoint}", post(answer))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .route(
            "/ctl/import_definitions",
            post(import).layer(DefaultBodyLimit::max(DOCUMENT_BYTES_MAX)),
        )
        .with_state(management)
}

async fn answer(
    State(management): State<Arc<Management>>,
    ConnectInfo(operator): ConnectInfo<Operator>,
    Path(endpoint): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    respond(&management, (operator, &headers), &endpoint, &body).await
}

/// The one endpoint whose request may be long.
async fn import(
    State(management): State<Arc<Management>>,
    ConnectInfo(operator): ConnectInfo<Operator>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    respond(&management, (operator, &headers), "import_definitions", &body).await
}

async fn respond(
    management: &Management,
    (operator, headers): (Operator, &HeaderMap),
    endpoint: &str,
    body: &[u8],
) -> Response {
    let request = management.check_name(headers).and_then(|()| Request::parse(body));
    let answered = match request {
        Ok(request) => management.answer(&operator, endpoint, &request).await,
        Err(api_error) => Err(api_error),
    };
    let (status, answer) = match answered {
        Ok(value) => (StatusCode::OK, json!({"ok": value})),
        Err(api_error) => {
            tracing::debug!("`{endpoint}` is refused: {}", api_error.text);
            (StatusCode::BAD_REQUEST, api_error.to_json())
        }
    };
    let json = [(header::CONTENT_TYPE, "application/json")];
    (status, json, answer.to_string()).into_response()
}

impl Management {
    /// Answers a question, or does what is asked.
    ///
    /// # Errors
    /// Why it is refused.
    pub async fn ask(
        &self,
        operator: &Operator,
        endpoint: &str,
        fields: Map<String, Value>,
    ) -> Result<Value, ApiError> {
        self.answer(operator, endpoint, &Request::of(fields)).await
    }

    /// Refuses what is meant for a node of another name.
    fn check_name(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let own = self.node_info.name.as_str();
        match headers.get(NODE_HEADER).map(|name| name.as_bytes()) {
            Some(meant)
                if !std::str::from_utf8(meant).is_ok_and(|meant| is_same_node(meant, own)) =>
            {
                Err(ApiError::new(Kind::OtherNode, own))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Answers one request.
    async fn answer(
        &self,
        operator: &Operator,
        endpoint: &str,
        request: &Request,
    ) -> Result<Value, ApiError> {
        let view = self.broker.view();
        let is_traced = |vhost: &str| self.broker.firehose().is_on(vhost);
        if let Some(rows) = listing::rows_of_definitions(&view.meta, endpoint, request, is_traced) {
            return rows;
        }
        if let Some(rows) = listing::rows_of_the_running(self, endpoint, request) {
            return rows;
        }
        if let Some(rows) = listing::rows_of_the_delayed(self, endpoint, request).await {
            return rows;
        }
        if let Some(message) = listing::peek(self, endpoint, request).await {
            return message;
        }
        if let Some(rows) = listing::rows_of_tail(self, endpoint, request).await {
            return rows;
        }
        if let Some(features) = deprecated::answer(self, endpoint, request) {
            return Ok(features);
        }
        if let Some(node_info) = node::node_info(self, endpoint) {
            return Ok(node_info);
        }
        if let Some(answer) = certificates::answer(self, endpoint) {
            return Ok(answer);
        }
        if endpoint == "export_definitions" {
            return definitions_io::export_definitions(self, request.optional("vhost"));
        }
        let answer = self.change(endpoint, request).await?;
        if endpoint != "authenticate_user" {
            audit::note(operator, endpoint, request);
        }
        Ok(answer)
    }

    /// Does what an operator asks for.
    async fn change(&self, endpoint: &str, request: &Request) -> Result<Value, ApiError> {
        if endpoint == "import_definitions" {
            return definitions_io::import(self, request).await;
        }
        self.password_rule.check_request(endpoint, request)?;
        let state = &self.broker.view().meta;
        let Some(commands) =
            definitions::commands(state, endpoint, request, (self.hashing, salt()?))
        else {
            return operations::execute(self, endpoint, request).await;
        };
        for command in commands? {
            let changed = self.broker.apply_definition(command).await;
            changed.map_err(|error| definitions::refused(endpoint, error))?;
        }
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests;
