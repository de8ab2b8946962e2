//! Worlds of several clients: their connections, requests and answers, and the lives of the node they use.
//! Never which work clients do, and never what must hold of it: that is a world's own.

use crate::client::{Read, control, short};
use crate::harness::{Connected, Harness, Said, StartFaults, Started, fail};
use crate::node::Node;
use broker::{Clock, Session};
use session::{Attachment, ErrorKind, Op, Position, Table};
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::Now;
use testing::MemoryDisk;
use testing::outbox::{Given, Recorder, What};

/// Steps after which nothing may be left to do.
const DRY_STEPS_MAX: usize = 5_000;
const LIVES_MAX: usize = 4;
/// Disk operations within which a planned fault comes.
const FAULT_WITHIN: usize = 80;
const START_FAULTS: StartFaults = StartFaults { in_a_row_max: 2, percent: 20, are_noted: false };

/// A consumer, or the gets of a channel from one queue.
pub(crate) struct Link {
    pub(crate) queue: &'static str,
    pub(crate) channel: u16,
    pub(crate) tag: String,
    pub(crate) is_consumer: bool,
    pub(crate) no_ack: bool,
    pub(crate) prefetch: usize,
    /// Consumers of a queue have come in this order.
    pub(crate) number: u64,
    /// By priority: the newest message it was the first to get.
    pub(crate) newest: BTreeMap<u8, u64>,
}

/// A channel.
#[derive(Default)]
pub(crate) struct Channel {
    /// Numbers its publishes have; `None` if they are not confirmed.
    pub(crate) n_published: Option<u64>,
    /// By number of the publish: its message.
    pub(crate) unconfirmed: BTreeMap<u64, u64>,
    /// Whether the channel is ending: others may be given the messages it holds.
    pub(crate) is_closing: bool,
    pub(crate) is_transactional: bool,
}

/// A publish that was made: the number of its message, and the queue it goes to if it is only one.
pub(crate) type Published = (u64, Option<&'static str>);

/// A connection; `H` is what the world knows a message by that a client holds.
pub(crate) struct Peer<H> {
    /// None while it is being closed.
    pub(crate) session: Option<Session>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) channels: BTreeMap<u16, Channel>,
    pub(crate) links: BTreeMap<u64, Link>,
    pub(crate) held: BTreeMap<(u64, Position), H>,
    /// Deliveries that each of its consumers may hold; 0 for any number.
    pub(crate) prefetch: usize,
    /// Not yet written to it, in the order of delivery; settled by that.
    pub(crate) unwritten: Vec<(u64, Position, H)>,
    /// Publishes an alarm holds, and on which channel.
    pub(crate) kept: Option<(u16, Vec<Published>)>,
}

impl<H> Peer<H> {
    /// The messages of its publishes that are to be confirmed, by number of the publish.
    pub(crate) fn unconfirmed(&self) -> impl Iterator<Item = u64> + '_ {
        self.channels.values().flat_map(|channel| channel.unconfirmed.values().copied())
    }

    /// A publish gets its number, if it is to be confirmed.
    pub(crate) fn number(&mut self, channel: u16, id: u64) {
        if let Some(Channel { n_published: Some(n), unconfirmed, .. }) =
            self.channels.get_mut(&channel)
        {
            *n += 1;
            unconfirmed.insert(*n, id);
        }
    }
}

/// A client's request whose answer must be known.
enum Asking {
    Consume(Link),
    Get(Link),
}

/// The clients of a world.
pub(crate) struct Crowd<H> {
    pub(crate) peers: BTreeMap<usize, Peer<H>>,
    asking: Option<Asking>,
    pub(crate) n_links: u64,
    /// Messages that clients got by asking.
    pub(crate) n_got: u64,
}

impl<H> Default for Crowd<H> {
    fn default() -> Self {
        Self { peers: BTreeMap::new(), asking: None, n_links: 0, n_got: 0 }
    }
}

impl<H> Crowd<H> {
    /// The number of consumers of a queue.
    pub(crate) fn n_consumers(&self, queue: &str) -> usize {
        let links = self.peers.values().flat_map(|peer| peer.links.values());
        links.filter(|link| link.is_consumer && link.queue == queue).count()
    }
}

/// A world of several clients.
pub(crate) trait World: Sized {
    type Held;
    /// Clients at once, at most.
    const PEERS_MAX: usize = 4;
    /// Operations of clients in a life of the node, at most.
    const WORK_MAX: usize;
    /// Whether clients have several channels.
    const HAS_CHANNELS: bool;

    fn harness(&self) -> &Harness;

    fn parts(&mut self) -> (&mut Harness, &mut Crowd<Self::Held>);

    fn now_ms(&self) -> u64;

    /// The queues as they are declared, a line each.
    fn shown_specs(&self) -> Vec<String>;

    /// Clients come to a node that has started; `is_first` to a new one.
    fn begin(&mut self, is_first: bool);

    /// One random thing happens.
    fn act(&mut self);

    /// Takes everything out and looks at what is left; false when the disk failed meanwhile.
    fn end(&mut self) -> bool;

    /// The node is gone, and what was known of this life with it.
    fn end_life(&mut self) {}

    /// Holds what is there after a start against what must be.
    fn compare(&mut self, is_clean: bool, copy: &MemoryDisk);

    /// A client that may do something, and a channel of it.
    fn some_channel(&mut self) -> Option<(usize, u16)> {
        Some((self.some_peer()?, 1))
    }

    /// A client that may do something.
    fn some_peer(&mut self) -> Option<usize> {
        let (harness, crowd) = self.parts();
        harness.random.choose_key(&crowd.peers)
    }

    /// Before a step, and before what clients were told is taken in.
    fn note_state(&mut self) {}

    /// Clients were told this since the last time.
    fn check_heard(&mut self, _heard: &[(usize, What)]) {}

    fn take_given(&mut self, peer: usize, given: &Given);

    fn take_confirm(&mut self, peer: usize, channel: u16, number: u64, ack: bool);

    /// A link comes into being.
    fn count_link(&mut self, _link: &mut Link) {}

    /// A consumer is cancelled, by its client or else by the broker.
    fn take_cancelled(&mut self, peer: usize, tag: &str, is_by_client: bool);

    fn take_failure(&mut self, _peer: usize, _channel: u16, _kind: ErrorKind, text: &str) {
        self.refuse(text);
    }

    /// A channel has ended.
    fn end_channel(&mut self, _peer: usize, _channel: u16) {}

    /// A client's request was handled, what it was told not taken in yet.
    fn after_request(_session: &mut Session) {}

    /// A client's request has its answers.
    fn check_answered(&mut self) {}

    /// Before all clients leave.
    fn before_leaving(&mut self) {}

    /// Before the node stops, which nobody uses any more.
    fn before_stopping(&mut self) {}

    /// After all clients have left.
    fn after_leaving(&mut self) {}

    /// Checks the invariants of a node that has nothing left to do by itself.
    fn check_dry(&mut self);

    /// Whether a queue is there.
    fn is_there(&self, queue: &str) -> bool {
        self.harness().queue(queue).is_some()
    }

    fn has_failed(&self) -> bool {
        self.harness().has_failed()
    }

    fn note(&mut self, line: impl Into<String>) {
        self.parts().0.note(line);
    }

    fn peer(&mut self, peer: usize) -> &mut Peer<Self::Held> {
        self.parts().1.peers.get_mut(&peer).expect("the client is connected")
    }

    fn refuse(&self, text: &str) {
        if !self.has_failed() {
            fail(format!("a client is refused: {text}"));
        }
    }

    /// A client says something, and has its answers.
    fn submit(&mut self, peer: usize, read: Read) {
        let (harness, crowd) = self.parts();
        let session = crowd.peers.get_mut(&peer).and_then(|state| state.session.as_mut());
        let Some(session) = session else { return };
        let said = harness.say(session, read);
        Self::after_request(session);
        self.check_said(said);
    }

    fn check_said(&mut self, said: Said) {
        self.check_events();
        if self.has_failed() {
            return;
        }
        said.check();
        if self.parts().1.asking.take().is_some() {
            fail("a question has no answer");
        }
        self.check_answered();
    }

    fn control(&mut self, peer: usize, channel: u16, op: Op) {
        let of = if Self::HAS_CHANNELS { format!(", channel {channel}") } else { String::new() };
        self.note(format!("client {peer}{of}: {op:?}"));
        self.submit(peer, Read::of(vec![control(channel, op)]));
    }

    /// Everything is done that there is to do.
    fn dry(&mut self) {
        for _ in 0..DRY_STEPS_MAX {
            if self.has_failed() {
                return;
            }
            self.note_state();
            let stepped = self.parts().0.node.as_mut().is_some_and(Node::step);
            self.check_events();
            if !stepped {
                return self.check_dry();
            }
        }
        fail("there is no end to what there is to do");
    }

    /// Parts of the node have a turn.
    fn step(&mut self) {
        self.note_state();
        self.parts().0.step_part();
        self.check_events();
    }

    /// Takes in what clients were told since the last time.
    fn check_events(&mut self) {
        self.note_state();
        let heard = std::mem::take(&mut *stdx::lock(&self.parts().0.transcript));
        self.check_heard(&heard);
        for (peer, what) in heard {
            self.note(format!("  {peer}: {what}"));
            if self.parts().1.peers.contains_key(&peer) {
                self.take_in(peer, what);
            }
        }
    }

    fn take_in(&mut self, peer: usize, what: What) {
        match what {
            What::Deliver { given, .. } => self.take_given(peer, &given),
            What::Got { given, no_ack, .. } => {
                let Some(Asking::Get(mut link)) = self.parts().1.asking.take() else {
                    fail("got without asking")
                };
                self.count_link(&mut link);
                self.parts().1.n_got += 1;
                self.peer(peer).links.entry(given.link).or_insert(link).no_ack = no_ack;
                self.take_given(peer, &given);
            }
            What::Consuming { link: number, tag, no_ack } => {
                let Some(Asking::Consume(mut link)) = self.parts().1.asking.take() else {
                    fail("consuming without asking")
                };
                assert_eq!((&tag, no_ack), (&link.tag, link.no_ack), "both are the client's");
                self.count_link(&mut link);
                self.peer(peer).links.insert(number, link);
            }
            What::GetEmpty => drop(self.parts().1.asking.take()),
            What::Cancelled { tag, .. } => self.take_cancelled(peer, &tag, true),
            What::ConsumerCancelled { tag, .. } => self.take_cancelled(peer, &tag, false),
            What::Confirm { channel, first, last, answer } => {
                let is_ack = answer.is_ack();
                (first..=last).for_each(|number| self.take_confirm(peer, channel, number, is_ack));
            }
            What::ChannelFailed { channel, kind, text } => {
                self.take_failure(peer, channel, kind, &text);
            }
            What::ConnectionFailed { text, .. } => self.refuse(&text),
            What::ChannelClosed(channel) => self.end_channel(peer, channel),
            What::Returned(..)
            | What::Done
            | What::Flowed { .. }
            | What::Link(_)
            | What::Stream(_)
            | What::Declared { .. }
            | What::Purged(_)
            | What::Deleted(_)
            | What::ChannelOpened
            | What::ConnectionClosed
            | What::Blocked(_)
            | What::Unblocked => {}
        }
    }

    /// Connects a client, unless there are enough.
    fn add_peer(&mut self) -> Option<usize> {
        let (harness, crowd) = self.parts();
        if crowd.peers.len() >= Self::PEERS_MAX {
            return None;
        }
        let Connected { client: number, recorder, session, .. } = harness.connect();
        harness.note(format!("client {number} connects"));
        let peer = Peer {
            session: Some(session),
            recorder,
            channels: BTreeMap::new(),
            links: BTreeMap::new(),
            held: BTreeMap::new(),
            prefetch: 0,
            unwritten: Vec::new(),
            kept: None,
        };
        crowd.peers.insert(number, peer);
        Some(number)
    }

    /// A client's publishes are confirmed from now on.
    fn enable_confirms(&mut self, peer: usize, channel: u16) {
        self.control(peer, channel, Op::EnableConfirms);
        let channel = self.peer(peer).channels.get_mut(&channel);
        channel.into_iter().for_each(|channel| channel.n_published = Some(0));
    }

    fn disconnect(&mut self, peer: usize);

    /// Ends a connection, and gives back what the client had.
    fn remove_peer(&mut self, peer: usize) -> Option<Peer<Self::Held>> {
        let (harness, crowd) = self.parts();
        let session = crowd.peers.get_mut(&peer).and_then(|state| state.session.take())?;
        let is_closed = harness.close(session);
        // What one of its consumers held may have gone to another one first.
        self.check_events();
        let state = self.parts().1.peers.remove(&peer);
        if !is_closed && !self.has_failed() {
            fail("a client cannot leave");
        }
        state
    }

    /// A client reads what it was sent.
    fn read(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        let state = self.peer(peer);
        let links = state.recorder.read_all();
        if let Some(session) = &state.session {
            session.resume(&links);
        }
        self.note(format!("client {peer} reads"));
        self.check_events();
    }

    /// Asks for a consumer, which has this tag.
    fn attach(&mut self, peer: usize, link: Link) {
        let (channel, no_ack) = (link.channel, link.no_ack);
        let op = Op::Attach(Attachment {
            queue: short(link.queue),
            consumer_tag: short(&link.tag),
            no_ack,
            has_link_credit: false,
            exclusive: false,
            arguments: Table::default(),
        });
        self.parts().1.asking = Some(Asking::Consume(link));
        self.control(peer, channel, op);
    }

    /// A consumer as it is asked for.
    fn consumer(&self, queue: &'static str, channel: u16, tag: String, no_ack: bool) -> Link {
        let (prefetch, number, newest) = (0, 0, BTreeMap::new());
        Link { queue, channel, tag, is_consumer: true, no_ack, prefetch, number, newest }
    }

    fn cancel(&mut self) {
        let Some((peer, channel)) = self.some_channel() else { return };
        let links = self.peer(peer).links.values();
        let links = links.filter(|link| link.is_consumer && link.channel == channel);
        let tags: Vec<String> = links.map(|link| link.tag.clone()).collect();
        let Some(tag) = self.parts().0.random.choose(&tags) else { return };
        self.control(peer, channel, Op::Detach { consumer_tag: short(&tag) });
    }

    fn get_from(&mut self, peer: usize, channel: u16, queue: &'static str, no_ack: bool) {
        let link = self.consumer(queue, channel, String::new(), no_ack);
        self.parts().1.asking = Some(Asking::Get(Link { is_consumer: false, ..link }));
        self.control(peer, channel, Op::Get { queue: short(queue), no_ack });
    }

    /// Gets all that a queue has ready.
    fn get_all(&mut self, peer: usize, channel: u16, queue: &'static str) {
        loop {
            let before = self.parts().1.n_got;
            self.get_from(peer, channel, queue, true);
            if self.has_failed() || self.parts().1.n_got == before {
                return;
            }
        }
    }

    /// The whole run.
    fn run(&mut self) {
        self.shown_specs().into_iter().for_each(|spec| self.note(spec));
        self.parts().0.options.clock = Clock::TicksFrom(Now::at_ms(self.now_ms()));
        self.parts().0.begin();
        self.begin(true);
        let mut lives = 1 + self.parts().0.random.below(LIVES_MAX);
        loop {
            lives -= 1;
            self.parts().0.plan_fault(FAULT_WITHIN);
            for _ in 0..self.parts().0.random.below(Self::WORK_MAX) {
                if self.has_failed() {
                    break;
                }
                self.act();
            }
            if lives == 0 && self.end() {
                return;
            }
            lives = lives.max(1);
            let is_clean = self.parts().0.random.percent(30) && self.stop();
            self.restart(is_clean);
            self.begin(false);
        }
    }

    /// Ends all connections; false when the disk is against it.
    fn leave_all(&mut self) -> bool {
        self.before_leaving();
        let peers: Vec<usize> = self.parts().1.peers.keys().copied().collect();
        for peer in peers {
            if !self.has_failed() {
                self.disconnect(peer);
            }
        }
        self.after_leaving();
        !self.has_failed()
    }

    fn stop(&mut self) -> bool {
        self.note("stop");
        if !self.leave_all() {
            return false;
        }
        self.before_stopping();
        let stopped = self.harness().stop();
        self.dry();
        stopped && !self.has_failed()
    }

    /// The node is gone, and comes back from what is on its disk.
    fn restart(&mut self, is_clean: bool) {
        let now_ms = self.now_ms();
        let (harness, crowd) = self.parts();
        crowd.peers.clear();
        crowd.asking = None;
        let disk = harness.crash();
        harness.options.clock = Clock::TicksFrom(Now::at_ms(now_ms));
        let Started { copy, was_cut_off } = harness.start(disk, START_FAULTS);
        self.end_life();
        self.compare(is_clean && !was_cut_off, &copy);
    }
}
