//! Events of the broker as methods.

use super::Locked;
use super::encode::{HeaderSize, fits_frame, put_content, refuse_header};
use super::links::Link;
use crate::reply;
use amqp091::method::{
    BasicCancel, BasicCancelOk, BasicConsumeOk, BasicGetEmpty, BasicGetOk, BasicPublish, BasicQos,
    BasicQosOk, BasicRecover, BasicRecoverAsync, BasicRecoverOk, BasicReturn, ChannelClose,
    ChannelCloseOk, ChannelOpenOk, ConfirmSelect, ConfirmSelectOk, ConnectionBlocked,
    ConnectionUnblocked, ConnectionUpdateSecret, ConnectionUpdateSecretOk, ExchangeBind,
    ExchangeBindOk, ExchangeDeclare, ExchangeDeclareOk, ExchangeDelete, ExchangeDeleteOk,
    ExchangeUnbind, ExchangeUnbindOk, QueueBind, QueueBindOk, QueueDeclareOk, QueueDeleteOk,
    QueuePurgeOk, QueueUnbind, QueueUnbindOk, TxCommit, TxCommitOk, TxRollback, TxRollbackOk,
    TxSelect, TxSelectOk,
};
use amqp091::{Method, ReplyCode};
use conversion::to_amqp091;
use edge::Closing;
use edge::Put;
use message::MessageRef;
use session::{ChannelId, Delivery, Error, Event, LinkId, MethodTag, ReturnReason};

/// Milliseconds for what was written to arrive once the client has said or done its last.
pub(crate) const LINGER_MS: u64 = 1000;

/// A message that the client has asked for.
struct GotMessage<'a> {
    link: LinkId,
    delivery: Delivery<'a>,
    no_ack: bool,
    n_ready: u64,
}

impl Locked {
    pub(super) fn put_event(&mut self, event: Event<'_>) {
        match (self.out.closing(), &event) {
            (Closing::No, _) | (Closing::Sent, Event::ConnectionClosed) => {}
            (Closing::Sent | Closing::Ended, _) => return,
        }
        match event {
            Event::ChannelOpened(channel) => self.channel_opened(channel),
            Event::ChannelClosed(channel) => {
                self.remove_channel(channel);
                self.answer(channel, ChannelCloseOk {});
            }
            Event::ChannelFailed { channel, error, origin } => {
                self.channel_failed(channel, &error, origin);
            }
            Event::ConnectionClosed => self.put_connection_close_ok(),
            Event::ConnectionFailed { channel, error, origin } => {
                let origin = origin.unwrap_or_else(|| publish_or_nothing(channel));
                self.put_connection_close(&error, origin);
            }
            Event::Blocked { reason } if self.terms.capabilities.blocked => {
                self.answer(ChannelId(0), ConnectionBlocked { reason: reason.as_bytes() });
            }
            Event::Unblocked if self.terms.capabilities.blocked => {
                self.answer(ChannelId(0), ConnectionUnblocked {});
            }
            Event::Blocked { .. } | Event::Unblocked => {}
            Event::Done { channel, origin } => self.done(channel, origin),
            Event::QueueDeclared { channel, queue, n_ready, n_consumers } => {
                stdx::walk::step("answer");
                let message_count = count(n_ready);
                let consumer_count = count(n_consumers);
                self.answer(channel, QueueDeclareOk { queue, message_count, consumer_count });
            }
            Event::QueuePurged { channel, n_messages, .. } => {
                self.answer(channel, QueuePurgeOk { message_count: count(n_messages) });
            }
            Event::QueueDeleted { channel, n_messages, .. } => {
                self.answer(channel, QueueDeleteOk { message_count: count(n_messages) });
            }
            Event::Attached { channel, link, consumer_tag, no_ack, answer, .. } => {
                self.links.add(Link::new(link, channel.0, consumer_tag, no_ack));
                if answer {
                    self.answer(channel, BasicConsumeOk { consumer_tag });
                }
            }
            Event::Detached { channel, link, consumer_tag, answer } => {
                link.into_iter().for_each(|link| self.links.remove(link));
                if answer {
                    self.answer(channel, BasicCancelOk { consumer_tag });
                }
            }
            Event::ConsumerCancelled { channel, link, consumer_tag } => {
                self.links.remove(link);
                if self.terms.capabilities.cancel_notify {
                    self.answer(channel, BasicCancel { consumer_tag, no_wait: true });
                }
            }
            Event::GetEmpty(channel) => self.answer(channel, BasicGetEmpty { cluster_id: b"" }),
            Event::Got { channel, link, delivery, no_ack, n_ready } => {
                self.count_conversion(delivery.message);
                let mut converted = Vec::new();
                let message = &to_amqp091(delivery.message, &mut converted);
                let delivery = Delivery { message, ..delivery };
                self.got(channel, &GotMessage { link, delivery, no_ack, n_ready });
            }
            Event::Returned { channel, reason, message } => {
                self.returned(channel, reason, &message)
            }
            // Clients of this protocol cannot make the requests that these answer.
            Event::Refused { .. } | Event::Link(_) | Event::Management(_) | Event::Stream(_) => {}
        }
    }

    fn returned(&mut self, channel: ChannelId, reason: ReturnReason, message: &MessageRef<'_>) {
        if !fits_frame(message.properties, self.terms.frame_max) {
            let size = HeaderSize::of(message.properties, self.terms.frame_max);
            refuse_header(&mut self.out, size, "");
            return;
        }
        let code = match reason {
            ReturnReason::Unroutable => ReplyCode::NoRoute,
            ReturnReason::NoConsumers => ReplyCode::NoConsumers,
        };
        let method = BasicReturn {
            reply_code: code.code(),
            reply_text: code.name().as_bytes(),
            exchange: message.exchange,
            routing_key: message.routing_key,
        };
        self.answer(channel, method);
        put_content(channel.0, message, self.terms.frame_max, self.out.rope());
    }

    fn answer<'a>(&mut self, channel: ChannelId, method: impl Into<Method<'a>>) {
        method.into().encode_frame(channel.0, self.out.rope().bytes());
    }

    fn channel_opened(&mut self, channel: ChannelId) {
        self.remove_channel(channel);
        self.channels.open(channel.0);
        self.answer(channel, ChannelOpenOk { channel_id: b"" });
    }

    /// Forgets a channel, after telling the confirms that came before.
    fn remove_channel(&mut self, channel: ChannelId) {
        if self.channels.remove(channel.0, self.out.rope().bytes()) {
            self.links.remove_channel(channel.0);
            self.out.forget_channel(channel.0);
        }
    }

    fn channel_failed(&mut self, channel: ChannelId, error: &Error, origin: Option<MethodTag>) {
        self.remove_channel(channel);
        self.channels.note_failed(channel.0);
        let method = reply::method_of(origin.unwrap_or_else(|| publish_or_nothing(Some(channel))));
        let text = reply::reply_text(error);
        self.answer(
            channel,
            ChannelClose {
                reply_code: reply::reply_code(error.kind).code(),
                reply_text: text.as_bytes(),
                class_id: method.class,
                method_id: method.method,
            },
        );
    }

    fn got(&mut self, channel: ChannelId, got: &GotMessage<'_>) {
        let GotMessage { link, delivery, no_ack, n_ready } = *got;
        let starts_at = self.out.end_of_bytes();
        let fits = fits_frame(delivery.message.properties, self.terms.frame_max);
        let Some(out) = self.channels.get_mut(channel.0) else { return };
        if !fits {
            if !no_ack || delivery.settled_by_write {
                out.tags.next(link, delivery.position);
            }
            let size = HeaderSize::of(delivery.message.properties, self.terms.frame_max);
            refuse_header(&mut self.out, size, "");
            return;
        }
        let delivery_tag =
            if no_ack { out.tags.next_settled() } else { out.tags.next(link, delivery.position) };
        self.answer(
            channel,
            BasicGetOk {
                delivery_tag,
                redelivered: delivery.redelivered,
                exchange: delivery.message.exchange,
                routing_key: delivery.message.routing_key,
                message_count: count(n_ready),
            },
        );
        put_content(channel.0, delivery.message, self.terms.frame_max, self.out.rope());
        if delivery.settled_by_write {
            let (ends_at, position) = (self.out.end_of_bytes(), delivery.position);
            let (channel, tag) = (channel.0, delivery_tag);
            let put = Put { channel, link, tag, position, starts_at, ends_at };
            self.out.settle_by_write(put);
        }
    }

    fn done(&mut self, channel: ChannelId, origin: MethodTag) {
        let method: Method<'_> = match reply::method_of(origin) {
            ExchangeDeclare::ID => ExchangeDeclareOk {}.into(),
            ExchangeDelete::ID => ExchangeDeleteOk {}.into(),
            ExchangeBind::ID => ExchangeBindOk {}.into(),
            ExchangeUnbind::ID => ExchangeUnbindOk {}.into(),
            QueueBind::ID => QueueBindOk {}.into(),
            QueueUnbind::ID => QueueUnbindOk {}.into(),
            BasicQos::ID => BasicQosOk {}.into(),
            BasicRecover::ID => BasicRecoverOk {}.into(),
            // Nobody waits for an answer to this one.
            BasicRecoverAsync::ID => return,
            ConfirmSelect::ID => ConfirmSelectOk {}.into(),
            TxSelect::ID => TxSelectOk {}.into(),
            TxCommit::ID => TxCommitOk {}.into(),
            TxRollback::ID => TxRollbackOk {}.into(),
            ConnectionUpdateSecret::ID => ConnectionUpdateSecretOk {}.into(),
            other => {
                debug_assert!(false, "{other} is not answered without content");
                return;
            }
        };
        self.answer(channel, method);
    }
}

/// The origin of an error that names none.
const fn publish_or_nothing(channel: Option<ChannelId>) -> MethodTag {
    match channel {
        Some(_) => reply::origin(BasicPublish::ID),
        None => MethodTag(0),
    }
}

fn count(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
