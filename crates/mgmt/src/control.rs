//! The server behind the control socket: `POST /ctl/QUESTION` with a JSON object, answered with
//! `{"ok": ...}` or `{"error": {"kind", "text"}}`.

mod audit;
mod deprecated;
mod node;
mod operations;

use crate::facts::is_same_node;
use crate::refusal::{Kind, Refusal};
use crate::request::Request;
use crate::{ControlSocket, DOCUMENT_BYTES_MAX, Management, definitions, document, listing, salt};
use audit::Operator;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use std::future::Future;
use std::sync::Arc;

/// Names the node that the operator means.
const NODE_HEADER: &str = "leveret-node";
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
    let router = router.into_make_service_with_connect_info::<Operator>();
    let ControlSocket { listener, file } = socket;
    let served = axum::serve(listener, router).with_graceful_shutdown(until).await;
    drop(file);
    served
}

async fn answer(
    State(management): State<Arc<Management>>,
    ConnectInfo(operator): ConnectInfo<Operator>,
    Path(question): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    respond(&management, (operator, &headers), &question, &body).await
}

/// The one question that may be long.
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
    question: &str,
    body: &[u8],
) -> Response {
    let request = management.check_name(headers).and_then(|()| Request::parse(body));
    let answered = match request {
        Ok(request) => management.answer(operator, question, &request).await,
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
    /// Refuses what is meant for a node of another name.
    fn check_name(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let own = self.facts.name.as_str();
        match headers.get(NODE_HEADER).map(|name| name.as_bytes()) {
            Some(meant)
                if !std::str::from_utf8(meant).is_ok_and(|meant| is_same_node(meant, own)) =>
            {
                Err(Refusal::new(Kind::OtherNode, own))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Answers one question.
    async fn answer(
        &self,
        operator: Operator,
        question: &str,
        request: &Request,
    ) -> Result<Value, Refusal> {
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
        if question == "export_definitions" {
            return document::export(self, request.optional("vhost"));
        }
        let answer = self.change(question, request).await?;
        if question != "authenticate_user" {
            audit::note(operator, question, request);
        }
        Ok(answer)
    }

    /// Does what an operator asks for.
    async fn change(&self, question: &str, request: &Request) -> Result<Value, Refusal> {
        if question == "import_definitions" {
            return document::import(self, request).await;
        }
        self.password_rule.check_request(question, request)?;
        let state = &self.broker.view().meta;
        let Some(commands) =
            definitions::commands(state, question, request, (self.hashing, salt()?))
        else {
            return operations::carry_out(self, question, request).await;
        };
        for command in commands? {
            let changed = self.broker.administer(command).await;
            changed.map_err(|error| definitions::refused(question, error))?;
        }
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests;
