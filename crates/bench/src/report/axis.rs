//! Axes: the place of a value between their ends, and the values written beside them.

use crate::report::number::step_base;
use crate::result::Unit;

/// Values further apart than this are drawn on a logarithmic axis.
const LINEAR_RATIO_MAX: f64 = 10.0;
/// The same where a logarithmic axis is wished.
const WISHED_LOG_RATIO: f64 = 3.0;
/// Decades up to which 2 and 5 times a power of ten are written as well.
const FINE_DECADES_MAX: f64 = 1.8;
/// Powers of ten that are written; with more, every second.
const DECADES_MAX: usize = 6;
/// Least distance of the least value from the low end of a logarithmic axis, as a factor.
const LOG_ROOM: f64 = 1.3;
/// About how many values stand at a linear axis.
const LINEAR_TICKS: f64 = 5.0;

/// An axis from `low` to `high`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    /// Whether equal lengths are equal ratios rather than equal differences.
    pub(crate) is_log: bool,
    /// The values written beside it, rising.
    pub(crate) ticks: Vec<f64>,
}

impl Axis {
    /// An axis that holds all values and, unless it is logarithmic, zero. It is logarithmic when the
    /// values above zero span more than a decade, or if that is wished and they differ much.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>, unit: Unit, is_log: bool) -> Self {
        let (low, high) = ends(values);
        let ratio_max = if is_log { WISHED_LOG_RATIO } else { LINEAR_RATIO_MAX };
        match high / low > ratio_max {
            true => Self::log(low, high, step_base(low, unit)),
            false => Self::linear(high, step_base(high, unit)),
        }
    }

    /// An axis from zero, whatever the values span.
    pub(crate) fn from_zero(values: impl IntoIterator<Item = f64>, unit: Unit) -> Self {
        let (_, high) = ends(values);
        Self::linear(high, step_base(high, unit))
    }

    /// A logarithmic axis for ratios.
    pub(crate) fn ratios(ratios: &[f64]) -> Self {
        let (low, high) = ends(ratios.iter().copied());
        match high > low {
            true => Self::log(low, high, 1.0),
            false => Self::log(low / 2.0, high * 2.0, 1.0),
        }
    }

    /// The value at the high end.
    pub(crate) fn end(&self) -> f64 {
        self.high
    }

    /// The place of `value`: 0 at the low end, 1 at the high end, never beyond.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = match self.is_log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
    }

    fn linear(high: f64, base: f64) -> Self {
        let step = next_nice(high / base / LINEAR_TICKS) * base;
        let n = (high / step - 1e-9).ceil().max(1.0);
        let ticks = (0_u8..=20).map(f64::from).take_while(|at| *at <= n).map(|at| at * step);
        Self { low: 0.0, high: n * step, is_log: false, ticks: ticks.collect() }
    }

    fn log(low: f64, high: f64, base: f64) -> Self {
        let low = last_nice(low / base / LOG_ROOM) * base;
        let high = next_nice(high / base) * base;
        let is_fine = (high / low).log10() <= FINE_DECADES_MAX;
        let mut ticks = Vec::new();
        let mut tick = low;
        while tick <= high * 1.000_001 && ticks.len() < 100 {
            if is_fine || is_power_of_ten(tick / base) {
                ticks.push(tick);
            }
            tick = next_nice(tick / base * 1.01) * base;
        }
        let step = ticks.len().div_ceil(DECADES_MAX).max(1);
        Self { low, high, is_log: true, ticks: ticks.into_iter().step_by(step).collect() }
    }
}

/// The least and the greatest of the values above zero; 1 and 1 if there are none.
fn ends(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let mut ends = (f64::INFINITY, 0.0);
    for value in values.into_iter().filter(|value| value.is_finite() && *value > 0.0) {
        ends = (value.min(ends.0), value.max(ends.1));
    }
    if ends.1 > 0.0 { ends } else { (1.0, 1.0) }
}

/// The least of 1, 2 and 5 times a power of ten that is not less than `value`.
fn next_nice(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let nice = [1.0, 2.0, 5.0].into_iter().map(|digit| digit * power);
    nice.into_iter().find(|nice| *nice >= value * 0.999_999).unwrap_or(10.0 * power)
}

/// The greatest of 1, 2 and 5 times a power of ten that is not more than `value`.
fn last_nice(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let nice = [5.0, 2.0].into_iter().map(|digit| digit * power);
    nice.into_iter().find(|nice| *nice <= value * 1.000_001).unwrap_or(power)
}

fn is_power_of_ten(value: f64) -> bool {
    let power = value.log10();
    (power - power.round()).abs() < 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(values: &[f64], unit: Unit) -> Vec<String> {
        let axis = Axis::of(values.iter().copied(), unit, false);
        axis.ticks
            .iter()
            .map(|tick| crate::report::number::text(*tick, unit).replace('\u{202f}', " "))
            .collect()
    }

    #[test]
    fn an_axis_over_decades_is_logarithmic() {
        assert_eq!(
            ticks(&[67_000.0, 5_600_000.0], Unit::PerCpuSecond),
            ["100 000", "1 M", "10 M"],
            "only powers of ten when there are enough of them"
        );
        let axis = Axis::of([67_000.0, 5_600_000.0], Unit::PerCpuSecond, false);
        assert!(axis.is_log);
        assert_eq!([axis.low, axis.high], [50_000.0, 10_000_000.0]);
    }

    #[test]
    fn little_more_than_a_decade_has_values_between() {
        let expected = ["10 000", "20 000", "50 000", "100 000", "200 000", "500 000"];
        assert_eq!(ticks(&[22_000.0, 440_000.0], Unit::PerCpuSecond), expected);
    }

    #[test]
    fn many_decades_are_thinned_out() {
        assert_eq!(ticks(&[1.0, 1e9], Unit::PerCpuSecond), ["1", "100", "10 000", "1 M", "100 M"]);
    }

    #[test]
    fn within_a_decade_an_axis_starts_at_zero() {
        assert_eq!(
            ticks(&[870.0, 1_400.0, 0.0], Unit::PerCpuSecond),
            ["0", "500", "1 000", "1 500"],
            "and a zero makes no axis logarithmic"
        );
        assert_eq!(ticks(&[300.0, 2_100.0], Unit::Microseconds).last().unwrap(), "2.5 ms");
    }

    #[test]
    fn bytes_are_counted_in_their_own_steps() {
        let mib = 1024.0 * 1024.0;
        assert_eq!(
            ticks(&[35.0 * mib], Unit::Bytes),
            ["0", "10 MiB", "20 MiB", "30 MiB", "40 MiB"]
        );
        assert_eq!(ticks(&[20.0 * mib, 400.0 * mib], Unit::Bytes).first().unwrap(), "10 MiB");
    }

    #[test]
    fn values_lie_between_the_ends() {
        let log = Axis::of([1.0, 100.0], Unit::PerCpuSecond, false);
        assert!((log.at(50.0_f64.sqrt()) - 0.5).abs() < 1e-9, "halfway from 0.5 to 100");
        assert_eq!([log.at(0.0), log.at(1e9), log.at(f64::NAN)], [0.0, 1.0, 0.0]);
        let linear = Axis::of([2.0, 4.0], Unit::PerCpuSecond, false);
        assert_eq!([linear.at(0.0), linear.at(2.0), linear.at(4.0)], [0.0, 0.5, 1.0]);
    }

    #[test]
    fn no_values_make_an_axis_all_the_same() {
        assert_eq!(Axis::of([], Unit::PerCpuSecond, false).ticks.first(), Some(&0.0));
    }
}
