//! The requests of other nodes of the cluster, each in the name of the user who has asked there. They are
//! answered by the routes for users, of what this node has.
//!
//! ```text
//! question  {"path": "/api/...", "query": [[NAME, VALUE], ...], "user": NAME, "tags": [TAG, ...]}
//! reply     status u16, body; an empty one if the node refuses to answer
//! ```

use crate::Api;
use crate::audit::Operator;
use crate::caller::Caller;
use crate::connection::Peer;
use crate::peers::RelayedRequest;
use crate::query::Query;
use crate::server::router;
use crate::settings::Limits;
use axum::Router;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::Request;
use futures_core::Stream as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use std::future::poll_fn;
use std::net::{Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// The bytes of a part of an answer at most.
const PART_BYTES: usize = 256 * 1024;

/// The routes by which a node answers the others of its cluster.
#[derive(Debug)]
pub struct PeerAnswers {
    api: Arc<Api>,
    /// The routes, once there has been a question.
    routes: OnceLock<Router>,
}

/// The answer to a question, in parts.
#[derive(Debug)]
pub struct PeerAnswer {
    /// Bytes of the next parts.
    next: Bytes,
    rest: BodyDataStream,
}

impl PeerAnswers {
    /// The answers of an API.
    #[must_use]
    pub fn new(api: Arc<Api>) -> Arc<Self> {
        Arc::new(Self { api, routes: OnceLock::new() })
    }

    /// Begins to answer a question; one that cannot be read has an empty answer.
    pub async fn begin(&self, question: &[u8]) -> PeerAnswer {
        let (mut next, mut rest) = (Bytes::new(), Body::empty());
        if let Some(request) = request(question)
            && !self.api.turns.is_stopping.load(Ordering::Relaxed)
        {
            let routes = self.routes.get_or_init(|| router(Arc::clone(&self.api), ""));
            let Ok(response) = TowerToHyperService::new(routes.clone()).call(request).await;
            next = Bytes::copy_from_slice(&response.status().as_u16().to_be_bytes());
            rest = Body::new(response.into_body());
        }
        PeerAnswer { next, rest: rest.into_data_stream() }
    }
}

impl PeerAnswer {
    /// The next part; none at the end.
    pub async fn next(&mut self) -> Option<Bytes> {
        while self.next.is_empty() {
            let next = poll_fn(|cx| Pin::new(&mut self.rest).poll_next(cx)).await;
            self.next = next?.ok()?;
        }
        Some(self.next.split_to(self.next.len().min(PART_BYTES)))
    }
}

/// The request of a question.
fn request(question: &[u8]) -> Option<Request<Body>> {
    let question: Value = serde_json::from_slice(question).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let list = |name| question.get(name).and_then(Value::as_array);
    let pair = |pair: &Value| Some((text(pair.get(0)?)?, text(pair.get(1)?)?));
    let query = Query(list("query")?.iter().map(pair).collect::<Option<_>>()?);
    let tags = list("tags")?.iter().map(text).collect::<Option<_>>()?;
    let user = text(question.get("user")?)?;
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    let peer = Peer { address, is_encrypted: false, limits: Limits::default() };
    let operator = Operator::User(user.clone(), address.ip());
    let caller = Caller { user, tags, peer, operator };
    let mut request = Request::get(question.get("path")?.as_str()?).body(Body::empty()).ok()?;
    request.extensions_mut().insert(peer);
    request.extensions_mut().insert(RelayedRequest { caller, query });
    Some(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn questions_that_are_no_requests_are_not_asked() {
        let whole = json!({"path": "/api/queues", "query": [["a", "b"]], "user": "u", "tags": []});
        let read = |question: &Value| request(question.to_string().as_bytes());
        let asked = read(&whole).unwrap();
        let relayed: &RelayedRequest = asked.extensions().get().unwrap();
        assert_eq!((relayed.query.get("a"), relayed.caller.is_local()), (Some("b"), false));
        for (field, value) in [
            ("path", json!("not\u{0}a path")),
            ("path", Value::Null),
            ("query", json!([["a"]])),
            ("user", json!(1)),
            ("tags", json!([null])),
        ] {
            let mut damaged = whole.clone();
            damaged[field] = value;
            assert!(read(&damaged).is_none(), "{damaged}");
        }
        assert!(request(b"").is_none());
    }
}
