//! Control requests, one by one.

use super::client::Client;
use super::definitions::DefinitionRequests;
use super::link_requests::LinkRequests;
use super::links::Links;
use super::management::ManagementRequests;
use super::topic_requests::TopicRequests;
use super::{Handled, Session, end_channel};
use meta::Command;
use session::{
    ChannelId, Control, Error, Event, ExchangeBinding, ExchangeDeclaration, Op, QueueBinding,
    QueueDeclaration, RefusalScope, ShortString,
};

impl Session {
    /// Does what a control request asks for.
    pub(super) async fn act(&mut self, control: &Control) -> Result<Handled, Error> {
        let channel = control.channel;
        let Self { client, links, .. } = self;
        match &control.op {
            Op::OpenChannel => client.open_channel(channel),
            Op::CloseChannel => {
                end_channel(self, channel).await;
                self.client.turn.answer(Event::ChannelClosed(channel))
            }
            Op::FailChannel(error) | Op::FailConnection(error) => Err(error.clone()),
            Op::CloseConnection => {
                self.give_everything_back().await;
                self.client.turn.answer(Event::ConnectionClosed)?;
                Ok(Handled::Closed)
            }
            // COMPAT: only who lets credentials expire looks at new ones; passwords do not expire.
            Op::UpdateSecret { .. } => Ok(Handled::Done),
            Op::DeclareExchange(declare) => {
                DefinitionRequests(client).declare_exchange(declare).await
            }
            Op::DeleteExchange { exchange, if_unused } => {
                DefinitionRequests(client).delete_exchange(exchange, *if_unused).await
            }
            Op::BindExchange(binding) => {
                DefinitionRequests(client).bind_exchange(binding, Command::Bind).await
            }
            Op::UnbindExchange(binding) => {
                DefinitionRequests(client).bind_exchange(binding, Command::Unbind).await
            }
            Op::DeclareQueue(declare) => {
                DefinitionRequests(client).declare_queue(control, declare).await
            }
            Op::BindQueue(binding) => {
                DefinitionRequests(client).bind_queue(channel, binding, "bind", Command::Bind).await
            }
            Op::UnbindQueue(binding) => {
                DefinitionRequests(client)
                    .bind_queue(channel, binding, "unbind", Command::Unbind)
                    .await
            }
            Op::PurgeQueue { queue } => {
                DefinitionRequests(client).purge_queue(control, queue).await
            }
            Op::DeleteQueue { queue, if_unused, if_empty } => {
                DefinitionRequests(client).delete_queue(control, queue, *if_unused, *if_empty).await
            }
            Op::SetPrefetch { prefetch_count, global } => {
                set_prefetch(client, links, channel, *prefetch_count, *global);
                Ok(Handled::Done)
            }
            Op::Attach(consume) => links.consume(client, control, consume).await,
            Op::Detach { consumer_tag } => links.cancel(client, control, consumer_tag).await,
            Op::Get { queue, no_ack } => links.get_one(client, channel, queue, *no_ack).await,
            Op::Modify(modification) => {
                self.settling.modify(client, links, modification).await;
                Ok(Handled::Done)
            }
            Op::ReleaseUnsettled => links.recover(client, channel, control.origin).await,
            Op::EnableConfirms => client.select_confirms(channel),
            Op::EnableTransactions => client.select_tx(channel),
            Op::Commit => commit(self, control).await,
            Op::Link(op) => LinkRequests { client, links }.act(control, op).await,
            Op::Topic(op) => TopicRequests { client, links }.act(control, op).await,
            Op::Manage(op) => ManagementRequests(client).act(control, op).await,
            Op::Stream(op) => self.streams.act(client, links, control, op).await,
            Op::RollBack => {
                self.transactions.roll_back(client, links, &mut self.settling, channel).await
            }
        }
    }
}

/// Commits the transaction of a channel, or drops it where the channel outlives a refusal: the next one
/// begins with nothing.
async fn commit(session: &mut Session, control: &Control) -> Result<Handled, Error> {
    let Session { client, links, publishing, settling, transactions, .. } = session;
    let channel = control.channel;
    let done = transactions.commit(client, publishing, links, settling, channel).await;
    if done.is_err() && control.refusal == RefusalScope::Request {
        transactions.roll_back(client, links, settling, channel).await?;
    }
    done
}

fn set_prefetch(
    client: &mut Client,
    links: &mut Links,
    channel: ChannelId,
    prefetch_count: u16,
    global: bool,
) {
    if global && client.access.broker.limits().channel_prefetch {
        links.limit_channel(&mut client.channels, channel, prefetch_count);
        return;
    }
    client.channels.set_prefetch(channel, prefetch_count);
    if global {
        links.set_prefetch_of_consumers(&client.channels, channel);
    }
}

/// The operation with other names, if those of what it declares, deletes or binds cannot stay as they are.
#[expect(clippy::wildcard_enum_match_arm, reason = "others name nothing that is kept")]
pub(super) fn renamed(op: &Op) -> Option<Op> {
    let clean = |name: &ShortString| ShortString::new(meta::without_line_ends(name.as_bytes()));
    let is_clean =
        |name: &ShortString| !name.as_bytes().iter().any(|it| matches!(it, b'\r' | b'\n'));
    let of_queue = |it: &QueueBinding| {
        let (queue, exchange) = (clean(&it.queue).ok()?, clean(&it.exchange).ok()?);
        let unlike = !is_clean(&it.queue) || !is_clean(&it.exchange);
        unlike.then(|| QueueBinding { queue, exchange, ..it.clone() })
    };
    let of_exchange = |it: &ExchangeBinding| {
        let (destination, source) = (clean(&it.destination).ok()?, clean(&it.source).ok()?);
        let unlike = !is_clean(&it.destination) || !is_clean(&it.source);
        unlike.then(|| ExchangeBinding { destination, source, ..it.clone() })
    };
    Some(match op {
        Op::DeclareQueue(it) if !is_clean(&it.queue) => {
            Op::DeclareQueue(QueueDeclaration { queue: clean(&it.queue).ok()?, ..it.clone() })
        }
        Op::DeleteQueue { queue, if_unused, if_empty } if !is_clean(queue) => {
            let (if_unused, if_empty) = (*if_unused, *if_empty);
            Op::DeleteQueue { queue: clean(queue).ok()?, if_unused, if_empty }
        }
        Op::DeclareExchange(it) if !is_clean(&it.exchange) => {
            let exchange = clean(&it.exchange).ok()?;
            Op::DeclareExchange(ExchangeDeclaration { exchange, ..it.clone() })
        }
        Op::DeleteExchange { exchange, if_unused } if !is_clean(exchange) => {
            Op::DeleteExchange { exchange: clean(exchange).ok()?, if_unused: *if_unused }
        }
        Op::BindQueue(it) => Op::BindQueue(of_queue(it)?),
        Op::UnbindQueue(it) => Op::UnbindQueue(of_queue(it)?),
        Op::BindExchange(it) => Op::BindExchange(of_exchange(it)?),
        Op::UnbindExchange(it) => Op::UnbindExchange(of_exchange(it)?),
        _ => return None,
    })
}
