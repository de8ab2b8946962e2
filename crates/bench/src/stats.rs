//! Several repeats as one figure, and figures beside each other. Numbers in, numbers out.

use std::collections::BTreeMap;

use crate::result::{Cell, Figure, Metric, Row, Sample};

/// The middle value; the mean of the two in the middle of an even number; `None` of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get((sorted.len() / 2).checked_sub(1)?)?;
    Some(f64::midpoint(lower, upper))
}

/// Every metric that any sample has, over those that have it. Without ratios.
pub(crate) fn figures(samples: &[Sample]) -> BTreeMap<Metric, Figure> {
    let mut figures = BTreeMap::new();
    for &metric in Metric::ALL {
        let values: Vec<f64> =
            samples.iter().filter_map(|sample| sample.values.get(&metric).copied()).collect();
        if let Some(median) = median(&values) {
            let min = values.iter().copied().fold(f64::INFINITY, f64::min);
            let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            figures.insert(metric, Figure { median, min, max, ratio: None });
        }
    }
    figures
}

/// Sums up each cell, then compares each with the first.
pub(crate) fn sum_up(cells: &mut [Cell]) {
    for cell in &mut *cells {
        cell.figures = figures(&cell.samples);
    }
    let Some((first, others)) = cells.split_first_mut() else { return };
    for (metric, figure) in others.iter_mut().flat_map(|cell| &mut cell.figures) {
        figure.ratio = first.figures.get(metric).and_then(|base| ratio(figure.median, base.median));
    }
}

/// Adds to each sample how many times its value of the row's metric is that of its reference's cell in the
/// same repeat.
pub(crate) fn compare<'a>(
    row: &mut Row,
    reference: impl IntoIterator<Item = &'a Cell>,
    as_metric: Metric,
) {
    let metric = row.metric;
    for (cell, reference) in row.cells.iter_mut().zip(reference) {
        for sample in &mut cell.samples {
            let base = reference.samples.iter().find(|other| other.repeat == sample.repeat);
            let base = base.and_then(|base| base.values.get(&metric));
            let own = sample.values.get(&metric);
            if let Some(times) = own.zip(base).and_then(|(own, base)| ratio(*own, *base)) {
                sample.values.insert(as_metric, times);
            }
        }
    }
    sum_up(&mut row.cells);
}

/// The mean of a metric over cells, for each repeat that any of them has it for.
pub(crate) fn means(metric: Metric, cells: &[&Cell]) -> Vec<Sample> {
    let samples = || cells.iter().flat_map(|cell| &cell.samples);
    let n_repeats = samples().map(|sample| sample.repeat).max().unwrap_or(0);
    let of_repeat = |repeat| {
        let same = samples().filter(|sample| sample.repeat == repeat);
        let values: Vec<f64> = same.filter_map(|it| it.values.get(&metric).copied()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let at_seconds = samples().map(|sample| sample.at_seconds).fold(f64::INFINITY, f64::min);
        (!values.is_empty()).then(|| Sample {
            repeat,
            at_seconds,
            seconds: 0.0,
            values: BTreeMap::from([(metric, mean)]),
            series: Vec::new(),
        })
    };
    (1..=n_repeats).filter_map(of_repeat).collect()
}

/// `None` if there is nothing to divide by.
pub(crate) fn ratio(a: f64, b: f64) -> Option<f64> {
    (b != 0.0).then(|| a / b).filter(|ratio| ratio.is_finite())
}

/// The longest stretch of intervals in which nothing moved, seconds. Each interval is its end and its
/// rate; the first begins at 0.
pub(crate) fn longest_pause(intervals: impl IntoIterator<Item = (f64, f64)>) -> f64 {
    let (mut longest, mut since, mut before) = (0.0_f64, 0.0, 0.0);
    for (end, rate) in intervals {
        if rate > 0.0 {
            longest = longest.max(before - since);
            since = end;
        }
        before = end;
    }
    longest.max(before - since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Outcome;

    fn sample(repeat: u32, rate: f64) -> Sample {
        Sample {
            repeat,
            at_seconds: 0.0,
            seconds: 1.0,
            values: BTreeMap::from([(Metric::Rate, rate)]),
            series: Vec::new(),
        }
    }

    fn cell(rates: &[f64]) -> Cell {
        let samples = (1..).zip(rates).map(|(repeat, rate)| sample(repeat, *rate)).collect();
        Cell { outcome: Outcome::Measured, figures: BTreeMap::new(), samples }
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_two_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0, 100.0, 2.0]), Some(3.0));
    }

    #[test]
    fn cells_have_spread_and_are_compared_with_the_first() {
        let mut cells = [cell(&[10.0, 30.0, 20.0]), cell(&[5.0, 1.0]), cell(&[])];
        sum_up(&mut cells);
        let first = cells[0].figures[&Metric::Rate];
        assert_eq!(first, Figure { median: 20.0, min: 10.0, max: 30.0, ratio: None });
        let second = cells[1].figures[&Metric::Rate];
        assert_eq!(second, Figure { median: 3.0, min: 1.0, max: 5.0, ratio: Some(0.15) });
        assert!(cells[2].figures.is_empty());
    }

    #[test]
    fn nothing_is_compared_with_nothing_or_with_zero() {
        let mut cells = [cell(&[]), cell(&[5.0])];
        sum_up(&mut cells);
        assert_eq!(cells[1].figures[&Metric::Rate].ratio, None);
        let mut cells = [cell(&[0.0]), cell(&[5.0])];
        sum_up(&mut cells);
        assert_eq!(cells[1].figures[&Metric::Rate].ratio, None);
    }

    #[test]
    fn rows_relate_repeat_by_repeat() {
        let reference = [cell(&[10.0, 20.0])];
        let mut row = Row {
            name: "row".to_owned(),
            note: None,
            parameters: BTreeMap::new(),
            commands: Vec::new(),
            metric: Metric::Rate,
            relative_to: Some("reference".to_owned()),
            goal: None,
            published: Vec::new(),
            cells: vec![cell(&[5.0, 5.0, 5.0])],
        };
        compare(&mut row, &reference, Metric::Relative);
        sum_up(&mut row.cells);
        let parts: Vec<Option<f64>> = row.cells[0]
            .samples
            .iter()
            .map(|sample| sample.values.get(&Metric::Relative).copied())
            .collect();
        assert_eq!(parts, [Some(0.5), Some(0.25), None]);
        assert_eq!(row.cells[0].figures[&Metric::Relative].median, 0.375);
    }

    #[test]
    fn gains_refer_to_the_base_column_and_have_means() {
        let mut rows = [[10.0, 30.0], [4.0, 8.0]].map(|base| Row {
            name: "row".to_owned(),
            note: None,
            parameters: BTreeMap::new(),
            commands: Vec::new(),
            metric: Metric::Rate,
            relative_to: None,
            goal: None,
            published: Vec::new(),
            cells: vec![cell(&[20.0, 30.0, 20.0]), cell(&base), cell(&[])],
        });
        for row in &mut rows {
            let base = row.cells[1].clone();
            compare(row, std::iter::repeat(&base), Metric::Gain);
        }
        let gains = |cell: &Cell| -> Vec<f64> {
            cell.samples.iter().filter_map(|it| it.values.get(&Metric::Gain).copied()).collect()
        };
        assert_eq!(gains(&rows[0].cells[0]), [2.0, 1.0]);
        assert_eq!(gains(&rows[1].cells[0]), [5.0, 3.75]);
        assert_eq!(gains(&rows[0].cells[1]), [1.0, 1.0]);
        let means = means(Metric::Gain, &[&rows[0].cells[0], &rows[1].cells[0]]);
        let means: Vec<f64> = means.iter().map(|sample| sample.values[&Metric::Gain]).collect();
        assert_eq!(means, [3.5, 2.375]);
    }

    #[test]
    fn pauses_at_the_start_the_middle_and_the_end_count() {
        assert_eq!(longest_pause([]), 0.0);
        assert_eq!(longest_pause([(1.0, 5.0), (2.0, 5.0)]), 0.0);
        assert_eq!(longest_pause([(1.0, 0.0), (3.0, 0.0), (4.0, 1.0), (5.0, 0.0)]), 3.0);
        assert_eq!(longest_pause([(1.0, 1.0), (2.0, 0.0), (4.0, 0.0)]), 3.0);
    }
}
