//! Direct replies: consumers without a queue, requests that name them, and replies to these, which the
//! broker hands over there and then or not at all.

use super::{PlainQueues, QUEUES};
use crate::client::{Doing, Expect, Publishing, Read, short};
use crate::model::LinkKey;
use session::{Attachment, ErrorKind, Op, Publish, Request, Table};
use std::collections::{BTreeMap, BTreeSet};
use testing::outbox::{Content, Given, REPLY_TOKEN_BYTES, without_token};
use testing::run::fail;

const REPLY_QUEUE: &str = "amq.rabbitmq.reply-to";

/// A channel's consumer of direct replies.
#[derive(Clone, Debug)]
pub(in crate::plain_queues) struct ReplyConsumer {
    pub(in crate::plain_queues) link: u64,
    pub(in crate::plain_queues) tag: String,
}

/// The clients that ask for direct replies, and their requests.
#[derive(Debug, Default)]
pub(in crate::plain_queues) struct Replies {
    /// By client and channel.
    pub(in crate::plain_queues) consumers: BTreeMap<(usize, u16), ReplyConsumer>,
    /// The publisher of each request, by message.
    requests: BTreeMap<u64, LinkKey>,
    /// The reply keys of the requests that consumers were given.
    keys: BTreeMap<LinkKey, String>,
    /// The reply that is being handed over.
    awaited: Option<(LinkKey, u64)>,
}

impl Replies {
    /// The names that were given out count for nothing any more, but may be used all the same.
    pub(in crate::plain_queues) fn restart(&mut self) {
        self.consumers.clear();
        self.awaited = None;
    }
}

impl PlainQueues {
    /// Consumes replies, asks for one, or replies.
    pub(super) fn reply_somehow(&mut self, client: usize, channel: u16) {
        let is_tx = self.client(client).channels.get(&channel).is_some_and(|one| one.tx.is_some());
        let has_replies = self.replies.consumers.contains_key(&(client, channel));
        match self.harness.random.below(10) {
            0..6 if is_tx => {}
            0..4 if has_replies => self.request(client, channel),
            0..1 => self.request(client, channel),
            4..9 if !is_tx && !self.alarm => self.reply(client, channel),
            _ if !has_replies || self.harness.random.percent(5) => {
                self.consume_replies(client, channel)
            }
            _ => {}
        }
    }

    fn consume_replies(&mut self, client: usize, channel: u16) {
        self.n_tags += 1;
        let tag = format!("r{}", self.n_tags);
        let no_ack = self.harness.random.percent(95);
        let is_second = self.replies.consumers.contains_key(&(client, channel));
        let expect = if no_ack && !is_second {
            Expect::Consuming
        } else {
            Expect::ChannelFails(ErrorKind::PreconditionFailed)
        };
        let op = Op::Attach(Attachment {
            queue: short(REPLY_QUEUE),
            consumer_tag: short(&tag),
            no_ack,
            source: None,
            exclusive: false,
            arguments: Table::default(),
        });
        let reply_tag = Some(tag);
        self.control_doing(client, op, Doing { channel, expect, reply_tag, ..Doing::default() });
    }

    /// Publishes a message that asks for direct replies.
    fn request(&mut self, client: usize, channel: u16) {
        let key = self.harness.random.pick(QUEUES);
        let asked = properties(REPLY_QUEUE);
        let named = properties(&format!("{REPLY_QUEUE}.{}", "A".repeat(REPLY_TOKEN_BYTES)));
        let (mut read, id) = (Read::default(), self.n_messages + 1);
        let publishing = self.put_reply_message((channel, key), asked, named, &mut read);
        let mut doing = Doing { channel, ..Doing::default() };
        match self.replies.consumers.get(&(client, channel)).map(|consumer| consumer.link) {
            None => doing.expect = Expect::ChannelFails(ErrorKind::PreconditionFailed),
            Some(link) => {
                self.replies.requests.insert(id, LinkKey { client, link });
                let queues = self.model.route("", key, None).unwrap_or_default();
                self.take_publish(client, channel, &publishing, &queues, &mut doing);
            }
        }
        self.harness.note(format!("client {client} publishes request m{id}>{key}"));
        self.submit(client, read, doing);
    }

    /// Publishes a reply to who asked for it in a message that somebody was given.
    fn reply(&mut self, client: usize, channel: u16) {
        let known: Vec<(LinkKey, String)> =
            self.replies.keys.iter().map(|(to, key)| (*to, key.clone())).collect();
        let Some((to, key)) = self.harness.random.choose(&known) else { return };
        if !self.model.closing.is_empty() {
            return;
        }
        let (mut read, id) = (Read::default(), self.n_messages + 1);
        let plain = || message::Properties::default().to_bytes();
        let publishing = self.put_reply_message((channel, &key), plain(), plain(), &mut read);
        let is_alive = self.is_reply_link(to);
        let mut doing = Doing { channel, ..Doing::default() };
        let none = BTreeSet::new();
        let mandatory = publishing.mandatory && !is_alive;
        let publishing = Publishing { mandatory, ..publishing };
        self.take_publish(client, channel, &publishing, &none, &mut doing);
        // A client that does not read has its replies dropped.
        self.replies.awaited = Some((to, id)).filter(|_| is_alive && !self.is_full(to));
        self.harness.note(format!("client {client} replies m{id} to {to:?}, alive {is_alive}"));
        self.submit(client, read, doing);
        if let Some(awaited) = self.replies.awaited.take()
            && !self.has_failed()
        {
            fail(format!("a reply has not come: {awaited:?}"));
        }
    }

    /// A message whose properties the broker may replace by `named`.
    fn put_reply_message(
        &mut self,
        (channel, key): (u16, &str),
        asked: Vec<u8>,
        named: Vec<u8>,
        read: &mut Read,
    ) -> Publishing {
        self.n_messages += 1;
        let id = self.n_messages;
        let content = Content {
            exchange: Vec::new(),
            key: without_token(key.as_bytes()),
            properties: named,
            body: format!("{id}|").into_bytes(),
            persistent: self.harness.random.percent(65),
            form: Content::form_of(id),
        };
        let mandatory = self.harness.random.percent(30);
        let asked = Content { key: key.into(), properties: asked, ..content.clone() };
        let publish = Publish { mandatory, ..read.publish_of(channel, &asked) };
        read.requests.push(Request::Publish(publish));
        self.model.published.insert(id, content);
        let (exchange, key) = (String::new(), key.to_owned());
        Publishing { id, exchange, key, header: None, mandatory }
    }

    fn is_reply_link(&self, key: LinkKey) -> bool {
        let consumers = &self.replies.consumers;
        consumers.iter().any(|((client, _), one)| *client == key.client && one.link == key.link)
    }

    /// Takes a delivery in that is a reply; false if it is none.
    pub(in crate::plain_queues) fn take_reply(&mut self, client: usize, given: &Given) -> bool {
        let key = LinkKey { client, link: given.link };
        if !self.is_reply_link(key) {
            return false;
        }
        let id = given.content.id();
        match self.replies.awaited.take() {
            Some((to, awaited)) if to == key && id == Some(awaited) => {
                if self.model.published.get(&awaited) != Some(&given.content) || given.redelivered {
                    fail(format!("reply m{awaited} came out as {:?}", given.content));
                }
            }
            other => fail(format!("m{id:?} comes as a reply instead of {other:?}")),
        }
        true
    }

    /// Takes a delivered request: its consumer knows from then on where replies go.
    pub(in crate::plain_queues) fn take_request(&mut self, given: &Given) {
        let request = given.content.id().and_then(|id| self.replies.requests.get(&id).copied());
        let (Some(from), Some(key)) = (request, &given.reply_key) else {
            if request.is_some() || given.reply_key.is_some() {
                fail("a request has lost its reply-to, or got one");
            }
            return;
        };
        let known = self.replies.keys.entry(from).or_insert_with(|| key.clone());
        if known != key {
            fail("one consumer of replies has two names");
        }
    }
}

fn properties(reply_to: &str) -> Vec<u8> {
    let reply_to = Some(short(reply_to));
    message::Properties { reply_to, ..message::Properties::default() }.to_bytes()
}
