//! The result of one measurement, before it is assigned to a row and a repeat.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::own_count::Counts;
use crate::result::{Metric, Point};
use crate::stats::{longest_pause, ratio};

/// CPU time below which figures per message would be noise: the system counts in hundredths.
const CPU_S_MIN: f64 = 0.05;

/// Figures, and samples over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Measurement {
    pub(crate) seconds: f64,
    pub(crate) values: BTreeMap<Metric, f64>,
    pub(crate) series: Vec<Point>,
}

impl Measurement {
    /// One more figure.
    pub(crate) fn set(&mut self, metric: Metric, value: f64) {
        self.values.insert(metric, value);
    }

    /// One more figure, if it is known.
    pub(crate) fn set_known(&mut self, metric: Metric, value: Option<f64>) {
        self.values.extend(value.map(|value| (metric, value)));
    }

    /// Microseconds of CPU time for each of `n`, if both are enough to tell.
    pub(crate) fn set_cpu(&mut self, metric: Metric, cpu_s: f64, n: f64) {
        if let Some(each) = ratio(cpu_s * 1e6, n).filter(|_| cpu_s >= CPU_S_MIN) {
            self.set(metric, each);
        }
    }
}

/// Times that messages took, microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Latency {
    pub(crate) mean: f64,
    pub(crate) median: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Latency {
    /// From an object of the load generator; `None` if nothing was timed: even the slowest took no time.
    fn read(line: &Value, name: &str) -> Option<Self> {
        let of = |field: &str| line.get(name)?.get(field)?.as_f64();
        let max = of("max").filter(|max| *max > 0.0)?;
        let (mean, median, p99) = (of("mean")?, of("median")?, of("p99")?);
        Some(Self { mean, median, p99, p999: of("p99_9").unwrap_or(max), max })
    }

    /// Between this and another, of which so large a share is.
    fn mixed(self, other: Self, share: f64) -> Self {
        let mix = |a: f64, b: f64| a + (b - a) * share;
        Self {
            mean: mix(self.mean, other.mean),
            median: mix(self.median, other.median),
            p99: mix(self.p99, other.p99),
            p999: mix(self.p999, other.p999),
            max: self.max.max(other.max),
        }
    }
}

/// A load generator's summary at its end; those of several that ran at once add up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Summary {
    pub(crate) seconds: f64,
    /// One that was published and delivered counts once.
    pub(crate) messages: f64,
    pub(crate) sent: Option<f64>,
    pub(crate) received: Option<f64>,
    pub(crate) bytes: f64,
    pub(crate) latency: Option<Latency>,
    pub(crate) confirm: Option<Latency>,
    pub(crate) cpu_s: Option<f64>,
    pub(crate) rss_bytes: Option<f64>,
    /// The most it was.
    pub(crate) rss_bytes_max: Option<f64>,
    pub(crate) written_bytes: Option<f64>,
    /// Of streams, that were delivered.
    pub(crate) chunks: Option<f64>,
    /// Leveret's own counts meanwhile.
    pub(crate) own: Option<Counts>,
}

impl Summary {
    /// Reads the line of JSON.
    pub(crate) fn read(line: &Value) -> Option<Self> {
        let number = |name: &str| line.get(name).and_then(Value::as_f64);
        let broker = |name: &str| line.get("broker")?.get(name)?.as_f64();
        let (sent, received) = (number("sent"), number("received"));
        let bytes = [(sent, "sent_bytes"), (received, "received_bytes")];
        let bytes = bytes.iter().filter(|(n, _)| n.is_some()).filter_map(|(_, name)| number(name));
        Some(Self {
            seconds: number("seconds")?,
            messages: number("messages")?,
            sent,
            received,
            bytes: bytes.reduce(f64::min).unwrap_or(0.0),
            latency: Latency::read(line, "consumer_latency_us"),
            confirm: Latency::read(line, "confirm_latency_us"),
            cpu_s: broker("cpu_seconds"),
            rss_bytes: broker("rss_bytes"),
            rss_bytes_max: broker("rss_max_bytes"),
            written_bytes: broker("written_bytes"),
            chunks: number("chunks"),
            own: None,
        })
    }

    /// Takes in another that ran at the same time. Both saw the CPU time of the one broker.
    fn add(&mut self, other: &Self) {
        let weight = other.messages / (self.messages + other.messages).max(1.0);
        let sum = |a: Option<f64>, b: Option<f64>| a.map_or(b, |a| Some(a + b.unwrap_or(0.0)));
        let most = |a: Option<f64>, b: Option<f64>| a.map_or(b, |a| Some(a.max(b.unwrap_or(a))));
        let mean = |a: Option<Latency>, b: Option<Latency>| match (a, b) {
            (Some(a), Some(b)) => Some(a.mixed(b, weight)),
            (a, b) => a.or(b),
        };
        self.seconds = self.seconds.max(other.seconds);
        self.sent = sum(self.sent, other.sent);
        self.received = sum(self.received, other.received);
        self.latency = mean(self.latency, other.latency);
        self.confirm = mean(self.confirm, other.confirm);
        self.cpu_s = most(self.cpu_s, other.cpu_s);
        self.rss_bytes = most(self.rss_bytes, other.rss_bytes);
        self.rss_bytes_max = most(self.rss_bytes_max, other.rss_bytes_max);
        self.written_bytes = most(self.written_bytes, other.written_bytes);
        self.chunks = sum(self.chunks, other.chunks);
        self.messages += other.messages;
        self.bytes += other.bytes;
    }

    /// Several that ran at once.
    pub(crate) fn sum(all: &[Self]) -> Option<Self> {
        let (first, others) = all.split_first()?;
        let mut sum = first.clone();
        others.iter().for_each(|other| sum.add(other));
        Some(sum)
    }

    /// Leaves out the time after the last movement, in which the generator made sure that it was over.
    pub(crate) fn end_with(&mut self, series: &mut Vec<Point>) {
        let moves = |point: &Point| point.rate().is_some_and(|rate| rate > 0.0);
        if let Some(last) = series.iter().rposition(moves) {
            series.truncate(last + 1);
            self.seconds = series.last().map_or(self.seconds, |point| point.seconds);
        }
    }

    /// As figures, with what the course of the run adds.
    pub(crate) fn measurement(&self, series: Vec<Point>) -> Measurement {
        let seconds = self.seconds;
        let mut measurement = Measurement { seconds, ..Measurement::default() };
        let rate = |n: f64| ratio(n, seconds).unwrap_or(0.0);
        measurement.set(Metric::Duration, seconds);
        measurement.set(Metric::Rate, rate(self.messages));
        measurement.set(Metric::ByteRate, rate(self.bytes));
        let reads = self.own.filter(|own| own.chunks_read > 0.0);
        let optional = [
            (Metric::SendRate, self.sent.map(rate)),
            (Metric::ReceiveRate, self.received.map(rate)),
            (Metric::LatencyMean, self.latency.map(|it| it.mean)),
            (Metric::LatencyMedian, self.latency.map(|it| it.median)),
            (Metric::LatencyP99, self.latency.map(|it| it.p99)),
            (Metric::LatencyP999, self.latency.map(|it| it.p999)),
            (Metric::LatencyMax, self.latency.map(|it| it.max)),
            (Metric::ConfirmMean, self.confirm.map(|it| it.mean)),
            (Metric::ConfirmMedian, self.confirm.map(|it| it.median)),
            (Metric::ConfirmP99, self.confirm.map(|it| it.p99)),
            (Metric::Memory, self.rss_bytes),
            (Metric::MemoryPeak, self.rss_bytes_max),
            (Metric::WrittenEach, self.written_bytes.and_then(|bytes| ratio(bytes, self.messages))),
            (Metric::ChunkSize, self.received.zip(self.chunks).and_then(|(n, of)| ratio(n, of))),
            (Metric::SocketWrites, self.own.map(|own| own.socket_writes)),
            (Metric::FileReads, reads.map(|own| own.file_reads)),
            (Metric::FileReadBytes, reads.map(|own| own.file_read_bytes)),
            (Metric::ChunksPerRead, reads.and_then(|own| ratio(own.chunks_read, own.file_reads))),
            (Metric::ChunksReadAhead, reads.map(|own| own.chunks_read_ahead)),
        ];
        for (metric, value) in optional {
            measurement.set_known(metric, value);
        }
        if let Some(cpu_s) = self.cpu_s {
            measurement.set_cpu(Metric::CpuPerMessage, cpu_s, self.messages);
            if let Some(each) = measurement.values.get(&Metric::CpuPerMessage).copied() {
                measurement.set(Metric::PerCpuSecond, 1e6 / each);
            }
        }
        let rates = series.iter().filter_map(|point| Some((point.seconds, point.rate()?)));
        if series.len() > 1 {
            measurement.set(Metric::LongestPause, longest_pause(rates));
        }
        measurement.series = series;
        measurement
    }
}

/// Reads the line of an interval.
pub(crate) fn point(line: &Value) -> Option<Point> {
    if line.get("type")? != "interval" {
        return None;
    }
    let number = |name: &str| line.get(name).and_then(Value::as_f64);
    let of = |name: &str, field| line.get(name)?.get(field)?.as_f64().filter(|us| *us > 0.0);
    Some(Point {
        seconds: number("seconds")?,
        sent_per_second: number("sent_per_second"),
        received_per_second: number("received_per_second"),
        latency_mean_us: of("consumer_latency_us", "mean"),
        latency_us: of("consumer_latency_us", "median"),
        confirm_latency_mean_us: of("confirm_latency_us", "mean"),
        confirm_latency_us: of("confirm_latency_us", "median"),
        rss_bytes: line.get("broker").and_then(|broker| broker.get("rss_bytes")?.as_f64()),
    })
}

/// The courses of load generators that ran at once, as one.
pub(crate) fn join(courses: &[Vec<Point>]) -> Vec<Point> {
    let Some((first, others)) = courses.split_first() else { return Vec::new() };
    let mut joint = first.clone();
    for (at, point) in joint.iter_mut().enumerate() {
        for other in others.iter().filter_map(|course| course.get(at)) {
            let sum = |a: Option<f64>, b: Option<f64>| a.map_or(b, |a| Some(a + b.unwrap_or(0.0)));
            let most =
                |a: Option<f64>, b: Option<f64>| a.map_or(b, |a| Some(a.max(b.unwrap_or(a))));
            point.sent_per_second = sum(point.sent_per_second, other.sent_per_second);
            point.received_per_second = sum(point.received_per_second, other.received_per_second);
            for (of, other) in [
                (&mut point.latency_mean_us, other.latency_mean_us),
                (&mut point.latency_us, other.latency_us),
                (&mut point.confirm_latency_mean_us, other.confirm_latency_mean_us),
                (&mut point.confirm_latency_us, other.confirm_latency_us),
            ] {
                *of = most(*of, other);
            }
        }
    }
    joint
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line() -> Value {
        json!({
            "type": "summary", "seconds": 2.0, "sent": 1000, "received": 900, "messages": 900,
            "sent_bytes": 12_000, "received_bytes": 10_800,
            "consumer_latency_us": {"mean": 6.0, "median": 5.0, "p99": 9.0, "max": 10.0},
            "confirm_latency_us": {"mean": 0.0, "median": 0.0, "p99": 0.0, "max": 0.0},
            "broker": {"cpu_seconds": 0.09, "rss_bytes": 4096, "rss_max_bytes": 8192,
                "written_bytes": 1_800_000},
        })
    }

    #[test]
    fn a_summary_becomes_figures() {
        let summary = Summary::read(&line()).unwrap();
        let measurement = summary.measurement(Vec::new());
        let value = |metric| measurement.values.get(&metric).copied();
        assert_eq!(value(Metric::Rate), Some(450.0));
        assert_eq!(value(Metric::SendRate), Some(500.0));
        assert_eq!(value(Metric::ReceiveRate), Some(450.0));
        assert_eq!(value(Metric::ByteRate), Some(5400.0));
        assert_eq!(value(Metric::LatencyMean), Some(6.0));
        assert_eq!(value(Metric::LatencyP99), Some(9.0));
        assert_eq!(value(Metric::ConfirmMedian), None);
        assert_eq!(value(Metric::CpuPerMessage), Some(100.0));
        assert_eq!(value(Metric::PerCpuSecond), Some(10_000.0));
        assert_eq!(value(Metric::Memory), Some(4096.0));
        assert_eq!(value(Metric::MemoryPeak), Some(8192.0));
        assert_eq!(value(Metric::WrittenEach), Some(2000.0));
        assert_eq!(value(Metric::LongestPause), None);
    }

    #[test]
    fn too_little_cpu_time_tells_nothing() {
        let mut line = line();
        line["broker"]["cpu_seconds"] = json!(0.04);
        let measurement = Summary::read(&line).unwrap().measurement(Vec::new());
        assert!(!measurement.values.contains_key(&Metric::CpuPerMessage));
        assert!(!measurement.values.contains_key(&Metric::PerCpuSecond));
    }

    #[test]
    fn loads_at_once_add_up_and_share_the_broker() {
        let one = Summary::read(&line()).unwrap();
        let sum = Summary::sum(&[one.clone(), one]).unwrap();
        assert_eq!((sum.messages, sum.sent, sum.cpu_s), (1800.0, Some(2000.0), Some(0.09)));
        let latency = Latency { mean: 6.0, median: 5.0, p99: 9.0, p999: 10.0, max: 10.0 };
        assert_eq!((sum.seconds, sum.latency), (2.0, Some(latency)));
    }

    #[test]
    fn the_wait_for_the_end_is_left_out() {
        let at =
            |seconds, rate| Point { seconds, received_per_second: Some(rate), ..Point::default() };
        let mut series = vec![at(0.5, 9.0), at(1.0, 0.0), at(1.5, 9.0), at(2.0, 0.0)];
        let mut summary = Summary::read(&line()).unwrap();
        summary.end_with(&mut series);
        assert_eq!((summary.seconds, series.len()), (1.5, 3));
        let mut nothing = vec![at(0.5, 0.0)];
        summary.end_with(&mut nothing);
        assert_eq!((summary.seconds, nothing.len()), (1.5, 1));
    }

    #[test]
    fn courses_are_joined_interval_by_interval() {
        let line = json!({"type": "interval", "seconds": 1.0, "sent_per_second": 5, "received_per_second": 0,
            "confirm_latency_us": {"mean": 3.0, "median": 2.0}});
        let course = vec![point(&line).unwrap()];
        let joint = join(&[course.clone(), course]);
        assert_eq!(joint[0].sent_per_second, Some(10.0));
        assert_eq!((joint[0].latency_us, joint[0].latency_mean_us), (None, None));
        assert_eq!(joint[0].confirm_latency_mean_us, Some(3.0));
        assert_eq!(joint[0].confirm_latency_us, Some(2.0));
    }
}
