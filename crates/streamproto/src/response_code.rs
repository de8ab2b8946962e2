//! Response codes (clause "Response Codes").

use std::fmt;

/// The outcome of a request, the reason of a close, or what happened to a stream. Brokers may send
/// codes that this crate has no name for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResponseCode(pub u16);

macro_rules! response_codes {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        impl ResponseCode {
            $(
                #[doc = concat!($text, ".")]
                pub const $name: Self = Self($code);
            )*

            /// Every code that has a name.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name in the reference's words, such as `stream does not exist`.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

impl fmt::Display for ResponseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "code {:#04x}", self.0),
        }
    }
}

response_codes! {
    OK = 0x01, "OK";
    STREAM_DOES_NOT_EXIST = 0x02, "stream does not exist";
    SUBSCRIPTION_ID_ALREADY_EXISTS = 0x03, "subscription ID already exists";
    SUBSCRIPTION_ID_DOES_NOT_EXIST = 0x04, "subscription ID does not exist";
    STREAM_ALREADY_EXISTS = 0x05, "stream already exists";
    STREAM_NOT_AVAILABLE = 0x06, "stream not available";
    SASL_MECHANISM_NOT_SUPPORTED = 0x07, "SASL mechanism not supported";
    AUTHENTICATION_FAILURE = 0x08, "authentication failure";
    SASL_ERROR = 0x09, "SASL error";
    SASL_CHALLENGE = 0x0a, "SASL challenge";
    SASL_AUTHENTICATION_FAILURE_LOOPBACK = 0x0b, "SASL authentication failure loopback";
    VIRTUAL_HOST_ACCESS_FAILURE = 0x0c, "virtual host access failure";
    UNKNOWN_FRAME = 0x0d, "unknown frame";
    FRAME_TOO_LARGE = 0x0e, "frame too large";
    INTERNAL_ERROR = 0x0f, "internal error";
    ACCESS_REFUSED = 0x10, "access refused";
    PRECONDITION_FAILED = 0x11, "precondition failed";
    PUBLISHER_DOES_NOT_EXIST = 0x12, "publisher does not exist";
    NO_OFFSET = 0x13, "no offset";
    // COMPAT: the reference leaves these two out; RabbitMQ sends them when credentials are renewed.
    // Test: `response_codes_have_their_numbers_and_names`.
    SASL_CANNOT_CHANGE_MECHANISM = 0x14, "SASL mechanism cannot be changed";
    SASL_CANNOT_CHANGE_USERNAME = 0x15, "SASL username cannot be changed";
}
