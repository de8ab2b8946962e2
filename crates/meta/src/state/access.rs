//! Users and permissions.

use std::sync::Arc;

use routing::Name;

use super::{State, check_name};
use crate::error::MetaError;
use crate::outcome::Removed;
use crate::password::PasswordHash;
use crate::pattern::Pattern;
use crate::permission::{Permissions, TopicPermissions};
use crate::user::{User, UserLimits};

impl State {
    pub(super) fn create_user(
        &mut self,
        name: &Name,
        password: &PasswordHash,
        tags: &[Name],
    ) -> Result<(), MetaError> {
        check_name("user", name)?;
        if self.users.contains_key(name) {
            return Err(MetaError::UserExists(name.clone()));
        }
        let created = User::new(name.clone(), password.clone(), tags.to_vec());
        self.users.insert(name.clone(), Arc::new(created));
        Ok(())
    }

    pub(super) fn set_password(
        &mut self,
        user: &Name,
        password: &PasswordHash,
    ) -> Result<(), MetaError> {
        self.user_mut(user)?.password = password.clone();
        Ok(())
    }

    pub(super) fn set_user_tags(&mut self, user: &Name, tags: &[Name]) -> Result<(), MetaError> {
        self.user_mut(user)?.tags = tags.to_vec();
        Ok(())
    }

    pub(super) fn set_user_limits(
        &mut self,
        user: &Name,
        limits: UserLimits,
    ) -> Result<(), MetaError> {
        self.user_mut(user)?.limits = limits;
        Ok(())
    }

    pub(super) fn delete_user(&mut self, user: &Name) -> Result<Vec<Removed>, MetaError> {
        let removed = self.users.remove(user);
        removed.ok_or_else(|| MetaError::UserNotFound(user.clone()))?;
        Ok(vec![Removed::User(user.clone())])
    }

    /// `patterns` are those for configuring, writing and reading.
    pub(super) fn set_permissions(
        &mut self,
        user: &Name,
        vhost: &Name,
        patterns: [&str; 3],
    ) -> Result<(), MetaError> {
        self.vhost_or_error(vhost)?;
        let [configure, write, read] = patterns;
        let permissions = Permissions {
            configure: Pattern::for_permission(configure)?,
            write: Pattern::for_permission(write)?,
            read: Pattern::for_permission(read)?,
        };
        self.user_mut(user)?.permissions.insert(vhost.clone(), Arc::new(permissions));
        Ok(())
    }

    pub(super) fn clear_permissions(&mut self, user: &Name, vhost: &Name) -> Result<(), MetaError> {
        self.vhost_or_error(vhost)?;
        self.user_mut(user)?.permissions.remove(vhost);
        Ok(())
    }

    /// `patterns` are those for writing and reading.
    pub(super) fn set_topic_permissions(
        &mut self,
        user: &Name,
        vhost: &Name,
        exchange: &Name,
        patterns: [&str; 2],
    ) -> Result<(), MetaError> {
        self.vhost_or_error(vhost)?;
        let [write, read] = patterns;
        let permissions = TopicPermissions::new(user, vhost, write, read)?;
        let in_vhosts = &mut self.user_mut(user)?.topic_permissions;
        let at_exchanges = in_vhosts.entry(vhost.clone()).or_default();
        at_exchanges.insert(exchange.clone(), Arc::new(permissions));
        Ok(())
    }

    pub(super) fn clear_topic_permissions(
        &mut self,
        user: &Name,
        vhost: &Name,
        exchange: Option<&Name>,
    ) -> Result<(), MetaError> {
        self.vhost_or_error(vhost)?;
        self.user_mut(user)?.clear_topic_permissions(vhost, exchange);
        Ok(())
    }

    /// Takes away all permissions in a virtual host that is gone.
    pub(super) fn forget_vhost(&mut self, vhost: &Name) {
        let concerned: Vec<Name> = (self.users())
            .filter(|user| {
                user.permissions.contains_key(vhost) || user.topic_permissions.contains_key(vhost)
            })
            .map(|user| user.name.clone())
            .collect();
        for name in concerned {
            if let Some(user) = self.users.get_mut(&name).map(Arc::make_mut) {
                user.permissions.remove(vhost);
                user.topic_permissions.remove(vhost);
            }
        }
    }
}

impl User {
    fn clear_topic_permissions(&mut self, vhost: &Name, exchange: Option<&Name>) {
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
}
