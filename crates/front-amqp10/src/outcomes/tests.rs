//! Outcomes in any order leave in as few frames as there are runs.

use super::*;
use amqp10::{DeliveryOutcome, FrameType, decode_frame};
use proptest::prelude::*;

fn told(out: &[u8]) -> Vec<(u32, u32, bool)> {
    let (mut rest, mut told) = (out, Vec::new());
    while let Some((frame, used)) = decode_frame(rest, FrameType::Amqp, 512).unwrap() {
        rest = &rest[used..];
        let (performative, _) = Performative::decode(frame.body).unwrap();
        let Performative::Disposition(it) = performative else { panic!("{performative:?}") };
        assert!(it.settled && it.role == Role::Receiver && frame.channel == 7);
        let is_accepted = match it.state {
            Some(DeliveryState::Outcome(DeliveryOutcome::Accepted(_))) => true,
            Some(DeliveryState::Outcome(DeliveryOutcome::Released(_))) => false,
            state => panic!("{state:?}"),
        };
        told.push((it.first.bits(), it.last.unwrap_or(it.first).since(it.first), is_accepted));
    }
    told
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_in_any_order_become_runs(
        first in prop_oneof![Just(0), u32::MAX - 20..=u32::MAX, any::<u32>()],
        (answers, order) in prop::collection::vec(prop::option::of(any::<bool>()), 1..60)
            .prop_flat_map(|answers| {
                let order: Vec<u32> = (0..).take(answers.len()).collect();
                (Just(answers), Just(order).prop_shuffle())
            }),
    ) {
        let mut runs = OutcomeRuns::default();
        for n in order {
            if let Some(is_accepted) = answers[n as usize] {
                runs.add(SerialNumber::new(first).plus(n), 1, is_accepted);
            }
        }
        let mut out = Vec::new();
        runs.tell(7, &mut out);
        prop_assert!(runs.is_empty());
        let mut expected: Vec<(u32, u32, bool)> = Vec::new();
        let mut before = None;
        for (n, answer) in (0..).zip(&answers) {
            match (*answer, expected.last_mut()) {
                (Some(_), Some(last)) if before == Some(*answer) => last.1 += 1,
                (Some(is_accepted), _) => expected.push((first.wrapping_add(n), 0, is_accepted)),
                (None, _) => {}
            }
            before = Some(*answer);
        }
        prop_assert_eq!(told(&out), expected);
    }
}
