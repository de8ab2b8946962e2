//! Requests that the nodes of a cluster answer together: the one that has been asked asks the others by their
//! own routes, in the name of the same user.
//!
//! ```text
//! question  {"path": "/api/...", "query": [[NAME, VALUE], ...], "user": NAME, "tags": [TAG, ...]}
//! reply     status u16, body; an empty one if the node refuses to answer
//! ```

use crate::Api;
use crate::audit::Operator;
use crate::call::Call;
use crate::caller::Caller;
use crate::connection::Peer;
use crate::list::{Listing, OtherRows};
use crate::memory::Holding;
use crate::query::Query;
use crate::refusal::Refusal;
use crate::routes::Sharing;
use crate::server::router;
use crate::settings::Limits;
use api::UNANSWERED_HEADER;
use axum::Router;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode};
use futures_core::Stream as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use mgmt::MemberReply;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::future::poll_fn;
use std::net::{Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The bytes of a part of a reply at most.
const PART_BYTES: usize = 256 * 1024;

/// The other nodes of the cluster, as a request knows them.
#[derive(Clone, Debug)]
pub(crate) enum Peers {
    /// The answer is this node's alone.
    Alone,
    /// Others are asked if the route is shared.
    Unasked,
    /// Others were asked.
    Asked(Arc<PeerReplies>),
}

/// The replies of the other nodes, by their names.
#[derive(Debug)]
pub(crate) struct PeerReplies {
    replies: Vec<PeerReply>,
    /// The memory that replies to a user count for.
    _holding: Option<Holding>,
}

/// The reply of a node.
#[derive(Debug)]
struct PeerReply {
    node: String,
    is_answered: AtomicBool,
    /// The body, until it is read.
    body: Mutex<Vec<u8>>,
}

impl PeerReply {
    fn of(MemberReply { node, reply }: MemberReply) -> Self {
        let body = reply.and_then(|reply| {
            let (status, body) = reply.split_first_chunk()?;
            (u16::from_be_bytes(*status) == StatusCode::OK.as_u16()).then(|| body.to_vec())
        });
        let is_answered = AtomicBool::new(body.is_some());
        Self { node, is_answered, body: Mutex::new(body.unwrap_or_default()) }
    }

    fn is_answered(&self) -> bool {
        self.is_answered.load(Ordering::Relaxed)
    }

    /// Reads the body. A node whose reply is damaged has not answered.
    fn read<T>(&self, read: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let body = std::mem::take(&mut *stdx::lock(&self.body));
        let read = if self.is_answered() { read(&body) } else { None };
        self.is_answered.store(read.is_some(), Ordering::Relaxed);
        read
    }
}

impl PeerReplies {
    /// Whether the node of that name has answered.
    pub(crate) fn has(&self, node: &str) -> bool {
        self.replies.iter().any(|it| it.node == node && it.is_answered())
    }

    /// The rows of the nodes that have answered with a list.
    pub(crate) fn rows(&self) -> Vec<OtherRows> {
        let rows = |it: &PeerReply| it.read(|body| OtherRows::parse(&it.node, body));
        self.replies.iter().filter_map(rows).collect()
    }

    /// The objects of the nodes that have answered with one.
    pub(crate) fn objects(&self) -> Vec<Value> {
        let object = |body: &[u8]| serde_json::from_slice(body).ok().filter(Value::is_object);
        self.replies.iter().filter_map(|it| it.read(object)).collect()
    }

    /// The text of the first node that has the object.
    pub(crate) fn first(&self) -> Option<Vec<u8>> {
        let text = |body: &[u8]| {
            let _is_json: &RawValue = serde_json::from_slice(body).ok()?;
            Some(body.to_vec())
        };
        self.replies.iter().find_map(|it| it.read(text))
    }

    /// Names the nodes that have not answered.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        let missing = self.replies.iter().filter(|it| !it.is_answered());
        let names: Vec<&str> = missing.map(|it| it.node.as_str()).collect();
        if let Ok(names) = HeaderValue::from_bytes(names.join(",").as_bytes())
            && !names.is_empty()
        {
            headers.insert(UNANSWERED_HEADER, names);
        }
    }
}

impl Call {
    /// Whether other nodes have a part in the answer, and are not asked yet.
    pub(crate) fn may_ask_others(&self) -> bool {
        let is_own = || self.query.flag("local");
        matches!(self.peers, Peers::Unasked) && self.view().meta.nodes().len() > 1 && !is_own()
    }

    /// Whether an object of another node is refused here, since that node can be asked for it, or is.
    pub(crate) fn is_for_others(&self) -> bool {
        matches!(self.peers, Peers::Alone) || self.may_ask_others()
    }

    /// Asks the other nodes.
    pub(crate) async fn ask_others(&self, sharing: Sharing) -> Result<PeerReplies, Refusal> {
        let query = match sharing {
            Sharing::List => Listing::part(&self.query)?,
            Sharing::Own | Sharing::Object | Sharing::Sum => self.query.clone(),
        };
        let prefix = if self.caller.is_local() { "" } else { &*self.api.settings.look.prefix };
        let query = query.0.iter().map(|(name, value)| json!([name, value]));
        let question = json!({
            "path": self.path.strip_prefix(prefix).unwrap_or(&self.path),
            "query": query.chain([json!(["local", "true"])]).collect::<Value>(),
            "user": self.caller.user,
            "tags": self.caller.tags,
        });
        let question = question.to_string().into_bytes();
        let mut replies = self.api.management.control.ask_members(question).await;
        replies.sort_by(|left, right| left.node.cmp(&right.node));
        let n_bytes: usize = replies.iter().flat_map(|it| &it.reply).map(Vec::len).sum();
        let hold = || self.api.turns.memory.hold(&self.caller.user);
        let holding = (!self.caller.is_local()).then(hold);
        if let Some(holding) = &holding {
            holding.complete();
            holding.note(n_bytes as u64)?;
        }
        let replies = replies.into_iter().map(PeerReply::of).collect();
        Ok(PeerReplies { replies, _holding: holding })
    }
}

/// A request as another node asks it.
#[derive(Clone)]
pub(crate) struct RelayedRequest {
    pub(crate) caller: Caller,
    pub(crate) query: Query,
}

/// The routes that answer other nodes, from the first question until the node stops.
#[derive(Debug, Default)]
pub(crate) struct PeerRoutes(Mutex<Option<Router>>);

impl PeerRoutes {
    fn get(&self, api: &Arc<Api>) -> Router {
        stdx::lock(&self.0).get_or_insert_with(|| router(Arc::clone(api), "")).clone()
    }

    /// Drops the routes, which hold the API.
    pub(crate) fn end(&self) {
        *stdx::lock(&self.0) = None;
    }
}

/// The answer of this node to the question of another one, in parts.
#[derive(Debug)]
pub struct PeerAnswer {
    /// Bytes of the next parts.
    next: Bytes,
    rest: BodyDataStream,
}

impl PeerAnswer {
    /// Begins to answer a question; one that cannot be read has an empty answer.
    pub async fn begin(api: Arc<Api>, question: &[u8]) -> Self {
        let (mut next, mut rest) = (Bytes::new(), Body::empty());
        if let Some(request) = request(question)
            && !api.turns.is_stopping.load(Ordering::Relaxed)
        {
            let routes = api.peer_routes.get(&api);
            let Ok(response) = TowerToHyperService::new(routes).call(request).await;
            next = Bytes::copy_from_slice(&response.status().as_u16().to_be_bytes());
            rest = Body::new(response.into_body());
        }
        Self { next, rest: rest.into_data_stream() }
    }

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
