use super::*;
use proptest::prelude::*;
use stdx::UnixMs;

/// Looks at what `figure` says, every five seconds for so many of them.
fn looked(
    levels: &'static [Level],
    n_looks: u64,
    figure: impl Fn(u64) -> u64,
) -> (History<u8, 1>, Moments) {
    let (mut history, mut moments) = (History::new(levels, 1 << 20), Moments::default());
    for n in 1..=n_looks {
        // Looks come a little late.
        let at_ms = n * 5_000 + n * 7 % 10;
        let unix_ms = UnixMs::from_raw(1_000_000 + at_ms);
        moments.advance(Now { unix_ms, ..Now::at_ms(at_ms) });
        history.look(7, [figure(n)], &moments);
        history.end_look(&moments);
    }
    (history, moments)
}

fn shown(of: &(History<u8, 1>, Moments), age_s: &str, step_s: &str) -> Value {
    let query = [("lengths_age", age_s), ("lengths_incr", step_s)];
    let query = Query(query.map(|(name, it)| (name.to_owned(), it.to_owned())).to_vec());
    let range = Ranges::of(&query).unwrap().lengths;
    details(&of.1, range, |ms| of.0.at(&7, ms).map(|[it]| it))
}

#[test]
fn a_figure_that_grows_has_a_rate_and_samples() {
    let found = shown(&looked(SHORT, 20, |n| n * 10), "10", "5");
    let sample = |value: u64, at: u64| json!({"sample": value, "timestamp": 1_000_000 + at});
    assert_eq!(
        found,
        json!({
            "rate": 2.0, "avg_rate": 2.0, "avg": 190.0,
            "samples": [sample(200, 100_000), sample(190, 95_000), sample(180, 90_000)],
        })
    );
}

#[test]
fn samples_stay_the_same_until_there_is_another_one() {
    let (mut history, mut moments) = (History::new(LONG, 1 << 20), Moments::default());
    let mut answers = Vec::new();
    for n in 100..=114 {
        moments.advance(Now::at_ms(n * 1_000 + n % 3));
        history.look(7, [n], &moments);
        let range = |step_ms| Some(Range { age_ms: 60_000, step_ms });
        let of = |range| details(&moments, range, |ms| history.at(&7, ms).map(|[it]| it));
        assert_eq!(of(range(1_000))["samples"][0]["sample"], n);
        answers.push(of(range(5_000))["samples"].clone());
    }
    answers.dedup();
    assert_eq!(answers.len(), 3, "{answers:?}");
}

#[test]
fn what_does_not_change_takes_no_room_and_is_known_all_the_same() {
    let of = looked(SHORT, 100, |n| n.min(3));
    assert!(of.0.series[&7].samples.len() <= 5, "{:?}", of.0.series[&7]);
    let found = shown(&of, "300", "60");
    assert!(found["samples"].as_array().unwrap().iter().all(|it| it["sample"] == 3), "{found}");
    assert_eq!((&found["rate"], &found["avg_rate"]), (&json!(0.0), &json!(0.0)));
}

#[test]
fn samples_grow_rarer_with_their_age_and_end() {
    let a_day = looked(LONG, 86_400 / 5 + 1_000, |n| n);
    assert!(a_day.0.series[&7].samples.len() < 300, "{}", a_day.0.series[&7].samples.len());
    let found = shown(&a_day, "86400", "1800");
    let samples = found["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 49);
    assert!(samples.is_sorted_by_key(|it| std::cmp::Reverse(it["sample"].as_u64().unwrap())));
    let short = shown(&looked(SHORT, 10_000, |n| n), "86400", "1800");
    assert_eq!(short["samples"].as_array().unwrap().len(), 3, "an hour and what was before it");
}

#[test]
fn what_is_there_at_the_first_look_did_not_come_since() {
    assert_eq!(shown(&looked(SHORT, 1, |_| 50), "5", "5")["rate"], 0.0);
    let later = looked(SHORT, 2, |n| if n == 1 { 0 } else { 50 });
    assert_eq!(shown(&later, "5", "5")["rate"], 10.0);
}

#[test]
fn many_objects_share_the_room() {
    const BYTES_MAX: usize = 32_000;
    let (mut history, mut moments) = (History::<u32, 1>::new(SHORT, BYTES_MAX), Moments::default());
    for n in 1..=500 {
        moments.advance(Now::at_ms(n * 5_000));
        (0..100).for_each(|key| history.look(key, [n], &moments));
        history.end_look(&moments);
        let n_samples: usize = history.series.values().map(|it| it.samples.capacity()).sum();
        let bytes = history.series.len() * History::<u32, 1>::OBJECT_BYTES + n_samples * 16;
        assert!(bytes <= BYTES_MAX, "{bytes}");
    }
    assert_eq!(history.at(&3, moments.before_ms), Some([499]));
    // Of more than there is room for some have no past.
    (0..10_000).for_each(|key| history.look(key, [1_000], &moments));
    assert!((100..BYTES_MAX / 32).contains(&history.series.len()), "{}", history.series.len());
}

#[test]
fn wishes_that_make_no_sense_are_refused() {
    let of = |age: &str, step: &str| {
        let query = [("msg_rates_age", age), ("msg_rates_incr", step)];
        Ranges::of(&Query(query.map(|(name, it)| (name.to_owned(), it.to_owned())).to_vec())).err()
    };
    assert!(of("60", "5").is_none());
    for (age, step) in [("60", "0"), ("x", "5"), ("60", "-1"), ("100000", "5")] {
        assert!(of(age, step).is_some(), "{age} {step}");
    }
}

/// How often a sampler looks, and what it keeps.
#[derive(Clone, Copy, Debug)]
struct Kind {
    levels: &'static [Level],
    every_ms: u64,
    jitter_ms: u64,
}

const KINDS: [Kind; 2] = [
    Kind { levels: LONG, every_ms: 1_000, jitter_ms: 200 },
    Kind { levels: SHORT, every_ms: 5_000, jitter_ms: 900 },
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whenever figures change, and however far back and apart they are asked for, samples are those of
    /// somebody who has kept every look; where steps are finer than what is kept, those of the last moment
    /// that a level keeps: of the level that their age is for, or, since figures that do not change are not
    /// thinned out, of one before it.
    #[test]
    fn samples_are_those_of_a_naive_sampler(
        kind in prop::sample::select(&KINDS),
        changes in prop::collection::vec((1..2_000u64, 0..5u64), 1..60),
        seed in any::<u64>(),
        step_s in prop::sample::select(&[1, 5, 60, 600, 1_800, 7, 35][..]),
        n_steps in 1..200u64,
    ) {
        let (mut history, mut moments) = (History::new(kind.levels, 1 << 20), Moments::default());
        let (mut looks, mut n) = (Vec::new(), 0);
        for (n_looks, figure) in changes {
            // What is idle for an hour and more comes often enough.
            let n_looks = n_looks * 1_000 / kind.every_ms.min(5_000) + 1;
            for _ in 0..n_looks.min(3_000) {
                n += 1;
                let late_ms = (seed ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15) % kind.jitter_ms;
                let at_ms = n * kind.every_ms + late_ms;
                moments.advance(Now::at_ms(at_ms));
                history.look(7, [figure], &moments);
                looks.push((at_ms - moments.slack_ms(), figure));
            }
        }
        let naive = |moment_ms: u64| {
            let n_before = looks.partition_point(|(at_ms, _)| *at_ms <= moment_ms);
            n_before.checked_sub(1).map(|at| looks[at].1)
        };
        let range = Range { age_ms: step_s * 1_000 * n_steps, step_ms: step_s * 1_000 };
        let found = details(&moments, Some(range), |ms| history.at(&7, ms).map(|[it]| it));
        for sample in found["samples"].as_array().unwrap() {
            let (moment_ms, value) =
                (sample["timestamp"].as_u64().unwrap(), sample["sample"].as_u64());
            let age_ms = moments.now_ms - moment_ms;
            let Some(level) = kind.levels.iter().position(|(_, max_ms)| age_ms < *max_ms) else {
                continue;
            };
            let kept = &kind.levels[..=level];
            let is_right = kept.iter().any(|(kept_ms, _)| {
                value == naive(moment_ms - moment_ms.checked_rem(*kept_ms).unwrap_or(0))
            });
            prop_assert!(is_right, "{age_ms} ms ago: {value:?}, not {:?}", naive(moment_ms));
            if range.step_ms.is_multiple_of(STEP_MS.max(kept[level].0)) {
                prop_assert_eq!(value, naive(moment_ms), "{} ms ago", age_ms);
            }
        }
    }
}

#[test]
fn figures_that_rested_are_as_fine_as_at_their_last_change() {
    let (mut history, mut moments) = (History::<u8, 1>::new(LONG, 1 << 20), Moments::default());
    // What changed each minute, then not for an hour, is older than what is kept each minute.
    for n in 1..=2 * 3_600 {
        moments.advance(Now::at_ms(n * 1_000));
        history.look(7, [n.min(3_600) / 60], &moments);
    }
    let found = [1_200_000, 1_260_000, 1_290_000].map(|ms| history.at(&7, ms).unwrap());
    assert_eq!(found, [[20], [21], [21]]);
}

#[test]
fn idle_figures_hold_their_value_until_they_change() {
    // 100 come, stay for twelve minutes, and go.
    let found =
        shown(&looked(SHORT, 160, |n| if (10..155).contains(&n) { 100 } else { 0 }), "600", "5");
    let samples: Vec<_> =
        found["samples"].as_array().unwrap().iter().map(|it| &it["sample"]).collect();
    assert!(samples[..6].iter().all(|it| **it == 0), "{samples:?}");
    assert!(samples[6..].iter().all(|it| **it == 100), "{samples:?}");
}

#[test]
fn figures_are_unchanged_since_their_own_last_change() {
    let (mut history, mut moments) = (History::<u8, 2>::new(SHORT, 1 << 20), Moments::default());
    for n in 0..=20 {
        moments.advance(Now::at_ms(n * 5_000));
        // The first grows up to 90 s, the second up to 30 s.
        history.look(7, [n.min(18), n.min(6)], &moments);
    }
    let unchanged_ms = |places| history.unchanged_ms(&7, places);
    let found = [0..2, 0..1, 1..2].map(|places| unchanged_ms(places).unwrap());
    // A sample counts from so much before its look.
    assert_eq!(found, [10_000, 10_000, 70_000].map(|ms| ms + SLACK_MS));
    assert_eq!(history.unchanged_ms(&8, 0..2), None);
}
