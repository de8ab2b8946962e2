//! Publishing, consuming, settling.

use super::{PlainQueues, QUEUES, SOURCES, SPREAD_SOURCE};
use crate::client::{Doing, Expect, Publishing, Read, Tx, short};
use crate::model::{Link, LinkKey, Place};
use session::{
    Attachment, ChannelId, ErrorKind, LinkId, Op, Position, Publish, Request, Settle, Table,
};
use std::collections::BTreeSet;
use testing::outbox::Content;
use testing::run::join;

const KEYS: &[&str] = &["a", "a.b", "a.b.c", "b"];
/// A few channels publish and settle in one read.
const PUBLISHES_MAX: usize = 8;
/// ... or more where queues are to become deep.
const DEEP_PUBLISHES_MAX: usize = 24;
/// One message of so many has headers that are stored once for all its queues.
const LARGE_HEADERS_EVERY: u64 = 5;
const LARGE_HEADER_BYTES: usize = 5_000;

impl PlainQueues {
    /// One read with publishes on any of the client's channels, and perhaps settlements behind.
    pub(in crate::plain_queues) fn publish(&mut self, client: usize) {
        let mut read = Read::default();
        let mut doing = Doing::default();
        let channels: Vec<u16> = self.client(client).channels.keys().copied().collect();
        let mut published = Vec::new();
        let n_max = if self.is_deep { DEEP_PUBLISHES_MAX } else { PUBLISHES_MAX };
        for _ in 0..=self.harness.random.below(n_max) {
            let Some(channel) = self.harness.random.choose(&channels) else { return };
            let publishing = self.make_message(channel, &mut read);
            published
                .push(format!("m{}>{}/{}", publishing.id, publishing.exchange, publishing.key));
            let routed = self.model.route(
                &publishing.exchange,
                &publishing.key,
                publishing.header.as_deref(),
            );
            let is_tx =
                self.client(client).channels.get(&channel).is_some_and(|one| one.tx.is_some());
            match routed {
                Ok(_) if is_tx => {
                    let tx = self.tx(client, channel);
                    tx.expect("it is transactional").publishes.push(publishing);
                }
                Ok(queues) => self.take_publish(client, channel, &publishing, &queues, &mut doing),
                Err(_) if is_tx => {
                    // Refused at the commit only: not part of this simulation.
                    read.requests.pop();
                }
                Err(kind) => {
                    doing.channel = channel;
                    doing.expect = Expect::ChannelFails(kind);
                    break;
                }
            }
        }
        if self.harness.random.percent(25) && doing.expect == Expect::Nothing {
            self.add_settles(client, &mut read);
        }
        self.harness.note(format!("client {client} publishes {}", join(published)));
        self.submit(client, read, doing);
    }

    fn tx(&mut self, client: usize, channel: u16) -> Option<&mut Tx> {
        self.client(client).channels.get_mut(&channel)?.tx.as_mut()
    }

    fn make_message(&mut self, channel: u16, read: &mut Read) -> Publishing {
        self.n_messages += 1;
        let id = self.n_messages;
        let by_name = self.is_deep || self.harness.random.percent(50);
        let exchange = if by_name { "" } else { self.harness.random.pick(SOURCES) };
        let exchange = if self.harness.random.percent(1) { "no such exchange" } else { exchange };
        let key = self.harness.random.pick(if by_name { QUEUES } else { KEYS });
        let queues: Vec<String> = self.model.queues.keys().cloned().collect();
        let deep = self.harness.random.choose(&queues).filter(|_| self.is_deep);
        let key = deep.as_deref().unwrap_or(key);
        let spreads = self.harness.random.percent(self.spread_percent);
        let exchange = if spreads { SPREAD_SOURCE } else { exchange };
        let header = self
            .harness
            .random
            .percent(40)
            .then(|| self.harness.random.pick(&["1", "2"]).to_owned());
        let mut headers = Table::default();
        if let Some(header) = &header {
            headers.push(short("h"), header.as_str());
        }
        if id.is_multiple_of(LARGE_HEADERS_EVERY) {
            let large = id.to_string().repeat(LARGE_HEADER_BYTES);
            headers.push(short("large"), &large[..LARGE_HEADER_BYTES]);
        }
        let has_headers = !headers.is_empty();
        let headers = has_headers.then_some(headers);
        let properties = message::Properties { headers, ..message::Properties::default() };
        let persistent = self.harness.random.percent(65);
        let size = self.harness.random.choose(&[0, 20, 300, 3_000, 3_000, 9_000]).unwrap_or(0);
        let content = Content {
            exchange: exchange.into(),
            key: key.into(),
            properties: properties.to_bytes(),
            body: Content::numbered_body(id, size),
            persistent,
            form: Content::form_of(id),
        };
        let mandatory = self.harness.random.percent(30);
        let publish = read.publish_of(channel, &content);
        let publish = Publish { mandatory, inspect: has_headers, ..publish };
        read.requests.push(Request::Publish(publish));
        self.model.published.insert(id, content);
        Publishing { id, exchange: exchange.to_owned(), key: key.to_owned(), header, mandatory }
    }

    pub(super) fn take_publish(
        &mut self,
        client: usize,
        channel: u16,
        publishing: &Publishing,
        queues: &BTreeSet<String>,
        doing: &mut Doing,
    ) {
        self.model.put_in(publishing.id, queues);
        if queues.is_empty() && publishing.mandatory {
            doing.returned.push(publishing.id);
        }
        let Some(channel) = self.client(client).channels.get_mut(&channel) else { return };
        if let Some(sequence) = &mut channel.sequence {
            *sequence += 1;
            channel.unconfirmed.insert(*sequence, publishing.id);
        }
    }

    /// One read with settlements only.
    pub(super) fn settle(&mut self, client: usize) {
        let mut read = Read::default();
        self.add_settles(client, &mut read);
        if !read.requests.is_empty() {
            self.submit(client, read, Doing::default());
        }
    }

    /// Settles one message, those up to one (`multiple`), or a random part.
    fn add_settles(&mut self, client: usize, read: &mut Read) {
        let mut held = self.held_by(client);
        let Some((last_link, last, _)) = self.harness.random.choose(&held) else { return };
        match self.harness.random.below(4) {
            0 => held.retain(|(link, at, _)| (*link, *at) == (last_link, last)),
            1 | 2 => held.retain(|(link, at, _)| *link == last_link && *at <= last),
            _ => held.retain(|_| self.harness.random.percent(50)),
        }
        let outcome = self.harness.some_outcome();
        let shown = held.iter().map(|(link, at, _)| format!("{}:{}", link.0, at.0));
        let line = format!("client {client} settles {} {outcome:?}", join(shown));
        self.harness.note(line);
        let mut settles = Vec::new();
        for (link, position, channel) in held {
            let settle = Settle { channel: ChannelId(channel), link, position, outcome };
            read.requests.push(Request::Settle(settle));
            if let Some(tx) = self.tx(client, channel) {
                tx.settles.push((link, position, outcome));
                self.model.note_in_tx(LinkKey { client, link: link.0 }, position, true);
            } else {
                settles.push((link, position));
            }
        }
        for (link, position) in settles {
            self.model.settle(LinkKey { client, link: link.0 }, position, outcome);
        }
    }

    /// The messages a client holds outside of transactions.
    fn held_by(&self, client: usize) -> Vec<(LinkId, Position, u16)> {
        let mut held = Vec::new();
        for message in self.model.queues.values().flat_map(|queue| queue.messages.values()) {
            if let Place::Held(key, position) = message.place
                && key.client == client
                && !message.in_tx
                && let Some(link) = self.model.links.get(&key)
            {
                held.push((LinkId(key.link), position, link.channel));
            }
        }
        held.sort_unstable();
        held
    }

    pub(super) fn consume(&mut self, client: usize, channel: u16) {
        if self.harness.random.percent(40) {
            let prefetch = self.harness.random.choose(&[0, 1, 2, 5]).unwrap_or(0);
            let op = Op::SetPrefetch { prefetch_count: prefetch, global: false };
            self.control(client, channel, op, Expect::Done);
            if let Some(channel) = self.client(client).channels.get_mut(&channel) {
                channel.prefetch = prefetch;
            }
        }
        let queue = self.harness.random.pick(QUEUES);
        let (no_ack, exclusive) = (self.harness.random.percent(30), self.harness.random.percent(7));
        let mut arguments = Table::default();
        if self.harness.random.percent(30) {
            let priority = self.harness.random.choose(&[-1_i64, 1, 5]).unwrap_or(0);
            arguments.push(short("x-priority"), priority);
        }
        let tags = self.client(client).channels.get(&channel).map(|one| one.tags.clone());
        let known: Vec<String> = tags.unwrap_or_default().into_iter().collect();
        let reused =
            if self.harness.random.percent(3) { self.harness.random.choose(&known) } else { None };
        let is_reused = reused.is_some();
        let tag = reused.unwrap_or_else(|| {
            self.n_tags += 1;
            format!("c{}", self.n_tags)
        });
        let in_exclusive_use = self.model.consumers(queue).any(|(_, link)| link.exclusive);
        let others = self.model.n_consumers(queue) > 0;
        let expect = match self.access(client, queue) {
            Err(kind) => Expect::ChannelFails(kind),
            Ok(()) if is_reused => Expect::ConnectionFails(ErrorKind::NotAllowed),
            Ok(()) if in_exclusive_use || (exclusive && others) => {
                Expect::ChannelFails(ErrorKind::ExclusiveUse)
            }
            Ok(()) => Expect::Consuming,
        };
        let link = self.new_link(client, channel, queue, &tag);
        let link = link.map(|link| Link { no_ack, exclusive, active: true, ..link });
        let op = Op::Attach(Attachment {
            queue: short(queue),
            consumer_tag: short(&tag),
            no_ack,
            source: None,
            exclusive,
            arguments,
        });
        self.control_doing(client, op, Doing { channel, expect, link, ..Doing::default() });
    }

    fn new_link(&mut self, client: usize, channel: u16, queue: &str, tag: &str) -> Option<Link> {
        let generation = self.model.queues.get(queue)?.generation;
        let prefetch = self.client(client).channels.get(&channel)?.prefetch;
        let link = Link::new(channel, (queue.to_owned(), generation), tag.to_owned());
        Some(Link { prefetch: usize::from(prefetch), ..link })
    }

    pub(super) fn cancel(&mut self, client: usize, channel: u16) {
        self.finish_declarations();
        if !self.is_open(client, channel) {
            return;
        }
        let tags = self.client(client).channels.get(&channel).map(|one| one.tags.clone());
        let tags: Vec<String> = tags.unwrap_or_default().into_iter().collect();
        let Some(tag) = self.harness.random.choose(&tags) else { return };
        let op = Op::Detach { consumer_tag: short(&tag) };
        let expect = Expect::Cancelled;
        self.control_doing(client, op, Doing { channel, expect, ..Doing::default() });
    }

    pub(super) fn get(&mut self, client: usize, channel: u16) {
        let queue = self.harness.random.pick(QUEUES);
        let no_ack = self.harness.random.percent(30);
        self.get_from(client, channel, queue, no_ack);
    }

    pub(in crate::plain_queues) fn get_from(
        &mut self,
        client: usize,
        channel: u16,
        queue: &str,
        no_ack: bool,
    ) {
        let expect = match (self.access(client, queue), self.model.first_ready(queue)) {
            (Err(kind), _) => Expect::ChannelFails(kind),
            (Ok(()), None) => Expect::GetEmpty,
            (Ok(()), Some(_)) => Expect::Got(queue.to_owned()),
        };
        let link = self.new_link(client, channel, queue, "");
        let op = Op::Get { queue: short(queue), no_ack };
        self.control_doing(client, op, Doing { channel, expect, link, ..Doing::default() });
    }

    /// Only where no two links of the channel share a queue: else what the first gives back may go
    /// to the second, which gives it back again, and the model cannot tell.
    pub(super) fn recover(&mut self, client: usize, channel: u16) {
        let links = self.model.links_of(client, channel);
        let mut queues = BTreeSet::new();
        for link in links.iter().filter_map(|key| self.model.links.get(key)) {
            if !queues.insert(link.queue.clone()) {
                return;
            }
        }
        if self.tx(client, channel).is_some() {
            return;
        }
        for key in links {
            self.model.give_all_back(key);
        }
        self.control(client, channel, Op::ReleaseUnsettled, Expect::Done);
    }

    pub(super) fn transact(&mut self, client: usize, channel: u16) {
        let Some(tx) = self.tx(client, channel).map(std::mem::take) else { return };
        if self.harness.random.percent(30) {
            for (link, position, _) in tx.settles {
                self.model.note_in_tx(LinkKey { client, link: link.0 }, position, false);
            }
            return self.control(client, channel, Op::RollBack, Expect::Done);
        }
        let mut doing = Doing { channel, expect: Expect::Done, ..Doing::default() };
        for publishing in &tx.publishes {
            let header = publishing.header.as_deref();
            let queues = match self.model.route(&publishing.exchange, &publishing.key, header) {
                Ok(queues) => queues,
                Err(kind) => {
                    // The exchange is gone: nothing of the transaction happens.
                    doing.expect = Expect::ChannelFails(kind);
                    return self.control_doing(client, Op::Commit, doing);
                }
            };
            if queues.is_empty() && publishing.mandatory {
                doing.returned.push(publishing.id);
            }
        }
        for publishing in &tx.publishes {
            let header = publishing.header.as_deref();
            let queues = self.model.route(&publishing.exchange, &publishing.key, header);
            self.model.put_in(publishing.id, &queues.unwrap_or_default());
            doing.committed.push(publishing.id);
        }
        for (link, position, outcome) in tx.settles {
            self.model.settle(LinkKey { client, link: link.0 }, position, outcome);
        }
        self.control_doing(client, Op::Commit, doing);
    }
}
