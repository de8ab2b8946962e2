//! Bindings in long lists, each as a handle to the binding or its queue.

use std::sync::Arc;

use routing::Binding;

use crate::queue::QueueDef;
use crate::queues::Queues;
use crate::vhost::{BindingView, Vhost};

/// A binding as a handle, as small as lists of all bindings need.
#[derive(Clone, Debug)]
pub enum BindingPlace {
    /// The default exchange's binding to a queue.
    Implied(Arc<QueueDef>),
    /// A binding that was made.
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

    /// The binding as it is listed; none if its destination is gone.
    #[must_use]
    pub fn view(&self, queues: &Queues) -> Option<BindingView> {
        match self {
            Self::Implied(queue) => Some(BindingView::implied(&queue.name)),
            Self::Made(binding) => queues.view(binding),
        }
    }
}
