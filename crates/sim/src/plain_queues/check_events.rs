//! Checks the events of clients against the model.

use super::PlainQueues;
use super::work::ReplyConsumer;
use crate::client::Expect;
use crate::model::LinkKey;
use session::ErrorKind;
use testing::outbox::{Content, Given, What};
use testing::run::{expect_ok, fail};

impl PlainQueues {
    /// Takes in what clients were told since the last time.
    pub(super) fn check_events(&mut self) {
        let heard = std::mem::take(&mut *stdx::lock(&self.harness.transcript));
        for (client, what) in heard {
            self.harness.note(format!("  {client}: {what}"));
            if !self.clients.contains_key(&client) {
                fail("somebody who is gone is told something");
            }
            self.take_in(client, what);
        }
    }

    fn take_in(&mut self, client: usize, what: What) {
        // What a failed log leaves undone the model does not know: only answers are looked at.
        let failed = self.has_failed();
        let is_content = matches!(what, What::Deliver { .. } | What::Got { .. });
        if failed && is_content {
            return;
        }
        if failed && matches!(what, What::Declared { .. }) {
            return self.answer(client, &Expect::Nothing);
        }
        match what {
            What::Deliver { given, late } => self.take_delivery(client, &given, late),
            What::Got { given, n_ready, no_ack } => self.take_got(client, &given, n_ready, no_ack),
            What::Consuming { link, tag, no_ack } => self.take_consumer(client, link, &tag, no_ack),
            What::Cancelled { channel, tag } => self.take_cancelled(client, channel, &tag),
            What::ConsumerCancelled { channel, tag } => {
                if !self.model.to_be_told.remove(&(client, channel, tag.clone())) {
                    fail(format!("{tag} of client {client} was not lost"));
                }
                if let Some(channel) = self.client(client).channels.get_mut(&channel) {
                    channel.tags.remove(&tag);
                }
            }
            What::Confirm { channel, first, last, answer } => {
                self.take_confirm(client, channel, first..=last, answer.is_ack());
            }
            What::Returned(content, _) => self.take_returned(client, &content),
            What::ChannelFailed { channel, kind, .. } => {
                self.answer(client, &Expect::ChannelFails(kind));
                self.end_channel(client, channel);
            }
            What::ChannelClosed(channel) => {
                self.answer(client, &Expect::ChannelClosed);
                self.end_channel(client, channel);
            }
            What::ConnectionFailed { kind, .. } => {
                self.answer(client, &Expect::ConnectionFails(kind))
            }
            What::ConnectionClosed => self.answer(client, &Expect::ConnectionClosed),
            What::ChannelOpened => self.answer(client, &Expect::ChannelOpened),
            What::Flowed { .. } | What::TimedOut { .. } => fail("nobody has link credit"),
            What::Link(_) | What::Refused { .. } | What::Management(_) | What::Stream(_) => {
                fail("there are no streams")
            }
            What::Done => self.answer(client, &Expect::Done),
            What::GetEmpty => self.take_get_empty(client),
            What::Purged(n) => self.answer(client, &Expect::Purged(n)),
            What::Deleted(n) => self.answer(client, &Expect::Deleted(n)),
            What::Declared { queue, n_ready, n_consumers } => {
                self.take_declared(client, &queue, (n_ready, n_consumers));
            }
            What::Blocked(_) => {
                if !self.alarm || std::mem::replace(&mut self.client(client).blocked, true) {
                    fail("blocked without a reason");
                }
            }
            What::Unblocked => {
                if self.alarm || !std::mem::replace(&mut self.client(client).blocked, false) {
                    fail("unblocked without a reason");
                }
            }
        }
    }

    fn take_get_empty(&mut self, client: usize) {
        // Others may have taken what it was to get, while it was read from disk.
        let expect = &self.client(client).doing.expect;
        let is_taken = if let Expect::Got(queue) = expect { Some(queue.clone()) } else { None };
        match is_taken.filter(|queue| self.model.first_ready(queue).is_none()) {
            Some(queue) => self.answer(client, &Expect::Got(queue)),
            None => self.answer(client, &Expect::GetEmpty),
        }
    }

    fn take_returned(&mut self, client: usize, content: &Content) {
        let failed = self.has_failed();
        let doing = &mut self.client(client).doing;
        let next = if doing.returned.is_empty() { None } else { Some(doing.returned.remove(0)) };
        if content.id() != next && !failed {
            fail(format!("{:?} is returned instead of {next:?}", content.id()));
        }
    }

    fn take_declared(&mut self, client: usize, queue: &str, told: (u64, u64)) {
        let expect = self.client(client).doing.expect.clone();
        let expected =
            matches!(&expect, Expect::Declared { queue: wanted, .. } if wanted.as_str() == queue);
        // As of now: work went on while the declaration waited for the log.
        let now = (self.model.counts(queue).0, self.model.n_consumers(queue));
        // What is being closed may already have given back what the model still counts as held.
        if !expected || (told != now && self.model.closing.is_empty()) {
            fail(format!("{queue} is declared with {told:?} instead of {now:?}"));
        }
        self.answer(client, &expect);
    }

    /// Takes the answer that the client waits for.
    fn answer(&mut self, client: usize, told: &Expect) {
        let failed = self.has_failed();
        let doing = &mut self.client(client).doing;
        let refused = *told == Expect::ConnectionFails(ErrorKind::InternalError)
            || matches!(told, Expect::ChannelFails(_));
        if failed {
            let (durable, committed) = (doing.durable, doing.committed.clone());
            if refused || self.just_synced {
                return;
            }
            if durable || committed.into_iter().any(|id| !self.is_durable(id)) {
                fail(format!("after the log has failed: {told:?}"));
            }
            return;
        }
        if doing.expect != *told || std::mem::replace(&mut doing.answered, true) {
            let expect = format!("{:?}", doing.expect);
            fail(format!("client {client} expects {expect}"));
        }
    }

    fn end_channel(&mut self, client: usize, channel: u16) {
        let before = self.model.facts(true);
        self.model.end_channel(client, channel);
        self.touch(&before);
        self.model.closing.remove(&(client, channel));
        self.replies.consumers.remove(&(client, channel));
        self.client(client).channels.remove(&channel);
    }

    fn take_delivery(&mut self, client: usize, given: &Given, late: bool) {
        if late {
            fail(format!("link {} gets more though it is full", given.link));
        }
        if self.take_reply(client, given) {
            return;
        }
        self.take_request(given);
        let key = LinkKey { client, link: given.link };
        if !self.model.links.get(&key).is_some_and(|link| link.active) {
            fail("a delivery to a consumer that is gone");
        }
        expect_ok(self.model.deliver(client, given));
    }

    fn take_got(&mut self, client: usize, given: &Given, n_ready: u64, no_ack: bool) {
        self.take_request(given);
        let key = LinkKey { client, link: given.link };
        let doing = &mut self.client(client).doing;
        let link = doing.link.take();
        let Some(mut link) = link else { fail("got without asking") };
        link.no_ack = no_ack;
        let queue = link.queue.0.clone();
        let known = self.model.links.contains_key(&key);
        if !known {
            expect_ok(self.model.attach(key, link));
        } else if let Some(known) = self.model.links.get_mut(&key) {
            if known.queue != link.queue || known.channel != link.channel || known.active {
                fail("a get's link is somebody else's");
            }
            known.no_ack = no_ack;
        }
        let first = self.model.first_ready(&queue);
        if first != given.content.id() {
            fail(format!("got {:?} of {queue} instead of {first:?}", given.content.id()));
        }
        expect_ok(self.model.deliver(client, given));
        if n_ready != self.model.counts(&queue).0 {
            fail(format!("{n_ready} are not left in {queue}"));
        }
        self.answer(client, &Expect::Got(queue));
    }

    fn take_consumer(&mut self, client: usize, number: u64, tag: &str, no_ack: bool) {
        let doing = &mut self.client(client).doing;
        let channel = doing.channel;
        if let Some(asked) = doing.reply_tag.take() {
            if asked != tag || !no_ack {
                fail("consuming replies as somebody else");
            }
            let consumer = ReplyConsumer { link: number, tag: tag.to_owned() };
            self.replies.consumers.insert((client, channel), consumer);
            if let Some(channel) = self.client(client).channels.get_mut(&channel) {
                channel.tags.insert(tag.to_owned());
            }
            return self.answer(client, &Expect::Consuming);
        }
        let Some(link) = doing.link.take() else { fail("consuming without asking") };
        if link.tag != tag || link.no_ack != no_ack {
            fail("consuming as somebody else");
        }
        let attached = self.model.attach(LinkKey { client, link: number }, link);
        expect_ok(attached);
        if let Some(channel) = self.client(client).channels.get_mut(&channel) {
            channel.tags.insert(tag.to_owned());
        }
        self.answer(client, &Expect::Consuming);
    }

    fn take_cancelled(&mut self, client: usize, channel: u16, tag: &str) {
        let of_tag = |key: &LinkKey| {
            self.model.links.get(key).is_some_and(|link| link.tag == tag && link.active)
        };
        let link = self.model.links_of(client, channel).into_iter().find(of_tag);
        if let Some(key) = link {
            self.model.end_consumer(key);
        }
        let is_cancelled =
            |of: &(usize, u16), one: &ReplyConsumer| *of == (client, channel) && one.tag == tag;
        self.replies.consumers.retain(|of, one| !is_cancelled(of, one));
        if let Some(channel) = self.client(client).channels.get_mut(&channel) {
            channel.tags.remove(tag);
        }
        self.answer(client, &Expect::Cancelled);
    }

    fn take_confirm(
        &mut self,
        client: usize,
        channel: u16,
        numbers: std::ops::RangeInclusive<u64>,
        ack: bool,
    ) {
        let failed = self.has_failed();
        for number in numbers {
            let state = self.client(client).channels.get_mut(&channel);
            let Some(id) = state.and_then(|state| state.unconfirmed.remove(&number)) else {
                fail(format!("{number} is confirmed twice, or was never published"));
            };
            if !ack {
                fail(format!("m{id} is refused"));
            }
            // A failure in the middle of a close leaves the model without knowledge of some queues.
            let known = !failed || self.model.closing.is_empty();
            if !self.is_durable(id) && known {
                let when = if failed { "after the log has failed" } else { "before it is durable" };
                fail(format!("m{id} is confirmed {when}"));
            }
        }
    }
}
