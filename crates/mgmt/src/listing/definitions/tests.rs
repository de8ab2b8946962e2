use super::*;
use crate::api_error::Kind;
use meta::{
    ApplyTo, BindingSpec, Command, ExchangeDeclare, ExchangeKind, Json, NamedBy, PasswordHash,
    PolicySpec, QueueDeclare, RoutingKey, VhostMetadata,
};
use session::{ShortString, Table};

fn name(text: &str) -> Name {
    Name::from(text)
}

fn arguments(key: &'static str, value: &str) -> Table {
    let mut table = Table::new();
    let text = session::Value::LongString(value.as_bytes().to_vec());
    table.push(ShortString::from_static(key), text);
    table
}

fn commands() -> Vec<Command> {
    let vhost = name("v");
    vec![
        Command::CreateVhost { vhost: vhost.clone(), metadata: VhostMetadata::default() },
        Command::CreateUser {
            user: name("ada"),
            password: PasswordHash::default(),
            tags: vec![name("management")],
        },
        Command::SetPermissions {
            user: name("ada"),
            vhost: vhost.clone(),
            configure: "^a".to_owned(),
            write: ".*".to_owned(),
            read: String::new(),
        },
        Command::SetTopicPermissions {
            user: name("ada"),
            vhost: vhost.clone(),
            exchange: name("amq.topic"),
            write: "w".to_owned(),
            read: "r".to_owned(),
        },
        Command::SetPolicy {
            scope: PolicyScope::User,
            vhost: vhost.clone(),
            policy: PolicySpec {
                name: name("p"),
                pattern: "^q".to_owned(),
                apply_to: ApplyTo::All,
                definition: Json::parse(r#"{"max-length":10}"#).unwrap(),
                priority: 2,
            },
        },
        Command::DeclareExchange(ExchangeDeclare {
            vhost: vhost.clone(),
            name: name("e1"),
            kind: ExchangeKind::Headers,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: arguments("alternate-exchange", "amq.fanout"),
        }),
        Command::DeclareQueue(QueueDeclare {
            vhost: vhost.clone(),
            name: name("q1"),
            named_by: NamedBy::Client,
            durable: true,
            auto_delete: false,
            exclusive_owner: None,
            arguments: Table::new(),
            id: None,
        }),
        Command::Bind(BindingSpec {
            vhost,
            source: name("e1"),
            destination: DestinationName::Queue(name("q1")),
            key: RoutingKey::from("k"),
            arguments: arguments("x-match", "all"),
            by: None,
        }),
    ]
}

fn state() -> State {
    let mut state = State::new();
    for command in commands() {
        state.apply(stdx::Now::default(), &command).unwrap();
    }
    state
}

fn ask(endpoint: &str, request: Value) -> Result<Value, ApiError> {
    let request = Request::parse(request.to_string().as_bytes()).unwrap();
    rows_of_definitions(&state(), endpoint, &request, |_| false).unwrap()
}

#[test]
fn users_and_permissions() {
    assert_eq!(ask("list_users", json!({})), Ok(json!([{"user": "ada", "tags": ["management"]}])));
    assert_eq!(
        ask("list_permissions", json!({"vhost": "v"})),
        Ok(json!([{"user": "ada", "configure": "^a", "write": ".*", "read": ""}]))
    );
    assert_eq!(
        ask("list_user_permissions", json!({"user": "ada"})),
        Ok(json!([{"vhost": "v", "configure": "^a", "write": ".*", "read": ""}]))
    );
    assert_eq!(
        ask("list_topic_permissions", json!({"vhost": "v"})),
        Ok(json!([{"user": "ada", "exchange": "amq.topic", "write": "w", "read": "r"}]))
    );
    assert_eq!(
        ask("list_user_topic_permissions", json!({"user": "ada"})),
        Ok(json!([{"vhost": "v", "exchange": "amq.topic", "write": "w", "read": "r"}]))
    );
    let kind = |answer: Result<Value, ApiError>| answer.unwrap_err().kind;
    assert_eq!(kind(ask("list_permissions", json!({"vhost": "x"}))), Kind::NoSuchVhost);
    assert_eq!(kind(ask("list_user_permissions", json!({"user": "x"}))), Kind::NoSuchUser);
}

#[test]
fn policies_are_shown_as_they_were_set() {
    assert_eq!(
        ask("list_policies", json!({"vhost": "v"})),
        Ok(json!([{
            "vhost": "v", "name": "p", "pattern": "^q", "apply-to": "all",
            "definition": "{\"max-length\":10}", "priority": 2,
        }]))
    );
    assert_eq!(ask("list_operator_policies", json!({"vhost": "v"})), Ok(json!([])));
    assert_eq!(ask("list_parameters", json!({"vhost": "v"})), Ok(json!([])));
    assert_eq!(ask("list_vhost_limits", json!({"vhost": "v"})), Ok(json!([])));
    assert_eq!(ask("list_user_limits", json!({"user": "ada"})), Ok(json!("{}")));
}

#[test]
fn exchanges_and_bindings_have_the_columns_asked_for() {
    let rows =
        ask("list_exchanges", json!({"vhost": "v", "columns": ["name", "type", "arguments"]}))
            .unwrap();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 8);
    assert!(rows.contains(&json!({
        "name": "e1", "type": "headers",
        "arguments": [["alternate-exchange", "longstr", "amq.fanout"]],
    })));
    assert!(rows.contains(&json!({"name": "", "type": "direct", "arguments": []})));
    let columns = ["source_name", "destination_name", "destination_kind", "routing_key"];
    assert_eq!(
        ask("list_bindings", json!({"vhost": "v", "columns": columns})),
        Ok(json!([
            {"source_name": "", "destination_name": "q1", "destination_kind": "queue",
                "routing_key": "q1"},
            {"source_name": "e1", "destination_name": "q1", "destination_kind": "queue",
                "routing_key": "k"},
        ]))
    );
    assert_eq!(ask("list_exchanges", json!({"vhost": "x", "columns": []})), Ok(json!([])));
}

#[test]
fn vhosts_have_the_columns_asked_for() {
    assert_eq!(
        ask("list_vhosts", json!({"columns": ["name", "tags", "default_queue_type"]})),
        Ok(json!([{"name": "v", "tags": [], "default_queue_type": "classic"}]))
    );
}
