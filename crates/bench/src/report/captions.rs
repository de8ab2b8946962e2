//! Words for metrics, and the finding of a figure in one sentence.

use crate::report::figure::{Figure, Quotient};
use crate::report::number::ratio;
use crate::result::{Metric, WrittenBy};

/// A sentence about who counted bytes written, for each kind of counter; `None` of other metrics.
pub(crate) fn counted(figure: &Figure<'_>) -> Option<String> {
    if figure.metric != Metric::WrittenEach {
        return None;
    }
    let of = |counter| {
        let names = figure.columns.iter().filter(|column| column.written_by == Some(counter));
        let names: Vec<&str> = names.map(|column| column.text.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let broker = of(WrittenBy::Broker).map(|names| {
        format!(
            "{names}: what the broker hands to the system for its data files, by its own count."
        )
    });
    let process = of(WrittenBy::Process).map(|names| {
        format!(
            "{names}: write_bytes of the process, as the system counts it, which can be several times \
             what reaches the disk; not to be compared with a broker's own count."
        )
    });
    let sentences: Vec<String> = broker.into_iter().chain(process).collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// A figure's finding in one sentence: `Leveret: 48× RabbitMQ (12× to 84×) in messages per CPU-second`.
/// `None` if nothing can be compared.
pub(crate) fn finding(figure: &Figure<'_>) -> Option<String> {
    let first = figure.columns.first().filter(|first| !first.is_baseline)?;
    if let Metric::Relative | Metric::Gain = figure.metric {
        return None;
    }
    let (mut ahead, mut behind) = (Vec::new(), Vec::new());
    for (at, other) in figure.others().filter(|(_, other)| !other.is_baseline) {
        let Some(quotient) = figure.quotient(at) else { continue };
        match (quotient.mean >= 1.0) == figure.metric.is_higher_better() {
            true => ahead.push((other.text.as_str(), quotient)),
            false => behind.push((other.text.as_str(), quotient)),
        }
    }
    let mut parts = Vec::new();
    if !ahead.is_empty() {
        let others = ahead.iter().map(|(other, quotient)| compared(quotient, other, figure.metric));
        parts.push(sentence(&first.text, &others.collect::<Vec<_>>(), figure.metric));
    }
    for (other, quotient) in &behind {
        let compared = compared(&quotient.inverse(), &first.text, figure.metric);
        parts.push(sentence(other, &[compared], figure.metric));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn sentence(subject: &str, compared: &[String], metric: Metric) -> String {
    let compared = compared.join(", ");
    match metric.is_higher_better() {
        true => format!("{subject}: {compared} in {}", metric.noun()),
        false => format!("{subject}: {} {compared}", metric.noun()),
    }
}

/// The better one's value divided by `other`'s, said of the better one.
fn compared(quotient: &Quotient, other: &str, metric: Metric) -> String {
    match metric.is_higher_better() {
        true => {
            let range = quotient.range().map(|range| format!(" ({range})")).unwrap_or_default();
            format!("{} {other}{range}", ratio(quotient.mean))
        }
        false => {
            let quotient = quotient.inverse();
            let range = quotient.range().map(|range| format!(" ({range})")).unwrap_or_default();
            format!("{} lower than {other}{range}", ratio(quotient.mean))
        }
    }
}
