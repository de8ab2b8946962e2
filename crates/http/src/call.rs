//! A request as handlers see it, and the answer that they make.

use crate::Api;
use crate::caller::Caller;
use crate::list::{Listing, MergeOrder, Merged, OtherRows, Row, RowSet, Rows};
use crate::memory::Holding;
use crate::peers::{PeerReplies, Peers, Sharing};
use crate::query::Query;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::stats::Ranges;
use crate::turns::Slices;
use admission::TurnKey;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use meta::definitions::is_flat;
use meta::{JSON_VALUES_MAX, JsonCount, MetaError, Name, State, Vhost};
use mgmt::Course;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Deepest nesting of lists and objects.
const DEPTH_MAX: usize = 64;

/// A request that was let in.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) api: Arc<Api>,
    pub(crate) caller: Caller,
    /// The path of the request's address, as it came.
    pub(crate) path: String,
    /// Parameters of the template, as the address has them.
    pub(crate) params: Vec<(String, String)>,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) course: Course,
    /// The memory that the body counts for, as long as anybody works on it.
    pub(crate) holding: Option<Arc<Holding>>,
    pub(crate) peers: Peers,
}

/// Takes a piece of what is written; says whether more is wanted.
pub(crate) type Take<'t> = dyn FnMut(Bytes) -> bool + 't;
/// Writes a long answer, piece by piece.
pub(crate) type Write = Box<dyn FnOnce(&mut Take<'_>) + Send>;

/// The end of a handler.
pub(crate) type Outcome = Result<Answer, Refusal>;

/// An answer.
pub(crate) enum Answer {
    Json(Value),
    /// JSON with another status than 200.
    Status(StatusCode, Value),
    /// A list of objects, written as they are made.
    Rows(Rows),
    Text(String),
    /// JSON as text.
    Raw(Vec<u8>),
    /// A long document; a tag tells its versions apart.
    Written {
        content_type: &'static str,
        tag: Option<u64>,
        write: Write,
    },
    NoContent,
    /// The change is made, apart from what the warnings name; `place` is the page to show next.
    Warned {
        warnings: Vec<String>,
        place: Option<String>,
    },
    /// Messages were taken away; this number brings them back.
    Undoable(u64),
    /// The user is logged out; this header removes the cookie.
    LoggedOut(String),
    /// The object is new; its address, if the answer names it.
    Created(Option<String>),
}

impl Call {
    /// The user and the network that the request takes turns for.
    pub(crate) fn asker(&self) -> TurnKey {
        TurnKey {
            user: self.caller.user.clone(),
            address: auth::network(self.caller.peer.address.ip()),
        }
    }

    /// Works beside the threads that serve sockets, when it is the asker's turn.
    pub(crate) async fn beside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let turn = self.api.turns.reads.begin(&self.asker()).await?;
        let call = self.clone();
        let worked = spawn_blocking(move || {
            let worked = call.course.check().map_err(Refusal::from).and_then(|()| work(&call));
            drop(turn);
            worked
        });
        worked.await.unwrap_or_else(|_| Err(Refusal::internal()))
    }

    /// The slices of a change of very many things.
    pub(crate) fn slices(&self) -> Slices {
        Slices::new(Arc::clone(&self.api.turns.slices), self.asker())
    }

    /// Waits until the next of many steps may be done; fails with the reason if the request is to end.
    pub(crate) async fn next_step(&self, slices: &mut Slices) -> Result<(), String> {
        if let Some(why) = self.course.end() {
            return Err(why.to_owned());
        }
        let next = slices.next(|| self.api.now().monotonic_ms.get()).await;
        next.map_err(|refusal| refusal.reason)
    }

    /// A parameter of the template.
    pub(crate) fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn name(&self, name: &str) -> Name {
        Name::from(self.param(name))
    }

    pub(crate) fn view(&self) -> Arc<control::View> {
        self.api.management.broker.view()
    }

    /// Whether a node of that name is this one.
    pub(crate) fn is_of(&self, node: &str) -> bool {
        mgmt::is_same_node(node, &self.api.management.node_info.name)
    }

    /// Refuses an address whose node is not this one, which is all of its cluster.
    pub(crate) fn check_node(&self) -> Result<(), Refusal> {
        if self.is_of(self.param("node")) { Ok(()) } else { Err(Refusal::not_found()) }
    }

    /// Whether other nodes have a part in the answer, and are not asked yet.
    pub(crate) fn may_ask_others(&self) -> bool {
        let is_own = || self.query.flag("local");
        matches!(self.peers, Peers::Unasked) && self.view().meta.nodes().len() > 1 && !is_own()
    }

    /// Whether an object of another node is refused here, since that node can be asked for it, or is.
    pub(crate) fn is_for_others(&self) -> bool {
        matches!(self.peers, Peers::Alone) || self.may_ask_others()
    }

    /// Asks the other nodes, by a question as [`PeerAnswers`](crate::PeerAnswers) take it.
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
        let place = self.api.turns.question(&self.asker())?;
        let replies = self.api.management.control.ask_members(question).await;
        drop(place);
        let n_bytes: usize = replies.iter().flat_map(|it| &it.reply).map(Vec::len).sum();
        let hold = || self.api.turns.memory.hold(&self.caller.user);
        let holding = (!self.caller.is_local()).then(hold);
        if let Some(holding) = &holding {
            holding.complete();
            holding.note(n_bytes as u64)?;
        }
        Ok(PeerReplies::new(replies, holding))
    }

    /// The body, an object; an empty one if there is none.
    pub(crate) fn object(&self) -> Result<Map<String, Value>, Refusal> {
        if self.body.trim_ascii().is_empty() {
            return Ok(Map::new());
        }
        let Value::Object(object) = parsed(&self.body)? else {
            return Err(Refusal::bad_request("body must be a JSON object"));
        };
        Ok(object)
    }

    /// The fields of the body as they came: one of them may be long.
    pub(crate) fn fields(&self) -> Result<BTreeMap<String, &RawValue>, Refusal> {
        let body = if self.body.trim_ascii().is_empty() { b"{}" } else { &*self.body };
        check_size(body)?;
        let raw: &RawValue = serde_json::from_slice(body).map_err(|error| not_json(&error))?;
        let fields = serde_json::from_str(raw.get());
        fields.map_err(|_| Refusal::bad_request("body must be a JSON object"))
    }

    /// The samples that are wanted.
    pub(crate) fn ranges(&self) -> Result<Ranges, Refusal> {
        Ranges::of(&self.query)
    }

    /// Whether lists of queues are without figures, and have their messages' all the same.
    pub(crate) fn wants_plain(&self) -> (bool, bool) {
        let settings = &self.api.settings;
        let flag = |name, set| self.query.get(name).map_or(set, |value| value == "true");
        (flag("disable_stats", settings.is_plain), flag("enable_queue_totals", settings.has_totals))
    }

    /// The fields of the address, of the query and of the body together.
    pub(crate) fn request(&self) -> Result<Request, Refusal> {
        Ok(self.with(self.object()?))
    }

    /// The fields of the address and of the query.
    pub(crate) fn address(&self) -> Request {
        self.with(Map::new())
    }

    fn with(&self, mut fields: Map<String, Value>) -> Request {
        let named = self.query.0.iter().chain(&self.params);
        fields.extend(named.map(|(name, value)| (name.clone(), Value::from(value.as_str()))));
        if !self.caller.is_local() {
            fields.insert("caller".to_owned(), self.caller.user.as_str().into());
        }
        Request::of(fields).during(&self.course)
    }

    /// Whether a list is for the command line tool: `typed=true` shows the types of arguments, and ids.
    pub(crate) fn is_typed(&self) -> bool {
        self.query.flag("typed")
    }

    /// Answers with an object, with the columns that the request wants.
    pub(crate) fn one<R: Row>(&self, row: &R) -> Outcome {
        Ok(Answer::Json(Listing::of(&self.query)?.shown(row)))
    }

    /// Answers with a list of objects, as the request wants it shown.
    pub(crate) fn list<R: Row + Send + Sync + 'static>(&self, rows: Vec<R>) -> Outcome {
        self.list_of(rows)
    }

    /// Answers with a list of objects that are made when they are looked at.
    pub(crate) fn list_of(&self, rows: impl RowSet) -> Outcome {
        if let Peers::Asked(replies) = &self.peers {
            return self.list_with(replies.rows(), MergeOrder::Node, rows);
        }
        Listing::of(&self.query)?.during(&self.course).rows(rows).map(Answer::Rows)
    }

    /// Answers with a list of rows of this node and of others.
    pub(crate) fn list_with(
        &self,
        others: Vec<OtherRows>,
        order: MergeOrder,
        rows: impl RowSet,
    ) -> Outcome {
        let listing = Listing::of(&self.query)?.during(&self.course);
        let (node, order) = (&self.api.management.node_info.name, (order, listing.is_reversed()));
        listing.rows(Merged::new(rows, node, others, order)).map(Answer::Rows)
    }
}

/// JSON with no more levels than are allowed.
pub(crate) fn parsed(text: &[u8]) -> Result<Value, Refusal> {
    check_size(text)?;
    let value = serde_json::from_slice(text).map_err(|error| not_json(&error))?;
    let text = || format!("nested more than {DEPTH_MAX} levels deep");
    if is_flat(&value, DEPTH_MAX) { Ok(value) } else { Err(Refusal::bad_request(text())) }
}

/// Refuses JSON that would become too large a tree.
fn check_size(text: &[u8]) -> Result<(), Refusal> {
    let told = || format!("more than {JSON_VALUES_MAX} values");
    if JsonCount::is_small(text) { Ok(()) } else { Err(Refusal::bad_request(told())) }
}

/// The refusal of a text that is no JSON. COMPAT: the code comes first, the place after it.
fn not_json(error: &serde_json::Error) -> Refusal {
    Refusal::bad_request(format!("not_json: {error}"))
}

/// The virtual host of the address.
pub(crate) fn vhost<'s>(state: &'s State, call: &Call) -> Result<&'s Vhost, Refusal> {
    let vhost = call.param("vhost");
    state.vhost(vhost).ok_or_else(|| MetaError::VhostNotFound(Name::from(vhost)).into())
}
