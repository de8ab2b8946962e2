//! Exchange, queues and bindings, and who uses which of them.

use std::collections::BTreeSet;

use amqp091::method::{
    ChannelCloseOk, ExchangeDeclare, ExchangeDeclareOk, QueueBind, QueueBindOk, QueueDeclare,
    QueueDeclareOk,
};
use amqp091::{Method, TableRef};
use anyhow::{Context as _, bail};

use crate::config::{Config, Queues, Topology};
use crate::message::Random;
use client::{Client, Closed};

/// The channel for declarations.
const CHANNEL: u16 = 1;
/// The channel for questions whose answer may be that the channel is closed.
const PROBE_CHANNEL: u16 = 2;

/// A queue of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    /// Empty until the broker has named it.
    pub(crate) name: String,
    /// Its binding key.
    pub(crate) key: String,
    /// The broker names it, anew each time it is declared.
    pub(crate) is_unnamed: bool,
}

/// The assignment of publishers and consumers to queues. Both go by their numbers: channels count,
/// connection by connection.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Routes {
    /// All queues, by number.
    pub(crate) queues: Vec<Queue>,
    /// The routing key of each publisher.
    pub(crate) keys: Vec<String>,
    /// The queues of each consumer.
    pub(crate) consumed: Vec<Vec<usize>>,
}

impl Routes {
    /// Deals out queues.
    pub(crate) fn new(config: &Config, random: &mut Random) -> Self {
        let Config { topology, publishing, consuming, .. } = config;
        let random_key = String::from_utf8_lossy(&random.key()).into_owned();
        let key = topology.routing_key.clone().unwrap_or(random_key);
        let n_consumers = consuming.n_consumers();
        let queue = |name: &String, key: &String| Queue {
            name: name.clone(),
            key: key.clone(),
            is_unnamed: name.is_empty(),
        };
        let (queues, consumed): (Vec<Queue>, Vec<Vec<usize>>) = match &topology.queues {
            Queues::Unnamed if topology.predeclared => (Vec::new(), vec![Vec::new(); n_consumers]),
            Queues::Unnamed => {
                let queues = (0..n_consumers).map(|_| queue(&String::new(), &key)).collect();
                (queues, (0..n_consumers).map(|at| vec![at]).collect())
            }
            Queues::Named(names) => {
                let all = (0..names.len()).collect();
                (names.iter().map(|name| queue(name, &key)).collect(), vec![all; n_consumers])
            }
            Queues::Sequence(names) => {
                let key_of = |name| topology.routing_key.as_ref().unwrap_or(name);
                let queues = names.iter().map(|name| queue(name, key_of(name))).collect();
                let dealt = |at: usize| vec![at.checked_rem(names.len()).unwrap_or(0)];
                (queues, (0..n_consumers).map(dealt).collect())
            }
            Queues::Addressed { published, consumed } => {
                let published = published.iter().filter(|_| is_default(&topology.exchange));
                let names: BTreeSet<&String> = consumed.iter().chain(published).collect();
                let names: Vec<&String> = names.into_iter().collect();
                let key_of = |name| topology.routing_key.as_ref().unwrap_or(name);
                let queues = names.iter().map(|name| queue(name, key_of(name))).collect();
                let at = |name| names.binary_search(&name).into_iter().collect();
                (queues, consumed.iter().map(at).collect())
            }
        };
        if let Queues::Addressed { published, .. } = &topology.queues {
            return Self { keys: published.clone(), queues, consumed };
        }
        let keys = (0..publishing.n_publishers()).map(|at| {
            let dealt = queues.get(at.checked_rem(queues.len()).unwrap_or(0));
            dealt.map_or(&key, |queue| &queue.key).clone()
        });
        Self { keys: keys.collect(), queues, consumed }
    }

    /// The publishers whose messages are to come out of each queue, as far as that is known: pairs of
    /// queue and publisher, for queues that are consumed.
    pub(crate) fn expected(&self, config: &Config) -> Option<Vec<(usize, usize)>> {
        let topology = &config.topology;
        let is_known = topology.bind && !topology.predeclared && !config.message.random_key;
        let is_fanout = match (is_known, topology.exchange_type.as_str()) {
            (true, "fanout") => true,
            (true, "direct") => false,
            (_, _) => return None,
        };
        let is_default = is_default(&topology.exchange);
        let mut pairs = Vec::new();
        for (number, queue) in self.queues.iter().enumerate() {
            if !self.consumed.iter().any(|consumed| consumed.contains(&number)) {
                continue;
            }
            let bound = if is_default { &queue.name } else { &queue.key };
            let reached = |key: &String| is_fanout || bound == key;
            let publishers = self.keys.iter().enumerate().filter(|(_, key)| reached(key));
            pairs.extend(publishers.map(|(publisher, _)| (number, publisher)));
        }
        Some(pairs)
    }
}

impl Routes {
    /// For each queue, whether all of it is taken out: not if each of its consumers has the `limit` it
    /// was to receive, as `n_received` by queue tells. A consumer may have several queues.
    pub(crate) fn open_queues(
        &self,
        limit: Option<u64>,
        n_received: impl Fn(usize) -> u64,
    ) -> Vec<bool> {
        let Some(limit) = limit else { return vec![true; self.queues.len()] };
        let is_open = |queue: usize| {
            let consumed: Vec<_> =
                self.consumed.iter().filter(|consumed| consumed.contains(&queue)).collect();
            let of_consumers: BTreeSet<usize> =
                consumed.iter().copied().flatten().copied().collect();
            let n: u64 = of_consumers.into_iter().map(&n_received).sum();
            n < u64::try_from(consumed.len()).unwrap_or(u64::MAX).saturating_mul(limit)
        };
        (0..self.queues.len()).map(is_open).collect()
    }
}

fn is_default(exchange: &str) -> bool {
    exchange.is_empty()
}

/// Makes sure that everything exists; queues the broker names get their names.
pub(crate) fn declare(
    client: &mut Client,
    topology: &Topology,
    routes: &mut Routes,
) -> anyhow::Result<()> {
    client.open_channel(CHANNEL)?;
    declare_exchange(client, topology)?;
    for queue in &mut routes.queues {
        queue.name = ensure_queue(client, topology, queue)?;
    }
    let has_keys = matches!(topology.queues, Queues::Addressed { .. });
    if is_default(&topology.exchange) && topology.routing_key.is_none() && !has_keys {
        // Nothing can be bound to this exchange: the queue's name is the key.
        let names = routes.queues.iter().map(|queue| &queue.name).cycle();
        routes.keys.iter_mut().zip(names).for_each(|(key, name)| key.clone_from(name));
    }
    Ok(())
}

/// Makes sure that what a connection uses exists (again), after the one before it was lost: the
/// exchange and these queues. Gives back the queues' names, which are new where the broker names
/// them. Leaves no channel open.
pub(crate) fn declare_again<'a>(
    client: &mut Client,
    topology: &Topology,
    queues: impl Iterator<Item = &'a Queue>,
) -> anyhow::Result<Vec<String>> {
    client.open_channel(CHANNEL)?;
    declare_exchange(client, topology)?;
    let mut names = Vec::new();
    for queue in queues {
        let is_gone = queue.is_unnamed && !probe(client, &passive_queue(&queue.name))?;
        let name = if is_gone { String::new() } else { queue.name.clone() };
        names.push(ensure_queue(client, topology, &Queue { name, ..queue.clone() })?);
    }
    client.close_channel(CHANNEL)?;
    Ok(names)
}

/// Makes sure that a queue exists and is bound; gives back its name.
fn ensure_queue(client: &mut Client, topology: &Topology, queue: &Queue) -> anyhow::Result<String> {
    // COMPAT: PerfTest binds also queues that were there before.
    let is_there = topology.predeclared && probe(client, &passive_queue(&queue.name))?;
    let name = if is_there {
        queue.name.clone()
    } else {
        declare_queue(client, topology, &queue.name)
            .with_context(|| format!("declaring queue '{}'", queue.name))?
    };
    if topology.bind && !is_default(&topology.exchange) {
        let bind = QueueBind {
            queue: name.as_bytes(),
            exchange: topology.exchange.as_bytes(),
            routing_key: queue.key.as_bytes(),
            ..QueueBind::default()
        };
        client.call(CHANNEL, bind.into(), QueueBindOk::ID).context("binding a queue")?;
    }
    Ok(name)
}

fn declare_exchange(client: &mut Client, topology: &Topology) -> anyhow::Result<()> {
    let exchange = topology.exchange.as_str();
    if is_default(exchange) || exchange.starts_with("amq.") {
        return Ok(());
    }
    let declare = ExchangeDeclare {
        exchange: exchange.as_bytes(),
        kind: topology.exchange_type.as_bytes(),
        durable: true,
        ..ExchangeDeclare::default()
    };
    let passive = ExchangeDeclare { passive: true, ..declare };
    if topology.predeclared && probe(client, &Probe::Exchange(passive))? {
        return Ok(());
    }
    client
        .call(CHANNEL, declare.into(), ExchangeDeclareOk::ID)
        .with_context(|| format!("declaring exchange '{exchange}'"))
        .map(drop)
}

fn declare_queue(client: &mut Client, topology: &Topology, name: &str) -> anyhow::Result<String> {
    let arguments = topology.queue_arguments.to_bytes();
    let declare = QueueDeclare {
        queue: name.as_bytes(),
        durable: topology.durable || needs_durable_queues(client),
        auto_delete: topology.auto_delete,
        arguments: TableRef::parse(&arguments)?,
        ..QueueDeclare::default()
    };
    let payload = client.call(CHANNEL, declare.into(), QueueDeclareOk::ID)?;
    let Method::QueueDeclareOk(declared) = Method::decode(&payload)? else {
        bail!("it answers with something else");
    };
    Ok(String::from_utf8_lossy(declared.queue).into_owned())
}

/// Something that may exist.
enum Probe<'a> {
    Exchange(ExchangeDeclare<'a>),
    Queue(QueueDeclare<'a>),
}

fn passive_queue(name: &str) -> Probe<'_> {
    Probe::Queue(QueueDeclare { queue: name.as_bytes(), passive: true, ..QueueDeclare::default() })
}

/// Whether it exists.
fn probe(client: &mut Client, what: &Probe<'_>) -> anyhow::Result<bool> {
    Ok(ask(client, what)?.is_some())
}

/// The number of messages in the queue, if it exists. Asked on a channel that is gone afterwards.
fn ask(client: &mut Client, what: &Probe<'_>) -> anyhow::Result<Option<u32>> {
    client.open_channel(PROBE_CHANNEL)?;
    let answer = match *what {
        Probe::Exchange(passive) => {
            client.call(PROBE_CHANNEL, passive.into(), ExchangeDeclareOk::ID)
        }
        Probe::Queue(passive) => client.call(PROBE_CHANNEL, passive.into(), QueueDeclareOk::ID),
    };
    match answer {
        Ok(payload) => {
            client.close_channel(PROBE_CHANNEL)?;
            let declared = Method::decode(&payload)?;
            let n_messages =
                if let Method::QueueDeclareOk(ok) = declared { ok.message_count } else { 0 };
            Ok(Some(n_messages))
        }
        Err(error) if error.downcast_ref::<Closed>().is_some_and(|closed| closed.code == 404) => {
            client.send(PROBE_CHANNEL, ChannelCloseOk {}.into())?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The number of ready messages in the queues; in those that are gone there are none.
pub(crate) fn n_ready(client: &mut Client, routes: &Routes) -> anyhow::Result<u64> {
    let mut n = 0;
    for queue in &routes.queues {
        n += u64::from(ask(client, &passive_queue(&queue.name))?.unwrap_or_default());
    }
    Ok(n)
}

/// Whether the broker refuses queues that are not durable.
fn needs_durable_queues(broker: &Client) -> bool {
    has_only_durable_queues(&broker.server_text("product"), &broker.server_text("version"))
}

/// COMPAT: RabbitMQ refuses transient queues from 4.3 on, so PerfTest makes durable ones there.
fn has_only_durable_queues(product: &str, version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let version: (u32, u32) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    product == "RabbitMQ" && version >= (4, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(line: &str) -> (Routes, Option<Vec<(usize, usize)>>) {
        let words = line.split_whitespace().map(str::to_owned);
        let config = Config::new(&crate::options::parse(words).unwrap()).unwrap();
        let routes = Routes::new(&config, &mut Random(1));
        let expected = routes.expected(&config);
        (routes, expected)
    }

    fn names(routes: &Routes) -> Vec<&str> {
        routes.queues.iter().map(|queue| queue.name.as_str()).collect()
    }

    #[test]
    fn a_sequence_is_dealt_out_in_turn() {
        let (dealt, expected) = routes("-x 3 -y 4 -qp q-%d -qpf 1 -qpt 2");
        assert_eq!(names(&dealt), ["q-1", "q-2"]);
        assert_eq!(dealt.keys, ["q-1", "q-2", "q-1"]);
        assert_eq!(dealt.consumed, [[0], [1], [0], [1]]);
        assert_eq!(expected, Some(vec![(0, 0), (0, 2), (1, 1)]));
        let (channels, _) = routes("-x 1 -X 3 -y 2 -Y 2 -qp q-%d -qpf 1 -qpt 3");
        assert_eq!(channels.keys, ["q-1", "q-2", "q-3"]);
        assert_eq!(channels.consumed, [[0], [1], [2], [0]]);
    }

    #[test]
    fn named_queues_are_consumed_by_all_with_one_key() {
        let (named, expected) = routes("-x 2 -y 1 -u a,b -k key");
        assert_eq!(named.keys, ["key", "key"]);
        assert_eq!(named.consumed, [[0, 1]]);
        assert_eq!(expected, Some(vec![(0, 0), (0, 1), (1, 0), (1, 1)]));
    }

    #[test]
    fn without_a_name_each_consumer_has_a_queue_of_its_own() {
        let (unnamed, expected) = routes("-x 2 -y 1 -Y 2");
        assert_eq!((names(&unnamed), &unnamed.consumed), (vec!["", ""], &vec![vec![0], vec![1]]));
        assert_eq!((unnamed.keys[0].len(), &unnamed.keys[0]), (32, &unnamed.keys[1]));
        assert_eq!(expected, Some(vec![(0, 0), (0, 1), (1, 0), (1, 1)]));
        let (nowhere, expected) = routes("-y 0 -k key");
        assert_eq!((nowhere.queues.len(), nowhere.keys[0].as_str()), (0, "key"));
        assert_eq!(expected, Some(vec![]));
        assert_eq!(routes("-p -y 1").0.consumed, [[0; 0]]);
        assert_eq!(names(&routes("-y 0 -u q").0), ["q"]);
    }

    #[test]
    fn queues_whose_consumers_have_enough_may_keep_the_rest() {
        let open = |line: &str, limit, received: [u64; 2]| {
            routes(line).0.open_queues(limit, |queue| received[queue])
        };
        let dealt = "-x 1 -y 3 -qp q-%d -qpf 1 -qpt 2";
        assert_eq!(open(dealt, None, [9, 9]), [true, true]);
        assert_eq!(open(dealt, Some(5), [9, 4]), [true, true], "the first has two consumers");
        assert_eq!(open(dealt, Some(5), [10, 5]), [false, false]);
        assert_eq!(open("-y 2 -u a,b", Some(5), [9, 0]), [true, true], "both consume both");
        assert_eq!(open("-y 2 -u a,b", Some(5), [3, 7]), [false, false]);
    }

    #[test]
    fn what_has_to_arrive_is_known_only_where_routing_is() {
        let fanout = "-x 1 -y 2 -e amq.fanout -t fanout -qp q%d -qpf 1 -qpt 3";
        assert_eq!(routes(fanout).1, Some(vec![(0, 0), (1, 0)]));
        for line in ["-t topic", "-K", "-p", "-sb"] {
            assert_eq!(routes(line).1, None, "{line}");
        }
    }

    #[test]
    fn only_new_brokers_of_that_make_lack_transient_queues() {
        let of = has_only_durable_queues;
        assert!(of("RabbitMQ", "4.3.6") && of("RabbitMQ", "5.0"));
        assert!(!of("RabbitMQ", "4.2.9") && !of("RabbitMQ", "3.13.0") && !of("Leveret", "4.3.0"));
        assert!(!of("", ""));
    }
}
