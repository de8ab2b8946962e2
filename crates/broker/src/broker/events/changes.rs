//! Events that tell of changes of definitions.

use super::{EventHeaders, Events};
use meta::{
    Command, Destination, DestinationName, Done, ExchangeDef, Outcome, PolicySpec, QueueDef,
    Removed, VhostLimits,
};
use std::collections::BTreeMap;

impl Events<'_> {
    /// Tells what a command has done, whoever it was.
    pub(crate) fn definitions_changed(&self, command: &Command, outcome: &Outcome, by: &str) {
        match &outcome.done {
            Done::QueueCreated(queue) if !queue.is_internal() => {
                self.tell("queue.created", about_queue(queue).by(by));
            }
            Done::ExchangeCreated(exchange) => {
                if let Command::DeclareExchange(declare) = command {
                    let facts = about_exchange(exchange).text("vhost", &declare.vhost);
                    self.tell("exchange.created", facts.by(by));
                }
            }
            Done::Changed => self.command(command, by),
            Done::QueueCreated(_)
            | Done::Nothing
            | Done::QueueExists(_)
            | Done::ExchangeExists(_) => {}
        }
        self.removed(&outcome.removed, by);
    }

    /// Tells of what is gone: bindings also before what they belong to.
    pub(crate) fn removed(&self, all: &[Removed], by: &str) {
        let view = self.0.view();
        let mut gone = BTreeMap::new();
        // A queue stands behind its bindings.
        for removed in all {
            if let Removed::Queue(queue) = removed {
                gone.insert(queue.id, queue);
            }
        }
        for removed in all {
            match removed {
                Removed::Queue(queue) if queue.is_internal() => {}
                Removed::Queue(queue) => {
                    let facts = named(&queue.name).text("vhost", &queue.vhost);
                    self.tell("queue.deleted", facts.text("type", queue.kind.as_str()).by(by));
                }
                Removed::Exchange { vhost, exchange } => {
                    self.tell(
                        "exchange.deleted",
                        named(&exchange.name).text("vhost", vhost).by(by),
                    );
                }
                Removed::Binding { vhost, binding } => {
                    let queue = |id| view.meta.queue_by_id(id).or_else(|| gone.get(&id).copied());
                    let (kind, name) = match &binding.destination {
                        Destination::Exchange(name) => ("exchange", name.clone()),
                        Destination::Queue(id) => {
                            ("queue", queue(*id).map(|it| it.name.clone()).unwrap_or_default())
                        }
                    };
                    let facts = bound(&binding.source, kind, &name, &binding.key.to_text())
                        .table("arguments", &binding.arguments)
                        .text("vhost", vhost);
                    self.tell("binding.deleted", facts.by(by));
                }
                Removed::Vhost(vhost) => self.tell("vhost.deleted", named(vhost).by(by)),
                Removed::User(user) => self.tell("user.deleted", named(user).by(by)),
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are told of elsewhere")]
    fn command(&self, command: &Command, by: &str) {
        match command {
            Command::CreateVhost { vhost, metadata } => {
                let facts = named(vhost).text("description", &metadata.description);
                self.tell("vhost.created", facts.names("tags", &metadata.tags).by(by));
            }
            Command::SetVhostLimits { vhost, limits } => {
                let VhostLimits { max_connections, max_queues } = *limits;
                let limits = [("max-connections", max_connections), ("max-queues", max_queues)];
                let is_any = limits.iter().any(|(_, limit)| limit.is_some());
                let event = if is_any { "vhost.limits.set" } else { "vhost.limits.cleared" };
                let set = limits.into_iter().filter_map(|(name, limit)| Some((name, limit?)));
                let facts =
                    set.fold(named(vhost), |facts, (name, limit)| facts.number(name, limit));
                self.tell(event, facts.by(by));
            }
            Command::CreateUser { user, .. } => self.tell("user.created", named(user).by(by)),
            Command::SetPassword { user, password } => {
                let is_cleared = password.is_empty();
                let event =
                    if is_cleared { "user.password.cleared" } else { "user.password.changed" };
                self.tell(event, named(user).by(by));
            }
            Command::SetUserTags { user, tags } => {
                self.tell("user.tags.set", named(user).names("tags", tags).by(by));
            }
            Command::Bind(spec) => {
                let (kind, name) = match &spec.destination {
                    DestinationName::Queue(name) => ("queue", name),
                    DestinationName::Exchange(name) => ("exchange", name),
                };
                let facts = bound(&spec.source, kind, name, &spec.key.to_text())
                    .table("arguments", &spec.arguments)
                    .text("vhost", &spec.vhost);
                self.tell("binding.created", facts.by(by));
            }
            other => self.access(other, by),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are told of elsewhere")]
    fn access(&self, command: &Command, by: &str) {
        match command {
            Command::SetPermissions { user, vhost, configure, write, read } => {
                let facts = of_user(user, vhost).text("configure", configure);
                let facts = facts.text("write", write).text("read", read);
                self.tell("permission.created", facts.by(by));
            }
            Command::ClearPermissions { user, vhost } => {
                self.tell("permission.deleted", of_user(user, vhost).by(by));
            }
            Command::SetTopicPermissions { user, vhost, exchange, write, read } => {
                let facts = of_user(user, vhost).text("exchange", exchange);
                let facts = facts.text("write", write).text("read", read);
                self.tell("topic.permission.created", facts.by(by));
            }
            Command::ClearTopicPermissions { user, vhost, exchange } => {
                let (facts, exchange) = (of_user(user, vhost), exchange.iter());
                let facts = exchange.fold(facts, |facts, name| facts.text("exchange", name));
                self.tell("topic.permission.deleted", facts.by(by));
            }
            other => self.setting(other, by),
        }
    }

    /// Any other is told by what it creates or removes, or is the broker's own.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the last of several such functions")]
    fn setting(&self, command: &Command, by: &str) {
        match command {
            Command::SetPolicy { vhost, policy, .. } => {
                self.tell("policy.set", about_policy(policy).text("vhost", vhost).by(by));
            }
            Command::ClearPolicy { vhost, name, .. } => {
                self.tell("policy.cleared", named(name).text("vhost", vhost).by(by));
            }
            Command::SetParameter { vhost, component, name, value } => {
                let facts = named(name).text("vhost", vhost).text("component", component);
                self.tell("parameter.set", facts.unkept("value", value.as_str()).by(by));
            }
            Command::ClearParameter { vhost, component, name } => {
                let facts = named(name).text("vhost", vhost).text("component", component);
                self.tell("parameter.cleared", facts.by(by));
            }
            Command::SetGlobalParameter { name, value } => {
                self.tell("parameter.set", named(name).unkept("value", value.as_str()).by(by));
            }
            Command::ClearGlobalParameter { name } => {
                self.tell("parameter.cleared", named(name).by(by));
            }
            _ => {}
        }
    }
}

fn named(name: &str) -> EventHeaders {
    EventHeaders::default().text("name", name)
}

fn of_user(user: &str, vhost: &str) -> EventHeaders {
    EventHeaders::default().text("user", user).text("vhost", vhost)
}

fn bound(source: &str, kind: &str, name: &str, key: &str) -> EventHeaders {
    EventHeaders::default()
        .text("source_name", source)
        .text("source_kind", "exchange")
        .text("destination_name", name)
        .text("destination_kind", kind)
        .text("routing_key", key)
}

fn about_queue(queue: &QueueDef) -> EventHeaders {
    named(&queue.name)
        .text("vhost", &queue.vhost)
        .text("type", queue.kind.as_str())
        .flag("durable", queue.durable)
        .flag("auto_delete", queue.auto_delete)
        .flag("exclusive", queue.exclusive_owner.is_some())
        .table("arguments", &queue.arguments)
}

fn about_exchange(exchange: &ExchangeDef) -> EventHeaders {
    named(&exchange.name)
        .text("type", exchange.kind.as_str())
        .flag("durable", exchange.durable)
        .flag("auto_delete", exchange.auto_delete)
        .flag("internal", exchange.internal)
        .table("arguments", &exchange.arguments)
}

fn about_policy(policy: &PolicySpec) -> EventHeaders {
    named(&policy.name)
        .text("pattern", &policy.pattern)
        .text("apply-to", policy.apply_to.as_str())
        .text("definition", policy.definition.as_str())
        .number("priority", policy.priority)
}
