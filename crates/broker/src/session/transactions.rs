//! Transactions: publishes and acknowledgements are kept until `tx.commit`.

use super::Handled;
use super::channels::{Channel, Channels, TX_BYTES_MAX, TX_PLACES_MAX, TX_SETTLES_MAX, Tx};
use super::client::Client;
use super::links::Links;
use super::publish::Publishing;
use super::read_source::message_of;
use super::settling::{Settling, not_on_this_link};
use bytes::BytesMut;
use meta::ConfirmOn;
use session::{
    ChannelId, Content, Error, ErrorKind, HeadPlace, Outcome, OwnedContent, Publish, ReadInput,
    Request, Settle, Span,
};
use std::sync::atomic::Ordering;

/// Bytes that a kept publish takes beside its own, roughly.
const KEPT_PUBLISH_BYTES: usize = size_of::<Request>() + size_of::<OwnedContent>() + 64;

/// The refusal of a transaction that gathers more than it may.
fn too_large() -> Error {
    Error::new(ErrorKind::ResourceError, "transaction is too large")
}

fn not_transactional() -> Error {
    Error::new(ErrorKind::PreconditionFailed, "channel is not transactional")
}

/// The transactions of a client's channels.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    /// Bytes that all transactions hold.
    uncommitted_bytes: u64,
}

impl Transactions {
    pub(super) const fn uncommitted_bytes(&self) -> u64 {
        self.uncommitted_bytes
    }

    /// Forgets the transaction of a closed channel.
    pub(super) fn forget(&mut self, closed: &Channel) {
        let uncommitted_bytes = closed.tx.as_deref().map_or(0, Tx::held_bytes);
        self.uncommitted_bytes = self.uncommitted_bytes.saturating_sub(uncommitted_bytes);
    }

    /// Keeps a copy of a publish until the commit.
    ///
    /// # Errors
    /// The publish is refused, or the transaction becomes too large, which ends the connection.
    pub(super) fn keep_publish(
        &mut self,
        client: &mut Client,
        publishing: &mut Publishing,
        publish: &Publish,
        input: ReadInput<'_>,
    ) -> Result<(), Error> {
        publishing.check(client, publish, input)?;
        let message = message_of(publish, input);
        let size_bytes = message.size_bytes() + KEPT_PUBLISH_BYTES;
        let owned = owned(publish, input);
        let Some(channel) = client.channels.get_mut(publish.channel) else { return Ok(()) };
        let Some(tx) = channel.tx.as_deref_mut() else { return Ok(()) };
        tx.publish_bytes += size_bytes;
        self.uncommitted_bytes += size_bytes as u64;
        if tx.publish_bytes > TX_BYTES_MAX {
            return Err(too_large());
        }
        tx.publishes.push(Request::Publish(owned));
        channel.counters.n_uncommitted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps an acknowledgement until the commit.
    ///
    /// # Errors
    /// The transaction becomes too large: the connection is to end.
    pub(super) fn keep_settle(
        &mut self,
        channel: &mut Channel,
        settle: Settle,
    ) -> Result<(), Error> {
        let Some(tx) = channel.tx.as_deref_mut() else { return Ok(()) };
        if tx.settles.len() >= TX_SETTLES_MAX {
            return Err(too_large());
        }
        tx.settles.push(settle);
        self.uncommitted_bytes += size_of::<Settle>() as u64;
        channel.counters.n_uncommitted_acks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Commits a transaction: returns unroutable messages, puts the publishes into their queues, carries out
    /// the settlements, and answers when persistent messages and settlements are durable.
    ///
    /// # Errors
    /// A publish is refused: the transaction stays as it is. Or a queue has not taken one, because it is not
    /// available or, for a client of links, for any reason: the rest of the transaction is in effect.
    pub(super) async fn commit(
        &mut self,
        client: &mut Client,
        publishing: &mut Publishing,
        links: &mut Links,
        settling: &mut Settling,
        channel: ChannelId,
    ) -> Result<Handled, Error> {
        let mut tx = self.take(&mut client.channels, channel)?;
        if let Err(error) = prepare(&mut tx, client, publishing, links).await {
            publishing.clear();
            // Messages that the transaction has settled go back with the channel, which fails.
            if let Some(channel) = client.channels.get_mut(channel) {
                self.uncommitted_bytes += tx.held_bytes();
                channel.tx = Some(tx);
            }
            return Err(error);
        }
        publishing.until_loaded(&mut client.turn).await;
        let mut awaited = publishing.put_batch_in(client, &ReadInput::NONE, &tx.publishes).await;
        let of_links = links.publishers.is_some().then(|| publishing.is_any_refused());
        let is_refused = of_links.unwrap_or_else(|| publishing.is_any_unavailable());
        publishing.clear();
        client.turn.drop_all(tx.publishes).await;
        let mut settles = tx.settles;
        let settles_any = !settles.is_empty();
        settling.append(&mut settles);
        settling.flush_many(client, links).await;
        if let Some((_, error)) = settling.take_refused() {
            return Err(error);
        }
        client.turn.before_waiting();
        let wal = &client.access.broker.classic.storage().wal;
        if settles_any {
            awaited.log = awaited.log.max(Some(wal.stats().appended_upto));
        }
        // A home of queues that is lost before it has answered ends the wait as a log does that has failed.
        let is_lost = match awaited.durable(wal).await {
            Err(failed) if wal.poisoned().is_some() => return Err(failed.into()),
            result => result.is_err(),
        };
        match (is_refused || is_lost, links.publishers.is_some()) {
            (false, _) => Ok(Handled::Done),
            (true, true) => Err(lost("a queue has refused a message")),
            // COMPAT: RabbitMQ's text. It fails the commit for a full queue too.
            (true, false) => Err(lost("partial tx completion")),
        }
    }

    /// Rolls a transaction back. Messages whose acknowledgements are forgotten stay with the client, unless
    /// they were delivered on another channel: their client has done with them, and they go back.
    pub(super) async fn roll_back(
        &mut self,
        client: &mut Client,
        links: &mut Links,
        settling: &mut Settling,
        channel: ChannelId,
    ) -> Result<Handled, Error> {
        let tx = self.take(&mut client.channels, channel)?;
        settling.append(&mut undone(&tx, links, channel));
        settling.flush_many(client, links).await;
        client.turn.drop_all(tx.publishes).await;
        Ok(Handled::Done)
    }

    fn take(&mut self, channels: &mut Channels, channel: ChannelId) -> Result<Box<Tx>, Error> {
        let channel = channels.get_mut(channel).ok_or_else(not_transactional)?;
        let tx = channel.tx.as_mut().ok_or_else(not_transactional)?;
        channel.counters.n_uncommitted.store(0, Ordering::Relaxed);
        channel.counters.n_uncommitted_acks.store(0, Ordering::Relaxed);
        self.uncommitted_bytes = self.uncommitted_bytes.saturating_sub(tx.held_bytes());
        Ok(std::mem::take(tx))
    }
}

/// Checks and routes the publishes of a transaction.
async fn prepare(
    tx: &mut Tx,
    client: &mut Client,
    publishing: &mut Publishing,
    links: &Links,
) -> Result<(), Error> {
    if let Some(error) = tx.refused.take() {
        return Err(error);
    }
    check_outcomes(tx, client, links)?;
    let mut n_places = 0;
    publishing.reserve(tx.publishes.len());
    for (index, request) in tx.publishes.iter().enumerate() {
        if let Request::Publish(publish) = request {
            publishing.prepare(client, index, publish, ReadInput::NONE)?;
            if links.publishers.is_some() && publish.mandatory && publishing.is_last_nowhere() {
                return Err(lost("no queue takes a message"));
            }
        }
        n_places += client.turn.take_places();
        if n_places > TX_PLACES_MAX {
            return Err(too_large());
        }
        client.turn.did(1).await;
    }
    Ok(())
}

/// Whether the queues of a client of links take back what the transaction gives back.
fn check_outcomes(tx: &Tx, client: &Client, links: &Links) -> Result<(), Error> {
    let is_of_links = client.access.connection.identity.has_windows();
    let mut others = tx.settles.iter().filter(|it| it.outcome != Outcome::Accepted);
    let refusing = others.find_map(|settle| {
        let queue = links.get(settle.link)?.queue();
        (queue.confirm_on() == ConfirmOn::AckDirect).then_some(queue)
    });
    refusing.filter(|_| is_of_links).map_or(Ok(()), |queue| Err(not_on_this_link(&queue)))
}

fn lost(text: &'static str) -> Error {
    Error::new(ErrorKind::PreconditionFailed, text)
}

/// The fate of messages that a transaction which does not commit has settled, of those that were
/// delivered on other channels: they come again.
pub(super) fn undone(tx: &Tx, links: &Links, channel: ChannelId) -> Vec<Settle> {
    // A channel's transactions settle on its own links alone, or, of a client of links, on none of them.
    let first = tx.settles.iter().find_map(|settle| links.get(settle.link));
    if first.is_none_or(|link| link.channel() == channel) {
        return Vec::new();
    }
    let of_others = tx.settles.iter().filter_map(|settle| {
        let channel = links.get(settle.link)?.channel();
        Some(Settle { channel, outcome: Outcome::Modified, ..*settle })
    });
    of_others.collect()
}

/// A copy of a publish that does not depend on the input it came in.
pub(super) fn owned(publish: &Publish, input: ReadInput<'_>) -> Publish {
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
    let body = message.body.to_shared();
    Publish {
        channel: publish.channel,
        head: HeadPlace::Content,
        exchange,
        routing_key,
        properties,
        content: Content::Owned(Box::new(OwnedContent { head: head.freeze(), body })),
        form: publish.form,
        mandatory: publish.mandatory,
        persistent: publish.persistent,
        immediate: publish.immediate,
        inspect: publish.inspect,
    }
}
