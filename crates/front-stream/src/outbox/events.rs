//! Events of the broker, as frames.

use super::{ANSWERED_MS, AdvertisedAddress, FORCED_MS, Locked};
use crate::reply::{Asked, close_code, refusal_code};
use edge::{CloseMode, Closing};
use session::{Event, MethodTag, StreamEvent, StreamRefusal};
use streamproto::command::{
    Broker, ConsumerUpdate, CreditResponse, MetadataResponse, MetadataUpdate, PartitionsResponse,
    QueryOffsetResponse, QueryPublisherSequenceResponse, ResolveOffsetSpecResponse, RouteResponse,
    Statistic, StreamMetadata, StreamStatsResponse,
};
use streamproto::field::Field as _;
use streamproto::spec::NO_BROKER;
use streamproto::{CodeResponse, Command, Key, List, OffsetSpec, ResponseCode};

/// The reference of this node among the brokers of a metadata response.
const THIS_BROKER: u16 = 0;

/// The metadata of streams that are told part by part.
#[derive(Debug, Default)]
pub(super) struct MetadataParts {
    n: u32,
    bytes: Vec<u8>,
    has_leader: bool,
}

impl MetadataParts {
    fn add(&mut self, streams: &[(&str, Result<(), StreamRefusal>)], is_served: bool) {
        let leader = if is_served { THIS_BROKER } else { NO_BROKER };
        for (stream, state) in streams {
            let metadata = metadata(stream, *state, leader);
            self.has_leader |= metadata.leader == THIS_BROKER;
            metadata.put(&mut self.bytes);
            self.n += 1;
        }
    }
}

impl Locked {
    #[expect(clippy::wildcard_enum_match_arm, reason = "clients cannot ask for the others")]
    pub(super) fn put_event(&mut self, event: Event<'_>) {
        match (self.out.closing(), &event) {
            (Closing::No, _) | (Closing::Sent, Event::ConnectionClosed) => {}
            (Closing::Sent | Closing::Ended, _) => return,
        }
        match event {
            Event::ConnectionClosed => self.put_closed(),
            Event::ConnectionFailed { error, .. } => match close_code(error.kind) {
                Some(code) => self.put_close(code, &error.text),
                None => self.end(CloseMode::Linger(FORCED_MS)),
            },
            Event::Done { origin, .. } => self.answer(origin, ResponseCode::OK),
            Event::Stream(event) => self.put_stream_event(event),
            // The protocol has no word for alarms: a client that publishes during one is not read.
            Event::Blocked { .. } | Event::Unblocked => {}
            // Clients of this protocol cannot ask for what these events tell.
            _ => {}
        }
    }

    /// Answers the client's close and ends: it is the client that closes the socket then, if it does so soon.
    fn put_closed(&mut self) {
        self.tell_answers();
        if let Some(correlation_id) = self.close_asked {
            let code = ResponseCode::OK;
            let closed = CodeResponse { key: Key::Close, correlation_id, code };
            closed.encode_frame(self.out.rope().bytes());
        }
        self.end(CloseMode::Hold(ANSWERED_MS));
    }

    fn put_stream_event(&mut self, event: StreamEvent<'_>) {
        match event {
            StreamEvent::Refused { origin, why } => self.answer(origin, refusal_code(why)),
            StreamEvent::CreditRefused { subscription, why } => {
                let (code, subscription_id) = (refusal_code(why), subscription.0);
                self.note_refused(code);
                self.put_frame(&CreditResponse { code, subscription_id });
            }
            StreamEvent::Subscribed { origin, link, subscription } => {
                self.links.add(link, subscription);
                self.answer(origin, ResponseCode::OK);
            }
            StreamEvent::Unsubscribed { origin, link } => {
                self.links.remove(link);
                self.answer(origin, ResponseCode::OK);
            }
            StreamEvent::PublisherSequence { origin, sequence: value }
            | StreamEvent::Offset { origin, offset: value } => self.answer_value(origin, value),
            StreamEvent::MetadataPart { streams, is_served } => {
                self.metadata.add(streams, is_served);
            }
            StreamEvent::Metadata { origin, streams, is_served } => {
                self.metadata.add(streams, is_served);
                self.put_metadata(origin);
            }
            StreamEvent::Streams { origin, streams } => self.put_streams(origin, streams),
            StreamEvent::Stats { origin, figures } => {
                let statistics = figures.iter().map(|&(key, value)| Statistic { key, value });
                self.put_stats(origin, &statistics.collect::<Vec<_>>());
            }
            StreamEvent::StreamGone { stream, links } => {
                links.iter().for_each(|link| self.links.remove(*link));
                self.put_frame(&MetadataUpdate {
                    code: ResponseCode::STREAM_NOT_AVAILABLE,
                    stream,
                });
            }
            StreamEvent::ConsumerUpdate { update, subscription, active } => {
                let (correlation_id, subscription_id) = (update, subscription.0);
                self.put_frame(&ConsumerUpdate { correlation_id, subscription_id, active });
            }
        }
    }

    fn put_frame<'a>(&mut self, command: &impl Command<'a>) {
        command.encode_frame(self.out.rope().bytes());
    }

    /// An answer that is a code. COMPAT: where RabbitMQ's has fields, they are there, and say nothing.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all others are answered by a code")]
    pub(crate) fn answer(&mut self, origin: MethodTag, code: ResponseCode) {
        let Some(Asked { key, correlation_id }) = Asked::of(origin) else { return };
        self.note_refused(code);
        match key {
            Key::QueryPublisherSequence => {
                self.put_frame(&QueryPublisherSequenceResponse {
                    correlation_id,
                    code,
                    sequence: 0,
                });
            }
            Key::QueryOffset => {
                self.put_frame(&QueryOffsetResponse { correlation_id, code, offset: 0 });
            }
            Key::ResolveOffsetSpec => {
                let offset = OffsetSpec::Offset(0);
                self.put_frame(&ResolveOffsetSpecResponse { correlation_id, code, offset });
            }
            Key::Route => {
                self.put_frame(&RouteResponse { correlation_id, code, streams: List::default() });
            }
            Key::Partitions => {
                let streams = List::default();
                self.put_frame(&PartitionsResponse { correlation_id, code, streams });
            }
            Key::StreamStats => {
                let statistics = List::default();
                self.put_frame(&StreamStatsResponse { correlation_id, code, statistics });
            }
            key => {
                let response = CodeResponse { key, correlation_id, code };
                response.encode_frame(self.out.rope().bytes());
            }
        }
    }

    fn answer_value(&mut self, origin: MethodTag, value: u64) {
        let Some(Asked { key, correlation_id }) = Asked::of(origin) else { return };
        let code = ResponseCode::OK;
        if key == Key::QueryPublisherSequence {
            let sequence = value;
            self.put_frame(&QueryPublisherSequenceResponse { correlation_id, code, sequence });
        } else if key == Key::ResolveOffsetSpec {
            let offset = OffsetSpec::Offset(value);
            self.put_frame(&ResolveOffsetSpecResponse { correlation_id, code, offset });
        } else {
            self.put_frame(&QueryOffsetResponse { correlation_id, code, offset: value });
        }
    }

    fn put_metadata(&mut self, origin: MethodTag) {
        let MetadataParts { n, bytes, has_leader } = std::mem::take(&mut self.metadata);
        let Some(Asked { correlation_id, .. }) = Asked::of(origin) else { return };
        let AdvertisedAddress { host, port } = &self.advertised;
        let this = [Broker { reference: THIS_BROKER, host, port: u32::from(*port) }];
        let brokers = if has_leader { List::of(&this) } else { List::default() };
        let streams = List::of_encoded(n, &bytes);
        let response = MetadataResponse { correlation_id, brokers, streams };
        response.encode_frame(self.out.rope().bytes());
    }

    fn put_streams(&mut self, origin: MethodTag, streams: &[&str]) {
        let Some(Asked { key, correlation_id }) = Asked::of(origin) else { return };
        let (code, streams) = (ResponseCode::OK, List::of(streams));
        if key == Key::Route {
            self.put_frame(&RouteResponse { correlation_id, code, streams });
        } else {
            self.put_frame(&PartitionsResponse { correlation_id, code, streams });
        }
    }

    fn put_stats(&mut self, origin: MethodTag, statistics: &[Statistic<'_>]) {
        let Some(Asked { correlation_id, .. }) = Asked::of(origin) else { return };
        let (code, statistics) = (ResponseCode::OK, List::of(statistics));
        self.put_frame(&StreamStatsResponse { correlation_id, code, statistics });
    }
}

fn metadata(stream: &str, state: Result<(), StreamRefusal>, leader: u16) -> StreamMetadata<'_> {
    let (code, leader) = match state {
        Ok(()) => (ResponseCode::OK, leader),
        Err(why) => (refusal_code(why), NO_BROKER),
    };
    // A stream has no replica but its leader.
    StreamMetadata { stream, code, leader, replicas: List::default() }
}
