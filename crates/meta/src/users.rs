//! The users of all virtual hosts, and what each may do.

use std::sync::Arc;

use imbl::OrdMap;
use routing::Name;

use crate::error::MetaError;
use crate::outcome::Removed;
use crate::password::PasswordHash;
use crate::permission::{Permissions, TopicGrant, TopicUse};
use crate::resource::{Permission, Resource, ResourceKind};
use crate::user::User;

/// The users by name. A clone is O(1).
#[derive(Clone, Debug, Default)]
pub struct Users(OrdMap<Name, Arc<User>>);

impl Users {
    /// A user.
    pub fn get(&self, name: &str) -> Option<&User> {
        self.0.get(name).map(|user| &**user)
    }

    /// A user with all permissions; the same one as long as nothing about it changes.
    pub fn shared(&self, name: &str) -> Option<&Arc<User>> {
        self.0.get(name)
    }

    /// All users by name.
    pub fn iter(&self) -> impl Iterator<Item = &User> {
        self.0.values().map(|user| &**user)
    }

    /// The permissions in a virtual host, by user.
    pub fn permissions_in<'s>(
        &'s self,
        vhost: &'s str,
    ) -> impl Iterator<Item = (&'s Name, &'s Permissions)> {
        self.iter().filter_map(move |user| Some((&user.name, user.permissions_in(vhost)?)))
    }

    /// Topic permissions in a virtual host.
    pub fn topic_permissions_in<'s>(
        &'s self,
        vhost: &'s str,
    ) -> impl Iterator<Item = TopicGrant<'s>> {
        self.iter().flat_map(User::topic_permissions).filter(move |it| it.vhost.as_str() == vhost)
    }

    /// Whether a user has access to a virtual host at all.
    pub fn may_enter(&self, user: &str, vhost: &str) -> bool {
        self.get(user).is_some_and(|user| user.permissions_in(vhost).is_some())
    }

    /// Whether a user may do this to the exchange or queue of that name.
    #[must_use]
    pub fn may(&self, user: &str, vhost: &str, permission: Permission, name: &str) -> bool {
        let permissions = self.get(user).and_then(|user| user.permissions_in(vhost));
        permissions.is_some_and(|permissions| permissions.allow(permission, name))
    }

    /// Whether a user may use a routing key at the exchange: yes, unless topic permissions are set for it.
    #[must_use]
    pub fn may_topic(&self, user: &str, exchange: &Resource, it: TopicUse<'_>) -> bool {
        let user = self.get(user);
        let found = user.and_then(|it| it.topic_permissions_at(&exchange.vhost, &exchange.name));
        found.is_none_or(|permissions| permissions.allow(it))
    }

    /// As [`may`](Self::may), with RabbitMQ's text for a refusal.
    /// COMPAT: permissions and texts call the default exchange `amq.default`.
    ///
    /// # Errors
    /// [`MetaError::Refused`].
    pub fn check_access(
        &self,
        user: &str,
        permission: Permission,
        resource: &Resource,
    ) -> Result<(), MetaError> {
        let is_default = resource.kind == ResourceKind::Exchange && resource.name.is_empty();
        let name = if is_default { Name::from("amq.default") } else { resource.name.clone() };
        if self.may(user, &resource.vhost, permission, &name) {
            return Ok(());
        }
        let resource = Resource { name, ..resource.clone() };
        Err(MetaError::Refused { permission, resource, user: Name::from(user) })
    }

    /// As [`may_topic`](Self::may_topic), with RabbitMQ's text for a refusal.
    ///
    /// # Errors
    /// [`MetaError::TopicRefused`].
    pub fn check_topic_access(
        &self,
        user: &str,
        exchange: &Resource,
        it: TopicUse<'_>,
    ) -> Result<(), MetaError> {
        if self.may_topic(user, exchange, it) {
            return Ok(());
        }
        let (permission, key) = (it.permission, String::from_utf8_lossy(it.key).into_owned());
        let (user, exchange) = (Name::from(user), exchange.clone());
        Err(MetaError::TopicRefused { permission, key, exchange, user })
    }

    pub(crate) fn create(
        &mut self,
        name: &Name,
        password: &PasswordHash,
        tags: &[Name],
    ) -> Result<(), MetaError> {
        if self.0.contains_key(name) {
            return Err(MetaError::UserExists(name.clone()));
        }
        let created = User::new(name.clone(), password.clone(), tags.to_vec());
        self.0.insert(name.clone(), Arc::new(created));
        Ok(())
    }

    /// A user to be changed, who must exist.
    pub(crate) fn get_mut(&mut self, name: &Name) -> Result<&mut User, MetaError> {
        let user = self.0.get_mut(name);
        user.map(Arc::make_mut).ok_or_else(|| MetaError::UserNotFound(name.clone()))
    }

    pub(crate) fn delete(&mut self, user: &Name) -> Result<Vec<Removed>, MetaError> {
        let removed = self.0.remove(user);
        removed.ok_or_else(|| MetaError::UserNotFound(user.clone()))?;
        Ok(vec![Removed::User(user.clone())])
    }

    /// Takes away all permissions in a virtual host that is gone.
    pub(crate) fn forget_vhost(&mut self, vhost: &Name) {
        let concerned = self.iter().filter(|user| user.knows_vhost(vhost));
        let concerned: Vec<Name> = concerned.map(|user| user.name.clone()).collect();
        for name in concerned {
            if let Some(user) = self.0.get_mut(&name).map(Arc::make_mut) {
                user.clear_permissions(vhost);
                user.clear_topic_permissions(vhost, None);
            }
        }
    }
}
