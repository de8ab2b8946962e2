//! Random work: what clients ask for, and what the model says must come of it.

mod definitions;
mod messages;
mod replies;

pub(super) use replies::{Replies, ReplyConsumer};

use super::PlainQueues;
use crate::client::{Client, Doing, Expect, Read};
use crate::harness::FIRST;
use broker::Hold;
use session::{ChannelId, Control, ErrorKind, MethodTag, Op, Request};

/// Names of queues that come and go.
const QUEUES: &[&str] = &["q0", "q1", "q2", "q3", "q4"];
/// Names of exchanges that come and go.
const EXCHANGES: &[&str] = &["x0", "x1", "x2"];
/// Exchanges to publish to and to bind.
const SOURCES: &[&str] =
    &["x0", "x1", "x2", "amq.direct", "amq.fanout", "amq.topic", "amq.headers"];
/// The exchange of most messages in a world that spreads them.
const SPREAD_SOURCE: &str = "amq.fanout";
const CHANNELS_MAX: usize = 3;
const CLIENTS_MAX: usize = 4;

impl PlainQueues {
    /// One random thing happens.
    pub(super) fn act(&mut self) {
        match self.harness.random.below(100) {
            0..12 => self.step(),
            12..16 => self.page(),
            16..20 => self.connect_or_open(),
            20..22 => self.leave(),
            22..24 => self.tick(),
            24..26 => self.alarm(),
            31..33 => self.harness.change_versions(FIRST),
            26..31 => self.read(),
            _ => self.ask(),
        }
        self.check();
    }

    /// Something a client asks for on an open channel.
    fn ask(&mut self) {
        let Some((client, channel)) = self.some_channel() else { return self.connect_or_open() };
        let state = self.client(client).channels.get(&channel);
        let has_tx = state.and_then(|state| state.tx.as_ref());
        if has_tx.is_some_and(|tx| !tx.publishes.is_empty()) && self.harness.random.percent(30) {
            return self.transact(client, channel);
        }
        if self.spread_percent > 0
            && self.harness.random.percent(20)
            && self.spread(client, channel)
        {
            return;
        }
        // Pages on disk that name stored bodies go as a whole.
        if self.spread_percent > 0 && self.is_deep && self.harness.random.percent(3) {
            return self.purge_deepest(client, channel);
        }
        if self.harness.random.percent(8) {
            return self.reply_somehow(client, channel);
        }
        match self.harness.random.below(100) {
            0..58 if self.is_deep && self.harness.random.percent(60) => self.publish(client),
            0..30 => self.publish(client),
            30..48 => self.settle(client),
            48..58 => self.consume(client, channel),
            58..62 => self.cancel(client, channel),
            62..68 => self.get(client, channel),
            68..77 => self.declare_queue(client, channel),
            77..81 => self.declare_exchange(client, channel),
            81..87 => self.bind(client, channel),
            87..89 => self.unbind(client, channel),
            89..90 => self.purge(client, channel),
            90..92 => self.delete_queue(client, channel),
            92..93 => self.delete_exchange(client, channel),
            93..95 => self.recover(client, channel),
            95..98 => self.transact(client, channel),
            _ => self.close(client, channel),
        }
    }

    /// Clients that could ask for something now.
    fn idle(&self) -> Vec<usize> {
        let idle = |(_, client): &(&usize, &Client)| {
            client.is_idle()
                && client.session.as_ref().is_some_and(|session| session.hold() == Hold::None)
        };
        self.clients.iter().filter(idle).map(|(id, _)| *id).collect()
    }

    fn some_channel(&mut self) -> Option<(usize, u16)> {
        let client = self.harness.random.choose(&self.idle())?;
        let channels = &self.clients.get(&client)?.channels;
        Some((client, self.harness.random.choose_key(channels)?))
    }

    fn connect_or_open(&mut self) {
        if self.clients.len() < CLIENTS_MAX
            && (self.clients.is_empty() || self.harness.random.percent(40))
        {
            self.connect();
        }
        let Some(client) = self.harness.random.choose(&self.idle()) else { return };
        if self.client(client).channels.len() < CHANNELS_MAX {
            let open = &self.client(client).channels;
            let channel = (1..).find(|number| !open.contains_key(number)).unwrap_or(1);
            self.control(client, channel, Op::OpenChannel, Expect::ChannelOpened);
            self.client(client).channels.insert(channel, crate::client::Channel::default());
            match self.harness.random.below(4) {
                0 => self.select_tx(client, channel),
                1 => {}
                _ => self.select_confirms(client, channel),
            }
        }
    }

    fn select_confirms(&mut self, client: usize, channel: u16) {
        self.control(client, channel, Op::EnableConfirms, Expect::Done);
        if let Some(channel) = self.client(client).channels.get_mut(&channel) {
            channel.sequence = Some(0);
        }
    }

    fn select_tx(&mut self, client: usize, channel: u16) {
        self.control(client, channel, Op::EnableTransactions, Expect::Done);
        if let Some(channel) = self.client(client).channels.get_mut(&channel) {
            channel.tx = Some(crate::client::Tx::default());
        }
    }

    /// A connection ends, politely or not.
    fn leave(&mut self) {
        let Some(client) = self.harness.random.choose(&self.idle()) else { return };
        self.finish_declarations();
        if self.clients.get(&client).is_some_and(Client::is_idle) {
            self.end_connection(client);
        }
    }

    pub(super) fn end_connection(&mut self, client: usize) {
        if self.harness.random.percent(50) {
            self.control(client, 0, Op::CloseConnection, Expect::ConnectionClosed);
        } else {
            self.lose(client);
        }
    }

    fn close(&mut self, client: usize, channel: u16) {
        self.finish_declarations();
        if self.is_open(client, channel) {
            self.control(client, channel, Op::CloseChannel, Expect::ChannelClosed);
        }
    }

    /// A queue must not go while somebody waits to hear that it is there.
    fn finish_declarations(&mut self) {
        let waits = |client: &Client| matches!(client.doing.expect, Expect::Declared { .. });
        if self.clients.values().any(waits) {
            self.step();
        }
    }

    fn is_open(&self, client: usize, channel: u16) -> bool {
        let client = self.clients.get(&client);
        client.is_some_and(|client| client.is_idle() && client.channels.contains_key(&channel))
    }

    fn tick(&mut self) {
        self.harness.note("tick");
        self.clock_ms += 1000;
        let now = stdx::Now::at_ms(self.clock_ms);
        self.broker().tick(now);
        if self.harness.random.percent(30) && self.broker().snapshot_definitions().is_err() {
            self.harness.note("no snapshot");
        }
    }

    /// An alarm that a read meets in its middle would hold half of it, which the model does not
    /// know: alarms go on between reads.
    fn alarm(&mut self) {
        if self.alarm || self.clients.values().all(Client::is_idle) {
            self.set_alarm(!self.alarm);
        }
    }

    pub(super) fn set_alarm(&mut self, on: bool) {
        self.harness.note(format!("alarm {on}"));
        self.alarm = on;
        // Under the one of the disk pages and conversions wait as well.
        let is_disk = self.harness.random.percent(50);
        self.broker().set_alarm(broker::Alarm::Disk, on && is_disk);
        self.broker().set_alarm(broker::Alarm::Memory, on && !is_disk);
    }

    /// A client reads what has piled up.
    fn read(&mut self) {
        let Some(client) = self.harness.random.choose_key(&self.clients) else { return };
        self.read_all(client);
    }

    pub(super) fn read_all(&mut self, client: usize) {
        let state = self.client(client);
        let Some(session) = &state.session else { return };
        let links = state.recorder.read_all();
        session.resume(&links);
        self.harness.note(format!("client {client} reads, {} links go on", links.len()));
        self.check_events();
    }

    /// Hands over one control request, alone.
    pub(super) fn control(&mut self, client: usize, channel: u16, op: Op, expect: Expect) {
        self.control_doing(client, op, Doing { channel, expect, ..Doing::default() });
    }

    pub(super) fn control_doing(&mut self, client: usize, op: Op, doing: Doing) {
        let expect = &doing.expect;
        let line = format!("client {client} channel {}: {op:?}, expects {expect:?}", doing.channel);
        self.harness.note(line);
        let channel = ChannelId(doing.channel);
        let control = Control {
            channel,
            origin: MethodTag(7),
            nowait: false,
            refusal: session::RefusalScope::Channel,
            op,
        };
        let requests = vec![Request::Control(Box::new(control))];
        self.submit(client, Read::of(requests), doing);
    }

    /// The queue an operation of a client is about, or how it is refused.
    fn access(&self, client: usize, queue: &str) -> Result<(), ErrorKind> {
        let found = self.model.queues.get(queue).ok_or(ErrorKind::NotFound)?;
        match found.owner {
            Some(owner) if owner != client => Err(ErrorKind::ResourceLocked),
            Some(_) | None => Ok(()),
        }
    }
}
