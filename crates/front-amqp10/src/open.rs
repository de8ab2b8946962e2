//! The opens of a connection: the client's checked, the server's made.

use crate::fault::ProtocolFault;
use crate::settings::ConnectionSettings;
use crate::topics::SHARED_SUBSCRIPTIONS;
use amqp10::{
    Condition, FRAME_BYTES_MIN_MAX, MapRef, Open, Performative, Symbols, ValueRef, put_map,
};
use stdx::RABBITMQ_VERSION;

/// The shortest time for which a client may bear silence, in milliseconds. COMPAT: RabbitMQ's.
const IDLE_TIME_OUT_MIN_MS: u32 = 1_000;

/// The capability of a connection that is the only one of its container, and the wish to be that.
pub const SOLE_CONNECTION: &str = "sole-connection-for-container";
/// The property of the open of a connection that is closed at once.
const OPEN_FAILED: &str = "amqp:connection-establishment-failed";

/// The limits that a client has opened its connection with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOpen {
    /// The client's name for itself.
    pub container_id: String,
    /// Whether no other connection may have that name.
    pub is_sole: bool,
    /// Whether the client knows what brokers of JMS have.
    pub is_of_jms: bool,
    /// The virtual host asked for.
    pub vhost: String,
    /// The largest frame that the client takes, in bytes.
    pub frame_bytes_max: u32,
    /// The highest number of a channel.
    pub channel_max: u16,
    /// Milliseconds of silence that the client bears; 0 for any.
    pub idle_time_out_ms: u32,
    /// The client's own description: an encoded map.
    pub properties: Vec<u8>,
}

impl ClientOpen {
    pub(crate) fn new(open: &Open<'_>, settings: &ConnectionSettings) -> Self {
        // COMPAT: a host without this prefix is the machine's name.
        let vhost = open.hostname.and_then(|name| name.strip_prefix("vhost:"));
        let mut properties = Vec::new();
        ValueRef::Map(open.properties).encode(&mut properties);
        Self {
            container_id: open.container_id.to_owned(),
            is_sole: open.desired_capabilities.contains(SOLE_CONNECTION),
            is_of_jms: open.desired_capabilities.contains(SHARED_SUBSCRIPTIONS),
            vhost: vhost.unwrap_or(&settings.default_vhost).to_owned(),
            frame_bytes_max: open.max_frame_size,
            channel_max: open.channel_max.min(settings.sessions_max.saturating_sub(1)),
            idle_time_out_ms: open.idle_time_out.unwrap_or(0),
            properties,
        }
    }

    /// Checks the limits. COMPAT: RabbitMQ's texts.
    pub(crate) fn check(&self) -> Result<(), ProtocolFault> {
        let Self { frame_bytes_max, idle_time_out_ms, .. } = *self;
        if frame_bytes_max < FRAME_BYTES_MIN_MAX {
            return Err(ProtocolFault::connection(
                Condition::FrameSizeTooSmall,
                format!(
                    "max_frame_size ({frame_bytes_max}) < minimum maximum frame size ({FRAME_BYTES_MIN_MAX})"
                ),
            ));
        }
        if (1..IDLE_TIME_OUT_MIN_MS).contains(&idle_time_out_ms) {
            return Err(ProtocolFault::connection(
                Condition::NotAllowed,
                format!(
                    "idle-time-out ({idle_time_out_ms} ms) < minimum idle-time-out \
                     ({IDLE_TIME_OUT_MIN_MS} ms)"
                ),
            ));
        }
        Ok(())
    }
}

/// Appends the server's open; `is_refused` says that its close follows.
pub(crate) fn put_open(
    settings: &ConnectionSettings,
    cluster_name: &str,
    channel_max: u16,
    is_refused: bool,
    out: &mut Vec<u8>,
) {
    let mut properties = Vec::new();
    put_map(&mut properties, |items| {
        for (name, text) in [
            ("cluster_name", cluster_name),
            ("copyright", "Copyright (c) the Leveret authors"),
            ("information", "Licensed under the Apache License 2.0"),
            ("leveret_version", env!("CARGO_PKG_VERSION")),
            ("node", &settings.node_name),
            ("platform", "Leveret"),
            // COMPAT: clients look at product and version to know what they may use.
            ("product", "RabbitMQ"),
            ("version", RABBITMQ_VERSION),
        ] {
            items.put_symbol(name, ValueRef::Str(text));
        }
        if is_refused {
            items.put_symbol(OPEN_FAILED, ValueRef::Bool(true));
        }
    });
    let open = Open {
        container_id: cluster_name,
        max_frame_size: settings.frame_bytes_max,
        channel_max,
        // Half of the silence that is borne, so that a client may be late.
        idle_time_out: Some(settings.silence_ms_max / 2).filter(|ms| *ms > 0),
        offered_capabilities: Symbols::Listed(&settings.capabilities),
        properties: MapRef::decode(&properties),
        ..Open::default()
    };
    Performative::Open(Box::new(open)).encode_frame(0, out);
}
