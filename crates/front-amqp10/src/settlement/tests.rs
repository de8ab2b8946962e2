//! Settlement beside a naive set of ids.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum SettlementEvent {
    Deliver,
    DeliverSettled(u64),
    /// Settles ids from so many before the newest one, so many of them.
    Settle {
        back: u64,
        width: u32,
    },
    SettleAll {
        of: u64,
    },
}

fn any_event() -> impl Strategy<Value = SettlementEvent> {
    let back = prop_oneof![4 => 0..40_u64, 1 => 0..(1_u64 << 31)];
    let width = prop_oneof![4 => 0..20_u32, 1 => 0..(1_u32 << 31)];
    prop_oneof![
        6 => Just(SettlementEvent::Deliver),
        1 => prop_oneof![1..4_u64, Just(1 << 29)].prop_map(SettlementEvent::DeliverSettled),
        3 => (back, width).prop_map(|(back, width)| SettlementEvent::Settle { back, width }),
        1 => (0..5_u64).prop_map(|of| SettlementEvent::SettleAll { of }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ranges_settle_as_in_the_naive_set(
        first in prop_oneof![Just(1_u64 << 32), (1_u64 << 32) - 100..1_u64 << 32, 1_u64 << 32..1_u64 << 40],
        events in prop::collection::vec(any_event(), 0..400),
    ) {
        let first = first.max(1 << 31);
        let mut unsettled = UnsettledDeliveries { entries: NumberedEntries::default(), next: first };
        let (mut naive, mut next) = (BTreeMap::new(), first);
        for event in events {
            match event {
                SettlementEvent::Deliver => {
                    prop_assert_eq!(unsettled.next(next), id_of(next));
                    naive.insert(next, next);
                    next += 1;
                }
                SettlementEvent::DeliverSettled(n) => {
                    unsettled.next += n - 1;
                    prop_assert_eq!(unsettled.next_settled(), id_of(next + n - 1));
                    next += n;
                }
                SettlementEvent::Settle { back, width } => {
                    let from = next - back.min(next);
                    let to = from + u64::from(width);
                    let expected: Vec<u64> = naive.range(from..=to).map(|(number, _)| *number).collect();
                    let mut settled = Vec::new();
                    unsettled.settle(id_of(from), id_of(to), |id, number| {
                        assert_eq!(id, id_of(number));
                        settled.push(number);
                    });
                    expected.iter().for_each(|number| {
                        naive.remove(number);
                    });
                    prop_assert_eq!(settled, expected);
                }
                SettlementEvent::SettleAll { of } => {
                    let mut settled = Vec::new();
                    unsettled.settle_all(|number| number % 5 == of, |number| settled.push(number));
                    let expected: Vec<u64> = naive.keys().copied().filter(|it| it % 5 == of).collect();
                    naive.retain(|number, _| number % 5 != of);
                    prop_assert_eq!(settled, expected);
                }
            }
            prop_assert_eq!(unsettled.len(), naive.len());
            prop_assert!(unsettled.entries.entries.len() <= 2 * naive.len() + COMPACT_FROM);
        }
    }
}

/// Each range names two thousand million ids, and three of them are there.
#[test]
fn a_range_costs_by_what_is_unsettled() {
    let mut unsettled = UnsettledDeliveries::default();
    let mut n_settled = 0;
    for round in 0..100_000_u32 {
        let ids: Vec<SerialNumber> = (0..3).map(|_| unsettled.next(round)).collect();
        let first = ids[0].plus(0xc000_0001);
        unsettled.settle(first, first.plus(0x7fff_fffe), |_, _| n_settled += 1);
    }
    assert_eq!((n_settled, unsettled.len()), (300_000, 0));
}

#[test]
fn a_last_id_before_the_first_names_nothing() {
    let mut unsettled = UnsettledDeliveries::default();
    let ids: Vec<SerialNumber> = (0..3).map(|n| unsettled.next(n)).collect();
    unsettled.settle(ids[2], ids[0], |_, _| panic!("nothing is settled"));
    assert_eq!(unsettled.len(), 3);
}
