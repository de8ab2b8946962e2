//! Virtual hosts, policies and parameters.

use std::sync::Arc;

use imbl::OrdMap;
use routing::{Name, Routes};

use super::{State, check_name};
use crate::command::Command;
use crate::error::MetaError;
use crate::exchange::{ExchangeDef, PREDECLARED};
use crate::outcome::{Outcome, Removed};
use crate::policy::{Policy, PolicyScope, PolicySpec};
use crate::vhost::{Vhost, VhostLimits, VhostMetadata};

impl State {
    /// Applies a command about settings; all of them are durable.
    pub(super) fn change_settings(&mut self, command: &Command) -> Result<Outcome, MetaError> {
        let outcome = Outcome::logged(command);
        match command {
            Command::CreateVhost { vhost, metadata } => self.create_vhost(vhost, metadata)?,
            Command::UpdateVhost { vhost, metadata } => {
                self.vhost_mut(vhost)?.metadata = metadata.clone();
            }
            Command::DeleteVhost { vhost } => {
                let removed = self.delete_vhost(vhost)?;
                return Ok(Outcome { removed, ..outcome });
            }
            Command::SetVhostLimits { vhost, limits } => self.vhost_mut(vhost)?.limits = *limits,
            Command::SetPolicy { scope, vhost, policy } => {
                self.set_policy(*scope, vhost, policy)?
            }
            Command::ClearPolicy { scope, vhost, name } => {
                let removed = self.vhost_mut(vhost)?.policy_map_mut(*scope).remove(name);
                removed.ok_or_else(|| MetaError::ItemNotFound(format!("Policy '{name}'")))?;
            }
            Command::SetParameter { vhost, component, name, value } => {
                check_name("component", component)?;
                check_name("parameter", name)?;
                let parameters = &mut self.vhost_mut(vhost)?.parameters;
                let of_component = parameters.entry(component.clone()).or_default();
                of_component.insert(name.clone(), value.clone());
            }
            Command::ClearParameter { vhost, component, name } => {
                self.clear_parameter(vhost, component, name)?;
            }
            Command::SetGlobalParameter { name, value } => {
                check_name("parameter", name)?;
                self.global_parameters.insert(name.clone(), value.clone());
            }
            Command::ClearGlobalParameter { name } => {
                let removed = self.global_parameters.remove(name);
                removed.ok_or_else(|| MetaError::ItemNotFound(format!("Parameter '{name}'")))?;
            }
            Command::CreateUser { .. }
            | Command::SetPassword { .. }
            | Command::SetUserTags { .. }
            | Command::SetUserLimits { .. }
            | Command::DeleteUser { .. }
            | Command::SetPermissions { .. }
            | Command::ClearPermissions { .. }
            | Command::SetTopicPermissions { .. }
            | Command::ClearTopicPermissions { .. }
            | Command::DeclareExchange(_)
            | Command::DeleteExchange { .. }
            | Command::DeclareQueue(_)
            | Command::DeleteQueue { .. }
            | Command::DeleteQueueById { .. }
            | Command::DeleteExclusiveQueues { .. }
            | Command::SetQueueVersion { .. }
            | Command::Bind(_)
            | Command::Unbind(_) => unreachable!("only commands about settings are passed on"),
        }
        Ok(outcome)
    }

    fn create_vhost(&mut self, name: &Name, metadata: &VhostMetadata) -> Result<(), MetaError> {
        check_name("vhost", name)?;
        if self.vhosts.contains_key(name) {
            return Err(MetaError::VhostExists(name.clone()));
        }
        let mut routes = Routes::new();
        let mut exchanges = OrdMap::new();
        for (exchange, kind, internal) in PREDECLARED {
            let exchange = ExchangeDef {
                name: Name::from(exchange),
                kind,
                durable: true,
                auto_delete: false,
                internal,
                arguments: amqp091::Table::new(),
            };
            if !exchange.name.is_empty() {
                routes.put_exchange(exchange.name.clone(), kind, exchange.rules());
            }
            exchanges.insert(exchange.name.clone(), Arc::new(exchange));
        }
        let vhost = Vhost {
            name: name.clone(),
            metadata: metadata.clone(),
            limits: VhostLimits::default(),
            routes,
            exchanges,
            queues: OrdMap::new(),
            policies: OrdMap::new(),
            operator_policies: OrdMap::new(),
            parameters: OrdMap::new(),
        };
        self.vhosts.insert(name.clone(), Arc::new(vhost));
        Ok(())
    }

    /// Takes everything in it along. Bindings go unlisted: both their ends are gone.
    fn delete_vhost(&mut self, name: &Name) -> Result<Vec<Removed>, MetaError> {
        if self.vhost_or_error(name)?.metadata.protected_from_deletion {
            return Err(MetaError::VhostProtected(name.clone()));
        }
        let mut removed = Vec::new();
        let Some(vhost) = self.vhosts.remove(name) else { return Ok(removed) };
        for queue in vhost.queues() {
            self.queues.remove(&queue.id);
            self.older.remove(&queue.id);
            if let Some(owner) = queue.exclusive_owner {
                self.exclusive.remove(&(owner, queue.id));
            }
            removed.push(Removed::Queue(Arc::clone(queue)));
        }
        for exchange in vhost.exchanges() {
            let exchange = Arc::clone(exchange);
            removed.push(Removed::Exchange { vhost: name.clone(), exchange });
        }
        self.forget_vhost(name);
        removed.push(Removed::Vhost(name.clone()));
        Ok(removed)
    }

    fn set_policy(
        &mut self,
        scope: PolicyScope,
        vhost: &Name,
        spec: &PolicySpec,
    ) -> Result<(), MetaError> {
        check_name("policy", &spec.name)?;
        let policy = Arc::new(Policy::new(spec)?);
        self.vhost_mut(vhost)?.policy_map_mut(scope).insert(spec.name.clone(), policy);
        Ok(())
    }

    fn clear_parameter(
        &mut self,
        vhost: &Name,
        component: &Name,
        name: &Name,
    ) -> Result<(), MetaError> {
        let missing = || MetaError::ItemNotFound(format!("Parameter '{name}' of '{component}'"));
        let parameters = &mut self.vhost_mut(vhost)?.parameters;
        let of_component = parameters.get_mut(component).ok_or_else(missing)?;
        of_component.remove(name).ok_or_else(missing)?;
        if of_component.is_empty() {
            parameters.remove(component);
        }
        Ok(())
    }
}
