//! Exchange, queues and bindings, and who uses which of them.

use amqp091::method::{
    ChannelClose, ChannelCloseOk, ExchangeDeclare, ExchangeDeclareOk, QueueBind, QueueBindOk,
    QueueDeclare, QueueDeclareOk,
};
use amqp091::{Method, TableRef};
use anyhow::{Context as _, bail};

use crate::client::{Client, Closed};
use crate::config::{Config, Queues, Topology};
use crate::message::Random;

/// The channel for declarations.
const CHANNEL: u16 = 1;
/// The channel for questions whose answer may be that the channel is closed.
const PROBE_CHANNEL: u16 = 2;

/// Who uses what.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Routes {
    /// All queues, by number.
    pub(crate) queues: Vec<String>,
    /// The routing key of each publishing connection.
    pub(crate) keys: Vec<String>,
    /// The queues of each consuming connection.
    pub(crate) consumed: Vec<Vec<usize>>,
    /// Each queue's binding key.
    bound: Vec<String>,
}

impl Routes {
    /// Deals out queues.
    pub(crate) fn new(config: &Config, random: &mut Random) -> Self {
        let Config { topology, publishing, consuming, .. } = config;
        let (queues, is_sequence) = match &topology.queues {
            // COMPAT: without consumers PerfTest makes no queue that was not asked for: messages
            // go nowhere. Test: `without_consumers_there_is_no_unnamed_queue`.
            Queues::Named(names) if consuming.n_connections == 0 && names == &[""] => {
                (Vec::new(), false)
            }
            Queues::Named(names) => (names.clone(), false),
            Queues::Sequence(names) => (names.clone(), true),
        };
        let random_key = String::from_utf8_lossy(&random.key()).into_owned();
        let bound: Vec<String> = match (&topology.routing_key, is_sequence) {
            (Some(key), _) => queues.iter().map(|_| key.clone()).collect(),
            (None, true) => queues.clone(),
            (None, false) => queues.iter().map(|_| random_key.clone()).collect(),
        };
        let key = topology.routing_key.clone().unwrap_or(random_key);
        let keys = (0..publishing.n_connections).map(|at| {
            let dealt = bound.get(at.checked_rem(bound.len()).unwrap_or(0));
            dealt.unwrap_or(&key).clone()
        });
        let keys = keys.collect();
        let consumed = (0..consuming.n_connections).map(|at| match is_sequence {
            true => vec![at.checked_rem(queues.len()).unwrap_or(0)],
            false => (0..queues.len()).collect(),
        });
        Self { keys, consumed: consumed.collect(), queues, bound }
    }

    /// Which publishing connection's messages are to come out of which queue, as far as that is
    /// known: pairs of queue and connection, for queues that are consumed.
    pub(crate) fn expected(&self, config: &Config) -> Option<Vec<(usize, usize)>> {
        let topology = &config.topology;
        let is_known = topology.bind
            && !topology.predeclared
            && !config.message.random_key
            && config.consuming.limit.is_none();
        let is_fanout = match (is_known, topology.exchange_type.as_str()) {
            (true, "fanout") => true,
            (true, "direct") => false,
            (_, _) => return None,
        };
        let is_default = is_default(&topology.exchange);
        let mut pairs = Vec::new();
        for (queue, name) in self.queues.iter().enumerate() {
            if !self.consumed.iter().any(|consumed| consumed.contains(&queue)) {
                continue;
            }
            let bound = if is_default { Some(name) } else { self.bound.get(queue) };
            let reached = |key: &String| is_fanout || bound == Some(key);
            let publishers = self.keys.iter().enumerate().filter(|(_, key)| reached(key));
            pairs.extend(publishers.map(|(publisher, _)| (queue, publisher)));
        }
        Some(pairs)
    }
}

fn is_default(exchange: &str) -> bool {
    exchange.is_empty() || exchange == "amq.default"
}

/// Makes sure that everything exists; queues the broker names get their names.
pub(crate) fn declare(
    client: &mut Client,
    topology: &Topology,
    routes: &mut Routes,
) -> anyhow::Result<()> {
    client.open_channel(CHANNEL)?;
    declare_exchange(client, topology)?;
    let is_default = is_default(&topology.exchange);
    let arguments = topology.queue_arguments.to_bytes();
    for at in 0..routes.queues.len() {
        let (Some(name), Some(key)) = (routes.queues.get_mut(at), routes.bound.get(at)) else {
            break;
        };
        if topology.predeclared && probe(client, &passive_queue(name))? {
            continue;
        }
        *name = declare_queue(client, topology, name, &arguments)
            .with_context(|| format!("declaring queue '{name}'"))?;
        if topology.bind && !is_default {
            let bind = QueueBind {
                queue: name.as_bytes(),
                exchange: topology.exchange.as_bytes(),
                routing_key: key.as_bytes(),
                ..QueueBind::default()
            };
            client.call(CHANNEL, bind.into(), QueueBindOk::ID).context("binding a queue")?;
        }
    }
    if is_default && topology.routing_key.is_none() {
        // Nothing can be bound to this exchange: the queue's name is the key.
        let names = routes.queues.iter().cycle();
        routes.keys.iter_mut().zip(names).for_each(|(key, name)| key.clone_from(name));
    }
    Ok(())
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

fn declare_queue(
    client: &mut Client,
    topology: &Topology,
    name: &str,
    arguments: &[u8],
) -> anyhow::Result<String> {
    let declare = QueueDeclare {
        queue: name.as_bytes(),
        durable: topology.durable,
        auto_delete: topology.auto_delete,
        arguments: TableRef::parse(arguments)?,
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

/// Whether it exists. Where it does not, the channel used to ask is gone afterwards.
fn probe(client: &mut Client, what: &Probe<'_>) -> anyhow::Result<bool> {
    client.open_channel(PROBE_CHANNEL)?;
    let answer = match *what {
        Probe::Exchange(passive) => {
            client.call(PROBE_CHANNEL, passive.into(), ExchangeDeclareOk::ID)
        }
        Probe::Queue(passive) => client.call(PROBE_CHANNEL, passive.into(), QueueDeclareOk::ID),
    };
    match answer {
        Ok(_) => {
            let close = ChannelClose { reply_code: 200, ..ChannelClose::default() };
            client.call(PROBE_CHANNEL, close.into(), ChannelCloseOk::ID)?;
            Ok(true)
        }
        Err(error) if error.downcast_ref::<Closed>().is_some_and(|closed| closed.code == 404) => {
            client.send(PROBE_CHANNEL, ChannelCloseOk {}.into())?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// How many messages are ready in the queues.
pub(crate) fn n_ready(client: &mut Client, routes: &Routes) -> anyhow::Result<u64> {
    let mut n = 0;
    for name in &routes.queues {
        let passive =
            QueueDeclare { queue: name.as_bytes(), passive: true, ..QueueDeclare::default() };
        let payload = client.call(CHANNEL, passive.into(), QueueDeclareOk::ID)?;
        if let Method::QueueDeclareOk(declared) = Method::decode(&payload)? {
            n += u64::from(declared.message_count);
        }
    }
    Ok(n)
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

    #[test]
    fn a_sequence_is_dealt_out_in_turn() {
        let (routes, expected) = routes("-x 3 -y 4 -qp q-%d -qpf 1 -qpt 2");
        assert_eq!(routes.queues, ["q-1", "q-2"]);
        assert_eq!(routes.keys, ["q-1", "q-2", "q-1"]);
        assert_eq!(routes.consumed, [[0], [1], [0], [1]]);
        assert_eq!(expected, Some(vec![(0, 0), (0, 2), (1, 1)]));
    }

    #[test]
    fn named_queues_are_consumed_by_all_with_one_key() {
        let (named, expected) = routes("-x 2 -y 1 -u a,b -k key");
        assert_eq!(named.keys, ["key", "key"]);
        assert_eq!(named.consumed, [[0, 1]]);
        assert_eq!(expected, Some(vec![(0, 0), (0, 1), (1, 0), (1, 1)]));
        let (unnamed, _) = routes("-x 2 -y 2");
        assert_eq!(unnamed.keys[0], unnamed.keys[1]);
        assert_eq!((unnamed.keys[0].len(), unnamed.consumed.len()), (32, 2));
    }

    #[test]
    fn without_consumers_there_is_no_unnamed_queue() {
        let (nowhere, expected) = routes("-y 0 -k key");
        assert_eq!((nowhere.queues.len(), nowhere.keys[0].as_str()), (0, "key"));
        assert_eq!(expected, Some(vec![]));
        assert_eq!(routes("-y 0 -u q").0.queues, ["q"]);
    }

    #[test]
    fn what_has_to_arrive_is_known_only_where_routing_is() {
        let fanout = "-x 1 -y 2 -e amq.fanout -t fanout -qp q%d -qpf 1 -qpt 3";
        assert_eq!(routes(fanout).1, Some(vec![(0, 0), (1, 0)]));
        for line in ["-t topic", "-K", "-p", "-sb", "-D 5"] {
            assert_eq!(routes(line).1, None, "{line}");
        }
    }
}
