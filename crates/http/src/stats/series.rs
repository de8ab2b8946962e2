//! Figures over time. Each look at them is a sample; samples grow rarer with their age, and what has not
//! changed takes none. Pure: time is an argument.

use super::Past;
use crate::query::Query;
use crate::refusal::Refusal;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::hash::Hash;
use stdx::Now;

/// Distance of samples up to an age, milliseconds.
type Level = (u64, u64);

/// The levels of what there may be many of, looked at every few seconds.
pub(super) const SHORT: &[Level] = &[(0, 605_000), (60_000, 3_660_000)];
/// The levels of what there are few of, looked at every second.
pub(super) const LONG: &[Level] = &[
    (0, 65_000),
    (5_000, 605_000),
    (60_000, 3_660_000),
    (600_000, 29_400_000),
    (1_800_000, 88_200_000),
];
/// A look counts for a moment that it came so much too late for, or half the time between looks.
const SLACK_MS: u64 = 1_000;
/// Samples that are so far apart, or several times as far, stay those until there is another one.
const STEP_MS: u64 = 5_000;
/// Most samples of an answer's figure.
const SAMPLES_MAX: u64 = 1_000;
/// Samples of an object at least: two are a rate.
const SAMPLES_MIN: usize = 2;

/// Figures at one moment.
type Sample<const N: usize> = (u64, [u64; N]);

/// Figures of one object over time, oldest first.
#[derive(Debug, Default)]
struct Series<const N: usize> {
    samples: Vec<Sample<N>>,
    seen_ms: u64,
}

impl<const N: usize> Series<N> {
    /// Notes what a look saw at `now_ms`, as of `at_ms`.
    fn push(&mut self, now_ms: u64, at_ms: u64, figures: [u64; N], levels: &[Level]) {
        self.seen_ms = now_ms;
        if self.samples.last().is_some_and(|(_, last)| *last == figures) {
            return;
        }
        if self.samples.len() == self.samples.capacity() {
            // Capacity grows by a quarter only: very many objects may have samples.
            self.samples.reserve_exact((self.samples.len() / 4).max(1));
        }
        self.samples.push((at_ms, figures));
        self.thin_out(now_ms, levels);
    }

    /// Forgets what is too old, and of what is older the more the older it is: the last sample up to each
    /// multiple of a level's step stays, so that figures are right at those moments.
    fn thin_out(&mut self, now_ms: u64, levels: &[Level]) {
        let age_max_ms = levels.last().map_or(0, |(_, age_ms)| *age_ms);
        let n_old = self.samples.partition_point(|(at_ms, _)| at_ms + age_max_ms < now_ms);
        // The last sample before the limit still tells what the figures were after it.
        self.samples.drain(..n_old.saturating_sub(1));
        let step = |at_ms: u64| {
            let level = levels.iter().find(|(_, age_ms)| at_ms + age_ms >= now_ms);
            let (step_ms, _) = level.or_else(|| levels.last()).copied().unwrap_or_default();
            (step_ms > 0).then(|| (step_ms, at_ms.div_ceil(step_ms)))
        };
        self.samples.dedup_by(|later, earlier| {
            let is_one = step(later.0).is_some_and(|it| step(earlier.0) == Some(it));
            if is_one {
                *earlier = *later;
            }
            is_one
        });
    }

    /// The figures at a moment, if that is not too long ago.
    fn at(&self, moment_ms: u64) -> Option<[u64; N]> {
        let n_before = self.samples.partition_point(|(at_ms, _)| *at_ms <= moment_ms);
        self.samples.get(n_before.checked_sub(1)?).map(|(_, figures)| *figures)
    }

    /// How long the figures at these places have not changed, as far as that is known.
    fn unchanged_ms(&self, places: std::ops::Range<usize>) -> Option<u64> {
        let (_, last) = self.samples.last()?;
        let has_changed = |(_, it): &Sample<N>| it.get(places.clone()) != last.get(places.clone());
        let since = self.samples.iter().rposition(has_changed).map_or(0, |idx| idx + 1);
        let (at_ms, _) = self.samples.get(since)?;
        Some(self.seen_ms.saturating_sub(*at_ms))
    }

    /// Forgets the oldest samples but so many.
    fn shorten(&mut self, n: usize) {
        self.samples.drain(..self.samples.len().saturating_sub(n));
        self.samples.shrink_to_fit();
    }
}

/// The moments of the last two looks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    pub(super) now_ms: u64,
    pub(super) before_ms: u64,
    /// The time of day at the last, milliseconds.
    pub(super) unix_ms: u64,
    /// The first look of the [`STEP_MS`] under way, and its time of day.
    step: (u64, u64),
    n_looks: u64,
}

impl Moments {
    pub(super) const fn advance(&mut self, now: Now) {
        self.before_ms = self.now_ms;
        self.now_ms = now.monotonic_ms.get();
        self.unix_ms = now.unix_ms.get();
        self.n_looks += 1;
        if self.step.0 / STEP_MS != now.monotonic_ms.get() / STEP_MS {
            self.step = (now.monotonic_ms.get(), now.unix_ms.get());
        }
    }

    /// The last moment, and its time of day, of those that are so far apart.
    const fn last(&self, step_ms: u64) -> (u64, u64) {
        if step_ms.is_multiple_of(STEP_MS) { self.step } else { (self.now_ms, self.unix_ms) }
    }

    /// The moments that a wish is for, the last first: behind that, where it can be, multiples of the step,
    /// at which no sample is forgotten.
    fn wished(&self, Range { age_ms, step_ms }: Range) -> impl Iterator<Item = u64> {
        let (last_ms, _) = self.last(step_ms);
        let before_ms = if step_ms.is_multiple_of(STEP_MS) {
            let latest_ms = last_ms.saturating_sub(step_ms / 2);
            (last_ms >= step_ms / 2).then(|| latest_ms - latest_ms % step_ms)
        } else {
            last_ms.checked_sub(step_ms)
        };
        let earlier = (0..age_ms / step_ms)
            .map_while(move |n| before_ms.and_then(|it| it.checked_sub(n * step_ms)));
        std::iter::once(last_ms).chain(earlier)
    }

    /// Time by which a look counts earlier than it came, milliseconds.
    fn slack_ms(&self) -> u64 {
        SLACK_MS.min((self.now_ms - self.before_ms) / 2)
    }
}

/// Figures of objects of one kind over time.
#[derive(Debug)]
pub(super) struct History<K, const N: usize> {
    series: HashMap<K, Series<N>>,
    levels: &'static [Level],
    bytes_max: usize,
    /// Whether an object found no room: one that is new here may have been there before.
    was_full: bool,
}

impl<K: Eq + Hash, const N: usize> History<K, N> {
    /// Memory that an object takes beside its samples: its place in a table that is half full.
    const OBJECT_BYTES: usize = 2 * size_of::<(K, Series<N>)>();

    /// A history of at most `bytes_max` bytes.
    pub(super) fn new(levels: &'static [Level], bytes_max: usize) -> Self {
        Self { series: HashMap::new(), levels, bytes_max, was_full: false }
    }

    /// Notes the figures of an object, if there is room; figures that were never anything but 0 take none.
    pub(super) fn look(&mut self, key: K, figures: [u64; N], moments: &Moments) {
        if !self.series.contains_key(&key) {
            let object_bytes = Self::OBJECT_BYTES + SAMPLES_MIN * size_of::<Sample<N>>();
            let is_full = (self.series.len() + 1) * object_bytes > self.bytes_max;
            self.was_full |= is_full && figures != [0; N];
            if is_full || figures == [0; N] {
                return;
            }
        }
        let (levels, was_full) = (self.levels, self.was_full);
        let series = self.series.entry(key).or_insert_with(|| {
            let mut series = Series::default();
            // A new object began at 0, unless it may be older: at the first look, or after one without room.
            if moments.n_looks > 1 && !was_full {
                series.push(moments.before_ms, moments.before_ms, [0; N], levels);
            }
            series
        });
        let at_ms = moments.now_ms - moments.slack_ms();
        series.push(moments.now_ms, at_ms, figures, levels);
    }

    /// Forgets what was not seen in this look, and what there is no room for.
    pub(super) fn end_look(&mut self, moments: &Moments) {
        self.series.retain(|_, series| series.seen_ms == moments.now_ms);
        self.shorten();
    }

    /// Forgets those that are not there, and what there is no room for.
    pub(super) fn keep(&mut self, is_there: impl Fn(&K) -> bool) {
        self.series.retain(|key, _| is_there(key));
        self.shorten();
    }

    fn shorten(&mut self) {
        let n_samples: usize = self.series.values().map(|it| it.samples.capacity()).sum();
        let room = self.bytes_max.saturating_sub(self.series.len() * Self::OBJECT_BYTES);
        let samples_max = room / size_of::<Sample<N>>();
        if n_samples > samples_max {
            let n = (samples_max / self.series.len().max(1)).max(SAMPLES_MIN);
            self.series.values_mut().for_each(|series| series.shorten(n));
        }
    }

    pub(super) fn at(&self, key: &K, moment_ms: u64) -> Option<[u64; N]> {
        self.series.get(key)?.at(moment_ms)
    }

    /// Earlier figures of an object.
    pub(super) fn past<'l>(
        &'l self,
        key: &'l K,
        moments: &'l Moments,
        range: Option<Range>,
    ) -> Past<'l, impl Fn(u64) -> Option<[u64; N]>> {
        Past::new(moments, range, move |moment_ms| self.at(key, moment_ms))
    }

    /// How long the figures of an object at these places have not changed, as far as that is known.
    pub(super) fn unchanged_ms(&self, key: &K, places: std::ops::Range<usize>) -> Option<u64> {
        self.series.get(key)?.unchanged_ms(places)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.series.keys()
    }
}

/// A wish for samples: how far back, and how far apart, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    age_ms: u64,
    step_ms: u64,
}

/// A query's wishes, by the kind of figure.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ranges {
    pub(crate) lengths: Option<Range>,
    pub(crate) msg_rates: Option<Range>,
    pub(crate) data_rates: Option<Range>,
    pub(crate) node_stats: Option<Range>,
}

impl Ranges {
    pub(crate) fn of(query: &Query) -> Result<Self, Refusal> {
        let number = |name: &str, what: &str| {
            let name = format!("{name}_{what}");
            let wrong = |_| Refusal::bad_request(format!("{name} must be a number, 0 or more"));
            query.get(&name).map(|text| text.parse::<u32>().map_err(wrong)).transpose()
        };
        let range = |name| {
            let (Some(age), Some(step)) = (number(name, "age")?, number(name, "incr")?) else {
                return Ok(None);
            };
            let range = Range { age_ms: u64::from(age) * 1_000, step_ms: u64::from(step) * 1_000 };
            if range.age_ms.checked_div(range.step_ms).is_none_or(|n| n > SAMPLES_MAX) {
                let text = format!("{name}_age must be at most {SAMPLES_MAX} times {name}_incr");
                return Err(Refusal::bad_request(text));
            }
            Ok(Some(range))
        };
        Ok(Self {
            lengths: range("lengths")?,
            msg_rates: range("msg_rates")?,
            data_rates: range("data_rates")?,
            node_stats: range("node_stats")?,
        })
    }
}

/// The rate of a figure, and its samples where they are wanted.
pub(super) fn details(
    moments: &Moments,
    range: Option<Range>,
    at: impl Fn(u64) -> Option<u64>,
) -> Value {
    let (now, before) = (at(moments.now_ms), at(moments.before_ms));
    let rate = rate(before.or(now), now, moments.now_ms - moments.before_ms);
    let Some(range) = range else { return json!({"rate": rate}) };
    let (last_ms, last_unix_ms) = moments.last(range.step_ms);
    let samples: Vec<(u64, u64)> = moments
        .wished(range)
        .filter_map(|moment_ms| Some((last_ms - moment_ms, at(moment_ms)?)))
        .collect();
    let sum: u64 = samples.iter().map(|(_, value)| value).sum();
    let (oldest, newest) = (samples.last(), samples.first());
    let span_ms = oldest.map_or(0, |(ago_ms, _)| *ago_ms);
    let avg_rate = self::rate(oldest.map(|it| it.1), newest.map(|it| it.1), span_ms);
    let sample =
        |(ago_ms, value): &(u64, u64)| json!({"sample": value, "timestamp": last_unix_ms - ago_ms});
    json!({
        "rate": rate,
        "samples": samples.iter().map(sample).collect::<Vec<_>>(),
        "avg_rate": avg_rate,
        "avg": mean(sum, samples.len()),
    })
}

#[expect(clippy::cast_precision_loss, reason = "a rate is shown with a digit behind the point")]
fn rate(before: Option<u64>, now: Option<u64>, span_ms: u64) -> f64 {
    let (Some(before), Some(now), 1..) = (before, now, span_ms) else { return 0.0 };
    ((now as f64 - before as f64) * 10_000.0 / span_ms as f64).round() / 10.0
}

#[expect(clippy::cast_precision_loss, reason = "a mean is shown with a digit behind the point")]
fn mean(sum: u64, n: usize) -> f64 {
    (sum as f64 * 10.0 / n.max(1) as f64).round() / 10.0
}

#[cfg(test)]
mod tests;
