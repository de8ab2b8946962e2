use super::*;
use proptest::prelude::*;
use stdx::MonotonicMs;

const fn awaiting(sequence: u64) -> Awaiting {
    Awaiting { publisher: 1, sequence, bytes: 10 }
}

proptest! {
    /// Whatever comes and goes, what waits is what came and did not go.
    #[test]
    fn those_wait_that_were_not_taken(
        ops in prop::collection::vec((0..8_u8, 0..400_u64), 0..500),
    ) {
        let (mut pending, mut model) = (ConfirmWaiters::default(), BTreeMap::new());
        let (mut next, mut now_ms) = (0_u64, 0_u64);
        for (op, n) in ops {
            now_ms += n;
            match op {
                0..=3 => {
                    // Positions of others lie between, sometimes very many.
                    next += if n > 390 { 5_000 } else { n % 3 };
                    pending.wait(next, awaiting(next), MonotonicMs::from_raw(now_ms));
                    model.insert(next, (awaiting(next), now_ms));
                    next += 1;
                }
                4 | 5 => {
                    let position = model.keys().nth(usize::try_from(n).unwrap() % model.len().max(1)).copied();
                    let position = position.unwrap_or(n);
                    let expected = model.remove(&position).map(|(one, _)| one);
                    prop_assert_eq!(pending.take(position), expected);
                    prop_assert_eq!(pending.take(position), None);
                }
                6 => {
                    let start = next.saturating_sub(n);
                    let range = PositionRange { start, end: start + n / 2 };
                    let mut taken = Vec::new();
                    pending.take_range(range, |one| taken.push(one));
                    let inside: Vec<u64> =
                        model.range(range.start..range.end).map(|(at, _)| *at).collect();
                    let expected: Vec<Awaiting> = inside
                        .iter()
                        .filter_map(|at| model.remove(at).map(|(one, _)| one))
                        .collect();
                    prop_assert_eq!(taken, expected);
                }
                _ => {
                    // One that was taken comes back.
                    if let Some((position, (one, _))) = model.pop_first() {
                        prop_assert_eq!(pending.take(position), Some(one));
                        pending.wait(position, one, MonotonicMs::from_raw(now_ms));
                        model.insert(position, (one, now_ms));
                    }
                }
            }
            prop_assert_eq!(pending.len(), model.len() as u64);
            prop_assert_eq!(pending.is_empty(), model.is_empty());
            prop_assert_eq!(pending.bytes(), 10 * model.len() as u64);
            let all: Vec<(u64, Awaiting)> = pending.iter().collect();
            let expected: Vec<_> = model.iter().map(|(at, (one, _))| (*at, *one)).collect();
            prop_assert_eq!(all, expected);
            prop_assert_eq!(pending.oldest_ms().is_some(), !model.is_empty());
            let n_places = pending.places.len();
            prop_assert!(n_places <= 2 * EMPTY_PLACES + 8 * pending.n_in_places.max(256));
        }
    }
}

proptest! {
    /// With any time-outs, in any order: none is taken before its time, nor later than a mark after it.
    #[test]
    fn those_are_taken_whose_time_is_over(
        ops in prop::collection::vec((0..7_u8, 0..400_u64), 0..400),
    ) {
        let (mut pending, mut model) = (ConfirmWaiters::default(), BTreeMap::new());
        let (mut next, mut now_ms) = (0_u64, 0_u64);
        for (op, n) in ops {
            now_ms += n / 3;
            match op {
                0..=2 => {
                    next += if n > 390 { 5_000 } else { n % 3 };
                    pending.wait(next, awaiting(next), MonotonicMs::from_raw(now_ms));
                    model.insert(next, now_ms);
                    next += 1;
                }
                3 => {
                    let taken = model.keys().nth(usize::try_from(n).unwrap() % model.len().max(1)).copied();
                    model.retain(|at, _| Some(*at) != taken);
                    prop_assert_eq!(taken.and_then(|at| pending.take(at)).is_some(), taken.is_some());
                }
                4 => if let Some((at, came_ms)) = model.pop_first() {
                    // One that comes back is not younger than those that came after it.
                    prop_assert!(pending.take(at).is_some());
                    model.insert(at, if pending.is_empty() { now_ms } else { came_ms });
                    pending.wait(at, awaiting(at), MonotonicMs::from_raw(now_ms));
                }
                _ => {
                    let (timeout_ms, n_max) = (n * 2, if op == 5 { 3 } else { usize::MAX });
                    let mut taken = Vec::new();
                    pending.take_overdue(MonotonicMs::from_raw(now_ms), timeout_ms, n_max, |at, one| {
                        assert_eq!(one, awaiting(at));
                        taken.push(at);
                    });
                    prop_assert!(taken.is_sorted() && taken.len() <= n_max);
                    for at in &taken {
                        prop_assert!(model.remove(at).is_some_and(|came_ms| came_ms + timeout_ms <= now_ms));
                    }
                    let is_late = |came_ms: &u64| came_ms + MARK_EVERY_MS + timeout_ms <= now_ms;
                    prop_assert!(taken.len() == n_max || !model.values().any(is_late));
                    let next_ms = pending.next_overdue_ms(timeout_ms);
                    prop_assert_eq!(next_ms.is_some(), !model.is_empty());
                    prop_assert!(taken.len() == n_max || next_ms.is_none_or(|next_ms| next_ms > MonotonicMs::from_raw(now_ms)));
                }
            }
            prop_assert_eq!(pending.len(), model.len() as u64);
            let oldest_ms = model.values().min();
            let next_ms = pending.next_overdue_ms(0);
            prop_assert!(oldest_ms.is_none_or(|at_ms| next_ms.unwrap() < MonotonicMs::from_raw(at_ms + MARK_EVERY_MS)));
        }
    }
}

/// Hours of publishes one by one cost no more marks than minutes, and their times are known all the same.
#[test]
fn long_times_are_known_to_a_part_in_a_thousand() {
    const HOURS_MS: u64 = 10 * 3_600_000;
    let mut pending = ConfirmWaiters::default();
    for position in 0..HOURS_MS / 50 {
        pending.wait(position, awaiting(position), MonotonicMs::from_raw(position * 50));
        assert!(pending.marks.len() <= MARKS_MAX);
    }
    let (mut now_ms, mut n) = (HOURS_MS, 0);
    while !pending.is_empty() {
        let late_ms = now_ms + 1 - HOURS_MS / 1_000;
        pending.take_overdue(MonotonicMs::from_raw(now_ms), HOURS_MS, usize::MAX, |position, _| {
            assert!((late_ms..=now_ms).contains(&(position * 50 + HOURS_MS)), "{position}");
            n += 1;
        });
        now_ms = pending.next_overdue_ms(HOURS_MS).unwrap_or(MonotonicMs::from_raw(u64::MAX)).get();
    }
    assert_eq!(n, HOURS_MS / 50);
}

#[test]
fn one_that_is_given_up_is_so_until_it_leaves() {
    let mut pending = ConfirmWaiters::default();
    for position in [3, 4, 9] {
        pending.wait(position, awaiting(position), MonotonicMs::from_raw(0));
    }
    let mut overdue = Vec::new();
    pending.take_overdue(MonotonicMs::from_raw(10), 10, 2, |position, _| overdue.push(position));
    assert_eq!(overdue, [3, 4]);
    overdue.into_iter().for_each(|position| pending.give_up(position));
    assert!(pending.is_given_up(3) && !pending.is_given_up(9));
    assert_eq!(pending.take(3), None);
    assert!(!pending.is_given_up(3) && pending.has_given_up());
    let mut taken = Vec::new();
    pending.take_range(PositionRange { start: 0, end: u64::MAX }, |one| taken.push(one));
    assert_eq!(taken, [awaiting(9)]);
    assert!(!pending.has_given_up() && pending.is_empty());
}

#[test]
fn ages_are_known_within_a_tenth_of_a_second() {
    let mut pending = ConfirmWaiters::default();
    for (position, now_ms) in [(5, 1_000), (6, 1_050), (7, 1_099), (8, 1_100), (20, 9_000)] {
        pending.wait(position, awaiting(position), MonotonicMs::from_raw(now_ms));
    }
    assert_eq!(pending.oldest_ms(), Some(MonotonicMs::from_raw(1_000)));
    assert_eq!((pending.came_ms(7).get(), pending.came_ms(8).get()), (1_000, 1_100));
    assert!(pending.take(5).is_some() && pending.take(6).is_some());
    assert_eq!(pending.oldest_ms(), Some(MonotonicMs::from_raw(1_000)));
    assert!(pending.take(7).is_some());
    assert_eq!(pending.oldest_ms(), Some(MonotonicMs::from_raw(1_100)));
    assert!(pending.take(8).is_some());
    assert_eq!(pending.oldest_ms(), Some(MonotonicMs::from_raw(9_000)));
    assert!(pending.take(20).is_some());
    assert_eq!(pending.oldest_ms(), None);
}

#[test]
fn one_that_is_left_behind_does_not_keep_the_places_of_those_after_it() {
    let mut pending = ConfirmWaiters::default();
    pending.wait(0, awaiting(1), MonotonicMs::from_raw(0));
    for position in 1..1_000_000 {
        pending.wait(position, awaiting(position), MonotonicMs::from_raw(0));
        assert_eq!(pending.take(position), Some(awaiting(position)));
    }
    assert!(pending.places.len() <= 2 * EMPTY_PLACES);
    assert_eq!(pending.take(0), Some(awaiting(1)));
    assert!(pending.is_empty());
}
