//! The options of publishers, consumers and messages.

use std::num::NonZeroU32;

use amqp091::ShortString;

use super::values::{
    invalid, limit, list, number, optional, schedule, seconds, stream_offset, table, truth,
};
use super::{Body, Consuming, Message, Publishing, STAMPED_BYTES, Settle, VERIFIED_BYTES};
use crate::options::{Given, Usage};
use crate::rate::Schedule;

/// The shortest interval PerfTest's scheduler has, in seconds.
const PUBLISHING_INTERVAL_S_MIN: f64 = 0.1;
/// The prefetch of consumers of streams, which do not go without.
const STREAM_PREFETCH: u16 = 200;

pub(super) fn publishing(given: &Given) -> Result<Publishing, Usage> {
    let known = ["persistent", "mandatory", "immediate"];
    if let Some(other) = given.all("flag").find(|flag| !known.contains(flag)) {
        return Err(invalid("flag", other));
    }
    let has_flag = |name: &str| given.all("flag").any(|flag| flag == name);
    let interval: Option<f64> = optional(given, "publishing-interval")?;
    if interval.is_some_and(|s| s.is_nan() || s < PUBLISHING_INTERVAL_S_MIN) {
        return Err(Usage("--publishing-interval is at least 0.1; see --rate".to_owned()));
    }
    if interval.is_some() && (given.has("rate") || given.has("variable-rate")) {
        let why = "--publishing-interval does not go with --rate or --variable-rate";
        return Err(Usage(why.to_owned()));
    }
    let window: i64 = number(given, "confirm", -1)?;
    if window == 0 {
        let why = "--confirm 0 would bound nothing: 1 or more is a window, -1 is no confirms";
        return Err(Usage(why.to_owned()));
    }
    let window = u32::try_from(window.max(0)).map_err(|_| invalid("confirm", "it"))?;
    let rate: Option<f64> = optional::<f64>(given, "rate")?.filter(|rate| *rate >= 0.0);
    let rate = rate.or_else(|| interval.map(f64::recip)).map(Schedule::constant);
    Ok(Publishing {
        n_connections: number(given, "producers", 1)?,
        n_channels: number(given, "producer-channel-count", 1)?,
        rate: schedule(given, "variable-rate")?.or(rate),
        limit: limit(given, "pmessages")?,
        confirm_window: NonZeroU32::new(window),
        confirm_timeout_ns: match seconds(given, "confirm-timeout", 30.0)? {
            0 if number(given, "confirm-timeout", 0.0)? < 0.0 => u64::MAX,
            timeout => timeout,
        },
        resend: given.has("resend"),
        mandatory: has_flag("mandatory"),
        immediate: has_flag("immediate"),
        random_start_ns: seconds(given, "producer-random-start-delay", 0.0)?,
    })
}

pub(super) fn consuming(given: &Given) -> Result<Consuming, Usage> {
    let every: u64 = number(given, "multi-ack-every", 0)?;
    let prefetch = match number(given, "qos", 0)? {
        0 if given.has("stream-queue") => STREAM_PREFETCH,
        prefetch => prefetch,
    };
    if prefetch > 0 && every > u64::from(prefetch) {
        return Err(Usage("--multi-ack-every is at most --qos".to_owned()));
    }
    let every = every.max(1);
    let settle = match (given.has("autoack"), given.has("nack")) {
        (true, _) => Settle::Automatic,
        (false, false) => Settle::Ack { every },
        (false, true) => Settle::Nack { every, requeue: truth(given, "requeue", true)? },
    };
    let hold = hold(given)?;
    let mut arguments = table(given, "consumer-args")?;
    if let Some(offset) = given.last("stream-consumer-offset") {
        let offset =
            stream_offset(offset).ok_or_else(|| invalid("stream-consumer-offset", offset))?;
        arguments.insert(ShortString::from_static("x-stream-offset"), offset);
    }
    Ok(Consuming {
        n_connections: number(given, "consumers", 1)?,
        n_channels: number(given, "consumer-channel-count", 1)?,
        settle,
        prefetch,
        prefetch_channel: number(given, "global-qos", 0)?,
        limit: limit(given, "cmessages")?,
        hold,
        arguments,
        start_delay_ns: seconds(given, "consumer-start-delay", 0.0)?,
        slow_start: given.has("slow-start"),
    })
}

/// A consumer's time per message, in nanoseconds: its latency, but no less than the rate leaves.
fn hold(given: &Given) -> Result<Option<Schedule>, Usage> {
    let rate = optional::<f64>(given, "consumer-rate")?.filter(|rate| *rate > 0.0);
    let least = rate.map_or(0.0, f64::recip) * 1e9;
    let us_to_ns = |us: f64| (us * 1e3).max(least);
    let fixed = Some(us_to_ns(number(given, "consumer-latency", 0.0)?)).filter(|ns| *ns > 0.0);
    let variable = schedule(given, "variable-latency")?.map(|steps| steps.map(us_to_ns));
    Ok(variable.or_else(|| fixed.map(Schedule::constant)))
}

pub(super) fn message(given: &Given, verify: bool) -> Result<Message, Usage> {
    let properties = table(given, "message-properties")?.into_iter();
    let random_keys_max = number(given, "routing-key-cache-size", 0)?;
    let of_json = given.has("json-body").then_some("application/json");
    Ok(Message {
        body: body(given, verify)?,
        persistent: super::is_persistent(given),
        content_type: given.last("body-content-type").or(of_json).map(str::to_owned),
        properties: properties.map(|(name, value)| (name.to_text().into_owned(), value)).collect(),
        random_key: given.has("random-routing-key") || random_keys_max > 0,
        random_keys_max,
        use_millis: given.has("use-millis"),
    })
}

fn body(given: &Given, verify: bool) -> Result<Body, Usage> {
    let least = if verify { VERIFIED_BYTES } else { STAMPED_BYTES };
    let size = number(given, "size", least)?.max(least);
    if given.has("body") {
        return Ok(Body::Files(list(given, "body")));
    }
    if given.has("json-body") {
        let n_bodies = number(given, "body-count", 100)?.max(1);
        let n_fields = number(given, "body-field-count", 1000)?.max(1);
        return Ok(Body::Json { size, n_bodies, n_fields });
    }
    let (size, least) = (size as f64, least as f64);
    let steps = schedule(given, "variable-size")?;
    let steps = steps.map(|steps| steps.map(|size| size.max(least)));
    Ok(Body::Stamped(steps.unwrap_or_else(|| Schedule::constant(size))))
}
