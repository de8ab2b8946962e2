//! Requests of clients whose links are requests of their own.

use super::client::Client;
use super::definitions::{DeclaredQueue, DefinitionRequests};
use super::links::{Links, end_publishers, give_back_link, tell_publishers};
use super::publisher_links::PublisherLink;
use super::read_source::address_of;
use super::{Handled, access, direct_reply_to};
use meta::{Command, ExchangeDef, ExchangeKind, Name, Permission, QueueId, QueueKind, Resource};
use queue::CreditMode;
use session::{
    Attachment, ChannelId, Control, DeclaredNode, Error, ErrorKind, Event, LinkEvent, LinkId,
    LinkOp, Publish, PublishTarget, QueueBinding, QueueDeclaration, ReadInput, ShortString, Table,
    Value,
};
use std::sync::Arc;

/// The requests of a client's links.
pub(super) struct LinkRequests<'s> {
    pub(super) client: &'s mut Client,
    pub(super) links: &'s mut Links,
}

impl LinkRequests<'_> {
    /// Carries out a request of a link.
    pub(super) async fn act(&mut self, control: &Control, op: &LinkOp) -> Result<Handled, Error> {
        match op {
            LinkOp::AttachConsumer(consume) => self.attach_consumer(control, consume).await,
            LinkOp::AttachPublisher(target) => {
                self.attach_publisher(control, target.as_ref(), None)
            }
            LinkOp::AttachDeclared(node) => self.attach_declared(control, node).await,
            LinkOp::MakeTarget => {
                let made = self.make_queue(control, false).await?.queue;
                self.attach_publisher(control, None, made.map(|made| made.id()))
            }
            LinkOp::AttachTemporary(consume) => self.attach_temporary(control, consume).await,
            LinkOp::AttachReplies { consumer_tag } => self.attach_replies(control, consumer_tag),
            LinkOp::ReviewRights(targets) => self.review_rights(control.channel, targets),
            LinkOp::Detach(link) => {
                self.client.end_replies(control.channel, |it| it.link == *link);
                end_publishers(self.links, self.client, link..=link, control.channel).await;
                self.end_link(*link).await;
                Ok(Handled::Answered)
            }
        }
    }

    /// Whether the client may still do what the links of a channel do.
    fn review_rights(
        &self,
        channel: ChannelId,
        targets: &[PublishTarget],
    ) -> Result<Handled, Error> {
        let access = &self.client.access;
        let lost = |refused: Error| (refused.kind == ErrorKind::AccessRefused).then_some(refused);
        let unpublishable = || {
            targets.iter().find_map(|target| check_target(self.client, target).err().and_then(lost))
        };
        let consumed = self.links.iter().filter(|(_, link)| link.channel() == channel);
        let mut unreadable = consumed.filter_map(|(_, link)| {
            access.require_on_queue(Permission::Read, &link.def().name).err()
        });
        unreadable.next().or_else(unpublishable).map_or(Ok(Handled::Answered), Err)
    }

    pub(super) fn attach_publisher(
        &mut self,
        control: &Control,
        target: Option<&PublishTarget>,
        made: Option<QueueId>,
    ) -> Result<Handled, Error> {
        let origin = control.origin;
        target.into_iter().try_for_each(|it| check_target(self.client, it))?;
        let link = self.links.next_id();
        let publishers = self.links.publishers.get_or_insert_default();
        publishers.attached.insert(link, PublisherLink { channel: control.channel, made });
        tell_publishers(publishers, self.client);
        self.client.turn.answer(Event::Link(LinkEvent::PublisherAttached { origin, link }))
    }

    /// Attaches a link to a queue that is declared for it, unless it is there.
    async fn attach_declared(
        &mut self,
        control: &Control,
        node: &DeclaredNode,
    ) -> Result<Handled, Error> {
        let queue = self.declare(control.channel, node).await?;
        match &node.consumer {
            Some(consume) => {
                self.attach_consumer(control, &Attachment { queue, ..consume.clone() }).await
            }
            None => self.attach_publisher(control, Some(&PublishTarget::queue(queue)), None),
        }
    }

    /// Declares a link's queue and binds it; returns its name. COMPAT: as with RabbitMQ it is a classic
    /// queue, whatever the default type is, and one that is there may be of any kind.
    async fn declare(
        &mut self,
        channel: ChannelId,
        node: &DeclaredNode,
    ) -> Result<ShortString, Error> {
        let name = access::text(&node.queue)?;
        if let Some(PublishTarget { exchange, .. }) = &node.binding {
            find_exchange(self.client, &access::text(exchange)?)?;
        }
        let is_there = !name.is_empty() && self.client.access.find_queue(&name).is_ok();
        if is_there {
            self.client.access.require_on_queue(Permission::Configure, &name)?;
            return Ok(node.queue.clone());
        }
        let kind = (ShortString::from_static("x-queue-type"), Value::from("classic"));
        let declare = QueueDeclaration {
            queue: node.queue.clone(),
            passive: false,
            durable: node.durable,
            exclusive: false,
            auto_delete: false,
            arguments: Table::from_iter([kind]),
        };
        let mut requests = DefinitionRequests(self.client);
        let made = requests.declare_or_find(channel, &declare).await?;
        let queue = ShortString::truncated(&made.name);
        if let Some(PublishTarget { exchange, routing_key }) = &node.binding {
            let binding = QueueBinding {
                queue: queue.clone(),
                exchange: exchange.clone(),
                routing_key: routing_key.clone().unwrap_or_default(),
                arguments: Table::new(),
            };
            requests.bind_queue(channel, &binding, "bind", Command::Bind).await?;
        }
        Ok(queue)
    }

    pub(super) async fn attach_consumer(
        &mut self,
        control: &Control,
        consume: &Attachment,
    ) -> Result<Handled, Error> {
        let Self { client, links } = self;
        if direct_reply_to::is_reply_queue(consume.queue.as_bytes()) {
            return Err(not_implemented("direct replies are not consumed on links"));
        }
        let name = access::text(&consume.queue)?;
        // Whether it may be read is found out before anything is told of it.
        client.access.require_on_queue(Permission::Read, &name)?;
        let queue = client.access.find_queue(&name)?;
        // A browser would take what it is to look at.
        let is_stream = queue.def().kind == QueueKind::Stream;
        if !is_stream && consume.source.as_ref().is_some_and(|it| it.browses) {
            return Err(not_implemented("queues are not browsed"));
        }
        links.consume(client, control, consume).await
    }

    /// Attaches a consumer to a queue of its own. It goes with its last consumer, so with the link.
    async fn attach_temporary(
        &mut self,
        control: &Control,
        consume: &Attachment,
    ) -> Result<Handled, Error> {
        let made = self.make_queue(control, true).await?;
        let queue = ShortString::truncated(&made.name);
        let attached =
            self.attach_consumer(control, &Attachment { queue, ..consume.clone() }).await;
        if let Some(queue) = made.queue.filter(|_| attached.is_err()) {
            self.client.access.broker.changes().drop_queue(queue.id()).await;
        }
        attached
    }

    /// Makes an exclusive queue for a link, and tells of it.
    async fn make_queue(
        &mut self,
        control: &Control,
        auto_delete: bool,
    ) -> Result<DeclaredQueue, Error> {
        let declare = QueueDeclaration {
            queue: ShortString::default(),
            passive: false,
            durable: false,
            exclusive: true,
            auto_delete,
            arguments: Table::new(),
        };
        let requests = &mut DefinitionRequests(self.client);
        let made = requests.declare_named(control.channel, &declare, "amq.dyn-").await?;
        let queue = ShortString::truncated(&made.name);
        let node = LinkEvent::NodeMade { origin: control.origin, queue };
        self.client.turn.tell(|sink| sink.event(Event::Link(node.clone())));
        Ok(made)
    }

    fn attach_replies(
        &mut self,
        control: &Control,
        consumer_tag: &ShortString,
    ) -> Result<Handled, Error> {
        let (channel, origin) = (control.channel, control.origin);
        let Self { client, links } = self;
        let consumer_tag = links.consumer_tag(client, channel, consumer_tag)?;
        let link = links.next_id();
        let queue = client.add_replies(channel, link, consumer_tag, CreditMode::Link);
        client.turn.answer(Event::Link(LinkEvent::RepliesAttached { origin, link, queue }))
    }

    /// Ends a consumer, and gives back what it holds.
    pub(super) async fn end_link(&mut self, id: LinkId) {
        let Self { client, links } = self;
        let Some(channel) = links.get(id).map(|link| link.channel()) else { return };
        let tag = client.channels.get(channel).and_then(|it| {
            it.consumers.iter().find(|(_, link)| **link == id).map(|(tag, _)| tag.clone())
        });
        if let Some(tag) = tag {
            let consumer_tag = &tag;
            let told =
                |link| Event::Detached { channel, link: Some(link), consumer_tag, answer: false };
            links.end_consumer(client, channel, consumer_tag, told).await;
        }
        give_back_link(links, client, id).await;
    }
}

/// Whether an error is told to the link that it is about, which is all that it ends.
const fn ends_link_alone(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound
            | ErrorKind::ResourceLocked
            | ErrorKind::PreconditionFailed
            | ErrorKind::NotImplementedByMode
            | ErrorKind::NotImplemented
            | ErrorKind::NotAllowed
            | ErrorKind::InternalExchange
            | ErrorKind::ForeignUserId
            | ErrorKind::QueueLimit
            | ErrorKind::LimitReached
    )
}

/// Tells the link of a publish that the publish is refused; in a transaction its commit fails.
///
/// # Errors
/// The refusal that ends more than a link, or that no link is told of.
pub(super) fn refuse_publish(
    client: &mut Client,
    links: &Links,
    publish: &Publish,
    input: ReadInput<'_>,
    error: Error,
) -> Result<(), Error> {
    let channel = publish.channel;
    if links.publishers.is_some()
        && ends_link_alone(error.kind)
        && let Some(tx) = client.channels.get_mut(channel).and_then(|it| it.tx.as_mut())
    {
        tx.refused.get_or_insert(error);
        return Ok(());
    }
    let number = client.channels.get(channel).and_then(|channel| channel.last_sequence);
    let number = number.filter(|_| links.publishers.is_some() && ends_link_alone(error.kind));
    let Some(number) = number else { return Err(error) };
    let error = if error.kind == ErrorKind::InternalExchange {
        let exchange = String::from_utf8_lossy(address_of(publish, input).0);
        internal(&Resource::exchange(&client.access.vhost(), &Name::from(&*exchange)))
    } else {
        error
    };
    let refused = LinkEvent::PublishRefused { channel, number, error };
    client.turn.tell(|sink| sink.event(Event::Link(refused.clone())));
    Ok(())
}

/// COMPAT: RabbitMQ's words; only the link is lost.
fn internal(exchange: &Resource) -> Error {
    let text = format!("forbidden to publish to internal {exchange}");
    Error::new(ErrorKind::InternalExchange, text)
}

fn not_implemented(text: &'static str) -> Error {
    Error::new(ErrorKind::NotImplemented, text)
}

/// Whether the client may publish there.
fn check_target(
    client: &Client,
    PublishTarget { exchange, routing_key }: &PublishTarget,
) -> Result<(), Error> {
    let name = access::text(exchange)?;
    client.access.require_on_exchange(Permission::Write, &name)?;
    let found = find_exchange(client, &name)?;
    if found.internal {
        return Err(internal(&Resource::exchange(&client.access.vhost(), &name)));
    }
    let Some(routing_key) = routing_key else { return Ok(()) };
    if name.is_empty() && !client.is_live_reply_queue(routing_key.as_bytes()) {
        client.access.find_queue(&access::text(routing_key)?)?;
    }
    if found.kind == ExchangeKind::Topic {
        client.access.require_topic(Permission::Write, &name, routing_key.as_bytes())?;
    }
    Ok(())
}

fn find_exchange<'c>(client: &'c Client, name: &Name) -> Result<&'c Arc<ExchangeDef>, Error> {
    let vhost = client.access.vhost();
    client.access.view.meta.exchange(&vhost, name).ok_or_else(|| {
        Error::new(ErrorKind::NotFound, format!("no {}", Resource::exchange(&vhost, name)))
    })
}
