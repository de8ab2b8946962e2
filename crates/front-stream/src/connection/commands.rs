//! The commands of a running connection.

use super::Reading;
use super::handshake::Handshake;
use super::subscription::{chunk_selection, properties, start, subscription};
use crate::reply::Asked;
use edge::Step;
use session::{
    Append, Content, Control, ONLY_CHANNEL, Op, PublisherId, Request, Span, StreamCredit, StreamOp,
    SubscriptionId, SuperStream,
};
use streamproto::command::{CommandVersions, ExchangeCommandVersionsResponse};
use streamproto::spec::FRAME_SIZE_BYTES;
use streamproto::{Command as _, Key, List, ResponseCode, ToServer, WireError};

/// Bytes of a publish command in front of its entries: key, version, publisher, number of entries.
const PUBLISH_HEAD_BYTES: usize = 4 + 1 + 4;

/// The most properties of a subscription, or arguments of a stream. Each chunk is compared with filters among
/// them.
const PROPERTIES_MAX: usize = 1_024;
/// The most bytes of such properties, which subscriptions keep.
const PROPERTIES_BYTES_MAX: usize = 64 * 1024;

/// The commands that clients may send in each of these versions. COMPAT: RabbitMQ names those alone.
const TOLD_VERSIONS: [Key; 20] = [
    Key::DeclarePublisher,
    Key::Publish,
    Key::QueryPublisherSequence,
    Key::DeletePublisher,
    Key::Subscribe,
    Key::Credit,
    Key::StoreOffset,
    Key::QueryOffset,
    Key::Unsubscribe,
    Key::Create,
    Key::Delete,
    Key::Metadata,
    Key::Close,
    Key::Heartbeat,
    Key::Route,
    Key::Partitions,
    Key::StreamStats,
    Key::CreateSuperStream,
    Key::DeleteSuperStream,
    Key::ResolveOffsetSpec,
];

impl Reading<'_> {
    /// Handles a command of a running connection, in a frame of `frame_bytes` that begins here.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others ask for operations")]
    pub(super) fn command(
        &mut self,
        handshake: &mut Handshake,
        command: &ToServer<'_>,
        frame_bytes: usize,
    ) -> Option<Step> {
        self.n_listed += n_listed(command);
        match command {
            ToServer::Publish(publish) => {
                let n = publish.messages.len();
                self.append(publish.publisher_id, n, frame_bytes, false);
            }
            ToServer::PublishV2(publish) => {
                let n = publish.messages.len();
                self.append(publish.publisher_id, n, frame_bytes, true);
            }
            ToServer::Credit(credit) => {
                self.credit(SubscriptionId(credit.subscription_id), credit.credit.cast_signed());
            }
            ToServer::SaslAuthenticate(request) => {
                return handshake.renew(self.life, self.now, request);
            }
            ToServer::ExchangeCommandVersions(exchange) => {
                self.exchange_versions(exchange.correlation_id, exchange.commands);
            }
            ToServer::Close(close) => {
                self.life.outbox.lock().close_asked(close.correlation_id);
                self.control(Key::Close, close.correlation_id, Op::CloseConnection);
                // The input behind the close is dropped.
                self.life.closing(self.now);
            }
            other if let Some(asked) = too_much(other) => {
                let code = ResponseCode::PRECONDITION_FAILED;
                self.life.outbox.lock().answer(asked.tag(), code);
            }
            other => match stream_op(other) {
                Some(StreamRequest { asked: Asked { key, correlation_id }, op }) => {
                    self.control(key, correlation_id, Op::Stream(op));
                }
                None => return self.fault(&WireError::UnknownCommand(other.id())),
            },
        }
        None
    }

    /// Adds credit; clients ask for one chunk after the other, which comes down to as many at once.
    fn credit(&mut self, subscription: SubscriptionId, n_chunks: i16) {
        if let Some(Request::Credit(before)) = self.requests.last_mut()
            && before.subscription == subscription
            && let Some(sum) = before.n_chunks.checked_add(n_chunks)
        {
            before.n_chunks = sum;
            return;
        }
        self.requests.push(Request::Credit(StreamCredit { subscription, n_chunks }));
    }

    fn append(&mut self, publisher: u8, n_entries: usize, frame_bytes: usize, filtered: bool) {
        let start = self.at + FRAME_SIZE_BYTES + PUBLISH_HEAD_BYTES;
        let span = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let len = frame_bytes.saturating_sub(PUBLISH_HEAD_BYTES);
        self.life.counter.note_received(n_entries as u64);
        self.requests.push(Request::Append(Append {
            publisher: PublisherId(publisher),
            has_filter_values: filtered,
            n_entries: span(n_entries),
            entries: Content::Inline(Span { start: span(start), len: span(len) }),
        }));
    }

    pub(super) fn control(&mut self, key: Key, correlation_id: u32, op: Op) {
        let origin = Asked { key, correlation_id }.tag();
        let control = Control {
            channel: ONLY_CHANNEL,
            origin,
            nowait: false,
            refusal: session::RefusalScope::Channel,
            op,
        };
        self.requests.push(Request::Control(Box::new(control)));
    }

    fn exchange_versions(&mut self, correlation_id: u32, theirs: List<'_, CommandVersions>) {
        let deliver = Key::Deliver.code();
        let version = theirs.iter().find(|it| it.key == deliver).map(|it| it.max_version);
        let ours = TOLD_VERSIONS.map(|key| CommandVersions {
            key: key.code(),
            min_version: 1,
            max_version: key.version_max(),
        });
        let (code, commands) = (ResponseCode::OK, List::of(&ours));
        let response = ExchangeCommandVersionsResponse { correlation_id, code, commands };
        let mut locked = self.life.outbox.lock();
        if let Some(version) = version {
            locked.set_deliver_version(version);
        }
        locked.put(|out| response.encode_frame(out));
    }
}

/// The names that a request lists for the broker to look at.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others list none")]
fn n_listed(command: &ToServer<'_>) -> usize {
    match command {
        ToServer::Metadata(it) => it.streams.len(),
        ToServer::CreateSuperStream(it) => it.partitions.len() + it.binding_keys.len(),
        _ => 0,
    }
}

/// The request, if it lists more than is ever taken.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others list nothing that is kept")]
fn too_much(command: &ToServer<'_>) -> Option<Asked> {
    let (key, correlation_id, properties) = match command {
        ToServer::Subscribe(it) => (Key::Subscribe, it.correlation_id, it.properties.0),
        ToServer::ResolveOffsetSpec(it) => {
            (Key::ResolveOffsetSpec, it.correlation_id, it.properties.0)
        }
        ToServer::Create(it) => (Key::Create, it.correlation_id, it.arguments),
        ToServer::CreateSuperStream(it) => {
            (Key::CreateSuperStream, it.correlation_id, it.arguments)
        }
        _ => return None,
    };
    let is_too_much =
        properties.len() > PROPERTIES_MAX || properties.n_bytes() > PROPERTIES_BYTES_MAX;
    is_too_much.then_some(Asked { key, correlation_id })
}

/// An operation with the request that asked for it.
struct StreamRequest {
    asked: Asked,
    op: StreamOp,
}

const fn asked(key: Key, correlation_id: u32, op: StreamOp) -> StreamRequest {
    StreamRequest { asked: Asked { key, correlation_id }, op }
}

/// The operation that a command asks for; `None` for what may not come now.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are of another sort")]
fn stream_op(command: &ToServer<'_>) -> Option<StreamRequest> {
    let text = str::to_owned;
    Some(match command {
        ToServer::DeclarePublisher(it) => {
            let publisher = PublisherId(it.publisher_id);
            let (reference, stream) = (text(it.reference), text(it.stream));
            let op = StreamOp::DeclarePublisher { publisher, reference, stream };
            asked(Key::DeclarePublisher, it.correlation_id, op)
        }
        ToServer::QueryPublisherSequence(it) => {
            let (reference, stream) = (text(it.reference), text(it.stream));
            let op = StreamOp::QueryPublisherSequence { reference, stream };
            asked(Key::QueryPublisherSequence, it.correlation_id, op)
        }
        ToServer::DeletePublisher(it) => {
            let op = StreamOp::DeletePublisher(PublisherId(it.publisher_id));
            asked(Key::DeletePublisher, it.correlation_id, op)
        }
        ToServer::Subscribe(it) => {
            asked(Key::Subscribe, it.correlation_id, StreamOp::Subscribe(subscription(it)?))
        }
        ToServer::Unsubscribe(it) => {
            let op = StreamOp::Unsubscribe(SubscriptionId(it.subscription_id));
            asked(Key::Unsubscribe, it.correlation_id, op)
        }
        ToServer::StoreOffset(it) => {
            let (reference, stream) = (text(it.reference), text(it.stream));
            asked(
                Key::StoreOffset,
                0,
                StreamOp::StoreOffset { reference, stream, offset: it.offset },
            )
        }
        ToServer::QueryOffset(it) => {
            let (reference, stream) = (text(it.reference), text(it.stream));
            asked(Key::QueryOffset, it.correlation_id, StreamOp::QueryOffset { reference, stream })
        }
        ToServer::ResolveOffsetSpec(it) => {
            let selection = chunk_selection(it.properties.0);
            let (stream, offset) = (text(it.stream), start(it.offset)?);
            let op = StreamOp::ResolveOffset { stream, offset, selection };
            asked(Key::ResolveOffsetSpec, it.correlation_id, op)
        }
        ToServer::ConsumerUpdateResponse(it) => {
            let offset = start(it.offset.0);
            let op = StreamOp::ConsumerUpdated { update: it.correlation_id, offset };
            asked(Key::ConsumerUpdate, it.correlation_id, op)
        }
        other => return definition_op(other),
    })
}

/// The operation on the definitions of streams that a command asks for.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others ask for nothing")]
fn definition_op(command: &ToServer<'_>) -> Option<StreamRequest> {
    let text = str::to_owned;
    let texts = |list: List<'_, &str>| list.iter().map(str::to_owned).collect();
    Some(match command {
        ToServer::Create(it) => {
            let (stream, arguments) = (text(it.stream), properties(it.arguments));
            asked(Key::Create, it.correlation_id, StreamOp::Create { stream, arguments })
        }
        ToServer::Delete(it) => {
            asked(Key::Delete, it.correlation_id, StreamOp::Delete { stream: text(it.stream) })
        }
        ToServer::Metadata(it) => {
            let streams = it.streams.iter().collect();
            asked(Key::Metadata, it.correlation_id, StreamOp::Metadata { streams })
        }
        ToServer::StreamStats(it) => {
            asked(Key::StreamStats, it.correlation_id, StreamOp::Stats { stream: text(it.stream) })
        }
        ToServer::Route(it) => {
            let (routing_key, super_stream) = (text(it.routing_key), text(it.super_stream));
            asked(Key::Route, it.correlation_id, StreamOp::Route { routing_key, super_stream })
        }
        ToServer::Partitions(it) => {
            let op = StreamOp::Partitions { super_stream: text(it.super_stream) };
            asked(Key::Partitions, it.correlation_id, op)
        }
        ToServer::CreateSuperStream(it) => {
            let op = StreamOp::CreateSuperStream(SuperStream {
                name: text(it.name),
                partitions: texts(it.partitions),
                binding_keys: texts(it.binding_keys),
                arguments: properties(it.arguments),
            });
            asked(Key::CreateSuperStream, it.correlation_id, op)
        }
        ToServer::DeleteSuperStream(it) => {
            let op = StreamOp::DeleteSuperStream { super_stream: text(it.name) };
            asked(Key::DeleteSuperStream, it.correlation_id, op)
        }
        _ => return None,
    })
}
