//! Links of other nodes' clients, and their outboxes.

use super::input::SessionInput;
use super::peer_connection::PeerConnection;
use meta::QueueId;
use peer::SessionFrame;
use queues::LinkRef;
use remote::commands::{LinkTold, SessionCommand};
use remote::requests::SessionRequest;
use remote::wire::{LINK_CREDIT_BYTES, ask_for_credit, begin_deliver, put_delivery};
use session::{
    ChannelId, Confirmation, ConsumerCredit, Delivery, Event, LinkId, Outbox, Position, Room, Sink,
    UnsettledSince,
};
use std::collections::{BTreeMap, HashSet};
use std::mem::take;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Wake, Waker};
use stdx::lock;
use tokio::runtime::Handle;

/// Deliveries after so many bytes go in another frame.
const DELIVER_FRAME_BYTES: usize = 60 * 1024;
/// The bytes that all links of a connection together may have on their way, and the least of each.
const ALL_LINKS_BYTES: usize = 32 << 20;
const LINK_BYTES_MIN: usize = 4 * 1024;

/// A link, and its outbox. Links for `basic.get` have one that nothing is delivered to.
#[derive(Clone, Debug)]
pub(super) struct RemoteLink {
    pub(super) link: LinkRef,
    pub(super) outbox: Arc<RemoteOutbox>,
}

/// The links of a session by number. The lock is a leaf: it is taken under those of queues.
#[derive(Debug)]
pub(super) struct PeerLinks {
    links: Mutex<BTreeMap<u64, LinkEntry>>,
    n: AtomicUsize,
    /// The runtime, whose tasks resume links of streams.
    runtime: Option<Handle>,
}

#[derive(Debug)]
struct LinkEntry {
    queue: QueueId,
    /// The link, once it is attached.
    link: Option<RemoteLink>,
}

impl PeerLinks {
    pub(super) fn new(runtime: Option<Handle>) -> Self {
        Self { links: Mutex::default(), n: AtomicUsize::new(0), runtime }
    }

    /// The queue that a frame is for, 0 if it names an unknown link. The queue of a link that is to be
    /// attached is known from now on.
    pub(super) fn queue_of(&self, input: &SessionInput) -> QueueId {
        let mut links = lock(&self.links);
        let link = match input {
            SessionInput::Put(frame) => return frame.queue,
            SessionInput::Request(_, request) => match &**request {
                SessionRequest::Attach { terms, .. }
                | SessionRequest::AttachPassive { terms, .. } => {
                    let entry = LinkEntry { queue: terms.queue, link: None };
                    return links.entry(terms.link).or_insert(entry).queue;
                }
                SessionRequest::Get(link) | SessionRequest::Cancel(link) => Some(link),
                SessionRequest::Purge(queue)
                | SessionRequest::BeginDelete(queue, _)
                | SessionRequest::Stat(queue) => return *queue,
            },
            SessionInput::Command(command) => match command {
                SessionCommand::Settle { link, .. }
                | SessionCommand::Credit { link, .. }
                | SessionCommand::Flow { link, .. }
                | SessionCommand::Prefetch { link, .. }
                | SessionCommand::Recover { link, .. } => Some(link),
                SessionCommand::Detach { links: detached, .. } => detached.first(),
                SessionCommand::Touch(queue) => return *queue,
                SessionCommand::Reply { .. } | SessionCommand::Overdue(_) => return QueueId(0),
            },
        };
        link.and_then(|link| links.get(link)).map_or(QueueId(0), |entry| entry.queue)
    }

    pub(super) fn get(&self, number: u64) -> Option<RemoteLink> {
        lock(&self.links).get(&number)?.link.clone()
    }

    /// Adds a link, whose queue is known.
    pub(super) fn insert(&self, number: u64, link: RemoteLink) {
        let mut links = lock(&self.links);
        if let Some(entry) = links.get_mut(&number) {
            entry.link = Some(link);
        }
        self.n.store(links.len(), Ordering::Relaxed);
    }

    /// The bytes of a link's credit that it may not use, since there are many links.
    fn withheld_bytes(&self) -> i64 {
        let share = ALL_LINKS_BYTES / self.n.load(Ordering::Relaxed).max(1);
        let all = i64::from(LINK_CREDIT_BYTES);
        (all - i64::try_from(share.max(LINK_BYTES_MIN)).unwrap_or(all)).max(0)
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.links).len()
    }

    /// The numbers of all links, by queue.
    pub(super) fn by_queue(&self) -> BTreeMap<QueueId, Vec<u64>> {
        let mut by_queue: BTreeMap<_, Vec<u64>> = BTreeMap::new();
        for (number, entry) in lock(&self.links).iter() {
            by_queue.entry(entry.queue).or_default().push(*number);
        }
        by_queue
    }

    /// Forgets a link that is not attached.
    pub(super) fn forget_unattached(&self, number: u64) {
        let mut links = lock(&self.links);
        if links.get(&number).is_some_and(|entry| entry.link.is_none()) {
            links.remove(&number);
        }
    }

    pub(super) fn remove(&self, numbers: &[u64]) {
        let mut links = lock(&self.links);
        let removed: Vec<_> = numbers.iter().filter_map(|number| links.remove(number)).collect();
        self.n.store(links.len(), Ordering::Relaxed);
        drop(links);
        drop(removed);
    }
}

/// The outbox of one link, whose client is on another node.
pub(super) struct RemoteOutbox {
    connection: PeerConnection,
    link: u64,
    /// Whether the client settles what it is given.
    is_settled: bool,
    /// The links of the session, whose queues ask any of them for all.
    links: Weak<PeerLinks>,
    state: Mutex<OutboxState>,
}

#[derive(Debug)]
struct OutboxState {
    /// Bytes that may yet be delivered, less those that were delivered beyond.
    credit: i64,
    /// Whether the queue was told that there is no credit: it waits to be resumed.
    is_full: bool,
    n_delivered: u64,
    /// The positions that the client has not settled, with the number of the delivery.
    unsettled: BTreeMap<Position, u64>,
}

stdx::debug_of!(|it: RemoteOutbox| link = it.link, state = it.state);

impl RemoteOutbox {
    pub(super) fn new(
        connection: PeerConnection,
        link: u64,
        is_settled: bool,
        links: &Arc<PeerLinks>,
    ) -> Arc<Self> {
        let credit = i64::from(LINK_CREDIT_BYTES);
        let unsettled = BTreeMap::new();
        let state = OutboxState { credit, is_full: false, n_delivered: 0, unsettled };
        let (links, state) = (Arc::downgrade(links), Mutex::new(state));
        Arc::new(Self { connection, link, is_settled, links, state })
    }

    /// Adds credit; returns whether the queue is to be told that there is some again.
    pub(super) fn add_credit(&self, n_bytes: u32) -> bool {
        let mut state = lock(&self.state);
        state.credit = state.credit.saturating_add(n_bytes.into());
        state.credit > self.withheld_bytes() && take(&mut state.is_full)
    }

    fn withheld_bytes(&self) -> i64 {
        self.links.upgrade().map_or(0, |links| links.withheld_bytes())
    }

    /// Notes that the client has settled these.
    pub(super) fn settled(&self, positions: &[Position]) {
        let mut state = lock(&self.state);
        for position in positions {
            state.unsettled.remove(position);
        }
    }

    /// The positions of unsettled deliveries behind the one of that number.
    pub(super) fn delivered_after(&self, number: u64) -> Vec<u64> {
        let state = lock(&self.state);
        let later = state.unsettled.iter().filter(|(_, it)| **it > number);
        later.map(|(position, _)| position.0).collect()
    }

    /// Notes that what was delivered up to that number has come back to its queue, but for `kept`.
    pub(super) fn came_back(&self, upto: u64, kept: &HashSet<u64>) {
        let is_left = |at: &Position, number: &mut u64| *number > upto || kept.contains(&at.0);
        lock(&self.state).unsettled.retain(is_left);
    }

    /// The waker that resumes the link in a task, without a lock, and wakes the writer.
    fn resumed_by(&self, writer: Option<Waker>) -> Waker {
        Arc::new(LinkResumption { links: self.links.clone(), link: self.link, writer }).into()
    }

    /// The positions that the client has not settled, in the order of delivery.
    fn positions(&self) -> Vec<Position> {
        let state = lock(&self.state);
        let mut positions: Vec<_> = state.unsettled.iter().map(|(at, n)| (*n, *at)).collect();
        positions.sort_unstable();
        positions.into_iter().map(|(_, at)| at).collect()
    }
}

impl Outbox for RemoteOutbox {
    fn batch(&self, fill: &mut dyn FnMut(&mut dyn Sink)) -> Option<Waker> {
        let mut state = lock(&self.state);
        let mut sink = LinkSink {
            outbox: self,
            state: &mut state,
            withheld: self.withheld_bytes(),
            frames: Vec::new(),
            deliveries: Vec::new(),
            is_readable: false,
        };
        fill(&mut sink);
        sink.end_frame();
        let (frames, is_readable) = (sink.frames, sink.is_readable);
        let writer = if frames.is_empty() { None } else { self.connection.send(frames) };
        if is_readable { Some(self.resumed_by(writer)) } else { writer }
    }

    fn unsettled(&self, links: &[LinkId]) -> Vec<(LinkId, Position)> {
        let Some(known) = self.links.upgrade() else { return Vec::new() };
        let outboxes = links.iter().filter_map(|id| Some((*id, known.get(id.0)?.outbox)));
        let positions = outboxes.flat_map(|(id, outbox)| {
            outbox.positions().into_iter().map(move |position| (id, position))
        });
        positions.collect()
    }

    fn unsettled_since(&self, _: LinkId) -> Option<UnsettledSince> {
        let state = lock(&self.state);
        let oldest = state.unsettled.values().copied().min()?;
        Some(UnsettledSince { oldest, newest: state.n_delivered })
    }
}

/// A link of a stream that has something to read.
struct LinkResumption {
    links: Weak<PeerLinks>,
    link: u64,
    writer: Option<Waker>,
}

impl Wake for LinkResumption {
    fn wake(self: Arc<Self>) {
        self.writer.iter().for_each(Waker::wake_by_ref);
        let Some(links) = self.links.upgrade() else { return };
        if let (Some(found), Some(runtime)) = (links.get(self.link), &links.runtime) {
            runtime.spawn(async move {
                let _steps = found.link.resume();
            });
        }
    }
}

/// A link's outbox, locked: frames in their order, and deliveries behind them.
struct LinkSink<'a> {
    outbox: &'a RemoteOutbox,
    state: &'a mut OutboxState,
    /// Bytes of the credit that the link may not use.
    withheld: i64,
    frames: Vec<(SessionFrame, Vec<u8>)>,
    deliveries: Vec<u8>,
    /// Whether the link is to be resumed, since there is something to read.
    is_readable: bool,
}

impl LinkSink<'_> {
    /// Ends the frame with deliveries.
    fn end_frame(&mut self) {
        if !self.deliveries.is_empty() {
            self.frames.push((SessionFrame::Deliver, take(&mut self.deliveries)));
        }
    }

    fn tell(&mut self, told: &LinkTold) {
        self.end_frame();
        let mut body = Vec::new();
        told.encode(self.outbox.link, &mut body);
        self.frames.push((SessionFrame::Event, body));
    }
}

impl Sink for LinkSink<'_> {
    fn deliver(&mut self, _: LinkId, delivery: Delivery<'_>) -> Room {
        if self.deliveries.is_empty() {
            begin_deliver(&mut self.deliveries, self.outbox.link);
        }
        let begins = self.deliveries.len();
        put_delivery(&mut self.deliveries, &delivery);
        let n_bytes = self.deliveries.len() - begins;
        self.state.n_delivered += 1;
        if self.outbox.is_settled {
            self.state.unsettled.insert(delivery.position, self.state.n_delivered);
        }
        self.state.credit = self.state.credit.saturating_sub_unsigned(n_bytes as u64);
        let room_bytes = self.room_bytes();
        if room_bytes == 0 {
            self.state.is_full = true;
            ask_for_credit(&mut self.deliveries);
        }
        if self.deliveries.len() >= DELIVER_FRAME_BYTES {
            self.end_frame();
        }
        if room_bytes > 0 { Room::Bytes(room_bytes) } else { Room::Full }
    }

    fn room_bytes(&self) -> usize {
        usize::try_from(self.state.credit - self.withheld).unwrap_or(0)
    }

    fn timed_out(&mut self, _: LinkId, positions: &[Position]) -> bool {
        for position in positions {
            self.state.unsettled.remove(position);
        }
        self.tell(&LinkTold::TimedOut(positions.to_vec()));
        true
    }

    fn event(&mut self, event: Event<'_>) {
        if let Event::Attached { filters, .. } = event {
            self.tell(&LinkTold::Attached(filters.map(|filters| filters.to_vec().into())));
        } else if let Event::ConsumerCancelled { .. } = event {
            self.tell(&LinkTold::Cancelled);
        } else {
            debug_assert!(false, "no other event is a link's: {event:?}");
        }
    }

    fn confirm(&mut self, _: ChannelId, _: u64, _: u64, _: Confirmation<'_>) {}

    fn readable(&mut self, _: LinkId) {
        self.is_readable = true;
    }

    fn flowed(&mut self, _: LinkId, credit: ConsumerCredit) {
        self.tell(&LinkTold::Flowed(credit));
    }
}
