//! Those who take messages: consumers and `get`, as they come and go.

use super::consumer_channel::{ConsumerChannel, OutboxRoom};
use super::policy::with_counts;
use super::state::{Attach, Owner, QueueState};
use super::{Activity, AfterDetach, AttachRefused, ConsumerView, Get, Got, Queue, Wakes, position};
use meta::QueueDef;
use queue::{AckMode, ConsumerKey, Return};
use session::{Delivery, Event, Sink};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::backlog::Lookup;

impl QueueState {
    pub(super) fn attach(
        &mut self,
        queue: &Queue,
        attach: Attach<'_>,
        wakes: &mut Wakes,
    ) -> Result<ConsumerKey, AttachRefused> {
        if self.deleted {
            return Err(AttachRefused::Gone);
        }
        let in_exclusive_use =
            self.consumers.is_exclusive() || (attach.exclusive && self.policy.is_single_active());
        if in_exclusive_use || (attach.exclusive && self.fifo.consumers().n_active() > 0) {
            return Err(AttachRefused::ExclusiveUse);
        }
        let key = self.fifo.consumers_mut().attach(attach.checkout);
        let mut room_bytes = 0;
        wakes.extend(attach.outbox.batch(&mut |sink: &mut dyn Sink| {
            sink.event(Event::Attached {
                channel: attach.channel,
                link: attach.link,
                consumer_tag: attach.consumer_tag,
                no_ack: attach.checkout.settling == AckMode::Auto,
                answer: attach.answer,
            });
            room_bytes = sink.room_bytes();
        }));
        let host = ConsumerChannel {
            connection: attach.connection,
            channel: attach.channel,
            link: attach.link,
            outbox: Arc::clone(attach.outbox),
            consumer_tag: attach.consumer_tag.clone(),
            checkout: attach.checkout,
            exclusive: attach.exclusive,
            arguments: attach.arguments,
            room: OutboxRoom::of(room_bytes),
            limit: attach.limit,
        };
        self.consumers.add(key, host);
        self.policy.touch(queue);
        self.leaving().look_at_time(queue);
        self.deliveries().dispatch(queue, wakes);
        Ok(key)
    }

    pub(super) fn attach_passive(&mut self, owner: Owner) -> Result<ConsumerKey, AttachRefused> {
        if self.deleted {
            return Err(AttachRefused::Gone);
        }
        let key = self.fifo.consumers_mut().attach_passive();
        self.consumers.add_owner(key, owner);
        Ok(key)
    }

    /// Takes a consumer away if it gets nothing any more and holds nothing.
    pub(super) fn detach_idle(&mut self, consumer: ConsumerKey) -> bool {
        let is_idle = self.fifo.consumers().get(consumer).map_or(0, queue::Consumer::n_held) == 0;
        if is_idle {
            self.fifo.detach(consumer, Return::Released, 0, &mut Vec::new());
            self.consumers.forget_owner(consumer);
        }
        is_idle
    }

    /// Adds up how many messages each channel holds.
    pub(super) fn count_held(&self, held: &mut BTreeMap<Owner, u64>) {
        for (consumer, owner) in self.consumers.owners() {
            match self.fifo.consumers().get(consumer).map_or(0, queue::Consumer::n_held) as u64 {
                0 => {}
                n => *held.entry(owner).or_default() += n,
            }
        }
    }

    pub(super) fn get(
        &mut self,
        queue: &Queue,
        consumer: ConsumerKey,
        get: &Get<'_>,
        wakes: &mut Wakes,
    ) -> Result<Got, AttachRefused> {
        if self.deleted {
            return Err(AttachRefused::Gone);
        }
        self.policy.touch(queue);
        self.leaving().look_at_time(queue);
        match self.deliveries().size_of_next() {
            None if self.fifo.messages().n_ready() > 0 => return Ok(Got::NotInMemory),
            Some(next)
                if !self.deliveries().fits(queue, &**get.outbox, next.properties_bytes, wakes) =>
            {
                return Ok(Got::Unfit);
            }
            None | Some(_) => {}
        }
        let wished = if get.no_ack { AckMode::Auto } else { AckMode::Manual };
        let Some(assigned) = self.fifo.take(consumer, wished) else {
            return Ok(Got::Nothing);
        };
        let is_held = assigned.settling == AckMode::Manual;
        if self.policy.notes_sizes {
            self.deliveries().note_sent(&assigned, None);
        }
        let n_ready = self.fifo.messages().n_ready();
        if let Lookup::Here(mut message) = self.content.backlog.get(assigned.position) {
            let counts =
                self.fifo.messages().policy().map_or_else(queue::DeliveryCounts::default, |it| {
                    it.returns().of(assigned.position)
                });
            let counted = with_counts(&message, counts).filter(|_| self.policy.counts_returns());
            if let Some(counted) = &counted {
                message.properties = counted;
            }
            let delivery = Delivery {
                position: position(assigned.position),
                redelivered: assigned.redelivered,
                message: &message,
                settled_by_write: get.no_ack && is_held,
            };
            wakes.extend(get.outbox.batch(&mut |sink: &mut dyn Sink| {
                sink.event(Event::Got {
                    channel: get.channel,
                    link: get.link,
                    delivery,
                    no_ack: get.no_ack,
                    n_ready,
                });
            }));
        }
        if queue.storage.host.is_traced()
            && let Lookup::Here(message) = self.content.backlog.get(assigned.position)
        {
            self.consumers.trace(queue, consumer, assigned.redelivered, &message);
        }
        queue.counters.n_delivered.fetch_add(1, Ordering::Relaxed);
        if is_held {
            self.content.durability.note_delivered(std::iter::once(assigned.position));
        }
        if !is_held {
            self.content.release(&queue.storage.pool, assigned.position);
            self.content.note_in_log(queue);
        }
        Ok(Got::Message)
    }

    pub(super) fn cancel(&mut self, queue: &Queue, consumer: ConsumerKey) -> AfterDetach {
        self.policy.touch(queue);
        self.record_held([consumer]);
        self.fifo.consumers_mut().cancel(consumer);
        // The outbox may still hold deliveries of it; the core keeps what is unsettled.
        self.consumers.remove(consumer);
        self.after_detach(&queue.def)
    }

    /// Takes a consumer away and gives back what it holds, of which there is a record.
    pub(super) fn detach(&mut self, queue: &Queue, consumer: ConsumerKey) -> AfterDetach {
        let now_ms = self.leaving().returned_ms(queue);
        let mut gone = Vec::new();
        self.watched.forget_all(consumer);
        let left = self.fifo.detach(consumer, Return::Failed, now_ms, &mut gone);
        self.consumers.remove(consumer);
        self.consumers.forget_owner(consumer);
        if left.was_active {
            self.policy.touch(queue);
        }
        if left.n_requeued > 0 {
            self.leaving().after_return(queue, &gone);
        }
        if left.was_active { self.after_detach(&queue.def) } else { AfterDetach::Stays }
    }

    /// Everything the consumer holds goes back, but for `kept`; it stays attached. There is a record
    /// of it.
    pub(super) fn requeue_all(
        &mut self,
        queue: &Queue,
        consumer: ConsumerKey,
        kept: &HashSet<u64>,
    ) {
        let now_ms = self.leaving().returned_ms(queue);
        let mut gone = Vec::new();
        self.watched.forget_all(consumer);
        self.fifo.give_back_all(consumer, kept, Return::Released, now_ms, &mut gone);
        self.leaving().after_return(queue, &gone);
    }

    fn after_detach(&mut self, def: &QueueDef) -> AfterDetach {
        let last = self.consumers.had_any() && self.fifo.consumers().n_active() == 0;
        if !(def.auto_delete && last) || self.deleted {
            return AfterDetach::Stays;
        }
        self.deleted = true;
        AfterDetach::DeleteQueue
    }

    pub(super) fn consumers(&self) -> Vec<ConsumerView> {
        let view = |(consumer, host): (ConsumerKey, &ConsumerChannel)| ConsumerView {
            connection: host.connection,
            channel: host.channel,
            consumer_tag: host.consumer_tag.clone(),
            ack_required: host.checkout.settling == AckMode::Manual,
            prefetch_count: host.checkout.prefetch.unwrap_or(0),
            exclusive: host.exclusive,
            arguments: host.arguments.clone(),
            activity: match self.fifo.consumers().single() {
                Some(single) if single.active() == Some(consumer) => Activity::SingleActive,
                Some(_) => Activity::Waiting,
                None => Activity::Up,
            },
        };
        self.consumers.iter().map(view).collect()
    }
}
