//! Bindings in long lists, each by what there is of it.

use std::sync::Arc;

use routing::Binding;

use crate::queue::QueueDef;
use crate::queues::Queues;
use crate::vhost::{BindingView, Vhost};

/// A binding by what there is of it: as small as lists of all of them need.
#[derive(Clone, Debug)]
pub enum BindingPlace {
    /// That of the default exchange, to a queue.
    Implied(Arc<QueueDef>),
    /// One that was made.
    Made(Arc<Binding>),
}

impl BindingPlace {
    /// All bindings of a virtual host as they are listed: first those of the default exchange, which
    /// reaches every queue by its name, then the others ordered by destination.
    pub fn all(vhost: &Vhost) -> impl Iterator<Item = Self> {
        let named = vhost.queues().filter(|queue| !queue.is_internal());
        let made = vhost.routes.bindings().map(|binding| Self::Made(Arc::clone(binding)));
        named.map(|queue| Self::Implied(Arc::clone(queue))).chain(made)
    }

    /// As it is listed; none if its destination is gone.
    #[must_use]
    pub fn view(&self, queues: &Queues) -> Option<BindingView> {
        match self {
            Self::Implied(queue) => Some(BindingView::implied(&queue.name)),
            Self::Made(binding) => queues.view(binding),
        }
    }
}
