//! Users with their permissions.

use std::sync::Arc;

use imbl::OrdMap;
use routing::Name;

use crate::password::PasswordHash;
use crate::permission::{Permissions, TopicGrant, TopicPermissions};

/// The limits of a user. Negative or missing: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserLimits {
    /// `max-connections`.
    pub max_connections: Option<i64>,
    /// `max-channels`.
    pub max_channels: Option<i64>,
}

/// A user that exists.
#[derive(Clone, Debug)]
pub struct User {
    /// The name.
    pub name: Name,
    /// The password's hash.
    pub password: PasswordHash,
    /// Tags, for example `administrator`, in the order they were set.
    pub tags: Vec<Name>,
    /// Limits.
    pub limits: UserLimits,
    /// The permissions by virtual host.
    permissions: OrdMap<Name, Arc<Permissions>>,
    /// The topic permissions by virtual host, then exchange.
    topic_permissions: OrdMap<Name, OrdMap<Name, Arc<TopicPermissions>>>,
}

impl User {
    pub(crate) fn new(name: Name, password: PasswordHash, tags: Vec<Name>) -> Self {
        Self {
            name,
            password,
            tags,
            limits: UserLimits::default(),
            permissions: OrdMap::new(),
            topic_permissions: OrdMap::new(),
        }
    }

    /// Whether the user has a tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|known| known.as_str() == tag)
    }

    /// The user's permissions in a virtual host; without permissions there is no access at all.
    pub fn permissions_in(&self, vhost: &str) -> Option<&Permissions> {
        self.permissions.get(vhost).map(|permissions| &**permissions)
    }

    /// Permissions by virtual host.
    pub fn permissions(&self) -> impl Iterator<Item = (&Name, &Permissions)> {
        self.permissions.iter().map(|(vhost, permissions)| (vhost, &**permissions))
    }

    /// The topic permissions at one exchange.
    pub fn topic_permissions_at(&self, vhost: &str, exchange: &str) -> Option<&TopicPermissions> {
        let exchanges = self.topic_permissions.get(vhost)?;
        exchanges.get(exchange).map(|permissions| &**permissions)
    }

    /// Topic permissions by virtual host and exchange.
    pub fn topic_permissions(&self) -> impl Iterator<Item = TopicGrant<'_>> {
        self.topic_permissions.iter().flat_map(move |(vhost, exchanges)| {
            exchanges.iter().map(move |(exchange, permissions)| TopicGrant {
                user: &self.name,
                vhost,
                exchange,
                permissions,
            })
        })
    }

    pub(crate) fn set_permissions(&mut self, vhost: &Name, permissions: Permissions) {
        self.permissions.insert(vhost.clone(), Arc::new(permissions));
    }

    pub(crate) fn clear_permissions(&mut self, vhost: &Name) {
        self.permissions.remove(vhost);
    }

    pub(crate) fn set_topic_permissions(
        &mut self,
        vhost: &Name,
        exchange: &Name,
        permissions: TopicPermissions,
    ) {
        let at_exchanges = self.topic_permissions.entry(vhost.clone()).or_default();
        at_exchanges.insert(exchange.clone(), Arc::new(permissions));
    }

    /// Takes away the topic permissions at an exchange, or at all exchanges of the virtual host.
    pub(crate) fn clear_topic_permissions(&mut self, vhost: &Name, exchange: Option<&Name>) {
        let Some(exchange) = exchange else {
            self.topic_permissions.remove(vhost);
            return;
        };
        if let Some(at_exchanges) = self.topic_permissions.get_mut(vhost) {
            at_exchanges.remove(exchange);
            if at_exchanges.is_empty() {
                self.topic_permissions.remove(vhost);
            }
        }
    }

    /// Whether the user has permissions of any kind in a virtual host.
    pub(crate) fn knows_vhost(&self, vhost: &Name) -> bool {
        self.permissions.contains_key(vhost) || self.topic_permissions.contains_key(vhost)
    }
}
