//! The core of a quorum queue: commands in, effects out.
//!
//! A [`Machine`] is the state of one queue over a log. Whoever has the log (the host) applies its entries in
//! their order, on every member, and carries out what follows:
//!
//! ```text
//! client -> host: Command -> Command::write -> the log -> Command::read -> Machine::apply -> Effects -> host
//! ```
//!
//! It knows positions, sizes, priorities, deadlines and numbers. It never sees a body, a clock, a file or a
//! socket, and it is deterministic: two machines that are told the same commands have the same effects and
//! the same written form, byte by byte, and so has one that is restored from a written form in between. Every
//! count and length that clients control has a limit, by name, among this module's constants.
//!
//! **Commands.** [`Command::write`] appends a command and the time it is applied at; [`Command::read`] reads
//! it back and leaves what lies behind it, so a host stores the bodies of a [`Put`] behind its command, in
//! one entry. Several commands may be applied with one [`Effects`]: what follows is appended, in order. Time
//! is Unix milliseconds as the member sees it that makes the entry; a clock that goes back is as if it stood
//! still.
//!
//! **Effects**, in the order to carry them out, and what the host does:
//! 1. [`Effects::stored`]: the messages of a put are in the queue at these positions, which never repeat. The
//!    host keeps their content by position. Messages of the put that are not named are not in the queue.
//! 2. [`Effects::assigned`], and [`Answer::Got`]: the content goes to the consumer's outbox, `redelivered` if
//!    the counts are not 0, with the counts as headers. A delivery is held by its number until it is settled;
//!    a consumer gets no more than its prefetch whatever room its outbox has, so the host keeps what it
//!    cannot hand over yet. A consumer that acknowledges by being sent to (`no-ack`) has the prefetch 0, and
//!    the host settles when it has written. The other [`Effects::answers`] go to whom they name. All of these
//!    need the commands to be committed, not more: with one member, applied is committed.
//! 3. [`Effects::timed_out`]: deliveries held for too long. The messages are back in the queue already. The
//!    host cancels the consumer (`basic.cancel`) or closes its channel (406) if it cannot be told. The
//!    consumer gets nothing until it has settled the numbers named.
//! 4. [`Effects::active`]: for listings, and for consumers that want to be told.
//! 5. [`Effects::departing`]: to be dead-lettered with that reason, in this order, some at a time. The
//!    content stays. When the dead letter is confirmed, or with [`DeadLetters::AtMostOnce`] when it is handed
//!    over or cannot be, the host applies [`Command::Departed`]; with [`DeadLetters::AtLeastOnce`] it tries
//!    again until then. After a start [`Facts::departing`] lists them again.
//! 6. [`Effects::released`]: content that is needed no more; whoever was assigned it before has it by then,
//!    or the host keeps it for him.
//! 7. [`Effects::promises`]: told when the commands are durable (with more members: committed). [`Run`]s fold
//!    publishers' answers. Nothing else waits for a sync.
//! 8. [`Effects::deadline_ms`]: one alarm; when it comes the host applies a [`Command::Tick`]. It replaces
//!    that of the command before, and may be in the past: then work is left ([`DUE_MAX`]), and the next
//!    command may come before the tick.
//!
//! **Publishers** number their puts without gaps, from any number on. What comes again is dropped
//! ([`Promise::Duplicate`]: it is in the queue, or was); what was refused or has departed may come again. The
//! host tells which publishers are gone. A publisher that its client has [`Named`] is known by its name and
//! the client's own numbers beside that, over reconnects; of these the last
//! [`Settings::named_publishers_max`] are known.
//!
//! **Consumers** have ids that the host gives once. Cancelled, one keeps what it holds; attached again with
//! the same id, it goes on with that. What is settled is named by number; numbers that are not held (any
//! more) are passed over, so a late acknowledgement harms nobody.
//!
//! **Notes** stand beside messages: bytes that the host alone understands. Who settles with changes
//! ([`Command::Modify`]) puts them there in place of those before, as far as there is room
//! ([`NOTE_BYTES_MAX`], [`NOTES_BYTES_MAX`]), and they go with their message. The host merges what it adds
//! with [`MessageNotes`]: whoever holds a message is the only one who may change it.
//!
//! **After a start** the host restores the last written form ([`Machine::restore`]) and applies the commands
//! behind it, without carrying effects out but for what it keeps by position. What is to be kept then is
//! [`Facts::live`]. Consumers whose connections are gone are [detached](Command::Detach), publishers are
//! [gone](Command::PublishersGone), and departing messages depart again.
//!
//! **What is guaranteed.** A message is in one place: ready, held by one consumer, delayed or departing. It
//! is given out only while it is not past its deadline, those that came back first, in the order they did,
//! then by falling priority, and in the order they came within one. What a command makes due happens in this
//! order: what has expired goes; what has waited to be tried again is ready; what was held for too long comes
//! back; the command itself; ready messages are given out while anybody has credit; what is too much goes.

mod backlog;
mod bounds;
mod codec;
mod command;
mod departing;
mod effects;
mod expiry;
mod facts;
mod form;
mod held;
mod holders;
mod items;
mod modify;
mod notes;
mod publishers;
mod ready;
mod settings;
mod sizes;
mod waiting;

pub use backlog::Bytes;
pub use bounds::{
    CONSUMERS_MAX, DUE_MAX, LINK_UNSETTLED_MAX, MESSAGES_MAX, NAME_BYTES_MAX, NAMED_PUBLISHERS_MAX,
    NOTE_BYTES_MAX, NOTES_BYTES_MAX, PREFETCH_UNLIMITED, PRIORITY_DEFAULT, PRIORITY_MAX,
    PUBLISHERS_MAX,
};
pub use codec::VERSION;
pub use command::{Arrival, Attach, Command, Get, Modify, Named, NumberRange, Outcome, Put};
pub use effects::{Activity, Answer, Assigned, Departing, Effects, Promise, Run, Stored, TimedOut};
pub use facts::{ConsumerFacts, Facts, LinkFacts, WaitingPublish};
pub use items::{Item, Items};
pub use modify::MessageNotes;
pub use settings::{DeadLetters, PendingLimits, Settings};

use crate::{DeliveryRoom, LinkCredit, PositionRange, Reason, Return};
use backlog::Backlog;
use effects::Kind;
use holders::{Holder, Holders};
use message::Refusal;
use publishers::{Numbers, Publishers, Waiter};
use stdx::UnixMs;
use waiting::{PublishNumber, Waiting};

/// The state of a quorum queue; [the module](self) tells how it is used.
#[derive(Clone, Debug)]
pub struct Machine {
    settings: Settings,
    /// The latest time that a command carried.
    clock_ms: UnixMs,
    last_used_ms: UnixMs,
    is_closed: bool,
    backlog: Backlog,
    consumers: Holders,
    publishers: Publishers,
    waiting: Waiting,
    /// Empty between commands.
    scratch: Vec<u64>,
}

impl Machine {
    /// An empty queue, declared at `now_ms`.
    #[must_use]
    pub fn new(settings: Settings, now_ms: UnixMs) -> Self {
        Self {
            settings,
            clock_ms: now_ms,
            last_used_ms: now_ms,
            is_closed: false,
            backlog: Backlog::default(),
            consumers: Holders::new(settings.is_single_active),
            publishers: Publishers::default(),
            waiting: Waiting::default(),
            scratch: Vec::new(),
        }
    }

    /// Carries a command out at `now_ms`, or when the latest command came if that is later; `effects` gets
    /// what follows, behind what it holds.
    pub fn apply(&mut self, now_ms: UnixMs, command: &Command<'_>, effects: &mut Effects) {
        self.clock_ms = self.clock_ms.max(now_ms);
        if !self.consumers.table.is_empty() {
            self.last_used_ms = self.clock_ms;
        }
        let mut room = DUE_MAX;
        self.expire(&mut room, effects);
        self.wake(&mut room);
        self.time_out(&mut room, effects);
        self.give_up(&mut room, effects);
        self.consumers.choose_active(effects);
        self.carry_out(command, effects);
        self.consumers.choose_active(effects);
        if room > 0 {
            self.give_out(effects);
        }
        self.drop_excess(&mut room, effects);
        self.expire(&mut room, effects);
        let is_tick = matches!(command, Command::Tick);
        if is_tick && self.unused_ms().is_some_and(|at_ms| at_ms <= self.clock_ms) {
            self.last_used_ms = self.clock_ms;
            effects.promises.push(Promise::Unused);
        }
        self.backlog.sweep();
        effects.deadline_ms = if room > 0 { self.deadline_ms() } else { Some(self.clock_ms) };
    }

    fn carry_out(&mut self, command: &Command<'_>, effects: &mut Effects) {
        match *command {
            Command::Put(ref put) => self.put(put, effects),
            Command::Attach(terms) => self.attach(terms, effects),
            Command::Prefetch { consumer, prefetch } => {
                self.consumers.set_prefetch(consumer, prefetch);
            }
            Command::Flow { consumer, seen, drain } => self.flow(consumer, seen, drain, effects),
            Command::Cancel { consumer } => self.consumers.cancel(consumer),
            Command::Detach { consumer, how } => self.detach(consumer, how, effects),
            Command::Settle { consumer, outcome, numbers } => {
                let mut positions = std::mem::take(&mut self.scratch);
                for range in numbers.iter() {
                    let release = |position| positions.push(position);
                    self.consumers.release(consumer, range.start, range.end, release);
                }
                if outcome == Outcome::Unsent {
                    let n = u32::try_from(positions.len()).unwrap_or(u32::MAX);
                    self.consumers.change_link(consumer, |link| link.note_unsent(n));
                    // The last one comes back first, so that all stand in their order.
                    positions.reverse();
                }
                self.settle(&mut positions, outcome, effects);
            }
            Command::Modify(ref modify) => modify::modify(self, modify, effects),
            Command::Get(get) => self.get(&get, effects),
            Command::Purge { request } => self.purge(request, None, effects),
            Command::Remove { request, positions } => {
                self.purge(request, Some(positions), effects);
            }
            Command::Reschedule { until_ms, positions } => {
                for NumberRange { start, end } in positions.iter() {
                    self.backlog.reschedule(start..end, until_ms, self.clock_ms);
                }
            }
            Command::Tick => {}
            Command::Declared => self.last_used_ms = self.clock_ms,
            Command::Node { node, is_up } => {
                let timeout_ms = self.settings.disconnected_timeout_ms;
                self.consumers.set_node(node, is_up, self.clock_ms, timeout_ms);
            }
            Command::Settings(settings) => self.set(settings),
            Command::Departed { numbers } => {
                for range in numbers.iter() {
                    while let Some(gone) = self.backlog.take_departing(range.start, range.end) {
                        effects.release_range(gone);
                    }
                }
            }
            Command::PublishersGone { publishers } => {
                publishers.iter().for_each(|publisher| self.publishers.numbered.remove(&publisher));
                self.waiting
                    .publishers_gone(|publisher| publishers.iter().any(|it| it == publisher));
            }
            Command::Close { request, if_unused, if_empty } => {
                let promise = if if_unused && self.consumers.n_attached > 0 {
                    Promise::InUse { request }
                } else if if_empty && self.backlog.len() > 0 {
                    Promise::NotEmpty { request }
                } else {
                    self.is_closed = true;
                    Promise::Closed { request, n_ready: self.backlog.ready.len() }
                };
                effects.promises.push(promise);
            }
            Command::Reopen => self.is_closed = false,
        }
    }

    fn put(&mut self, put: &Put<'_>, effects: &mut Effects) {
        let known = self.publishers.numbered.get(&put.publisher).cloned();
        let mut numbers = known.unwrap_or_else(|| Numbers::from(put.first));
        if put.first > numbers.next {
            let (publisher, expected) = (put.publisher, numbers.next);
            effects.promises.push(Promise::Gap { publisher, expected });
            return;
        }
        let mut named = put.named.map(|named| {
            let known = self.publishers.named.get(named.name).cloned().unwrap_or_default();
            (known, named.first)
        });
        for (arrival, nth) in put.arrivals.iter().zip(0..) {
            let number = put.first.saturating_add(nth);
            let mut id = named.as_mut().map(|(ids, first)| (ids, first.saturating_add(nth)));
            let has_put =
                numbers.has_put(number) || id.as_ref().is_some_and(|(ids, id)| ids.has_put(*id));
            let kind = if has_put {
                numbers.put(number);
                let named = put.named.zip(id.as_ref());
                let named = named.map(|(it, (_, id))| Named { name: it.name, first: *id });
                let to = PublishNumber { publisher: put.publisher, number };
                let waiting = &mut self.waiting;
                if put.confirms && named.is_some_and(|it| waiting.take_over(it, to, effects)) {
                    continue;
                }
                Kind::Duplicate
            } else if let Err(why) = self.check_room(&arrival, put) {
                numbers.refuse(number);
                id.iter_mut().for_each(|(ids, id)| ids.refuse(*id));
                Kind::Refused(why)
            } else {
                numbers.put(number);
                id.iter_mut().for_each(|(ids, id)| ids.put(*id));
                if self.put_one(put, number, &arrival, effects) {
                    continue;
                }
                Kind::Confirmed
            };
            // A host that moves messages on learns from a refusal that the message stays with it.
            if put.confirms || matches!(kind, Kind::Refused(_)) {
                effects.promise(kind, put.publisher, number);
            }
        }
        self.publishers.numbered.insert(put.publisher, numbers, PUBLISHERS_MAX);
        if let (Some((ids, _)), Some(Named { name, .. })) = (named, put.named) {
            let n_max = self.settings.named_publishers_max.min(NAMED_PUBLISHERS_MAX);
            self.publishers.named.insert(name.into(), ids, n_max);
        }
    }

    /// Enqueues a message; returns whether its publisher is answered when it has been consumed.
    fn put_one(
        &mut self,
        put: &Put<'_>,
        number: u64,
        arrival: &Arrival,
        effects: &mut Effects,
    ) -> bool {
        let position = self.backlog.push(arrival, self.clock_ms, self.settings.message_ttl_ms);
        effects.store(put.publisher, number, position);
        let waits = put.confirms && self.settings.confirm_on_ack.is_some();
        if waits {
            let id = |it: Named<'_>| it.first.saturating_add(number - put.first);
            let named = put.named.map(|it| Box::new((it.name.to_vec(), id(it))));
            let (publisher, bytes, came_ms) = (Some(put.publisher), arrival.bytes, self.clock_ms);
            self.waiting.insert(position, Waiter { publisher, number, named, bytes, came_ms });
        }
        if self.settings.limits.refuses {
            self.give_out(effects);
        }
        waits
    }

    /// Whether a message may come in.
    fn check_room(&self, arrival: &Arrival, put: &Put<'_>) -> Result<(), Refusal> {
        if self.is_closed {
            return Err(Refusal::Unavailable);
        }
        if self.backlog.len() >= MESSAGES_MAX {
            return Err(Refusal::MaxLen);
        }
        let bytes = u64::from(arrival.bytes);
        let limits = &self.settings.limits;
        if limits.refuses && !put.ignores_length {
            let (n_there, n_bytes) = self.backlog.counted(&self.settings);
            let is_full = limits.messages_max.is_some_and(|max| n_there >= max)
                || limits.bytes_max.is_some_and(|max| n_bytes.saturating_add(bytes) > max);
            if is_full {
                return Err(Refusal::MaxLen);
            }
        }
        match self.settings.confirm_on_ack.filter(|_| put.confirms) {
            Some(it) if it.needs_consumer && self.consumers.n_attached == 0 => {
                Err(Refusal::NoConsumer)
            }
            Some(it) if !self.waiting.has_room(bytes, &it) => Err(Refusal::MaxPending),
            Some(_) | None => Ok(()),
        }
    }

    fn attach(&mut self, terms: Attach, effects: &mut Effects) {
        let consumer = terms.consumer;
        let is_known = self.consumers.table.contains_key(&consumer);
        if self.is_closed || !is_known && self.consumers.table.len() >= CONSUMERS_MAX {
            effects.answers.push(Answer::NotAttached { consumer });
            return;
        }
        self.consumers.attach(terms);
        effects.answers.push(Answer::Attached { consumer });
    }

    fn detach(&mut self, consumer: u64, how: Return, effects: &mut Effects) {
        let mut positions = std::mem::take(&mut self.scratch);
        self.consumers.detach(consumer, |position| positions.push(position));
        self.settle(&mut positions, Outcome::Returned(how), effects);
    }

    /// Messages are held no more; `positions` is the scratch, and emptied.
    fn settle(&mut self, positions: &mut Vec<u64>, outcome: Outcome, effects: &mut Effects) {
        for position in positions.drain(..) {
            let range = PositionRange::one(position);
            match outcome {
                Outcome::Accepted => {
                    self.backlog.let_go(position);
                    self.backlog.forget(range);
                    effects.release_range(range);
                    self.waiting.answer(range, Kind::Confirmed, &mut self.publishers, effects);
                }
                Outcome::Returned(_) | Outcome::Unsent
                    if self.waiting.given_up.remove(&position) =>
                {
                    self.backlog.let_go(position);
                    self.backlog.forget(range);
                    effects.release_range(range);
                }
                Outcome::Returned(how) => {
                    let (now_ms, settings) = (self.clock_ms, &self.settings);
                    let reason = self.backlog.come_back(position, how, now_ms, settings);
                    if let Some(reason) = reason {
                        self.dead_letter(range, reason, effects);
                    }
                }
                Outcome::Unsent => {
                    if let Some(reason) = self.backlog.put_back(position) {
                        self.dead_letter(range, reason, effects);
                    }
                }
                Outcome::Rejected(how) => {
                    self.backlog.let_go(position);
                    self.backlog.counts.note(position, how);
                    self.dead_letter(range, Reason::Rejected, effects);
                }
            }
        }
        self.scratch = std::mem::take(positions);
    }

    /// Messages are to be given to nobody any more.
    fn dead_letter(&mut self, range: PositionRange, reason: Reason, effects: &mut Effects) {
        effects.n_died.get_mut(reason as usize).into_iter().for_each(|n| *n += range.len());
        if self.settings.dead_letters == DeadLetters::Dropped {
            let answer = Kind::Refused(reason.into());
            self.waiting.answer(range, answer, &mut self.publishers, effects);
            self.backlog.forget(range);
            effects.release_range(range);
        } else {
            let number = self.backlog.depart(range, reason);
            effects.depart(number, range, reason);
            self.waiting.hand_on(range, number, &mut self.publishers, effects);
        }
    }

    fn get(&mut self, get: &Get, effects: &mut Effects) {
        let Get { request, settles, consumer, node, timeout_ms } = *get;
        self.last_used_ms = self.clock_ms;
        if self.settings.is_single_active {
            effects.answers.push(Answer::SingleActive { request });
            return;
        }
        let may_hold = settles
            || self.consumers.table.contains_key(&consumer)
            || self.consumers.table.len() < CONSUMERS_MAX;
        let Some((position, counts)) = may_hold.then(|| self.backlog.pop()).flatten() else {
            effects.answers.push(Answer::Empty { request });
            return;
        };
        let number = if settles {
            self.consumers.next_number += 1;
            self.settle(&mut vec![position], Outcome::Accepted, effects);
            self.consumers.next_number - 1
        } else {
            let terms = Attach {
                consumer,
                node,
                prefetch: 0,
                has_link_credit: false,
                priority: 0,
                timeout_ms,
            };
            self.consumers.take(terms, position, self.clock_ms)
        };
        let assigned = Assigned { consumer, number, position, counts };
        let n_ready = self.backlog.ready.len();
        effects.answers.push(Answer::Got { request, assigned, n_ready });
    }

    /// Takes out all that nobody holds, or the ready ones among some.
    fn purge(&mut self, request: u64, only: Option<Items<'_, NumberRange>>, effects: &mut Effects) {
        let mut taken = Vec::new();
        match only {
            None => self.backlog.purge(&mut taken),
            Some(positions) => {
                for NumberRange { start, end } in positions.iter() {
                    self.backlog.take_ready(PositionRange { start, end }, &mut taken);
                }
            }
        }
        let mut n_messages = 0;
        for range in taken {
            n_messages += range.len();
            let answer = Kind::Refused(Refusal::Purged);
            self.waiting.answer(range, answer, &mut self.publishers, effects);
            effects.release_range(range);
        }
        effects.promises.push(Promise::Purged { request, n_messages });
    }

    fn set(&mut self, settings: Settings) {
        self.settings = Settings { is_single_active: self.settings.is_single_active, ..settings };
        self.publishers.named.shrink(settings.named_publishers_max.min(NAMED_PUBLISHERS_MAX));
        self.consumers.set_alarms(settings.disconnected_timeout_ms);
    }

    /// Gives out while anybody has credit and anything is ready.
    fn give_out(&mut self, effects: &mut Effects) {
        while let Some(consumer) = self.consumers.first_in_line() {
            let Some((position, counts)) = self.backlog.pop() else { return };
            let number = self.consumers.give(consumer, position, self.clock_ms);
            effects.assigned.push(Assigned { consumer, number, position, counts });
        }
    }

    /// Takes a consumer's link credit, which is used up at once: also what is given out is in no outbox yet.
    fn flow(&mut self, consumer: u64, seen: LinkCredit, drain: bool, effects: &mut Effects) {
        self.consumers.change_link(consumer, |link| link.flow(seen));
        self.give_out(effects);
        if drain {
            self.consumers.change_link(consumer, DeliveryRoom::drain);
        }
        let holder = self.consumers.table.get(&consumer);
        if let Some(credit) = holder.and_then(Holder::link_credit) {
            let n_ready = self.backlog.ready.len();
            effects.answers.push(Answer::Flowed { consumer, credit, n_ready });
        }
    }

    fn expire(&mut self, room: &mut u64, effects: &mut Effects) {
        let mut taken = Vec::new();
        while *room > 0 && self.backlog.expire(self.clock_ms, *room, &mut taken) {
            for range in taken.drain(..) {
                *room -= range.len();
                self.dead_letter(range, Reason::Expired, effects);
            }
        }
    }

    fn wake(&mut self, room: &mut u64) {
        while *room > 0 && self.backlog.wake(self.clock_ms) {
            *room -= 1;
        }
    }

    fn time_out(&mut self, room: &mut u64, effects: &mut Effects) {
        let mut positions = std::mem::take(&mut self.scratch);
        let (now_ms, timeout_ms) = (self.clock_ms, self.settings.disconnected_timeout_ms);
        let mut goes_on = true;
        while *room > 0 && goes_on {
            let release = |position| positions.push(position);
            goes_on = self.consumers.time_out(now_ms, timeout_ms, effects, release);
            *room = room.saturating_sub(positions.len() as u64);
            self.settle(&mut positions, Outcome::Returned(Return::Released), effects);
            positions = std::mem::take(&mut self.scratch);
        }
        self.scratch = positions;
    }

    /// Refuses publishes that have waited for too long to be consumed.
    fn give_up(&mut self, room: &mut u64, effects: &mut Effects) {
        while *room > 0
            && let Some(at_ms) = self.waiting.next_ms(self.settings.confirm_on_ack.as_ref())
            && at_ms <= self.clock_ms
            && let Some(position) = self.waiting.first()
        {
            *room -= 1;
            let range = PositionRange::one(position);
            effects.n_confirms_overdue += 1;
            let answer = Kind::Refused(Refusal::Timeout);
            self.waiting.answer(range, answer, &mut self.publishers, effects);
            if self.backlog.take(position) {
                self.backlog.forget(range);
                effects.release_range(range);
            } else {
                self.waiting.given_up.insert(position);
            }
        }
    }

    fn drop_excess(&mut self, room: &mut u64, effects: &mut Effects) {
        loop {
            let (n, bytes) = self.backlog.counted(&self.settings);
            if *room == 0 || !self.settings.limits.drops(n, bytes) {
                return;
            }
            let Some(position) = self.backlog.drop_next() else { return };
            *room -= 1;
            self.dead_letter(PositionRange::one(position), Reason::MaxLen, effects);
        }
    }

    /// Time when the queue is unused for too long: without consumers, and nobody holds its messages.
    fn unused_ms(&self) -> Option<UnixMs> {
        let expires_ms = self.settings.expires_ms.filter(|_| self.consumers.table.is_empty())?;
        Some(self.last_used_ms.plus(expires_ms))
    }

    /// Time to apply the next [`Tick`](Command::Tick).
    #[must_use]
    pub fn deadline_ms(&self) -> Option<UnixMs> {
        let alarm_ms = self.consumers.next_alarm_ms();
        let backlog = [self.backlog.expiry.next_ms(), self.backlog.delayed.next_ms()];
        let waiting_ms = self.waiting.next_ms(self.settings.confirm_on_ack.as_ref());
        let others = [alarm_ms, self.unused_ms(), waiting_ms];
        backlog.into_iter().chain(others).flatten().min()
    }

    /// Figures and lists, as of now.
    pub const fn facts(&self) -> Facts<'_> {
        Facts::of(self)
    }
}
