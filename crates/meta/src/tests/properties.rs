//! Random commands, and what must hold after every one of them.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const NAMES: [&str; 3] = ["a", "b", "c"];

pub(super) fn one_of(names: &'static [&'static str]) -> impl Strategy<Value = Name> {
    prop::sample::select(names).prop_map(Name::from)
}

fn vhost() -> impl Strategy<Value = Name> {
    prop_oneof![12 => Just(name(V)), 1 => Just(name("v"))]
}

pub(super) fn some_name() -> impl Strategy<Value = Name> {
    one_of(&NAMES)
}

fn arguments() -> impl Strategy<Value = Table> {
    let argument = prop_oneof![
        Just(("x-message-ttl", Value::I32(5))),
        Just(("x-message-ttl", Value::I64(-1))),
        Just(("x-foo", Value::Array(vec![Value::Void, Value::F64(1.5)]))),
        Just(("alternate-exchange", Value::from("b"))),
        Just(("x-match", Value::from("any"))),
        Just(("h", Value::from("1"))),
    ];
    prop_oneof![
        8 => Just(Table::new()),
        1 => prop::collection::vec(argument, 1..3).prop_map(|entries| table(&entries)),
    ]
}

fn connection() -> impl Strategy<Value = Option<ConnectionId>> {
    prop_oneof![2 => Just(None), 1 => (1u64..3).prop_map(|id| Some(ConnectionId(id)))]
}

fn home() -> impl Strategy<Value = QueueHome> {
    let elsewhere = (1u16..4, 0u32..4).prop_map(|(node, boot)| QueueHome { node, boot });
    prop_oneof![1 => Just(QueueHome::default()), 1 => elsewhere]
}

fn binding() -> impl Strategy<Value = BindingSpec> {
    let source = prop_oneof![6 => some_name(), 1 => one_of(&["amq.topic", "amq.match", ""])];
    let destination = prop_oneof![
        2 => some_name().prop_map(DestinationName::Queue),
        1 => some_name().prop_map(DestinationName::Exchange),
    ];
    (vhost(), source, destination, prop::sample::select(&["", "k"][..]), arguments(), connection())
        .prop_map(|(vhost, source, destination, key, arguments, by)| BindingSpec {
            vhost,
            source,
            destination,
            key: RoutingKey::from(key),
            arguments,
            by,
        })
}

fn resource() -> impl Strategy<Value = Command> {
    let kind = prop::sample::select(&ExchangeKind::ALL[..]);
    let flags = || (any::<bool>(), any::<bool>());
    prop_oneof![
        4 => (vhost(), some_name(), kind, flags(), any::<bool>(), arguments()).prop_map(
            |(vhost, name, kind, (durable, auto_delete), internal, arguments)| {
                Command::DeclareExchange(ExchangeDeclare {
                    vhost, name, kind, durable, auto_delete, internal, arguments,
                })
            }
        ),
        1 => (vhost(), some_name(), any::<bool>()).prop_map(|(vhost, name, if_unused)| {
            Command::DeleteExchange { vhost, name, if_unused }
        }),
        4 => (vhost(), some_name(), flags(), connection(), arguments(), home()).prop_map(
            |(vhost, name, (durable, auto_delete), exclusive_owner, arguments, home)| {
                Command::DeclareQueue(QueueDeclare {
                    vhost,
                    name,
                    named_by: NamedBy::Client,
                    durable,
                    auto_delete,
                    exclusive_owner,
                    arguments,
                    id: None,
                    home,
                })
            }
        ),
        1 => (vhost(), some_name(), connection())
            .prop_map(|(vhost, name, by)| Command::DeleteQueue { vhost, name, by }),
        1 => (1u64..9).prop_map(|id| Command::DeleteQueueById { id: QueueId(id) }),
        1 => (1u64..3).prop_map(|id| Command::DeleteExclusiveQueues { owner: ConnectionId(id) }),
        8 => binding().prop_map(Command::Bind),
        3 => binding().prop_map(Command::Unbind),
    ]
}

fn limit() -> impl Strategy<Value = Option<i64>> {
    prop::option::of(-1i64..4)
}

fn settings() -> impl Strategy<Value = Command> {
    let metadata = || {
        (any::<bool>(), prop::collection::vec(some_name(), 0..2), prop::option::of(Just("classic")))
            .prop_map(|(is_told, tags, kind)| VhostMetadata {
                description: if is_told { "told".to_owned() } else { String::new() },
                tags,
                default_queue_type: kind.map(Name::from),
                protected_from_deletion: false,
            })
    };
    let scope = || prop_oneof![Just(PolicyScope::User), Just(PolicyScope::Operator)];
    let definition =
        prop::sample::select(&["{\"expires\":1}", "{\"alternate-exchange\":\"a\"}", "{}", "3"][..]);
    let apply_to = prop::sample::select(&ApplyTo::ALL[..]);
    let json = || Just(Json::parse("[null, 1.5]").unwrap());
    prop_oneof![
        2 => (vhost(), metadata())
            .prop_map(|(vhost, metadata)| Command::CreateVhost { vhost, metadata }),
        1 => (vhost(), metadata())
            .prop_map(|(vhost, metadata)| Command::UpdateVhost { vhost, metadata }),
        1 => vhost().prop_map(|vhost| Command::DeleteVhost { vhost }),
        1 => (vhost(), limit(), limit()).prop_map(|(vhost, max_connections, max_queues)| {
            let limits = VhostLimits { max_connections, max_queues };
            Command::SetVhostLimits { vhost, limits }
        }),
        2 => (scope(), vhost(), some_name(), definition, apply_to, any::<i64>()).prop_map(
            |(scope, vhost, name, definition, apply_to, priority)| {
                let definition = Json::parse(definition).unwrap();
                let pattern = name.to_string();
                let policy = PolicySpec { name, pattern, apply_to, definition, priority };
                Command::SetPolicy { scope, vhost, policy }
            }
        ),
        1 => (scope(), vhost(), some_name())
            .prop_map(|(scope, vhost, name)| Command::ClearPolicy { scope, vhost, name }),
        1 => (vhost(), some_name(), some_name(), json()).prop_map(
            |(vhost, component, name, value)| {
                Command::SetParameter { vhost, component, name, value }
            }
        ),
        1 => (vhost(), some_name(), some_name()).prop_map(|(vhost, component, name)| {
            Command::ClearParameter { vhost, component, name }
        }),
        1 => (some_name(), json())
            .prop_map(|(name, value)| Command::SetGlobalParameter { name, value }),
        1 => some_name().prop_map(|name| Command::ClearGlobalParameter { name }),
    ]
}

fn access() -> impl Strategy<Value = Command> {
    let password =
        || (any::<Salt>(), "[a-z]{0,2}").prop_map(|(salt, text)| PasswordHash::new(salt, &text));
    let tags = || prop::collection::vec(some_name(), 0..3);
    let pattern = || prop::sample::select(&["", ".*", "^a", "("][..]).prop_map(str::to_owned);
    prop_oneof![
        3 => (some_name(), password(), tags())
            .prop_map(|(user, password, tags)| Command::CreateUser { user, password, tags }),
        1 => (some_name(), password())
            .prop_map(|(user, password)| Command::SetPassword { user, password }),
        1 => (some_name(), tags()).prop_map(|(user, tags)| Command::SetUserTags { user, tags }),
        1 => (some_name(), limit(), limit()).prop_map(|(user, max_connections, max_channels)| {
            let limits = UserLimits { max_connections, max_channels };
            Command::SetUserLimits { user, limits }
        }),
        1 => some_name().prop_map(|user| Command::DeleteUser { user }),
        3 => (some_name(), vhost(), pattern(), pattern(), pattern()).prop_map(
            |(user, vhost, configure, write, read)| {
                Command::SetPermissions { user, vhost, configure, write, read }
            }
        ),
        1 => (some_name(), vhost())
            .prop_map(|(user, vhost)| Command::ClearPermissions { user, vhost }),
        2 => (some_name(), vhost(), some_name(), pattern(), pattern()).prop_map(
            |(user, vhost, exchange, write, read)| {
                Command::SetTopicPermissions { user, vhost, exchange, write, read }
            }
        ),
        1 => (some_name(), vhost(), prop::option::of(some_name())).prop_map(
            |(user, vhost, exchange)| Command::ClearTopicPermissions { user, vhost, exchange }
        ),
    ]
}

fn node() -> impl Strategy<Value = Command> {
    let no = || 0u16..5;
    let number = prop_oneof![3 => Just(None), 1 => no().prop_map(Some)];
    prop_oneof![
        3 => (number, some_name(), 1u64..3).prop_map(|(no, name, token)| {
            let address = ClusterAddress { host: name.clone(), port: 25672 };
            Command::NodeJoined { no, name, address, token }
        }),
        2 => (no(), 0u32..4).prop_map(|(no, boot)| Command::NodeBooted { no, boot }),
        1 => no().prop_map(|no| Command::NodeForgotten { no }),
        1 => (no(), any::<bool>()).prop_map(|(no, on)| Command::NodeDrained { no, on }),
        1 => (0u16..3).prop_map(|n| Command::Level { n }),
    ]
}

/// A state with some objects of each kind, so that short sequences do something.
pub(super) fn populated() -> State {
    let mut state = state();
    for (exchange_name, durable) in [("a", true), ("b", false)] {
        let declare = exchange(exchange_name, ExchangeKind::Fanout);
        let declare = ExchangeDeclare { auto_delete: true, durable, ..declare };
        apply(&mut state, Command::DeclareExchange(declare)).unwrap();
    }
    declare(&mut state, queue("a"));
    declare(&mut state, exclusive("b", 1));
    for spec in [to_queue("a", "a", ""), to_queue("a", "b", ""), to_exchange("b", "a", "k")] {
        apply(&mut state, Command::Bind(spec)).unwrap();
    }
    state
}

pub(super) fn command() -> impl Strategy<Value = Command> {
    prop_oneof![12 => resource().boxed(), 2 => settings().boxed(), 2 => access().boxed(), 2 => node()]
}

/// Every index agrees with every other one.
pub(super) fn check_consistent(state: &State) {
    let mut n_queues = 0;
    for vhost in state.vhosts() {
        for queue in vhost.queues() {
            n_queues += 1;
            assert_eq!(state.queue_by_id(queue.id), Some(queue));
            let routed = vhost.routes.queue(queue.name.as_bytes());
            assert_eq!(routed, Some(queue.id).filter(|_| !queue.is_internal()));
            assert_eq!(QueueDef::is_durable_id(queue.id), queue.durable);
            assert!(!queue.durable || queue.exclusive_owner.is_none());
            if let Some(owner) = queue.exclusive_owner {
                assert!(state.queues().exclusive_of(owner).any(|other| other.id == queue.id));
            }
        }
        for exchange in vhost.exchanges().filter(|exchange| !exchange.name.is_empty()) {
            assert_eq!(vhost.routes.kind(&exchange.name), Some(exchange.routes_as()));
        }
        let mut n_bindings = 0;
        for binding in vhost.routes.bindings() {
            n_bindings += 1;
            assert!(vhost.exchange(&binding.source).is_some());
            match &binding.destination {
                Destination::Queue(id) => {
                    assert_eq!(state.queue_by_id(*id).unwrap().vhost, *vhost.name)
                }
                Destination::Exchange(name) => assert!(vhost.exchange(name).is_some()),
            }
        }
        let from = |x: &std::sync::Arc<ExchangeDef>| vhost.routes.n_bindings_from(&x.name);
        assert_eq!(vhost.exchanges().map(from).sum::<usize>(), n_bindings);
        assert_eq!(vhost.routes.n_bindings(), n_bindings);
    }
    assert_eq!(n_queues, state.queues().len());
    for user in state.users().iter() {
        assert!(user.permissions().all(|(vhost, _)| state.vhost(vhost).is_some()));
        assert!(user.topic_permissions().all(|it| state.vhost(it.vhost).is_some()));
    }
}

/// Auto-delete exchanges that have, or once had, a binding.
#[derive(Default)]
struct Bound(BTreeSet<(Name, Name)>);

impl Bound {
    fn check(&mut self, state: &State, outcome: &Outcome) {
        for removed in &outcome.removed {
            if let Removed::Exchange { vhost, exchange } = removed {
                self.0.remove(&(vhost.clone(), exchange.name.clone()));
                let is_back = state.exchange(vhost, &exchange.name).is_some();
                assert!(!is_back, "what is reported as gone is gone");
            }
        }
        for vhost in state.vhosts() {
            for exchange in vhost.exchanges().filter(|exchange| exchange.auto_delete) {
                let id = (vhost.name.clone(), exchange.name.clone());
                if vhost.routes.n_bindings_from(&exchange.name) > 0 {
                    self.0.insert(id);
                } else {
                    assert!(!self.0.contains(&id), "an auto-delete exchange outlived its bindings");
                }
            }
        }
    }
}

/// Without the type of queues, which a default of their virtual host writes into what names none.
fn untyped(document: definitions::Document<'_>) -> serde_json::Value {
    let mut document = serde_json::to_value(document).unwrap();
    for queue in document["queues"].as_array_mut().unwrap() {
        queue["arguments"].as_object_mut().unwrap().remove("x-queue-type");
    }
    document
}

proptest! {
    #[test]
    fn commands_survive_encoding(command in command()) {
        let mut record = Vec::new();
        command.encode(&mut record);
        prop_assert_eq!(Command::decode(&record), Ok(command));
        for cut in 0..record.len() {
            prop_assert!(Command::decode(&record[..cut]).is_err());
        }
        record.push(0);
        prop_assert!(Command::decode(&record).is_err());
    }

    #[test]
    fn decoding_and_restoring_anything_does_not_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        tag in 0u8..40,
    ) {
        bytes.splice(..bytes.len().min(2), [1, tag]);
        prop_assert!(Command::decode(&bytes).is_err() || bytes.len() > 2);
        prop_assert!(State::restore(&bytes).is_err() || bytes.len() == 17);
    }

    #[test]
    fn random_commands(commands in prop::collection::vec(command(), 1..60)) {
        let mut state = populated();
        let mut bound = Bound::default();
        for command in commands {
            let before = state.clone();
            let bytes_before = everything(&state);
            match apply(&mut state, command) {
                Ok(outcome) => {
                    if outcome.done == Done::Nothing {
                        prop_assert_eq!(&everything(&state), &bytes_before);
                        prop_assert!(outcome.facts.is_empty() && outcome.removed.is_empty());
                    }
                    bound.check(&state, &outcome);
                }
                Err(_) => prop_assert_eq!(&everything(&state), &bytes_before),
            }
            // The snapshot taken before does not see the change.
            prop_assert_eq!(everything(&before), bytes_before);
            check_consistent(&state);
            let restored = State::restore(&everything(&state)).unwrap();
            prop_assert_eq!(everything(&restored), everything(&state));
            check_consistent(&restored);
        }
    }

    /// Exported definitions are the same after an import, except those that belong to connections.
    #[test]
    fn definitions_survive_a_round_trip(commands in prop::collection::vec(command(), 1..60)) {
        let origin = definitions::Origin {
            rabbitmq_version: "4.3.6",
            product_version: "0.1.0",
            cluster_name: "c",
        };
        let mut state = populated();
        // Parameters are kept for what earlier versions wrote; an import leaves them out.
        for command in commands.into_iter().filter(|c| !matches!(c, Command::SetParameter { .. })) {
            drop(apply(&mut state, command));
        }
        let document = definitions::export(&state, origin);
        let import = |state: &State| {
            let document = serde_json::to_vec(&document).unwrap();
            definitions::import(state, &document, Default::default(), &mut || [0; 4]).unwrap()
        };
        let mut copy = State::new();
        for step in import(&copy).steps {
            apply(&mut copy, step.command).unwrap();
        }
        prop_assert_eq!(untyped(definitions::export(&copy, origin)), untyped(document));
        prop_assert_eq!(import(&copy).steps, vec![]);
    }
}
