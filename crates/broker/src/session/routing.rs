//! Where the messages of a session go: permission, route, and what is remembered of both.

use super::route_cache::{Route, Uncacheable};
use super::{Session, publish};
use crate::exchanges::Admission;
use crate::queue::Queue;
use meta::{ExchangeKind, Name, Permission, Resource};
use routing::{Message, Passage, RouteOutcome};
use session::{ChannelId, Error, ErrorKind};
use smallvec::SmallVec;
use std::sync::Arc;

impl Session {
    /// The index of the route for an exchange and key, if messages have one in common.
    pub(super) fn find_route(&mut self, exchange: &[u8], key: &[u8]) -> Result<usize, Uncacheable> {
        let index = if let Some(index) = self.routes.find(exchange, key) {
            index
        } else {
            let route = self.work_out_route(exchange, key);
            self.routes.remember(exchange, key, route)
        };
        match self.routes.get_mut(index).and_then(|found| found.route.special.as_ref()) {
            None => Ok(index),
            Some(special) => Err(special.clone()),
        }
    }

    /// Works out where messages with this key and no headers go, or why there is no saying.
    fn work_out_route(&self, exchange: &[u8], key: &[u8]) -> Route {
        let mut route = Route::default();
        let keys = [key];
        let message = Message::new(&keys, None);
        if let Err(error) = self.check_publish(exchange, &keys) {
            route.special = Some(Uncacheable::Refused(error));
            return route;
        }
        let (mut ids, vhost) = (Vec::new(), &self.connection.identity.vhost);
        let Some(routes) = self.view.meta.routes(vhost) else { return route };
        match routes.route_message(exchange, &message, |_| Passage::Open, &mut ids).outcome {
            RouteOutcome::Routed => {}
            RouteOutcome::RoutedByHeaders => route.by_headers = true,
            RouteOutcome::RoutedByMessage => {
                route.special = Some(Uncacheable::ByMessage);
                return route;
            }
            RouteOutcome::NoSuchExchange | RouteOutcome::Internal => return route,
        }
        route.queues.extend(ids.iter().filter_map(|id| self.view.queue_by_id(*id)));
        route.n_durable = publish::n_durable(&route.queues);
        route
    }

    /// Whether the client may publish there with these keys.
    pub(super) fn check_publish(&self, exchange: &[u8], keys: &[&[u8]]) -> Result<(), Error> {
        let (name, vhost) = (Name::from(&*String::from_utf8_lossy(exchange)), self.vhost());
        self.require_on_exchange(Permission::Write, &name)?;
        let Some(found) = self.view.meta.exchange(&vhost, &name) else {
            let text = format!("no {}", Resource::exchange(&vhost, &name));
            return Err(Error::new(ErrorKind::NotFound, text));
        };
        if found.internal {
            let resource = Resource::exchange(&vhost, &name);
            let text = format!("cannot publish to internal {resource}");
            return Err(Error::new(ErrorKind::AccessRefused, text));
        }
        if found.kind == ExchangeKind::Topic {
            for key in keys {
                self.require_topic(Permission::Write, &name, key)?;
            }
        }
        Ok(())
    }

    /// Finds the queues of one message that may be published and has a route of its own: they are in
    /// `alone` then.
    pub(super) fn route_alone(
        &mut self,
        channel: ChannelId,
        exchange: &[u8],
        message: &Message<'_>,
    ) {
        self.alone.queues.clear();
        let Some(routes) = self.view.meta.routes(&self.connection.identity.vhost) else { return };
        let (watched, remembering) = (&self.view.exchanges, &mut self.remembering);
        let (batch, exchanges) = (&mut self.batch, &self.broker.exchanges);
        let mut delaying: SmallVec<[Arc<Queue>; 1]> = SmallVec::new();
        let mut absorbed = false;
        let now_ms = self.broker.now().unix_ms;
        let watch = |name: &Name| {
            let vhost = &self.connection.identity.vhost;
            let Some(met) = watched.get(vhost, name) else { return Passage::Open };
            if met.deduplicates() {
                batch.hold(exchanges);
            }
            match met.fate(message, now_ms) {
                Admission::GoesOn => {
                    if met.remembers(message) {
                        remembering.push(Arc::clone(met));
                    }
                    Passage::Open
                }
                Admission::Dropped => {
                    absorbed = true;
                    Passage::Closed
                }
                Admission::Delayed => match self.view.queue(vhost, met.delayed_queue()) {
                    Some(queue) => {
                        absorbed = true;
                        delaying.push(queue);
                        Passage::Closed
                    }
                    // A policy that has just come has no queue yet.
                    None => Passage::Open,
                },
            }
        };
        let routed = routes.route_message(exchange, message, watch, &mut self.ids);
        self.alone.queues.extend(self.ids.iter().filter_map(|id| self.view.queue_by_id(*id)));
        self.alone.queues.extend(delaying);
        self.alone.absorbed = absorbed;
        self.alone.n_durable = publish::n_durable(&self.alone.queues);
        self.pace.note_routed(message.keys.len() + self.ids.len(), routed.n_steps);
        if routed.is_cut_short {
            self.tell_cut_short(channel, exchange);
        }
    }

    /// Says once for each channel that selectors were given up.
    #[cold]
    fn tell_cut_short(&mut self, id: ChannelId, exchange: &[u8]) {
        let Some(channel) = self.channels.get_mut(id) else { return };
        if !std::mem::replace(&mut channel.told_of_selectors, true) {
            tracing::warn!(
                connection = %self.connection.identity.name,
                channel = id.0,
                exchange = %String::from_utf8_lossy(exchange),
                "the selectors of the bindings take too many steps for a message: those that were \
                 left do not match it (said once for a channel)"
            );
        }
    }

    /// Whether the message that was routed last is held back somewhere.
    pub(super) fn is_held_back(&self) -> bool {
        self.alone.queues.iter().any(|queue| queue.def().is_internal())
    }

    /// A number nobody can tell beforehand (splitmix64).
    pub(super) const fn chance(&mut self) -> u64 {
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.chance ^ (self.chance >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
