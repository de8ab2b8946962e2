//! Which commands go in which direction.
//!
//! A server decodes [`ToServer`], a client [`ToClient`]: a command in the wrong direction is as
//! unknown as one that does not exist.

use crate::command::{
    Close, Command, ConsumerUpdate, ConsumerUpdateResponse, Create, CreateSuperStream, Credit,
    CreditResponse, DeclarePublisher, Delete, DeletePublisher, DeleteSuperStream, Deliver,
    DeliverV2, ExchangeCommandVersions, ExchangeCommandVersionsResponse, Heartbeat, Metadata,
    MetadataResponse, MetadataUpdate, Open, OpenResponse, Partitions, PartitionsResponse,
    PeerProperties, PeerPropertiesResponse, Publish, PublishConfirm, PublishError, PublishV2,
    QueryOffset, QueryOffsetResponse, QueryPublisherSequence, QueryPublisherSequenceResponse,
    ResolveOffsetSpec, ResolveOffsetSpecResponse, Route, RouteResponse, SaslAuthenticate,
    SaslAuthenticateResponse, SaslHandshake, SaslHandshakeResponse, StoreOffset, StreamStats,
    StreamStatsResponse, Subscribe, Tune, TuneResponse, Unsubscribe,
};
use crate::command_id::CommandId;
use crate::error::WireError;
use crate::field::{Field, read_all, take_array};
use crate::frame::put_frame;
use crate::key::Key;
use crate::response_code::ResponseCode;

/// An answer that is a code and nothing more: the only one many commands have, and what RabbitMQ
/// answers to any of the others instead of their own response where there is nothing else to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeResponse {
    /// The command that is answered.
    pub key: Key,
    /// The id of its request.
    pub correlation_id: u32,
    /// The outcome.
    pub code: ResponseCode,
}

impl CodeResponse {
    const FIELDS_BYTES: usize = 6;

    /// Appends the whole frame.
    pub fn encode_frame(&self, out: &mut Vec<u8>) {
        put_frame(out, self.id(), |out| {
            self.correlation_id.put(out);
            self.code.put(out);
        });
    }

    const fn id(&self) -> CommandId {
        CommandId::response(self.key, 1)
    }

    /// A response of this length; all others are longer, or as short as that of `Credit`.
    fn decode(id: CommandId, mut fields: &[u8]) -> Option<Self> {
        if !id.is_response() || id.version != 1 || fields.len() != Self::FIELDS_BYTES {
            return None;
        }
        let key = id.known_key()?;
        let correlation_id = u32::read(&mut fields).ok()?;
        let code = ResponseCode::read(&mut fields).ok()?;
        Some(Self { key, correlation_id, code })
    }
}

/// Key and version of a frame, and what is behind them: enough where a command is to be counted.
///
/// # Errors
/// If the frame is too short to hold them.
#[inline]
pub fn split_id(mut frame: &[u8]) -> Result<(CommandId, &[u8]), WireError> {
    let [k0, k1, v0, v1] = take_array(&mut frame).map_err(|_| WireError::ShortFrame)?;
    let id = CommandId { key: u16::from_be_bytes([k0, k1]), version: u16::from_be_bytes([v0, v1]) };
    Ok((id, frame))
}

/// The commands of one direction.
macro_rules! direction {
    ($a:lifetime; $(#[$doc:meta])* $direction:ident { $($name:ident $(<$lt:lifetime>)?,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $direction<$a> {
            /// An answer without fields of its own.
            Code(CodeResponse),
            $(
                #[doc = concat!("[`", stringify!($name), "`].")]
                $name($name $(<$lt>)?),
            )*
        }

        impl<$a> $direction<$a> {
            /// The ids of everything that goes in this direction, besides codes.
            pub const IDS: &'static [CommandId] = &[$(<$name $(<$lt>)? as Command<$a>>::ID),*];

            /// Decodes a frame from its key on, all of it.
            ///
            /// # Errors
            /// A command that is unknown in this direction and version, a field that is cut short
            /// or outside its domain, bytes left over.
            #[inline]
            pub fn decode(frame: &$a [u8]) -> Result<Self, WireError> {
                let (id, fields) = split_id(frame)?;
                if let Some(code) = CodeResponse::decode(id, fields) {
                    return Ok(Self::Code(code));
                }
                $(if id == <$name $(<$lt>)? as Command<$a>>::ID {
                    return read_all(fields)
                        .map(Self::$name)
                        .map_err(|error| WireError::Command { command: id, error });
                })*
                Err(WireError::UnknownCommand(id))
            }

            /// Key and version.
            pub const fn id(&self) -> CommandId {
                match self {
                    Self::Code(response) => response.id(),
                    $(Self::$name(_) => <$name $(<$lt>)? as Command<$a>>::ID,)*
                }
            }

            /// Appends the whole frame.
            pub fn encode_frame(&self, out: &mut Vec<u8>) {
                match self {
                    Self::Code(response) => response.encode_frame(out),
                    $(Self::$name(command) => command.encode_frame(out),)*
                }
            }
        }

        impl From<CodeResponse> for $direction<'_> {
            fn from(response: CodeResponse) -> Self {
                Self::Code(response)
            }
        }

        $(impl<$a> From<$name $(<$lt>)?> for $direction<$a> {
            fn from(command: $name $(<$lt>)?) -> Self {
                Self::$name(command)
            }
        })*
    };
}

direction! { 'a;
    /// The commands that a client sends.
    ToServer {
        Publish<'a>, PublishV2<'a>, Credit, StoreOffset<'a>, DeclarePublisher<'a>,
        QueryPublisherSequence<'a>, DeletePublisher, Subscribe<'a>, QueryOffset<'a>, Unsubscribe,
        Create<'a>, Delete<'a>, Metadata<'a>, PeerProperties<'a>, SaslHandshake,
        SaslAuthenticate<'a>, Tune, TuneResponse, Open<'a>, Close<'a>, Heartbeat, Route<'a>,
        Partitions<'a>, ConsumerUpdateResponse, ExchangeCommandVersions<'a>, StreamStats<'a>,
        CreateSuperStream<'a>, DeleteSuperStream<'a>, ResolveOffsetSpec<'a>,
    }
}

direction! { 'a;
    /// The commands that a server sends.
    ToClient {
        Deliver<'a>, DeliverV2<'a>, PublishConfirm<'a>, PublishError<'a>, CreditResponse,
        MetadataUpdate<'a>, QueryPublisherSequenceResponse, QueryOffsetResponse,
        MetadataResponse<'a>, PeerPropertiesResponse<'a>, SaslHandshakeResponse<'a>,
        SaslAuthenticateResponse<'a>, Tune, TuneResponse, OpenResponse<'a>, Close<'a>, Heartbeat,
        RouteResponse<'a>, PartitionsResponse<'a>, ConsumerUpdate,
        ExchangeCommandVersionsResponse<'a>, StreamStatsResponse<'a>, ResolveOffsetSpecResponse,
    }
}
