//! Browsing of the messages of a queue of any type, one after the other: nothing changes for the queue, and
//! the caller waits for the disk. Permissions are checked elsewhere.
//! Start reading at [`Browser`].

use content::{Looker, PagedQueue, See, Seen};
use message::{MessageRef, OwnedMessage};
use queue::{DeliveryCounts, Standing};
use queues::{Browsable, QueueContents, QueueRef};
use session::{ShortString, Table, Value};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use store::backlog::Toward;
use stream::{Inspection, Stream, Tail};

/// Messages of a stream that one step browses.
const STREAM_STEP: u64 = 64;
/// Bytes of messages that a step toward earlier ones keeps at once, unless a single message has more.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// The place where browsing begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookFrom {
    /// A position: browsing goes on toward later ones.
    Position(u64),
    /// The message before a position: browsing goes on toward earlier ones.
    Before(u64),
    /// The first message at or behind a position whose time is not before `since_ms`: in a stream the time of
    /// its chunk, elsewhere the property `timestamp` that its publisher set.
    TimeMs {
        /// The time in Unix milliseconds.
        since_ms: u64,
        /// The position.
        position: u64,
    },
}

/// A message that is browsed.
#[derive(Clone, Copy, Debug)]
pub struct LookedAt<'a> {
    /// The message, and where it stands. In a stream its position is its offset.
    pub seen: Seen<'a>,
    /// The time of its chunk, in Unix milliseconds.
    pub chunk_timestamp_ms: Option<i64>,
}

/// A function that takes messages one after the other, until it has enough.
pub type LookAt<'s> = dyn FnMut(&LookedAt<'_>) -> ControlFlow<()> + 's;

/// A browser of the messages of a queue, in the order of their positions.
#[derive(Debug)]
pub struct Browser {
    source: Source,
    toward: Toward,
    since_ms: Option<u64>,
}

#[derive(Debug)]
enum Source {
    Paged(Arc<dyn PagedQueue>, Box<Looker>),
    Stream(Arc<Stream>, Option<Box<Tail>>),
    /// The explanation that the messages are on a node that is down.
    HomeDown(String),
}

impl Browser {
    /// Makes a browser that begins at `from`.
    #[must_use]
    pub fn new(queue: &QueueRef, from: LookFrom) -> Self {
        let source = match QueueContents(queue).browsable() {
            Browsable::Paged(queue) => Source::Paged(queue, Box::default()),
            Browsable::Stream(stream) => Source::Stream(stream, None),
            Browsable::HomeDown(text) => Source::HomeDown(text),
        };
        let (toward, since_ms) = match from {
            LookFrom::Position(position) => (Toward::Later(position), None),
            LookFrom::Before(position) => (Toward::Earlier(position), None),
            LookFrom::TimeMs { since_ms, position } => (Toward::Later(position), Some(since_ms)),
        };
        Self { source, toward, since_ms }
    }

    /// The place where browsing goes on.
    pub const fn place(&self) -> LookFrom {
        match (self.since_ms, self.toward) {
            (Some(since_ms), Toward::Later(position)) => LookFrom::TimeMs { since_ms, position },
            (None, Toward::Later(position)) => LookFrom::Position(position),
            (_, Toward::Earlier(position)) => LookFrom::Before(position),
        }
    }

    /// Shows the next messages, a page of them at most; returns false when there are no more.
    ///
    /// # Errors
    /// The disk's, what is wrong with a stream, or that the node of the queue is down.
    pub fn step(&mut self, see: &mut LookAt<'_>) -> Result<bool, String> {
        let since_ms = &mut self.since_ms;
        match &mut self.source {
            Source::Paged(queue, looker) => {
                let mut each = |seen: &Seen<'_>| {
                    let timestamp = || seen.message.index().timestamp();
                    let is_early = |since_ms: u64| {
                        timestamp().is_none_or(|at| at.saturating_mul(1_000) < since_ms)
                    };
                    if since_ms.is_some_and(is_early) {
                        return ControlFlow::Continue(());
                    }
                    *since_ms = None;
                    see(&LookedAt { seen: *seen, chunk_timestamp_ms: None })
                };
                let each: &mut See<'_> = &mut each;
                let next = looker.page(&**queue, self.toward, each);
                let next = next.map_err(|error| error.to_string())?;
                self.toward = next.unwrap_or(self.toward);
                Ok(next.is_some())
            }
            Source::Stream(stream, tail) => match self.toward {
                Toward::Later(offset) => {
                    let (next, goes_on) = later(stream, tail, offset, since_ms, see)?;
                    self.toward = Toward::Later(next);
                    Ok(goes_on)
                }
                Toward::Earlier(end) => {
                    let next = earlier(stream, end, see)?;
                    self.toward = Toward::Earlier(next.unwrap_or(end));
                    Ok(next.is_some())
                }
            },
            Source::HomeDown(text) => Err(text.clone()),
        }
    }
}

/// The position behind the last message of a queue; 0 without any.
///
/// # Errors
/// The disk's, or what is wrong with a stream.
pub fn end_of(queue: &QueueRef) -> Result<u64, String> {
    let mut browser = Browser::new(queue, LookFrom::Before(u64::MAX));
    let (mut end, mut goes_on) = (0, true);
    while goes_on && end == 0 {
        goes_on = browser.step(&mut |at| {
            end = at.seen.position + 1;
            ControlFlow::Break(())
        })?;
    }
    Ok(end)
}

fn opened(stream: &Stream, offset: Value) -> Result<Tail, String> {
    let offset = [(ShortString::from_static("x-stream-offset"), offset)];
    Tail::open(stream, &Table::from_iter(offset))
}

/// Shows the next messages of a stream; returns the offset behind them, and whether there may be more.
fn later(
    stream: &Stream,
    tail: &mut Option<Box<Tail>>,
    offset: u64,
    since_ms: &mut Option<u64>,
    see: &mut LookAt<'_>,
) -> Result<(u64, bool), String> {
    let start = match *since_ms {
        Some(since_ms) => Value::Timestamp(since_ms / 1_000),
        None => Value::I64(i64::try_from(offset).unwrap_or(i64::MAX)),
    };
    let tail = match tail {
        Some(tail) => tail,
        None => tail.insert(Box::new(opened(stream, start)?)),
    };
    for _ in 0..STREAM_STEP {
        let mut flow = ControlFlow::Continue(());
        let seen = tail.next(|next| {
            let at_ms = u64::try_from(next.chunk_timestamp_ms).unwrap_or(0);
            if since_ms.is_none_or(|since_ms| at_ms >= since_ms) {
                *since_ms = None;
                flow = see(&looked_at(next.offset, next.chunk_timestamp_ms, next.message));
            }
        })?;
        if !seen || flow.is_break() {
            return Ok((tail.next_offset(), seen));
        }
    }
    Ok((tail.next_offset(), true))
}

/// Shows the messages of a stream before an offset, the last first; returns the offset of the message that
/// was shown last, or `None` if there are no such messages.
fn earlier(stream: &Stream, end: u64, see: &mut LookAt<'_>) -> Result<Option<u64>, String> {
    let figures = Inspection::of(stream).figures();
    let first = u64::try_from(figures.first_offset).unwrap_or(u64::MAX);
    let end = end.min(stream.view.next_offset());
    let start = end.saturating_sub(STREAM_STEP).max(first);
    if start >= end {
        return Ok(None);
    }
    let mut tail = opened(stream, Value::I64(i64::try_from(start).unwrap_or(i64::MAX)))?;
    let (mut kept, mut bytes) = (VecDeque::new(), 0);
    while tail.next_offset() < end {
        let keep = |next: &stream::StreamMessage<'_>| {
            if next.offset < end {
                let message = OwnedMessage::new(&next.message);
                bytes += message.size_bytes();
                kept.push_back((next.offset, next.chunk_timestamp_ms, message));
            }
        };
        if !tail.next(keep)? {
            break;
        }
        while bytes > KEPT_BYTES_MAX && kept.len() > 1 {
            bytes -= kept.pop_front().map_or(0, |(.., message)| message.size_bytes());
        }
    }
    let mut last = start;
    for (offset, chunk_timestamp_ms, message) in kept.iter().rev() {
        last = *offset;
        if see(&looked_at(*offset, *chunk_timestamp_ms, message.message())).is_break() {
            break;
        }
    }
    Ok(Some(last))
}

const fn looked_at(offset: u64, chunk_timestamp_ms: i64, message: MessageRef<'_>) -> LookedAt<'_> {
    let counts = DeliveryCounts { n_failed: 0, n_acquired: 0 };
    let standing = Standing::Ready;
    let seen = Seen { position: offset, standing, redelivered: Some(false), counts, message };
    LookedAt { seen, chunk_timestamp_ms: Some(chunk_timestamp_ms) }
}
