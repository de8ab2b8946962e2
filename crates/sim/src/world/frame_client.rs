//! A client of AMQP 1.0: one session with its windows, links with credit, and deliveries, in frames.

mod wire;

use super::ledger::Copy;
use super::peers::Link;
use super::transactions::Coordination;
use crate::harness::Harness;
use amqp10::{
    Attach, Begin, DeliveryOutcome, DeliveryState, Detach, Disposition, Flow, FrameType, MapRef,
    Open, Performative, ProtocolLayer, Role, SenderSettleMode, SerialNumber, SourceTerminus,
    Transfer, ValueRef, decode_frame, put_frame, put_map,
};
use std::collections::BTreeMap;
use stdx::Now;
use testing::amqp10_client;
use testing::run::fail;
use wire::Wire;

/// The window of a client that is never short of it.
const WIDE_WINDOW: u32 = 1 << 20;
const NARROW_WINDOWS: &[u32] = &[1, 3, 10];
const READS_BYTES: &[usize] = &[9, 200, 1 << 20];
const FRAMES_BYTES: &[u32] = &[512, 4_096, 1 << 17];
/// Bytes of a transfer that are not the message's.
const TRANSFER_BYTES_MAX: usize = 64;

/// The broker's answer to a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Accepted,
    Released,
    Rejected,
}

/// An event that a client's user is told.
#[derive(Debug)]
pub(super) enum Heard {
    Delivered {
        handle: u32,
        delivery_id: u32,
        sections: Vec<u8>,
    },
    Answered {
        delivery_id: u32,
        answer: Answer,
    },
    /// A link ends, with its error.
    Detached {
        handle: u32,
        error: String,
    },
    /// The session or the connection, with its error.
    Ended(String),
}

/// A link, as its client sees it.
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own")]
pub(super) struct FrameLink {
    /// The consumer, or the queue that is published to.
    pub(super) link: Link,
    pub(super) role: Role,
    /// Its queue was deleted: the broker may end it.
    pub(super) is_orphan: bool,
    /// Credit that is taken back is not used any more.
    is_exact: bool,
    /// The queue gives messages out before they are read from the disk. It takes them back where credit
    /// shrinks, but for those that a drain waits for.
    is_early: bool,
    is_draining: bool,
    /// Deliveries so far, also those that were drained.
    count: u32,
    credit: u32,
    /// Deliveries that the client has given credit for.
    limit: u32,
    /// The first part of a delivery.
    arriving: Option<(u32, Vec<u8>)>,
}

impl FrameLink {
    pub(super) fn is_publisher(&self) -> bool {
        self.role == Role::Sender
    }

    /// Whether a consumer that has all its deliveries waits for more.
    pub(super) const fn is_hungry(&self) -> bool {
        let credit = self.limit.wrapping_sub(self.count);
        self.link.is_consumer && 0 < credit && credit <= self.credit
    }
}

/// The windows of the session, in transfers.
struct Windows {
    /// As many as the client takes at a time.
    size: u32,
    left: u32,
    n_in: u32,
    n_out: u32,
    /// As many as the broker takes from now on.
    remote: u32,
}

pub(super) struct FrameClient {
    wire: Wire,
    output: Vec<u8>,
    windows: Windows,
    /// Bytes of a message that go into a frame.
    part_bytes: usize,
    next_delivery_id: u32,
    next_handle: u32,
    pub(super) links: BTreeMap<u32, FrameLink>,
    /// By id of the delivery: handle and message that waits for its answer.
    pub(super) unanswered: BTreeMap<u32, (u32, u64)>,
    /// By id of the delivery: handle and message.
    pub(super) held: BTreeMap<u32, (u32, Copy)>,
    pub(super) coordination: Coordination,
}

impl FrameClient {
    /// A client with a session, which may be short of windows.
    pub(super) fn connect(harness: &mut Harness, now: Now) -> Self {
        let window = harness.random.perhaps(40, NARROW_WINDOWS).unwrap_or(WIDE_WINDOW);
        let random = &mut harness.random;
        let frame_bytes = random.choose(FRAMES_BYTES).unwrap_or(512);
        let wire = Wire::new(now, random.choose(READS_BYTES).unwrap_or(1));
        let windows = Windows { size: window, left: window, n_in: 0, n_out: 0, remote: 0 };
        let mut client = Self {
            wire,
            output: Vec::new(),
            windows,
            part_bytes: usize::try_from(frame_bytes).unwrap_or(512) - TRANSFER_BYTES_MAX,
            next_delivery_id: 0,
            next_handle: 0,
            links: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            held: BTreeMap::new(),
            coordination: Coordination::default(),
        };
        let mut hello = ProtocolLayer::Sasl.header().to_vec();
        hello.extend_from_slice(&amqp10_client::init("PLAIN", b"\0guest\0guest"));
        hello.extend_from_slice(&ProtocolLayer::Amqp.header());
        let open = Open { max_frame_size: frame_bytes, ..amqp10_client::open() };
        Performative::Open(Box::new(open)).encode_frame(0, &mut hello);
        let begin = Begin { incoming_window: window, ..amqp10_client::begin() };
        Performative::Begin(Box::new(begin)).encode_frame(0, &mut hello);
        client.wire.send(harness, &hello);
        client
    }

    /// Whether the broker takes nothing from the client now.
    pub(super) const fn is_shut_out(&self) -> bool {
        self.windows.remote == 0
    }

    /// Whether the client waits for the end of a drain.
    pub(super) fn is_draining(&self) -> bool {
        self.links.values().any(|link| link.is_draining)
    }

    pub(super) const fn is_wide(&self) -> bool {
        self.windows.size == WIDE_WINDOW
    }

    /// The client sends a frame; false if the broker ends the session for that.
    pub(super) fn say(&mut self, harness: &mut Harness, performative: &Performative<'_>) -> bool {
        let mut bytes = Vec::new();
        performative.encode_frame(0, &mut bytes);
        self.wire.send(harness, &bytes)
    }

    /// Attaches a publisher, or a consumer, which has no credit yet; returns its handle. The queue gives
    /// messages out before they are read from the disk if `is_early`.
    pub(super) fn attach(
        &mut self,
        harness: &mut Harness,
        (link, address): (Link, &str),
        role: Role,
        is_early: bool,
    ) -> u32 {
        let handle = self.take_handle();
        let snd_settle_mode =
            if link.no_ack { SenderSettleMode::Settled } else { SenderSettleMode::Mixed };
        let filter = first_offset();
        let attach = match role {
            Role::Sender => amqp10_client::publisher(handle, address),
            Role::Receiver => {
                let attach = amqp10_client::consumer(handle, address);
                let filter = decoded(&filter).filter(|_| link.starts_first);
                let source = attach.source.map(|source| SourceTerminus { filter, ..source });
                Attach { source, ..attach }
            }
        };
        let name = format!("link {handle}");
        let attach = Attach { name: &name, snd_settle_mode, ..attach };
        let link = FrameLink {
            link,
            // Deliveries that are on their way to a client without a window come, whatever it says meanwhile.
            is_exact: self.is_wide(),
            is_early,
            role,
            is_orphan: false,
            is_draining: false,
            count: 0,
            credit: 0,
            limit: 0,
            arriving: None,
        };
        self.links.insert(handle, link);
        self.say(harness, &Performative::Attach(Box::new(attach)));
        handle
    }

    /// Detaches a link: its deliveries go back, and what it has published is answered no more.
    pub(super) fn detach(&mut self, harness: &mut Harness, handle: u32) {
        self.links.remove(&handle);
        self.unanswered.retain(|_, (of, _)| *of != handle);
        let detach = Detach { handle, closed: true, error: None };
        self.say(harness, &Performative::Detach(detach));
    }

    /// Gives a consumer credit.
    pub(super) fn give_credit(
        &mut self,
        harness: &mut Harness,
        (handle, credit): (u32, u32),
        drain: bool,
    ) {
        let window = self.window_flow();
        let Some(link) = self.links.get_mut(&handle) else { return };
        let is_exact = link.is_exact && !(link.is_early && link.is_draining);
        link.credit = if is_exact { credit } else { link.credit.max(credit) };
        link.limit = link.count.wrapping_add(credit);
        link.is_draining = drain;
        let flow = Flow {
            handle: Some(handle),
            delivery_count: Some(SerialNumber::new(link.count)),
            link_credit: Some(credit),
            drain,
            ..window
        };
        self.say(harness, &Performative::Flow(flow));
    }

    /// Opens the session's window.
    pub(super) fn open_window(&mut self, harness: &mut Harness) {
        let flow = self.window_flow();
        self.say(harness, &Performative::Flow(flow));
    }

    fn window_flow(&mut self) -> Flow<'static> {
        let windows = &mut self.windows;
        windows.left = windows.size;
        let (n_in, n_out) = (SerialNumber::new(windows.n_in), SerialNumber::new(windows.n_out));
        Flow::of_session(n_in, windows.size, n_out, WIDE_WINDOW)
    }

    /// A handle that no link has.
    pub(super) const fn take_handle(&mut self) -> u32 {
        self.next_handle += 1;
        self.next_handle - 1
    }

    pub(super) const fn next_delivery_id(&self) -> u32 {
        self.next_delivery_id
    }

    /// Sends a delivery in one transfer, whose answer is looked for elsewhere.
    pub(super) fn transfer(
        &mut self,
        harness: &mut Harness,
        transfer: Transfer<'_>,
        payload: &[u8],
    ) {
        self.send_parts(harness, Transfer { settled: Some(false), ..transfer }, &[payload]);
    }

    /// Sends a delivery in a transfer for each of its parts.
    fn send_parts(&mut self, harness: &mut Harness, transfer: Transfer<'_>, parts: &[&[u8]]) {
        let Transfer { handle, settled, state, .. } = transfer;
        if let Some(link) = self.links.get_mut(&handle) {
            (link.credit, link.count) = (link.credit - 1, link.count.wrapping_add(1));
        }
        let n_parts = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        self.windows.remote = self.windows.remote.saturating_sub(n_parts);
        self.windows.n_out = self.windows.n_out.wrapping_add(n_parts);
        let mut bytes = Vec::new();
        for (at, part) in (1..).zip(parts) {
            let whole = amqp10_client::transfer(handle, self.next_delivery_id);
            let transfer = Transfer { settled, state, more: at < n_parts, ..whole };
            put_frame(&mut bytes, FrameType::Amqp, 0, |out| {
                transfer.encode(out);
                out.extend_from_slice(part);
            });
        }
        self.next_delivery_id += 1;
        self.wire.send(harness, &bytes);
    }

    fn n_parts(&self, n_bytes: usize) -> u32 {
        u32::try_from(n_bytes.div_ceil(self.part_bytes)).unwrap_or(u32::MAX)
    }

    /// Whether credit and window let a message of that size out.
    pub(super) fn can_publish(&self, handle: u32, n_bytes: usize) -> bool {
        let has_credit = self.links.get(&handle).is_some_and(|link| link.credit > 0);
        has_credit && self.windows.remote >= self.n_parts(n_bytes)
    }

    /// Publishes a message in as many transfers as it needs.
    pub(super) fn publish(
        &mut self,
        harness: &mut Harness,
        (handle, id): (u32, u64),
        sections: &[u8],
        is_settled: bool,
    ) {
        if !is_settled {
            self.unanswered.insert(self.next_delivery_id, (handle, id));
        }
        let parts: Vec<&[u8]> = sections.chunks(self.part_bytes).collect();
        let transfer = Transfer { settled: Some(is_settled), ..Transfer::on(handle) };
        self.send_parts(harness, transfer, &parts);
    }

    /// Tells the state of a run of deliveries.
    pub(super) fn settle(
        &mut self,
        harness: &mut Harness,
        (first, last): (u32, u32),
        state: DeliveryState<'_>,
        settled: bool,
    ) {
        let (role, batchable) = (Role::Receiver, false);
        let (first, last) = (SerialNumber::new(first), Some(SerialNumber::new(last)));
        let state = Some(state);
        let told = Disposition { role, first, last, settled, state, batchable };
        self.say(harness, &Performative::Disposition(told));
    }

    /// Takes what the client is sent.
    pub(super) fn hear(&mut self, harness: &mut Harness) -> Vec<Heard> {
        let mut output = std::mem::take(&mut self.output);
        self.wire.receive(harness, &mut output);
        let (mut heard, mut at) = (Vec::new(), 0);
        while let Some(rest) = output.get(at..).filter(|rest| !rest.is_empty()) {
            if rest.starts_with(b"AMQP") {
                at += amqp10::PROTOCOL_HEADER_BYTES;
                continue;
            }
            let is_sasl = rest.get(5) == Some(&1);
            let kind = if is_sasl { FrameType::Sasl } else { FrameType::Amqp };
            let Ok(Some((frame, n_bytes))) = decode_frame(rest, kind, u32::MAX) else {
                fail("the broker sends what is no frame");
            };
            if !is_sasl && !frame.body.is_empty() {
                let decoded = Performative::decode(frame.body);
                let Ok((performative, payload)) = decoded else { fail("no performative") };
                if let Performative::Flow(flow) = &performative {
                    harness.note(format!("  {flow:?}"));
                }
                self.take(&performative, payload, &mut heard);
            }
            at += n_bytes;
        }
        heard
    }

    fn take(&mut self, performative: &Performative<'_>, payload: &[u8], heard: &mut Vec<Heard>) {
        let ended = |what: &str, error: &Option<amqp10::AmqpError<'_>>| {
            Heard::Ended(format!("{what}: {error:?}"))
        };
        match performative {
            Performative::Open(_) => {}
            Performative::Begin(begin) => self.windows.remote = begin.incoming_window,
            Performative::Attach(_) => {}
            Performative::Flow(flow) => self.take_flow(flow),
            Performative::Transfer(transfer) => heard.extend(self.arrive(transfer, payload)),
            Performative::Disposition(told) => self.take_disposition(told, heard),
            Performative::Detach(Detach { handle, error: error @ Some(_), .. }) => {
                heard.push(Heard::Detached { handle: *handle, error: format!("{error:?}") });
            }
            Performative::Detach(_) => {}
            Performative::End(it) => heard.push(ended("session", &it.error)),
            Performative::Close(it) => heard.push(ended("connection", &it.error)),
        }
    }

    fn take_flow(&mut self, flow: &Flow<'_>) {
        let n_seen = flow.next_incoming_id.map_or(0, SerialNumber::bits);
        let seen_to = n_seen.wrapping_add(flow.incoming_window);
        self.windows.remote = seen_to.wrapping_sub(self.windows.n_out);
        let Some(link) = flow.handle.and_then(|handle| self.links.get_mut(&handle)) else { return };
        let (Some(count), Some(credit)) = (flow.delivery_count, flow.link_credit) else { return };
        if link.is_publisher() {
            link.credit = count.plus(credit).since(SerialNumber::new(link.count));
            return;
        }
        // Credit that a drain has counted as used: an earlier one, perhaps.
        let n_drained = count.since(SerialNumber::new(link.count));
        if n_drained > link.credit && link.is_exact && !link.is_early {
            fail(format!("{n_drained} are drained, of {}", link.credit));
        }
        (link.count, link.credit) = (count.bits(), link.credit.saturating_sub(n_drained));
        link.is_draining &= credit > 0;
    }

    /// A part of a delivery arrives; the delivery if it is the last.
    fn arrive(&mut self, transfer: &Transfer<'_>, payload: &[u8]) -> Option<Heard> {
        let windows = &mut self.windows;
        windows.n_in = windows.n_in.wrapping_add(1);
        let has_window = windows.left > 0;
        windows.left = windows.left.saturating_sub(1);
        if !has_window {
            fail("a transfer comes without a window");
        }
        // Of a link that was detached it may still come.
        let link = self.links.get_mut(&transfer.handle)?;
        let first = || transfer.delivery_id.map(|id| (id.bits(), Vec::new()));
        let arriving = link.arriving.take().or_else(first);
        let Some((delivery_id, mut sections)) = arriving else { fail("a delivery without an id") };
        sections.extend_from_slice(payload);
        if transfer.more {
            link.arriving = Some((delivery_id, sections));
            return None;
        }
        if link.credit == 0 {
            fail(format!("delivery {delivery_id} comes without credit"));
        }
        (link.credit, link.count) = (link.credit - 1, link.count.wrapping_add(1));
        Some(Heard::Delivered { handle: transfer.handle, delivery_id, sections })
    }

    fn take_disposition(&mut self, told: &Disposition<'_>, heard: &mut Vec<Heard>) {
        if told.role == Role::Sender {
            // The answer to what was not settled at once.
            return;
        }
        if self.coordination.take(told) {
            return;
        }
        let answer = match told.state {
            Some(DeliveryState::Outcome(DeliveryOutcome::Accepted(_))) => Answer::Accepted,
            Some(DeliveryState::Outcome(DeliveryOutcome::Released(_))) => Answer::Released,
            Some(DeliveryState::Outcome(DeliveryOutcome::Rejected(_))) => Answer::Rejected,
            ref other => fail(format!("an answer without an outcome: {other:?}")),
        };
        let (first, last) = (told.first.bits(), told.last.unwrap_or(told.first).bits());
        let answered = |delivery_id| Heard::Answered { delivery_id, answer };
        heard.extend((first..=last).map(answered));
    }

    /// The connection ends; false if it would take for ever.
    pub(super) fn end(self, harness: &mut Harness) -> bool {
        self.wire.end(harness)
    }
}

/// The filters of a link that begins with a stream's first message.
fn first_offset() -> Vec<u8> {
    const NAME: ValueRef<'_> = ValueRef::Symbol("rabbitmq:stream-offset-spec");
    let (mut spec, mut filter) = (vec![0], Vec::new());
    NAME.encode(&mut spec);
    ValueRef::Str("first").encode(&mut spec);
    if let Ok((spec, _)) = ValueRef::decode(&spec) {
        put_map(&mut filter, |items| {
            items.put(NAME);
            items.put(spec);
        });
    }
    filter
}

fn decoded(map: &[u8]) -> Option<MapRef<'_>> {
    let Ok((ValueRef::Map(map), _)) = ValueRef::decode(map) else { return None };
    Some(map)
}
