//! Virtual hosts, policies and parameters.

use std::sync::Arc;

use imbl::OrdMap;
use routing::{Name, Routes};

use super::{AutoDelete, State, check_name};
use crate::error::MetaError;
use crate::exchange::{ExchangeDef, PREDECLARED};
use crate::outcome::Removed;
use crate::parameter::Json;
use crate::policy::{Policy, PolicyScope, PolicySpec};
use crate::vhost::Vhost;
use crate::vhost_metadata::{VhostLimits, VhostMetadata};

impl State {
    pub(super) fn create_vhost(
        &mut self,
        name: &Name,
        metadata: &VhostMetadata,
    ) -> Result<(), MetaError> {
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

    pub(super) fn update_vhost(
        &mut self,
        vhost: &Name,
        metadata: &VhostMetadata,
    ) -> Result<(), MetaError> {
        self.vhost_mut(vhost)?.metadata = metadata.clone();
        Ok(())
    }

    pub(super) fn set_vhost_limits(
        &mut self,
        vhost: &Name,
        limits: VhostLimits,
    ) -> Result<(), MetaError> {
        self.vhost_mut(vhost)?.limits = limits;
        Ok(())
    }

    /// Takes everything in it along. Bindings go unlisted: both their ends are gone.
    pub(super) fn delete_vhost(&mut self, name: &Name) -> Result<Vec<Removed>, MetaError> {
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

    pub(super) fn set_policy(
        &mut self,
        scope: PolicyScope,
        vhost: &Name,
        spec: &PolicySpec,
        mode: AutoDelete,
    ) -> Result<(), MetaError> {
        check_name("policy", &spec.name)?;
        if mode == AutoDelete::Follow {
            spec.check(scope)?;
        }
        let policy = Arc::new(Policy::new(spec)?);
        let vhost = self.vhost_mut(vhost)?;
        let before = vhost.clone();
        vhost.policy_map_mut(scope).insert(spec.name.clone(), policy);
        review_exchanges(vhost, &before);
        Ok(())
    }

    pub(super) fn clear_policy(
        &mut self,
        scope: PolicyScope,
        vhost: &Name,
        name: &Name,
    ) -> Result<(), MetaError> {
        let vhost = self.vhost_mut(vhost)?;
        let before = vhost.clone();
        let removed = vhost.policy_map_mut(scope).remove(name);
        removed.ok_or_else(|| MetaError::ItemNotFound(format!("Policy '{name}'")))?;
        review_exchanges(vhost, &before);
        Ok(())
    }

    pub(super) fn set_parameter(
        &mut self,
        vhost: &Name,
        component: &Name,
        name: &Name,
        value: &Json,
    ) -> Result<(), MetaError> {
        check_name("component", component)?;
        check_name("parameter", name)?;
        let parameters = &mut self.vhost_mut(vhost)?.parameters;
        let of_component = parameters.entry(component.clone()).or_default();
        of_component.insert(name.clone(), value.clone());
        Ok(())
    }

    pub(super) fn set_global_parameter(
        &mut self,
        name: &Name,
        value: &Json,
    ) -> Result<(), MetaError> {
        check_name("parameter", name)?;
        self.global_parameters.insert(name.clone(), value.clone());
        Ok(())
    }

    pub(super) fn clear_global_parameter(&mut self, name: &Name) -> Result<(), MetaError> {
        let removed = self.global_parameters.remove(name);
        removed.map(|_| ()).ok_or_else(|| MetaError::ItemNotFound(format!("Parameter '{name}'")))
    }

    pub(super) fn clear_parameter(
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

/// Makes exchanges follow the policies, where they differ from those of `before`.
fn review_exchanges(vhost: &mut Vhost, before: &Vhost) {
    for exchange in before.exchanges().filter(|exchange| !exchange.name.is_empty()) {
        let rules = vhost.exchange_rules(exchange);
        if rules != before.exchange_rules(exchange) {
            vhost.routes.put_exchange(exchange.name.clone(), exchange.routes_as(), rules);
        }
    }
}
