//! Users, permissions, policies and parameters.

use super::*;

fn with_user() -> State {
    let mut s = state();
    let password = PasswordHash::new([1, 2, 3, 4], "secret");
    let tags = vec![name("administrator")];
    apply(&mut s, Command::CreateUser { user: name("alice"), password, tags }).unwrap();
    s
}

fn permit(s: &mut State, configure: &str, write: &str, read: &str) -> Result<Outcome, MetaError> {
    apply(
        s,
        Command::SetPermissions {
            user: name("alice"),
            vhost: name(V),
            configure: configure.to_owned(),
            write: write.to_owned(),
            read: read.to_owned(),
        },
    )
}

fn permit_topic(s: &mut State, write: &str, read: &str) -> Result<Outcome, MetaError> {
    apply(
        s,
        Command::SetTopicPermissions {
            user: name("alice"),
            vhost: name(V),
            exchange: name("amq.topic"),
            write: write.to_owned(),
            read: read.to_owned(),
        },
    )
}

#[test]
fn users() {
    let s = &mut with_user();
    let alice = s.user("alice").unwrap();
    assert!(alice.has_tag("administrator") && !alice.has_tag("monitoring"));
    assert!(alice.password.verify(b"secret"));
    let password = PasswordHash::default;
    let again = Command::CreateUser { user: name("alice"), password: password(), tags: vec![] };
    assert_eq!(refused(s, again).1, "User \"alice\" already exists");
    let unknown = Command::SetPassword { user: name("bob"), password: password() };
    assert_eq!(refused(s, unknown), (ErrorKind::NotFound, "User 'bob' does not exist".to_owned()));
    apply(s, Command::SetPassword { user: name("alice"), password: password() }).unwrap();
    assert!(!s.user("alice").unwrap().password.verify(b""));
    apply(s, Command::SetUserTags { user: name("alice"), tags: vec![name("x")] }).unwrap();
    assert!(s.user("alice").unwrap().has_tag("x"));
    assert_eq!(
        gone(&apply(s, Command::DeleteUser { user: name("alice") }).unwrap()),
        ["user alice"]
    );
    assert!(s.user("alice").is_none());
}

#[test]
fn permissions_are_unanchored_expressions_over_names() {
    let s = &mut with_user();
    assert!(!s.users().may_enter("alice", V));
    assert!(!s.users().may("alice", V, Permission::Read, "q"));
    permit(s, "", "^w", "q").unwrap();
    assert!(s.users().may_enter("alice", V));
    let may = |permission, name| s.users().may("alice", V, permission, name);
    assert!(may(Permission::Configure, "") && !may(Permission::Configure, "q"));
    assert!(may(Permission::Write, "w1") && !may(Permission::Write, "xw"));
    assert!(may(Permission::Read, "a-q-b") && !may(Permission::Read, "ab"));
    assert!(!s.users().may("bob", V, Permission::Read, "q"));
    assert!(!s.users().may("alice", "other", Permission::Read, "q"));
    let refused = |permission, resource: Resource| {
        let error = s.users().check_access("alice", permission, &resource).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AccessRefused);
        error.to_string()
    };
    assert_eq!(
        refused(Permission::Configure, Resource::queue(&name(V), &name("q"))),
        "configure access to queue 'q' in vhost '/' refused for user 'alice'"
    );
    assert_eq!(
        refused(Permission::Write, Resource::exchange(&name(V), &name("x"))),
        "write access to exchange 'x' in vhost '/' refused for user 'alice'"
    );
    assert_eq!(
        refused(Permission::Write, Resource::exchange(&name(V), &name(""))),
        "write access to exchange 'amq.default' in vhost '/' refused for user 'alice'"
    );
    let allowed = Resource::queue(&name(V), &name("q"));
    assert_eq!(s.users().check_access("alice", Permission::Read, &allowed), Ok(()));
    let listed: Vec<_> =
        s.users().permissions_in(V).map(|(user, p)| (&**user, p.write.as_str())).collect();
    assert_eq!(listed, [("alice", "^w")]);
    let error = permit(s, "(?=x", "", "").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(s.users().may("alice", V, Permission::Read, "q"));
    apply(s, Command::ClearPermissions { user: name("alice"), vhost: name(V) }).unwrap();
    assert!(!s.users().may_enter("alice", V));
}

#[test]
fn topic_permissions_bind_only_where_they_are_set() {
    let s = &mut with_user();
    let exchange = Resource::exchange(&name(V), &name("amq.topic"));
    let may = |s: &State, permission, key: &str, client_id: Option<&str>| {
        let key = key.as_bytes();
        s.users().may_topic("alice", &exchange, TopicUse { permission, key, client_id })
    };
    assert!(may(s, Permission::Write, "anything", None));
    permit_topic(s, "^{username}\\.", "^{vhost}-{client_id}$").unwrap();
    assert!(may(s, Permission::Write, "alice.x", None));
    assert!(!may(s, Permission::Write, "bob.x", None));
    let write = |key| TopicUse::of(Permission::Write, key);
    let error = s.users().check_topic_access("alice", &exchange, write(b"bob.x"));
    assert_eq!(
        error.unwrap_err().to_string(),
        "write access to topic 'bob.x' in exchange 'amq.topic' in vhost '/' refused for user 'alice'"
    );
    let texts = |it: TopicGrant<'_>| [&**it.user, &**it.exchange, it.permissions.write()].join(" ");
    let listed: Vec<_> = s.users().topic_permissions_in(V).map(texts).collect();
    assert_eq!(listed, ["alice amq.topic ^{username}\\."]);
    assert!(may(s, Permission::Read, "/-c1", Some("c1")));
    assert!(!may(s, Permission::Read, "/-c2", Some("c1")));
    // Without the variable the placeholder is just text.
    assert!(may(s, Permission::Read, "/-{client_id}", None));
    assert!(s.users().may_topic(
        "alice",
        &Resource::exchange(&name(V), &name("other")),
        write(b"x")
    ));
    permit_topic(s, "", "").unwrap();
    assert!(!may(s, Permission::Write, "x", None));
    assert!(may(s, Permission::Write, "", None));
    let user = s.user("alice").unwrap();
    assert_eq!(user.topic_permissions().count(), 1);
    let exchange = Some(name("amq.topic"));
    apply(s, Command::ClearTopicPermissions { user: name("alice"), vhost: name(V), exchange })
        .unwrap();
    assert!(may(s, Permission::Write, "x", None));
}

fn policy(policy: &str, pattern: &str, apply_to: ApplyTo, priority: i64) -> PolicySpec {
    PolicySpec {
        name: name(policy),
        pattern: pattern.to_owned(),
        apply_to,
        definition: Json::parse("{\"max-length\":1}").unwrap(),
        priority,
    }
}

fn set(policy: PolicySpec) -> Command {
    Command::SetPolicy { scope: PolicyScope::User, vhost: name(V), policy }
}

#[test]
fn the_matching_policy_of_the_highest_priority_applies() {
    let s = &mut state();
    declare(s, queue("logs.a"));
    for spec in [
        policy("none", "^x", ApplyTo::All, 9),
        policy("any", "", ApplyTo::All, 0),
        policy("logs", "^logs", ApplyTo::Queues, 1),
        policy("classic", "a$", ApplyTo::ClassicQueues, 2),
        policy("quorum", "a$", ApplyTo::QuorumQueues, 3),
        policy("exchanges", "^logs", ApplyTo::Exchanges, 3),
    ] {
        apply(s, set(spec)).unwrap();
    }
    let effective = |s: &State| {
        let vhost = s.vhost(V).unwrap();
        let found = vhost.policies.of_queue(PolicyScope::User, vhost.queue("logs.a").unwrap());
        found.map(|policy| policy.spec.name.to_string())
    };
    assert_eq!(effective(s).as_deref(), Some("classic"));
    let vhost = s.vhost(V).unwrap();
    let found = vhost.policies.of_exchange(PolicyScope::User, "logs.x").unwrap();
    assert_eq!(found.spec.name, "exchanges");
    assert!(vhost.policies.of_exchange(PolicyScope::Operator, "logs.x").is_none());
    for name_of in ["classic", "logs"] {
        let (scope, name_of) = (PolicyScope::User, name(name_of));
        apply(s, Command::ClearPolicy { scope, vhost: name(V), name: name_of }).unwrap();
    }
    assert_eq!(effective(s).as_deref(), Some("any"));
}

#[test]
fn malformed_policies_are_refused() {
    let s = &mut state();
    let with = |text: &str| {
        let definition = Json::parse(text).unwrap();
        set(PolicySpec { definition, ..policy("p", ".*", ApplyTo::All, 0) })
    };
    assert_eq!(refused(s, with("{}")), (ErrorKind::Invalid, "no policy provided".to_owned()));
    assert_eq!(refused(s, with("[1]")).1, "definition must be a dictionary: [1]");
    let (kind, _) = refused(s, set(policy("p", "(", ApplyTo::All, 0)));
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(Json::parse("{").is_err());
    assert!(
        ApplyTo::parse("everything").unwrap_err().to_string().starts_with("apply-to 'everything'")
    );
    let missing =
        Command::ClearPolicy { scope: PolicyScope::User, vhost: name(V), name: name("p") };
    assert_eq!(refused(s, missing), (ErrorKind::NotFound, "Policy 'p' does not exist".to_owned()));
}

#[test]
fn parameters_are_kept_by_component() {
    let s = &mut state();
    let value = || Json::parse("{\"a\": 1}").unwrap();
    let set = |component: &str| Command::SetParameter {
        vhost: name(V),
        component: name(component),
        name: name("n"),
        value: value(),
    };
    let clear = |component: &str| Command::ClearParameter {
        vhost: name(V),
        component: name(component),
        name: name("n"),
    };
    apply(s, set("shovel")).unwrap();
    apply(s, set("federation-upstream")).unwrap();
    assert_eq!(s.vhost(V).unwrap().parameters.iter().count(), 2);
    assert_eq!(s.vhost(V).unwrap().parameters.get("shovel", "n"), Some(&value()));
    apply(s, clear("shovel")).unwrap();
    assert_eq!(refused(s, clear("shovel")).0, ErrorKind::NotFound);
    apply(s, Command::SetGlobalParameter { name: name("g"), value: value() }).unwrap();
    assert_eq!(s.global_parameters().get("g"), Some(&value()));
    assert_eq!(State::restore(&everything(s)).unwrap().global_parameters().iter().count(), 1);
    apply(s, Command::ClearGlobalParameter { name: name("g") }).unwrap();
    assert_eq!(
        refused(s, Command::ClearGlobalParameter { name: name("g") }).0,
        ErrorKind::NotFound
    );
}
