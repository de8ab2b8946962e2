use super::*;
use serde_json::{Value, json};

/// A state that management questions are put to.
struct Node(State, HashAlgorithm);

impl Node {
    fn new() -> Self {
        let mut node = Self(State::new(), HashAlgorithm::default());
        node.ask(add_vhost, json!({"vhost": "/"})).unwrap();
        node.ask(add_user, json!({"user": "ada", "password": "x"})).unwrap();
        node
    }

    fn ask(&mut self, change: Define, request: Value) -> Result<usize, ApiError> {
        let request = Request::of(request.as_object().unwrap().clone());
        let rule = &PasswordRule::Anything;
        let now = Present { state: &self.0, hashing: self.1, salt: [1, 2, 3, 4], rule };
        let commands = change(&now, &request)?;
        self.0 = mgmt::foretell(&self.0, &commands)?;
        Ok(commands.len())
    }

    fn refused(&mut self, change: Define, request: Value) -> (ErrorCode, String) {
        let api_error = self.ask(change, request).unwrap_err();
        (api_error.kind, api_error.text)
    }
}

#[test]
fn users_come_and_go() {
    let mut node = Node::new();
    assert!(node.0.user("ada").unwrap().password.verify(b"x"));
    assert_eq!(
        node.refused(add_user, json!({"user": "ada", "password": "x"})),
        (ErrorCode::UserExists, "ada".to_owned())
    );
    node.ask(change_password, json!({"user": "ada", "password": "y"})).unwrap();
    assert!(node.0.user("ada").unwrap().password.verify(b"y"));
    node.ask(clear_password, json!({"user": "ada"})).unwrap();
    assert!(node.0.user("ada").unwrap().password.is_empty());
    node.ask(set_user_tags, json!({"user": "ada", "tags": ["a", "b"]})).unwrap();
    assert!(node.0.user("ada").unwrap().has_tag("b"));
    node.ask(delete_user, json!({"user": "ada"})).unwrap();
    assert_eq!(
        node.refused(delete_user, json!({"user": "ada"})),
        (ErrorCode::NoSuchUser, "ada".to_owned())
    );
}

#[test]
fn new_passwords_are_hashed_as_the_node_is_told() {
    let mut node = Node::new();
    let by = |node: &Node, user: &str| node.0.user(user).unwrap().password.algorithm;
    for algorithm in HashAlgorithm::ALL {
        node.1 = algorithm;
        node.ask(change_password, json!({"user": "ada", "password": "y"})).unwrap();
        assert_eq!(by(&node, "ada"), algorithm);
        assert!(node.0.user("ada").unwrap().password.verify(b"y"));
        let hash = PasswordHash::by(algorithm, [7; 4], "z").to_base64();
        let bob = json!({"user": "bob", "password": hash, "pre_hashed_password": true});
        node.ask(add_user, bob).unwrap();
        assert!(node.0.user("bob").unwrap().password.verify(b"z"));
        node.ask(delete_user, json!({"user": "bob"})).unwrap();
    }
}

#[test]
fn a_password_may_come_as_its_hash() {
    let mut node = Node::new();
    let hash = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR";
    let request = json!({"user": "bob", "password": hash, "pre_hashed_password": true});
    node.ask(add_user, request).unwrap();
    assert!(node.0.user("bob").unwrap().password.verify(b"test12"));
    let request = json!({"user": "eve", "password": "???", "pre_hashed_password": true});
    assert_eq!(node.refused(add_user, request).0, ErrorCode::Invalid);
}

#[test]
fn permissions_are_set_and_cleared() {
    let mut node = Node::new();
    let set = |vhost: &str, user: &str, configure: &str| json!({"vhost": vhost, "user": user, "configure": configure, "write": ".*", "read": ""});
    node.ask(set_permissions, set("/", "ada", "^a")).unwrap();
    assert!(node.0.users().may_enter("ada", "/"));
    let (kind, text) = node.refused(set_permissions, set("v9", "ada", ""));
    assert_eq!((kind, text.as_str()), (ErrorCode::NoSuchVhost, "v9"));
    assert_eq!(node.refused(set_permissions, set("/", "eve", "")).0, ErrorCode::NoSuchUser);
    let (kind, text) = node.refused(set_permissions, set("/", "ada", "["));
    assert_eq!(kind, ErrorCode::Invalid);
    assert!(text.starts_with("{:invalid_regexp, '[', {'"), "{text}");
    node.ask(clear_permissions, json!({"vhost": "/", "user": "ada"})).unwrap();
    assert!(!node.0.users().may_enter("ada", "/"));
    node.ask(add_vhost, json!({"vhost": "v2"})).unwrap();
    let everywhere = json!({"user": "ada", "configure": "", "write": "", "read": ""});
    assert_eq!(node.ask(set_permissions_globally, everywhere), Ok(2));
    assert!(node.0.users().may_enter("ada", "v2"));
}

#[test]
fn topic_permissions_are_set_and_cleared() {
    let mut node = Node::new();
    let set = |exchange| json!({"vhost": "/", "user": "ada", "exchange": exchange, "write": "w", "read": "r"});
    node.ask(set_topic_permissions, set("amq.topic")).unwrap();
    let none = (ErrorCode::Invalid, "Exchange none does not exist".to_owned());
    assert_eq!(node.refused(set_topic_permissions, set("none")), none);
    assert_eq!(node.0.user("ada").unwrap().topic_permissions().count(), 1);
    node.ask(clear_topic_permissions, json!({"vhost": "/", "user": "ada"})).unwrap();
    assert_eq!(node.0.user("ada").unwrap().topic_permissions().count(), 0);
}

#[test]
fn vhosts_have_metadata() {
    let mut node = Node::new();
    let request =
        json!({"vhost": "v", "description": "d", "tags": "a, b,", "default_queue_type": "classic"});
    node.ask(add_vhost, request).unwrap();
    assert_eq!(node.ask(add_vhost, json!({"vhost": "v"})), Ok(0));
    node.ask(update_vhost, json!({"vhost": "v", "description": "e"})).unwrap();
    node.ask(protect_vhost, json!({"vhost": "v"})).unwrap();
    let metadata = node.0.vhost("v").unwrap().metadata.clone();
    assert_eq!(metadata.description, "e");
    assert_eq!(metadata.tags.len(), 2);
    assert_eq!(metadata.default_queue_type.as_deref(), Some("classic"));
    assert_eq!(
        node.refused(delete_vhost, json!({"vhost": "v"})),
        (ErrorCode::VhostProtected, "v".to_owned())
    );
    node.ask(unprotect_vhost, json!({"vhost": "v"})).unwrap();
    node.ask(update_vhost, json!({"vhost": "v", "tags": ["z"]})).unwrap();
    node.ask(delete_vhost, json!({"vhost": "v"})).unwrap();
    assert_eq!(
        node.refused(delete_vhost, json!({"vhost": "v"})),
        (ErrorCode::NoSuchVhost, "v".to_owned())
    );
}

#[test]
fn limits_are_replaced_for_vhosts_and_merged_for_users() {
    let mut node = Node::new();
    let set = |definition: Value| json!({"vhost": "/", "user": "ada", "definition": definition});
    node.ask(set_vhost_limits, set(json!({"max-connections":5,"max-queues":2}))).unwrap();
    node.ask(set_vhost_limits, set(json!({"max-queues":3}))).unwrap();
    let limits = node.0.vhost("/").unwrap().limits;
    assert_eq!((limits.max_connections, limits.max_queues), (None, Some(3)));
    assert_eq!(
        node.refused(set_vhost_limits, set(json!({"bogus":5}))).1,
        "Validation failed\n\nUnrecognised terms [{<<\"bogus\">>,5}] in limits\n"
    );
    node.ask(clear_vhost_limits, json!({"vhost": "/"})).unwrap();
    let (kind, _) = node.refused(clear_vhost_limits, json!({"vhost": "/"}));
    assert_eq!(kind, ErrorCode::ParameterNotFound);

    node.ask(set_user_limits, set(json!({"max-connections":5}))).unwrap();
    node.ask(set_user_limits, set(json!({"max-channels":2}))).unwrap();
    let limits = node.0.user("ada").unwrap().limits;
    assert_eq!((limits.max_connections, limits.max_channels), (Some(5), Some(2)));
    assert_eq!(
        node.refused(set_user_limits, set(json!({"bogus":2}))).1,
        "Unrecognised terms [{<<\"bogus\">>,2}] in user-limits"
    );
    node.ask(delete_user_limit, json!({"user": "ada", "name": "max-channels"})).unwrap();
    assert_eq!(node.0.user("ada").unwrap().limits.max_connections, Some(5));
    node.ask(delete_user_limit, json!({"user": "ada", "name": "all"})).unwrap();
    assert_eq!(node.0.user("ada").unwrap().limits, meta::UserLimits::default());
    assert_eq!(node.refused(set_user_limits, set(json!(1))).0, ErrorCode::Invalid);
}

#[test]
fn policies_are_checked_as_by_rabbitmq() {
    let mut node = Node::new();
    let set = |pattern: &str, definition: Value| {
        json!({"vhost": "/", "name": "p", "pattern": pattern, "definition": definition,
            "priority": 3, "apply_to": "queues"})
    };
    node.ask(set_policy, set("^q", json!({"max-length":10}))).unwrap();
    let told = |node: &mut Node, change: Define, request| node.refused(change, request).1;
    assert_eq!(
        told(&mut node, set_policy, set("^q", json!({}))),
        "Validation failed\n\nno policy provided\n"
    );
    assert_eq!(
        told(&mut node, set_policy, set("^q", json!({"bogus":1}))),
        "Validation failed\n\n[{<<\"bogus\">>,1}] are not recognised policy settings\n"
    );
    assert_eq!(
        told(&mut node, set_operator_policy, set("^q", json!({"dead-letter-exchange":"x"}))),
        "Validation failed\n\n[{<<\"dead-letter-exchange\">>,<<\"x\">>}] are not recognised \
         policy settings\n"
    );
    let text = told(&mut node, set_policy, set("[", json!({"max-length":10})));
    assert!(text.starts_with(
        "Validation failed\n\npattern should be regular expression but is invalid: {\""
    ));
    node.ask(clear_policy, json!({"vhost": "/", "name": "p"})).unwrap();
    let (kind, _) = node.refused(clear_policy, json!({"vhost": "/", "name": "p"}));
    assert_eq!(kind, ErrorCode::ParameterNotFound);
}

#[test]
fn parameters_are_set_and_cleared() {
    let mut node = Node::new();
    let set =
        |component: &str| json!({"vhost": "/", "component": component, "name": "n", "value": {}});
    for component in ["nocomp", "shovel", "federation-upstream", "federation-upstream-set"] {
        let text = format!("Validation failed\n\ncomponent {component} not found\n");
        assert_eq!(node.refused(set_parameter, set(component)), (ErrorCode::Invalid, text));
    }
    assert_eq!(node.refused(set_parameter, set("policy")).0, ErrorCode::Invalid);
    let limits = json!({"vhost": "/", "component": "vhost-limits", "name": "limits",
        "value": {"max-queues": 7}});
    node.ask(set_parameter, limits.clone()).unwrap();
    assert_eq!(node.0.vhost("/").unwrap().limits.max_queues, Some(7));
    node.ask(clear_parameter, limits).unwrap();
    assert_eq!(node.0.vhost("/").unwrap().limits.max_queues, None);
    assert_eq!(node.refused(clear_parameter, set("shovel")).0, ErrorCode::ParameterNotFound);
    node.ask(set_global_parameter, json!({"name": "g", "value": {"a": 1}})).unwrap();
    node.ask(set_cluster_name, json!({"name": "c \"1\""})).unwrap();
    assert_eq!(node.0.global_parameters().get("cluster_name").unwrap().value(), json!("c \"1\""));
    node.ask(clear_global_parameter, json!({"name": "g"})).unwrap();
    let (kind, _) = node.refused(clear_global_parameter, json!({"name": "g"}));
    assert_eq!(kind, ErrorCode::ParameterNotFound);
}

#[test]
fn a_default_queue_type_that_is_not_there_is_refused() {
    let mut node = Node::new();
    let add = json!({"vhost": "v", "default_queue_type": "of-the-future"});
    let (api_error, text) = node.refused(add_vhost, add);
    assert_eq!(api_error, ErrorCode::Unsupported);
    assert!(text.starts_with("Unsupported default queue type: "), "{text}");
    let update = json!({"vhost": "/", "default_queue_type": "of-the-future"});
    assert_eq!(node.refused(update_vhost, update).0, ErrorCode::Unsupported);
    for kind in ["classic", "quorum", "stream"] {
        node.ask(add_vhost, json!({"vhost": kind, "default_queue_type": kind})).unwrap();
    }
}

#[test]
fn what_is_missing_is_named() {
    let mut node = Node::new();
    let lacking = "[{key_missing,configure},{key_missing,read}]".to_owned();
    let request = json!({"user": "ada", "vhost": "/", "write": ""});
    assert_eq!(node.refused(set_permissions, request), (ErrorCode::BadRequest, lacking));
}

#[test]
fn a_user_is_put_as_by_rabbitmq() {
    let mut node = Node::new();
    let put = |more: Value| {
        let mut fields = json!({"user": "bob", "tags": "a, b"});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fields
    };
    let bob = |node: &Node| node.0.user("bob").unwrap().clone();
    node.ask(put_user, put(json!({}))).unwrap();
    assert!(bob(&node).password.is_empty() && bob(&node).has_tag("b"));
    node.ask(put_user, put(json!({"password": "x", "tags": ["c"]}))).unwrap();
    assert!(bob(&node).password.verify(b"x") && !bob(&node).has_tag("a"));
    node.ask(put_user, put(json!({}))).unwrap();
    assert!(bob(&node).password.verify(b"x"), "a password that is not named stays");
    node.ask(put_user, put(json!({"password_hash": ""}))).unwrap();
    assert!(bob(&node).password.is_empty());
    for wrong in [
        json!({"password": "x", "password_hash": "y"}),
        json!({"password_hash": "???"}),
        json!({"tags": 5}),
        json!({"tags": [5]}),
    ] {
        node.refused(put_user, put(wrong));
    }
    node.ask(delete_users, json!({"users": ["bob", "eve"]})).unwrap();
    assert!(node.0.user("bob").is_none());
}

#[test]
fn one_limit_is_put_or_deleted() {
    let mut node = Node::new();
    let limit = |name: &str| json!({"vhost": "/", "user": "ada", "name": name, "value": 5});
    node.ask(put_vhost_limit, limit("max-queues")).unwrap();
    node.ask(put_vhost_limit, limit("max-connections")).unwrap();
    node.ask(delete_vhost_limit, limit("max-connections")).unwrap();
    let limits = node.0.vhost("/").unwrap().limits;
    assert_eq!((limits.max_connections, limits.max_queues), (None, Some(5)));
    node.ask(put_user_limit, limit("max-channels")).unwrap();
    assert_eq!(node.0.user("ada").unwrap().limits.max_channels, Some(5));
    assert_eq!(node.refused(put_user_limit, limit("bogus")).0, ErrorCode::Invalid);
}
