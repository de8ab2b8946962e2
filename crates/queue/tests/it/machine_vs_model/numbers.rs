//! The numbers of publishers, naively: lists.

/// Numbers that a publisher has put, and the one it goes on with.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    pub(super) put: Vec<u64>,
    pub(super) next: u64,
}

pub(super) fn numbers<K: PartialEq>(all: &[(K, Numbers)], key: &K) -> Option<Numbers> {
    all.iter().find(|(known, _)| known == key).map(|(_, numbers)| numbers.clone())
}

pub(super) fn keep<K: PartialEq>(
    all: &mut Vec<(K, Numbers)>,
    key: K,
    numbers: Numbers,
    n_max: usize,
) {
    all.retain(|(known, _)| *known != key);
    all.push((key, numbers));
    all.drain(..all.len().saturating_sub(n_max));
}
