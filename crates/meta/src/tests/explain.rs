//! Reasons, against what counts.

use super::*;
use proptest::prelude::*;

/// A policy of users or operators.
#[derive(Clone, Debug)]
struct Set {
    scope: PolicyScope,
    spec: PolicySpec,
}

fn any_policy() -> impl Strategy<Value = Set> {
    let scopes = prop_oneof![Just(PolicyScope::User), Just(PolicyScope::Operator)];
    let kinds = prop_oneof![
        Just(ApplyTo::All),
        Just(ApplyTo::Queues),
        Just(ApplyTo::QuorumQueues),
        Just(ApplyTo::Exchanges)
    ];
    let keys = ["max-length", "message-ttl", "expires", "delivery-limit", "max-length-bytes"];
    let settings = prop::collection::btree_map(prop::sample::select(keys.to_vec()), 1_i64..5, 1..4);
    (scopes, "[ab]", "[qe.]", kinds, settings, 0_i64..3).prop_map(
        |(scope, named, pattern, apply_to, settings, priority)| {
            let definition = Json::parse(&serde_json::to_string(&settings).unwrap()).unwrap();
            let spec = PolicySpec { name: name(&named), pattern, apply_to, definition, priority };
            Set { scope, spec }
        },
    )
}

fn any_queue() -> impl Strategy<Value = QueueDeclare> {
    let keys = ["x-max-length", "x-message-ttl", "x-expires", "x-delivery-limit"];
    let number = (prop::sample::select(keys.to_vec()), 1..5);
    (prop::collection::vec(number, 0..4), any::<bool>()).prop_map(|(numbers, is_quorum)| {
        let kind = if is_quorum { "quorum" } else { "classic" };
        let mut arguments = vec![("x-queue-type", Value::from(kind))];
        for (key, n) in numbers {
            if arguments.iter().all(|(before, _)| *before != key) {
                arguments.push((key, Value::I32(n)));
            }
        }
        QueueDeclare { arguments: table(&arguments), ..queue("q") }
    })
}

fn set(s: &mut State, set: &Set) -> Result<Outcome, MetaError> {
    let Set { scope, spec } = set.clone();
    apply(s, Command::SetPolicy { scope, vhost: name(V), policy: spec })
}

proptest! {
    #[test]
    fn sources_are_those_of_what_counts(
        declared in any_queue(),
        policies in prop::collection::vec(any_policy(), 0..5),
    ) {
        let s = &mut state();
        declare(s, declared);
        policies.iter().for_each(|policy| drop(set(s, policy)));
        let (queue, policies) = (s.queue(V, "q").unwrap(), &s.vhost(V).unwrap().policies);
        let sources = setting_sources(policies, queue);
        let value = |name| sources.iter().find(|it| it.name == name).and_then(|it| it.value.as_u64());
        let settings = s.queue_settings(queue);
        prop_assert_eq!(value("max-length"), settings.length.messages_max);
        prop_assert_eq!(value("max-length-bytes"), settings.length.bytes_max);
        prop_assert_eq!(value("message-ttl"), settings.message_ttl_ms);
        prop_assert_eq!(value("expires"), settings.expires_ms);
        let default = queue.kind.capabilities().delivery_limit_default.map(u64::from);
        let limit = settings.delivery_limit.map(u64::from);
        prop_assert_eq!(value("delivery-limit").or(default), limit);
        for SettingSource { origin, given: [argument, user, operator], value, .. } in &sources {
            let from = match origin {
                Origin::Argument => argument,
                Origin::Policy => user,
                Origin::OperatorPolicy => operator,
            };
            prop_assert_eq!(from.as_ref(), Some(value));
        }
        for scope in [PolicyScope::User, PolicyScope::Operator] {
            let standings = policy_standings(policies, scope, queue);
            let in_force: Vec<_> =
                standings.iter().filter(|(_, it)| *it == Standing::InForce).map(|it| it.0).collect();
            prop_assert_eq!(in_force, policies.of_queue(scope, queue).into_iter().collect::<Vec<_>>());
            let n_matching = policies.matching_queue(scope, queue).len();
            let n = standings.iter().filter(|(_, it)| {
                matches!(it, Standing::InForce | Standing::Outranked)
            });
            prop_assert_eq!(n.count(), n_matching);
        }
    }

    #[test]
    fn a_policy_changes_what_was_foretold(
        declared in any_queue(),
        before in prop::collection::vec(any_policy(), 0..4),
        policy in any_policy(),
    ) {
        let s = &mut state();
        declare(s, declared);
        before.iter().for_each(|policy| drop(set(s, policy)));
        let queue_settings = |s: &State| {
            s.vhost(V).unwrap().policies.settings_of_queue(s.queue(V, "q").unwrap())
        };
        let before = queue_settings(s);
        let mut then = s.clone();
        let is_set = set(&mut then, &policy).is_ok();
        let (effects, after) = (policy_effects(s, &then, V), queue_settings(&then));
        prop_assert!(is_set || effects.is_empty());
        let foretold = effects.iter().find(|effect| effect.is_queue);
        prop_assert_eq!(foretold.is_some(), before != after);
        if let Some(effect) = foretold {
            prop_assert_eq!((&effect.before, &effect.after), (&before, &after));
        }
    }

    #[test]
    fn access_is_explained_as_it_is(
        patterns in prop::collection::vec("(\\^?[ab]?|\\.\\*)", 3),
        topic in prop::option::of("[ab]"),
        (named, key) in ("[ab]?", "[ab]{1,2}"),
        (user, operation) in (0_usize..3, 0_usize..3),
    ) {
        let s = &mut state();
        let kept = PasswordHash::default();
        for user in ["u", "lonely"] {
            let (user, tags, password) = (name(user), Vec::new(), kept.clone());
            apply(s, Command::CreateUser { user, password, tags }).unwrap();
        }
        let [configure, write, read] = &*patterns else { unreachable!() };
        let (user_name, vhost) = (name("u"), name(V));
        let (configure, write, read) = (configure.clone(), write.clone(), read.clone());
        apply(s, Command::SetPermissions { user: user_name.clone(), vhost, configure, write, read })
            .unwrap();
        if let Some(topic) = topic {
            let (write, read) = (topic.clone(), topic);
            let (vhost, exchange) = (name(V), name(&named));
            apply(s, Command::SetTopicPermissions { user: user_name, vhost, exchange, write, read })
                .unwrap();
        }
        let user = ["u", "lonely", "none"][user];
        let permission = [Permission::Configure, Permission::Write, Permission::Read][operation];
        let resource = Resource { vhost: name(V), kind: ResourceKind::Exchange, name: name(&named) };
        let users = s.users();
        let reason = users.access_reason(user, permission, &resource, Some(key.as_bytes()));
        let may = users.check_access(user, permission, &resource).is_ok()
            && users.check_topic_access(user, &resource, TopicUse::of(permission, key.as_bytes())).is_ok();
        prop_assert_eq!(reason.is_allowed(), may, "{:?}", reason);
    }
}

#[test]
fn a_policy_that_does_not_count_says_why() {
    let s = &mut state();
    declare(s, queue("q"));
    let policy = |named: &str, pattern: &str, apply_to, definition: &str, priority| Set {
        scope: PolicyScope::User,
        spec: PolicySpec {
            name: name(named),
            pattern: pattern.to_owned(),
            apply_to,
            definition: Json::parse(definition).unwrap(),
            priority,
        },
    };
    for it in [
        policy("exchanges", "q", ApplyTo::Exchanges, r#"{"max-length":1}"#, 9),
        policy("first", "q", ApplyTo::All, r#"{"max-length":1}"#, 1),
        policy("names", "^x", ApplyTo::All, r#"{"max-length":1}"#, 5),
        policy("second", "q", ApplyTo::All, r#"{"max-length":2}"#, 1),
        policy("streams", "q", ApplyTo::All, r#"{"max-age":"1D"}"#, 7),
    ] {
        set(s, &it).unwrap();
    }
    let policies = &s.vhost(V).unwrap().policies;
    let standings = policy_standings(policies, PolicyScope::User, s.queue(V, "q").unwrap());
    let told: Vec<_> = standings.iter().map(|(it, standing)| (&*it.spec.name, *standing)).collect();
    assert_eq!(
        told,
        [
            ("first", Standing::InForce),
            ("second", Standing::Outranked),
            ("exchanges", Standing::OtherKinds),
            ("streams", Standing::UnknownSetting),
            ("names", Standing::OtherNames),
        ]
    );
}
