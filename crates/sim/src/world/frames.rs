//! Clients of AMQP 1.0, in frames: credit, windows, outcomes; beside clients of AMQP 0-9-1.

use super::World;
use super::frame_client::{Answer, FrameClient, FrameLink, Heard};
use super::ledger::{Copy, Sent};
use super::peers::Link;
use super::work::{PRIORITIES, QUORUM_PRIORITY};
use crate::harness::FIRST;
use crate::seen::Framed;
use amqp10::{
    DeliveryOutcome, DeliveryState, Header, MapRef, Modified, Role, Section, ValueRef, put_map,
    put_message_annotations,
};
use message::BodyForm;
use session::Outcome;
use std::collections::BTreeMap;
use stdx::Now;
use testing::outbox::Content;
use testing::run::{expect_ok, fail};

const CLIENTS_MAX: usize = 3;
const LINKS_MAX: usize = 6;
const PUBLISHES_MAX: usize = 8;
const CREDITS: &[u32] = &[0, 1, 2, 10, 200];
const SIZES: &[usize] = &[0, 20, 300, 3_000, 9_000];
/// How much later a message is to come again.
const DELAYS_MS: &[u64] = &[500, 2_000];
/// The target whose messages have no queue.
const NOWHERE: &str = "";
/// The number of the first client, behind those of all clients of AMQP 0-9-1.
const FIRST_CLIENT: usize = 1_000;

/// The clients of a run.
#[derive(Default)]
pub(super) struct Frames {
    pub(super) clients: BTreeMap<usize, FrameClient>,
    n_clients: usize,
    /// Somebody was told something since that was looked at last.
    pub(super) has_heard: bool,
}

impl Frames {
    /// A queue is gone: links to it end, now or when they are used.
    pub(super) fn lose_queue(&mut self, queue: &str) {
        for client in self.clients.values_mut() {
            client.held.retain(|_, (_, copy)| copy.queue != queue);
            for link in client.links.values_mut().filter(|link| link.link.queue == queue) {
                (link.is_orphan, link.link.is_consumer) = (true, false);
            }
        }
    }

    fn client(&mut self, number: usize) -> &mut FrameClient {
        self.clients.get_mut(&number).expect("the client is connected")
    }
}

impl World {
    /// One random thing happens to a client of AMQP 1.0.
    pub(super) fn act_framed(&mut self) {
        match self.harness.random.below(100) {
            0..8 => self.connect_framed(),
            8..10 => self.leave_framed(),
            10..34 => self.publish_framed(),
            34..54 => self.settle_framed(),
            54..68 => self.attach_framed(),
            68..72 => self.detach_framed(),
            72..84 => self.give_credit(),
            84..90 => self.open_window(),
            90..96 => self.transact(),
            96 => self.delete(),
            _ => self.declare_missing(),
        }
        self.take_in();
    }

    pub(super) fn frame_links(&self) -> impl Iterator<Item = &FrameLink> {
        self.frames.clients.values().flat_map(|client| client.links.values())
    }

    pub(super) fn some_frame_link(
        &mut self,
        is_wanted: impl Fn(&FrameLink) -> bool,
    ) -> Option<(usize, u32)> {
        let wanted = self.frames.clients.iter().flat_map(|(number, client)| {
            let links = client.links.iter().filter(|(_, link)| is_wanted(link));
            links.map(|(handle, _)| (*number, *handle))
        });
        let wanted: Vec<(usize, u32)> = wanted.collect();
        self.harness.random.choose(&wanted)
    }

    fn connect_framed(&mut self) {
        if self.frames.clients.len() >= CLIENTS_MAX {
            return;
        }
        let now = Now::at_ms(self.now_ms());
        let client = FrameClient::connect(&mut self.harness, now);
        let number = FIRST_CLIENT + self.frames.n_clients;
        self.harness.note(format!("client {number} connects, wide {}", client.is_wide()));
        self.frames.clients.insert(number, client);
        self.frames.n_clients += 1;
        self.take_in();
        self.check_windows();
    }

    /// Checks that clients may publish, or must not, as long as there is an alarm.
    pub(super) fn check_windows(&self) {
        let mut clients = self.frames.clients.iter();
        let wrong = clients.find(|(_, client)| client.is_shut_out() != self.has_alarm);
        if let Some((number, _)) = wrong.filter(|_| !self.is_over()) {
            fail(format!("alarm {}, and client {number} has another window", self.has_alarm));
        }
    }

    fn attach_framed(&mut self) {
        let Some(number) = self.harness.random.choose_key(&self.frames.clients) else { return };
        let client = self.frames.client(number);
        let (n_links, is_wide) = (client.links.len(), client.is_wide());
        let is_sender = self.harness.random.percent(50);
        let role = if is_sender { Role::Sender } else { Role::Receiver };
        let queues = self.queues().into_iter().filter(|queue| self.is_usable(queue));
        let streams = self.streams.names().into_iter().filter(|stream| self.is_there(stream));
        let queues: Vec<&'static str> =
            queues.chain(streams).chain(is_sender.then_some(NOWHERE)).collect();
        let Some(queue) = self.harness.random.choose(&queues) else { return };
        if n_links >= LINKS_MAX {
            return;
        }
        let is_stream = self.is_stream(queue);
        let random = &mut self.harness.random;
        // Settled deliveries that no window lets through go with their client.
        let no_ack = random.percent(20) && (is_sender || is_wide);
        let starts_first = is_stream && random.percent(70);
        let link = self.new_link(queue, 0);
        let link = Link { is_consumer: !is_sender, no_ack, starts_first, ..link };
        if !is_stream && !is_sender {
            self.use_queue(queue);
        }
        self.harness.note(format!("client {number}: {role:?} {queue}, settled {no_ack}"));
        let address = match queue {
            NOWHERE => "/exchanges/amq.direct/none".to_owned(),
            queue => format!("/queues/{queue}"),
        };
        let is_early = is_stream || self.ledger.rules(queue).is_quorum;
        let client = self.frames.client(number);
        let handle = client.attach(&mut self.harness, (link, &address), role, is_early);
        if !is_sender && self.harness.random.percent(80) {
            let credit = self.harness.random.choose(CREDITS).unwrap_or(1);
            client.give_credit(&mut self.harness, (handle, credit), false);
        }
    }

    fn detach_framed(&mut self) {
        let Some((number, handle)) = self.some_frame_link(|_| true) else { return };
        self.end_link(number, handle);
    }

    /// A link ends, and its deliveries go back; settled ones that are on their way are taken first.
    fn end_link(&mut self, number: usize, handle: u32) {
        self.harness.note(format!("client {number}: detach {handle}"));
        self.take_in();
        let client = self.frames.client(number);
        if client.links.get(&handle).is_some_and(|link| link.link.is_consumer && link.link.no_ack) {
            client.give_credit(&mut self.harness, (handle, 0), false);
            self.take_in();
        }
        let client = self.frames.client(number);
        let Some(FrameLink { link, .. }) = client.links.get(&handle) else { return };
        let (queue, is_consumer) = (link.queue, link.is_consumer);
        let held = client.held.extract_if(.., |_, (of, _)| *of == handle);
        let held: Vec<Copy> = held.map(|(_, (_, copy))| copy).collect();
        client.detach(&mut self.harness, handle);
        self.leave_queues(is_consumer.then_some(queue).into_iter().collect(), held);
    }

    /// Consumers of queues are gone, and what they held comes back, with what they were never given.
    fn leave_queues(&mut self, queues: Vec<&'static str>, held: Vec<Copy>) {
        for queue in queues {
            if !self.is_stream(queue) {
                self.use_queue(queue);
                self.ledger.leave(queue);
                self.returned_to.insert(queue);
            }
        }
        for copy in held {
            self.come_back(copy, false);
            self.ledger.may_have_failed(copy);
        }
    }

    fn leave_framed(&mut self) {
        let Some(number) = self.harness.random.choose_key(&self.frames.clients) else { return };
        self.disconnect_framed(number);
    }

    /// All clients of AMQP 1.0 are lost.
    pub(super) fn disconnect_all_framed(&mut self) {
        let numbers: Vec<usize> = self.frames.clients.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.disconnect_framed(number));
    }

    /// A client is lost, with what it has not been answered.
    fn disconnect_framed(&mut self, number: usize) {
        self.harness.note(format!("client {number} is lost"));
        let links = self.frames.client(number).links.iter();
        let settled = links.filter(|(_, link)| link.link.no_ack);
        let settled: Vec<u32> = settled.map(|(handle, _)| *handle).collect();
        settled.into_iter().for_each(|handle| self.end_link(number, handle));
        let Some(client) = self.frames.clients.remove(&number) else { return };
        let links = client.links.values().filter(|link| link.link.is_consumer);
        let queues = links.map(|link| link.link.queue).collect();
        let held = client.held.values().map(|(_, copy)| *copy).collect();
        self.leave_queues(queues, held);
        if !client.end(&mut self.harness) && !self.is_over() {
            fail("a client cannot leave");
        }
    }

    fn publish_framed(&mut self) {
        let Some((number, handle)) = self.some_frame_link(FrameLink::is_publisher) else { return };
        for _ in 0..=self.harness.random.below(PUBLISHES_MAX) {
            let size = self.harness.random.choose(SIZES).unwrap_or(0);
            let is_settled = self.harness.random.percent(20);
            let Some(link) = self.frames.client(number).links.get(&handle) else { return };
            let (queue, is_settled) = (link.link.queue, is_settled || link.link.no_ack);
            let sent = self.framed_message(queue, size);
            let (id, sections) = (self.n_messages + 1, sent.content.body.clone());
            let client = self.frames.client(number);
            if !client.can_publish(handle, sections.len()) {
                return;
            }
            self.n_messages = id;
            self.harness.note(format!("client {number}: m{id}>{queue}, settled {is_settled}"));
            if self.is_stream(queue) {
                self.streams.publish(id, queue, size);
            } else {
                self.enforced.insert(queue);
                self.ledger.publish(id, sent);
            }
            let client = self.frames.client(number);
            client.publish(&mut self.harness, (handle, id), &sections, is_settled);
            if self.is_over() {
                return;
            }
        }
    }

    /// The next message, for a queue.
    pub(super) fn framed_message(&mut self, queue: &'static str, size: usize) -> Sent {
        let is_plain = !self.features.has_rules || self.is_stream(queue);
        let percent = |percent| if is_plain { 0 } else { percent };
        let random = &mut self.harness.random;
        let expiration_ms: Option<u64> = random.perhaps(percent(15), &[0, 700, 4_000]);
        let priority = random.perhaps(percent(60), PRIORITIES);
        let persistent = random.percent(75);
        let id = self.n_messages + 1;
        let ttl_ms = expiration_ms.and_then(|ms| u32::try_from(ms).ok());
        let header = Header { durable: Some(persistent), priority, ttl_ms, ..Header::default() };
        let payload = Content::numbered_body(id, size);
        let content = Content {
            exchange: Vec::new(),
            key: queue.into(),
            properties: Vec::new(),
            body: sections_of(id, header, &payload),
            persistent,
            form: BodyForm::Amqp10,
        };
        let is_there = self.is_there(queue);
        let expected = if is_there { self.expected(queue, 0) } else { None };
        let default = if self.ledger.rules(queue).is_quorum { QUORUM_PRIORITY } else { 0 };
        self.sent_of(Some(queue), content, (expiration_ms, priority.unwrap_or(default)), expected)
    }

    fn settle_framed(&mut self) {
        let Some(number) = self.harness.random.choose_key(&self.frames.clients) else { return };
        let client = self.frames.client(number);
        let random = &mut self.harness.random;
        let Some(first) = random.choose_key(&client.held) else { return };
        let n = random.choose(&[0, 0, 2, 10, 1_000]).unwrap_or(0);
        let held = client.held.extract_if(first..=first.saturating_add(n), |_, _| true);
        let held: Vec<(u32, Copy)> = held.map(|(id, (_, copy))| (id, copy)).collect();
        let last = held.last().map_or(first, |(last, _)| *last);
        let (note, has_failed) = (self.n_messages, random.percent(50));
        let until_ms = random.perhaps(30, DELAYS_MS).map_or(0, |ms| self.ledger.now_ms + ms);
        let annotations = annotations_of(note, until_ms);
        let Ok((ValueRef::Map(annotations), _)) = ValueRef::decode(&annotations) else { return };
        let modified = |undeliverable_here, message_annotations| {
            let delivery_failed = has_failed;
            let modified = Modified { delivery_failed, undeliverable_here, message_annotations };
            DeliveryState::Outcome(DeliveryOutcome::Modified(modified))
        };
        let failed = if has_failed { Outcome::Modified } else { Outcome::Released };
        let what = random.below(10);
        let (state, outcome) = match what {
            0..4 => (DeliveryState::ACCEPTED, Outcome::Accepted),
            4 => (DeliveryState::rejected(None), Outcome::Rejected),
            5 => (DeliveryState::RELEASED, Outcome::Released),
            6 => (modified(true, MapRef::EMPTY), Outcome::Rejected),
            7 => (modified(false, MapRef::EMPTY), failed),
            _ => (modified(false, annotations), failed),
        };
        let is_told_settled = random.percent(80);
        let shown = testing::run::join(held.iter().map(|(_, copy)| format!("m{}", copy.id)));
        self.harness.note(format!("client {number}: {shown} {outcome:?}, as {what}"));
        for (_, copy) in held {
            self.settle_copy(copy, outcome);
            if what > 7 {
                self.ledger.annotate(copy, note, until_ms);
            }
        }
        let client = self.frames.client(number);
        client.settle(&mut self.harness, (first, last), state, is_told_settled);
    }

    /// A client of AMQP 1.0 settles a message.
    pub(super) fn settle_copy(&mut self, copy: Copy, outcome: Outcome) {
        if self.is_stream(copy.queue) {
            return;
        }
        self.use_by_hold(copy.queue);
        self.end_copy(copy, outcome);
    }

    fn give_credit(&mut self) {
        let Some((number, handle)) = self.some_frame_link(|link| !link.is_publisher()) else {
            return;
        };
        let credit = self.harness.random.choose(CREDITS).unwrap_or(1);
        let drain = self.harness.random.percent(20);
        self.harness.note(format!("client {number}: credit {credit} on {handle}, drain {drain}"));
        self.frames.client(number).give_credit(&mut self.harness, (handle, credit), drain);
    }

    fn open_window(&mut self) {
        let Some(number) = self.harness.random.choose_key(&self.frames.clients) else { return };
        self.harness.note(format!("client {number} opens its window"));
        self.frames.client(number).open_window(&mut self.harness);
    }

    /// Takes in what clients were told.
    pub(super) fn take_in_frames(&mut self) {
        let numbers: Vec<usize> = self.frames.clients.keys().copied().collect();
        for number in numbers {
            let Some(client) = self.frames.clients.get_mut(&number) else { continue };
            for heard in client.hear(&mut self.harness) {
                self.frames.has_heard = true;
                self.take_heard(number, heard);
            }
        }
    }

    fn take_heard(&mut self, number: usize, heard: Heard) {
        let is_over = self.is_over();
        let client = self.frames.client(number);
        match heard {
            Heard::Ended(_) | Heard::Detached { .. } if is_over => {}
            Heard::Ended(what) => fail(format!("a client is thrown out: {what}")),
            Heard::Detached { handle, error } => {
                self.harness.note(format!("  {number}: {handle} is detached"));
                let link = client.links.get(&handle).filter(|link| !link.is_orphan);
                if link.is_some() || !error.contains("resource-deleted") {
                    fail(format!("link {handle} of client {number} ends: {error}"));
                }
                client.detach(&mut self.harness, handle);
            }
            Heard::Answered { delivery_id, answer } => {
                let Some((_, id)) = client.unanswered.remove(&delivery_id) else {
                    fail(format!("delivery {delivery_id} is answered twice, or after its link"));
                };
                self.harness.note(format!("  {number}: {answer:?} m{id}"));
                self.take_framed_answer(id, answer);
            }
            Heard::Delivered { handle, delivery_id, sections } => {
                let framed = expect_ok(Framed::of(&sections, handle));
                self.harness.note(format!("  {number}: delivery {delivery_id}, {framed:?}"));
                self.take_framed(number, (handle, delivery_id), &framed);
            }
        }
    }

    fn take_framed_answer(&mut self, id: u64, answer: Answer) {
        let sent = self.ledger.sent.get(&id);
        let has_queue = sent.is_none_or(|sent| !sent.to.is_empty());
        // Its queue may have gone since.
        let is_there = |sent: &Sent, queue: &str| sent.is_of(queue) && self.is_there(queue);
        let has_kept = sent.is_none_or(|sent| sent.to.keys().any(|queue| is_there(sent, queue)));
        let is_wrong = match answer {
            Answer::Released => has_kept,
            Answer::Accepted | Answer::Rejected => !has_queue,
        };
        if is_wrong && !self.is_over() {
            fail(format!("m{id} is answered {answer:?}"));
        }
        if answer != Answer::Released {
            self.take_answer(id, answer == Answer::Accepted);
        }
    }

    fn take_framed(&mut self, number: usize, (handle, delivery_id): (u32, u32), framed: &Framed) {
        let client = self.frames.client(number);
        let Some(link) = client.links.get(&handle).filter(|link| !link.is_orphan) else { return };
        let (queue, no_ack, is_wide) = (link.link.queue, link.link.no_ack, client.is_wide());
        let Framed { given, seen, .. } = framed;
        let copy = if self.is_stream(queue) {
            let link = (number, handle.into());
            let id = expect_ok(self.streams.take_given(queue, link, given));
            Copy { id, queue, n_deaths: 0 }
        } else {
            let copy = Copy { id: seen.id, queue, n_deaths: seen.n_deaths() };
            if !self.is_over() {
                let is_timely = is_wide && self.is_dry && !self.ledger.rules(queue).is_quorum;
                expect_ok(self.ledger.check_given(copy, (given, seen), is_timely));
                expect_ok(self.ledger.check_note(copy, framed));
                self.check_free(copy);
                self.check_turn(number, handle.into(), seen);
            } else if !self.ledger.rules(queue).is_quorum {
                self.ledger.past.consumed.insert(copy.at());
            }
            self.ledger.note_given(copy);
            copy
        };
        if !no_ack {
            self.frames.client(number).held.insert(delivery_id, (handle, copy));
        } else if !self.is_stream(queue) {
            self.ledger.settle(copy, Outcome::Accepted);
        }
    }

    /// Checks what clients wait for of a node that has nothing left to do by itself.
    pub(super) fn check_dry_frames(&self) {
        for (number, client) in &self.frames.clients {
            if client.is_wide() && client.is_draining() {
                fail(format!("a drain of client {number} does not end"));
            }
            let mut ids = client.unanswered.values().map(|(_, id)| *id);
            let overdue = ids.find(|id| self.ledger.must_be_answered(*id));
            if let Some(id) = overdue.filter(|_| !self.is_disk_short) {
                fail(format!("m{id} is not answered"));
            }
            for link in client.links.values().filter(|_| client.is_wide() && !self.is_disk_short) {
                if link.is_hungry() {
                    self.check_fed(link.link.queue);
                }
            }
        }
    }

    /// Checks that nothing waits in a queue that has a consumer with credit.
    fn check_fed(&self, queue: &'static str) {
        let rules = self.ledger.rules(queue);
        let may_wait = rules.is_single_active || self.ledger.may_hold_back(queue);
        let stat = self
            .harness
            .host(FIRST)
            .queue(queue)
            .filter(|_| !may_wait)
            .map(|queue| queue.local_stat());
        if let Some(stat) = stat.filter(|stat| stat.n_ready > 0 && !self.streams.has(queue)) {
            fail(format!("{} wait in {queue} for a consumer with credit", stat.n_ready));
        }
    }
}

/// The annotations of a message that is given back with a note, perhaps for later.
fn annotations_of(note: u64, until_ms: u64) -> Vec<u8> {
    let mut annotations = Vec::new();
    put_map(&mut annotations, |items| {
        items.put_symbol("x-n", ValueRef::U64(note));
        if until_ms > 0 {
            let at = ValueRef::Timestamp(i64::try_from(until_ms).unwrap_or(0));
            items.put_symbol("x-opt-delivery-time", at);
        }
    });
    annotations
}

/// A message with that number.
fn sections_of(id: u64, header: Header, payload: &[u8]) -> Vec<u8> {
    let mut sections = Vec::new();
    header.encode(&mut sections);
    put_message_annotations(&mut sections, |items| items.put_symbol("x-id", ValueRef::U64(id)));
    let subject = format!("m{id}");
    let properties = amqp10::Properties { subject: Some(&subject), ..Default::default() };
    Section::Properties(properties).encode(&mut sections);
    Section::Data(payload).encode(&mut sections);
    sections
}
