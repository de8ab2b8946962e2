//! Events that tell of changes of definitions.

use super::headers::EventHeaders;
use meta::{
    Command, Destination, DestinationName, Done, ExchangeDef, Outcome, PolicySpec, QueueDef,
    Removed, State, VhostLimits,
};
use std::collections::BTreeMap;
use std::fmt;

/// Tells of changes of definitions that a user has made.
#[derive(Clone, Copy)]
pub struct ChangeEvents<'e> {
    /// The definitions after the changes.
    pub definitions: &'e State,
    /// The user.
    pub by: &'e str,
    /// The receiver of each event: its name and its headers.
    pub tell: &'e dyn Fn(&'static str, EventHeaders),
}

impl fmt::Debug for ChangeEvents<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeEvents").field("by", &self.by).finish_non_exhaustive()
    }
}

impl ChangeEvents<'_> {
    fn tell(&self, name: &'static str, headers: EventHeaders) {
        (self.tell)(name, headers.by(self.by));
    }

    /// Tells what a command has done.
    pub fn changed(&self, command: &Command, outcome: &Outcome) {
        match &outcome.done {
            Done::QueueCreated(queue) if !queue.is_internal() => {
                self.tell("queue.created", about_queue(queue));
            }
            Done::ExchangeCreated(exchange) => {
                if let Command::DeclareExchange(declare) = command {
                    let facts = about_exchange(exchange).text("vhost", &declare.vhost);
                    self.tell("exchange.created", facts);
                }
            }
            Done::Changed => self.command(command),
            Done::QueueCreated(_)
            | Done::Nothing
            | Done::QueueExists(_)
            | Done::ExchangeExists(_)
            | Done::NodeJoined(_)
            | Done::NodeExists(_) => {}
        }
        self.removed(&outcome.removed);
    }

    /// Tells of what is gone: bindings also before what they belong to.
    pub fn removed(&self, all: &[Removed]) {
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
                    self.tell("queue.deleted", facts.text("type", queue.kind.as_str()));
                }
                Removed::Exchange { vhost, exchange } => {
                    self.tell("exchange.deleted", named(&exchange.name).text("vhost", vhost));
                }
                Removed::Binding { vhost, binding } => {
                    let queue =
                        |id| self.definitions.queue_by_id(id).or_else(|| gone.get(&id).copied());
                    let (kind, name) = match &binding.destination {
                        Destination::Exchange(name) => ("exchange", name.clone()),
                        Destination::Queue(id) => {
                            ("queue", queue(*id).map(|it| it.name.clone()).unwrap_or_default())
                        }
                    };
                    let facts = bound(&binding.source, kind, &name, &binding.key.to_text())
                        .table("arguments", &binding.arguments)
                        .text("vhost", vhost);
                    self.tell("binding.deleted", facts);
                }
                Removed::Vhost(vhost) => self.tell("vhost.deleted", named(vhost)),
                Removed::User(user) => self.tell("user.deleted", named(user)),
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are told of elsewhere")]
    fn command(&self, command: &Command) {
        match command {
            Command::CreateVhost { vhost, metadata } => {
                let facts = named(vhost).text("description", &metadata.description);
                self.tell("vhost.created", facts.names("tags", &metadata.tags));
            }
            Command::SetVhostLimits { vhost, limits } => {
                let VhostLimits { max_connections, max_queues } = *limits;
                let limits = [("max-connections", max_connections), ("max-queues", max_queues)];
                let is_any = limits.iter().any(|(_, limit)| limit.is_some());
                let event = if is_any { "vhost.limits.set" } else { "vhost.limits.cleared" };
                let set = limits.into_iter().filter_map(|(name, limit)| Some((name, limit?)));
                let facts =
                    set.fold(named(vhost), |facts, (name, limit)| facts.number(name, limit));
                self.tell(event, facts);
            }
            Command::CreateUser { user, .. } => self.tell("user.created", named(user)),
            Command::SetPassword { user, password } => {
                let is_cleared = password.is_empty();
                let event =
                    if is_cleared { "user.password.cleared" } else { "user.password.changed" };
                self.tell(event, named(user));
            }
            Command::SetUserTags { user, tags } => {
                self.tell("user.tags.set", named(user).names("tags", tags));
            }
            Command::Bind(spec) => {
                let (kind, name) = match &spec.destination {
                    DestinationName::Queue(name) => ("queue", name),
                    DestinationName::Exchange(name) => ("exchange", name),
                };
                let facts = bound(&spec.source, kind, name, &spec.key.to_text())
                    .table("arguments", &spec.arguments)
                    .text("vhost", &spec.vhost);
                self.tell("binding.created", facts);
            }
            other => self.access(other),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are told of elsewhere")]
    fn access(&self, command: &Command) {
        match command {
            Command::SetPermissions { user, vhost, configure, write, read } => {
                let facts = of_user(user, vhost).text("configure", configure);
                let facts = facts.text("write", write).text("read", read);
                self.tell("permission.created", facts);
            }
            Command::ClearPermissions { user, vhost } => {
                self.tell("permission.deleted", of_user(user, vhost));
            }
            Command::SetTopicPermissions { user, vhost, exchange, write, read } => {
                let facts = of_user(user, vhost).text("exchange", exchange);
                let facts = facts.text("write", write).text("read", read);
                self.tell("topic.permission.created", facts);
            }
            Command::ClearTopicPermissions { user, vhost, exchange } => {
                let (facts, exchange) = (of_user(user, vhost), exchange.iter());
                let facts = exchange.fold(facts, |facts, name| facts.text("exchange", name));
                self.tell("topic.permission.deleted", facts);
            }
            other => self.setting(other),
        }
    }

    /// Any other is told by what it creates or removes, or is the broker's own.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the last of several such functions")]
    fn setting(&self, command: &Command) {
        match command {
            Command::SetPolicy { vhost, policy, .. } => {
                self.tell("policy.set", about_policy(policy).text("vhost", vhost));
            }
            Command::ClearPolicy { vhost, name, .. } => {
                self.tell("policy.cleared", named(name).text("vhost", vhost));
            }
            Command::SetParameter { vhost, component, name, value } => {
                let facts = named(name).text("vhost", vhost).text("component", component);
                self.tell("parameter.set", facts.unkept("value", value.as_str()));
            }
            Command::ClearParameter { vhost, component, name } => {
                let facts = named(name).text("vhost", vhost).text("component", component);
                self.tell("parameter.cleared", facts);
            }
            Command::SetGlobalParameter { name, value } => {
                self.tell("parameter.set", named(name).unkept("value", value.as_str()));
            }
            Command::ClearGlobalParameter { name } => {
                self.tell("parameter.cleared", named(name));
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
