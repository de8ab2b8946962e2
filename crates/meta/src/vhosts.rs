//! The virtual hosts.

use std::sync::Arc;

use imbl::OrdMap;
use routing::Name;

use crate::error::MetaError;
use crate::vhost::Vhost;
use crate::vhost_metadata::VhostMetadata;

/// The virtual hosts by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vhosts(OrdMap<Name, Arc<Vhost>>);

impl Vhosts {
    pub(crate) fn get(&self, name: &str) -> Option<&Vhost> {
        self.0.get(name).map(|vhost| &**vhost)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Vhost> {
        self.0.values().map(|vhost| &**vhost)
    }

    /// A virtual host that must exist.
    pub(crate) fn require(&self, name: &Name) -> Result<&Vhost, MetaError> {
        self.get(name).ok_or_else(|| MetaError::VhostNotFound(name.clone()))
    }

    /// A virtual host to be changed, which must exist.
    pub(crate) fn get_mut(&mut self, name: &Name) -> Result<&mut Vhost, MetaError> {
        let vhost = self.0.get_mut(name);
        vhost.map(Arc::make_mut).ok_or_else(|| MetaError::VhostNotFound(name.clone()))
    }

    pub(crate) fn create(
        &mut self,
        name: &Name,
        metadata: &VhostMetadata,
    ) -> Result<(), MetaError> {
        if self.0.contains_key(name) {
            return Err(MetaError::VhostExists(name.clone()));
        }
        self.0.insert(name.clone(), Arc::new(Vhost::new(name, metadata)));
        Ok(())
    }

    pub(crate) fn remove(&mut self, name: &Name) -> Result<Arc<Vhost>, MetaError> {
        self.0.remove(name).ok_or_else(|| MetaError::VhostNotFound(name.clone()))
    }
}
