//! Configured defaults of new virtual hosts: limits, operator policies, users.

use std::collections::BTreeMap;

use routing::Name;
use serde_json::{Map, Value};

use crate::command::Command;
use crate::parameter::Json;
use crate::password::PasswordHash;
use crate::pattern::Pattern;
use crate::policy::{ApplyTo, PolicyScope, PolicySpec};
use crate::state::State;
use crate::vhost_metadata::VhostLimits;

/// The expression that matches every name.
const EVERYTHING: &str = ".*";

/// The defaults of new virtual hosts, by the ids the configuration gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VhostDefaults {
    /// The limits by id: of those that match a virtual host, the first counts.
    pub limits: BTreeMap<String, DefaultLimits>,
    /// Operator policies; each is called by its id.
    pub operator_policies: BTreeMap<String, DefaultPolicy>,
    /// Users by name.
    pub users: BTreeMap<String, DefaultUser>,
}

/// Limits of virtual hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultLimits {
    /// The virtual hosts: a regular expression.
    pub pattern: String,
    /// The limits.
    pub limits: VhostLimits,
}

/// An operator policy of virtual hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultPolicy {
    /// The virtual hosts: a regular expression.
    pub vhost_pattern: String,
    /// The queues: a regular expression.
    pub queue_pattern: String,
    /// The kinds of object it applies to.
    pub apply_to: ApplyTo,
    /// The policy's settings, by key.
    pub settings: BTreeMap<&'static str, u64>,
}

/// A user with access to virtual hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultUser {
    /// The virtual hosts: a regular expression.
    pub vhost_pattern: String,
    /// The password given to the user at creation; an empty one lets nobody log in with a password.
    pub password: PasswordHash,
    /// The tags given to the user at creation.
    pub tags: Vec<Name>,
    /// The names it may configure.
    pub configure: String,
    /// The names it may write to.
    pub write: String,
    /// The names it may read from.
    pub read: String,
}

impl Default for DefaultLimits {
    fn default() -> Self {
        Self { pattern: EVERYTHING.to_owned(), limits: VhostLimits::default() }
    }
}

impl Default for DefaultPolicy {
    fn default() -> Self {
        Self {
            vhost_pattern: EVERYTHING.to_owned(),
            queue_pattern: EVERYTHING.to_owned(),
            apply_to: ApplyTo::All,
            settings: BTreeMap::new(),
        }
    }
}

impl Default for DefaultUser {
    fn default() -> Self {
        let everything = || EVERYTHING.to_owned();
        Self {
            vhost_pattern: everything(),
            password: PasswordHash::default(),
            tags: Vec::new(),
            configure: everything(),
            write: everything(),
            read: everything(),
        }
    }
}

impl VhostDefaults {
    /// The commands for a virtual host that was created just now.
    #[must_use]
    pub fn commands(&self, state: &State, vhost: &Name) -> Vec<Command> {
        let fits = |pattern: &str| {
            Pattern::new(pattern).is_ok_and(|pattern| pattern.matches(vhost.as_bytes()))
        };
        let limits = self.limits.values().find(|one| fits(&one.pattern));
        let limits = limits.map(|DefaultLimits { limits, .. }| Command::SetVhostLimits {
            vhost: vhost.clone(),
            limits: *limits,
        });
        let mut commands: Vec<Command> = limits.into_iter().collect();
        for (id, policy) in self.operator_policies.iter().filter(|(_, it)| fits(&it.vhost_pattern))
        {
            commands.extend(policy.command(id, vhost));
        }
        for (name, user) in self.users.iter().filter(|(_, it)| fits(&it.vhost_pattern)) {
            commands.extend(user.commands(state, &Name::from(name.as_str()), vhost));
        }
        commands
    }
}

impl DefaultPolicy {
    fn command(&self, id: &str, vhost: &Name) -> Option<Command> {
        let settings = self.settings.iter();
        let settings: Map<String, Value> =
            settings.map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
        let policy = PolicySpec {
            name: Name::from(id),
            pattern: self.queue_pattern.clone(),
            apply_to: self.apply_to,
            definition: Json::parse(&Value::Object(settings).to_string()).ok()?,
            priority: 0,
        };
        Some(Command::SetPolicy { scope: PolicyScope::Operator, vhost: vhost.clone(), policy })
    }
}

impl DefaultUser {
    /// The commands for a user: an existing user only gets access.
    fn commands(&self, state: &State, name: &Name, vhost: &Name) -> Vec<Command> {
        let Self { password, tags, configure, write, read, .. } = self;
        let create = Command::CreateUser {
            user: name.clone(),
            password: password.clone(),
            tags: tags.clone(),
        };
        let permit = Command::SetPermissions {
            user: name.clone(),
            vhost: vhost.clone(),
            configure: configure.clone(),
            write: write.clone(),
            read: read.clone(),
        };
        let is_new = state.user(name).is_none();
        is_new.then_some(create).into_iter().chain([permit]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vhost_metadata::VhostMetadata;
    use stdx::Now;

    fn defaults() -> VhostDefaults {
        let limits = |pattern: &str, max_queues| DefaultLimits {
            pattern: pattern.to_owned(),
            limits: VhostLimits { max_queues: Some(max_queues), max_connections: None },
        };
        let ttl = DefaultPolicy {
            vhost_pattern: "^shop".to_owned(),
            queue_pattern: "^q".to_owned(),
            settings: BTreeMap::from([("message-ttl", 5), ("max-length", 7)]),
            ..DefaultPolicy::default()
        };
        let user = DefaultUser {
            tags: vec!["monitoring".into()],
            read: "^r".to_owned(),
            ..DefaultUser::default()
        };
        let entry = |id: &str| id.to_owned();
        VhostDefaults {
            limits: BTreeMap::from([
                (entry("1"), limits("^shop", 5)),
                (entry("2"), limits(".*", 9)),
            ]),
            operator_policies: BTreeMap::from([(entry("ttl"), ttl)]),
            users: BTreeMap::from([(entry("watcher"), user)]),
        }
    }

    #[test]
    fn a_new_virtual_host_gets_what_fits_its_name() {
        let (mut state, defaults) = (State::new(), defaults());
        for name in ["shop-1", "other"] {
            let (vhost, metadata) = (Name::from(name), VhostMetadata::default());
            let create = Command::CreateVhost { vhost: vhost.clone(), metadata };
            state.apply(Now::default(), &create).unwrap();
            for command in defaults.commands(&state, &vhost) {
                state.apply(Now::default(), &command).unwrap();
            }
        }
        let max_queues = |name| state.vhost(name).unwrap().limits.max_queues;
        assert_eq!((max_queues("shop-1"), max_queues("other")), (Some(5), Some(9)));
        let policy = |vhost| state.vhost(vhost).unwrap().policies.get(PolicyScope::Operator, "ttl");
        let spec = &policy("shop-1").unwrap().spec;
        assert_eq!((spec.pattern.as_str(), spec.apply_to), ("^q", ApplyTo::All));
        assert_eq!(spec.definition.value(), serde_json::json!({"message-ttl": 5, "max-length": 7}));
        assert!(policy("other").is_none());
        let user = state.user("watcher").unwrap();
        assert_eq!(user.tags, ["monitoring"]);
        for vhost in ["shop-1", "other"] {
            assert!(state.users().may("watcher", vhost, crate::Permission::Read, "r1"));
            assert!(!state.users().may("watcher", vhost, crate::Permission::Read, "x"));
        }
    }
}
