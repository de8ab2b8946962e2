//! The server behind the control socket: `POST /ctl/QUESTION` with a JSON object, answered with
//! `{"ok": ...}` or `{"error": {"kind", "text"}}`.

mod deprecated;
mod node;
mod operations;

use crate::refusal::Refusal;
use crate::request::Request;
use crate::{ControlSocket, DOCUMENT_BYTES_MAX, Management, definitions, document, listing, salt};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use std::future::Future;
use std::sync::Arc;

/// Longest request, bytes: twice the longest text that definitions hold.
const REQUEST_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Answers questions until `until` resolves; then those that are being answered are finished.
///
/// # Errors
/// The system's.
pub async fn serve(
    socket: ControlSocket,
    management: Arc<Management>,
    until: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/ctl/{question}", post(answer))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .route(
            "/ctl/import_definitions",
            post(import).layer(DefaultBodyLimit::max(DOCUMENT_BYTES_MAX)),
        )
        .with_state(management);
    let ControlSocket { listener, file } = socket;
    let served = axum::serve(listener, router).with_graceful_shutdown(until).await;
    drop(file);
    served
}

async fn answer(
    State(management): State<Arc<Management>>,
    Path(question): Path<String>,
    body: Bytes,
) -> Response {
    respond(&management, &question, &body).await
}

/// The one question that may be long.
async fn import(State(management): State<Arc<Management>>, body: Bytes) -> Response {
    respond(&management, "import_definitions", &body).await
}

async fn respond(management: &Management, question: &str, body: &[u8]) -> Response {
    let answered = match Request::parse(body) {
        Ok(request) => management.answer(question, &request).await,
        Err(refusal) => Err(refusal),
    };
    let (status, answer) = match answered {
        Ok(value) => (StatusCode::OK, json!({"ok": value})),
        Err(refusal) => {
            tracing::debug!("`{question}` is refused: {}", refusal.text);
            (StatusCode::BAD_REQUEST, refusal.to_json())
        }
    };
    let json = [(header::CONTENT_TYPE, "application/json")];
    (status, json, answer.to_string()).into_response()
}

impl Management {
    /// Answers one question.
    async fn answer(&self, question: &str, request: &Request) -> Result<Value, Refusal> {
        let view = self.broker.view();
        let is_traced = |vhost: &str| self.broker.is_traced(vhost);
        if let Some(rows) = listing::rows_of_definitions(&view.meta, question, request, is_traced) {
            return rows;
        }
        if let Some(rows) = listing::rows_of_the_running(self, question, request) {
            return rows;
        }
        if let Some(rows) = listing::rows_of_the_delayed(self, question, request).await {
            return rows;
        }
        if let Some(features) = deprecated::answer(self, question, request) {
            return Ok(features);
        }
        if let Some(facts) = node::facts(self, question) {
            return Ok(facts);
        }
        if let Some(answer) = document::answer(self, question, request).await {
            return answer;
        }
        self.password_rule.check_request(question, request)?;
        if let Some(commands) =
            definitions::commands(&view.meta, question, request, (self.hashing, salt()?))
        {
            for command in commands? {
                let changed = self.broker.administer(command).await;
                changed.map_err(|error| definitions::refused(question, error))?;
            }
            tracing::info!("management: {question}");
            return Ok(Value::Null);
        }
        operations::carry_out(self, question, request).await
    }
}

#[cfg(test)]
mod tests;
