//! Metrics: names, units, words, and which direction is good.

use serde::{Deserialize, Serialize};

/// Declares the metrics, a row each: variant, unit, the reason why a row that was measured may have none of
/// it, then its words: those on a button, and those within a sentence.
macro_rules! metrics {
    ($($(#[$doc:meta])* $name:ident: $unit:ident, $absent:ident, $button:literal, $noun:literal;)*) => {
        /// Something measured. Its name in JSON is the variant's in snake case.
        #[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Metric {
            $($(#[$doc])* $name,)*
        }

        impl Metric {
            /// All of them, in the order a table shows them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The unit of its values. A report may scale them: `12.3 M/s`, `1.5 ms`.
            pub const fn unit(self) -> Unit {
                match self { $(Self::$name => Unit::$unit,)* }
            }

            /// The reason why a row that was measured has no value of it.
            pub(crate) const fn absent(self) -> &'static str {
                match self { $(Self::$name => $absent,)* }
            }

            /// On a button.
            pub(crate) const fn button(self) -> &'static str {
                match self { $(Self::$name => $button,)* }
            }

            /// Within a sentence and beside an axis.
            pub(crate) const fn noun(self) -> &'static str {
                match self { $(Self::$name => $noun,)* }
            }
        }
    };
}

const NO_CPU_TIME: &str = "CPU time unknown, or below 50 ms";
const NO_PROCESS: &str = "no process on this machine";
const NO_CONSUMER: &str = "nothing is consumed";
const NO_BYSTANDER: &str = "no bystander";
const UNCOUNTABLE: &str = "not to be counted on this machine, or of a load that ends";
const NO_CONFIRMS: &str = "nothing is confirmed";
const NO_PUBLISHER: &str = "nothing is published";
const NO_OPERATIONS: &str = "no operations";
const NO_CHUNKS: &str = "no chunks are delivered";
const UNCOUNTED: &str = "not counted by the broker, or nothing read";
const NO_REFERENCE: &str = "nothing to compare it with";
const NOT_MEASURED: &str = "not measured";

#[rustfmt::skip]
metrics! {
    /// Messages per second; one that is published and delivered counts once.
    Rate: PerSecond, NOT_MEASURED, "per second", "messages per second";
    /// Messages published per second.
    SendRate: PerSecond, NO_PUBLISHER, "published/s", "published messages per second";
    /// Messages delivered per second.
    ReceiveRate: PerSecond, NO_CONSUMER, "delivered/s", "delivered messages per second";
    /// Bytes of bodies per second, counted as in [`Self::Rate`].
    ByteRate: BytesPerSecond, NOT_MEASURED, "bytes/s", "bytes per second";
    /// Messages per second of the broker's CPU time.
    PerCpuSecond: PerCpuSecond, NO_CPU_TIME, "per CPU-second", "messages per CPU-second";
    /// Microseconds of the broker's CPU time per message.
    CpuPerMessage: Microseconds, NO_CPU_TIME, "CPU per message", "CPU time per message";
    /// The broker's memory at the end, bytes.
    Memory: Bytes, NO_PROCESS, "memory", "memory";
    /// The most memory the broker held meanwhile, bytes.
    MemoryPeak: Bytes, NO_PROCESS, "peak memory", "peak memory";
    /// Bytes of the broker's memory per thing that was made.
    MemoryEach: Bytes, NO_PROCESS, "memory each", "memory each";
    /// Bytes the broker gave to the disk per message.
    WrittenEach: Bytes, NO_PROCESS, "disk per message", "bytes written to disk per message";
    /// Microseconds from publisher to consumer: the mean.
    LatencyMean: Microseconds, NO_CONSUMER, "mean latency", "mean latency";
    /// The same, the median.
    LatencyMedian: Microseconds, NO_CONSUMER, "latency", "median latency";
    /// The same, 99th percentile.
    LatencyP99: Microseconds, NO_CONSUMER, "latency 99 %", "99th percentile latency";
    /// The same, 99.9th percentile.
    LatencyP999: Microseconds, NO_CONSUMER, "latency 99.9 %", "99.9th percentile latency";
    /// The same, the longest.
    LatencyMax: Microseconds, NO_CONSUMER, "longest latency", "longest latency";
    /// Microseconds from publish to confirm: the mean.
    ConfirmMean: Microseconds, NO_CONFIRMS, "mean confirm latency", "mean confirm latency";
    /// The same, the median.
    ConfirmMedian: Microseconds, NO_CONFIRMS, "confirm latency", "median confirm latency";
    /// The same, 99th percentile.
    ConfirmP99: Microseconds, NO_CONFIRMS, "confirm latency 99 %", "99th percentile confirm latency";
    /// Latency of somebody who sends little meanwhile, 99th percentile.
    BystanderP99: Microseconds, NO_BYSTANDER, "bystander 99 %", "99th percentile latency of the bystander";
    /// The same, the longest.
    BystanderMax: Microseconds, NO_BYSTANDER, "bystander longest", "longest latency of the bystander";
    /// Context switches of the broker's threads per message, voluntary or not.
    SwitchesPerMessage: Count, UNCOUNTABLE, "switches", "context switches per message";
    /// System calls of the broker per message.
    CallsPerMessage: Count, UNCOUNTABLE, "system calls", "system calls per message";
    /// Things done per second: connections opened, queues declared.
    OperationRate: PerSecond, NO_OPERATIONS, "operations/s", "operations per second";
    /// Microseconds such a thing takes: the median.
    OperationMedian: Microseconds, NO_OPERATIONS, "operation time", "median time per operation";
    /// The same, 99th percentile.
    OperationP99: Microseconds, NO_OPERATIONS, "operation time 99 %", "99th percentile time per operation";
    /// Microseconds of the broker's CPU time per such thing.
    CpuPerOperation: Microseconds, NO_CPU_TIME, "CPU per operation", "CPU time per operation";
    /// The longest time in which nothing moved, seconds.
    LongestPause: Seconds, NOT_MEASURED, "longest pause", "longest pause";
    /// Duration, seconds.
    Duration: Seconds, NOT_MEASURED, "duration", "duration";
    /// Messages of a stream's chunk that was delivered: the mean.
    ChunkSize: Count, NO_CHUNKS, "chunk size", "messages per chunk";
    /// Writes of the broker to sockets, by its own count, as the next four.
    SocketWrites: Count, UNCOUNTED, "socket writes", "writes to sockets";
    /// Reads of the files of streams.
    FileReads: Count, UNCOUNTED, "file reads", "reads of streams' files";
    /// Bytes they brought.
    FileReadBytes: Bytes, UNCOUNTED, "bytes read", "bytes read of streams' files";
    /// Chunks that consumers were given by such a read: the mean.
    ChunksPerRead: Count, UNCOUNTED, "chunks per read", "chunks per read";
    /// Chunks that came with a read for an earlier one.
    ChunksReadAhead: Count, UNCOUNTED, "read ahead", "chunks read ahead";
    /// The row's first metric divided by that of the row it is relative to, on the same column.
    Relative: Times, NO_REFERENCE, "relative", "share of the reference row's rate";
    /// The row's first metric divided by that of the column that is the scenario's base.
    Gain: Times, NO_REFERENCE, "gain", "times what the base has";
}

impl Metric {
    /// Whether more is better, for colours and aims.
    pub fn is_higher_better(self) -> bool {
        if matches!(self, Self::SwitchesPerMessage | Self::CallsPerMessage) {
            return false;
        }
        match self.unit() {
            Unit::PerSecond | Unit::BytesPerSecond | Unit::PerCpuSecond => true,
            Unit::Count | Unit::Times => true,
            Unit::Microseconds | Unit::Bytes | Unit::Seconds => false,
        }
    }
}

/// The unit of a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// Per second of CPU time.
    PerCpuSecond,
    /// Microseconds.
    Microseconds,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A number.
    Count,
    /// A factor.
    Times,
}
