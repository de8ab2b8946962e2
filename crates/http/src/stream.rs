//! Answers on their way out. What reads runs beside the threads that serve sockets; a long list is made in
//! pieces, the next when the client has taken the one before, and holds no thread in between.

use crate::call::{Answer, Call, Outcome, Take, Write};
use crate::connection::IsTold;
use crate::jobs::Jobs;
use crate::list::Rows;
use crate::live::Live;
use crate::long::{Audience, LONG_MAX, LongTurn, LongTurns, OF_OPERATORS_MAX};
use crate::memory::Memory;
use crate::negotiation;
use crate::refusal::Refusal;
use crate::slow::Cut;
use crate::turns::{Place, PlaceLimits, Places};
use admission::{FairTurns, TurnKey, TurnLimits};
use admission::{Place as Unread, Places as UnreadPlaces};
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_core::Stream;
use serde_json::Value;
use std::collections::VecDeque;
use std::io;
use std::num::NonZero;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread::available_parallelism;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};

/// Bytes of a piece.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;
/// A page that is longer goes out in pieces, as lists do.
const PAGE_BYTES_MAX: usize = 16 * PIECE_BYTES;
/// Pieces that wait for the client.
const PIECES_MAX: usize = 2;
/// Requests that read at a time: one for each processor, but so many at least and at most; of one user half
/// of them.
const READS_MIN: usize = 4;
const READS_MAX: usize = 8;
/// Changes with a long body at a time, of all users and of one.
const CHANGES: (usize, usize) = (8, 4);
/// Slices of changes of very many things at a time, of all users and of one.
const SLICES: (usize, usize) = (4, 2);
/// Requests that wait for their turn to read, or to change something: of all users, and of one at an address.
const WAITING: (usize, usize) = (4_096, 512);
/// Searches, exports, tails and jobs at a time.
const SEARCHES: PlaceLimits = PlaceLimits { of_user_max: 4, of_address_max: 12, of_node_max: 16 };
/// Uploads at a time.
const UPLOADS: PlaceLimits = PlaceLimits { of_user_max: 8, of_address_max: 48, of_node_max: 64 };
/// Requests that wait for other nodes of the cluster at a time.
const QUESTIONS: PlaceLimits = PlaceLimits { of_user_max: 16, of_address_max: 48, of_node_max: 64 };
/// Threads of the runtime for what waits or takes long (`max_blocking_threads` of tokio).
const BLOCKING_THREADS: usize = 512;
/// The most of them that requests hold at a time, whatever their clients do. The lines are those of answers
/// that wait for a client that reads; of looks through messages and their answers; of reads,
/// changes and slices, each with a thread for the disk; of scrapes that begin. Uploads hold none.
const HELD_THREADS_MAX: usize = LONG_MAX
    + OF_OPERATORS_MAX
    + 2 * SEARCHES.of_node_max
    + 2 * (READS_MAX + CHANGES.0 + SLICES.0)
    + SCRAPES_MAX;
// Storage, streams (64 at the disk) and what the node does by itself have the rest.
const _: () = assert!(HELD_THREADS_MAX <= BLOCKING_THREADS / 2);
/// Scrapes that are written at a time, until they are whole or found to be long.
const SCRAPES_MAX: usize = 2;
/// A scrape that is longer is a long answer, bytes.
const SHORT_BYTES_MAX: usize = 256 * 1024;
/// Short scrapes that their clients have not read: a new one takes the place of the oldest.
const SHORT_UNREAD_MAX: u64 = 256;
/// The type of answers that go on for as long as something happens.
const EVENTS: &str = "text/event-stream";

/// The header that numbers what can be brought back.
const UNDO_HEADER: &str = "x-leveret-undo";

/// The header that tells what was not done, of an answer without a body.
const WARNING_HEADER: &str = "x-leveret-warning";
/// Warnings that are told so, and bytes of each.
const WARNINGS_MAX: usize = 32;
const WARNING_BYTES_MAX: usize = 240;

/// The type of most answers.
pub(crate) const JSON: &str = "application/json";

/// A sink of pieces, to write to.
pub(crate) struct Taker<'t, 'a>(pub(crate) &'t mut Take<'a>);

impl io::Write for Taker<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_wanted = (self.0)(Bytes::copy_from_slice(bytes));
        if is_wanted { Ok(bytes.len()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Scrapes that are being begun, and short ones that their clients have not read.
#[derive(Debug)]
struct Scrapes {
    begun: Arc<Semaphore>,
    unread: Arc<UnreadPlaces>,
}

/// Places of requests that take long.
#[derive(Debug)]
struct LongPlaces {
    searches: Arc<Places>,
    uploads: Arc<Places>,
    questions: Arc<Places>,
}

/// Turns of requests.
pub(crate) struct Turns {
    pub(crate) reads: Arc<FairTurns>,
    pub(crate) changes: Arc<FairTurns>,
    pub(crate) slices: Arc<FairTurns>,
    scrapes: Scrapes,
    long: Arc<LongTurns>,
    places: LongPlaces,
    pub(crate) memory: Arc<Memory>,
    /// Whether the node stops: everything under way is to end.
    pub(crate) is_stopping: Arc<AtomicBool>,
    /// Work that goes on after its request.
    pub(crate) jobs: Jobs,
    pub(crate) live: Live,
    /// Decides which log lines that strangers cause are written; all are written until the API is served.
    pub(crate) is_told: OnceLock<IsTold>,
}

/// Turns of so many at a time, of all users and of one.
fn turns(of_node_max: usize, of_user_max: usize) -> Arc<FairTurns> {
    let (waiting_max, waiting_of_asker_max) = WAITING;
    FairTurns::new(TurnLimits { of_node_max, of_user_max, waiting_max, waiting_of_asker_max })
}

impl Turns {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        let n_processors = available_parallelism().map_or(READS_MIN, NonZero::get);
        let n_reads = n_processors.clamp(READS_MIN, READS_MAX);
        Self {
            reads: turns(n_reads, n_reads / 2),
            changes: turns(CHANGES.0, CHANGES.1),
            slices: turns(SLICES.0, SLICES.1),
            scrapes: Scrapes {
                begun: Arc::new(Semaphore::new(SCRAPES_MAX)),
                unread: UnreadPlaces::new(SHORT_UNREAD_MAX),
            },
            is_told: OnceLock::new(),
            long: Arc::default(),
            places: LongPlaces {
                searches: Places::new("searches", SEARCHES),
                uploads: Places::new("uploads", UPLOADS),
                questions: Places::new("lists of the whole cluster", QUESTIONS),
            },
            memory,
            is_stopping: Arc::default(),
            jobs: Jobs::default(),
            live: Live::default(),
        }
    }

    /// Runs what reads, as soon as it is its turn.
    pub(crate) async fn answered(
        &self,
        call: Call,
        read: impl FnOnce(&Call) -> Outcome + Send + 'static,
    ) -> Result<Response, Refusal> {
        let (asker, audience) = (call.asker(), Audience::user(&call.caller));
        match call.beside(move |call| made(call, read)).await? {
            Made::Whole(response) => Ok(response),
            Made::Written(content_type, tag, write) => {
                // Searches have turns of their own.
                let turn = match content_type {
                    EVENTS => None,
                    _ => Some(self.long.take(audience).await?),
                };
                let reader = Reader::of(begin(write), turn.map(Turn::Long));
                let mut response = text(content_type, reader);
                let tag = tag.map(|tag| HeaderValue::from_str(&negotiation::quoted(tag)));
                if let Some(Ok(tag)) = tag {
                    response.headers_mut().insert(header::ETAG, tag);
                }
                Ok(response)
            }
            Made::Begun(first, pieces) => {
                let (turn, next) = (self.long.take(audience).await?, Next::Rests(pieces));
                let (reads, lost) = ((Arc::clone(&self.reads), asker), turn.lost());
                let list = List { first: Some(first), next, reads, turn };
                Ok(cut_by(lost, json(Body::from_stream(list))))
            }
        }
    }

    /// The place of a long look through messages.
    pub(crate) fn search(&self, asker: &TurnKey) -> Result<Place, Refusal> {
        self.places.searches.take(asker)
    }

    /// The place of an upload.
    pub(crate) fn upload(&self, asker: &TurnKey) -> Result<Place, Refusal> {
        self.places.uploads.take(asker)
    }

    /// The place of a request that waits for other nodes.
    pub(crate) fn question(&self, asker: &TurnKey) -> Result<Place, Refusal> {
        self.places.questions.take(asker)
    }

    /// Works out what a scrape needs to be begun; `None` when the runtime ends.
    pub(crate) async fn prepared<T: Send + 'static>(
        &self,
        prepare: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (scrapes, mut begun) = (Arc::clone(&self.scrapes.begun), JoinSet::new());
        begun.spawn(async move {
            let _turn = scrapes.acquire_owned().await;
            spawn_blocking(prepare).await.ok()
        });
        begun.join_next().await?.ok()?
    }

    /// A text for anybody: short ones wait for nobody who does not read.
    pub(crate) async fn scraped(
        &self,
        audience: Audience,
        content_type: &'static str,
        write: impl Fn(&mut Take<'_>) + Send + Sync + 'static,
    ) -> Result<Response, Refusal> {
        let write = Arc::new(write);
        let again = Arc::clone(&write);
        let scrapes = Arc::clone(&self.scrapes.begun);
        // The scrape begins on a task of its own: a connection that waits for its own turn must not hold this
        // one.
        let mut begun = JoinSet::new();
        begun.spawn(async move {
            let _turn = scrapes.acquire_owned().await;
            let mut reader = Reader::of(begin(move |take| write(take)), None);
            let mut n_bytes = 0;
            while n_bytes <= SHORT_BYTES_MAX {
                let Some(piece) = reader.rest.recv().await else { return (reader, false) };
                n_bytes += piece.len();
                reader.first.push_back(piece);
            }
            (reader, true)
        });
        let Some(Ok((mut reader, is_long))) = begun.join_next().await else {
            return Err(Refusal::internal());
        };
        if is_long {
            // A scrape that waits for a turn holds no thread: the text is written anew.
            drop(reader);
            let turn = self.long.take(audience).await?;
            reader = Reader::of(begin(move |take| again(take)), Some(Turn::Long(turn)));
        } else {
            reader.turn = Some(Turn::Short(self.scrapes.unread.take(audience.network())));
        }
        Ok(text(content_type, reader))
    }
}

/// Has a text written in pieces on a thread of its own.
fn begin(write: impl FnOnce(&mut Take<'_>) + Send + 'static) -> mpsc::Receiver<Bytes> {
    let (writer, reader) = mpsc::channel(PIECES_MAX);
    spawn_blocking(move || {
        // An empty piece asks whether anybody still reads.
        write(&mut |piece| match piece.is_empty() {
            true => !writer.is_closed(),
            false => writer.blocking_send(piece).is_ok(),
        });
    });
    reader
}

fn text(content_type: &'static str, reader: Reader) -> Response {
    let lost = reader.turn.as_ref().map(Turn::lost);
    let response =
        ([(header::CONTENT_TYPE, content_type)], Body::from_stream(reader)).into_response();
    match lost {
        Some(lost) => cut_by(lost, response),
        None => response,
    }
}

fn cut_by(lost: Arc<Notify>, mut response: Response) -> Response {
    response.extensions_mut().insert(Cut(lost));
    response
}

/// An answer, or a list that begins with a text.
enum Made {
    Whole(Response),
    Written(&'static str, Option<u64>, Write),
    Begun(String, Pieces),
}

#[expect(clippy::wildcard_enum_match_arm, reason = "other answers are in one piece")]
fn made(call: &Call, read: impl FnOnce(&Call) -> Outcome) -> Result<Made, Refusal> {
    let rows = match read(call)? {
        Answer::Rows(rows) => rows,
        Answer::Written { content_type, tag, write } => {
            return Ok(Made::Written(content_type, tag, write));
        }
        answer => return Ok(Made::Whole(whole(answer))),
    };
    let is_page = rows.is_page;
    let mut pieces = Pieces::new(rows);
    let mut first = pieces.next_piece();
    while is_page && !pieces.is_over() && first.len() < PAGE_BYTES_MAX {
        call.course.check()?;
        first.push_str(&pieces.next_piece());
    }
    Ok(if pieces.is_over() { Made::Whole(json(first)) } else { Made::Begun(first, pieces) })
}

/// The warnings as values of headers; how many more there are is the last.
fn warning_headers(warnings: &[String]) -> Vec<HeaderValue> {
    let n_more = warnings.len().saturating_sub(WARNINGS_MAX);
    let more = (n_more > 0).then(|| format!("and {n_more} more in the log"));
    let value = |text: &str| {
        let cut = text.get(..text.floor_char_boundary(WARNING_BYTES_MAX)).unwrap_or_default();
        HeaderValue::from_str(&cut.replace(|c: char| c.is_control() || !c.is_ascii(), "?")).ok()
    };
    let told = warnings.iter().take(WARNINGS_MAX).chain(&more);
    told.filter_map(|text| value(text)).collect()
}

/// An answer in one piece.
pub(crate) fn whole(answer: Answer) -> Response {
    match answer {
        Answer::Json(value) => json(value.to_string()),
        Answer::Raw(text) => json(text),
        Answer::Status(status, value) => (status, json(value.to_string())).into_response(),
        Answer::Text(text) => ([(header::CONTENT_TYPE, "text/plain")], text).into_response(),
        Answer::NoContent => StatusCode::NO_CONTENT.into_response(),
        Answer::Warned { warnings, place } => {
            let mut answer = match place {
                None => StatusCode::NO_CONTENT.into_response(),
                Some(it) => (StatusCode::SEE_OTHER, [(header::LOCATION, it)]).into_response(),
            };
            for text in warning_headers(&warnings) {
                answer.headers_mut().append(WARNING_HEADER, text);
            }
            answer
        }
        Answer::Undoable(id) => {
            (StatusCode::NO_CONTENT, [(UNDO_HEADER, id.to_string())]).into_response()
        }
        Answer::LoggedOut(cookie) => {
            (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
        }
        Answer::Created(None) => StatusCode::CREATED.into_response(),
        Answer::Created(Some(place)) => {
            (StatusCode::CREATED, [(header::LOCATION, place)]).into_response()
        }
        Answer::Written { write, .. } => {
            let mut text = Vec::new();
            write(&mut |piece| {
                text.extend_from_slice(&piece);
                true
            });
            json(text)
        }
        Answer::Rows(rows) => {
            let (mut pieces, mut text) = (Pieces::new(rows), String::new());
            while !pieces.is_over() {
                text.push_str(&pieces.next_piece());
            }
            json(text)
        }
    }
}

fn json(body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, JSON)], body.into()).into_response()
}

/// The text of a list, a piece at a time.
struct Pieces {
    /// Text before the next item.
    before: Option<String>,
    items: Box<dyn Iterator<Item = Value> + Send>,
    next: Option<Value>,
    tail: Option<String>,
}

impl Pieces {
    fn new(Rows { head, mut items, tail, .. }: Rows) -> Self {
        let next = items.next();
        Self { before: Some(head), items, next, tail: Some(tail) }
    }

    const fn is_over(&self) -> bool {
        self.tail.is_none()
    }

    /// The next piece; empty at the end.
    fn next_piece(&mut self) -> String {
        let mut text = self.before.take().unwrap_or_default();
        while text.len() < PIECE_BYTES {
            let Some(item) = self.next.take() else {
                text.push_str(&self.tail.take().unwrap_or_default());
                break;
            };
            text.push_str(&item.to_string());
            self.next = self.items.next();
            if self.next.is_some() {
                text.push(',');
            }
        }
        text
    }
}

/// A list as a body.
struct List {
    first: Option<String>,
    next: Next,
    /// Turns to read, and who takes them: each piece is made in a turn.
    reads: (Arc<FairTurns>, TurnKey),
    #[expect(dead_code, reason = "held as long as the list")]
    turn: LongTurn,
}

/// The rest of a list.
enum Next {
    Rests(Pieces),
    IsMade(JoinHandle<Option<(String, Pieces)>>),
    IsOver,
}

/// Makes the next piece, in turn, beside the threads that serve sockets.
async fn piece(
    reads: Arc<FairTurns>,
    asker: TurnKey,
    mut pieces: Pieces,
) -> Option<(String, Pieces)> {
    let turn = reads.begin(&asker).await.ok()?;
    let made = spawn_blocking(move || {
        let piece = pieces.next_piece();
        drop(turn);
        (piece, pieces)
    });
    made.await.ok()
}

impl Stream for List {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Bytes::from(first))));
        }
        let mut making = match std::mem::replace(&mut self.next, Next::IsOver) {
            Next::IsOver => return Poll::Ready(None),
            Next::Rests(pieces) if pieces.is_over() => return Poll::Ready(None),
            Next::Rests(pieces) => {
                tokio::spawn(piece(Arc::clone(&self.reads.0), self.reads.1.clone(), pieces))
            }
            Next::IsMade(making) => making,
        };
        match Pin::new(&mut making).poll(context) {
            Poll::Pending => {
                self.next = Next::IsMade(making);
                Poll::Pending
            }
            Poll::Ready(Ok(Some((piece, pieces)))) => {
                self.next = Next::Rests(pieces);
                Poll::Ready(Some(Ok(Bytes::from(piece))))
            }
            // The list is cut off: its next piece gets no turn, or the runtime ends.
            Poll::Ready(Ok(None) | Err(_)) => Poll::Ready(Some(Err(io::ErrorKind::Other.into()))),
        }
    }
}

/// The right of an answer to be on its way.
enum Turn {
    Short(Unread),
    Long(LongTurn),
}

impl Turn {
    /// Notified when the answer has to make room.
    fn lost(&self) -> Arc<Notify> {
        match self {
            Self::Short(place) => place.lost(),
            Self::Long(turn) => turn.lost(),
        }
    }
}

/// Pieces as a body.
struct Reader {
    first: VecDeque<Bytes>,
    rest: mpsc::Receiver<Bytes>,
    turn: Option<Turn>,
}

impl Reader {
    const fn of(rest: mpsc::Receiver<Bytes>, turn: Option<Turn>) -> Self {
        Self { first: VecDeque::new(), rest, turn }
    }
}

impl Stream for Reader {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(piece) = self.first.pop_front() {
            return Poll::Ready(Some(Ok(piece)));
        }
        let piece = self.rest.poll_recv(context);
        if let (Poll::Ready(Some(_)), Some(Turn::Long(turn))) = (&piece, &self.turn) {
            turn.note_progress();
        }
        piece.map(|piece| piece.map(Ok))
    }
}
