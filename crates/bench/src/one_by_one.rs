//! One message at a time through a stream, by a client that does nothing else: beside the same of the floor.

use std::time::{Duration, Instant};

use perf::OneByOne;

use crate::baseline::one_at_a_time;
use crate::broker::Broker;
use crate::measurement::Measurement;

/// Publishes and consumes for some time.
pub(crate) fn measure(broker: &Broker, stream: &str, seconds: f64) -> anyhow::Result<Measurement> {
    let mut client = OneByOne::start(&broker.option.stream_uri(), stream)?;
    let (before, began) = (broker.usage(), Instant::now());
    let mut times_us = Vec::new();
    while began.elapsed() < Duration::from_secs_f64(seconds) {
        times_us.push(client.pass_one()?.as_secs_f64() * 1e6);
    }
    let cpu_s =
        before.zip(broker.usage()).map_or(0.0, |(before, after)| after.cpu_s - before.cpu_s);
    Ok(one_at_a_time(&times_us, began, cpu_s))
}
