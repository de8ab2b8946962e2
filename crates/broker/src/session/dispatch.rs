//! Control requests, one by one.

use super::channels::Tx;
use super::{Handled, Session};
use crate::limits;
use crate::queue::Queue;
use queue::Return;
use session::{ChannelId, Control, Error, ErrorKind, Event, MethodTag, Op, Settle};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Session {
    /// Does what a control request asks for.
    pub(super) async fn act(&mut self, control: &Control) -> Result<Handled, Error> {
        let channel = control.channel;
        match &control.op {
            Op::ChannelOpen => self.open_channel(channel),
            Op::ChannelClose => {
                self.release_channel(channel).await;
                self.answer(Event::ChannelClosed(channel))
            }
            Op::ChannelFail(error) => Err(error.clone()),
            Op::ConnectionClose => {
                self.give_everything_back().await;
                self.answer(Event::ConnectionClosed)?;
                Ok(Handled::Closed)
            }
            Op::ConnectionFail(error) => Err(error.clone()),
            // COMPAT: only who lets credentials expire looks at new ones; passwords do not expire.
            Op::UpdateSecret { .. } => Ok(Handled::Done),
            Op::ExchangeDeclare(declare) => self.declare_exchange(declare).await,
            Op::ExchangeDelete { exchange, if_unused } => {
                self.delete_exchange(exchange, *if_unused).await
            }
            Op::ExchangeBind(binding) => self.bind_exchange(binding).await,
            Op::ExchangeUnbind(binding) => self.unbind_exchange(binding).await,
            Op::QueueDeclare(declare) => self.declare_queue(control, declare).await,
            Op::QueueBind(binding) => self.bind_queue(channel, binding).await,
            Op::QueueUnbind(binding) => self.unbind_queue(channel, binding).await,
            Op::QueuePurge { queue } => self.purge_queue(control, queue).await,
            Op::QueueDelete { queue, if_unused, if_empty } => {
                self.delete_queue(control, queue, *if_unused, *if_empty).await
            }
            Op::SetPrefetch { prefetch_count, global } => {
                if *global && self.broker.limits().channel_prefetch {
                    self.limit_channel(channel, *prefetch_count);
                    return Ok(Handled::Done);
                }
                self.set_qos(channel, *prefetch_count);
                if *global {
                    self.set_prefetch_of_consumers(channel);
                }
                Ok(Handled::Done)
            }
            Op::Consume(consume) => self.consume(control, consume).await,
            Op::Cancel { consumer_tag } => self.cancel(control, consumer_tag).await,
            Op::Get { queue, no_ack } => self.get(channel, queue, *no_ack).await,
            Op::Recover => self.recover(channel, control.origin).await,
            Op::ConfirmSelect => self.select_confirms(channel),
            Op::TxSelect => self.select_tx(channel),
            Op::TxCommit => self.commit_tx(channel).await,
            Op::TxRollback => self.roll_back_tx(channel).await,
        }
    }

    pub(super) fn answer(&self, event: Event<'_>) -> Result<Handled, Error> {
        let mut event = Some(event);
        self.tell(|sink| {
            if let Some(event) = event.take() {
                sink.event(event);
            }
        });
        Ok(Handled::Answered)
    }

    fn open_channel(&mut self, channel: ChannelId) -> Result<Handled, Error> {
        limits::check_channel(&self.broker, &self.view, &self.connection.identity.user)?;
        let opened = self.channels.open(channel);
        let counters = Arc::clone(&opened.counters);
        stdx::lock(&self.connection.channels).insert(channel, counters);
        self.broker.tell_channel("channel.created", &self.connection, channel);
        self.answer(Event::ChannelOpened(channel))
    }

    fn set_qos(&mut self, channel: ChannelId, prefetch_count: u16) {
        if let Some(channel) = self.channels.get_mut(channel) {
            channel.prefetch_count = prefetch_count;
            channel.counters.prefetch_count.store(u32::from(prefetch_count), Ordering::Relaxed);
        }
    }

    /// COMPAT: `global` limits each consumer, as RabbitMQ 4.3 has it, but those that are there
    /// already too: Celery raises its limit in this way while tasks wait for their time.
    fn set_prefetch_of_consumers(&self, channel: ChannelId) {
        let prefetch = self.prefetch(channel);
        let links = self.channels.get(channel).into_iter().flat_map(|open| &open.links);
        for link in links.filter_map(|id| self.links.get(id)).filter(|link| link.active) {
            link.queue.set_prefetch(link.consumer, prefetch);
        }
    }

    fn select_confirms(&mut self, id: ChannelId) -> Result<Handled, Error> {
        let Some(channel) = self.channels.get_mut(id) else { return Ok(Handled::Done) };
        if channel.tx.is_some() {
            let text = "cannot switch from tx to confirm mode";
            return Err(Error::new(ErrorKind::PreconditionFailed, text));
        }
        channel.last_sequence.get_or_insert(0);
        channel.publisher.get_or_insert_with(|| self.confirms.open(id));
        channel.counters.confirm.store(true, Ordering::Relaxed);
        Ok(Handled::Done)
    }

    /// Everything unsettled on the channel goes back to its queues, but for what its transaction
    /// has settled already. COMPAT: the answer goes ahead of what comes again.
    async fn recover(&mut self, channel: ChannelId, origin: MethodTag) -> Result<Handled, Error> {
        let mut queues: BTreeMap<_, (Arc<Queue>, Vec<_>)> = BTreeMap::new();
        let answered = self.answer(Event::Done { channel, origin })?;
        let Some(open) = self.channels.get(channel) else { return Ok(answered) };
        let mut settled = open.tx.as_deref().map(Tx::settled_by_link).unwrap_or_default();
        for id in &open.links {
            let settled = settled.remove(id).unwrap_or_default();
            // What nobody acknowledges is on its way.
            if let Some(link) = self.links.get(id).filter(|link| !link.no_ack) {
                let of_queue = queues.entry(link.queue.id());
                let (_, consumers) =
                    of_queue.or_insert_with(|| (Arc::clone(&link.queue), Vec::new()));
                consumers.push((link.consumer, settled));
            }
        }
        for (queue, consumers) in queues.values() {
            let _returning = self.give_back_many(queue, consumers, Return::Released).await;
            queue.requeue_all(consumers);
        }
        self.make_room_after_recovery(channel);
        self.tell(|sink| sink.recovered(channel));
        Ok(answered)
    }

    /// Applies acknowledgements that were kept for a commit.
    pub(super) async fn apply_settles(&mut self, settles: Vec<Settle>) {
        self.settles.extend(settles);
        self.settle_many().await;
    }
}
