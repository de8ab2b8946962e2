//! Values that most replicas do not have most of the time: of an idle replica, each takes a pointer.

use std::ops::{Deref, DerefMut};

/// A value of which an empty one is shared by all.
pub(crate) trait Empty: Default + 'static {
    /// The empty value.
    const EMPTY: &'static Self;
}

/// A value that takes memory from its first change on, until the host of the value sets it anew.
#[derive(Debug)]
pub(crate) struct Sparse<T>(Option<Box<T>>);

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Sparse<T> {
    /// The value, if there is one to be changed.
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }
}

impl<T: Empty> Deref for Sparse<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::EMPTY)
    }
}

impl<T: Empty> DerefMut for Sparse<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: 'static> Empty for std::collections::VecDeque<T> {
    const EMPTY: &'static Self = &Self::new();
}

impl<T: 'static> Empty for Vec<T> {
    const EMPTY: &'static Self = &Self::new();
}
