//! Answers that a page shows, sent anew as they change: a stream of events for each page that is looked at.
//! All who watch the same in the name of the same user share the asking; where nobody watches, nobody asks.

use crate::Api;
use crate::call::Call;
use crate::caller::caller;
use crate::connection::Peer;
use crate::refusal::Refusal;
use crate::turns::{Place, PlaceLimits, Places};
use admission::{FairTurns, TurnKey, TurnLimits};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_core::Stream;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Most streams at a time.
const STREAMS: PlaceLimits = PlaceLimits { of_user_max: 64, of_address_max: 150, of_node_max: 200 };
/// Looks at a time, of all users and of one: the others wait, and are made the less often.
const LOOKS: (usize, usize) = (4, 2);
/// Addresses that a stream watches.
const TOPICS_MAX: usize = 32;
/// Longest address of a topic, bytes.
const TOPIC_BYTES_MAX: usize = 4 * 1024;
/// Longest answer that is sent, bytes.
const FRAME_BYTES_MAX: usize = 2 << 20;
/// Frames that wait for a client, and their bytes, but for the last.
const FRAMES_MAX: usize = 64;
const WAITING_BYTES_MAX: usize = 4 << 20;
/// Time between two looks, unless looking takes more than one part of so many of it.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_MAX: Duration = Duration::from_secs(15);
const LOOKING_PART: u32 = 20;
/// Time that a look may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time after which a client to which nothing was sent hears that the node is there.
const SILENT_MAX_MS: u64 = 2_000;

/// A user's name, and the address that is watched in it.
type Topic = (String, String);

/// All streams.
pub(crate) struct Live {
    /// The answers to requests, as long as the API is served.
    pub(crate) router: OnceLock<Weak<Router>>,
    topics: Mutex<BTreeMap<Topic, Vec<Watcher>>>,
    places: Arc<Places>,
    looks: Arc<FairTurns>,
}

stdx::debug_of!(|_it: Live|);

impl Default for Live {
    fn default() -> Self {
        let (of_node_max, of_user_max) = LOOKS;
        let (waiting_max, waiting_of_asker_max) = (usize::MAX, usize::MAX);
        let looks = TurnLimits { of_node_max, of_user_max, waiting_max, waiting_of_asker_max };
        Self {
            router: OnceLock::new(),
            topics: Mutex::default(),
            places: Places::new("streams", STREAMS),
            looks: FairTurns::new(looks),
        }
    }
}

#[cfg(test)]
impl Live {
    /// Whether nobody watches anything.
    pub(crate) fn is_still(&self) -> bool {
        stdx::lock(&self.topics).is_empty()
    }
}

/// A client that watches a topic.
#[derive(Clone)]
struct Watcher {
    client: Arc<Client>,
    /// The version of the answer that was sent to the client.
    sent: u64,
}

/// The client of a stream.
struct Client {
    headers: HeaderMap,
    peer: Peer,
    frames: mpsc::Sender<Bytes>,
    waiting_bytes: Arc<AtomicUsize>,
    heard_ms: AtomicU64,
}

impl Client {
    /// Sends a frame, unless too much waits already.
    fn send(&self, frame: &Bytes, now_ms: u64) -> bool {
        if self.waiting_bytes.load(Ordering::Relaxed) >= WAITING_BYTES_MAX {
            return false;
        }
        self.waiting_bytes.fetch_add(frame.len(), Ordering::Relaxed);
        let is_sent = self.frames.try_send(frame.clone()).is_ok();
        if is_sent {
            self.heard_ms.store(now_ms, Ordering::Relaxed);
        } else {
            self.waiting_bytes.fetch_sub(frame.len(), Ordering::Relaxed);
        }
        is_sent
    }
}

/// Frames as a body.
struct Frames {
    frames: mpsc::Receiver<Bytes>,
    waiting_bytes: Arc<AtomicUsize>,
    #[expect(dead_code, reason = "held as long as the stream")]
    place: Place,
}

impl Stream for Frames {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.frames.poll_recv(context);
        if let Poll::Ready(Some(frame)) = &next {
            self.waiting_bytes.fetch_sub(frame.len(), Ordering::Relaxed);
        }
        next.map(|frame| frame.map(Ok))
    }
}

/// Begins a stream.
pub(crate) fn stream(call: Call) -> Result<Response, Refusal> {
    let asker = call.asker();
    let Call { api, caller, query, headers, .. } = call;
    let topics: Vec<&str> = query.all("topics").collect();
    let is_address = |topic: &&str| {
        let is_printed = topic.bytes().all(|byte| byte.is_ascii_graphic());
        topic.starts_with('/')
            && !topic.starts_with("/live")
            && is_printed
            && topic.len() <= TOPIC_BYTES_MAX
    };
    if topics.is_empty() || topics.len() > TOPICS_MAX || !topics.iter().all(is_address) {
        let text = format!("topics must be 1 to {TOPICS_MAX} paths below /api, such as /overview");
        return Err(Refusal::bad_request(text));
    }
    let place = api.turns.live.places.take(&asker)?;
    if caller.is_local() {
        return Err(Refusal::unavailable("event streams require a user and the HTTP port"));
    }
    let (sender, frames) = mpsc::channel(FRAMES_MAX);
    let waiting_bytes = Arc::<AtomicUsize>::default();
    let client = Arc::new(Client {
        headers: [header::AUTHORIZATION, header::COOKIE]
            .into_iter()
            .filter_map(|name| Some((name.clone(), headers.get(name)?.clone())))
            .collect(),
        peer: caller.peer,
        frames: sender,
        waiting_bytes: Arc::clone(&waiting_bytes),
        heard_ms: AtomicU64::new(api.now().monotonic_ms.get()),
    });
    for topic in topics {
        watch(&api, (caller.user.clone(), topic.to_owned()), Arc::clone(&client));
    }
    let kinds = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((kinds, Body::from_stream(Frames { frames, waiting_bytes, place })).into_response())
}

/// Has a client told of a topic, which is looked at from now on if it was not.
fn watch(api: &Arc<Api>, topic: Topic, client: Arc<Client>) {
    let mut topics = stdx::lock(&api.turns.live.topics);
    let watcher = Watcher { client, sent: 0 };
    match topics.get_mut(&topic) {
        Some(watchers) => watchers.push(watcher),
        None => {
            topics.insert(topic.clone(), vec![watcher]);
            tokio::spawn(look_on(Arc::clone(api), topic));
        }
    }
}

/// Looks at a topic for as long as somebody watches it.
async fn look_on(api: Arc<Api>, topic: Topic) {
    let (mut seen, mut version, mut pause) = (String::new(), 0, LOOK_EVERY);
    loop {
        sleep(pause).await;
        let router = api.turns.live.router.get().and_then(Weak::upgrade);
        let watchers = watchers(&api, &topic).await;
        let Some((router, first)) = router.zip(watchers.first()) else { return };
        let is_behind = watchers.iter().any(|watcher| watcher.sent != version);
        let began_ms = api.now().monotonic_ms.get();
        let asker = TurnKey { user: topic.0.clone(), address: first.client.peer.address.ip() };
        let turn = api.turns.live.looks.begin(&asker).await;
        let asked = request(&api, &topic.1, &first.client, if is_behind { "" } else { &seen });
        let shown = shown(&topic.1, router, asked).await;
        drop(turn);
        let now_ms = api.now().monotonic_ms.get();
        if let Some((tag, _)) = shown.as_ref().filter(|(tag, _)| *tag != seen || tag.is_empty()) {
            (seen, version) = (tag.clone(), version + 1);
        }
        send(&api, &topic, version, shown.map(|(_, frame)| frame).as_ref(), now_ms);
        let took = Duration::from_millis(now_ms.saturating_sub(began_ms));
        pause = (took * LOOKING_PART).clamp(LOOK_EVERY, LOOK_MAX);
    }
}

/// The clients that watch a topic and still may. The topic ends when none is left.
async fn watchers(api: &Api, topic: &Topic) -> Vec<Watcher> {
    let all = stdx::lock(&api.turns.live.topics).get(topic).cloned().unwrap_or_default();
    let mut gone = Vec::new();
    for Watcher { client, .. } in all {
        let refusal = match caller(api, &client.headers, client.peer, false).await {
            _ if client.frames.is_closed() => Refusal::internal(),
            Ok(caller) if caller.user == topic.0 => continue,
            Ok(_) => Refusal::unauthorized(),
            Err(refusal) => refusal,
        };
        client.send(&refused(&topic.1, refusal.status, refusal.to_json(false)), 0);
        gone.push(client);
    }
    let mut topics = stdx::lock(&api.turns.live.topics);
    let Some(watchers) = topics.get_mut(topic) else { return Vec::new() };
    let is_gone = |client: &Arc<Client>| gone.iter().any(|gone| Arc::ptr_eq(gone, client));
    watchers.retain(|watcher| !is_gone(&watcher.client));
    let left = watchers.clone();
    if left.is_empty() {
        topics.remove(topic);
    }
    left
}

/// The request for a topic, in the name of a client that has the answer with that tag.
fn request(api: &Api, address: &str, client: &Client, tag: &str) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    let uri = format!("{}/api{address}", api.settings.look.prefix);
    *request.uri_mut() = uri.parse().unwrap_or_default();
    *request.headers_mut() = client.headers.clone();
    if let Ok(tag) = HeaderValue::from_str(tag) {
        request.headers_mut().insert(header::IF_NONE_MATCH, tag);
    }
    request.extensions_mut().insert(client.peer);
    request
}

/// The answer as a frame, with its tag; nothing if it is the one that is known.
async fn shown(
    address: &str,
    router: Arc<Router>,
    asked: Request<Body>,
) -> Option<(String, Bytes)> {
    let answered = timeout(PATIENCE, TowerToHyperService::new((*router).clone()).call(asked));
    let failed = |status: StatusCode, told: Value| {
        Some((format!("{status} {told}"), refused(address, status, told)))
    };
    let Ok(Ok(response)) = answered.await else {
        let text = "the node is too busy";
        return failed(StatusCode::SERVICE_UNAVAILABLE, json!({"reason": text}));
    };
    let (head, body) = response.into_parts();
    let text_of = |name| head.headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let is_stream = text_of(header::CONTENT_TYPE).starts_with("text/event-stream");
    let body =
        if is_stream { Err(()) } else { to_bytes(body, FRAME_BYTES_MAX).await.map_err(drop) };
    match (head.status, body) {
        (StatusCode::NOT_MODIFIED, _) => None,
        (_, Err(())) => {
            let text = "the response is too large for an event stream";
            failed(StatusCode::PAYLOAD_TOO_LARGE, json!({"reason": text}))
        }
        (StatusCode::OK, Ok(body)) => {
            Some((text_of(header::ETAG).to_owned(), frame("shown", address, &body)))
        }
        (status, Ok(body)) => {
            let told = serde_json::from_slice(&body).ok().filter(Value::is_object);
            failed(status, told.unwrap_or_else(|| json!({})))
        }
    }
}

fn refused(address: &str, status: StatusCode, mut told: Value) -> Bytes {
    if let Value::Object(told) = &mut told {
        told.insert("status".to_owned(), status.as_u16().into());
    }
    frame("refused", address, told.to_string().as_bytes())
}

fn frame(event: &str, address: &str, body: &[u8]) -> Bytes {
    let mut frame = format!("event: {event}\nid: {address}\n").into_bytes();
    for line in body.split(|byte| *byte == b'\n') {
        frame.extend_from_slice(b"data: ");
        frame.extend_from_slice(line);
        frame.push(b'\n');
    }
    frame.push(b'\n');
    frame.into()
}

/// Sends a version to those who have another one, and a word to those who have long heard nothing.
fn send(api: &Api, topic: &Topic, version: u64, frame: Option<&Bytes>, now_ms: u64) {
    let mut topics = stdx::lock(&api.turns.live.topics);
    for watcher in topics.get_mut(topic).into_iter().flatten() {
        let client = &watcher.client;
        let heard_ms = client.heard_ms.load(Ordering::Relaxed);
        match frame {
            Some(frame) if watcher.sent != version && client.send(frame, now_ms) => {
                watcher.sent = version;
            }
            _ if now_ms >= heard_ms + SILENT_MAX_MS => {
                client.send(&Bytes::from_static(b":\n\n"), now_ms);
            }
            _ => {}
        }
    }
}
