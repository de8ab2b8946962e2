//! Refusals on the wire: the one place where they get their reply codes and texts.

use amqp091::{MethodId, ReplyCode, WireError};
use session::{Error, ErrorKind, MethodTag};

/// The code that goes with a kind of refusal.
pub(crate) const fn reply_code(kind: ErrorKind) -> ReplyCode {
    match kind {
        ErrorKind::ContentTooLarge => ReplyCode::ContentTooLarge,
        ErrorKind::AccessRefused | ErrorKind::ExclusiveUse | ErrorKind::InternalExchange => {
            ReplyCode::AccessRefused
        }
        ErrorKind::NotFound => ReplyCode::NotFound,
        ErrorKind::ResourceLocked => ReplyCode::ResourceLocked,
        ErrorKind::PreconditionFailed
        | ErrorKind::UnknownType
        | ErrorKind::ForeignUserId
        | ErrorKind::QueueLimit => ReplyCode::PreconditionFailed,
        ErrorKind::ConnectionForced => ReplyCode::ConnectionForced,
        ErrorKind::InvalidPath => ReplyCode::InvalidPath,
        ErrorKind::FrameError => ReplyCode::FrameError,
        ErrorKind::SyntaxError => ReplyCode::SyntaxError,
        ErrorKind::CommandInvalid => ReplyCode::CommandInvalid,
        ErrorKind::ChannelError => ReplyCode::ChannelError,
        ErrorKind::UnexpectedFrame => ReplyCode::UnexpectedFrame,
        ErrorKind::ResourceError => ReplyCode::ResourceError,
        ErrorKind::NotAllowed
        | ErrorKind::VhostNotFound
        | ErrorKind::VhostRefused
        | ErrorKind::LimitReached => ReplyCode::NotAllowed,
        ErrorKind::NotImplemented | ErrorKind::NotImplementedByMode => ReplyCode::NotImplemented,
        ErrorKind::InternalError => ReplyCode::InternalError,
    }
}

/// The text clients look for: `NAME - explanation`. The encoder cuts it at 255 bytes.
pub(crate) fn reply_text(error: &Error) -> String {
    format!("{} - {}", reply_code(error.kind).name(), error.text)
}

/// The error for bytes that cannot be decoded.
#[expect(clippy::wildcard_enum_match_arm, reason = "bytes have no other codes")]
pub(crate) fn wire_refusal(error: WireError) -> Error {
    let kind = match error.reply_code() {
        ReplyCode::FrameError => ErrorKind::FrameError,
        ReplyCode::SyntaxError => ErrorKind::SyntaxError,
        ReplyCode::UnexpectedFrame => ErrorKind::UnexpectedFrame,
        ReplyCode::NotImplemented => ErrorKind::NotImplemented,
        _ => ErrorKind::InternalError,
    };
    Error::new(kind, error.to_string())
}

/// Packs a method's numbers for the way through the broker.
pub(crate) const fn origin(method: MethodId) -> MethodTag {
    MethodTag(((method.class as u64) << 16) | method.method as u64)
}

/// The way back; the numbers of the default origin are 0 and 0.
pub(crate) fn method_of(origin: MethodTag) -> MethodId {
    let [.., c0, c1, m0, m1] = origin.0.to_be_bytes();
    MethodId { class: u16::from_be_bytes([c0, c1]), method: u16::from_be_bytes([m0, m1]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_code_and_severity() {
        let table = [
            (ErrorKind::ContentTooLarge, 311),
            (ErrorKind::AccessRefused, 403),
            (ErrorKind::NotFound, 404),
            (ErrorKind::ResourceLocked, 405),
            (ErrorKind::PreconditionFailed, 406),
            (ErrorKind::InternalExchange, 403),
            (ErrorKind::ExclusiveUse, 403),
            (ErrorKind::UnknownType, 406),
            (ErrorKind::ForeignUserId, 406),
            (ErrorKind::QueueLimit, 406),
            (ErrorKind::VhostNotFound, 530),
            (ErrorKind::VhostRefused, 530),
            (ErrorKind::LimitReached, 530),
            (ErrorKind::ConnectionForced, 320),
            (ErrorKind::InvalidPath, 402),
            (ErrorKind::FrameError, 501),
            (ErrorKind::SyntaxError, 502),
            (ErrorKind::CommandInvalid, 503),
            (ErrorKind::ChannelError, 504),
            (ErrorKind::UnexpectedFrame, 505),
            (ErrorKind::ResourceError, 506),
            (ErrorKind::NotAllowed, 530),
            (ErrorKind::NotImplemented, 540),
            (ErrorKind::InternalError, 541),
        ];
        for (kind, code) in table {
            assert_eq!(reply_code(kind).code(), code);
            assert_eq!(reply_code(kind).is_hard(), kind.closes_connection(), "{kind:?}");
        }
        // Refusals by a queue's mode do not end the connection.
        assert_eq!(reply_code(ErrorKind::NotImplementedByMode).code(), 540);
        assert!(!ErrorKind::NotImplementedByMode.closes_connection());
    }

    #[test]
    fn texts_begin_with_the_codes_name() {
        let error = Error::new(ErrorKind::NotFound, "no queue 'x' in vhost '/'");
        assert_eq!(reply_text(&error), "NOT_FOUND - no queue 'x' in vhost '/'");
    }

    #[test]
    fn malformed_bytes_keep_the_codecs_code() {
        let unknown = WireError::UnknownMethod(MethodId { class: 60, method: 99 });
        assert_eq!(wire_refusal(unknown).kind, ErrorKind::NotImplemented);
        assert_eq!(wire_refusal(WireError::ShortPayload).kind, ErrorKind::FrameError);
        assert_eq!(wire_refusal(WireError::ContentWeight).kind, ErrorKind::UnexpectedFrame);
    }

    #[test]
    fn origins_come_back() {
        for &method in MethodId::ALL {
            assert_eq!(method_of(origin(method)), method);
        }
    }
}
