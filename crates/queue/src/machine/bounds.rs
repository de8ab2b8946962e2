//! Limits of everything that clients control.

/// The highest priority.
pub const PRIORITY_MAX: u8 = 31;
/// The priority of a message without one.
pub const PRIORITY_DEFAULT: u8 = 4;
/// Messages that a consumer with a prefetch of 0 may hold.
pub const PREFETCH_UNLIMITED: u32 = 2_000;
/// Messages that a consumer with link credit and a prefetch of 0 may hold; it gets no more before it settles
/// some.
pub const LINK_UNSETTLED_MAX: u32 = 1 << 16;
/// Messages of one queue; more are refused.
pub const MESSAGES_MAX: u64 = 1 << 28;
/// Consumers of one queue, those that are cancelled and hold something among them; more are not attached.
pub const CONSUMERS_MAX: usize = 1 << 20;
/// Publishers whose numbers are kept; of more, those that put longest ago are forgotten.
pub const PUBLISHERS_MAX: u32 = 1 << 16;
/// The most that [`Settings::named_publishers_max`](super::Settings) may say; above that it counts as this.
pub const NAMED_PUBLISHERS_MAX: u32 = 1 << 20;
/// Bytes of publishers' names that one queue keeps, with [`NAMED_PUBLISHER_BYTES`] for each; of more, those
/// that put longest ago are forgotten. The machine is written as a whole while nobody uses its queue.
pub(super) const NAMED_PUBLISHERS_BYTES_MAX: usize = 32 << 20;
/// The memory that a named publisher takes beside its name, more or less.
pub(super) const NAMED_PUBLISHER_BYTES: usize = 128;
/// Bytes of a publisher's name.
pub const NAME_BYTES_MAX: usize = 256;
/// Runs of refused numbers that are kept of each publisher.
pub(super) const REFUSED_RUNS_MAX: usize = 64;
/// Bytes of the notes beside one message; longer ones are not kept.
pub const NOTE_BYTES_MAX: usize = 4 << 10;
/// Bytes of the notes that one queue keeps, with [`NOTE_OVERHEAD_BYTES`] for each message that has some;
/// further ones are not kept.
pub const NOTES_BYTES_MAX: usize = 16 << 20;
/// The memory that a message's notes take beside their bytes, more or less.
pub(super) const NOTE_OVERHEAD_BYTES: usize = 64;
/// Messages that expire, are too many, or have waited to be tried again, of one command; the rest follows
/// with the next [`Tick`](super::Command::Tick), which is due at once then.
pub const DUE_MAX: u64 = 1 << 13;
/// No position, number or count comes near this.
pub(super) const COUNTER_MAX: u64 = 1 << 62;
