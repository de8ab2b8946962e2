//! Constants of the protocol and the defaults RabbitMQ publishes.

/// The registered port.
pub const PORT: u16 = 5672;
/// The registered port with TLS.
pub const PORT_TLS: u16 = 5671;
/// The last octet of every frame.
pub const FRAME_END: u8 = 0xCE;
/// Octets in front of a frame's payload: kind, channel, payload size.
pub const FRAME_HEADER_BYTES: usize = 7;
/// Octets of a frame that are not payload.
pub const FRAME_OVERHEAD_BYTES: u32 = 8;
/// COMPAT: the smallest `frame_max` RabbitMQ negotiates, and its limit before tune-ok
/// (the specification says 4096).
pub const FRAME_MIN_BYTES: u32 = 8192;
/// The `frame_max` RabbitMQ offers.
pub const FRAME_MAX_DEFAULT_BYTES: u32 = 131_072;
/// The largest payload where no `frame_max` was negotiated (0): RabbitMQ's largest message.
pub const UNLIMITED_PAYLOAD_BYTES_MAX: u32 = 536_870_912;
/// The number of channels per connection RabbitMQ offers.
pub const CHANNEL_MAX_DEFAULT: u16 = 2047;
/// The heartbeat interval RabbitMQ offers.
pub const HEARTBEAT_DEFAULT_SECS: u16 = 60;
/// The class of every method that carries content, and of content headers.
pub const CLASS_BASIC: u16 = 60;
/// A message that is to survive a restart.
pub const DELIVERY_MODE_PERSISTENT: u8 = 2;
