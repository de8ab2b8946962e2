//! Pulses: how a node is, and what it has heard of its peer.

use crate::kinds::{FrameKind, KindRow};
use stdx::UnixMs;
use stdx::record::{Reader, RecordError, put_u8, put_u16, put_u32, put_u64};

/// A node sends a pulse to each peer so often.
pub const PULSE_INTERVAL_MS: u64 = 200;
/// The frames of a connection of pulses.
pub const PULSE_ROWS: &[KindRow] =
    &[KindRow { kind: FrameKind::PULSE, level: 0, bytes_max: PULSE_BYTES_MAX }];
/// The bytes of a pulse at most, with what newer levels add at the end.
const PULSE_BYTES_MAX: u32 = 1_024;

/// The alarms of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PulseAlarms {
    /// The node uses more memory than it may.
    pub memory: bool,
    /// The node has less space on its disk than it needs.
    pub disk: bool,
}

/// A pulse, from one node to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// The life of the sender.
    pub boot: u32,
    /// The number of this pulse, above those of all pulses before, also in earlier lives.
    pub sequence: u64,
    /// The newest pulse that the sender has heard of the receiver; 0 for none.
    pub heard: u64,
    /// Bytes that the sender has read from the receiver's connection `raft`, and from `work`.
    pub received: [u64; 2],
    /// The sender's alarms.
    pub alarms: PulseAlarms,
    /// The age of the oldest byte in the sender's log that is not synced.
    pub unsynced_age_ms: u32,
    /// The sender's time of day.
    pub clock: UnixMs,
    /// The highest level of the cluster that the sender supports.
    pub level: u16,
    /// Queues that the sender leads, for who places new ones.
    pub load: u32,
}

impl Pulse {
    /// Appends the body of the pulse's frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_u32(out, self.boot);
        put_u64(out, self.sequence);
        put_u64(out, self.heard);
        self.received.iter().for_each(|n_bytes| put_u64(out, *n_bytes));
        put_u8(out, u8::from(self.alarms.memory) | u8::from(self.alarms.disk) << 1);
        put_u32(out, self.unsynced_age_ms);
        put_u64(out, self.clock.get());
        put_u16(out, self.level);
        put_u32(out, self.load);
    }

    /// Reads the body of a pulse's frame. Fields that newer levels add at the end are left out.
    ///
    /// # Errors
    /// The body is too short.
    pub fn decode(body: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(body);
        let boot = reader.u32()?;
        let [sequence, heard] = [reader.u64()?, reader.u64()?];
        let received = [reader.u64()?, reader.u64()?];
        let alarms = reader.u8()?;
        let alarms = PulseAlarms { memory: alarms & 1 != 0, disk: alarms & 2 != 0 };
        let unsynced_age_ms = reader.u32()?;
        let clock = UnixMs::from_raw(reader.u64()?);
        let (level, load) = (reader.u16()?, reader.u32()?);
        Ok(Self { boot, sequence, heard, received, alarms, unsynced_age_ms, clock, level, load })
    }
}
