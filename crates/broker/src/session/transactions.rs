//! Transactions: publishes and acknowledgements are kept until `tx.commit`.

use super::batch::message_of;
use super::channels::{TX_BYTES_MAX, TX_PLACES_MAX, Tx};
use super::{Handled, Session};
use crate::capacity;
use bytes::{Bytes, BytesMut};
use message::Body;
use session::{
    ChannelId, Content, Error, ErrorKind, MethodTag, OwnedContent, Publish, Request, Span,
};
use std::sync::atomic::Ordering;

/// What it takes to keep a publish beside its bytes, about.
const KEPT_PUBLISH_BYTES: usize = size_of::<Request>() + size_of::<OwnedContent>() + 64;

/// The refusal of a transaction that gathers more than it may.
pub(super) fn too_large() -> Error {
    Error::new(ErrorKind::ResourceError, "transaction is too large")
}

fn not_transactional() -> Error {
    Error::new(ErrorKind::PreconditionFailed, "channel is not transactional")
}

impl Session {
    pub(super) fn is_transactional(&self, channel: ChannelId) -> bool {
        self.channels.get(channel).is_some_and(|channel| channel.tx.is_some())
    }

    /// Keeps a copy of a publish until the commit.
    pub(super) fn keep_publish(
        &mut self,
        publish: &Publish,
        input: &[u8],
    ) -> Result<(), super::Stop> {
        let message = message_of(publish, input);
        let size_bytes = message.size_bytes() + KEPT_PUBLISH_BYTES;
        let owned = owned(publish, input);
        let Some(channel) = self.channels.get_mut(publish.channel) else { return Ok(()) };
        let Some(tx) = channel.tx.as_deref_mut() else { return Ok(()) };
        tx.publish_bytes += size_bytes;
        self.uncommitted_bytes += size_bytes as u64;
        if tx.publish_bytes > TX_BYTES_MAX {
            return self.end_connection(Some(publish.channel), MethodTag::default(), too_large());
        }
        tx.publishes.push(Request::Publish(owned));
        channel.counters.n_uncommitted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn select_tx(&mut self, channel: ChannelId) -> Result<Handled, Error> {
        let Some(channel) = self.channels.get_mut(channel) else { return Ok(Handled::Done) };
        if channel.last_sequence.is_some() {
            let text = "cannot switch from confirm to tx mode";
            return Err(Error::new(ErrorKind::PreconditionFailed, text));
        }
        channel.tx.get_or_insert_default();
        channel.counters.transactional.store(true, Ordering::Relaxed);
        Ok(Handled::Done)
    }

    /// Puts what was kept into the queues, unroutable messages being returned first, and answers
    /// when what is persistent is durable.
    pub(super) async fn commit_tx(&mut self, channel: ChannelId) -> Result<Handled, Error> {
        let tx = self.take_tx(channel)?;
        let mut n_places = 0;
        self.batch.reserve(tx.publishes.len());
        for (index, request) in tx.publishes.iter().enumerate() {
            if let Request::Publish(publish) = request
                && let Err(error) = self.prepare(index, publish, &[])
            {
                self.batch.clear();
                // What it has settled goes back with the channel, which fails.
                if let Some(channel) = self.channels.get_mut(channel) {
                    self.uncommitted_bytes += tx.held_bytes();
                    channel.tx = Some(tx);
                }
                return Err(error);
            }
            n_places += self.pace.take_places();
            if n_places > TX_PLACES_MAX {
                self.batch.clear();
                return Err(too_large());
            }
            self.did(1).await;
        }
        self.until_loaded().await;
        let awaited = loop {
            match self.batch.put_in(&[], &tx.publishes, &|_| None, &mut self.wakes) {
                Some(awaited) => break awaited,
                None => {
                    self.give_way().await;
                    // What is more than may be in memory all others would have to wait for.
                    capacity::of_all(&self.broker.storage.publishers_wait_for()).await;
                }
            }
        };
        if self.broker.storage.rules.tracing().is_any() {
            self.trace_batch(&[], &tx.publishes);
        }
        for letters in self.batch.take_undelivered() {
            self.broker.storage.rules.send(letters);
        }
        self.batch.clear();
        self.pace.slices.drop_all(tx.publishes).await;
        self.apply_settles(tx.settles).await;
        if let Some((_, error)) = self.refused_settle.take() {
            return Err(error);
        }
        self.before_waiting();
        awaited.durable(&self.broker.storage.wal).await?;
        Ok(Handled::Done)
    }

    /// Forgets what was kept. Messages whose acknowledgements are forgotten stay with the client.
    pub(super) async fn roll_back_tx(&mut self, channel: ChannelId) -> Result<Handled, Error> {
        let tx = self.take_tx(channel)?;
        self.pace.slices.drop_all(tx.publishes).await;
        Ok(Handled::Done)
    }

    fn take_tx(&mut self, channel: ChannelId) -> Result<Box<Tx>, Error> {
        let channel = self.channels.get_mut(channel).ok_or_else(not_transactional)?;
        let tx = channel.tx.as_mut().ok_or_else(not_transactional)?;
        channel.counters.n_uncommitted.store(0, Ordering::Relaxed);
        channel.counters.n_uncommitted_acks.store(0, Ordering::Relaxed);
        self.uncommitted_bytes = self.uncommitted_bytes.saturating_sub(tx.held_bytes());
        Ok(std::mem::take(tx))
    }
}

/// A copy of a publish that does not depend on the input it came in.
pub(super) fn owned(publish: &Publish, input: &[u8]) -> Publish {
    let message = message_of(publish, input);
    let mut head = BytesMut::new();
    let mut keep = |part: &[u8]| {
        let start = u32::try_from(head.len()).unwrap_or(u32::MAX);
        head.extend_from_slice(part);
        Span { start, len: u32::try_from(part.len()).unwrap_or(0) }
    };
    let exchange = keep(message.exchange);
    let routing_key = keep(message.routing_key);
    let properties = keep(message.properties);
    let body = match message.body {
        Body::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
        Body::Shared(bytes) => bytes.clone(),
    };
    Publish {
        channel: publish.channel,
        exchange,
        routing_key,
        properties,
        content: Content::Owned(Box::new(OwnedContent { head: head.freeze(), body })),
        mandatory: publish.mandatory,
        persistent: publish.persistent,
        immediate: publish.immediate,
        inspect: publish.inspect,
    }
}
