//! Constants of the protocol, the limits of what a peer can announce, and RabbitMQ's defaults.

/// The registered port.
pub const PORT: u16 = 5552;
/// The registered port with TLS.
pub const PORT_TLS: u16 = 5551;
/// Bytes of a frame's size, which the size does not count (clause "Frame Structure").
pub const FRAME_SIZE_BYTES: usize = 4;
/// The size of a frame until `open` has succeeded (clause "Authentication").
pub const INITIAL_FRAME_BYTES_MAX: u32 = 8192;
/// The `frame_max` RabbitMQ offers.
pub const FRAME_MAX_DEFAULT_BYTES: u32 = 1_048_576;
/// The largest frame where no `frame_max` was negotiated (0): RabbitMQ's largest message.
pub const UNLIMITED_FRAME_BYTES_MAX: u32 = 536_870_912;
/// The heartbeat interval RabbitMQ offers.
pub const HEARTBEAT_DEFAULT_SECS: u32 = 60;
/// The bit of a key that makes a response of it.
pub const RESPONSE_BIT: u16 = 0x8000;
/// The longest string: its length is an int16 (clause "Types").
pub const STRING_BYTES_MAX: usize = 0x7FFF;
/// The most elements of a list of strings, or of records with strings; RabbitMQ's limit is the frame.
pub const STRINGS_MAX: u32 = 16_384;
/// The longest `bytes`, and the longest message: their lengths have 31 bits.
pub const BYTES_MAX: usize = 0x7FFF_FFFF;
/// The longest name of a publisher or consumer. COMPAT: the reference says 256 characters, but the
/// length beside it in a chunk is one byte. Test: `a_tracking_reference_has_at_most_255_bytes`.
pub const REFERENCE_BYTES_MAX: usize = 255;
/// The largest sub-batch once it is decompressed that RabbitMQ takes.
pub const UNCOMPRESSED_BYTES_MAX_DEFAULT: u32 = 67_108_864;
/// Bytes of a chunk's header.
pub const CHUNK_HEADER_BYTES: usize = 48;
/// The most entries of one chunk.
pub const CHUNK_ENTRIES_MAX: usize = 0xFFFF;
/// The smallest filter a chunk has, if it has one.
pub const FILTER_BYTES_MIN: usize = 16;
/// The largest filter of a chunk.
pub const FILTER_BYTES_MAX: usize = 255;
/// The leader of a stream that has none, among the references of a metadata response.
pub const NO_BROKER: u16 = 0xFFFF;
