//! A delivery that a consumer holds.

use crate::unacked::Entry;
use stdx::UnixMs;

/// A delivery that a consumer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) number: u64,
    /// The top bit marks a delivery that was settled out of order.
    pub(super) position: u64,
    /// Time of the assignment.
    pub(super) at_ms: UnixMs,
}

impl Entry for Delivery {
    #[inline]
    fn key(&self) -> u64 {
        self.number
    }

    #[inline]
    fn marked(&self) -> u64 {
        self.position
    }

    #[inline]
    fn marked_mut(&mut self) -> &mut u64 {
        &mut self.position
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unacked::Unacked;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn held_is_what_was_not_taken(
            ops in prop::collection::vec((0..4_u8, 0..300_u64, 0..9_u64), 0..600),
        ) {
            let (mut held, mut model, mut next) = (Unacked::default(), BTreeMap::new(), 0);
            for (op, start, n) in ops {
                if op < 2 {
                    next += n + 1;
                    held.hold(Delivery { number: next, position: next / 2, at_ms: UnixMs::from_raw(next) });
                    model.insert(next, next / 2);
                } else {
                    let first = model.range(start..start + n).next().map(|(number, at)| (*number, *at));
                    let taken = held.take_first(start, start + n);
                    prop_assert_eq!(taken.map(|it| (it.number, it.position)), first);
                    first.map(|(number, _)| model.remove(&number));
                }
                prop_assert_eq!(held.len(), model.len());
                let listed: Vec<(u64, u64)> = held.iter().map(|it| (it.number, it.position)).collect();
                prop_assert_eq!(listed, model.iter().map(|(n, at)| (*n, *at)).collect::<Vec<_>>());
                prop_assert_eq!(held.first().map(|it| it.number), model.keys().next().copied());
            }
        }
    }
}
