//! The links of a run: where they lead, what they ask for, and how they are attached.

use amqp10::{
    Attach, DeliveryState, LinkTarget, MapRef, Performative, Role, SenderSettleMode, SerialNumber,
    SourceTerminus, TargetTerminus, ValueRef, put_described, put_map,
};
use amqp091::Value;

use super::transfer::{HANDLE, value_ref};

/// The descriptor of a described value.
const DESCRIBED: u8 = 0;
/// Percent of what an outcome's rate is of.
const ALL: u64 = 100;

/// The sides of a run that speak AMQP 1.0; the others speak AMQP 0-9-1.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// Addresses of publishers, by number.
    pub(crate) targets: Option<Vec<String>>,
    pub(crate) sources: Option<Sources>,
    /// Application properties, or headers, of messages in turn; without any, all are alike.
    pub(crate) properties: Vec<Vec<(String, Value)>>,
}

/// The links of consumers.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Addresses of consumers, by number.
    pub(crate) addresses: Vec<String>,
    pub(crate) filters: Vec<Filter>,
    pub(crate) priority: Option<i32>,
    pub(crate) receiving: Receiving,
}

/// A consumer's way to take deliveries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Receiving {
    pub(crate) credits: u32,
    /// Deliveries that are answered at once, at most; 0 for as many as come at once.
    pub(crate) every: u32,
    /// Of 100 deliveries, those that are rejected, and those that are released.
    pub(crate) rejected: u64,
    pub(crate) released: u64,
}

impl Receiving {
    /// The outcome of the delivery with this number, from 1.
    #[inline]
    pub(super) fn outcome(self, number: u64) -> DeliveryState<'static> {
        let at = (number - 1) % ALL;
        if at < self.rejected {
            DeliveryState::rejected(None)
        } else if at < self.rejected + self.released {
            DeliveryState::RELEASED
        } else {
            DeliveryState::ACCEPTED
        }
    }
}

/// A filter of a source: its name and its value as it is encoded, with a descriptor.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(super) name: &'static str,
    bytes: Vec<u8>,
}

impl Filter {
    /// The place where a stream's consumer begins.
    pub(super) fn offset(offset: &Value) -> Self {
        let value = if let Value::Timestamp(s) = offset {
            ValueRef::Timestamp(i64::try_from(*s).unwrap_or(0) * 1000)
        } else {
            value_ref(offset)
        };
        Self::named("rabbitmq:stream-offset-spec", |out| value.encode(out))
    }

    /// Application properties that have these values.
    pub(super) fn properties(values: &[(String, Value)]) -> Self {
        Self::named("amqp:application-properties-filter", |out| {
            put_map(out, |items| {
                for (name, value) in values {
                    items.put(ValueRef::Str(name));
                    items.put(value_ref(value));
                }
            });
        })
    }

    /// A condition in SQL.
    pub(super) fn sql(condition: &str) -> Self {
        const CODE: u64 = 0x120;
        let mut bytes = Vec::new();
        put_described(&mut bytes, CODE);
        ValueRef::Str(condition).encode(&mut bytes);
        Self { name: "sql-filter", bytes }
    }

    fn named(name: &'static str, put: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut bytes = vec![DESCRIBED];
        ValueRef::Symbol(name).encode(&mut bytes);
        put(&mut bytes);
        Self { name, bytes }
    }

    fn value(&self) -> ValueRef<'_> {
        ValueRef::decode(&self.bytes).map_or(ValueRef::Null, |(value, _)| value)
    }
}

impl Sources {
    /// Appends the attach of a consumer.
    pub(super) fn put_attach(&self, address: &str, is_settled: bool, out: &mut Vec<u8>) {
        let (mut filters, mut properties) = (Vec::new(), Vec::new());
        put_map(&mut filters, |items| {
            self.filters.iter().for_each(|one| items.put_symbol(one.name, one.value()));
        });
        put_map(&mut properties, |items| {
            if let Some(priority) = self.priority {
                items.put_symbol("rabbitmq:priority", ValueRef::I32(priority));
            }
        });
        let source = SourceTerminus {
            address: Some(ValueRef::Str(address)),
            filter: Some(MapRef::decode(&filters)),
            ..SourceTerminus::default()
        };
        let attach = Attach {
            initial_delivery_count: None,
            properties: MapRef::decode(&properties),
            ..attach(Role::Receiver, is_settled, source, None)
        };
        Performative::Attach(Box::new(attach)).encode_frame(0, out);
    }

    /// The first filter that is not among these.
    pub(super) fn missing_filter(&self, granted: MapRef<'_>) -> Option<&'static str> {
        let is_granted = |filter: &&Filter| {
            granted.iter().any(|(name, _)| name == ValueRef::Symbol(filter.name))
        };
        self.filters.iter().find(|filter| !is_granted(filter)).map(|filter| filter.name)
    }
}

/// Appends the attach of a publisher.
pub(super) fn put_attach(address: &str, is_settled: bool, out: &mut Vec<u8>) {
    let attach = attach(Role::Sender, is_settled, SourceTerminus::default(), Some(address));
    Performative::Attach(Box::new(attach)).encode_frame(0, out);
}

fn attach<'a>(
    role: Role,
    is_settled: bool,
    source: SourceTerminus<'a>,
    target: Option<&'a str>,
) -> Attach<'a> {
    let target = TargetTerminus { address: target.map(ValueRef::Str), ..TargetTerminus::default() };
    Attach {
        name: "leveret-perf",
        handle: HANDLE,
        role,
        snd_settle_mode: match is_settled {
            true => SenderSettleMode::Settled,
            false => SenderSettleMode::Unsettled,
        },
        source: Some(source),
        target: Some(LinkTarget::Terminus(target)),
        initial_delivery_count: Some(SerialNumber::default()),
        ..Attach::default()
    }
}
