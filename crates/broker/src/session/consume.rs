//! Consumers and `get`.

use super::client::Client;
use super::links::{Links, tell_consumer};
use super::{Handled, access, direct_reply_to, limits};
use crate::broker::ConsumerName;
use exchanges::ShardPlace;
use meta::{Permission, QueueDef};
use queue::{AckMode, Checkout, CreditMode};
use queue_type::{AfterDetach, Attach, AttachRefused, Got, Taker};
use queues::{LinkRef, QueueRef};
use session::{
    Attachment, ChannelId, Control, Error, ErrorKind, Event, LinkId, ShortString, Value,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Links {
    pub(super) async fn consume(
        &mut self,
        client: &mut Client,
        control: &Control,
        consume: &Attachment,
    ) -> Result<Handled, Error> {
        let channel = control.channel;
        if direct_reply_to::is_reply_queue(consume.queue.as_bytes()) {
            return self.consume_replies(client, control, consume);
        }
        let broker = Arc::clone(&client.access.broker);
        // Where it begins may have to be looked up on the disk.
        let says_where = consume.arguments.get(b"x-stream-offset").is_some()
            || consume.source.as_ref().is_some_and(|source| !source.filters.is_empty());
        let _disk = if says_where { broker.connections.disk_turn().await } else { None };
        let (queue, place) = client.queue_to_attach(channel, &consume.queue).await?;
        client.access.check_exclusive_access(&queue)?;
        let consumer_tag = self.consumer_tag(client, channel, &consume.consumer_tag)?;
        let checked = queue.def().check_consumer(&consume.arguments);
        checked.map_err(|error| access::refused(&error))?;
        let priority = consume.arguments.get(b"x-priority");
        let checkout = Checkout {
            settling: ack_mode(consume.no_ack),
            credit_mode: if consume.source.is_some() {
                CreditMode::Link
            } else {
                CreditMode::of_prefetch(client.channels.prefetch(channel))
            },
            priority: priority.and_then(Value::as_i64).unwrap_or(0),
        };
        let link = self.next_id();
        let tally = client.tally(channel, Some(&queue));
        let attached = queue.attach(Attach {
            checkout,
            connection: client.access.connection.id,
            channel,
            link,
            outbox: &client.turn.outbox,
            consumer_tag: &consumer_tag,
            asked: consume,
            answer: !control.nowait,
            limit: client.channels.limit(channel),
            node_timeout_ms: client.access.broker.limits().quorum_timeout_ms,
            tally: Arc::clone(&tally),
        });
        let consumer = attached.await.map_err(|refused| refusal(refused, queue.def()))?;
        place.into_iter().for_each(ShardPlace::take);
        tell_consumer(
            &client.access,
            "consumer.created",
            channel,
            ConsumerName { queue: &queue.def().name, tag: &consumer_tag },
            |facts| {
                facts
                    .flag("exclusive", consume.exclusive)
                    .flag("ack_required", !consume.no_ack)
                    .number("prefetch_count", checkout.credit_mode.prefetch().unwrap_or(0))
                    .table("arguments", &consume.arguments)
            },
        );
        self.insert(link, consumer, tally);
        self.note_prefetch(link, checkout.credit_mode.prefetch());
        if let Some(channel) = client.channels.get_mut(channel) {
            let before = channel.consumers.insert(consumer_tag, link);
            channel.links.insert(link);
            let n_more = u32::from(before.is_none());
            channel.counters.n_consumers.fetch_add(n_more, Ordering::Relaxed);
        }
        Ok(Handled::Answered)
    }

    fn consume_replies(
        &mut self,
        client: &mut Client,
        control: &Control,
        consume: &Attachment,
    ) -> Result<Handled, Error> {
        let id = control.channel;
        if !consume.no_ack {
            return Err(direct_reply_to::refuse("reply consumer cannot acknowledge"));
        }
        if client.channels.get(id).is_some_and(|channel| !channel.replies.is_empty()) {
            return Err(direct_reply_to::refuse("reply consumer already set"));
        }
        let consumer_tag = self.consumer_tag(client, id, &consume.consumer_tag)?;
        let link = self.next_id();
        client.turn.tell(|sink| {
            sink.event(Event::Attached {
                channel: id,
                link,
                consumer_tag: &consumer_tag,
                no_ack: true,
                filters: None,
                answer: !control.nowait,
            });
        });
        client.add_replies(id, link, consumer_tag, CreditMode::Unlimited);
        Ok(Handled::Answered)
    }

    /// The tag a new consumer gets: the client's, which must not be in use, or a generated one.
    pub(super) fn consumer_tag(
        &self,
        client: &Client,
        channel: ChannelId,
        wanted: &ShortString,
    ) -> Result<ShortString, Error> {
        let n_consumers = client.channels.get(channel).map_or(0, |channel| channel.consumers.len());
        limits::check_consumers(&client.access.broker, n_consumers)?;
        if wanted.as_bytes().is_empty() {
            return Ok(ShortString::truncated(&client.access.broker.names.name("amq.ctag-")));
        }
        let known = client.channels.get(channel).and_then(|channel| channel.consumers.get(wanted));
        let is_fed = |link: &LinkRef| link.is_active() && !link.queue().is_deleted();
        let in_use = known.and_then(|link| self.get(*link)).is_some_and(is_fed);
        if in_use || client.is_reply_tag(channel, wanted) {
            let text = format!("attempt to reuse consumer tag '{}'", wanted.to_text());
            return Err(Error::new(ErrorKind::NotAllowed, text));
        }
        Ok(wanted.clone())
    }

    /// Ends a consumer. An unknown tag is answered as if it were known, as RabbitMQ does.
    pub(super) async fn cancel(
        &mut self,
        client: &mut Client,
        control: &Control,
        consumer_tag: &ShortString,
    ) -> Result<Handled, Error> {
        let channel = control.channel;
        let answer = !control.nowait;
        let cancelled = |link| Event::Detached { channel, link, consumer_tag, answer };
        if self.end_consumer(client, channel, consumer_tag, |id| cancelled(Some(id))).await {
            return Ok(Handled::Answered);
        }
        let of_replies = client.end_replies(channel, |it| it.consumer_tag == *consumer_tag);
        client.turn.answer(cancelled(of_replies))
    }

    /// Ends a consumer and tells so after its last delivery; false if there is none of the tag.
    pub(super) async fn end_consumer<'t>(
        &mut self,
        client: &mut Client,
        channel: ChannelId,
        consumer_tag: &'t ShortString,
        told: impl Fn(LinkId) -> Event<'t>,
    ) -> bool {
        let id = client.channels.get_mut(channel).and_then(|channel| {
            let link = channel.consumers.remove(consumer_tag)?;
            channel.counters.n_consumers.fetch_sub(1, Ordering::Relaxed);
            Some(link)
        });
        let Some((id, link)) = id.and_then(|id| Some((id, self.get_mut(id)?))) else {
            return false;
        };
        let tell = || client.turn.tell(|sink| sink.event(told(id)));
        let after = link.cancel(tell).await;
        let (queue, is_idle) = (Arc::clone(link.def()), link.detach_idle());
        tell_consumer(
            &client.access,
            "consumer.deleted",
            channel,
            ConsumerName { queue: &queue.name, tag: consumer_tag },
            |facts| facts,
        );
        self.note_prefetch(id, None);
        if is_idle {
            self.forget(&mut client.channels, id);
        }
        if after == AfterDetach::DeleteQueue {
            client.access.broker.changes().drop_queue(queue.id).await;
        }
        true
    }

    pub(super) async fn get_one(
        &mut self,
        client: &mut Client,
        channel: ChannelId,
        queue: &ShortString,
        no_ack: bool,
    ) -> Result<Handled, Error> {
        let name = client.queue_to_consume(channel, queue)?;
        client.access.require_on_queue(Permission::Read, &name)?;
        let queue = client.access.find_loaded_queue(&name).await?;
        client.access.check_exclusive_access(&queue)?;
        let link = self.get_link(client, channel, &queue, no_ack).await?;
        let Some((consumer, tally)) = self.counted(link) else {
            return Err(refusal(AttachRefused::Gone, queue.def()));
        };
        loop {
            let taker = Taker { link, outbox: &client.turn.outbox, tally };
            match consumer.get(taker).await.map_err(|refused| refusal(refused, queue.def()))? {
                Got::Message | Got::Unfit => return Ok(Handled::Answered),
                Got::Nothing => return client.turn.answer(Event::GetEmpty(channel)),
                Got::NotInMemory => consumer.next_in_memory().await,
            }
        }
    }

    /// The link that holds what this channel gets from this queue, until it is acknowledged or written.
    async fn get_link(
        &mut self,
        client: &mut Client,
        channel: ChannelId,
        queue: &QueueRef,
        no_ack: bool,
    ) -> Result<LinkId, Error> {
        let key = (queue.id(), no_ack);
        let known = client.channels.get(channel).and_then(|c| c.gets.get(&key)).copied();
        if let Some(link) = known.filter(|link| self.get(*link).is_some_and(|link| !link.is_lost()))
        {
            return Ok(link);
        }
        let owner = (client.access.connection.id, channel);
        let consumer = queue
            .attach_passive(
                owner,
                ack_mode(no_ack),
                client.access.broker.limits().quorum_timeout_ms,
            )
            .await
            .map_err(|refused| refusal(refused, queue.def()))?;
        let link = self.next_id();
        // Not active: it goes when the last message got has been settled.
        self.insert(link, consumer, client.tally(channel, Some(queue)));
        if let Some(channel) = client.channels.get_mut(channel) {
            channel.gets.insert(key, link);
            channel.links.insert(link);
        }
        Ok(link)
    }
}

const fn ack_mode(no_ack: bool) -> AckMode {
    if no_ack { AckMode::Auto } else { AckMode::Manual }
}

fn refusal(refused: AttachRefused, queue: &QueueDef) -> Error {
    let resource = queue.resource();
    match refused {
        AttachRefused::Gone => Error::new(ErrorKind::NotFound, format!("no {resource}")),
        AttachRefused::HomeDown(text) => Error::new(ErrorKind::NotFound, text),
        AttachRefused::ExclusiveUse => {
            Error::new(ErrorKind::ExclusiveUse, format!("{resource} in exclusive use"))
        }
        AttachRefused::Unfit(text) => Error::new(ErrorKind::PreconditionFailed, text),
        AttachRefused::Locked(text) => Error::new(ErrorKind::ResourceLocked, text),
        AttachRefused::NotImplemented(text) => Error::new(ErrorKind::NotImplemented, text),
    }
}
