//! Users and permissions.

use std::sync::Arc;

use routing::Name;

use super::{State, check_name};
use crate::command::Command;
use crate::error::MetaError;
use crate::outcome::{Outcome, Removed};
use crate::pattern::Pattern;
use crate::permission::{Permissions, TopicPermissions};
use crate::user::User;

impl State {
    /// Applies a command about users or permissions; all of them are durable.
    pub(super) fn change_access(&mut self, command: &Command) -> Result<Outcome, MetaError> {
        let outcome = Outcome::logged(command);
        match command {
            Command::CreateUser { user, password, tags } => {
                check_name("user", user)?;
                if self.users.contains_key(user) {
                    return Err(MetaError::UserExists(user.clone()));
                }
                let created = User::new(user.clone(), password.clone(), tags.clone());
                self.users.insert(user.clone(), Arc::new(created));
            }
            Command::SetPassword { user, password } => {
                self.user_mut(user)?.password = password.clone();
            }
            Command::SetUserTags { user, tags } => self.user_mut(user)?.tags = tags.clone(),
            Command::SetUserLimits { user, limits } => self.user_mut(user)?.limits = *limits,
            Command::DeleteUser { user } => {
                let removed = self.users.remove(user);
                removed.ok_or_else(|| MetaError::UserNotFound(user.clone()))?;
                return Ok(Outcome { removed: vec![Removed::User(user.clone())], ..outcome });
            }
            Command::SetPermissions { user, vhost, configure, write, read } => {
                self.vhost_or_error(vhost)?;
                let permissions = Permissions {
                    configure: Pattern::for_permission(configure)?,
                    write: Pattern::for_permission(write)?,
                    read: Pattern::for_permission(read)?,
                };
                let user = self.user_mut(user)?;
                user.permissions.insert(vhost.clone(), Arc::new(permissions));
            }
            Command::ClearPermissions { user, vhost } => {
                self.vhost_or_error(vhost)?;
                self.user_mut(user)?.permissions.remove(vhost);
            }
            Command::SetTopicPermissions { user, vhost, exchange, write, read } => {
                self.vhost_or_error(vhost)?;
                let permissions = TopicPermissions::new(user, vhost, write, read)?;
                let in_vhosts = &mut self.user_mut(user)?.topic_permissions;
                let at_exchanges = in_vhosts.entry(vhost.clone()).or_default();
                at_exchanges.insert(exchange.clone(), Arc::new(permissions));
            }
            Command::ClearTopicPermissions { user, vhost, exchange } => {
                self.vhost_or_error(vhost)?;
                self.user_mut(user)?.clear_topic_permissions(vhost, exchange.as_ref());
            }
            Command::CreateVhost { .. }
            | Command::UpdateVhost { .. }
            | Command::DeleteVhost { .. }
            | Command::SetVhostLimits { .. }
            | Command::SetPolicy { .. }
            | Command::ClearPolicy { .. }
            | Command::SetParameter { .. }
            | Command::ClearParameter { .. }
            | Command::SetGlobalParameter { .. }
            | Command::ClearGlobalParameter { .. }
            | Command::DeclareExchange(_)
            | Command::DeleteExchange { .. }
            | Command::DeclareQueue(_)
            | Command::DeleteQueue { .. }
            | Command::DeleteQueueById { .. }
            | Command::DeleteExclusiveQueues { .. }
            | Command::SetQueueVersion { .. }
            | Command::Bind(_)
            | Command::Unbind(_) => unreachable!("only commands about access are passed on"),
        }
        Ok(outcome)
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
