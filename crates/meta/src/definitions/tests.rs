//! Documents of several versions, round trips, and what is refused.

use serde_json::{Value, json};
use stdx::Now;

use super::*;
use crate::{HashAlgorithm, Name, PasswordHash, PolicyScope, QueueVersion, State, UserLimits};

const ORIGIN: Origin<'static> =
    Origin { rabbitmq_version: "4.3.6", product_version: "0.1.0", cluster_name: "burrow" };

const SHA_256: HashAlgorithm = HashAlgorithm::Sha256;

fn export(state: &State, origin: Origin<'_>) -> Value {
    serde_json::to_value(super::export(state, origin)).unwrap()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn planned(state: &State, document: &Value, into: Option<&str>) -> Result<Import, ImportErrors> {
    let into = into.map(Name::from);
    let rules = ImportRules { into: into.as_ref(), hashing: SHA_256, ..ImportRules::default() };
    import(state, document.to_string().as_bytes(), rules, &mut || [1, 2, 3, 4])
}

/// Imports a document; its warnings.
fn take(state: &mut State, document: &Value, into: Option<&str>) -> Vec<String> {
    let Import { steps, warnings, then } = planned(state, document, into).unwrap();
    let before = state.clone();
    for step in &steps {
        state.apply(Now::default(), &step.command).unwrap();
    }
    // Each object that is told as changed is, and is then as it was told.
    let (_, told) = object_changes(&before, &then, &steps, usize::MAX);
    let (_, made) = object_changes(&before, state, &steps, usize::MAX);
    assert_eq!(told, made);
    assert!(told.iter().all(|it| it.before != it.after && it.after.is_some()), "{told:?}");
    warnings
}

fn imported(text: &str) -> (State, Vec<String>) {
    let mut state = State::new();
    let warnings = take(&mut state, &parsed(text), None);
    (state, warnings)
}

fn refused(state: &State, document: &Value) -> String {
    planned(state, document, None).unwrap_err().to_string()
}

#[test]
fn a_document_of_3_8() {
    let (state, warnings) = imported(include_str!("samples/3.8.json"));
    for user in ["guest", "shop"] {
        assert!(state.user(user).unwrap().password.verify(b"hare"), "{user}");
    }
    assert_eq!(state.user("shop").unwrap().tags, ["management", "policymaker"]);
    assert!(state.user("cert-only").unwrap().password.is_empty());
    assert!(state.users().may("shop", "orders", crate::Permission::Configure, "shop.x"));
    assert!(!state.users().may("shop", "orders", crate::Permission::Configure, "x"));
    let vhost = state.vhost("orders").unwrap();
    assert_eq!((vhost.limits.max_connections, vhost.limits.max_queues), (Some(100), Some(50)));
    assert_eq!(state.vhost("/").unwrap().parameters.iter().count(), 0);
    assert_eq!(state.global_parameters().get("cluster_name").unwrap().value(), json!("rabbit@old"));
    assert!(state.global_parameters().get("internal_cluster_id").is_none());
    let lazy = vhost.policies.queue_settings(vhost.queue("shop.lazy").unwrap());
    assert_eq!(
        (lazy.length.messages_max, lazy.dead_letter.exchange),
        (Some(1_000), Some("shop.dead".into()))
    );
    assert!(vhost.exchange("shop.dead").unwrap().internal);
    assert_eq!(vhost.exchange("shop.events").unwrap().alternate(), Some("shop.dead"));
    assert_eq!(vhost.routes.n_bindings(), 5);
    assert_eq!(vhost.policies.get(PolicyScope::User, "ha"), None);
    let mixed = vhost.policies.get(PolicyScope::User, "ha-short").unwrap();
    assert_eq!(mixed.spec.definition.value(), json!({"message-ttl": 60_000}));
    let told = |what: &str| warnings.iter().any(|warning| warning.contains(what));
    for what in [
        "parameter 'move' of 'shovel' in vhost '/': skipped: component shovel not found",
        "policy 'ha' in vhost 'orders': skipped: no setting remains",
        "policy 'ha-short' in vhost 'orders': skipped unknown setting `ha-mode`",
    ] {
        assert!(told(what), "{what}: {warnings:#?}");
    }
}

#[test]
fn a_document_of_3_13() {
    let (state, warnings) = imported(include_str!("samples/3.13.json"));
    for user in ["hare", "old"] {
        assert!(state.user(user).unwrap().password.verify(b"hare"), "{user}");
    }
    let limits = UserLimits { max_connections: Some(10), max_channels: Some(-1) };
    assert_eq!(state.user("hare").unwrap().limits, limits);
    let vhost = state.vhost("metrics").unwrap();
    assert_eq!(vhost.metadata.tags, ["internal", "qa"]);
    assert_eq!(vhost.metadata.default_queue_type, Some("quorum".into()));
    assert_eq!(vhost.limits.max_queues, Some(5));
    assert_eq!(state.vhost("/").unwrap().metadata.default_queue_type, None);
    let held = vhost.policies.queue_settings(vhost.queue("m.cpu").unwrap());
    assert_eq!((held.length.messages_max, held.expires_ms), (Some(500), Some(3_600_000)));
    assert_eq!((held.message_ttl_ms, held.version), (Some(5_000), Some(QueueVersion::V2)));
    assert_eq!(vhost.queue("m.log").unwrap().kind, crate::QueueKind::Stream);
    assert!(warnings.is_empty(), "{warnings:#?}");
}

#[test]
fn a_document_of_4_3() {
    let (state, warnings) = imported(include_str!("samples/4.3.json"));
    assert_eq!(warnings, [""; 0]);
    let vhost = state.vhost("/").unwrap();
    assert!(vhost.metadata.protected_from_deletion);
    assert_eq!(vhost.metadata.default_queue_type.as_deref(), Some("classic"));
    assert!(!vhost.queue("tmp").unwrap().durable);
    assert_eq!(vhost.routes.n_bindings(), 2);
    assert_eq!(
        state.global_parameters().get("cluster_tags").unwrap().value(),
        json!({"zone": "eu-1"})
    );
}

#[test]
fn passwords_before_3_6_were_hashed_with_md5() {
    let (state, warnings) = imported(include_str!("samples/2.8.json"));
    assert_eq!(warnings, [""; 0]);
    assert!(state.user("guest").unwrap().password.verify(b"hare"));
    let document =
        json!({"rabbitmq_version": "4.0.1", "users": [{"name": "u", "password": "hare"}]});
    let mut state = State::new();
    take(&mut state, &document, None);
    assert!(state.user("u").unwrap().password.verify(b"hare"));
    // Another salt is no change.
    let rules = ImportRules { hashing: SHA_256, ..ImportRules::default() };
    let again = import(&state, document.to_string().as_bytes(), rules, &mut || [9; 4]).unwrap();
    assert_eq!(again.steps, []);
}

/// A document's hashing algorithm counts before the one that the node is configured with.
#[test]
fn passwords_are_hashed_as_the_node_is_told() {
    let by_sha_256 = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR";
    let by_sha_512 = PasswordHash::by(HashAlgorithm::Sha512, [1; 4], "hare").to_base64();
    let document = json!({"users": [
        {"name": "new", "password": "hare"},
        {"name": "silent", "password_hash": by_sha_512},
        {"name": "told", "password_hash": by_sha_256, "hashing_algorithm": "rabbit_password_hashing_sha256"},
    ]});
    let mut state = State::new();
    let text = document.to_string();
    let rules = ImportRules { hashing: HashAlgorithm::Sha512, ..ImportRules::default() };
    let import = import(&state, text.as_bytes(), rules, &mut || [1, 2, 3, 4]);
    for step in import.unwrap().steps {
        state.apply(Now::default(), &step.command).unwrap();
    }
    for (user, algorithm, password) in [
        ("new", HashAlgorithm::Sha512, "hare"),
        ("silent", HashAlgorithm::Sha512, "hare"),
        ("told", HashAlgorithm::Sha256, "test12"),
    ] {
        let hash = &state.user(user).unwrap().password;
        assert_eq!(hash.algorithm, algorithm, "{user}");
        assert!(hash.verify(password.as_bytes()), "{user}");
    }
    let (copy, _) = imported(&export(&state, ORIGIN).to_string());
    assert_eq!(copy.user("new").unwrap().password, state.user("new").unwrap().password);
}

#[test]
fn a_document_of_one_virtual_host_goes_into_any() {
    let document = parsed(include_str!("samples/4.3-one-vhost.json"));
    let (mut state, _) = imported(r#"{"vhosts": [{"name": "new"}]}"#);
    assert!(refused(&state, &document).contains("no virtual host"));
    assert_eq!(take(&mut state, &document, Some("new")), [""; 0]);
    let vhost = state.vhost("new").unwrap();
    assert_eq!(vhost.limits.max_queues, Some(9));
    assert_eq!(vhost.routes.n_bindings(), 1);
    let again = serde_json::to_value(export_vhost(&state, vhost, ORIGIN)).unwrap();
    let (mut other, _) = imported(r#"{"vhosts": [{"name": "copy"}]}"#);
    assert_eq!(take(&mut other, &again, Some("copy")), [""; 0]);
    let copy = export_vhost(&other, other.vhost("copy").unwrap(), ORIGIN);
    let copy = serde_json::to_value(copy).unwrap();
    for list in ["parameters", "policies", "queues", "exchanges", "bindings"] {
        assert_eq!(copy[list], again[list], "{list}");
    }
    let error = planned(&state, &document, Some("nope")).unwrap_err().to_string();
    assert_eq!(error, "vhost 'nope': the virtual host does not exist");
}

/// Existing objects are left as they are, and nothing is done twice.
#[test]
fn importing_again_changes_nothing() {
    for text in [
        include_str!("samples/3.8.json"),
        include_str!("samples/3.13.json"),
        include_str!("samples/4.3.json"),
        include_str!("samples/2.8.json"),
    ] {
        let (mut state, _) = imported(text);
        assert_eq!(planned(&state, &parsed(text), None).unwrap().steps, []);
        let exported = export(&state, ORIGIN);
        assert_eq!(planned(&state, &exported, None).unwrap().steps, []);
        let mut copy = State::new();
        assert_eq!(take(&mut copy, &exported, None), [""; 0]);
        assert_eq!(export(&copy, ORIGIN), exported);
        let changed = json!({"queues": [
            {"name": "q", "vhost": "/", "durable": false, "arguments": {"x-max-length": 1}}]});
        take(&mut state, &changed, None);
        let before = export(&state, ORIGIN);
        take(&mut state, &json!({"queues": [{"name": "q", "vhost": "/", "durable": true}]}), None);
        assert_eq!(export(&state, ORIGIN), before);
    }
}

/// The order in the document does not matter, and unknown keys are tolerated.
#[test]
fn unknown_keys_are_named_once() {
    let document = json!({
        "users": [{"name": "a", "colour": "brown"}, {"name": "b", "colour": "grey"}],
        "permissions": [{"user": "a", "vhost": "v", "configure": "", "write": "", "read": ""}],
        "vhosts": [{"name": "v"}],
        "burrows": [],
    });
    let mut state = State::new();
    assert_eq!(
        take(&mut state, &document, None),
        ["skipped unknown `burrows`", "skipped unknown `colour` of users"]
    );
    assert!(state.users().may_enter("a", "v"));
}

#[test]
fn limits_do_not_keep_what_was_there_before_them() {
    let document = json!({
        "vhosts": [{"name": "v", "limits": {"max-queues": 1}}],
        "queues": [{"name": "a", "vhost": "v"}, {"name": "b", "vhost": "v"}],
    });
    let mut state = State::new();
    take(&mut state, &document, None);
    assert_eq!(state.queues().len(), 2);
    let more = json!({"queues": [{"name": "c", "vhost": "v"}]});
    assert_eq!(
        refused(&state, &more),
        "queue 'c' in vhost 'v': cannot declare queue 'c': queue limit in vhost 'v' (1) is reached"
    );
}

/// Nothing of a document is done when something in it cannot be: here there is nothing else.
#[test]
fn what_can_only_mean_one_thing_is_taken_for_it_and_told() {
    let document = json!({
        "users": [{"name": "u", "limits": {"max-connections": "3", "max-channels": 4.0}, "tags": null}],
        "vhosts": [{"name": "/", "description": null, "limits": {"max-queues": null}, "metadata": null}],
        "queues": [
            {"vhost": "/", "name": "a\r\nb", "durable": "true", "arguments": {"x-queue-type": ""}},
            {"vhost": "/", "name": "c", "auto_delete": null, "arguments": {"x-queue-type": "undefined"}},
            {"vhost": "/", "name": "d", "arguments": {"x-queue-type": null}},
            {"vhost": "/", "name": "amq.gen-1"},
        ],
        "exchanges": [{"vhost": "/", "name": "x\n", "type": "fanout", "internal": "false", "arguments": null}],
        "bindings": [
            {"vhost": "/", "source": "x\n", "destination": "a\nb", "destination_type": "queue"},
            {"vhost": "/", "source": "x", "destination": "amq.gen-1", "destination_type": "queue"},
            {"vhost": "/", "source": "x", "destination": "amq.gen-2", "destination_type": "queue"},
        ],
        "policies": [{"vhost": "/", "name": "p", "pattern": ".*", "priority": 2.0, "apply-to": null,
                      "definition": {"max-length": 5}}],
    });
    let (state, warnings) = imported(&document.to_string());
    let limits = state.user("u").unwrap().limits;
    assert_eq!(limits, UserLimits { max_connections: Some(3), max_channels: Some(4) });
    for queue in ["ab", "c", "d"] {
        let queue = state.queue("/", queue).unwrap();
        assert!(queue.durable && queue.arguments.get(b"x-queue-type").is_none(), "{queue:?}");
    }
    assert!(!state.exchange("/", "x").unwrap().internal);
    assert_eq!(state.vhost("/").unwrap().routes.bindings().count(), 1);
    let policy = state.vhost("/").unwrap().policies.get(PolicyScope::User, "p").unwrap();
    assert_eq!(policy.spec.priority, 2);
    for told in [
        "user 'u': `max-connections` is \"3\", read as 3",
        "user 'u': `max-channels` is 4.0, read as 4",
        "queue 'ab' in vhost '/': `durable` is \"true\", read as true",
        "queue 'c' in vhost '/': `x-queue-type` is \"undefined\", read as the default type",
        "queue 'd' in vhost '/': `x-queue-type` is null, read as the default type",
        "exchange 'x' in vhost '/': `internal` is \"false\", read as false",
        "policy 'p' in vhost '/': `priority` is 2.0, read as 2",
        "binding from exchange 'x' to queue 'amq.gen-2' in vhost '/': skipped: the queue belongs to the broker",
    ] {
        assert!(warnings.iter().any(|it| it == told), "{told}: {warnings:#?}");
    }
}

#[test]
fn every_refusal_is_told_but_not_what_follows_from_one() {
    let document = json!({
        "vhosts": [{"name": "/"}],
        "queues": [
            {"vhost": "/", "name": "a", "arguments": {"x-max-length": -1}},
            {"vhost": "/", "name": "b", "durable": "perhaps"},
            {"vhost": "/", "name": "c"},
        ],
        "bindings": [
            {"vhost": "/", "source": "amq.direct", "destination": "a", "destination_type": "queue"},
            {"vhost": "/", "source": "nowhere", "destination": "c", "destination_type": "queue"},
        ],
    });
    let told = refused(&State::new(), &document);
    let objects: Vec<&str> = told.lines().map(|line| line.split(':').next().unwrap()).collect();
    let binding = "binding from exchange 'nowhere' to queue 'c' in vhost '/'";
    assert_eq!(objects, ["queue 'a' in vhost '/'", "queue 'b' in vhost '/'", binding], "{told}");
    let many: Vec<Value> =
        (0..1_234).map(|n| json!({"vhost": "none", "name": n.to_string()})).collect();
    let told = refused(&State::new(), &json!({"queues": many}));
    assert_eq!((told.lines().count(), told.lines().last()), (1_001, Some("and 234 more")));
}

/// COMPAT: over HTTP as with RabbitMQ; what its plugins would take is left out all the same.
#[test]
fn what_rabbitmq_refuses_can_be_refused() {
    let document = json!({
        "vhosts": [{"name": "/"}],
        "policies": [{"vhost": "/", "name": "ha", "pattern": ".*", "definition": {"ha-mode": "all", "max-length": 1}}],
        "parameters": [
            {"vhost": "/", "component": "shovel", "name": "s", "value": {}},
            {"vhost": "/", "component": "nonsense", "name": "n", "value": {}},
        ],
        "exchanges": [{"vhost": "/", "name": "x", "type": "x-nonsense", "arguments": {}}],
    });
    let rules = ImportRules { is_strict: true, ..ImportRules::default() };
    let text = document.to_string();
    let refused =
        import(&State::new(), text.as_bytes(), rules, &mut || [0; 4]).unwrap_err().to_string();
    let mut lines: Vec<&str> = refused.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "exchange 'x' in vhost '/': exchange type `x-nonsense` is not supported",
            "parameter 'n' of 'nonsense' in vhost '/': component nonsense not found",
            "policy 'ha' in vhost '/': ha-mode are not recognised policy settings",
        ]
    );
    let (state, warnings) = imported(&text);
    assert_eq!(warnings.len(), 4, "{warnings:#?}");
    assert!(state.vhost("/").is_some());
}

#[test]
fn the_importer_may_use_virtual_hosts_that_are_made() {
    let document = json!({
        "users": [{"name": "u"}],
        "vhosts": [{"name": "/"}, {"name": "v"}],
        "permissions": [{"user": "u", "vhost": "v", "configure": "", "write": "", "read": "^r"}],
    });
    let rules = ImportRules { importer: Some("u"), ..ImportRules::default() };
    let mut state = State::new();
    let planned = import(&state, document.to_string().as_bytes(), rules, &mut || [0; 4]).unwrap();
    for step in planned.steps {
        state.apply(Now::default(), &step.command).unwrap();
    }
    let of = |vhost| {
        let found = state.user("u").unwrap().permissions_in(vhost).unwrap();
        [found.configure.as_str(), found.write.as_str(), found.read.as_str()].map(str::to_owned)
    };
    assert_eq!(of("/"), [".*"; 3]);
    assert_eq!(of("v"), ["", "", "^r"]);
    let rules = ImportRules { importer: Some("nobody"), ..ImportRules::default() };
    assert!(
        import(&State::new(), br#"{"vhosts": [{"name": "v"}]}"#, rules, &mut || [0; 4]).is_ok()
    );
}

fn check_refusals(cases: &[(&str, Value, &str)]) {
    let (state, _) = imported(r#"{"vhosts": [{"name": "v"}], "users": [{"name": "u"}]}"#);
    for (list, object, told) in cases {
        assert_eq!(refused(&state, &json!({*list: [object]})), *told);
    }
}

#[test]
fn who_cannot_be_is_named() {
    let may = |user: &str, vhost: &str, configure: &str| json!({"user": user, "vhost": vhost, "configure": configure, "write": "", "read": ""});
    check_refusals(&[
        (
            "users",
            json!({"password_hash": "!", "name": "x"}),
            "user 'x': `password_hash` is not the base64 form of a salted hash",
        ),
        (
            "users",
            json!({"name": "x", "hashing_algorithm": "rot13"}),
            "user 'x': unknown hashing algorithm `rot13`",
        ),
        (
            "users",
            json!({"name": "x", "limits": {"max-carrots": 1}}),
            "user 'x': unknown limit `max-carrots`",
        ),
        ("users", json!({"tags": []}), "user: `name` is missing"),
        ("users", json!("x"), "users: not an object: \"x\""),
        (
            "vhosts",
            json!({"name": ""}),
            "vhost '': invalid vhost name: the length must be 1 to 255 bytes",
        ),
        (
            "vhosts",
            json!({"name": "w", "metadata": 3}),
            "vhost 'w': `metadata` must be an object, not 3",
        ),
        (
            "permissions",
            may("x", "v", ""),
            "permissions of user 'x' in vhost 'v': User 'x' does not exist",
        ),
        (
            "permissions",
            may("u", "w", ""),
            "permissions of user 'u' in vhost 'w': vhost w not found",
        ),
        (
            "permissions",
            may("u", "v", "("),
            "permissions of user 'u' in vhost 'v': invalid regexp '(': unclosed group",
        ),
    ]);
}

#[test]
fn what_cannot_be_is_named() {
    let policy = |definition: Value, priority: Value| {
        json!({"vhost": "v", "name": "p", "pattern": "", "definition": definition,
            "priority": priority})
    };
    check_refusals(&[
        (
            "policies",
            policy(json!({"max-length": -1}), json!(0)),
            "policy 'p' in vhost 'v': -1 is not a valid maximum length",
        ),
        (
            "policies",
            policy(json!([]), json!(0)),
            "policy 'p' in vhost 'v': `definition` must be an object",
        ),
        (
            "policies",
            policy(json!({"expires": 1}), json!("high")),
            "policy 'p' in vhost 'v': \"high\" priority must be a number",
        ),
        (
            "parameters",
            json!({"vhost": "v", "component": "vhost-limits", "name": "limits",
                "value": {"max-queues": "x"}}),
            "parameter 'limits' in vhost 'v': `max-queues` must be a number, not \"x\"",
        ),
        (
            "queues",
            json!({"vhost": "w", "name": "q"}),
            "queue 'q' in vhost 'w': virtual host 'w' does not exist",
        ),
        (
            "queues",
            json!({"vhost": "v", "name": "q", "arguments": {"x-expires": 0}}),
            "queue 'q' in vhost 'v': invalid arg 'x-expires' for queue 'q' in vhost 'v': \
             {value_zero,0}",
        ),
        (
            "queues",
            json!({"vhost": "v", "name": "q", "durable": "yes"}),
            "queue 'q' in vhost 'v': `durable` must be true or false, not \"yes\"",
        ),
        (
            "exchanges",
            json!({"vhost": "v", "name": "x"}),
            "exchange 'x' in vhost 'v': `type` is missing",
        ),
        (
            "bindings",
            json!({"vhost": "v", "source": "amq.direct", "destination": "q",
                "destination_type": "queue"}),
            "binding from exchange 'amq.direct' to queue 'q' in vhost 'v': no queue 'q' in vhost 'v'",
        ),
        (
            "bindings",
            json!({"vhost": "v", "source": "x", "destination": "q", "destination_type": "hole"}),
            "binding 'x' in vhost 'v': `destination_type` cannot be `hole`",
        ),
    ]);
    let state = State::new();
    assert_eq!(refused(&state, &json!([])), "definitions: the document is not a JSON object");
    assert_eq!(refused(&state, &json!({"users": 3})), "users: not a list");
}

#[test]
fn what_goes_with_a_connection_or_is_the_brokers_own_is_not_exported() {
    let (mut state, _) = imported(r#"{"vhosts": [{"name": "v"}]}"#);
    let queue = |name: &str, exclusive_owner| {
        crate::Command::DeclareQueue(crate::QueueDeclare {
            vhost: "v".into(),
            name: name.into(),
            named_by: crate::NamedBy::Server,
            durable: false,
            auto_delete: false,
            exclusive_owner,
            arguments: table::from_json(None).unwrap(),
            id: None,
            home: crate::QueueHome::default(),
        })
    };
    let bind = |name: &str| {
        crate::Command::Bind(crate::BindingSpec {
            vhost: "v".into(),
            source: "amq.direct".into(),
            destination: crate::DestinationName::Queue(name.into()),
            key: "k".into(),
            arguments: table::from_json(None).unwrap(),
            by: None,
        })
    };
    for command in [
        queue("mine", Some(crate::ConnectionId(1))),
        queue("amq.gen-x", None),
        queue("kept", None),
        bind("mine"),
        bind("amq.gen-x"),
        bind("kept"),
    ] {
        state.apply(Now::default(), &command).unwrap();
    }
    let document = export(&state, ORIGIN);
    let names = |list: &str, field: &str| {
        let names = document[list].as_array().unwrap().iter().map(|item| item[field].clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names("queues", "name"), ["kept"]);
    assert_eq!(names("bindings", "destination"), ["kept"]);
    assert_eq!(names("exchanges", "name"), [""; 0]);
}

#[test]
fn documents_are_told_apart() {
    let of = |texts: &[&str]| fingerprint(texts.iter().map(|text| text.as_bytes()));
    assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
    assert_ne!(of(&["a", "b"]), of(&["ab"]));
    assert_eq!(of(&[]).len(), 64);
}
