//! Where the messages of a session go: permission, route, and what is remembered of both.

use super::access::Access;
use super::client::Client;
use super::route_cache::{Remembered, Route, RouteBasis, RouteCache, Uncacheable};
use crate::connections::RouteTally;
use crate::publish::{Batch, n_durable};
use exchanges::{Admission, WatchedExchange};
use meta::{Name, QueueId, User};
use queues::QueueRef;
use routing::{Message, Passage, RouteOutcome};
use session::{ChannelId, Publish, TOPIC_EXCHANGE};
use smallvec::SmallVec;
use std::sync::Arc;

/// The routes of a client's messages.
pub(super) struct Router {
    routes: RouteCache,
    /// The route of one message that is not remembered; kept for the memory it has.
    pub(super) alone: Route,
    /// The exchange that the last such message was published to.
    alone_exchange: Vec<u8>,
    /// Where its channel, by its serial number, counts messages to that exchange with a route of their own.
    alone_tally: Option<(u64, Arc<RouteTally>)>,
    ids: Vec<QueueId>,
    /// Exchanges that are to remember the message that was routed last.
    pub(super) remembering: Vec<Arc<WatchedExchange>>,
    /// The last of the numbers that are left to chance.
    chance: u64,
    /// The user whose permissions the remembered routes were found with.
    user: Option<Arc<User>>,
}

impl Router {
    pub(super) fn new(chance: u64) -> Self {
        Self {
            routes: RouteCache::default(),
            alone: Route::default(),
            alone_exchange: Vec::new(),
            alone_tally: None,
            ids: Vec::new(),
            remembering: Vec::new(),
            chance,
            user: None,
        }
    }

    /// Looks at the definitions as they are now: routes that do not depend on what has changed are kept.
    pub(super) fn refresh(&mut self, access: &Access) {
        let view = &access.view;
        if self.routes.epoch() == view.version() {
            return;
        }
        let user = view.meta.users().shared(&access.connection.identity.user);
        let is_same = |known: &Arc<User>| user.is_some_and(|user| Arc::ptr_eq(user, known));
        if !self.user.as_ref().is_some_and(is_same) {
            self.routes.clear();
            self.user = user.cloned();
        }
        self.routes.enter_epoch(view.version());
    }

    #[inline]
    pub(super) fn remembered(&mut self, route: usize) -> Option<&mut Remembered> {
        self.routes.get_mut(route)
    }

    /// Whether messages on a remembered route that have headers may go elsewhere.
    pub(super) fn is_by_headers(&mut self, route: usize) -> bool {
        self.remembered(route).is_some_and(|it| it.route.by_headers)
    }

    /// The index of the route for an exchange and key, if messages have one in common.
    #[inline]
    pub(super) fn find_route(
        &mut self,
        access: &Access,
        exchange: &[u8],
        key: &[u8],
    ) -> Result<usize, Uncacheable> {
        let index = match self.routes.find_last(exchange, key) {
            Some(index) => index,
            None => self.find_other(access, exchange, key),
        };
        match self.routes.get_mut(index).and_then(|found| found.route.special.as_ref()) {
            None => Ok(index),
            Some(special) => Err(special.clone()),
        }
    }

    #[inline(never)]
    fn find_other(&mut self, access: &Access, exchange: &[u8], key: &[u8]) -> usize {
        let found = self.routes.find(exchange, key, |route| holds(route, access, exchange, key));
        found.unwrap_or_else(|| {
            let route = work_out_route(access, exchange, key);
            self.routes.remember(exchange, key, route)
        })
    }

    pub(super) fn seen_by_exchanges<'m>(
        &mut self,
        keys: &'m [&'m [u8]],
        properties: message::View<'m>,
    ) -> Message<'m> {
        let chance = self.chance();
        Message { properties: Some(properties), chance, ..Message::new(keys, None) }
    }

    /// Finds the queues of one message that may be published and has a route of its own: they are in
    /// `alone` then.
    pub(super) fn route_alone(
        &mut self,
        client: &mut Client,
        batch: &mut Batch,
        publish: &Publish,
        exchange: &[u8],
        message: &Message<'_>,
    ) {
        self.alone.queues.clear();
        let channel = publish.channel;
        let serial = client.channels.get(channel).map_or(0, |it| it.counters.serial);
        let is_same = self.alone_tally.as_ref().is_some_and(|(of, _)| *of == serial);
        if !is_same || self.alone_exchange != exchange {
            self.alone_tally = Some((serial, client.route_tally(channel, exchange, &[])));
            exchange.clone_into(&mut self.alone_exchange);
        }
        let (broker, view) = (&client.access.broker, &client.access.view);
        let container = client.access.container_id().map(str::as_bytes);
        let message = &Message { container, ..*message };
        let vhost = &client.access.connection.identity.vhost;
        let Some(routes) = view.meta.routes(vhost) else { return };
        let remembering = &mut self.remembering;
        let mut delaying: SmallVec<[QueueRef; 1]> = SmallVec::new();
        let mut absorbed = false;
        let now_ms = broker.now().unix_ms;
        let watch = |name: &Name| {
            let Some(met) = view.exchanges.get(vhost, name) else { return Passage::Open };
            if met.deduplicates() {
                batch.hold(&broker.exchanges);
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
                Admission::Delayed => match view.queue(vhost, &met.delayed_queue) {
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
        self.alone.queues.extend(self.ids.iter().filter_map(|id| view.queue_by_id(*id)));
        self.alone.queues.extend(delaying);
        let is_taken = |key| is_made_topic(&client.access, exchange, key);
        self.alone.absorbed = absorbed
            || self.alone.queues.is_empty() && message.keys.first().copied().is_some_and(is_taken);
        self.alone.n_durable = n_durable(&self.alone.queues);
        client.turn.note_routed(message.keys.len() + self.ids.len(), routed.n_steps);
        if routed.is_cut_short {
            tell_cut_short(client, channel, exchange);
        }
    }

    /// Counts the message that was routed last; `lost` as [`RouteTally::note`] has it.
    pub(super) fn count_alone(&self, lost: Option<bool>) {
        if let Some((_, tally)) = &self.alone_tally {
            tally.note_alone(self.alone.queues.len(), lost);
        }
    }

    /// Whether the message that was routed last is held back somewhere.
    pub(super) fn is_held_back(&self) -> bool {
        self.alone.queues.iter().any(|queue| queue.def().is_internal())
    }

    /// A number nobody can tell beforehand (splitmix64).
    const fn chance(&mut self) -> u64 {
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.chance ^ (self.chance >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Works out where messages with this key and no headers go, or why there is no saying.
fn work_out_route(access: &Access, exchange: &[u8], key: &[u8]) -> Route {
    let mut route = Route::default();
    let keys = [key];
    let container = access.container_id().map(str::as_bytes);
    let message = Message { container, ..Message::new(&keys, None) };
    if let Err(error) = access.check_publish(exchange, &keys) {
        route.special = Some(Uncacheable::Refused(error));
        return route;
    }
    let (mut ids, vhost) = (Vec::new(), &access.connection.identity.vhost);
    let Some(routes) = access.view.meta.routes(vhost) else { return route };
    let routed = routes.route_message(exchange, &message, |_| Passage::Open, &mut ids);
    match routed.outcome {
        RouteOutcome::Routed => {}
        RouteOutcome::RoutedByHeaders => route.by_headers = true,
        RouteOutcome::RoutedByMessage => {
            route.special = Some(Uncacheable::ByMessage);
            return route;
        }
        RouteOutcome::NoSuchExchange | RouteOutcome::Internal => return route,
    }
    if ids.is_empty() && is_made_topic(access, exchange, key) {
        route.special = Some(Uncacheable::ByMessage);
        return route;
    }
    route.queues.extend(ids.iter().filter_map(|id| access.view.queue_by_id(*id)));
    route.n_durable = n_durable(&route.queues);
    if routed.is_by_first && route.queues.len() == ids.len() {
        let version = routes.version(exchange).map(RouteBasis::Exchange);
        route.basis = version.unwrap_or(RouteBasis::QueueName);
    }
    route
}

/// Whether a topic that was made for a publisher takes messages without subscribers: while it has its queue.
fn is_made_topic(access: &Access, exchange: &[u8], key: &[u8]) -> bool {
    if exchange != TOPIC_EXCHANGE.as_bytes() {
        return false;
    }
    let view = &access.view;
    let routes = view.meta.routes(&access.connection.identity.vhost);
    let stands = routes.and_then(|routes| view.queue_by_id(routes.queue(key)?));
    stands.is_some_and(|queue| queue.def().exclusive_owner.is_some())
}

/// Whether a route still holds for the same user, though definitions have changed.
fn holds(route: &Route, access: &Access, exchange: &[u8], key: &[u8]) -> bool {
    let vhost = &access.connection.identity.vhost;
    let Some(routes) = access.view.meta.routes(vhost) else { return false };
    match &route.basis {
        RouteBasis::Epoch => false,
        RouteBasis::QueueName => routes.queue(key) == route.queues.first().map(|it| it.id()),
        RouteBasis::Exchange(version) => routes.version(exchange).as_ref() == Some(version),
    }
}

/// Says once for each channel that selectors were given up.
#[cold]
fn tell_cut_short(client: &mut Client, id: ChannelId, exchange: &[u8]) {
    let Some(channel) = client.channels.get_mut(id) else { return };
    if !std::mem::replace(&mut channel.told_of_selectors, true) {
        tracing::warn!(
            connection = %client.access.connection.identity.name,
            channel = id.0,
            exchange = %String::from_utf8_lossy(exchange),
            "binding selectors and federation hop lists exceed the step limit for a message: the rest do not \
             match it (logged once per channel)"
        );
    }
}
