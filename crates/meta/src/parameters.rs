//! Parameters that operators set: in a virtual host by component, and of the whole cluster.

use imbl::OrdMap;
use routing::Name;

use crate::error::MetaError;
use crate::parameter::Json;

/// A parameter of a virtual host.
#[derive(Clone, Copy, Debug)]
pub struct Parameter<'s> {
    /// The component that it is for.
    pub component: &'s Name,
    /// Its name.
    pub name: &'s Name,
    /// Its value.
    pub value: &'s Json,
}

/// The parameters of a virtual host by component, then name.
#[derive(Clone, Debug, Default)]
pub struct Parameters(OrdMap<Name, OrdMap<Name, Json>>);

impl Parameters {
    /// A parameter.
    pub fn get(&self, component: &str, name: &str) -> Option<&Json> {
        self.0.get(component)?.get(name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Parameter<'_>> {
        self.0.iter().flat_map(|(component, parameters)| {
            parameters.iter().map(move |(name, value)| Parameter { component, name, value })
        })
    }

    pub(crate) fn set(&mut self, component: &Name, name: &Name, value: &Json) {
        let of_component = self.0.entry(component.clone()).or_default();
        of_component.insert(name.clone(), value.clone());
    }

    pub(crate) fn clear(&mut self, component: &Name, name: &Name) -> Result<(), MetaError> {
        let missing = || MetaError::ItemNotFound(format!("Parameter '{name}' of '{component}'"));
        let of_component = self.0.get_mut(component).ok_or_else(missing)?;
        of_component.remove(name).ok_or_else(missing)?;
        if of_component.is_empty() {
            self.0.remove(component);
        }
        Ok(())
    }
}

/// The parameter that names the cluster.
pub const CLUSTER_NAME: &str = "cluster_name";

/// The parameters of the whole cluster by name.
#[derive(Clone, Debug, Default)]
pub struct GlobalParameters(OrdMap<Name, Json>);

impl GlobalParameters {
    /// A parameter.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.0.get(name)
    }

    /// The name that the cluster was given, if it was.
    pub fn cluster_name(&self) -> Option<String> {
        self.get(CLUSTER_NAME)?.value().as_str().map(str::to_owned)
    }

    /// All of them: name, value.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Json)> {
        self.0.iter()
    }

    pub(crate) fn set(&mut self, name: &Name, value: &Json) {
        self.0.insert(name.clone(), value.clone());
    }

    pub(crate) fn clear(&mut self, name: &Name) -> Result<(), MetaError> {
        let removed = self.0.remove(name);
        removed.map(|_| ()).ok_or_else(|| MetaError::ItemNotFound(format!("Parameter '{name}'")))
    }
}
