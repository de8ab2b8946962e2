//! Keys: which command a frame is (clause "Commands").

/// The number of a command, without the bit of responses.
macro_rules! keys {
    ($($code:literal $name:ident $version_max:literal)*) => {
        /// The commands there are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Key {
            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                $name = $code,
            )*
        }

        impl Key {
            /// Every key there is.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The key of a number without the bit of responses.
            #[must_use]
            pub const fn from_code(code: u16) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The name in the reference's spelling, such as `DeclarePublisher`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The highest version this crate knows; the lowest is 1.
            pub const fn version_max(self) -> u16 {
                match self {
                    $(Self::$name => $version_max,)*
                }
            }
        }
    };
}

impl Key {
    /// The number on the wire, of requests and commands without answer.
    pub const fn code(self) -> u16 {
        self as u16
    }
}

keys! {
    0x0001 DeclarePublisher 1
    0x0002 Publish 2
    0x0003 PublishConfirm 1
    0x0004 PublishError 1
    0x0005 QueryPublisherSequence 1
    0x0006 DeletePublisher 1
    0x0007 Subscribe 1
    0x0008 Deliver 2
    0x0009 Credit 1
    0x000a StoreOffset 1
    0x000b QueryOffset 1
    0x000c Unsubscribe 1
    0x000d Create 1
    0x000e Delete 1
    0x000f Metadata 1
    0x0010 MetadataUpdate 1
    0x0011 PeerProperties 1
    0x0012 SaslHandshake 1
    0x0013 SaslAuthenticate 1
    0x0014 Tune 1
    0x0015 Open 1
    0x0016 Close 1
    0x0017 Heartbeat 1
    0x0018 Route 1
    0x0019 Partitions 1
    0x001a ConsumerUpdate 1
    0x001b ExchangeCommandVersions 1
    0x001c StreamStats 1
    0x001d CreateSuperStream 1
    0x001e DeleteSuperStream 1
    0x001f ResolveOffsetSpec 1
}
