//! Things made one after the other, and things made and unmade over and over, with every answer waited
//! for and timed.

use std::time::{Duration, Instant};

use amqp091::method::{
    ChannelClose, ChannelCloseOk, QueueBind, QueueBindOk, QueueUnbind, QueueUnbindOk,
};
use anyhow::Context as _;
use hdrhistogram::Histogram;
use perf::Client;
use serde::Deserialize;

use crate::broker::{Broker, CHANNEL, declare_queue, delete_queue};
use crate::conversion::Queues;
use crate::measurement::Measurement;
use crate::result::Metric;

/// The longest operation that is told apart, microseconds: ten minutes.
const LATENCY_US_MAX: u64 = 600_000_000;
/// The exchange things are bound to.
const EXCHANGE: &[u8] = b"amq.direct";
/// The channel that comes and goes.
const PASSING_CHANNEL: u16 = 2;

/// The objects that are made and unmade.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Connections.
    Connections,
    /// Channels of one connection.
    Channels,
    /// Durable queues.
    Queues,
    /// Bindings of one queue.
    Bindings,
}

/// Making and unmaking, over and over.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Churn {
    pub(crate) kind: Kind,
    /// One operation, in words.
    pub(crate) what: String,
    pub(crate) n_clients: u32,
    pub(crate) seconds: f64,
}

/// Times operations, however many, on one broker.
#[derive(Debug)]
struct Timed(Histogram<u64>);

impl Timed {
    fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_US_MAX, 3);
        Self(histogram.expect("the bounds are constants in the right order"))
    }

    fn time<T>(&mut self, operation: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let began = Instant::now();
        let made = operation()?;
        let us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(us);
        Ok(made)
    }
}

/// Makes and unmakes for some time.
pub(crate) fn churn(broker: &Broker, churn: &Churn) -> anyhow::Result<Measurement> {
    let Churn { kind, n_clients, seconds, .. } = *churn;
    let before = broker.usage();
    let began = Instant::now();
    let until = began + Duration::from_secs_f64(seconds);
    let timed = std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..n_clients).map(|at| scope.spawn(move || client(broker, kind, at, until))).collect();
        let mut all = Timed::new();
        for client in clients {
            let timed = client.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
            all.0.add(&timed.0).context("all histograms have the same bounds")?;
        }
        anyhow::Ok(all)
    })?;
    Ok(measurement(broker, &timed, began, before))
}

/// One client's part.
fn client(broker: &Broker, kind: Kind, at: u32, until: Instant) -> anyhow::Result<Timed> {
    let mut timed = Timed::new();
    if kind == Kind::Connections {
        while Instant::now() < until {
            timed.time(|| broker.connect("leveret bench churn").map(Client::close))?;
        }
        return Ok(timed);
    }
    let mut client = broker.connect("leveret bench churn")?;
    let queue = format!("bench-churn-{at}");
    if kind == Kind::Bindings {
        declare_queue(&mut client, &queue)?;
    }
    while Instant::now() < until {
        timed.time(|| once(&mut client, kind, &queue))?;
    }
    if kind == Kind::Bindings {
        delete_queue(&mut client, &queue)?;
    }
    client.close();
    Ok(timed)
}

fn once(client: &mut Client, kind: Kind, queue: &str) -> anyhow::Result<()> {
    match kind {
        Kind::Connections => {}
        Kind::Channels => {
            client.open_channel(PASSING_CHANNEL)?;
            let close = ChannelClose { reply_code: 200, ..ChannelClose::default() };
            client.call(PASSING_CHANNEL, close.into(), ChannelCloseOk::ID)?;
        }
        Kind::Queues => {
            declare_queue(client, queue)?;
            delete_queue(client, queue)?;
        }
        Kind::Bindings => {
            let (queue, routing_key) = (queue.as_bytes(), b"passing");
            let bind = QueueBind { queue, exchange: EXCHANGE, routing_key, ..QueueBind::default() };
            client.call(CHANNEL, bind.into(), QueueBindOk::ID)?;
            let unbind =
                QueueUnbind { queue, exchange: EXCHANGE, routing_key, ..QueueUnbind::default() };
            client.call(CHANNEL, unbind.into(), QueueUnbindOk::ID)?;
        }
    }
    Ok(())
}

/// Declares durable queues.
pub(crate) fn declare_queues(broker: &Broker, queues: &Queues) -> anyhow::Result<Measurement> {
    let mut client = broker.connect("leveret bench queues")?;
    let before = broker.usage();
    let began = Instant::now();
    let mut timed = Timed::new();
    for name in queues.names() {
        timed.time(|| declare_queue(&mut client, &name))?;
    }
    let measurement = measurement(broker, &timed, began, before);
    let measurement = with_memory_each(measurement, before, queues.n);
    client.close();
    Ok(measurement)
}

/// Opens `n` connections, which stay open as long as they are kept.
pub(crate) fn open_connections(
    broker: &Broker,
    n: u32,
) -> anyhow::Result<(Measurement, Vec<Client>)> {
    let before = broker.usage();
    let began = Instant::now();
    let mut timed = Timed::new();
    let mut clients = Vec::new();
    for _ in 0..n {
        clients.push(timed.time(|| broker.connect("leveret bench crowd"))?);
    }
    Ok((with_memory_each(measurement(broker, &timed, began, before), before, n), clients))
}

fn measurement(
    broker: &Broker,
    timed: &Timed,
    began: Instant,
    before: Option<perf::process::Usage>,
) -> Measurement {
    let seconds = began.elapsed().as_secs_f64();
    let after = broker.usage();
    let mut measurement = Measurement { seconds, ..Measurement::default() };
    let n = timed.0.len() as f64;
    let quantile = |quantile| timed.0.value_at_quantile(quantile) as f64;
    measurement.set(Metric::Duration, seconds);
    measurement.set(Metric::OperationRate, n / seconds.max(f64::EPSILON));
    measurement.set(Metric::OperationMedian, quantile(0.5));
    measurement.set(Metric::OperationP99, quantile(0.99));
    if let Some((before, after)) = before.zip(after) {
        measurement.set(Metric::Memory, after.rss_bytes as f64);
        measurement.set_cpu(Metric::CpuPerOperation, after.cpu_s - before.cpu_s, n);
    }
    measurement
}

/// Of crowds that would not show in the memory of a process, nothing is told.
fn with_memory_each(
    mut measurement: Measurement,
    before: Option<perf::process::Usage>,
    n: u32,
) -> Measurement {
    const CROWD_MIN: u32 = 100;
    let after = measurement.values.get(&Metric::Memory).copied();
    if let Some((before, after)) = before.zip(after).filter(|_| n >= CROWD_MIN) {
        let grown = (after - before.rss_bytes as f64).max(0.0);
        measurement.set(Metric::MemoryEach, grown / f64::from(n));
    }
    measurement
}
