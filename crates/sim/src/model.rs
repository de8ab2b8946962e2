//! The model of the broker, as naive as possible: every message of every queue in a map.
//!
//! The model does not predict who gets a message; it follows what clients are told and objects when
//! that cannot be. Everything here is as the broker shows it now; what of it is certain to survive
//! a crash stands beside it.

mod routes;

pub(crate) use routes::{Binding, Exchange, Kind, Target};

use session::{Outcome, Position};
use std::collections::{BTreeMap, BTreeSet};
use testing::outbox::{Content, Given};

/// One consumer or one channel's gets from one queue: connection and link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinkKey {
    pub(crate) client: usize,
    pub(crate) link: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) channel: u16,
    /// Queue name and generation.
    pub(crate) queue: (String, u64),
    pub(crate) tag: String,
    pub(crate) no_ack: bool,
    pub(crate) prefetch: usize,
    pub(crate) exclusive: bool,
    /// Still given deliveries.
    pub(crate) active: bool,
    pub(crate) n_held: usize,
    /// The newest message it was the first to get.
    pub(crate) newest: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Ready,
    Held(LinkKey, Position),
}

/// One queue's copy of a message.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) id: u64,
    pub(crate) place: Place,
    /// A client was given it.
    pub(crate) delivered: bool,
    /// A restart said how it will be marked.
    marked: Option<bool>,
    /// Whether the message is in the log, and synced.
    pub(crate) durable: bool,
    /// Kept for a `tx.commit` to settle.
    pub(crate) in_tx: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) generation: u64,
    pub(crate) durable: bool,
    pub(crate) auto_delete: bool,
    pub(crate) owner: Option<usize>,
    pub(crate) messages: BTreeMap<u64, Message>,
    /// Persistent ones that are gone since the log was last synced: a crash may bring them back.
    pub(crate) gone: BTreeMap<u64, Message>,
    next: u64,
    newest_delivered: Option<u64>,
}

/// The lifetime of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lasting {
    pub(crate) durable: bool,
    pub(crate) auto_delete: bool,
}

/// Something that is defined, with all its properties.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fact {
    Exchange(String, Exchange),
    Queue { name: String, lasting: Lasting, is_exclusive: bool },
    Binding(Binding),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) exchanges: BTreeMap<String, Exchange>,
    pub(crate) bindings: BTreeSet<Binding>,
    pub(crate) queues: BTreeMap<String, Queue>,
    pub(crate) links: BTreeMap<LinkKey, Link>,
    pub(crate) published: BTreeMap<u64, Content>,
    /// Messages of queues that were deleted since the log was last synced, by queue name.
    pub(crate) ghosts: BTreeMap<String, BTreeSet<u64>>,
    /// Definitions that changed since the log was last synced.
    pub(crate) touched: BTreeSet<Fact>,
    /// Consumers of deleted queues that are still to be told.
    pub(crate) to_be_told: BTreeSet<(usize, u16, String)>,
    /// Channels that are being closed: what they hold may be given to others at any moment.
    pub(crate) closing: BTreeSet<(usize, u16)>,
    generations: u64,
}

/// The violated rule, in words.
pub(crate) type Violation = String;

impl Model {
    pub(crate) fn new() -> Self {
        let mut model = Self::default();
        for (name, kind) in [
            ("amq.direct", Kind::Direct),
            ("amq.fanout", Kind::Fanout),
            ("amq.topic", Kind::Topic),
            ("amq.headers", Kind::Headers),
        ] {
            let exchange = Exchange {
                kind,
                durable: true,
                auto_delete: false,
                internal: false,
                predeclared: true,
                alternate: None,
            };
            model.exchanges.insert(name.to_owned(), exchange);
        }
        model
    }

    pub(crate) fn add_queue(&mut self, name: &str, lasting: Lasting, owner: Option<usize>) {
        self.generations += 1;
        let queue = Queue {
            generation: self.generations,
            durable: lasting.durable && owner.is_none(),
            auto_delete: lasting.auto_delete,
            owner,
            messages: BTreeMap::new(),
            gone: BTreeMap::new(),
            next: 0,
            newest_delivered: None,
        };
        self.queues.insert(name.to_owned(), queue);
    }

    /// Puts a message into queues.
    pub(crate) fn put_in(&mut self, id: u64, queues: &BTreeSet<String>) {
        for name in queues {
            let Some(queue) = self.queues.get_mut(name) else { continue };
            let message = Message {
                id,
                place: Place::Ready,
                delivered: false,
                marked: None,
                durable: false,
                in_tx: false,
            };
            queue.messages.insert(queue.next, message);
            queue.next += 1;
        }
    }

    /// A consumer or a channel's gets begin.
    pub(crate) fn attach(&mut self, key: LinkKey, link: Link) -> Result<(), Violation> {
        match self.links.insert(key, link) {
            None => Ok(()),
            Some(_) => Err("a link is used twice".to_owned()),
        }
    }

    /// A client was given a message.
    pub(crate) fn deliver(&mut self, client: usize, given: &Given) -> Result<(), Violation> {
        let key = LinkKey { client, link: given.link };
        let (name, generation) =
            &self.links.get(&key).ok_or("a delivery on an unknown link")?.queue.clone();
        let queue = self.queues.get_mut(name).filter(|queue| queue.generation == *generation);
        let queue = queue.ok_or("a delivery from a deleted queue")?;
        let id = given.content.id().ok_or("a delivery without a number")?;
        let content = self.published.get(&id).ok_or("a message nobody published")?;
        if *content != given.content {
            return Err(format!("m{id} came out as {:?}", given.content));
        }
        let closing = &self.closing;
        let links = &self.links;
        let free = |place: Place| match place {
            Place::Ready => true,
            Place::Held(holder, _) => links
                .get(&holder)
                .is_some_and(|link| closing.contains(&(holder.client, link.channel))),
        };
        let found = queue
            .messages
            .iter_mut()
            .find(|(_, message)| message.id == id && (free(message.place)));
        let (at, message) = found.ok_or_else(|| format!("m{id} is not ready in {name}"))?;
        let at = *at;
        let expected = message.marked.unwrap_or(message.delivered);
        if given.redelivered != expected {
            return Err(format!("m{id} of {name} should be marked {expected}"));
        }
        let first = !message.delivered;
        let before = message.place;
        message.delivered = true;
        message.marked = None;
        message.place = Place::Held(key, given.position);
        if first && !given.redelivered {
            queue.newest_delivered = queue.newest_delivered.max(Some(at));
        }
        if let Place::Held(holder, _) = before
            && let Some(holder) = self.links.get_mut(&holder)
        {
            holder.n_held -= 1;
        }
        let link = self.links.get_mut(&key).ok_or("a delivery on an unknown link")?;
        if first && !given.redelivered {
            if link.newest > Some(at) {
                return Err(format!("m{id} of {} came late", link.queue.0));
            }
            link.newest = Some(at);
        }
        link.n_held += 1;
        if link.active && link.prefetch > 0 && !link.no_ack && link.n_held > link.prefetch {
            return Err(format!("link {} holds {}, over its limit", key.link, link.n_held));
        }
        if link.no_ack {
            self.take_out(key, given.position);
        }
        Ok(())
    }

    /// A link and its queue, if that is the one it was made for.
    fn link_with_queue(&mut self, key: LinkKey) -> Option<(&mut Link, &mut Queue)> {
        let link = self.links.get_mut(&key)?;
        let queue = self.queues.get_mut(&link.queue.0)?;
        (queue.generation == link.queue.1).then_some((link, queue))
    }

    fn take_out(&mut self, key: LinkKey, position: Position) {
        let Some((link, queue)) = self.link_with_queue(key) else { return };
        let place = Place::Held(key, position);
        let found = queue.messages.iter().find(|(_, message)| message.place == place);
        let Some(at) = found.map(|(at, _)| *at) else { return };
        link.n_held -= 1;
        if let Some(message) = queue.messages.remove(&at)
            && queue.durable
        {
            queue.gone.insert(at, message);
        }
    }

    /// A client answers a delivery.
    pub(crate) fn settle(&mut self, key: LinkKey, position: Position, outcome: Outcome) {
        match outcome {
            Outcome::Accepted | Outcome::Rejected => self.take_out(key, position),
            Outcome::Modified | Outcome::Released => {
                self.give_back(key, |place| place == Place::Held(key, position));
            }
        }
    }

    fn give_back(&mut self, key: LinkKey, which: impl Fn(Place) -> bool) {
        let Some((link, queue)) = self.link_with_queue(key) else { return };
        for message in queue.messages.values_mut().filter(|message| which(message.place)) {
            message.place = Place::Ready;
            message.in_tx = false;
            link.n_held -= 1;
        }
    }

    /// Everything a link holds is ready again.
    pub(crate) fn give_all_back(&mut self, key: LinkKey) {
        self.give_back(key, |place| matches!(place, Place::Held(holder, _) if holder == key));
    }

    /// The links of a channel.
    pub(crate) fn links_of(&self, client: usize, channel: u16) -> Vec<LinkKey> {
        let of_channel =
            |(key, link): &(&LinkKey, &Link)| key.client == client && link.channel == channel;
        self.links.iter().filter(of_channel).map(|(key, _)| *key).collect()
    }

    /// A channel is gone with all it held.
    pub(crate) fn end_channel(&mut self, client: usize, channel: u16) {
        for key in self.links_of(client, channel) {
            self.give_all_back(key);
            self.end_consumer(key);
            self.links.remove(&key);
        }
        self.to_be_told.retain(|(of, at, _)| (*of, *at) != (client, channel));
    }

    /// A connection is gone.
    pub(crate) fn end_client(&mut self, client: usize) {
        let channels: BTreeSet<u16> = self
            .links
            .iter()
            .filter(|(key, _)| key.client == client)
            .map(|(_, link)| link.channel)
            .collect();
        for channel in channels {
            self.end_channel(client, channel);
        }
        let owned = self.queues.iter().filter(|(_, queue)| queue.owner == Some(client));
        let owned: Vec<String> = owned.map(|(name, _)| name.clone()).collect();
        for name in owned {
            self.delete_queue(&name);
        }
        self.to_be_told.retain(|(of, ..)| *of != client);
    }

    /// A consumer gets nothing any more; what it holds stays held.
    pub(crate) fn end_consumer(&mut self, key: LinkKey) {
        let Some(link) = self.links.get_mut(&key) else { return };
        if !std::mem::replace(&mut link.active, false) {
            return;
        }
        let (name, generation) = link.queue.clone();
        let Some(queue) = self.queues.get(&name) else { return };
        if queue.generation == generation && queue.auto_delete && self.n_consumers(&name) == 0 {
            self.delete_queue(&name);
        }
    }

    pub(crate) fn consumers<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = (LinkKey, &'a Link)> {
        let generation = self.queues.get(name).map(|queue| queue.generation);
        self.links
            .iter()
            .filter(move |(_, link)| {
                link.active && link.queue.0 == name && Some(link.queue.1) == generation
            })
            .map(|(key, link)| (*key, link))
    }

    pub(crate) fn n_consumers(&self, name: &str) -> u64 {
        self.consumers(name).count() as u64
    }

    /// Ready messages go.
    pub(crate) fn purge(&mut self, name: &str) {
        let Some(queue) = self.queues.get_mut(name) else { return };
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut queue.messages)
            .into_iter()
            .partition(|(_, message)| message.place != Place::Ready);
        queue.messages = kept;
        if queue.durable {
            queue.gone.extend(gone);
        }
    }

    pub(crate) fn delete_queue(&mut self, name: &str) {
        let told: Vec<_> = self
            .consumers(name)
            .map(|(key, link)| (key.client, link.channel, link.tag.clone()))
            .collect();
        self.to_be_told.extend(told);
        let Some(queue) = self.queues.remove(name) else { return };
        for link in self.links.values_mut() {
            if link.queue == (name.to_owned(), queue.generation) {
                link.active = false;
                link.n_held = 0;
            }
        }
        if queue.durable {
            let ghosts = self.ghosts.entry(name.to_owned()).or_default();
            ghosts.extend(queue.messages.values().chain(queue.gone.values()).map(|one| one.id));
        }
        let target = Target::Queue(name.to_owned());
        self.drop_bindings(|binding| binding.target == target);
    }

    pub(crate) fn delete_exchange(&mut self, name: &str) {
        if self.exchanges.remove(name).is_none() {
            return;
        }
        let target = Target::Exchange(name.to_owned());
        self.drop_bindings(|binding| binding.target == target || binding.source == name);
    }

    /// Takes bindings away, and auto-delete exchanges that lose their last one.
    pub(crate) fn drop_bindings(&mut self, which: impl Fn(&Binding) -> bool) {
        let (gone, kept): (BTreeSet<_>, BTreeSet<_>) =
            std::mem::take(&mut self.bindings).into_iter().partition(which);
        self.bindings = kept;
        for source in gone.into_iter().map(|binding| binding.source) {
            let used = self.bindings.iter().any(|binding| binding.source == source);
            let goes = self.exchanges.get(&source).is_some_and(|exchange| exchange.auto_delete);
            if goes && !used {
                self.delete_exchange(&source);
            }
        }
    }

    /// Ready messages of a queue, unacknowledged ones, and bytes of both.
    pub(crate) fn counts(&self, name: &str) -> (u64, u64, u64) {
        let Some(queue) = self.queues.get(name) else { return (0, 0, 0) };
        let mut counts = (0, 0, 0);
        for message in queue.messages.values() {
            match message.place {
                Place::Ready => counts.0 += 1,
                Place::Held(..) => counts.1 += 1,
            }
            counts.2 += self.published.get(&message.id).map_or(0, Content::size_bytes);
        }
        counts
    }

    /// Checks a queue's invariants between two operations.
    pub(crate) fn check_queue(
        &self,
        name: &str,
        waits_for_page: bool,
        is_full: impl Fn(LinkKey) -> bool,
    ) -> Result<(), Violation> {
        let Some(queue) = self.queues.get(name) else { return Ok(()) };
        let ready = || queue.messages.iter().filter(|(_, message)| message.place == Place::Ready);
        let fresh = ready().find(|(_, one)| !one.delivered && one.marked.is_none());
        if let Some((at, message)) = fresh
            && queue.newest_delivered > Some(*at)
        {
            return Err(format!("m{} of {name} was passed over", message.id));
        }
        if let Some((_, message)) = ready().next().filter(|_| !waits_for_page) {
            for (key, link) in self.consumers(name) {
                let credit = link.no_ack || link.prefetch == 0 || link.n_held < link.prefetch;
                if credit && !is_full(key) {
                    let id = message.id;
                    return Err(format!("m{id} waits in {name} while link {key:?} wants it"));
                }
            }
        }
        Ok(())
    }

    /// The durable definitions, or all of them.
    pub(crate) fn facts(&self, durable_only: bool) -> BTreeSet<Fact> {
        let mut facts = BTreeSet::new();
        let wanted = |durable: bool| durable || !durable_only;
        for (name, exchange) in &self.exchanges {
            if wanted(exchange.durable) && !exchange.predeclared {
                facts.insert(Fact::Exchange(name.clone(), exchange.clone()));
            }
        }
        for (name, queue) in &self.queues {
            if wanted(queue.durable) {
                let (durable, auto_delete) = (queue.durable, queue.auto_delete);
                let lasting = Lasting { durable, auto_delete };
                let (name, is_exclusive) = (name.clone(), queue.owner.is_some());
                facts.insert(Fact::Queue { name, lasting, is_exclusive });
            }
        }
        for binding in self.bindings.iter().filter(|binding| wanted(self.is_durable(binding))) {
            facts.insert(Fact::Binding(binding.clone()));
        }
        facts
    }

    fn is_durable(&self, binding: &Binding) -> bool {
        let exchange =
            |name: &String| self.exchanges.get(name).is_some_and(|exchange| exchange.durable);
        exchange(&binding.source)
            && match &binding.target {
                Target::Queue(name) => self.queues.get(name).is_some_and(|queue| queue.durable),
                Target::Exchange(name) => exchange(name),
            }
    }

    /// The log is synced: whatever is so now stays so.
    pub(crate) fn synced(&mut self) {
        self.touched.clear();
        self.ghosts.clear();
        for queue in self.queues.values_mut().filter(|queue| queue.durable) {
            queue.gone.clear();
            for message in queue.messages.values_mut() {
                let content = self.published.get(&message.id);
                message.durable |= content.is_some_and(|content| content.persistent);
            }
        }
    }

    /// The broker says that a message is durable: in these queues it must be so from now on.
    pub(crate) fn believe(&mut self, id: u64, queues: &BTreeSet<String>) {
        let persistent = self.published.get(&id).is_some_and(|content| content.persistent);
        for (name, queue) in &mut self.queues {
            if !(persistent && queue.durable && queues.contains(name)) {
                continue;
            }
            for message in queue.messages.values_mut().filter(|message| message.id == id) {
                message.durable = true;
            }
        }
    }

    /// Whether every copy of a message that should be in the log is synced.
    pub(crate) fn is_synced(&self, id: u64) -> bool {
        let persistent = self.published.get(&id).is_some_and(|content| content.persistent);
        let durable = self.queues.values().filter(|queue| queue.durable);
        let mut copies = durable.flat_map(|queue| queue.messages.values());
        !persistent || copies.all(|copy| copy.id != id || copy.durable)
    }
}

impl Link {
    pub(crate) const fn new(channel: u16, queue: (String, u64), tag: String) -> Self {
        Self {
            channel,
            queue,
            tag,
            no_ack: false,
            prefetch: 0,
            exclusive: false,
            active: false,
            n_held: 0,
            newest: None,
        }
    }
}

/// The messages of a queue after a restart, each with its mark, in order.
pub(crate) type Found = Vec<(u64, bool)>;

impl Model {
    /// The node has restarted. `clean`: it had been stopped in good order.
    pub(crate) fn restart(
        &mut self,
        clean: bool,
        facts: &BTreeSet<Fact>,
        found: &BTreeMap<String, Found>,
    ) -> Result<(), Violation> {
        let expected = self.facts(true);
        for fact in expected.symmetric_difference(facts) {
            if !self.touched.contains(fact) {
                let lost = if expected.contains(fact) { "lost" } else { "back" };
                return Err(format!("{lost} by the restart: {fact:?}"));
            }
        }
        let mut next = Self::new();
        next.generations = self.generations;
        next.take_facts(facts);
        for (name, found) in found {
            let queue = next.queues.get_mut(name).ok_or("messages without a queue")?;
            let before = self.queues.get(name).filter(|queue| queue.durable);
            let none = BTreeSet::new();
            let ghosts = self.ghosts.get(name).unwrap_or(&none);
            queue.messages = survivors(name, before, ghosts, clean, found)?;
            queue.next = queue.messages.last_key_value().map_or(0, |(at, _)| at + 1);
            for message in queue.messages.values() {
                let content = self.published.get(&message.id).ok_or("a phantom")?;
                if !content.persistent {
                    return Err(format!("transient m{} survived in {name}", message.id));
                }
            }
        }
        next.published = std::mem::take(&mut self.published);
        *self = next;
        Ok(())
    }

    fn take_facts(&mut self, facts: &BTreeSet<Fact>) {
        for fact in facts.iter().cloned() {
            match fact {
                Fact::Exchange(name, exchange) => drop(self.exchanges.insert(name, exchange)),
                Fact::Queue { name, lasting, .. } => self.add_queue(&name, lasting, None),
                Fact::Binding(binding) => drop(self.bindings.insert(binding)),
            }
        }
    }
}

/// The messages of a queue after a restart, if they are allowed to be there.
fn survivors(
    name: &str,
    before: Option<&Queue>,
    ghosts: &BTreeSet<u64>,
    clean: bool,
    found: &Found,
) -> Result<BTreeMap<u64, Message>, Violation> {
    let mut survivors = BTreeMap::new();
    let mut newest = None;
    for (n, (id, marked)) in (0_u64..).zip(found) {
        let known = before.and_then(|queue| {
            let all = || queue.messages.iter().chain(&queue.gone);
            all().find(|(_, message)| message.id == *id)
        });
        let delivered = match known {
            Some((at, message)) => {
                if newest > Some(*at) {
                    return Err(format!("m{id} of {name} lost its place"));
                }
                newest = Some(*at);
                message.marked.unwrap_or(message.delivered)
            }
            None if ghosts.contains(id) => false,
            None => return Err(format!("m{id} came back to {name} or was never there")),
        };
        if (delivered && !marked) || (clean && delivered != *marked) {
            return Err(format!("m{id} of {name} is marked {marked} after the restart"));
        }
        let message = Message {
            id: *id,
            place: Place::Ready,
            delivered: false,
            marked: Some(*marked),
            durable: true,
            in_tx: false,
        };
        survivors.insert(n, message);
    }
    let must = before.map(|queue| queue.messages.values()).into_iter().flatten();
    for message in must.filter(|message| message.durable) {
        if !found.iter().any(|(id, _)| *id == message.id) {
            return Err(format!("m{} of {name} is lost", message.id));
        }
    }
    Ok(survivors)
}

impl Model {
    /// The message a get must give.
    pub(crate) fn first_ready(&self, name: &str) -> Option<u64> {
        let messages = &self.queues.get(name)?.messages;
        messages.values().find(|message| message.place == Place::Ready).map(|message| message.id)
    }
}

impl Model {
    /// A held message's settlement waits for a commit, or not any more.
    pub(crate) fn note_in_tx(&mut self, key: LinkKey, position: Position, in_tx: bool) {
        let messages = self.queues.values_mut().flat_map(|queue| queue.messages.values_mut());
        for message in messages.filter(|one| one.place == Place::Held(key, position)) {
            message.in_tx = in_tx;
        }
    }
}
