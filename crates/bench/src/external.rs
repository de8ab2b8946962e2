//! RabbitMQ's own load generators, PerfTest and stream-perf-test, in the place of `leveret perf`, which has
//! their options: the text that they print becomes the lines that ours prints. Knows their words. Never the
//! scenario that is measured with them.

use serde_json::{Value, json};

use crate::plan::Load;

/// Options of `leveret perf` that they do not have, each without a value.
const OURS: &[&str] = &["stream", "--no-latency"];
/// The option that ends a consumer after so many messages.
const LIMIT: &str = "--cmessages";

/// The commands that start them, word by word; none where ours measures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExternalTools {
    pub(crate) perf_test: Vec<String>,
    pub(crate) stream_perf_test: Vec<String>,
}

impl ExternalTools {
    /// The program that makes this load, and the words in front of its options; `None` if that is ours.
    pub(crate) fn command(&self, load: &Load) -> Option<(&String, &[String])> {
        if load.is_amqp10() {
            return None;
        }
        let words = if load.is_stream() { &self.stream_perf_test } else { &self.perf_test };
        words.split_first()
    }
}

/// The options of a load as far as they know them.
pub(crate) fn options(load: &Load) -> impl Iterator<Item = &String> {
    load.0.iter().filter(|word| !OURS.contains(&word.as_str()))
}

/// The output of one of them as it comes, and the broker that it loads.
#[derive(Debug)]
pub(crate) struct Output {
    /// Messages after which its consumer ends, if it does.
    limit: Option<f64>,
    pid: Option<u32>,
    before: Option<perf::process::Usage>,
    /// Time of the last interval, seconds after the start.
    seconds: f64,
    sent_per_second: f64,
}

impl Output {
    pub(crate) fn of(load: &Load, pid: Option<u32>) -> Self {
        let limit = load.0.iter().skip_while(|word| *word != LIMIT).nth(1);
        Self {
            limit: limit.and_then(|limit| limit.parse().ok()),
            pid,
            before: pid.and_then(perf::process::usage),
            seconds: 0.0,
            sent_per_second: 0.0,
        }
    }

    /// The line of ours that says the same as this one.
    pub(crate) fn line(&mut self, line: &str) -> Option<Value> {
        if let Some(rate) = number_after(line, "sending rate avg: ") {
            self.sent_per_second = rate;
            return None;
        }
        if let Some(rate) = number_after(line, "receiving rate avg: ") {
            return Some(self.summary(self.sent_per_second, rate));
        }
        let sent = number_after(line, "sent: ").or_else(|| number_after(line, "published "));
        let received = number_after(line, "received: ").or_else(|| number_after(line, "consumed "));
        if line.starts_with("Summary: ") {
            return Some(self.summary(sent.unwrap_or(0.0), received.unwrap_or(0.0)));
        }
        sent.or(received)?;
        self.seconds = number_after(line, "time ").or_else(|| number_after(line, ""))?;
        // Streams have one latency, from publisher to consumer.
        let latency = latency_after(line, "consumer latency: ")
            .or_else(|| latency_after(line, "latency median/75th/95th/99th "));
        Some(json!({
            "type": "interval",
            "seconds": self.seconds,
            "sent_per_second": sent,
            "received_per_second": received,
            "consumer_latency_us": latency,
            "confirm_latency_us": latency_after(line, "confirm latency: "),
        }))
    }

    /// Messages and CPU time of the whole run. The time is that of so many messages at the rate that is told.
    fn summary(&self, sent_per_second: f64, received_per_second: f64) -> Value {
        let rate = if received_per_second > 0.0 { received_per_second } else { sent_per_second };
        let messages = self.limit.unwrap_or(rate * self.seconds);
        let seconds = if rate > 0.0 { messages / rate } else { self.seconds };
        let counts = |per_second: f64| (per_second > 0.0).then_some(per_second * seconds);
        let after = self.pid.and_then(perf::process::usage);
        let broker = after.zip(self.before).map(|(after, before)| {
            json!({
                "cpu_seconds": after.cpu_s - before.cpu_s,
                "rss_bytes": after.rss_bytes,
                "rss_max_bytes": after.rss_bytes,
                "written_bytes": after.written_bytes.zip(before.written_bytes).map(|(a, b)| a - b),
            })
        });
        json!({
            "type": "summary",
            "seconds": seconds,
            "messages": messages,
            "sent": counts(sent_per_second),
            "received": counts(received_per_second),
            "broker": broker,
        })
    }
}

/// The latencies that come just after these words, in microseconds: median, 75th, 95th and 99th percentile
/// last, then the unit.
fn latency_after(line: &str, words: &str) -> Option<Value> {
    let (_, rest) = line.split_once(words)?;
    let (numbers, rest) = rest.split_once(' ')?;
    let us = match rest.split_once(',').map_or(rest, |(unit, _)| unit) {
        "µs" => 1.0,
        "ms" => 1e3,
        _ => return None,
    };
    let numbers: Option<Vec<f64>> = numbers.split('/').map(|it| it.parse().ok()).collect();
    let numbers = numbers?;
    // Zero is of lines without a message.
    let (median, p99) = (numbers.iter().rev().nth(3)?, numbers.last().filter(|p99| **p99 > 0.0)?);
    Some(json!({ "median": median * us, "p99": p99 * us }))
}

/// The number that comes just after these words.
fn number_after(line: &str, words: &str) -> Option<f64> {
    let (_, rest) = line.split_once(words)?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(options: &str) -> Output {
        Output::of(&Load::new(options), None)
    }

    #[test]
    fn perf_test_tells_intervals_and_two_averages() {
        let mut output = output("--consumers 1 --cmessages 1000");
        assert_eq!(output.line("id: test-151518-628, starting consumer #0"), None);
        let line = "id: test-151518-628, time 2.001 s, sent: 7 msg/s, received: 57160 msg/s, \
            min/median/75th/95th/99th consumer latency: 1/2/3/4/5 µs, confirm latency: 1/6/7/8/9 ms";
        let interval = output.line(line).unwrap();
        assert_eq!(interval["consumer_latency_us"], json!({"median": 2.0, "p99": 5.0}));
        assert_eq!(interval["confirm_latency_us"], json!({"median": 6000.0, "p99": 9000.0}));
        assert_eq!(interval["seconds"], 2.001);
        assert_eq!(interval["sent_per_second"], 7.0);
        assert_eq!(interval["received_per_second"], 57160.0);
        assert_eq!(output.line("id: test-151518-628, sending rate avg: 0 msg/s"), None);
        let summary = output.line("id: test-151518-628, receiving rate avg: 500 msg/s").unwrap();
        assert_eq!(summary["messages"], 1000.0);
        assert_eq!(summary["seconds"], 2.0);
        assert_eq!(summary["received"], 1000.0);
        assert_eq!(summary["sent"], Value::Null);
    }

    #[test]
    fn stream_perf_test_tells_intervals_and_a_summary() {
        let mut output = output("stream --producers 1 --no-latency");
        let line = "12, published 100 msg/s, confirmed 90 msg/s, consumed 80 msg/s, latency \
            median/75th/95th/99th 1/2/3/4 ms, chunk size 16";
        let interval = output.line(line).unwrap();
        assert_eq!(interval["consumer_latency_us"], json!({"median": 1000.0, "p99": 4000.0}));
        assert_eq!(interval["confirm_latency_us"], Value::Null);
        assert_eq!(interval["seconds"], 12.0);
        assert_eq!(interval["received_per_second"], 80.0);
        let line = "Summary: published 50 msg/s, confirmed 50 msg/s, consumed 40 msg/s, latency";
        let summary = output.line(line).unwrap();
        assert_eq!(summary["messages"], 480.0);
        assert_eq!(summary["sent"], 600.0);
        assert_eq!(summary["broker"], Value::Null);
    }

    #[test]
    fn each_kind_of_load_has_its_own_tool() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let tools =
            ExternalTools { perf_test: words("java -jar perf-test.jar"), ..Default::default() };
        let load = Load::new("stream --streams s --no-latency");
        assert_eq!(tools.command(&load), None);
        assert_eq!(options(&load).collect::<Vec<_>>(), ["--streams", "s"]);
        let (program, words) = tools.command(&Load::new("-x 1")).unwrap();
        assert_eq!((program.as_str(), words.len()), ("java", 2));
    }
}
