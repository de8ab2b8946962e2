//! The law of facts: a state that replays them is the state that made them.

use proptest::prelude::*;

use super::properties::{check_consistent, command, one_of, populated, some_name};
use super::*;

/// A step of a random history: one command, or those that one request makes of the state.
#[derive(Clone, Debug)]
enum Step {
    One(Command),
    Reshard,
    CreateSuperStream(Name, u64),
    DeleteSuperStream(Name),
}

impl Step {
    fn commands(&self, state: &State) -> Vec<Command> {
        let vhost = state.vhost(V);
        match self {
            Self::One(command) => vec![command.clone()],
            Self::Reshard => {
                let resharded = state.resharded(&name(V), &Sharded::new());
                resharded.iter().flat_map(|change| state.reshard(change, "n@h")).collect()
            }
            Self::CreateSuperStream(name, n) => {
                let wanted =
                    SuperStream::numbered(name, *n, table(&[("x-queue-type", "stream".into())]));
                vhost.and_then(|vhost| wanted.create(vhost, None).ok()).unwrap_or_default()
            }
            Self::DeleteSuperStream(name) => {
                let deletion = |vhost| delete_super_stream(vhost, state.queues(), name).ok();
                vhost.and_then(deletion).unwrap_or_default()
            }
        }
    }
}

fn typed_queue() -> impl Strategy<Value = Command> {
    let kinds = prop::sample::select(&["quorum", "stream", "classic"][..]);
    (some_name(), kinds)
        .prop_map(|(name, kind)| queue_with(&name, &[("x-queue-type", kind.into())]))
}

/// A delaying exchange, or the queue behind one.
fn delaying() -> impl Strategy<Value = Command> {
    (some_name(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(exchange_name, durable, auto_delete, is_queue)| {
            if is_queue {
                let name = delayed_queue_of(&exchange_name);
                let behind = QueueDeclare { named_by: NamedBy::Server, durable, ..queue(&name) };
                return Command::DeclareQueue(behind);
            }
            let arguments = table(&[("x-delayed-type", "direct".into())]);
            let declare = exchange(&exchange_name, ExchangeKind::Delayed);
            Command::DeclareExchange(ExchangeDeclare { arguments, durable, auto_delete, ..declare })
        },
    )
}

fn sharding() -> impl Strategy<Value = Command> {
    let definition = one_of(&[
        r#"{"shards-per-node":2}"#,
        r#"{"shards-per-node":1,"routing-key":"k"}"#,
        r#"{"alternate-exchange":"b"}"#,
    ]);
    (some_name(), definition, any::<bool>()).prop_map(|(name, definition, is_users)| {
        let scope = if is_users { PolicyScope::User } else { PolicyScope::Operator };
        let (pattern, definition) = (name.to_string(), Json::parse(&definition).unwrap());
        let apply_to = ApplyTo::Exchanges;
        let policy = PolicySpec { name, pattern, apply_to, definition, priority: 0 };
        Command::SetPolicy { scope, vhost: Name::from(V), policy }
    })
}

fn protection() -> impl Strategy<Value = Command> {
    any::<bool>().prop_map(|protected_from_deletion| {
        let metadata = VhostMetadata { protected_from_deletion, ..VhostMetadata::default() };
        Command::UpdateVhost { vhost: Name::from(V), metadata }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let own = || NODE_EXCHANGES.map(|it| Command::DeclareExchange(node_exchange(name(V), it)));
    prop_oneof![
        20 => command().prop_map(Step::One).boxed(),
        3 => typed_queue().prop_map(Step::One),
        3 => delaying().prop_map(Step::One),
        2 => sharding().prop_map(Step::One),
        1 => protection().prop_map(Step::One),
        1 => prop::sample::select(own().to_vec()).prop_map(Step::One),
        2 => Just(Step::Reshard),
        2 => (some_name(), 0_u64..4).prop_map(|(name, n)| Step::CreateSuperStream(name, n)),
        1 => some_name().prop_map(Step::DeleteSuperStream),
    ]
}

fn sharded(state: &State) -> Vec<Sharded> {
    state.vhosts().map(|vhost| vhost.policies.sharded().clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn a_state_that_replays_the_facts_is_the_state_that_made_them(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut state = populated();
        let mut follower = State::restore(&everything(&state)).unwrap();
        let mut restarted = State::restore(&durable(&state)).unwrap();
        for step in steps {
            for command in step.commands(&state) {
                let Ok(outcome) = apply(&mut state, command) else { continue };
                for Fact { class, command } in &outcome.facts {
                    follower.replay(command).unwrap();
                    if *class == FactClass::Durable {
                        restarted.replay(command).unwrap();
                    }
                }
                prop_assert_eq!(outcome.facts.is_empty(), !outcome.done.is_change());
                prop_assert_eq!(everything(&follower), everything(&state));
                prop_assert_eq!(durable(&restarted), durable(&state));
            }
            prop_assert_eq!(sharded(&follower), sharded(&state));
            check_consistent(&follower);
            check_consistent(&restarted);
        }
    }
}

/// A command with an id that it may not fit, as if from a log of another state.
fn foreign() -> impl Strategy<Value = Command> {
    (step(), prop::option::of(0_u64..8), any::<bool>()).prop_filter_map(
        "a command",
        |(step, id, is_transient)| {
            let Step::One(mut command) = step else { return None };
            if let Command::DeclareQueue(declare) = &mut command {
                let class = u64::from(is_transient) << 63;
                // The last one there is, or one not far from it.
                let id = id.map(|id| if id < 6 { id } else { (1 << 63) - 1 - (id - 6) * 100 });
                declare.id = id.map(|id| QueueId(class | id));
            }
            Some(command)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn a_misfit_changes_nothing(commands in prop::collection::vec(foreign(), 1..60)) {
        let mut state = populated();
        for command in commands {
            let before = everything(&state);
            if let Err(misfit) = state.replay(&command) {
                prop_assert_eq!(misfit.fact, command.kind());
                prop_assert_eq!(&everything(&state), &before);
            }
            check_consistent(&state);
            let restored = State::restore(&everything(&state)).unwrap();
            prop_assert_eq!(everything(&restored), everything(&state));
        }
    }
}

#[test]
fn facts_are_not_checked_again() {
    let s = &mut state();
    let metadata = VhostMetadata { protected_from_deletion: true, ..VhostMetadata::default() };
    apply(s, Command::UpdateVhost { vhost: name(V), metadata }).unwrap();
    let long = "x".repeat(300);
    let deletion = Command::DeleteVhost { vhost: name(V) };
    let declaration = Command::DeclareExchange(exchange("amq.mine", ExchangeKind::Fanout));
    let parameter =
        Command::SetGlobalParameter { name: name(&long), value: Json::parse("1").unwrap() };
    for command in [Command::DeclareQueue(queue(&long)), declaration, parameter, deletion] {
        refused(s, command.clone());
        s.replay(&command).unwrap();
    }
    assert!(s.vhost(V).is_none());
}

#[test]
fn a_fact_of_another_state_is_a_misfit() {
    let s = &mut state();
    let id = declare(s, queue("q"));
    let misfit = |command: Command| s.clone().replay(&command).unwrap_err().to_string();
    let text = misfit(Command::Bind(to_queue("x", "q", "")));
    assert_eq!(text, "Bind does not fit the definitions: no exchange 'x' in vhost '/'");
    let again = QueueDeclare { id: Some(id), ..queue("r") };
    let text = misfit(Command::DeclareQueue(again));
    assert_eq!(text, "DeclareQueue does not fit the definitions: no new queue is 1");
    let text = misfit(Command::CreateVhost { vhost: name(V), metadata: VhostMetadata::default() });
    assert!(text.starts_with("CreateVhost does not fit the definitions: "), "{text}");
}
