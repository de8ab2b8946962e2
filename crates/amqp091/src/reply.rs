//! Reply codes of close and return.

macro_rules! reply_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal, $hard:literal;)*) => {
        /// The reply codes: reasons for closing a channel or connection or returning a message (0-9-1
        /// 1.2).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum ReplyCode {
            $($(#[$doc])* $name = $code,)*
        }

        impl ReplyCode {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The number on the wire.
            pub const fn code(self) -> u16 {
                self as u16
            }

            /// The name reply texts begin with.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// Whether the error closes the whole connection, not just the channel.
            pub const fn is_hard(self) -> bool {
                match self {
                    $(Self::$name => $hard,)*
                }
            }
        }
    };
}

reply_codes! {
    /// The request succeeded.
    ReplySuccess = 200, "REPLY_SUCCESS", false;
    /// The message is too large to be accepted now.
    ContentTooLarge = 311, "CONTENT_TOO_LARGE", false;
    /// The message could not be routed.
    NoRoute = 312, "NO_ROUTE", false;
    /// No consumer can take the immediate message.
    NoConsumers = 313, "NO_CONSUMERS", false;
    /// An operator closes the connection.
    ConnectionForced = 320, "CONNECTION_FORCED", true;
    /// The virtual host is unknown.
    InvalidPath = 402, "INVALID_PATH", true;
    /// The user lacks a permission.
    AccessRefused = 403, "ACCESS_REFUSED", false;
    /// The object does not exist.
    NotFound = 404, "NOT_FOUND", false;
    /// The object is held by another client.
    ResourceLocked = 405, "RESOURCE_LOCKED", false;
    /// The request contradicts the state of the object.
    PreconditionFailed = 406, "PRECONDITION_FAILED", false;
    /// A frame cannot be decoded.
    FrameError = 501, "FRAME_ERROR", true;
    /// A field is outside its domain.
    SyntaxError = 502, "SYNTAX_ERROR", true;
    /// The method is wrong in the present state.
    CommandInvalid = 503, "COMMAND_INVALID", true;
    /// The channel is not open, or open already.
    ChannelError = 504, "CHANNEL_ERROR", true;
    /// A frame came where another was expected.
    UnexpectedFrame = 505, "UNEXPECTED_FRAME", true;
    /// The server lacks resources.
    ResourceError = 506, "RESOURCE_ERROR", true;
    /// The request is forbidden by a rule of the server.
    NotAllowed = 530, "NOT_ALLOWED", true;
    /// The server does not know the method.
    NotImplemented = 540, "NOT_IMPLEMENTED", true;
    /// The server failed.
    InternalError = 541, "INTERNAL_ERROR", true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_names_and_severity() {
        assert_eq!(ReplyCode::PreconditionFailed.name(), "PRECONDITION_FAILED");
        let soft: Vec<u16> =
            ReplyCode::ALL.iter().filter(|code| !code.is_hard()).map(|code| code.code()).collect();
        assert_eq!(soft, [200, 311, 312, 313, 403, 404, 405, 406]);
    }
}
