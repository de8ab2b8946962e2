//! Random commands about few names, so that they meet.

use amqp091::{ShortString, Table, Value};
use meta::{
    ApplyTo, BindingSpec, Command, ConnectionId, DestinationName, ExchangeDeclare, ExchangeKind,
    Json, Name, NamedBy, PasswordHash, PolicyScope, PolicySpec, QueueDeclare, QueueHome, QueueId,
    RoutingKey, VhostMetadata,
};
use testing::Random;

fn name(text: &str) -> Name {
    Name::from(text)
}

fn some_name(random: &mut Random) -> Name {
    name(random.pick(&["a", "b", "c"]))
}

pub(crate) fn create_vhost(vhost: &str) -> Command {
    Command::CreateVhost { vhost: name(vhost), metadata: VhostMetadata::default() }
}

pub(crate) fn queue(text: &str) -> QueueDeclare {
    QueueDeclare {
        vhost: name("/"),
        name: name(text),
        named_by: NamedBy::Client,
        durable: true,
        auto_delete: false,
        exclusive_owner: None,
        arguments: Table::new(),
        id: None,
        home: QueueHome::default(),
    }
}

fn random_queue(random: &mut Random) -> Command {
    let owner = 1 + random.below(2) as u64;
    let mut declare = queue(&some_name(random));
    declare.durable = random.percent(60);
    declare.exclusive_owner = random.percent(20).then_some(ConnectionId(owner));
    if random.percent(10) {
        let entry = (ShortString::from_static("x-message-ttl"), Value::I32(5));
        declare.arguments = [entry].into_iter().collect();
    }
    Command::DeclareQueue(declare)
}

fn random_binding(random: &mut Random) -> BindingSpec {
    let target = some_name(random);
    let destination = if random.percent(60) {
        DestinationName::Queue(target)
    } else {
        DestinationName::Exchange(target)
    };
    BindingSpec {
        vhost: name("/"),
        source: some_name(random),
        destination,
        key: RoutingKey::from(random.pick(&["", "k"])),
        arguments: Table::new(),
        by: None,
    }
}

fn random_exchange(random: &mut Random) -> Command {
    Command::DeclareExchange(ExchangeDeclare {
        vhost: name("/"),
        name: some_name(random),
        kind: ExchangeKind::Fanout,
        durable: random.percent(70),
        auto_delete: random.percent(30),
        internal: false,
        arguments: Table::new(),
    })
}

pub(crate) fn random_command(random: &mut Random) -> Command {
    let (vhost, scope) = (name("/"), PolicyScope::User);
    let user = some_name(random);
    match random.below(100) {
        0..30 => random_queue(random),
        30..38 => Command::DeleteQueue { vhost, name: user, by: None },
        38..42 => Command::DeleteQueueById { id: QueueId(1 + random.below(20) as u64) },
        42..46 => Command::DeleteExclusiveQueues { owner: ConnectionId(1) },
        46..56 => random_exchange(random),
        56..60 => Command::DeleteExchange { vhost, name: user, if_unused: random.percent(50) },
        60..72 => Command::Bind(random_binding(random)),
        72..78 => Command::Unbind(random_binding(random)),
        78..82 => {
            let definition = Json::parse(r#"{"max-length":7}"#).unwrap();
            let (pattern, apply_to) = ("^a".to_owned(), ApplyTo::Queues);
            let priority = random.below(3) as i64;
            let policy = PolicySpec { name: user, pattern, apply_to, definition, priority };
            Command::SetPolicy { scope, vhost, policy }
        }
        82..84 => Command::ClearPolicy { scope, vhost, name: user },
        84..88 => {
            let password =
                PasswordHash::new([u8::try_from(random.below(256)).unwrap(); 4], "secret");
            Command::CreateUser { user, password, tags: Vec::new() }
        }
        88..90 => Command::DeleteUser { user },
        90..94 => {
            let all = || ".*".to_owned();
            Command::SetPermissions { user, vhost, configure: all(), write: all(), read: all() }
        }
        94..96 => create_vhost("/"),
        96..98 => create_vhost("v"),
        _ => Command::DeleteVhost { vhost: name("v") },
    }
}
