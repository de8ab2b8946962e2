//! Metrics: names, units, and which direction is good.

use serde::{Deserialize, Serialize};

use super::Point;

/// Something measured. Its name in JSON is the variant's in snake case.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Messages per second; one that is published and delivered counts once.
    Rate,
    /// Messages published per second.
    SendRate,
    /// Messages delivered per second.
    ReceiveRate,
    /// Bytes of bodies per second, counted as in [`Self::Rate`].
    ByteRate,
    /// Messages per second of the broker's CPU time.
    PerCpuSecond,
    /// Microseconds of the broker's CPU time per message.
    CpuPerMessage,
    /// The broker's memory at the end, bytes.
    Memory,
    /// The most memory the broker held meanwhile, bytes.
    MemoryPeak,
    /// Bytes of the broker's memory per thing that was made.
    MemoryEach,
    /// Bytes the broker gave to the disk per message.
    WrittenEach,
    /// Microseconds from publisher to consumer: the mean.
    LatencyMean,
    /// The same, the median.
    LatencyMedian,
    /// The same, 99th percentile.
    LatencyP99,
    /// The same, 99.9th percentile.
    LatencyP999,
    /// The same, the longest.
    LatencyMax,
    /// Microseconds from publish to confirm: the mean.
    ConfirmMean,
    /// The same, the median.
    ConfirmMedian,
    /// The same, 99th percentile.
    ConfirmP99,
    /// Latency of somebody who sends little meanwhile, 99th percentile.
    BystanderP99,
    /// The same, the longest.
    BystanderMax,
    /// Context switches of the broker's threads per message, voluntary or not.
    SwitchesPerMessage,
    /// System calls of the broker per message.
    CallsPerMessage,
    /// Things done per second: connections opened, queues declared.
    OperationRate,
    /// Microseconds such a thing takes: the median.
    OperationMedian,
    /// The same, 99th percentile.
    OperationP99,
    /// Microseconds of the broker's CPU time per such thing.
    CpuPerOperation,
    /// The longest time in which nothing moved, seconds.
    LongestPause,
    /// Duration, seconds.
    Duration,
    /// Messages of a stream's chunk that was delivered: the mean.
    ChunkSize,
    /// Writes of the broker to sockets, by its own count, as the next four.
    SocketWrites,
    /// Reads of the files of streams.
    FileReads,
    /// Bytes they brought.
    FileReadBytes,
    /// Chunks that consumers were given by such a read: the mean.
    ChunksPerRead,
    /// Chunks that came with a read for an earlier one.
    ChunksReadAhead,
    /// The row's first metric divided by that of the row it is relative to, on the same column.
    Relative,
    /// The row's first metric divided by that of the column that is the scenario's base.
    Gain,
}

impl Metric {
    /// All of them, in the order a table shows them.
    pub const ALL: [Self; 36] = [
        Self::Rate,
        Self::SendRate,
        Self::ReceiveRate,
        Self::ByteRate,
        Self::PerCpuSecond,
        Self::CpuPerMessage,
        Self::Memory,
        Self::MemoryPeak,
        Self::MemoryEach,
        Self::WrittenEach,
        Self::LatencyMean,
        Self::LatencyMedian,
        Self::LatencyP99,
        Self::LatencyP999,
        Self::LatencyMax,
        Self::ConfirmMean,
        Self::ConfirmMedian,
        Self::ConfirmP99,
        Self::BystanderP99,
        Self::BystanderMax,
        Self::SwitchesPerMessage,
        Self::CallsPerMessage,
        Self::OperationRate,
        Self::OperationMedian,
        Self::OperationP99,
        Self::CpuPerOperation,
        Self::LongestPause,
        Self::Duration,
        Self::ChunkSize,
        Self::SocketWrites,
        Self::FileReads,
        Self::FileReadBytes,
        Self::ChunksPerRead,
        Self::ChunksReadAhead,
        Self::Relative,
        Self::Gain,
    ];

    /// For headings and axes, without the unit.
    pub fn title(self) -> &'static str {
        match self {
            Self::Rate => "messages",
            Self::SendRate => "published",
            Self::ReceiveRate => "delivered",
            Self::ByteRate => "bytes",
            Self::PerCpuSecond => "messages per CPU-second",
            Self::CpuPerMessage => "CPU per message",
            Self::Memory => "memory",
            Self::MemoryPeak => "most memory",
            Self::MemoryEach => "memory each",
            Self::WrittenEach => "written to disk per message",
            Self::LatencyMean => "latency, mean",
            Self::LatencyMedian => "latency, median",
            Self::LatencyP99 => "latency, 99 %",
            Self::LatencyP999 => "latency, 99.9 %",
            Self::LatencyMax => "latency, longest",
            Self::ConfirmMean => "confirm latency, mean",
            Self::ConfirmMedian => "confirm latency, median",
            Self::ConfirmP99 => "confirm latency, 99 %",
            Self::BystanderP99 => "bystander, 99 %",
            Self::BystanderMax => "bystander, longest",
            Self::SwitchesPerMessage => "context switches per message",
            Self::CallsPerMessage => "system calls per message",
            Self::OperationRate => "operations",
            Self::OperationMedian => "operation, median",
            Self::OperationP99 => "operation, 99 %",
            Self::CpuPerOperation => "CPU per operation",
            Self::LongestPause => "longest pause",
            Self::Duration => "duration",
            Self::ChunkSize => "messages per chunk",
            Self::SocketWrites => "writes to sockets",
            Self::FileReads => "reads of files",
            Self::FileReadBytes => "read from files",
            Self::ChunksPerRead => "chunks per read",
            Self::ChunksReadAhead => "chunks read ahead",
            Self::Relative => "relative",
            Self::Gain => "gain",
        }
    }

    /// The unit of its values. A report may scale them: `12.3 M/s`, `1.5 ms`.
    pub fn unit(self) -> Unit {
        match self {
            Self::Rate | Self::SendRate | Self::ReceiveRate | Self::OperationRate => {
                Unit::PerSecond
            }
            Self::ByteRate => Unit::BytesPerSecond,
            Self::PerCpuSecond => Unit::PerCpuSecond,
            Self::CpuPerMessage
            | Self::LatencyMean
            | Self::LatencyMedian
            | Self::LatencyP99
            | Self::LatencyP999
            | Self::LatencyMax
            | Self::ConfirmMean
            | Self::ConfirmMedian
            | Self::ConfirmP99
            | Self::BystanderP99
            | Self::BystanderMax
            | Self::OperationMedian
            | Self::OperationP99
            | Self::CpuPerOperation => Unit::Microseconds,
            Self::Memory
            | Self::MemoryPeak
            | Self::MemoryEach
            | Self::WrittenEach
            | Self::FileReadBytes => Unit::Bytes,
            Self::LongestPause | Self::Duration => Unit::Seconds,
            Self::SwitchesPerMessage
            | Self::CallsPerMessage
            | Self::ChunkSize
            | Self::SocketWrites
            | Self::FileReads
            | Self::ChunksPerRead
            | Self::ChunksReadAhead => Unit::Count,
            Self::Relative | Self::Gain => Unit::Times,
        }
    }

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

    /// The part of a series that shows this metric over time, if there is one.
    pub fn of_point(self, point: &Point) -> Option<f64> {
        match self {
            Self::Rate => point.received_per_second.or(point.sent_per_second),
            Self::SendRate => point.sent_per_second,
            Self::ReceiveRate => point.received_per_second,
            Self::LatencyMean => point.latency_mean_us,
            Self::LatencyMedian => point.latency_us,
            Self::ConfirmMean => point.confirm_latency_mean_us,
            Self::ConfirmMedian => point.confirm_latency_us,
            Self::Memory | Self::MemoryPeak => point.rss_bytes,
            Self::ByteRate
            | Self::PerCpuSecond
            | Self::CpuPerMessage
            | Self::MemoryEach
            | Self::WrittenEach
            | Self::LatencyP99
            | Self::LatencyP999
            | Self::LatencyMax
            | Self::ConfirmP99
            | Self::BystanderP99
            | Self::BystanderMax
            | Self::SwitchesPerMessage
            | Self::CallsPerMessage
            | Self::OperationRate
            | Self::OperationMedian
            | Self::OperationP99
            | Self::CpuPerOperation
            | Self::LongestPause
            | Self::Duration
            | Self::ChunkSize
            | Self::SocketWrites
            | Self::FileReads
            | Self::FileReadBytes
            | Self::ChunksPerRead
            | Self::ChunksReadAhead
            | Self::Relative
            | Self::Gain => None,
        }
    }
}

/// The unit of a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
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
