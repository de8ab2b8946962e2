//! New messages of a queue, a stream or an exchange, shown as they come. Who publishes them waits for
//! nothing: what is too much is left out, and counted.

use super::look::{Sight, Wanted, fields, number};
use super::pace::Pace;
use super::search::event;
use super::shown::{Rows, new_message};
use crate::Api;
use crate::call::{Answer, Call, Outcome, Take};
use crate::caller::Caller;
use crate::objects::{exchanges, permitted};
use crate::refusal::Refusal;
use axum::body::Bytes;
use broker::Tap;
use inspect::LookFrom;
use message::{MessageRef, OwnedMessage};
use meta::{Name, Permission, QueueId, Resource, ResourceKind};
use serde_json::json;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::park_timeout;
use std::time::Duration;
use trace::Tapped;

/// Messages that are shown in a second.
const SHOWN_MAX: usize = 50;
/// Time between looks for messages.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time in which [`SHOWN_MAX`] are shown; then what was left out is told, or a word that nothing was, so
/// that a connection that has gone is noticed.
const TOLD_EVERY_MS: u64 = 1_000;
/// Pages of a stream that are looked at each time: who falls behind more goes on at its end.
const PAGES_MAX: usize = 16;

/// New messages of a queue or a stream.
pub(crate) fn of_queue(call: &Call) -> Outcome {
    let wanted = Wanted::with_beginnings(call, &fields(call)?)?;
    let queue = wanted.queue.id();
    let watch = Watch::new(call, ResourceKind::Queue, call.name("name"), Some(queue))?;
    if wanted.queue.as_stream().is_some() {
        let end = wanted.end()?;
        return watch.answer(call, move |watch, take| watch.stream(&wanted, end, take));
    }
    let tap = call.api.management.broker.firehose().tap(Tapped::Queue(queue));
    watch.answer(call, move |watch, take| watch.tap(&tap, &wanted.sight, take))
}

/// Messages that are published to an exchange.
pub(crate) fn of_exchange(call: &Call) -> Outcome {
    let sight = Sight::of_beginnings(call, &fields(call)?)?;
    let name = Name::from(exchanges::name(call));
    if call.view().meta.exchange(call.param("vhost"), &name).is_none() {
        return Err(Refusal::not_found());
    }
    let watch = Watch::new(call, ResourceKind::Exchange, name.clone(), None)?;
    permitted::right(&call.view().meta, &call.caller, Permission::Read, &watch.what)?;
    let tap = call.api.management.broker.firehose().tap(Tapped::Exchange(call.name("vhost"), name));
    watch.answer(call, move |watch, take| watch.tap(&tap, &sight, take))
}

/// A user who watches messages.
struct Watch {
    api: Arc<Api>,
    caller: Caller,
    what: Resource,
    queue: Option<QueueId>,
    /// Messages after which the watch ends.
    limit: u64,
}

/// A look for so many messages at most: those, and how many beside them are left out.
type Looks<'l> = dyn FnMut(usize) -> Result<(Vec<Vec<u8>>, u64), Refusal> + 'l;

impl Watch {
    fn new(
        call: &Call,
        kind: ResourceKind,
        name: Name,
        queue: Option<QueueId>,
    ) -> Result<Self, Refusal> {
        let what = Resource { kind, name, vhost: call.name("vhost") };
        let limit = number(&fields(call)?, "limit")?.unwrap_or(u64::MAX);
        Ok(Self { api: Arc::clone(&call.api), caller: call.caller.clone(), what, queue, limit })
    }

    fn answer(
        self,
        call: &Call,
        watch: impl FnOnce(&Self, &mut Take<'_>) + Send + 'static,
    ) -> Outcome {
        let turn = call.api.turns.search(&call.asker())?;
        let write = move |take: &mut Take<'_>| {
            watch(&self, take);
            drop(turn);
        };
        Ok(Answer::Written { content_type: "text/event-stream", tag: None, write: Box::new(write) })
    }

    /// The reason why there is nothing to watch any more.
    fn end(&self) -> Option<&'static str> {
        let view = self.api.management.broker.view();
        let is_there = match self.queue {
            Some(queue) => view.queue_by_id(queue).is_some(),
            None => view.meta.exchange(&self.what.vhost, &self.what.name).is_some(),
        };
        let right = permitted::right(&view.meta, &self.caller, Permission::Read, &self.what);
        if is_there { right.is_err().then_some("not_permitted") } else { Some("deleted") }
    }

    fn tap(&self, tap: &Tap, sight: &Sight, take: &mut Take<'_>) {
        self.follow(take, &mut |room| {
            let (messages, mut n_left_out) = tap.take();
            let mut new = Vec::new();
            let messages = messages.iter().map(OwnedMessage::message);
            for message in messages.filter(|it| sight.has(it, false) && self.may_see(it)) {
                match new.len() < room {
                    true => new.push(new_message(&message, sight.shown)),
                    false => n_left_out += 1,
                }
            }
            Ok((new, n_left_out))
        });
    }

    /// Whether the rights at a topic exchange let the user have a message.
    fn may_see(&self, message: &MessageRef<'_>) -> bool {
        let key = Some(message.routing_key).filter(|_| self.queue.is_none());
        let view = self.api.management.broker.view();
        let may = |key| {
            let users = view.meta.users();
            users.access_reason(&self.caller.user, Permission::Read, &self.what, Some(key))
        };
        self.caller.is_local() || key.is_none_or(|key| may(key).is_allowed())
    }

    fn stream(&self, wanted: &Wanted, mut end: u64, take: &mut Take<'_>) {
        let mut look = wanted.look_from(LookFrom::Position(end), u64::MAX);
        self.follow(take, &mut |room| {
            let mut rows = Rows::default();
            let (mut n_left_out, mut n_pages, mut goes_on) = (0, 0, true);
            while goes_on && n_pages < PAGES_MAX {
                n_pages += 1;
                goes_on = look.step(&mut |at| {
                    match rows.len() < room {
                        true => rows.push(at, wanted.sight.shown),
                        false => n_left_out += 1,
                    }
                    ControlFlow::Continue(())
                })?;
            }
            if goes_on {
                end = wanted.end()?;
                n_left_out += end.saturating_sub(look.position());
                look = wanted.look_from(LookFrom::Position(end), u64::MAX);
            }
            Ok((rows.take(&self.api, &wanted.queue), n_left_out))
        });
    }

    /// Shows what is new, until nobody looks any more or there is nothing to look at.
    fn follow(&self, take: &mut Take<'_>, look: &mut Looks<'_>) {
        let mut shown = Shown { left: self.limit, began_ms: self.now_ms(), n: 0, n_left_out: 0 };
        let end = loop {
            let mut pace = Pace::new();
            if let Err(end) = self.show(take, look, &mut shown) {
                break end;
            }
            pace.rest();
            park_timeout(LOOK_EVERY);
        };
        if let Some(last) = end {
            take(last);
        }
    }

    /// Shows what is new now. At the end that is the last event; none if nobody looks.
    fn show(
        &self,
        take: &mut Take<'_>,
        look: &mut Looks<'_>,
        shown: &mut Shown,
    ) -> Result<(), Option<Bytes>> {
        let error = |refusal| Some(self.end().map_or_else(|| error_of(&refusal), end_of));
        let (new, n_left_out) = look(shown.room()).map_err(error)?;
        shown.note(new.len(), n_left_out);
        let is_over = self.now_ms() >= shown.began_ms + TOLD_EVERY_MS;
        let told = is_over.then(|| told(shown.n_left_out));
        let events = new.iter().map(|message| event("message", message)).chain(told);
        if !{ events }.all(&mut *take) {
            return Err(None);
        }
        if is_over {
            *shown = Shown { left: shown.left, began_ms: self.now_ms(), n: 0, n_left_out: 0 };
        }
        let end = if shown.left == 0 { Some("limit") } else { self.end().filter(|_| is_over) };
        end.map_or(Ok(()), |reason| Err(Some(end_of(reason))))
    }

    fn now_ms(&self) -> u64 {
        self.api.now().monotonic_ms.get()
    }
}

/// Messages that were shown.
struct Shown {
    /// More until the end.
    left: u64,
    /// When the second under way began, and in it those shown and left out.
    began_ms: u64,
    n: usize,
    n_left_out: u64,
}

impl Shown {
    fn room(&self) -> usize {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        SHOWN_MAX.saturating_sub(self.n).min(left)
    }

    fn note(&mut self, n: usize, n_left_out: u64) {
        self.left = self.left.saturating_sub(n as u64);
        self.n += n;
        self.n_left_out += n_left_out;
    }
}

/// The event of messages that were left out; a comment if none were.
fn told(n_left_out: u64) -> Bytes {
    match n_left_out {
        0 => Bytes::from_static(b":\n\n"),
        n => event("left_out", json!({"count": n}).to_string().as_bytes()),
    }
}

fn end_of(reason: &str) -> Bytes {
    event("end", json!({"reason": reason}).to_string().as_bytes())
}

fn error_of(refusal: &Refusal) -> Bytes {
    event("error", refusal.to_json(false).to_string().as_bytes())
}
