//! The other nodes of a cluster in a request: whether they have a part in its answer, and their replies.

use crate::caller::Caller;
use crate::list::OtherRows;
use crate::memory::Holding;
use crate::query::Query;
use api::UNANSWERED_HEADER;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use mgmt::MemberReply;
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The part that the other nodes of a cluster have in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// The others have no part.
    Own,
    /// The rows of the list are spread over the nodes.
    List,
    /// The object is on one of the nodes.
    Object,
    /// Each node has a part of the object's figures.
    Sum,
}

/// The status of a reply that is an answer.
const OK: [u8; 2] = StatusCode::OK.as_u16().to_be_bytes();

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
    /// The status and the body, until they are read.
    reply: Mutex<Vec<u8>>,
}

impl PeerReply {
    fn of(MemberReply { node, reply }: MemberReply) -> Self {
        let reply = reply.unwrap_or_default();
        let is_answered = AtomicBool::new(reply.starts_with(&OK));
        Self { node, is_answered, reply: Mutex::new(reply) }
    }

    fn is_answered(&self) -> bool {
        self.is_answered.load(Ordering::Relaxed)
    }

    /// Reads the body. A node whose reply is damaged has not answered.
    fn read<T>(&self, read: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let reply = std::mem::take(&mut *stdx::lock(&self.reply));
        let body = reply.strip_prefix(&OK).filter(|_| self.is_answered());
        let read = body.and_then(read);
        self.is_answered.store(read.is_some(), Ordering::Relaxed);
        read
    }
}

impl PeerReplies {
    /// The replies of nodes; `holding` is the memory that they count for.
    pub(crate) fn new(mut replies: Vec<MemberReply>, holding: Option<Holding>) -> Self {
        replies.sort_by(|left, right| left.node.cmp(&right.node));
        Self { replies: replies.into_iter().map(PeerReply::of).collect(), _holding: holding }
    }

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

/// A request as another node asks it.
#[derive(Clone)]
pub(crate) struct RelayedRequest {
    pub(crate) caller: Caller,
    pub(crate) query: Query,
}
