//! Declaring, binding, deleting.

use super::{EXCHANGES, PlainQueues, QUEUES, SOURCES, SPREAD_SOURCE};
use crate::client::{Doing, Expect, short};
use crate::model::{Binding, Exchange, Fact, Kind, Lasting, Target};
use session::{
    ErrorKind, ExchangeBinding, ExchangeDeclaration, Flag, Op, QueueBinding, QueueDeclaration,
    Table,
};
use std::collections::BTreeSet;

/// Keys of bindings, for every kind of exchange.
const BINDING_KEYS: &[&str] = &["a", "a.b", "a.*", "#", "*.b", "a.#"];

/// The queues bound to `SPREAD_SOURCE`, where much is spread.
const SPREAD_QUEUES: &[&str] = &["q0", "q1", "q2"];

/// The properties of a declaration.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are the protocol's")]
struct Declaring {
    durable: bool,
    auto_delete: bool,
    exclusive: bool,
    passive: bool,
}

/// Exchanges that get what others have no binding for; one of them is never there.
const ALTERNATES: &[&str] = &["x0", "x1", "x2", "amq.fanout", "amq.headers", "missing"];

impl PlainQueues {
    pub(in crate::plain_queues) fn declare_queue(&mut self, client: usize, channel: u16) {
        let queue = self.harness.random.pick(QUEUES).to_owned();
        let (durable, auto_delete) =
            (self.harness.random.percent(65), self.harness.random.percent(20));
        let (exclusive, passive) =
            (self.harness.random.percent(10), self.harness.random.percent(10));
        let how = Declaring { durable, auto_delete, exclusive, passive };
        self.declare_queue_as(client, channel, queue, how);
    }

    /// Sees to it that several durable queues get what is published to one exchange, step by step;
    /// false if they do.
    pub(super) fn spread(&mut self, client: usize, channel: u16) -> bool {
        for queue in SPREAD_QUEUES.iter().map(|queue| (*queue).to_owned()) {
            let binding = Binding {
                source: SPREAD_SOURCE.to_owned(),
                target: Target::Queue(queue.clone()),
                key: "a".to_owned(),
                header: None,
            };
            if !self.model.queues.contains_key(&queue) {
                let how = Declaring { durable: true, ..Declaring::default() };
                self.declare_queue_as(client, channel, queue, how);
                return true;
            }
            if !self.model.bindings.contains(&binding) && self.access(client, &queue).is_ok() {
                self.bind_as(client, channel, binding);
                return true;
            }
        }
        false
    }

    fn declare_queue_as(&mut self, client: usize, channel: u16, queue: String, how: Declaring) {
        let Declaring { durable, auto_delete, exclusive, passive } = how;
        let owner = exclusive.then_some(client);
        let refused = match self.model.queues.get(&queue) {
            None => passive.then_some(ErrorKind::NotFound),
            Some(_) if passive => self.access(client, &queue).err(),
            Some(known) if known.owner != owner => Some(ErrorKind::ResourceLocked),
            Some(known) => {
                let same = known.durable == (durable && !exclusive);
                let same = same && known.auto_delete == auto_delete;
                (!same).then_some(ErrorKind::PreconditionFailed)
            }
        };
        let before = self.model.facts(true);
        if refused.is_none() && !self.model.queues.contains_key(&queue) {
            self.model.add_queue(&queue, Lasting { durable, auto_delete }, owner);
        }
        let expect = match refused {
            Some(kind) => Expect::ChannelFails(kind),
            None => Expect::Declared { queue: queue.clone(), n_ready: 0, n_consumers: 0 },
        };
        let op = Op::DeclareQueue(QueueDeclaration {
            queue: short(&queue),
            passive,
            durable,
            exclusive,
            auto_delete,
            arguments: Table::default(),
        });
        self.define((client, channel), op, expect, &before);
    }

    pub(super) fn declare_exchange(&mut self, client: usize, channel: u16) {
        let name = self.harness.random.pick(EXCHANGES);
        let exchange = Exchange {
            kind: self.harness.random.choose(&Kind::ALL).unwrap_or(Kind::Fanout),
            durable: self.harness.random.percent(65),
            auto_delete: self.harness.random.percent(30),
            internal: self.harness.random.percent(10),
            predeclared: false,
            alternate: self
                .harness
                .random
                .percent(40)
                .then(|| self.harness.random.pick(ALTERNATES).to_owned()),
        };
        let mut arguments = Table::default();
        if let Some(alternate) = &exchange.alternate {
            arguments.push(short("alternate-exchange"), alternate.as_str());
        }
        let before = self.model.facts(true);
        let expect = match self.model.exchanges.get(name) {
            None => {
                self.model.exchanges.insert(name.to_owned(), exchange.clone());
                Expect::Done
            }
            Some(known) if *known == exchange => Expect::Done,
            Some(_) => Expect::ChannelFails(ErrorKind::PreconditionFailed),
        };
        let op = Op::DeclareExchange(ExchangeDeclaration {
            exchange: short(name),
            kind: short(exchange.kind.name()),
            passive: false,
            durable: exchange.durable,
            auto_delete: exchange.auto_delete,
            internal: exchange.internal,
            arguments,
        });
        self.define((client, channel), op, expect, &before);
    }

    /// Asks for what the model has of definitions already; `before` it had these durable ones.
    fn define(
        &mut self,
        (client, channel): (usize, u16),
        op: Op,
        expect: Expect,
        before: &BTreeSet<Fact>,
    ) {
        let durable = *before != self.model.facts(true);
        self.touch(before);
        self.control_doing(client, op, Doing { channel, expect, durable, ..Doing::default() });
    }

    pub(super) fn bind(&mut self, client: usize, channel: u16) {
        let source = self.harness.random.pick(SOURCES).to_owned();
        let to_queue = self.harness.random.percent(75);
        let target = if to_queue {
            Target::Queue(self.harness.random.pick(QUEUES).to_owned())
        } else {
            Target::Exchange(self.harness.random.pick(EXCHANGES).to_owned())
        };
        let headers =
            self.model.exchanges.get(&source).is_some_and(|one| one.kind == Kind::Headers);
        let header = (headers && self.harness.random.percent(80))
            .then(|| self.harness.random.pick(&["1", "2"]).to_owned());
        let key = self.harness.random.pick(BINDING_KEYS).to_owned();
        self.bind_as(client, channel, Binding { source, target, key, header });
    }

    fn bind_as(&mut self, client: usize, channel: u16, binding: Binding) {
        let refused = match &binding.target {
            _ if !self.model.exchanges.contains_key(&binding.source) => Some(ErrorKind::NotFound),
            Target::Queue(queue) => self.access(client, queue).err(),
            Target::Exchange(name) if self.model.exchanges.contains_key(name) => None,
            Target::Exchange(_) => Some(ErrorKind::NotFound),
        };
        let before = self.model.facts(true);
        let op = bind_op(&binding, Change::Bind);
        let expect = match refused {
            Some(kind) => Expect::ChannelFails(kind),
            None => {
                self.model.bindings.insert(binding);
                Expect::Done
            }
        };
        self.define((client, channel), op, expect, &before);
    }

    pub(super) fn unbind(&mut self, client: usize, channel: u16) {
        let bindings: Vec<Binding> = self.model.bindings.iter().cloned().collect();
        let Some(binding) = self.harness.random.choose(&bindings) else { return };
        let refused = match &binding.target {
            Target::Queue(queue) => self.access(client, queue).err(),
            Target::Exchange(_) => None,
        };
        let before = self.model.facts(true);
        let expect = match refused {
            Some(kind) => Expect::ChannelFails(kind),
            None => {
                self.model.drop_bindings(|one| *one == binding);
                Expect::Done
            }
        };
        let op = bind_op(&binding, Change::Unbind);
        self.define((client, channel), op, expect, &before);
    }

    pub(super) fn purge(&mut self, client: usize, channel: u16) {
        let queue = self.harness.random.pick(QUEUES);
        self.purge_queue(client, channel, queue);
    }

    pub(super) fn purge_deepest(&mut self, client: usize, channel: u16) {
        let deepest = QUEUES.iter().max_by_key(|queue| self.model.counts(queue).0);
        let Some(queue) = deepest.filter(|queue| self.access(client, queue).is_ok()) else {
            return;
        };
        self.purge_queue(client, channel, queue);
    }

    fn purge_queue(&mut self, client: usize, channel: u16, queue: &str) {
        let expect = match self.access(client, queue) {
            Err(kind) => Expect::ChannelFails(kind),
            Ok(()) => {
                let n_ready = self.model.counts(queue).0;
                self.model.purge(queue);
                Expect::Purged(n_ready)
            }
        };
        self.control(client, channel, Op::PurgeQueue { queue: short(queue) }, expect);
    }

    pub(super) fn delete_queue(&mut self, client: usize, channel: u16) {
        self.finish_declarations();
        if !self.is_open(client, channel) {
            return;
        }
        let queue = self.harness.random.pick(QUEUES);
        let (if_unused, if_empty) =
            (self.harness.random.percent(30), self.harness.random.percent(30));
        let before = self.model.facts(true);
        let n_ready = self.model.counts(queue).0;
        let in_use = if_unused && self.model.n_consumers(queue) > 0;
        let expect = match self.access(client, queue) {
            Err(ErrorKind::ResourceLocked) => Expect::ChannelFails(ErrorKind::ResourceLocked),
            Err(_) => Expect::Deleted(0),
            Ok(()) if in_use || (if_empty && n_ready > 0) => {
                Expect::ChannelFails(ErrorKind::PreconditionFailed)
            }
            Ok(()) => {
                self.model.delete_queue(queue);
                Expect::Deleted(n_ready)
            }
        };
        let op = Op::DeleteQueue {
            queue: short(queue),
            if_unused: Flag::from_bool(if_unused),
            if_empty: Flag::from_bool(if_empty),
        };
        self.define((client, channel), op, expect, &before);
    }

    pub(super) fn delete_exchange(&mut self, client: usize, channel: u16) {
        let exchange = self.harness.random.pick(EXCHANGES);
        let if_unused = self.harness.random.percent(50);
        let before = self.model.facts(true);
        let used = self.model.bindings.iter().any(|binding| binding.source == exchange);
        let exists = self.model.exchanges.contains_key(exchange);
        let expect = if exists && if_unused && used {
            Expect::ChannelFails(ErrorKind::PreconditionFailed)
        } else {
            self.model.delete_exchange(exchange);
            Expect::Done
        };
        let op = Op::DeleteExchange { exchange: short(exchange), if_unused };
        self.define((client, channel), op, expect, &before);
    }
}

#[derive(Clone, Copy)]
enum Change {
    Bind,
    Unbind,
}

fn bind_op(binding: &Binding, change: Change) -> Op {
    let mut arguments = Table::default();
    if let Some(header) = &binding.header {
        arguments.push(short("h"), header.as_str());
    }
    let (routing_key, source) = (short(&binding.key), short(&binding.source));
    match &binding.target {
        Target::Queue(queue) => {
            let binding =
                QueueBinding { queue: short(queue), exchange: source, routing_key, arguments };
            match change {
                Change::Bind => Op::BindQueue(binding),
                Change::Unbind => Op::UnbindQueue(binding),
            }
        }
        Target::Exchange(exchange) => {
            let destination = short(exchange);
            let binding = ExchangeBinding { destination, source, routing_key, arguments };
            match change {
                Change::Bind => Op::BindExchange(binding),
                Change::Unbind => Op::UnbindExchange(binding),
            }
        }
    }
}
