//! Those who take messages: consumers and `get`, as they come and go.

use super::consumer_channel::ConsumerChannel;
use super::policy::with_counts;
use super::state::{Assignment, Attach, Owner, QueueState};
use super::{Activity, AfterDetach, AttachRefused, ConsumerView, Get, Got, Queue, Wakes, position};
use meta::QueueDef;
use queue::{AckMode, ConsumerKey, Return};
use session::{Delivery, Event, Sink};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
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
            self.n_exclusive > 0 || (attach.exclusive && self.is_single_active());
        if in_exclusive_use || (attach.exclusive && self.fifo.n_consumers() > 0) {
            return Err(AttachRefused::ExclusiveUse);
        }
        let key = self.fifo.attach(attach.checkout);
        let mut room_bytes = 0;
        wakes.extend(attach.outbox.batch(&mut |sink: &mut dyn Sink| {
            sink.event(Event::Consuming {
                channel: attach.channel,
                link: attach.link,
                consumer_tag: attach.consumer_tag,
                no_ack: attach.checkout.settling == AckMode::Auto,
                answer: attach.answer,
            });
            room_bytes = sink.room_bytes();
        }));
        let mut host = ConsumerChannel {
            connection: attach.connection,
            channel: attach.channel,
            link: attach.link,
            outbox: Arc::clone(attach.outbox),
            consumer_tag: attach.consumer_tag.clone(),
            checkout: attach.checkout,
            exclusive: attach.exclusive,
            arguments: attach.arguments,
            room_bytes: 0,
            held_back: false,
            limit: attach.limit,
        };
        host.set_room(room_bytes);
        self.n_limited += usize::from(host.limit.is_some());
        self.n_exclusive += usize::from(host.exclusive);
        put_at(&mut self.owners, key, (attach.connection, attach.channel));
        put_at(&mut self.hosts, key, host);
        self.had_consumer = true;
        self.touch(queue);
        self.look_at_time(queue);
        self.dispatch(queue, wakes);
        Ok(key)
    }

    pub(super) fn attach_passive(&mut self, owner: Owner) -> Result<ConsumerKey, AttachRefused> {
        if self.deleted {
            return Err(AttachRefused::Gone);
        }
        let key = self.fifo.attach_passive();
        put_at(&mut self.owners, key, owner);
        Ok(key)
    }

    /// Takes a consumer away if it gets nothing any more and holds nothing.
    pub(super) fn detach_idle(&mut self, consumer: ConsumerKey) -> bool {
        let is_idle = self.fifo.n_held_by(consumer) == 0;
        if is_idle {
            self.fifo.detach(consumer);
            self.forget_owner(consumer);
        }
        is_idle
    }

    fn forget_owner(&mut self, consumer: ConsumerKey) {
        if let Some(place) = self.owners.get_mut(consumer.0 as usize) {
            *place = None;
        }
    }

    /// Adds up how many messages each channel holds.
    pub(super) fn count_held(&self, held: &mut BTreeMap<Owner, u64>) {
        for (slot, owner) in self.owners.iter().enumerate() {
            let (Some(owner), Ok(slot)) = (owner, u32::try_from(slot)) else { continue };
            match self.fifo.n_held_by(ConsumerKey(slot)) as u64 {
                0 => {}
                n => *held.entry(*owner).or_default() += n,
            }
        }
    }

    pub(super) fn get(
        &mut self,
        queue: &Queue,
        get: &Get<'_>,
        wakes: &mut Wakes,
    ) -> Result<Got, AttachRefused> {
        if self.deleted {
            return Err(AttachRefused::Gone);
        }
        self.touch(queue);
        self.look_at_time(queue);
        match self.size_of_next() {
            None if self.fifo.n_ready() > 0 => return Ok(Got::NotInMemory),
            Some(next) if !self.fits(queue, &**get.outbox, next.properties_bytes, wakes) => {
                return Ok(Got::Unfit);
            }
            None | Some(_) => {}
        }
        let wished = if get.no_ack { AckMode::Auto } else { AckMode::Manual };
        let Some(assigned) = self.fifo.take(get.consumer, wished) else {
            return Ok(Got::Nothing);
        };
        let is_held = assigned.settling == AckMode::Manual;
        if self.notes_sizes {
            self.note_sent(&assigned, None);
        }
        let n_ready = self.fifo.n_ready();
        if let Lookup::Here(mut message) = self.backlog.get(assigned.position) {
            let counts = self.fifo.return_counts(assigned.position);
            let counted = with_counts(&message, counts).filter(|_| self.counts_returns());
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
        if queue.storage.rules.tracing().is_any()
            && let Lookup::Here(message) = self.backlog.get(assigned.position)
        {
            self.trace(queue, get.consumer, assigned.redelivered, &message);
        }
        self.count_deliveries(queue, &[Assignment { assigned, incoming: None }]);
        if is_held {
            self.keeping.note_delivered(std::iter::once(assigned.position));
        }
        if !is_held {
            self.release(&queue.storage.pool, assigned.position);
            self.note_in_log(queue);
        }
        Ok(Got::Message)
    }

    pub(super) fn cancel(&mut self, queue: &Queue, consumer: ConsumerKey) -> AfterDetach {
        self.touch(queue);
        self.record_held([consumer]);
        self.fifo.cancel(consumer);
        // The outbox may still hold deliveries of it; the core keeps what is unsettled.
        self.drop_host(consumer);
        self.after_detach(&queue.def)
    }

    /// Takes a consumer away and gives back what it holds, of which there is a record.
    pub(super) fn detach(&mut self, queue: &Queue, consumer: ConsumerKey) -> AfterDetach {
        let now_ms = self.returned_ms(queue);
        let mut gone = Vec::new();
        self.watched.forget_all(consumer);
        let left = self.fifo.detach_returning(consumer, Return::Failed, now_ms, &mut gone);
        self.drop_host(consumer);
        self.forget_owner(consumer);
        if left.was_active {
            self.touch(queue);
        }
        if left.n_requeued > 0 {
            self.after_return(queue, &gone);
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
        let now_ms = self.returned_ms(queue);
        let mut gone = Vec::new();
        self.watched.forget_all(consumer);
        self.fifo.give_back_all(consumer, kept, Return::Released, now_ms, &mut gone);
        self.after_return(queue, &gone);
    }

    fn drop_host(&mut self, consumer: ConsumerKey) {
        let place = self.hosts.get_mut(consumer.0 as usize);
        let Some(left) = place.and_then(Option::take) else { return };
        self.n_limited -= usize::from(left.limit.is_some());
        self.n_exclusive -= usize::from(left.exclusive);
    }

    fn after_detach(&mut self, def: &QueueDef) -> AfterDetach {
        let last = self.had_consumer && self.fifo.n_consumers() == 0;
        if !(def.auto_delete && last) || self.deleted {
            return AfterDetach::Stays;
        }
        self.deleted = true;
        AfterDetach::DeleteQueue
    }

    pub(super) fn consumers(&self) -> Vec<ConsumerView> {
        let view = |(slot, host): (u32, &ConsumerChannel)| ConsumerView {
            connection: host.connection,
            channel: host.channel,
            consumer_tag: host.consumer_tag.clone(),
            ack_required: host.checkout.settling == AckMode::Manual,
            prefetch_count: host.checkout.prefetch.unwrap_or(0),
            exclusive: host.exclusive,
            arguments: host.arguments.clone(),
            activity: match self.fifo.single_active() {
                _ if !self.fifo.is_active(ConsumerKey(slot)) => Activity::Waiting,
                Some(_) => Activity::SingleActive,
                None => Activity::Up,
            },
        };
        let hosts = (0..).zip(&self.hosts).filter_map(|(slot, host)| Some((slot, host.as_ref()?)));
        hosts.map(view).collect()
    }
}

fn put_at<T>(places: &mut Vec<Option<T>>, consumer: ConsumerKey, value: T) {
    let slot = consumer.0 as usize;
    if places.len() <= slot {
        places.resize_with(slot + 1, || None);
    }
    if let Some(place) = places.get_mut(slot) {
        *place = Some(value);
    }
}
