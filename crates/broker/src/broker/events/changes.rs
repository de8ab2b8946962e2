//! Events that tell of changes of definitions.

use super::{EventHeaders, Events};
use meta::{
    Binding, Command, Destination, DestinationName, Done, ExchangeDef, Outcome, PolicySpec,
    QueueDef, Removed, VhostLimits,
};
use std::sync::Arc;

impl Events<'_> {
    /// Tells what a command has done, whoever it was.
    pub(crate) fn definitions_changed(&self, command: &Command, outcome: &Outcome, by: &str) {
        if self.0.event_vhost.get().is_none() {
            return;
        }
        match &outcome.done {
            Done::QueueCreated(queue) if !queue.is_internal() => {
                self.tell("queue.created", || about_queue(queue).by(by));
            }
            Done::ExchangeCreated(exchange) => {
                if let Command::DeclareExchange(declare) = command {
                    self.tell("exchange.created", || {
                        about_exchange(exchange).text("vhost", &declare.vhost).by(by)
                    });
                }
            }
            Done::Changed => self.command(command, by),
            Done::QueueCreated(_)
            | Done::Nothing
            | Done::QueueExists(_)
            | Done::ExchangeExists(_) => {}
        }
        self.all_removed(&outcome.removed, by);
    }

    /// Tells of bindings that are gone before what they belong to.
    pub(crate) fn unbound(&self, removed: &[Removed], by: &str) {
        if self.0.event_vhost.get().is_some() {
            self.all_removed(removed, by);
        }
    }

    fn all_removed(&self, all: &[Removed], by: &str) {
        for removed in all {
            self.removed(removed, all, by);
        }
    }

    fn removed(&self, removed: &Removed, all: &[Removed], by: &str) {
        match removed {
            Removed::Queue(queue) if queue.is_internal() => {}
            Removed::Queue(queue) => self.tell("queue.deleted", || {
                let facts = named(&queue.name).text("vhost", &queue.vhost);
                facts.text("type", queue.kind.as_str()).by(by)
            }),
            Removed::Exchange { vhost, exchange } => {
                self.tell("exchange.deleted", || named(&exchange.name).text("vhost", vhost).by(by))
            }
            Removed::Binding { vhost, binding } => {
                self.tell("binding.deleted", || {
                    self.about_removed(binding, all).text("vhost", vhost).by(by)
                });
            }
            Removed::Vhost(vhost) => self.tell("vhost.deleted", || named(vhost).by(by)),
            Removed::User(user) => self.tell("user.deleted", || named(user).by(by)),
        }
    }

    fn about_removed(&self, binding: &Binding, all: &[Removed]) -> EventHeaders {
        let (kind, name) = match &binding.destination {
            Destination::Exchange(name) => ("exchange", name.clone()),
            Destination::Queue(id) => {
                // It stands behind its bindings.
                let with_them = || {
                    all.iter().rev().find_map(|removed| match removed {
                        Removed::Queue(queue) if queue.id == *id => Some(Arc::clone(queue)),
                        Removed::Queue(_)
                        | Removed::Binding { .. }
                        | Removed::Exchange { .. }
                        | Removed::Vhost(_)
                        | Removed::User(_) => None,
                    })
                };
                let queue = self.0.view().meta.queue_by_id(*id).cloned().or_else(with_them);
                ("queue", queue.map(|queue| queue.name.clone()).unwrap_or_default())
            }
        };
        let facts = bound(&binding.source, kind, &name, &binding.key.to_text());
        facts.table("arguments", &binding.arguments)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are told of elsewhere")]
    fn command(&self, command: &Command, by: &str) {
        match command {
            Command::CreateVhost { vhost, metadata } => self.tell("vhost.created", || {
                let facts = named(vhost).text("description", &metadata.description);
                facts.names("tags", &metadata.tags).by(by)
            }),
            Command::SetVhostLimits { vhost, limits } => {
                let VhostLimits { max_connections, max_queues } = *limits;
                let limits = [("max-connections", max_connections), ("max-queues", max_queues)];
                let is_any = limits.iter().any(|(_, limit)| limit.is_some());
                let event = if is_any { "vhost.limits.set" } else { "vhost.limits.cleared" };
                self.tell(event, || {
                    let set = limits.into_iter().filter_map(|(name, limit)| Some((name, limit?)));
                    set.fold(named(vhost), |facts, (name, limit)| facts.number(name, limit)).by(by)
                });
            }
            Command::CreateUser { user, .. } => self.tell("user.created", || named(user).by(by)),
            Command::SetPassword { user, password } => {
                let what = if password.is_empty() { "cleared" } else { "changed" };
                self.tell(&format!("user.password.{what}"), || named(user).by(by));
            }
            Command::SetUserTags { user, tags } => {
                self.tell("user.tags.set", || named(user).names("tags", tags).by(by));
            }
            Command::Bind(spec) => self.tell("binding.created", || {
                let (kind, name) = match &spec.destination {
                    DestinationName::Queue(name) => ("queue", name),
                    DestinationName::Exchange(name) => ("exchange", name),
                };
                bound(&spec.source, kind, name, &spec.key.to_text())
                    .table("arguments", &spec.arguments)
                    .text("vhost", &spec.vhost)
                    .by(by)
            }),
            other => self.access(other, by),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are told of elsewhere")]
    fn access(&self, command: &Command, by: &str) {
        match command {
            Command::SetPermissions { user, vhost, configure, write, read } => {
                self.tell("permission.created", || {
                    let facts = of_user(user, vhost).text("configure", configure);
                    facts.text("write", write).text("read", read).by(by)
                });
            }
            Command::ClearPermissions { user, vhost } => {
                self.tell("permission.deleted", || of_user(user, vhost).by(by));
            }
            Command::SetTopicPermissions { user, vhost, exchange, write, read } => {
                self.tell("topic.permission.created", || {
                    let facts = of_user(user, vhost).text("exchange", exchange);
                    facts.text("write", write).text("read", read).by(by)
                });
            }
            Command::ClearTopicPermissions { user, vhost, exchange } => {
                self.tell("topic.permission.deleted", || {
                    let (facts, exchange) = (of_user(user, vhost), exchange.iter());
                    exchange.fold(facts, |facts, name| facts.text("exchange", name)).by(by)
                });
            }
            other => self.setting(other, by),
        }
    }

    /// Any other is told by what it creates or removes, or is the broker's own.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the last of several such functions")]
    fn setting(&self, command: &Command, by: &str) {
        match command {
            Command::SetPolicy { vhost, policy, .. } => {
                self.tell("policy.set", || about_policy(policy).text("vhost", vhost).by(by));
            }
            Command::ClearPolicy { vhost, name, .. } => {
                self.tell("policy.cleared", || named(name).text("vhost", vhost).by(by));
            }
            Command::SetParameter { vhost, component, name, value } => {
                self.tell("parameter.set", || {
                    let facts = named(name).text("vhost", vhost).text("component", component);
                    facts.text("value", value.as_str()).by(by)
                });
            }
            Command::ClearParameter { vhost, component, name } => {
                self.tell("parameter.cleared", || {
                    named(name).text("vhost", vhost).text("component", component).by(by)
                });
            }
            Command::SetGlobalParameter { name, value } => {
                self.tell("parameter.set", || named(name).text("value", value.as_str()).by(by));
            }
            Command::ClearGlobalParameter { name } => {
                self.tell("parameter.cleared", || named(name).by(by));
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
        .put("durable", queue.durable)
        .put("auto_delete", queue.auto_delete)
        .put("exclusive", queue.exclusive_owner.is_some())
        .table("arguments", &queue.arguments)
}

fn about_exchange(exchange: &ExchangeDef) -> EventHeaders {
    named(&exchange.name)
        .text("type", exchange.kind.as_str())
        .put("durable", exchange.durable)
        .put("auto_delete", exchange.auto_delete)
        .put("internal", exchange.internal)
        .table("arguments", &exchange.arguments)
}

fn about_policy(policy: &PolicySpec) -> EventHeaders {
    named(&policy.name)
        .text("pattern", &policy.pattern)
        .text("apply-to", policy.apply_to.as_str())
        .text("definition", policy.definition.as_str())
        .number("priority", policy.priority)
}
