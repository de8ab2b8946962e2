//! The work of clients.

use super::frame_client::{FrameClient, FrameLink};
use super::ledger::{DEAD, Given, Sent, Settled};
use super::{Amqp10World, Violation};
use crate::harness::fail;
use amqp10::{
    DeliveryOutcome, DeliveryState, Header, MapRef, MessageRef, Modified, Role, Section, ValueRef,
    put_map, put_message_annotations,
};
use stdx::Now;
use testing::outbox::Content;

const CLIENTS_MAX: usize = 3;
const LINKS_MAX: usize = 6;
const PUBLISHES_MAX: usize = 8;
const CREDITS: &[u32] = &[0, 1, 2, 10, 200];
const SIZES: &[usize] = &[0, 20, 300, 3_000, 9_000];
const PASSING_MS: &[u64] = &[1, 500, 1_000, 3_000];
/// How much later a message is to come again.
const DELAYS_MS: &[u64] = &[500, 2_000];
/// The target whose messages have no queue.
pub(super) const NOWHERE: &str = "";

impl Amqp10World {
    /// One random thing happens.
    pub(super) fn act(&mut self) {
        match self.harness.random.below(100) {
            0..12 => self.harness.step_part(),
            12..17 => self.pass_time(),
            17..22 => self.connect(),
            22..24 => self.leave(),
            24..46 => self.publish(),
            46..62 => self.settle(),
            62..72 => self.attach(),
            72..75 => self.detach(),
            75..84 => self.give_credit(),
            84..88 => self.open_window(),
            88..94 => self.act_plain(),
            94..96 => self.transact(),
            _ => self.dry(),
        }
        self.take_in();
    }

    fn pass_time(&mut self) {
        self.ledger.now_ms += self.harness.random.choose(PASSING_MS).unwrap_or(1);
        self.harness.tick(self.ledger.now_ms);
    }

    fn connect(&mut self) {
        if self.clients.len() >= CLIENTS_MAX {
            return;
        }
        let now = Now::at_ms(self.ledger.now_ms);
        let client = FrameClient::connect(&mut self.harness, now);
        self.harness.note(format!("client {} connects, wide {}", self.n_clients, client.is_wide()));
        self.clients.insert(self.n_clients, client);
        self.n_clients += 1;
    }

    pub(super) fn some_link(
        &mut self,
        is_wanted: impl Fn(&FrameLink) -> bool,
    ) -> Option<(usize, u32)> {
        let wanted = self.clients.iter().flat_map(|(number, client)| {
            let links = client.links.iter().filter(|(_, link)| is_wanted(link));
            links.map(|(handle, _)| (*number, *handle))
        });
        let wanted: Vec<(usize, u32)> = wanted.collect();
        self.harness.random.choose(&wanted)
    }

    fn attach(&mut self) {
        let Some(number) = self.harness.random.choose_key(&self.clients) else { return };
        let Some(client) = self.clients.get_mut(&number) else { return };
        if client.links.len() >= LINKS_MAX {
            return;
        }
        let random = &mut self.harness.random;
        let role = if random.percent(50) { Role::Sender } else { Role::Receiver };
        let queue =
            random.pick(&["q0", "q1", "q2", if role == Role::Sender { NOWHERE } else { DEAD }]);
        // Settled deliveries that no window lets through go with their client.
        let is_settled = random.percent(20) && (role == Role::Sender || client.is_wide());
        let target = self.ledger.target(queue);
        let address = &target.address;
        self.harness.note(format!("client {number}: {role:?} {address}, settled {is_settled}"));
        let handle = client.attach(&mut self.harness, &target, role, is_settled);
        if role == Role::Receiver && self.harness.random.percent(80) {
            let credit = self.harness.random.choose(CREDITS).unwrap_or(1);
            client.give_credit(&mut self.harness, (handle, credit), false);
        }
    }

    fn detach(&mut self) {
        let Some((number, handle)) = self.some_link(|_| true) else { return };
        self.end_link(number, handle);
    }

    /// A link ends, and its deliveries go back; settled ones that are on their way are taken first.
    fn end_link(&mut self, number: usize, handle: u32) {
        self.harness.note(format!("client {number}: detach {handle}"));
        self.take_in();
        let Some(client) = self.clients.get_mut(&number) else { return };
        if client.links.get(&handle).is_some_and(|link| !link.is_publisher() && link.is_settled) {
            client.give_credit(&mut self.harness, (handle, 0), false);
            self.take_in();
        }
        let Some(client) = self.clients.get_mut(&number) else { return };
        let Some(link) = client.links.get(&handle) else { return };
        let queue = link.queue;
        let held = client.held.extract_if(.., |_, (of, _)| *of == handle);
        let held: Vec<u64> = held.map(|(_, (_, id))| id).collect();
        if !link.is_publisher() {
            self.ledger.leave(queue);
        }
        for id in held {
            self.ledger.settle((id, queue), BACK);
        }
        client.detach(&mut self.harness, handle);
    }

    fn leave(&mut self) {
        let Some(number) = self.harness.random.choose_key(&self.clients) else { return };
        self.disconnect(number);
    }

    /// A client is lost, with what it has not been answered.
    pub(super) fn disconnect(&mut self, number: usize) {
        self.harness.note(format!("client {number} is lost"));
        let links = self.clients.get(&number).map(|client| &client.links);
        let settled = links.into_iter().flatten().filter(|(_, link)| link.is_settled);
        let settled: Vec<u32> = settled.map(|(handle, _)| *handle).collect();
        settled.into_iter().for_each(|handle| self.end_link(number, handle));
        let Some(client) = self.clients.remove(&number) else { return };
        client.links.values().for_each(|link| self.ledger.leave(link.queue));
        for (handle, id) in client.held.values() {
            if let Some(link) = client.links.get(handle) {
                self.ledger.settle((*id, link.queue), BACK);
            }
        }
        if !client.end(&mut self.harness) && !self.is_over() {
            fail("a client cannot leave");
        }
    }

    fn publish(&mut self) {
        let Some((number, handle)) = self.some_link(|link| link.is_publisher()) else { return };
        for _ in 0..=self.harness.random.below(PUBLISHES_MAX) {
            let id = self.n_messages + 1;
            let random = &mut self.harness.random;
            let (is_durable, is_settled) = (random.percent(75), random.percent(20));
            let size = random.choose(SIZES).unwrap_or(0);
            let Some(client) = self.clients.get_mut(&number) else { return };
            let Some(link) = client.links.get(&handle) else { return };
            let (queue, is_settled) = (link.queue, is_settled || link.is_settled);
            let payload = Content::numbered_body(id, size);
            let (sections, bare) = message(id, &payload, is_durable);
            let is_routed = queue != NOWHERE;
            let sent = Sent { payload, bare: Some(bare), is_durable, is_routed, answer: None };
            if !client.can_publish(handle, sections.len()) {
                return;
            }
            self.n_messages = id;
            self.harness.note(format!("client {number}: m{id}>{queue}, settled {is_settled}"));
            self.ledger.publish((id, queue), sent);
            client.publish(&mut self.harness, (handle, id), &sections, is_settled);
            if self.is_over() {
                return;
            }
        }
    }

    fn settle(&mut self) {
        let Some(number) = self.harness.random.choose_key(&self.clients) else { return };
        let Some(client) = self.clients.get_mut(&number) else { return };
        let random = &mut self.harness.random;
        let Some(first) = random.choose_key(&client.held) else { return };
        let n = random.choose(&[0, 0, 2, 10, 1_000]).unwrap_or(0);
        let held = client.held.range(first..=first.saturating_add(n));
        let held: Vec<(u32, (u32, u64))> = held.map(|(id, held)| (*id, *held)).collect();
        let last = held.last().map_or(first, |(last, _)| *last);
        let note = u32::try_from(self.n_messages).unwrap_or(0);
        let until_ms = self.ledger.now_ms + random.perhaps(30, DELAYS_MS).unwrap_or(0);
        let (mut annotations, has_failed) = (Vec::new(), random.percent(50));
        put_map(&mut annotations, |items| {
            items.put_symbol("x-n", ValueRef::U32(note));
            if until_ms > self.ledger.now_ms {
                let at = ValueRef::Timestamp(i64::try_from(until_ms).unwrap_or(0));
                items.put_symbol("x-opt-delivery-time", at);
            }
        });
        let Ok((ValueRef::Map(annotations), _)) = ValueRef::decode(&annotations) else { return };
        let modified = |undeliverable_here, message_annotations| {
            let delivery_failed = has_failed;
            let modified = Modified { delivery_failed, undeliverable_here, message_annotations };
            DeliveryState::Outcome(DeliveryOutcome::Modified(modified))
        };
        let back = |has_failed, note, until_ms| Settled::Back { has_failed, note, until_ms };
        let (state, settled) = match random.below(10) {
            0..5 => (DeliveryState::ACCEPTED, Settled::Done),
            5 => (DeliveryState::rejected(None), Settled::Dead),
            6 => (DeliveryState::RELEASED, back(false, None, 0)),
            7 => (modified(true, MapRef::EMPTY), Settled::Dead),
            8 => (modified(false, MapRef::EMPTY), back(has_failed, None, 0)),
            _ => (modified(false, annotations), back(has_failed, Some(note), until_ms)),
        };
        let is_told_settled = random.percent(80);
        let shown = crate::trace::join(held.iter().map(|(_, (_, id))| format!("m{id}")));
        self.harness.note(format!("client {number}: {shown} {settled:?}"));
        for (delivery_id, (handle, id)) in held {
            client.held.remove(&delivery_id);
            if let Some(link) = client.links.get(&handle) {
                self.ledger.settle((id, link.queue), settled);
            }
        }
        client.settle(&mut self.harness, (first, last), state, is_told_settled);
    }

    fn give_credit(&mut self) {
        let Some((number, handle)) = self.some_link(|link| !link.is_publisher()) else { return };
        let credit = self.harness.random.choose(CREDITS).unwrap_or(1);
        let drain = self.harness.random.percent(20);
        self.harness.note(format!("client {number}: credit {credit} on {handle}, drain {drain}"));
        if let Some(client) = self.clients.get_mut(&number) {
            client.give_credit(&mut self.harness, (handle, credit), drain);
        }
    }

    fn open_window(&mut self) {
        let Some(number) = self.harness.random.choose_key(&self.clients) else { return };
        self.harness.note(format!("client {number} opens its window"));
        if let Some(client) = self.clients.get_mut(&number) {
            client.open_window(&mut self.harness);
        }
    }

    fn act_plain(&mut self) {
        let Some(plain) = &mut self.plain else { return };
        let (ledger, harness) = (&mut self.ledger, &mut self.harness);
        match harness.random.below(10) {
            0..4 => {
                self.n_messages += 1;
                plain.publish(harness, ledger, self.n_messages);
            }
            4..6 => plain.consume(harness),
            _ => plain.settle(harness, ledger),
        }
    }
}

/// A message goes back with its link.
const BACK: Settled = Settled::Back { has_failed: false, note: None, until_ms: 0 };

/// A message with that number, and the part of it that nobody may change.
pub(super) fn message(id: u64, payload: &[u8], is_durable: bool) -> (Vec<u8>, Vec<u8>) {
    let (mut sections, mut bare) = (Vec::new(), Vec::new());
    Header { durable: Some(is_durable), ..Header::default() }.encode(&mut sections);
    put_message_annotations(&mut sections, |items| items.put_symbol("x-id", ValueRef::U64(id)));
    let subject = format!("m{id}");
    let properties = amqp10::Properties { subject: Some(&subject), ..Default::default() };
    Section::Properties(properties).encode(&mut bare);
    Section::Data(payload).encode(&mut bare);
    sections.extend_from_slice(&bare);
    (sections, bare)
}

/// A message as its consumer sees it in sections.
pub(super) fn sections_of(sections: &[u8]) -> Result<Given, Violation> {
    let message = MessageRef::parse(sections).map_err(|error| format!("no message: {error}"))?;
    let header = message.header;
    let mut bare = sections;
    let mut rest = amqp10::Sections::new(sections);
    while let Some(Ok(section)) = rest.next() {
        if !matches!(
            section,
            Section::Header(_) | Section::DeliveryAnnotations(_) | Section::MessageAnnotations(_)
        ) {
            break;
        }
        bare = rest.rest();
    }
    let payload: Vec<u8> = message.body.data().flatten().copied().collect();
    let number = |name: &str| match message.message_annotations.get(name) {
        Some(ValueRef::U64(n)) => Some(n),
        Some(ValueRef::U32(n)) => Some(n.into()),
        Some(_) | None => None,
    };
    let id = number_of(&payload)?;
    if number("x-id").is_some_and(|it| it != id) {
        return Err(format!("m{id} has the annotations of another"));
    }
    Ok(Given {
        id,
        payload,
        bare: Some(bare.to_vec()),
        is_again: header.is_none_or(|header| !header.first_acquirer),
        n_failed: Some(header.map_or(0, |header| header.delivery_count)),
        note: number("x-n").and_then(|note| u32::try_from(note).ok()),
    })
}

/// The number in front of a body.
pub(super) fn number_of(payload: &[u8]) -> Result<u64, Violation> {
    let digits: Vec<u8> = payload.iter().copied().take_while(u8::is_ascii_digit).collect();
    let number = String::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| "a delivery without a number".to_owned())
}
