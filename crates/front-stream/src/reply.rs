//! The broker's words for what went wrong, as response codes.

use session::{ErrorKind, MethodTag, StreamRefusal};
use streamproto::{Key, ResponseCode};

/// The code of a refused request.
pub(crate) const fn refusal_code(why: StreamRefusal) -> ResponseCode {
    match why {
        StreamRefusal::StreamDoesNotExist => ResponseCode::STREAM_DOES_NOT_EXIST,
        StreamRefusal::SubscriptionIdAlreadyExists => ResponseCode::SUBSCRIPTION_ID_ALREADY_EXISTS,
        StreamRefusal::SubscriptionIdDoesNotExist => ResponseCode::SUBSCRIPTION_ID_DOES_NOT_EXIST,
        StreamRefusal::StreamAlreadyExists => ResponseCode::STREAM_ALREADY_EXISTS,
        StreamRefusal::StreamNotAvailable => ResponseCode::STREAM_NOT_AVAILABLE,
        StreamRefusal::InternalError => ResponseCode::INTERNAL_ERROR,
        StreamRefusal::AccessRefused => ResponseCode::ACCESS_REFUSED,
        StreamRefusal::PreconditionFailed => ResponseCode::PRECONDITION_FAILED,
        StreamRefusal::PublisherDoesNotExist => ResponseCode::PUBLISHER_DOES_NOT_EXIST,
        StreamRefusal::NoOffset => ResponseCode::NO_OFFSET,
    }
}

/// The code of the close that a client is told; none where the connection ends without a word.
///
/// COMPAT: RabbitMQ says a close for bytes that are no commands alone. However else it ends a connection, it
/// closes the socket, and clients' libraries know what to do then; of a close of the server's some do not.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others end without a word")]
pub(crate) const fn close_code(kind: ErrorKind) -> Option<ResponseCode> {
    match kind {
        ErrorKind::FrameError => Some(ResponseCode::FRAME_TOO_LARGE),
        ErrorKind::SyntaxError
        | ErrorKind::CommandInvalid
        | ErrorKind::ChannelError
        | ErrorKind::UnexpectedFrame => Some(ResponseCode::UNKNOWN_FRAME),
        _ => None,
    }
}

/// A request as it is answered: its key, and the id that its client gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) key: Key,
    pub(crate) correlation_id: u32,
}

impl Asked {
    /// The tag for the way through the broker.
    pub(crate) const fn tag(self) -> MethodTag {
        MethodTag((self.key.code() as u64) << 32 | self.correlation_id as u64)
    }

    /// Takes a tag apart; `None` for one that no request of this protocol has.
    pub(crate) fn of(tag: MethodTag) -> Option<Self> {
        let [_, _, k0, k1, c0, c1, c2, c3] = tag.0.to_be_bytes();
        let key = Key::from_code(u16::from_be_bytes([k0, k1]))?;
        Some(Self { key, correlation_id: u32::from_be_bytes([c0, c1, c2, c3]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back_as_it_went() {
        for key in Key::ALL {
            let asked = Asked { key: *key, correlation_id: 0x8000_0001 };
            assert_eq!(Asked::of(asked.tag()), Some(asked));
        }
        assert_eq!(Asked::of(MethodTag::default()), None);
    }
}
