//! Super streams: a direct exchange, and streams that are its partitions, each bound with a key and its place
//! among them. As RabbitMQ's plugin `rabbitmq_stream` makes them; others may be made by hand, of any
//! exchange.

use std::collections::BTreeSet;
use std::sync::Arc;

use amqp091::{ShortString, Table, Value};
use routing::{Binding, Destination, ExchangeKind, Name, RoutingKey};
use thiserror::Error;

use crate::checks::check_name;
use crate::command::{
    BindingSpec, Command, DestinationName, ExchangeDeclare, NamedBy, QueueDeclare,
};
use crate::error::MetaError;
use crate::exchange::is_reserved;
use crate::queue::QueueDef;
use crate::queue_home::QueueHome;
use crate::queue_type::QueueKind;
use crate::queues::Queues;
use crate::vhost::Vhost;

/// The longest binding key, in bytes.
const KEY_BYTES_MAX: usize = 255;
const SUPER_STREAM: &str = "x-super-stream";
const ORDER: &str = "x-stream-partition-order";
const LOCATOR: &str = "x-queue-leader-locator";
const LOCATOR_DEFAULT: &str = "balanced";

/// The refusal of a super stream.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SuperStreamError {
    /// The super stream cannot be made, for this reason.
    #[error("{0}")]
    Invalid(String),
    /// An exchange, or a queue, of that name exists.
    #[error("there is already {0}")]
    Exists(String),
    /// No exchange of that name exists.
    #[error("stream not found")]
    NotFound,
    /// The definitions refuse a part of the super stream.
    #[error(transparent)]
    Refused(#[from] MetaError),
}

/// A super stream that is to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct SuperStream {
    /// Its name, without CR and LF.
    pub name: Name,
    /// The names of its partitions.
    pub partitions: Vec<Name>,
    /// The key of each.
    pub keys: Vec<RoutingKey>,
    /// The arguments of each, those of [`stream_arguments`](crate::stream_arguments).
    pub arguments: Table,
}

impl SuperStream {
    /// A super stream of `n` partitions with the keys 0 to n - 1.
    #[must_use]
    pub fn numbered(name: &str, n: u64, arguments: Table) -> Self {
        Self::keyed(name, (0..n).map(|number| number.to_string()), arguments)
    }

    /// A super stream with a partition for each key.
    #[must_use]
    pub fn keyed<K: AsRef<str>>(
        name: &str,
        keys: impl IntoIterator<Item = K>,
        arguments: Table,
    ) -> Self {
        let of_key = |key: K| {
            let partition = Name::from(format!("{name}-{}", key.as_ref()));
            (partition, RoutingKey::from(key.as_ref()))
        };
        let (partitions, keys) = keys.into_iter().map(of_key).unzip();
        Self { name: Name::from(name), partitions, keys, arguments }
    }

    /// The commands that make the super stream, to be carried out in one step or not at all. Their needs are
    /// checked here but for arguments and for limits beyond the virtual host.
    ///
    /// A super stream has `partitions_max` partitions at most.
    ///
    /// # Errors
    /// [`SuperStreamError::Invalid`], [`SuperStreamError::Exists`].
    pub fn create(
        &self,
        vhost: &Vhost,
        partitions_max: Option<u64>,
    ) -> Result<Vec<Command>, SuperStreamError> {
        self.check(vhost, partitions_max)?;
        let mut arguments = self.arguments.clone();
        if arguments.get(LOCATOR.as_bytes()).is_none() {
            arguments.push(ShortString::from_static(LOCATOR), LOCATOR_DEFAULT);
        }
        let mut commands = vec![self.declare_exchange(vhost)];
        commands.extend(self.partitions.iter().map(|partition| {
            Command::DeclareQueue(QueueDeclare {
                vhost: vhost.name.clone(),
                name: partition.clone(),
                named_by: NamedBy::Client,
                durable: true,
                auto_delete: false,
                exclusive_owner: None,
                arguments: arguments.clone(),
                id: None,
                home: QueueHome::default(),
            })
        }));
        let bound = self.partitions.iter().zip(&self.keys).zip(0_i64..);
        commands.extend(bound.map(|((partition, key), order)| {
            Command::Bind(BindingSpec {
                vhost: vhost.name.clone(),
                source: self.name.clone(),
                destination: DestinationName::Queue(partition.clone()),
                key: key.clone(),
                arguments: one(ORDER, Value::from(order)),
                by: None,
            })
        }));
        Ok(commands)
    }

    fn declare_exchange(&self, vhost: &Vhost) -> Command {
        Command::DeclareExchange(ExchangeDeclare {
            vhost: vhost.name.clone(),
            name: self.name.clone(),
            kind: ExchangeKind::Direct,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: one(SUPER_STREAM, Value::from(true)),
        })
    }

    /// COMPAT: RabbitMQ's texts, in its order.
    fn check(&self, vhost: &Vhost, partitions_max: Option<u64>) -> Result<(), SuperStreamError> {
        let (name, n) = (&self.name, self.partitions.len());
        let invalid = |text: String| Err(SuperStreamError::Invalid(text));
        // First of all: what follows is looked at for each partition.
        if let Some(most) = partitions_max.filter(|most| n as u64 > *most) {
            return invalid(format!("The partition number must not exceed {most}"));
        }
        if n != self.keys.len() {
            return invalid(
                "There must be the same number of partitions and binding keys".to_owned(),
            );
        }
        if self.partitions.iter().collect::<BTreeSet<_>>().len() != n {
            return invalid(format!(
                "Duplicate partition names found {}",
                self.partitions.join("")
            ));
        }
        if let Some(wrong) = self.partitions.iter().find(|partition| !is_name(partition)) {
            return invalid(format!("{wrong} is not a correct partition names"));
        }
        if self.keys.iter().any(|key| key.as_bytes().len() > KEY_BYTES_MAX) {
            return invalid(format!("A binding key has more than {KEY_BYTES_MAX} bytes"));
        }
        if let Some(limit) = vhost.queue_limit_exceeded_by(n) {
            return invalid(format!(
                "Cannot declare super stream {name} with {n} partition(s) because queue limit \
                 {limit} in vhost '{}' is reached",
                vhost.name
            ));
        }
        if !is_name(name) {
            return invalid(format!("{name} is not a correct name for a super stream"));
        }
        if vhost.exchange(name).is_some() {
            return Err(SuperStreamError::Exists(format!("an exchange named {name}")));
        }
        let exists = self.partitions.iter().find(|partition| vhost.queue(partition).is_some());
        exists
            .map_or(Ok(()), |queue| Err(SuperStreamError::Exists(format!("a queue named {queue}"))))
    }
}

/// The commands that delete a super stream with its partitions. COMPAT: any exchange is one, but those that
/// cannot be deleted.
///
/// # Errors
/// [`SuperStreamError::NotFound`]; [`SuperStreamError::Invalid`] for an exchange that cannot be deleted.
pub fn delete_super_stream(
    vhost: &Vhost,
    queues: &Queues,
    name: &str,
) -> Result<Vec<Command>, SuperStreamError> {
    let exchange = vhost.exchange(name).ok_or(SuperStreamError::NotFound)?;
    if exchange.is_predeclared() {
        return Err(SuperStreamError::Invalid(format!("{name} is not a super stream")));
    }
    let mut commands = vec![Command::DeleteExchange {
        vhost: vhost.name.clone(),
        name: exchange.name.clone(),
        if_unused: false,
    }];
    // By their ids: another queue of the name of one that is gone meanwhile is none of them.
    let found = super_stream_bindings(vhost, queues, name).into_iter().flatten().flatten();
    commands.extend(partitions(found).map(|queue| Command::DeleteQueueById { id: queue.id }));
    Ok(commands)
}

/// A stream that an exchange leads to, and its place among the partitions if its binding tells it.
pub type BoundPartition<'s> = (Option<i64>, &'s Arc<QueueDef>);

/// The bindings of a super stream, `None` among them those that lead to no stream; there may be very many.
/// `None` if there is no exchange of that name.
#[must_use]
pub fn super_stream_bindings<'s>(
    vhost: &'s Vhost,
    queues: &'s Queues,
    name: &str,
) -> Option<impl Iterator<Item = Option<BoundPartition<'s>>>> {
    vhost.exchange(name)?;
    let partition = |binding: &'s Arc<Binding>| match &binding.destination {
        Destination::Queue(id) => {
            Some((order_of(&binding.arguments), queues.get(*id).filter(is_stream)?))
        }
        Destination::Exchange(_) => None,
    };
    Some(vhost.routes.bindings_from(name).map(partition))
}

/// The partitions in their order; those without a place come last.
pub fn partitions<'s>(
    bound: impl IntoIterator<Item = BoundPartition<'s>>,
) -> impl Iterator<Item = &'s Arc<QueueDef>> {
    let mut bound: Vec<_> = bound.into_iter().collect();
    bound.sort_by_key(|(order, _)| (order.is_none(), *order));
    bound.into_iter().map(|(_, queue)| queue)
}

/// The partitions that a super stream leads messages with a routing key to, ordered by id; `None` if there is
/// no exchange of that name.
#[must_use]
pub fn super_stream_route(
    vhost: &Vhost,
    queues: &Queues,
    name: &str,
    key: &[u8],
) -> Option<Vec<Name>> {
    vhost.exchange(name)?;
    let mut ids = Vec::new();
    vhost.routes.route(name.as_bytes(), &[key], None, &mut ids);
    let found = ids.into_iter().filter_map(|id| queues.get(id)).filter(is_stream);
    Some(found.map(|queue| queue.name.clone()).collect())
}

/// The place of a stream among the partitions of a super stream. COMPAT: where its binding says nothing, the
/// number at the end of its name; `None` where there is none, or it is no partition.
#[must_use]
pub fn super_stream_partition_index(vhost: &Vhost, name: &str, stream: &str) -> Option<u64> {
    let queue = Destination::Queue(vhost.queue(stream).filter(is_stream)?.id);
    let bindings = vhost.routes.bindings_to(&queue);
    let bound = bindings.filter(|binding| binding.source == name);
    let order =
        bound.map(|binding| order_of(&binding.arguments)).min_by_key(|it| (it.is_none(), *it))?;
    let named = || stream.rsplit_once('-')?.1.parse().ok();
    u64::try_from(order.or_else(named)?).ok()
}

/// A partition's place, which may be a number or its text.
fn order_of(arguments: &Table) -> Option<i64> {
    let order = arguments.get(ORDER.as_bytes())?;
    order.as_i64().or_else(|| order.as_str()?.parse().ok())
}

fn is_stream(queue: &&Arc<QueueDef>) -> bool {
    queue.kind == QueueKind::Stream
}

fn is_name(name: &Name) -> bool {
    check_name("queue", name).is_ok() && !is_reserved(name)
}

fn one(name: &'static str, value: Value) -> Table {
    [(ShortString::from_static(name), value)].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Done, State, VhostLimits, stream_arguments};
    use stdx::Now;

    const V: &str = "/";
    const MOST: Option<u64> = Some(1000);

    fn apply(state: &mut State, command: &Command) -> Done {
        let now = Now::at_ms(0);
        state.apply(now, command).expect("a good command").done
    }

    fn state() -> State {
        let mut state = State::new();
        let metadata = crate::VhostMetadata::default();
        apply(&mut state, &Command::CreateVhost { vhost: Name::from(V), metadata });
        state
    }

    fn vhost(state: &State) -> &Vhost {
        state.vhost(V).expect("it is there")
    }

    fn refusal(state: &State, wanted: &SuperStream) -> String {
        wanted.create(vhost(state), MOST).expect_err("refused").to_string()
    }

    fn make(state: &mut State, wanted: &SuperStream) {
        for command in wanted.create(vhost(state), MOST).expect("a good super stream") {
            apply(state, &command);
        }
    }

    fn arguments() -> Table {
        stream_arguments([]).expect("no numbers")
    }

    fn names(names: &[&str]) -> Vec<Name> {
        names.iter().map(|name| Name::from(*name)).collect()
    }

    #[test]
    fn a_super_stream_is_an_exchange_with_streams_in_their_order() {
        let state = state();
        let arguments = stream_arguments([("max-age", "1h"), ("max-length-bytes", "5")]).unwrap();
        let commands =
            SuperStream::numbered("s", 2, arguments).create(vhost(&state), MOST).unwrap();
        let [
            Command::DeclareExchange(exchange),
            Command::DeclareQueue(first),
            Command::DeclareQueue(second),
            Command::Bind(to_first),
            Command::Bind(to_second),
        ] = commands.as_slice()
        else {
            panic!("{commands:?}")
        };
        assert_eq!((&*exchange.name, exchange.kind), ("s", ExchangeKind::Direct));
        assert_eq!(exchange.arguments, one("x-super-stream", Value::Bool(true)));
        assert_eq!((&*first.name, &*second.name), ("s-0", "s-1"));
        let expected = [
            ("x-queue-type", Value::from("stream")),
            ("x-max-age", Value::from("1h")),
            ("x-max-length-bytes", Value::I64(5)),
            ("x-queue-leader-locator", Value::from("balanced")),
        ];
        let expected = expected.map(|(name, value)| (ShortString::from_static(name), value));
        assert_eq!(first.arguments, expected.into_iter().collect());
        assert!(first.durable && second.arguments == first.arguments);
        for (binding, (key, order)) in [to_first, to_second].into_iter().zip([("0", 0), ("1", 1)]) {
            assert_eq!((&*binding.source, &binding.key), ("s", &RoutingKey::from(key)));
            assert_eq!(binding.arguments, one("x-stream-partition-order", Value::I64(order)));
        }
    }

    #[test]
    fn arguments_as_text_are_those_of_queues() {
        let given = [("queue-leader-locator", "client-local"), ("unknown", "x")];
        let arguments = stream_arguments(given).unwrap();
        assert_eq!(arguments.len(), 2);
        let wanted = SuperStream::numbered("s", 1, arguments);
        let commands = wanted.create(vhost(&state()), MOST).unwrap();
        let Some(Command::DeclareQueue(declare)) = commands.get(1) else { panic!("a queue") };
        let locator = declare.arguments.get(b"x-queue-leader-locator");
        assert_eq!(locator, Some(&Value::from("client-local")));
        let error = stream_arguments([("max-length-bytes", "many")]).unwrap_err();
        assert_eq!(error.to_string(), "max-length-bytes is not a number: many");
    }

    #[test]
    fn bad_ones_are_refused_with_a_text() {
        let mut state = state();
        let none = Table::new;
        let uneven = SuperStream { keys: Vec::new(), ..SuperStream::numbered("s", 1, none()) };
        let text = "There must be the same number of partitions and binding keys";
        assert_eq!(refusal(&state, &uneven), text);
        let twice = SuperStream::keyed("s", ["a", "a"], none());
        assert_eq!(refusal(&state, &twice), "Duplicate partition names found s-as-a");
        let reserved = SuperStream::keyed("amq.s", ["a"], none());
        assert_eq!(refusal(&state, &reserved), "amq.s-a is not a correct partition names");
        let unnamed = SuperStream::keyed("", ["a"], none());
        assert_eq!(refusal(&state, &unnamed), " is not a correct name for a super stream");
        let many = |n| SuperStream::numbered("s", n, none());
        assert!(many(1000).create(vhost(&state), MOST).is_ok());
        let text = "The partition number must not exceed 1000";
        assert_eq!(refusal(&state, &many(1001)), text);
        assert!(many(1001).create(vhost(&state), None).is_ok());
        let long =
            SuperStream { keys: vec![RoutingKey::from("k".repeat(256).as_str())], ..many(1) };
        assert_eq!(refusal(&state, &long), "A binding key has more than 255 bytes");
        make(&mut state, &many(2));
        assert_eq!(refusal(&state, &many(2)), "there is already an exchange named s");
        let delete = delete_super_stream(vhost(&state), state.queues(), "s").unwrap();
        apply(&mut state, &delete[0]);
        assert_eq!(refusal(&state, &many(2)), "there is already a queue named s-0");
        let limits = VhostLimits { max_queues: Some(3), ..VhostLimits::default() };
        apply(&mut state, &Command::SetVhostLimits { vhost: Name::from(V), limits });
        let other = |n| SuperStream::numbered("other", n, none());
        assert!(other(1).create(vhost(&state), MOST).is_ok());
        let text = "Cannot declare super stream other with 2 partition(s) because queue limit 3 in \
                    vhost '/' is reached";
        assert_eq!(refusal(&state, &other(2)), text);
    }

    #[test]
    fn partitions_are_found_in_their_order_and_by_key() {
        let mut state = state();
        make(&mut state, &SuperStream::numbered("s", 12, arguments()));
        let of = |state: &State, name| {
            let bound = super_stream_bindings(vhost(state), state.queues(), name)?;
            Some(partitions(bound.flatten()).map(|it| it.name.clone()).collect::<Vec<_>>())
        };
        let expected: Vec<Name> = (0..12).map(|n| Name::from(format!("s-{n}"))).collect();
        let by_key = |key: &[u8]| super_stream_route(vhost(&state), state.queues(), "s", key);
        assert_eq!(by_key(b"11"), Some(names(&["s-11"])));
        assert_eq!(by_key(b"12"), Some(names(&[])));
        assert_eq!(of(&state, "s"), Some(expected));
        assert_eq!(of(&state, "none"), None);
        assert_eq!(super_stream_route(vhost(&state), state.queues(), "none", b"1"), None);
        // A binding without an order comes last, one that says it as text has its place.
        let bind = |queue: &str, arguments: Table| {
            Command::Bind(BindingSpec {
                vhost: Name::from(V),
                source: Name::from("s"),
                destination: DestinationName::Queue(Name::from(queue)),
                key: RoutingKey::from("more"),
                arguments,
                by: None,
            })
        };
        apply(&mut state, &bind("s-0", Table::new()));
        apply(&mut state, &bind("s-3", one(ORDER, Value::from("-1"))));
        // A queue that is no stream is none of its partitions.
        let classic = QueueDeclare {
            vhost: Name::from(V),
            name: Name::from("classic"),
            named_by: NamedBy::Client,
            durable: true,
            auto_delete: false,
            exclusive_owner: None,
            arguments: Table::new(),
            id: None,
            home: QueueHome::default(),
        };
        apply(&mut state, &Command::DeclareQueue(classic));
        apply(&mut state, &bind("classic", Table::new()));
        let found = of(&state, "s").unwrap();
        assert_eq!(found.len(), 14);
        assert_eq!((&*found[0], &*found[13]), ("s-3", "s-0"));
    }

    #[test]
    fn a_partition_has_its_place_from_its_binding_or_its_name() {
        let mut state = state();
        make(&mut state, &SuperStream::keyed("s", ["eu", "us"], arguments()));
        let place =
            |state: &State, stream: &str| super_stream_partition_index(vhost(state), "s", stream);
        assert_eq!((place(&state, "s-eu"), place(&state, "s-us")), (Some(0), Some(1)));
        assert_eq!((place(&state, "none"), place(&state, "s-7")), (None, None));
        assert_eq!(super_stream_partition_index(vhost(&state), "none", "s-eu"), None);
        make(&mut state, &SuperStream::keyed("other", ["7", "x", "-7"], arguments()));
        for stream in ["other-7", "other-x", "other--7"] {
            apply(
                &mut state,
                &Command::Bind(BindingSpec {
                    vhost: Name::from(V),
                    source: Name::from("s"),
                    destination: DestinationName::Queue(Name::from(stream)),
                    key: RoutingKey::from(stream),
                    arguments: Table::new(),
                    by: None,
                }),
            );
        }
        let places = ["other-7", "other-x", "other--7"].map(|stream| place(&state, stream));
        assert_eq!(places, [Some(7), None, Some(7)]);
    }

    #[test]
    fn a_super_stream_is_deleted_with_what_is_a_stream_of_it() {
        let mut state = state();
        make(&mut state, &SuperStream::keyed("s", ["eu", "us"], arguments()));
        let delete = |name| delete_super_stream(vhost(&state), state.queues(), name);
        let exchange = Command::DeleteExchange {
            vhost: Name::from(V),
            name: Name::from("s"),
            if_unused: false,
        };
        let stream =
            |name| Command::DeleteQueueById { id: state.queue(V, name).expect("a stream").id };
        assert_eq!(delete("s"), Ok(vec![exchange, stream("s-eu"), stream("s-us")]));
        assert_eq!(delete("none"), Err(SuperStreamError::NotFound));
        let text = "amq.direct is not a super stream".to_owned();
        assert_eq!(delete("amq.direct"), Err(SuperStreamError::Invalid(text)));
    }
}
