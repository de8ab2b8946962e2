//! Words for metrics, and the finding of a figure in one sentence.

use crate::report::figure::{Figure, Quotient};
use crate::report::number::ratio;
use crate::result::{Metric, WrittenBy};

/// Within a sentence and beside an axis.
pub(crate) fn noun(metric: Metric) -> &'static str {
    match metric {
        Metric::Rate => "messages per second",
        Metric::SendRate => "published messages per second",
        Metric::ReceiveRate => "delivered messages per second",
        Metric::ByteRate => "bytes per second",
        Metric::PerCpuSecond => "messages per CPU-second",
        Metric::CpuPerMessage => "CPU time per message",
        Metric::Memory => "memory",
        Metric::MemoryPeak => "peak memory",
        Metric::MemoryEach => "memory each",
        Metric::WrittenEach => "bytes written to disk per message",
        Metric::LatencyMean => "mean latency",
        Metric::LatencyMedian => "median latency",
        Metric::LatencyP99 => "99th percentile latency",
        Metric::LatencyP999 => "99.9th percentile latency",
        Metric::LatencyMax => "longest latency",
        Metric::ConfirmMean => "mean confirm latency",
        Metric::ConfirmMedian => "median confirm latency",
        Metric::ConfirmP99 => "99th percentile confirm latency",
        Metric::BystanderP99 => "99th percentile latency of the bystander",
        Metric::BystanderMax => "longest latency of the bystander",
        Metric::SwitchesPerMessage => "context switches per message",
        Metric::CallsPerMessage => "system calls per message",
        Metric::OperationRate => "operations per second",
        Metric::OperationMedian => "median time per operation",
        Metric::OperationP99 => "99th percentile time per operation",
        Metric::CpuPerOperation => "CPU time per operation",
        Metric::LongestPause => "longest pause",
        Metric::Duration => "duration",
        Metric::ChunkSize => "messages per chunk",
        Metric::SocketWrites => "writes to sockets",
        Metric::FileReads => "reads of streams' files",
        Metric::FileReadBytes => "bytes read of streams' files",
        Metric::ChunksPerRead => "chunks per read",
        Metric::ChunksReadAhead => "chunks read ahead",
        Metric::Relative => "share of the reference row's rate",
        Metric::Gain => "times what the base has",
    }
}

/// On a button.
pub(crate) fn button(metric: Metric) -> &'static str {
    match metric {
        Metric::Rate => "per second",
        Metric::SendRate => "published/s",
        Metric::ReceiveRate => "delivered/s",
        Metric::ByteRate => "bytes/s",
        Metric::PerCpuSecond => "per CPU-second",
        Metric::CpuPerMessage => "CPU per message",
        Metric::Memory => "memory",
        Metric::MemoryPeak => "peak memory",
        Metric::MemoryEach => "memory each",
        Metric::WrittenEach => "disk per message",
        Metric::LatencyMean => "mean latency",
        Metric::LatencyMedian => "latency",
        Metric::LatencyP99 => "latency 99 %",
        Metric::LatencyP999 => "latency 99.9 %",
        Metric::LatencyMax => "longest latency",
        Metric::ConfirmMean => "mean confirm latency",
        Metric::ConfirmMedian => "confirm latency",
        Metric::ConfirmP99 => "confirm latency 99 %",
        Metric::BystanderP99 => "bystander 99 %",
        Metric::BystanderMax => "bystander longest",
        Metric::SwitchesPerMessage => "switches",
        Metric::CallsPerMessage => "system calls",
        Metric::OperationRate => "operations/s",
        Metric::OperationMedian => "operation time",
        Metric::OperationP99 => "operation time 99 %",
        Metric::CpuPerOperation => "CPU per operation",
        Metric::LongestPause => "longest pause",
        Metric::Duration => "duration",
        Metric::ChunkSize => "chunk size",
        Metric::SocketWrites => "socket writes",
        Metric::FileReads => "file reads",
        Metric::FileReadBytes => "bytes read",
        Metric::ChunksPerRead => "chunks per read",
        Metric::ChunksReadAhead => "read ahead",
        Metric::Relative => "relative",
        Metric::Gain => "gain",
    }
}

/// The reason why a row that was measured has no value of a metric.
pub(crate) fn absent(metric: Metric) -> &'static str {
    match metric {
        Metric::PerCpuSecond | Metric::CpuPerMessage | Metric::CpuPerOperation => {
            "CPU time unknown, or below 50 ms"
        }
        Metric::Memory | Metric::MemoryPeak | Metric::MemoryEach | Metric::WrittenEach => {
            "no process on this machine"
        }
        Metric::LatencyMean
        | Metric::LatencyMedian
        | Metric::LatencyP99
        | Metric::LatencyP999
        | Metric::LatencyMax
        | Metric::ReceiveRate => "nothing is consumed",
        Metric::BystanderP99 | Metric::BystanderMax => "no bystander",
        Metric::SwitchesPerMessage | Metric::CallsPerMessage => {
            "not to be counted on this machine, or of a load that ends"
        }
        Metric::ConfirmMean | Metric::ConfirmMedian | Metric::ConfirmP99 => "nothing is confirmed",
        Metric::SendRate => "nothing is published",
        Metric::OperationRate | Metric::OperationMedian | Metric::OperationP99 => "no operations",
        Metric::ChunkSize => "no chunks are delivered",
        Metric::SocketWrites
        | Metric::FileReads
        | Metric::FileReadBytes
        | Metric::ChunksPerRead
        | Metric::ChunksReadAhead => "not counted by the broker, or nothing read",
        Metric::Relative | Metric::Gain => "nothing to compare it with",
        Metric::Rate | Metric::ByteRate | Metric::LongestPause | Metric::Duration => "not measured",
    }
}

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
        true => format!("{subject}: {compared} in {}", noun(metric)),
        false => format!("{subject}: {} {compared}", noun(metric)),
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
