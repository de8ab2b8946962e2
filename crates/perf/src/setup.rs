//! Turns a configuration into connections with publishers and consumers on them.

use amqp091::method::{BasicQos, BasicQosOk, ConfirmSelect, ConfirmSelectOk};
use amqp091::{Properties, ShortString, Table, Value};
use anyhow::{Context as _, bail};

use crate::amqp10::client::Client as SessionClient;
use crate::amqp10::links::{Links, Receiving};
use crate::clock::{SECOND, from_seconds};
use crate::config::{Body, Config, Consuming, Message, Publishing, Settle, moment_s};
use crate::confirms::Confirms;
use crate::connection::{Connection, Role};
use crate::consumer::{self, Consumer, Stamps};
use crate::message::{Bodies, Encoding, Keys, Random, Source, json};
use crate::publisher::{self, Publisher, Timing};
use crate::rate::{Gate, RateLimiter};
use crate::template::{Address, Marking, RANDOM_KEY_BYTES};
use crate::topology::{self, Queue, Routes};
use crate::unconfirmed::Unconfirmed;
use client::Client;
use client::Link;
use client::Uri;

/// Size of a publisher's batch: with more, memory traffic costs more than system calls.
const BATCH_BYTES: usize = 64 * 1024;
/// Memory limit of the batches of all publishers together, bytes.
const BATCHES_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One connection to make: the n-th of those that publish, or of those that consume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Publish(usize),
    Consume(usize),
}

/// All parts, dealt out to threads in turn.
pub(crate) fn parts(config: &Config) -> Vec<Vec<Part>> {
    let publish = (0..config.publishing.n_connections).map(Part::Publish);
    let consume = (0..config.consuming.n_connections).map(Part::Consume);
    let all: Vec<Part> = consume.chain(publish).collect();
    let n_threads = config.run.n_threads.clamp(1, all.len().max(1));
    (0..n_threads).map(|at| all.iter().copied().skip(at).step_by(n_threads).collect()).collect()
}

/// The parts that all connections share, made once.
#[derive(Debug)]
pub(crate) struct Recipe<'a> {
    pub(crate) config: &'a Config,
    pub(crate) routes: &'a Routes,
    pub(crate) id: &'a str,
    /// Those of messages in turn.
    properties: Vec<Properties>,
    /// Bodies that are the same for all publishers.
    given: Vec<Vec<u8>>,
    seed: u64,
}

impl<'a> Recipe<'a> {
    /// Reads what has to be read.
    ///
    /// # Errors
    /// Files of bodies that cannot be read, properties that do not fit the wire.
    pub(crate) fn new(
        config: &'a Config,
        routes: &'a Routes,
        id: &'a str,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let given = match &config.message.body {
            Body::Stamped(_) => Vec::new(),
            Body::Files(files) => {
                let read = |file: &String| std::fs::read(file).with_context(|| file.clone());
                files.iter().map(read).collect::<Result<_, _>>()?
            }
            Body::Json { size, n_bodies, n_fields } => {
                let mut random = Random(seed);
                (0..*n_bodies).map(|_| json(*size, *n_fields, &mut random)).collect()
            }
        };
        let own = std::slice::from_ref(&config.message.properties);
        let sets = if config.links.properties.is_empty() { own } else { &config.links.properties };
        let properties = sets.iter().map(|set| properties(&config.message, set));
        let properties = properties.collect::<anyhow::Result<_>>()?;
        Ok(Self { config, routes, id, properties, given, seed })
    }

    /// Connects and sets everything up.
    pub(crate) fn connect(&self, part: Part) -> anyhow::Result<Connection> {
        if self.has_session(part) {
            return self.connect_session(part);
        }
        let mut client = self.dial(part)?;
        self.open_channels(part, &mut client)?;
        let role = match part {
            Part::Publish(at) => Role::Publishing(self.publishers(at, client.frame_max)?),
            Part::Consume(at) => Role::Consuming(self.consumers(at)),
        };
        Connection::new(client, role)
    }

    /// Whether AMQP 1.0 is spoken.
    fn has_session(&self, part: Part) -> bool {
        let Links { targets, sources, .. } = &self.config.links;
        if let Part::Publish(_) = part { targets.is_some() } else { sources.is_some() }
    }

    /// The same over AMQP 1.0.
    fn connect_session(&self, part: Part) -> anyhow::Result<Connection> {
        let Config { links, publishing, consuming, link, .. } = self.config;
        let mut client = SessionClient::connect(self.broker(part)?, link, &self.name(part))?;
        let (role, receiving) = match (part, &links.targets, &links.sources) {
            (Part::Publish(at), Some(targets), _) => {
                client.attach_target(
                    targets.get(at).context("no address")?,
                    publishing.confirm_window.is_none(),
                )?;
                (Role::Publishing(self.publishers(at, client.frame_max)?), Receiving::default())
            }
            (Part::Consume(at), _, Some(sources)) => {
                client.attach_source(sources, at, consuming.settle == Settle::Automatic)?;
                (Role::Consuming(self.consumers(at)), sources.receiving)
            }
            _ => bail!("no link"),
        };
        let session = client.session(receiving);
        Connection::with_session(client, role, session)
    }

    /// Connects again after a loss, makes sure that what the connection uses exists, and sets
    /// everything up. Gives back the queues of consumers, by number, with their names.
    pub(crate) fn reconnect(&self, part: Part) -> anyhow::Result<(Client, Vec<(usize, String)>)> {
        let mut client = self.dial(part)?;
        let numbers = self.used_queues(part);
        let queues = numbers.iter().filter_map(|&number| self.routes.queues.get(number));
        let names = topology::declare_again(&mut client, &self.config.topology, queues)?;
        self.open_channels(part, &mut client)?;
        Ok((client, numbers.into_iter().zip(names).collect()))
    }

    /// The numbers of the queues a connection cannot do without: those it consumes, or, where
    /// nobody consumes or everything is to arrive, those it publishes to. A queue that the broker names is
    /// its consumer's to make again.
    fn used_queues(&self, part: Part) -> Vec<usize> {
        let Config { publishing, consuming, .. } = self.config;
        let of = |at: usize, n_channels: u16| {
            let n = usize::from(n_channels);
            at * n..(at + 1) * n
        };
        match part {
            Part::Consume(at) => {
                let consumed = self.routes.consumed.get(of(at, consuming.n_channels));
                let mut numbers = consumed.unwrap_or_default().concat();
                numbers.sort_unstable();
                numbers.dedup();
                numbers
            }
            Part::Publish(at) if consuming.n_connections == 0 || publishing.resend => {
                let keys = self.routes.keys.get(of(at, publishing.n_channels)).unwrap_or_default();
                let queues = self.routes.queues.iter().enumerate();
                let is_used = |queue: &Queue| keys.contains(&queue.key) && !queue.is_unnamed;
                queues.filter(|(_, queue)| is_used(queue)).map(|(at, _)| at).collect()
            }
            Part::Publish(_) => Vec::new(),
        }
    }

    fn dial(&self, part: Part) -> anyhow::Result<Client> {
        Client::connect(self.broker(part)?, &self.config.link, &self.name(part))
    }

    fn name(&self, part: Part) -> String {
        match part {
            Part::Publish(at) => format!("{} producer {at}", self.id),
            Part::Consume(at) => format!("{} consumer {at}", self.id),
        }
    }

    /// Opens the channels of a connection, with confirms or prefetch as they are to be.
    fn open_channels(&self, part: Part, client: &mut Client) -> anyhow::Result<()> {
        let Config { publishing, consuming, .. } = self.config;
        let n_channels = match part {
            Part::Publish(_) => publishing.n_channels,
            Part::Consume(_) => consuming.n_channels,
        };
        for channel in 1..=n_channels {
            client.open_channel(channel)?;
            match part {
                Part::Publish(_) if publishing.confirm_window.is_some() => {
                    client.call(channel, ConfirmSelect::default().into(), ConfirmSelectOk::ID)?;
                }
                Part::Publish(_) => {}
                Part::Consume(_) => self.limit_prefetch(channel, client)?,
            }
        }
        Ok(())
    }

    fn limit_prefetch(&self, channel: u16, client: &mut Client) -> anyhow::Result<()> {
        let consuming = &self.config.consuming;
        for (prefetch_count, global) in
            [(consuming.prefetch, false), (consuming.prefetch_channel, true)]
        {
            if prefetch_count > 0 {
                let qos = BasicQos { prefetch_size: 0, prefetch_count, global };
                client.call(channel, qos.into(), BasicQosOk::ID)?;
            }
        }
        Ok(())
    }

    /// The broker a connection goes to.
    fn broker(&self, part: Part) -> anyhow::Result<&Uri> {
        let brokers = &self.config.brokers;
        let (Part::Publish(at) | Part::Consume(at)) = part;
        let turn = if self.config.run.random_allocation && brokers.len() > 1 {
            let salt = u64::try_from(at)? << 1 | u64::from(matches!(part, Part::Publish(_)));
            usize::try_from(Random(self.seed ^ salt << 20).next() >> 1)?
        } else {
            at
        };
        brokers.get(turn.checked_rem(brokers.len()).unwrap_or(0)).context("no broker")
    }

    fn publishers(&self, at: usize, frame_max: u32) -> anyhow::Result<Vec<Publisher>> {
        let publishing = &self.config.publishing;
        let mut publishers = Vec::new();
        for channel in 1..=publishing.n_channels {
            let number = at * usize::from(publishing.n_channels) + usize::from(channel) - 1;
            publishers.push(Publisher::new(self.publisher(number, channel, frame_max)?));
        }
        Ok(publishers)
    }

    fn publisher(
        &self,
        number: usize,
        channel: u16,
        frame_max: u32,
    ) -> anyhow::Result<publisher::Plan> {
        let Config { publishing, message, topology, run, .. } = self.config;
        let id = u32::try_from(number)?;
        let n_publishers = publishing.n_publishers();
        let mut random = Random(self.seed ^ u64::from(id) << 32);
        let routing_key = if message.random_key {
            "0".repeat(RANDOM_KEY_BYTES)
        } else {
            self.routes.keys.get(number).cloned().unwrap_or_default()
        };
        let exchange = topology.exchange.clone();
        let (mandatory, immediate) = (publishing.mandatory, publishing.immediate);
        let address = Address { channel, exchange, routing_key, mandatory, immediate, frame_max };
        let timing = self.timing(number, n_publishers, &mut random);
        let properties = self.properties.clone();
        let encoding = match self.has_session(Part::Publish(number)) {
            true => Encoding::Amqp10 { is_settled: publishing.confirm_window.is_none() },
            false => Encoding::Amqp091,
        };
        let (bodies, keys) = (self.bodies(), keys(message, random));
        let source = Source { address, properties, encoding, bodies, keys };
        Ok(publisher::Plan {
            id,
            source,
            timing,
            confirms: self.confirms()?,
            limit: publishing.limit.unwrap_or(u64::MAX),
            use_millis: message.use_millis,
            batch_bytes: BATCH_BYTES.min(BATCHES_BYTES_MAX / n_publishers.max(1)),
            is_verified: run.verify,
        })
    }

    fn confirms(&self) -> anyhow::Result<Confirms> {
        let Publishing { confirm_window, confirm_timeout_ns, resend, .. } = self.config.publishing;
        let Some(window) = confirm_window else { return Ok(Confirms::Off) };
        let capacity = usize::try_from(window.get())?;
        Ok(if resend {
            Confirms::Kept(Unconfirmed::new(capacity, confirm_timeout_ns))
        } else {
            Confirms::counted(capacity)
        })
    }

    fn bodies(&self) -> Bodies {
        match &self.config.message.body {
            Body::Stamped(size) => {
                let marking =
                    if self.config.run.verify { Marking::Verified } else { Marking::Body };
                Bodies::Stamped { size: size.clone(), marking }
            }
            Body::Files(_) | Body::Json { .. } => Bodies::Given(self.given.clone()),
        }
    }

    /// Publishers of the same rate take turns instead of publishing all at the same moment.
    fn timing(&self, number: usize, n_publishers: usize, random: &mut Random) -> Timing {
        let publishing = &self.config.publishing;
        let start_at = random.next().checked_rem(publishing.random_start_ns).unwrap_or(0);
        let start_at = start_at + self.slow_start_ns();
        let limiter = publishing.rate.clone().map(|rate| {
            let share = number as f64 / n_publishers.max(1) as f64;
            let period = if rate.max() > 0.0 { 1.0 / rate.max() } else { 0.0 };
            RateLimiter::new(rate, start_at + from_seconds(share * period))
        });
        Timing { limiter, start_at, is_held: false, held_until: 0 }
    }

    /// Time that publishers wait for consumers that start one after the other. As in PerfTest they do
    /// not wait for those that start late anyway.
    fn slow_start_ns(&self) -> u64 {
        let consuming = &self.config.consuming;
        if !consuming.slow_start || consuming.start_delay_ns > 0 {
            return 0;
        }
        u64::try_from(consuming.n_consumers()).unwrap_or(0) * SECOND
    }

    /// Consumers are there before publishers begin. Without publishers they begin with the clock,
    /// so that no message is received before it runs.
    fn first_start_ns(&self) -> u64 {
        u64::from(self.config.publishing.n_connections == 0)
    }

    fn consumers(&self, at: usize) -> Vec<Consumer> {
        let n_channels = self.config.consuming.n_channels;
        let gate = self.gate();
        let number = |channel| at * usize::from(n_channels) + usize::from(channel) - 1;
        (1..=n_channels)
            .map(|channel| Consumer::new(self.consumer(number(channel), channel, gate.clone())))
            .collect()
    }

    /// The gate of a connection's consumers. A consumer that is held back also holds back the others of
    /// its connection, whose deliveries are behind its own: so all have one gate, through which as many
    /// messages pass as through theirs together.
    fn gate(&self) -> Option<Gate> {
        let Consuming { hold, n_channels, .. } = &self.config.consuming;
        let n_channels = f64::from((*n_channels).max(1));
        hold.clone().map(|hold| Gate::new(hold.map(|ns| ns / n_channels)))
    }

    fn consumer(&self, number: usize, channel: u16, gate: Option<Gate>) -> consumer::Plan {
        let Config { publishing, consuming, message, run, .. } = self.config;
        let consumed = self.routes.consumed.get(number);
        let queues = consumed.into_iter().flatten().filter_map(|&number| {
            self.routes.queues.get(number).map(|queue| (number, queue.name.clone()))
        });
        let slow = u64::try_from(number).unwrap_or(0) * SECOND;
        let slow = if consuming.slow_start { slow } else { 0 };
        consumer::Plan {
            channel,
            queues: queues.collect(),
            settle: consuming.settle,
            limit: consuming.limit.unwrap_or(u64::MAX),
            gate,
            stamps: Stamps {
                are_in_headers: !matches!(message.body, Body::Stamped(_)),
                are_millis: message.use_millis,
            },
            is_verified: run.verify,
            start_at: (consuming.start_delay_ns + slow).max(self.first_start_ns()),
            settles_rest: run.exit_when.is_some(),
            arguments: consuming.arguments.to_bytes(),
            n_publishers: publishing.n_publishers(),
        }
    }
}

/// Connects for declarations and questions, not for messages.
pub(crate) fn dial_configuration(config: &Config, id: &str) -> anyhow::Result<Client> {
    let uri = config.brokers.first().context("no broker")?;
    let link = Link { heartbeat_s: 0, ..config.link.clone() };
    Client::connect(uri, &link, &format!("{id} configuration"))
}

/// Whether one of the brokers lets us in, without waiting for it to start.
pub(crate) fn is_anybody_there(config: &Config, id: &str) -> bool {
    let link = Link { startup_timeout_ns: 0, ..config.link.clone() };
    let answers = |uri: &Uri| Client::connect(uri, &link, id).map(Client::close).is_ok();
    config.brokers.iter().any(answers)
}

fn keys(message: &Message, mut random: Random) -> Keys {
    match (message.random_key, message.random_keys_max) {
        (false, _) => Keys::Fixed,
        (true, 0) => Keys::Random(random),
        (true, n) => Keys::Cached { keys: (0..n).map(|_| random.key()).collect(), random },
    }
}

/// The properties of messages. Names are PerfTest's; those it does not know become headers.
fn properties(message: &Message, set: &[(String, Value)]) -> anyhow::Result<Properties> {
    let mut properties = Properties::default();
    if message.persistent {
        properties.delivery_mode = Some(amqp091::spec::DELIVERY_MODE_PERSISTENT);
    }
    properties.content_type = message.content_type.as_deref().map(ShortString::new).transpose()?;
    for (name, value) in set {
        let text = text(value);
        let short = || ShortString::new(&text).context(format!("property {name}"));
        let octet = || text.parse::<u8>().context(format!("property {name}"));
        match name.as_str() {
            "contentType" => properties.content_type = Some(short()?),
            "contentEncoding" => properties.content_encoding = Some(short()?),
            "deliveryMode" => properties.delivery_mode = Some(octet()?),
            "priority" => properties.priority = Some(octet()?),
            "correlationId" => properties.correlation_id = Some(short()?),
            "replyTo" => properties.reply_to = Some(short()?),
            "expiration" => properties.expiration = Some(short()?),
            "messageId" => properties.message_id = Some(short()?),
            "timestamp" => {
                let seconds = text.parse().ok().or_else(|| moment_s(&text));
                let what = "property timestamp: a moment such as 2022-06-03T07:45:54Z";
                properties.timestamp = Some(seconds.context(what)?);
            }
            "type" => properties.kind = Some(short()?),
            "userId" => properties.user_id = Some(short()?),
            "appId" => properties.app_id = Some(short()?),
            "clusterId" => properties.cluster_id = Some(short()?),
            _ => {
                let headers: &mut Table = properties.headers.get_or_insert_default();
                headers.insert(ShortString::new(name)?, value.clone());
            }
        }
    }
    Ok(properties)
}

/// A value as the text it was read from.
fn text(value: &Value) -> String {
    match (value.as_bytes(), value.as_i64(), value.as_bool()) {
        (Some(bytes), _, _) => String::from_utf8_lossy(bytes).into_owned(),
        (None, Some(number), _) => number.to_string(),
        (None, None, is_true) => is_true.unwrap_or_default().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(line: &str) -> Config {
        let words = line.split_whitespace().map(str::to_owned);
        Config::new(&crate::options::parse(words).unwrap()).unwrap()
    }

    #[test]
    fn connections_are_dealt_out_evenly() {
        let parts = parts(&config("-x 3 -y 2 --threads 2"));
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(parts[0], [Part::Consume(0), Part::Publish(0), Part::Publish(2)]);
        assert_eq!(super::parts(&config("-x 1 -y 0 --threads 8")).len(), 1);
    }

    #[test]
    fn properties_have_perftests_names() {
        let config = config("-f persistent -T text/x -mp priority=5,messageId=12,tier=gold,n=7");
        let properties = properties(&config.message, &config.message.properties).unwrap();
        assert_eq!((properties.delivery_mode, properties.priority), (Some(2), Some(5)));
        assert_eq!(properties.message_id.unwrap(), "12");
        assert_eq!(properties.content_type.unwrap(), "text/x");
        let headers = properties.headers.unwrap();
        assert_eq!(headers.get(b"tier").and_then(Value::as_bytes), Some(&b"gold"[..]));
        assert_eq!(headers.get(b"n").and_then(Value::as_i64), Some(7));
    }

    #[test]
    fn channels_of_a_connection_share_what_holds_them_back() {
        let open_at = |line: &str| {
            let config = config(line);
            let routes = Routes::new(&config, &mut Random(1));
            let recipe = Recipe::new(&config, &routes, "id", 1).unwrap();
            recipe.gate().unwrap().pass(0);
            let gate = recipe.gate().unwrap();
            gate.clone().pass(0);
            gate.clone().pass(0);
            gate.open_at()
        };
        assert_eq!(open_at("-R 100"), 20_000_000);
        assert_eq!(open_at("-R 100 -Y 4"), 5_000_000);
    }

    #[test]
    fn paced_publishers_take_turns() {
        let config = config("-x 4 -r 10");
        let routes = Routes::new(&config, &mut Random(1));
        let recipe = Recipe::new(&config, &routes, "id", 1).unwrap();
        let first = |number| recipe.timing(number, 4, &mut Random(1)).limiter.unwrap().next();
        assert_eq!([0, 1, 2, 3].map(first), [0, 25_000_000, 50_000_000, 75_000_000]);
    }
}
