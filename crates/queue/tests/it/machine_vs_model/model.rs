//! A quorum queue, naively: a list of messages and one of consumers, looked through for every question.

mod clients;
mod operators;

use super::numbers::{Numbers, keep, numbers};
use queue::machine::{
    Arrival, Attach, Bytes, Command, DeadLetters, Get, NumberRange, Outcome, PREFETCH_UNLIMITED,
    Put, Settings,
};
use queue::{DeliveryCounts, LinkCredit, Reason, RetryOn, Return};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Fresh,
    /// With how many came back before.
    Returned(u64),
    Held {
        consumer: u64,
        number: u64,
        at_ms: u64,
    },
    Delayed(u64),
    Departing {
        number: u64,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) position: u64,
    arrival: Arrival,
    deadline_ms: Option<u64>,
    pub(crate) counts: DeliveryCounts,
    pub(crate) notes: Option<Vec<u8>>,
    pub(crate) place: Place,
    /// Publisher and number; no publisher if it is gone and the message has a name.
    waiter: Option<(Option<u64>, u64)>,
    came_ms: u64,
    /// The name and the id of a named publisher.
    named: Option<(Vec<u8>, u64)>,
    is_given_up: bool,
}

impl Message {
    fn bytes(&self) -> u64 {
        self.arrival.bytes.into()
    }

    fn is_ready(&self) -> bool {
        matches!(self.place, Place::Fresh | Place::Returned(_))
    }

    fn departing_number(&self) -> Option<u64> {
        if let Place::Departing { number } = self.place { Some(number) } else { None }
    }

    fn held_since_ms(&self) -> Option<u64> {
        if let Place::Held { at_ms, .. } = self.place { Some(at_ms) } else { None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Up,
    Lost(u64),
    GivenUp,
}

#[derive(Clone, Debug)]
struct Consumer {
    terms: Attach,
    came: u64,
    is_cancelled: bool,
    reach: Reach,
    timed_out: Vec<u64>,
    /// With link credit.
    link: LinkCredit,
}

impl Consumer {
    fn is_up(&self) -> bool {
        !self.is_cancelled && self.reach == Reach::Up && self.timed_out.is_empty()
    }
}

/// Something that follows; lists of positions and numbers one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    Stored { publisher: u64, number: u64, position: u64 },
    Assigned { consumer: u64, number: u64, position: u64, n_failed: u32, n_acquired: u32 },
    Attached(u64),
    NotAttached(u64),
    Got { request: u64, number: u64, position: u64, n_ready: u64 },
    Empty(u64),
    SingleActive(u64),
    Flowed { consumer: u64, delivery_count: u32, credit: u32, n_ready: u64 },
    TimedOut { consumer: u64, number: u64 },
    Active { consumer: u64, is_active: bool },
    Departing { number: u64, position: u64, reason: &'static str },
    Released(u64),
    Confirmed { publisher: u64, number: u64 },
    Duplicate { publisher: u64, number: u64 },
    Refused { publisher: u64, number: u64 },
    Departs { publisher: u64, number: u64, letter: u64 },
    Gap { publisher: u64, expected: u64 },
    Purged { request: u64, n_messages: u64 },
    Closed { request: u64, n_ready: u64 },
    InUse(u64),
    NotEmpty(u64),
    Unused,
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) settings: Settings,
    clock_ms: u64,
    last_used_ms: u64,
    is_closed: bool,
    pub(crate) messages: Vec<Message>,
    next_position: u64,
    n_returned: u64,
    n_departed: u64,
    consumers: Vec<Consumer>,
    n_came: u64,
    line: Vec<u64>,
    next_number: u64,
    pub(crate) active: Option<u64>,
    publishers: Vec<(u64, Numbers)>,
    named: Vec<(Vec<u8>, Numbers)>,
    effects: Vec<Effect>,
}

impl Model {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            clock_ms: 0,
            last_used_ms: 0,
            is_closed: false,
            messages: Vec::new(),
            next_position: 0,
            n_returned: 0,
            n_departed: 0,
            consumers: Vec::new(),
            n_came: 0,
            line: Vec::new(),
            next_number: 0,
            active: None,
            publishers: Vec::new(),
            named: Vec::new(),
            effects: Vec::new(),
        }
    }

    pub(crate) fn apply(&mut self, now_ms: u64, command: &Command<'_>) -> Vec<Effect> {
        self.clock_ms = self.clock_ms.max(now_ms);
        if !self.consumers.is_empty() {
            self.last_used_ms = self.clock_ms;
        }
        self.expire();
        self.wake();
        self.time_out();
        self.give_up();
        self.choose_active();
        self.carry_out(command);
        self.choose_active();
        self.give_out();
        while self.is_too_long() {
            let Some(position) = self.head() else { break };
            self.dead_letter(position, Reason::MaxLen);
        }
        self.expire();
        let is_tick = matches!(command, Command::Tick);
        if is_tick && self.unused_ms().is_some_and(|at_ms| at_ms <= self.clock_ms) {
            self.last_used_ms = self.clock_ms;
            self.effects.push(Effect::Unused);
        }
        std::mem::take(&mut self.effects)
    }

    fn carry_out(&mut self, command: &Command<'_>) {
        match *command {
            Command::Put(ref put) => self.put(put),
            Command::Attach(terms) => self.attach(terms),
            Command::Prefetch { consumer, prefetch } => {
                if let Some(consumer) = self.consumer(consumer) {
                    consumer.terms.prefetch = prefetch;
                }
            }
            Command::Flow { consumer, seen, drain } => self.flow(consumer, seen, drain),
            Command::Cancel { consumer } => {
                self.consumer(consumer).into_iter().for_each(|it| it.is_cancelled = true);
            }
            Command::Detach { consumer, how } => {
                if let Some(consumer) = self.consumer(consumer) {
                    consumer.is_cancelled = true;
                    consumer.timed_out.clear();
                }
                let held = self.held(consumer);
                self.settle(&held, Outcome::Returned(how));
            }
            Command::Settle { consumer, outcome, numbers } => {
                let numbers: Vec<NumberRange> = numbers.iter().collect();
                self.settle_numbers(consumer, outcome, &numbers);
            }
            Command::Modify(ref modify) => self.modify(modify),
            Command::Get(get) => self.get(&get),
            Command::Purge { request } => {
                self.purge(request, |it| !matches!(it.place, Place::Held { .. }));
            }
            Command::Remove { request, positions } => {
                self.remove(request, &positions.iter().collect::<Vec<_>>());
            }
            Command::Reschedule { until_ms, positions } => {
                self.reschedule(until_ms.get(), &positions.iter().collect::<Vec<_>>());
            }
            Command::Tick => {}
            Command::Declared => self.last_used_ms = self.clock_ms,
            Command::Node { node, is_up } => {
                for consumer in self.consumers.iter_mut().filter(|it| it.terms.node == node) {
                    consumer.reach = match (is_up, consumer.reach) {
                        (true, _) => Reach::Up,
                        (false, Reach::Up) => Reach::Lost(self.clock_ms),
                        (false, reach @ (Reach::Lost(_) | Reach::GivenUp)) => reach,
                    };
                }
            }
            Command::Settings(settings) => {
                let is_single_active = self.settings.is_single_active;
                self.settings = Settings { is_single_active, ..settings };
                let n_max = settings.named_publishers_max as usize;
                self.named.drain(..self.named.len().saturating_sub(n_max));
            }
            Command::Departed { numbers } => {
                for range in numbers.iter() {
                    let numbers = range.start..range.end;
                    self.release(|it| {
                        it.departing_number().is_some_and(|no| numbers.contains(&no))
                    });
                }
            }
            Command::PublishersGone { publishers } => {
                let gone: Vec<u64> = publishers.iter().collect();
                self.publishers_gone(&gone);
            }
            Command::Close { request, if_unused, if_empty } => {
                self.close(request, (if_unused, if_empty));
            }
            Command::Reopen => self.is_closed = false,
        }
        self.update_line();
    }

    fn close(&mut self, request: u64, (if_unused, if_empty): (bool, bool)) {
        let n_ready = self.ready().len() as u64;
        let is_used = self.consumers.iter().any(|it| !it.is_cancelled);
        self.effects.push(if if_unused && is_used {
            Effect::InUse(request)
        } else if if_empty && !self.messages.is_empty() {
            Effect::NotEmpty(request)
        } else {
            self.is_closed = true;
            Effect::Closed { request, n_ready }
        });
    }

    fn put(&mut self, put: &Put<'_>) {
        let known = numbers(&self.publishers, &put.publisher);
        let mut known = known.unwrap_or(Numbers { put: Vec::new(), next: put.first });
        if put.first > known.next {
            let (publisher, expected) = (put.publisher, known.next);
            return self.effects.push(Effect::Gap { publisher, expected });
        }
        // A publisher that is not known begins anywhere: what is below is taken for put.
        let begins = numbers(&self.publishers, &put.publisher).is_none();
        if begins {
            known.put = (0..put.first).collect();
        }
        let mut named =
            put.named.map(|it| numbers(&self.named, &it.name.to_vec()).unwrap_or_default());
        let publisher = put.publisher;
        for (arrival, nth) in put.arrivals.iter().zip(0..) {
            let number = put.first + nth;
            let id = put.named.map_or(0, |it| it.first + nth);
            let was_put = known.put.contains(&number);
            let comes_again = was_put || named.as_ref().is_some_and(|it| it.put.contains(&id));
            let effect = if comes_again {
                known.put.push(number);
                match self.waiting_again(put, id) {
                    Some(first) => {
                        let before = first.waiter.replace((Some(publisher), number));
                        before.and_then(|(publisher, number)| {
                            Some(Effect::Refused { publisher: publisher?, number })
                        })
                    }
                    None => Some(Effect::Duplicate { publisher, number }),
                }
            } else if self.has_room(&arrival, put) {
                known.put.push(number);
                if let Some(named) = &mut named {
                    // Ids that are passed over count as put.
                    named.put.extend(named.next..=id);
                    named.put.push(id);
                }
                self.put_one(put, number, arrival)
            } else {
                if let Some(named) = &mut named {
                    named.put.extend(named.next..id);
                }
                Some(Effect::Refused { publisher, number })
            };
            known.next = known.next.max(number + 1);
            if let Some(named) = named.as_mut().filter(|_| !comes_again) {
                named.next = named.next.max(id + 1);
            }
            let is_told = |it: &Effect| put.confirms || matches!(it, Effect::Refused { .. });
            self.effects.extend(effect.filter(is_told));
        }
        keep(&mut self.publishers, publisher, known, usize::MAX);
        if let (Some(it), Some(named)) = (put.named, named) {
            let n_max = self.settings.named_publishers_max as usize;
            keep(&mut self.named, it.name.to_vec(), named, n_max);
        }
    }

    /// The message of that name and id, if it waits to be consumed.
    fn waiting_again(&mut self, put: &Put<'_>, id: u64) -> Option<&mut Message> {
        let name = put.named.filter(|_| put.confirms)?.name.to_vec();
        let is_it = |it: &&mut Message| it.waiter.is_some() && it.named == Some((name.clone(), id));
        self.messages.iter_mut().find(is_it)
    }

    fn put_one(&mut self, put: &Put<'_>, number: u64, arrival: Arrival) -> Option<Effect> {
        let (publisher, position) = (put.publisher, self.next_position);
        self.next_position += 1;
        let waits = put.confirms && self.settings.confirm_on_ack.is_some();
        let ttl_ms = [arrival.ttl_ms, self.settings.message_ttl_ms].into_iter().flatten().min();
        self.messages.push(Message {
            position,
            arrival,
            deadline_ms: ttl_ms.map(|ttl_ms| self.clock_ms + ttl_ms),
            counts: DeliveryCounts::default(),
            notes: None,
            place: Place::Fresh,
            waiter: waits.then_some((Some(publisher), number)),
            came_ms: self.clock_ms,
            named: put.named.map(|it| (it.name.to_vec(), it.first + (number - put.first))),
            is_given_up: false,
        });
        self.effects.push(Effect::Stored { publisher, number, position });
        if self.settings.limits.refuses {
            self.give_out();
        }
        (!waits).then_some(Effect::Confirmed { publisher, number })
    }

    /// Messages and bytes that limits are about.
    fn counted(&self) -> (u64, u64) {
        let keeps =
            self.settings.limits.refuses && self.settings.dead_letters == DeadLetters::AtLeastOnce;
        let is_counted = |message: &&Message| match message.place {
            Place::Fresh | Place::Returned(_) | Place::Delayed(_) => true,
            Place::Departing { .. } => keeps,
            Place::Held { .. } => false,
        };
        let counted = self.messages.iter().filter(is_counted);
        counted.fold((0, 0), |(n, bytes), message| (n + 1, bytes + message.bytes()))
    }

    fn has_room(&self, arrival: &Arrival, put: &Put<'_>) -> bool {
        let (n, bytes) = self.counted();
        let limits = self.settings.limits;
        let is_full = limits.messages_max.is_some_and(|max| n + 1 > max)
            || limits.bytes_max.is_some_and(|max| bytes + u64::from(arrival.bytes) > max);
        let waiting = self.messages.iter().filter(|it| it.waiter.is_some());
        let (n_waiting, waiting_bytes) =
            waiting.fold((0, 0), |(n, bytes), it| (n + 1, bytes + it.bytes()));
        let may_wait =
            self.settings.confirm_on_ack.filter(|_| put.confirms).is_none_or(|pending| {
                n_waiting < pending.messages_max
                    && waiting_bytes + u64::from(arrival.bytes) <= pending.bytes_max
                    && (!pending.needs_consumer || self.consumers.iter().any(|it| !it.is_cancelled))
            });
        let is_refused = limits.refuses && is_full && !put.ignores_length;
        !(self.is_closed || is_refused) && may_wait
    }

    fn is_too_long(&self) -> bool {
        let (n, bytes) = self.counted();
        let limits = self.settings.limits;
        let is_over = limits.messages_max.is_some_and(|max| n > max)
            || limits.bytes_max.is_some_and(|max| bytes > max);
        is_over && !limits.refuses
    }

    fn attach(&mut self, terms: Attach) {
        let id = terms.consumer;
        if self.is_closed {
            return self.effects.push(Effect::NotAttached(id));
        }
        if let Some(known) = self.consumer(id) {
            let has_moved = known.terms.priority != terms.priority;
            if known.terms.has_link_credit != terms.has_link_credit {
                known.link = LinkCredit { delivery_count: 0, credit: 0 };
            }
            (known.terms, known.is_cancelled, known.reach) = (terms, false, Reach::Up);
            if has_moved {
                self.line.retain(|other| *other != id);
            }
        } else {
            self.insert(terms, false);
        }
        self.effects.push(Effect::Attached(id));
    }

    fn insert(&mut self, terms: Attach, is_cancelled: bool) {
        let (came, reach, timed_out) = (self.n_came, Reach::Up, Vec::new());
        let link = LinkCredit { delivery_count: 0, credit: 0 };
        self.n_came += 1;
        self.consumers.push(Consumer { terms, came, is_cancelled, reach, timed_out, link });
        self.consumers.sort_by_key(|consumer| consumer.terms.consumer);
    }

    fn consumer(&mut self, id: u64) -> Option<&mut Consumer> {
        self.consumers.iter_mut().find(|consumer| consumer.terms.consumer == id)
    }

    /// Everything that a consumer holds, by number.
    pub(crate) fn held(&self, id: u64) -> Vec<(u64, u64)> {
        let of_it = |message: &Message| {
            let Place::Held { consumer, number, .. } = message.place else { return None };
            (consumer == id).then_some((number, message.position))
        };
        let mut held: Vec<_> = self.messages.iter().filter_map(of_it).collect();
        held.sort_unstable();
        held
    }

    fn message(&mut self, position: u64) -> &mut Message {
        self.messages.iter_mut().find(|it| it.position == position).expect("it is there")
    }

    fn settle(&mut self, held: &[(u64, u64)], outcome: Outcome) {
        for (_, position) in held {
            let (position, clock_ms) = (*position, self.clock_ms);
            let message = self.message(position);
            let (Outcome::Returned(how) | Outcome::Rejected(how)) = outcome else {
                if let Some((Some(publisher), number)) = message.waiter.take() {
                    self.effects.push(Effect::Confirmed { publisher, number });
                }
                self.release(|message| message.position == position);
                continue;
            };
            if message.is_given_up && matches!(outcome, Outcome::Returned(_)) {
                self.release(|message| message.position == position);
                continue;
            }
            message.counts.n_acquired += 1;
            message.counts.n_failed += u32::from(how == Return::Failed);
            let n_failed = message.counts.n_failed;
            let is_late = message.deadline_ms.is_some_and(|at_ms| at_ms <= clock_ms);
            if matches!(outcome, Outcome::Rejected(_)) {
                self.dead_letter(position, Reason::Rejected);
            } else if self.settings.delivery_limit.is_some_and(|limit| n_failed > limit) {
                self.dead_letter(position, Reason::DeliveryLimit);
            } else if is_late {
                self.dead_letter(position, Reason::Expired);
            } else {
                let wait_ms = self.wait_ms(how, n_failed);
                self.n_returned += 1;
                let place = match wait_ms {
                    0 => Place::Returned(self.n_returned),
                    wait_ms => Place::Delayed(self.clock_ms + wait_ms),
                };
                self.message(position).place = place;
            }
        }
    }

    fn wait_ms(&self, how: Return, n_failed: u32) -> u64 {
        let waits = |on| match on {
            RetryOn::All => true,
            RetryOn::Failed => how == Return::Failed,
            RetryOn::Released => how == Return::Released,
        };
        let retry = self.settings.retry.filter(|retry| waits(retry.on));
        retry.map_or(0, |it| (it.min_ms * u64::from(n_failed.max(1))).min(it.max_ms))
    }

    fn release(&mut self, is_gone: impl Fn(&Message) -> bool) {
        let gone = self.messages.iter().filter(|message| is_gone(message));
        self.effects.extend(gone.map(|message| Effect::Released(message.position)));
        self.messages.retain(|message| !is_gone(message));
    }

    fn dead_letter(&mut self, position: u64, reason: Reason) {
        let (number, drops) = (self.n_departed, self.settings.dead_letters == DeadLetters::Dropped);
        let message = self.message(position);
        if !drops {
            message.place = Place::Departing { number };
        }
        self.refuse(position, (!drops).then_some(number));
        if drops {
            return self.release(|message| message.position == position);
        }
        self.n_departed += 1;
        self.effects.push(Effect::Departing { number, position, reason: reason.as_str() });
    }

    /// The ready messages, the next one first.
    pub(crate) fn ready(&self) -> Vec<u64> {
        let mut ready: Vec<&Message> = self.messages.iter().filter(|it| it.is_ready()).collect();
        ready.sort_by_key(|message| match message.place {
            Place::Returned(nth) => (0, 0, nth),
            Place::Fresh | Place::Held { .. } | Place::Delayed(_) | Place::Departing { .. } => {
                (1, 31 - message.arrival.priority.min(31), message.position)
            }
        });
        ready.into_iter().map(|message| message.position).collect()
    }

    fn head(&self) -> Option<u64> {
        self.ready().first().copied()
    }

    fn get(&mut self, get: &Get) {
        let request = get.request;
        self.last_used_ms = self.clock_ms;
        if self.settings.is_single_active {
            return self.effects.push(Effect::SingleActive(request));
        }
        let Some(position) = self.head() else {
            return self.effects.push(Effect::Empty(request));
        };
        let number = self.next_number;
        self.next_number += 1;
        let (consumer, at_ms) = (get.consumer, self.clock_ms);
        self.message(position).place = Place::Held { consumer, number, at_ms };
        if get.settles {
            self.settle(&[(number, position)], Outcome::Accepted);
        } else if self.consumer(consumer).is_none() {
            let Get { node, timeout_ms, .. } = *get;
            self.insert(
                Attach {
                    consumer,
                    node,
                    prefetch: 0,
                    has_link_credit: false,
                    priority: 0,
                    timeout_ms,
                },
                true,
            );
        } else {
            self.step_back(consumer);
        }
        let n_ready = self.ready().len() as u64;
        self.effects.push(Effect::Got { request, number, position, n_ready });
    }

    fn purge(&mut self, request: u64, goes: impl Fn(&Message) -> bool) {
        let gone = self.messages.iter().filter(|message| goes(message));
        let gone: Vec<u64> = gone.map(|message| message.position).collect();
        let n_messages = gone.len() as u64;
        gone.into_iter().for_each(|position| self.refuse(position, None));
        self.release(goes);
        self.effects.push(Effect::Purged { request, n_messages });
    }

    /// Refuses the publish of a message, or hands it on to a letter, if it waits for an answer; it may come
    /// again.
    fn refuse(&mut self, position: u64, letter: Option<u64>) {
        let message = self.message(position);
        let named = message.named.clone();
        let Some((publisher, number)) = message.waiter.take() else { return };
        self.effects.extend(publisher.map(|publisher| match letter {
            None => Effect::Refused { publisher, number },
            Some(letter) => Effect::Departs { publisher, number, letter },
        }));
        for (known, numbers) in &mut self.publishers {
            numbers.put.retain(|put| Some(*known) != publisher || *put != number);
        }
        if let Some((name, id)) = named {
            for (known, ids) in &mut self.named {
                ids.put.retain(|put| *known != name || *put != id);
            }
        }
    }

    fn waiting_ms(&self) -> Option<(u64, u64)> {
        let timeout_ms = self.settings.confirm_on_ack?.timeout_ms?;
        let oldest = self.messages.iter().find(|message| message.waiter.is_some())?;
        Some((oldest.came_ms + timeout_ms, oldest.position))
    }

    fn give_up(&mut self) {
        while let Some((_, position)) = self.waiting_ms().filter(|it| it.0 <= self.clock_ms) {
            self.refuse(position, None);
            if matches!(self.message(position).place, Place::Held { .. }) {
                self.message(position).is_given_up = true;
            } else {
                self.release(|message| message.position == position);
            }
        }
    }

    /// Messages that are due and that nobody holds, in the order they are.
    fn expire(&mut self) {
        let due = |message: &Message| {
            let is_here = message.is_ready() || matches!(message.place, Place::Delayed(_));
            let at_ms = message.deadline_ms.filter(|at_ms| is_here && *at_ms <= self.clock_ms)?;
            Some((at_ms, message.position))
        };
        let mut due: Vec<_> = self.messages.iter().filter_map(due).collect();
        due.sort_unstable();
        for (_, position) in due {
            self.dead_letter(position, Reason::Expired);
        }
    }

    fn wake(&mut self) {
        let due = |message: &Message| {
            let Place::Delayed(until_ms) = message.place else { return None };
            (until_ms <= self.clock_ms).then_some((until_ms, message.position))
        };
        let mut due: Vec<_> = self.messages.iter().filter_map(due).collect();
        due.sort_unstable();
        for (_, position) in due {
            self.n_returned += 1;
            self.message(position).place = Place::Returned(self.n_returned);
        }
    }

    /// When a consumer has held something for too long.
    fn due_ms(&self, consumer: &Consumer) -> Option<u64> {
        let held = self.messages.iter().filter_map(|message| {
            let Place::Held { consumer: by, at_ms, .. } = message.place else { return None };
            (by == consumer.terms.consumer).then_some(at_ms)
        });
        match consumer.reach {
            Reach::Lost(since_ms) => Some(since_ms + self.settings.disconnected_timeout_ms),
            Reach::Up | Reach::GivenUp => Some(held.min()? + consumer.terms.timeout_ms?),
        }
    }

    fn time_out(&mut self) {
        loop {
            let due =
                self.consumers.iter().filter_map(|it| Some((self.due_ms(it)?, it.terms.consumer)));
            let Some((_, id)) = due.min().filter(|it| it.0 <= self.clock_ms) else { break };
            let consumer = self.consumer(id).expect("it is there").clone();
            let mut late = self.held(id);
            if matches!(consumer.reach, Reach::Lost(_)) {
                self.consumer(id).expect("it is there").reach = Reach::GivenUp;
            } else {
                let timeout_ms = consumer.terms.timeout_ms.unwrap_or(u64::MAX);
                let is_late = |at_ms: u64| at_ms.saturating_add(timeout_ms) <= self.clock_ms;
                let place = |position| self.messages.iter().find(|it| it.position == position);
                late.retain(|(_, position)| {
                    place(*position).and_then(Message::held_since_ms).is_some_and(is_late)
                });
                let numbers = late.iter().map(|(number, _)| *number);
                self.consumer(id).expect("it is there").timed_out.extend(numbers.clone());
                let timed_out = numbers.map(|number| Effect::TimedOut { consumer: id, number });
                self.effects.extend(timed_out);
            }
            self.settle(&late, Outcome::Returned(Return::Released));
            self.update_line();
        }
    }

    fn overtaking(&self) -> Option<u64> {
        let active = self.consumers.iter().find(|it| Some(it.terms.consumer) == self.active)?;
        let first = self.standby()?;
        (first.terms.priority > active.terms.priority).then_some(first.terms.consumer)
    }

    fn standby(&self) -> Option<&Consumer> {
        let up = self.consumers.iter().filter(|consumer| consumer.is_up());
        up.min_by_key(|consumer| (-consumer.terms.priority, consumer.came))
    }

    fn choose_active(&mut self) {
        if self.settings.is_single_active {
            let stays = self.consumers.iter().any(|consumer| {
                Some(consumer.terms.consumer) == self.active
                    && !consumer.is_cancelled
                    && consumer.reach != Reach::GivenUp
                    && consumer.timed_out.is_empty()
            });
            let next = if !stays {
                self.standby().map(|it| it.terms.consumer)
            } else if self.active.is_some_and(|id| self.held(id).is_empty()) {
                self.overtaking().or(self.active)
            } else {
                self.active
            };
            let before = std::mem::replace(&mut self.active, next);
            for (id, is_active) in [(before, false), (next, true)] {
                let Some(id) = id.filter(|_| before != next) else { continue };
                if self.consumer(id).is_some_and(|it| !it.is_cancelled) {
                    self.effects.push(Effect::Active { consumer: id, is_active });
                }
            }
        }
        self.update_line();
    }

    fn wants(&self, consumer: &Consumer) -> bool {
        let id = consumer.terms.consumer;
        let is_served = !self.settings.is_single_active
            || self.active == Some(id) && self.overtaking().is_none();
        let prefetch = match consumer.terms.prefetch {
            0 => PREFETCH_UNLIMITED,
            prefetch => prefetch,
        };
        let has_link_credit = !consumer.terms.has_link_credit || consumer.link.credit > 0;
        is_served && consumer.is_up() && has_link_credit && self.held(id).len() < prefetch as usize
    }

    /// Those who want more are in line, new ones at its end; those of whom nothing is left are forgotten.
    fn update_line(&mut self) {
        let wanting: Vec<u64> =
            self.consumers.iter().filter(|it| self.wants(it)).map(|it| it.terms.consumer).collect();
        self.line.retain(|id| wanting.contains(id));
        let new: Vec<u64> = wanting.into_iter().filter(|id| !self.line.contains(id)).collect();
        self.line.extend(new);
        let holding: Vec<u64> = (self.consumers.iter().map(|it| it.terms.consumer))
            .filter(|id| !self.held(*id).is_empty())
            .collect();
        self.consumers.retain(|it| {
            !it.is_cancelled || !it.timed_out.is_empty() || holding.contains(&it.terms.consumer)
        });
    }

    /// The consumer goes to the end of the line, if it is in line.
    fn step_back(&mut self, id: u64) {
        if self.line.contains(&id) {
            self.line.retain(|other| *other != id);
            self.line.push(id);
        }
        self.update_line();
    }

    fn give_out(&mut self) {
        while let Some(position) = self.head() {
            let priority = |id: &u64| {
                let consumer = self.consumers.iter().find(|it| it.terms.consumer == *id);
                -consumer.expect("who is in line is there").terms.priority
            };
            let Some(consumer) = self.line.iter().copied().min_by_key(priority) else { return };
            let (number, at_ms) = (self.next_number, self.clock_ms);
            self.next_number += 1;
            let message = self.message(position);
            message.place = Place::Held { consumer, number, at_ms };
            let DeliveryCounts { n_failed, n_acquired } = message.counts;
            let given = Effect::Assigned { consumer, number, position, n_failed, n_acquired };
            self.effects.push(given);
            let link = &mut self.consumer(consumer).expect("who is in line is there").link;
            link.delivery_count += 1;
            link.credit = link.credit.saturating_sub(1);
            self.step_back(consumer);
        }
    }

    fn unused_ms(&self) -> Option<u64> {
        let expires_ms = self.settings.expires_ms.filter(|_| self.consumers.is_empty())?;
        Some(self.last_used_ms + expires_ms)
    }

    /// When something happens by itself.
    pub(crate) fn deadline_ms(&self) -> Option<u64> {
        let messages = self.messages.iter().filter_map(|message| match message.place {
            Place::Delayed(until_ms) => Some(message.deadline_ms.unwrap_or(u64::MAX).min(until_ms)),
            Place::Fresh | Place::Returned(_) => message.deadline_ms,
            Place::Held { .. } | Place::Departing { .. } => None,
        });
        let consumers = self.consumers.iter().filter_map(|it| self.due_ms(it));
        let waiting = self.waiting_ms().map(|it| it.0);
        messages.chain(consumers).chain(self.unused_ms()).chain(waiting).min()
    }

    pub(crate) fn bytes(&self) -> Bytes {
        let mut bytes = Bytes::default();
        for message in &self.messages {
            *match message.place {
                Place::Held { .. } => &mut bytes.held,
                Place::Departing { .. } => &mut bytes.departing,
                Place::Fresh | Place::Returned(_) | Place::Delayed(_) => &mut bytes.ready,
            } += message.bytes();
        }
        bytes
    }
}
