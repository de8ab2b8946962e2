//! The destinations that share one key, each with the number of bindings leading to it.

use crate::destination::Destination;
use crate::small_map::SmallMap;

/// Several bindings may lead from one key to one destination: they differ in their arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Targets(SmallMap<Destination, u32>);

impl Targets {
    pub(crate) fn add(&mut self, destination: &Destination) {
        if let Some(n) = self.0.get_mut(destination) {
            *n += 1;
        } else {
            self.0.insert(destination.clone(), 1);
        }
    }

    pub(crate) fn remove(&mut self, destination: &Destination) {
        match self.0.get_mut(destination) {
            Some(n) if *n > 1 => *n -= 1,
            Some(_) => self.0.remove(destination),
            None => {}
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The destinations in order, each once.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Destination> {
        self.0.iter().map(|(destination, _)| destination)
    }
}

/// Destinations found together.
pub(crate) enum Group<'e> {
    Targets(&'e Targets),
    One(&'e Destination),
}
