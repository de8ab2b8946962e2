//! A persistent map that keeps a single entry inline: most routing keys lead to one queue, and a
//! tree node for each of them would cost several hundred bytes.

use std::borrow::Borrow;
use std::fmt;

use imbl::OrdMap;
use imbl::ordmap;
use imbl::shared_ptr::DefaultSharedPtr;

/// A clone is O(1) (given the key and value clone so), a change O(log n).
#[derive(Clone, Default)]
pub(crate) enum SmallMap<K, V> {
    #[default]
    Empty,
    One(K, V),
    Many(OrdMap<K, V>),
}

impl<K: Ord + fmt::Debug, V: fmt::Debug> fmt::Debug for SmallMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord, V> SmallMap<K, V> {
    pub(crate) fn iter(&self) -> Iter<'_, K, V> {
        match self {
            Self::Empty => Iter::One(None),
            Self::One(key, value) => Iter::One(Some((key, value))),
            Self::Many(map) => Iter::Many(map.iter()),
        }
    }
}

impl<K: Ord + Clone, V: Clone> SmallMap<K, V> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::One(..) => 1,
            Self::Many(map) => map.len(),
        }
    }

    /// The greatest key.
    pub(crate) fn max(&self) -> Option<&K> {
        match self {
            Self::Empty => None,
            Self::One(only, _) => Some(only),
            Self::Many(map) => map.get_max().map(|(key, _)| key),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::Empty => None,
            Self::One(only, value) => (only.borrow() == key).then_some(value),
            Self::Many(map) => map.get(key),
        }
    }

    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::Empty => None,
            Self::One(only, value) => ((*only).borrow() == key).then_some(value),
            Self::Many(map) => map.get_mut(key),
        }
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        *self = match std::mem::take(self) {
            Self::Empty => Self::One(key, value),
            Self::One(only, _) if only == key => Self::One(key, value),
            Self::One(only, old) => Self::Many(ordmap! { only => old, key => value }),
            Self::Many(mut map) => {
                map.insert(key, value);
                Self::Many(map)
            }
        };
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        *self = match std::mem::take(self) {
            Self::Empty => Self::Empty,
            Self::One(only, _) if only.borrow() == key => Self::Empty,
            Self::One(only, value) => Self::One(only, value),
            Self::Many(mut map) => {
                map.remove(key);
                match map.get_min() {
                    Some((only, value)) if map.len() == 1 => Self::One(only.clone(), value.clone()),
                    Some(_) => Self::Many(map),
                    None => Self::Empty,
                }
            }
        };
    }
}

pub(crate) enum Iter<'a, K, V> {
    One(Option<(&'a K, &'a V)>),
    Many(ordmap::Iter<'a, K, V, DefaultSharedPtr>),
}

impl<'a, K: Ord, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::One(entry) => entry.take(),
            Self::Many(entries) => entries.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_map(steps in proptest::collection::vec((0u8..6, any::<Option<u16>>()), 0..60)) {
            let mut model = BTreeMap::new();
            let mut map = SmallMap::default();
            for (key, value) in steps {
                if let Some(value) = value {
                    model.insert(key, value);
                    map.insert(key, value);
                } else {
                    model.remove(&key);
                    map.remove(&key);
                }
                prop_assert_eq!(map.len(), model.len());
                prop_assert!(map.iter().eq(model.iter()));
                prop_assert_eq!(map.max(), model.keys().next_back());
                prop_assert_eq!(map.get(&key), model.get(&key));
                prop_assert_eq!(map.get_mut(&key), model.get_mut(&key));
            }
        }
    }
}
