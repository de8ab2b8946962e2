//! Requests of clients that have topics: an exchange for all of them, a queue for each subscription.

use super::client::Client;
use super::definitions::DefinitionRequests;
use super::link_requests::LinkRequests;
use super::links::{Links, SUBSCRIPTION_BINDINGS_MAX};
use super::{Handled, access};
use meta::{Command, ExchangeKind, Name, Permission, QueueId, Resource};
use queue_type::DeleteConditions;
use queues::QueueRef;
use routing::{Binding, Destination, MATCH_KEY, NO_LOCAL, SQL_SELECTOR};
use session::{
    Attachment, Control, Error, ErrorKind, Event, ExchangeDeclaration, LinkEvent, LinkId,
    PublishTarget, QueueBinding, QueueDeclaration, ShortString, Subscribe, Subscription,
    SubscriptionKind, TOPIC_EXCHANGE, Table, Topic, TopicEvent, TopicOp, Value,
};
use std::sync::Arc;

/// The argument of a binding of a subscription that has several consumers.
const SHARED: &str = "x-jms-shared";
/// How often a subscription is made that others change at the same time.
const SUBSCRIBE_TRIES_MAX: usize = 4;

/// The requests of a client that has topics.
pub(super) struct TopicRequests<'s> {
    pub(super) client: &'s mut Client,
    pub(super) links: &'s mut Links,
}

impl TopicRequests<'_> {
    pub(super) async fn act(&mut self, control: &Control, op: &TopicOp) -> Result<Handled, Error> {
        match op {
            TopicOp::MakeExchange => {
                // A message that is published without the exchange is refused.
                drop(self.need_exchange().await);
                Ok(Handled::Answered)
            }
            TopicOp::Publish(topic) => self.attach_publisher(control, topic, None).await,
            TopicOp::Make => self.make_topic(control, None).await,
            TopicOp::Subscribe(subscribe) => self.subscribe(control, subscribe).await,
            TopicOp::SubscribeToOwn(consumer) => self.make_topic(control, Some(consumer)).await,
            TopicOp::LookUp { queue, consumer } => self.look_up(control, queue, consumer).await,
            TopicOp::Unsubscribe { link, queue } => self.unsubscribe(*link, queue).await,
        }
    }

    fn of_links(&mut self) -> LinkRequests<'_> {
        LinkRequests { client: self.client, links: self.links }
    }

    /// Makes the exchange of topics, unless it is there.
    async fn need_exchange(&mut self) -> Result<(), Error> {
        let (name, vhost) = (Name::from(TOPIC_EXCHANGE), self.client.access.vhost());
        if let Some(found) = self.client.access.view.meta.exchange(&vhost, &name) {
            if found.kind == ExchangeKind::JmsTopic {
                return Ok(());
            }
            let exchange = Resource::exchange(&vhost, &name);
            let text = format!("{exchange} is not of type 'x-jms-topic'");
            return Err(Error::new(ErrorKind::PreconditionFailed, text));
        }
        let declare = ExchangeDeclaration {
            exchange: ShortString::from_static(TOPIC_EXCHANGE),
            kind: ShortString::from_static(ExchangeKind::JmsTopic.as_str()),
            passive: false,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Table::new(),
        };
        DefinitionRequests(self.client).declare_exchange(&declare).await?;
        self.client.access.refresh();
        Ok(())
    }

    async fn attach_publisher(
        &mut self,
        control: &Control,
        topic: &Topic,
        made: Option<QueueId>,
    ) -> Result<Handled, Error> {
        self.need_exchange().await?;
        if topic.is_temporary {
            self.find_topic(&topic.name)?;
        }
        let target = PublishTarget {
            exchange: ShortString::from_static(TOPIC_EXCHANGE),
            routing_key: Some(topic.name.clone()),
        };
        self.of_links().attach_publisher(control, Some(&target), made)
    }

    /// The queue that stands for a topic which was made for a link.
    fn find_topic(&self, name: &ShortString) -> Result<QueueRef, Error> {
        let name = access::text(name)?;
        let found = self.client.access.find_queue(&name).ok();
        found.filter(|queue| queue.def().exclusive_owner.is_some()).ok_or_else(|| {
            let vhost = self.client.access.vhost();
            let text = format!("no temporary topic '{name}' in vhost '{vhost}'");
            Error::new(ErrorKind::NotFound, text)
        })
    }

    /// Makes a topic for a consumer, whose queue stands for it, or for a publisher: then an exclusive queue
    /// does to which nothing leads.
    async fn make_topic(
        &mut self,
        control: &Control,
        consumer: Option<&Attachment>,
    ) -> Result<Handled, Error> {
        self.need_exchange().await?;
        let length = (ShortString::from_static("x-max-length"), Value::I64(0));
        let arguments = consumer.is_none().then_some(length).into_iter().collect();
        let name = self.make_queue(control, "jms.temp-", arguments).await?;
        let topic = ShortString::truncated(&name);
        let made = TopicEvent::Made { origin: control.origin, topic: topic.clone() };
        self.client.turn.tell(|sink| sink.event(Event::Link(LinkEvent::Topic(made.clone()))));
        let Some(consumer) = consumer else {
            let made = self.client.access.find_queue(&name)?.id();
            let topic = Topic { name: topic, is_temporary: true };
            return self.attach_publisher(control, &topic, Some(made)).await;
        };
        let subscription =
            Subscription { topic, kind: SubscriptionKind::Own, selector: None, no_local: false };
        self.bind_and_attach(control, &name, &subscription, consumer).await
    }

    /// Makes an exclusive queue of the client's, which goes with its last consumer if it has had one.
    async fn make_queue(
        &mut self,
        control: &Control,
        prefix: &str,
        arguments: Table,
    ) -> Result<Name, Error> {
        let declare = QueueDeclaration {
            queue: ShortString::default(),
            passive: false,
            durable: false,
            exclusive: true,
            auto_delete: true,
            arguments,
        };
        let requests = &mut DefinitionRequests(self.client);
        Ok(requests.declare_named(control.channel, &declare, prefix).await?.name)
    }

    async fn subscribe(
        &mut self,
        control: &Control,
        subscribe: &Subscribe,
    ) -> Result<Handled, Error> {
        self.need_exchange().await?;
        let Subscribe { subscription, is_temporary, queue, consumer } = subscribe;
        if *is_temporary {
            let topic = self.find_topic(&subscription.topic)?;
            self.client.access.check_exclusive_access(&topic)?;
        }
        let Some(queue) = queue else {
            let name = self.make_queue(control, "jms.sub-", Table::new()).await?;
            self.tell_subscribed(control, subscription, &name);
            return self.bind_and_attach(control, &name, subscription, consumer).await;
        };
        let name = access::text(queue)?;
        for _ in 0..SUBSCRIBE_TRIES_MAX {
            self.client.access.require_on_queue(Permission::Configure, &name)?;
            let Ok(found) = self.client.access.find_loaded_queue(&name).await else {
                self.declare(control, queue, subscription).await?;
                self.client.access.refresh();
                continue;
            };
            if self.subscription_of(&found).as_ref() == Some(subscription) {
                self.tell_subscribed(control, subscription, &name);
                let exclusive = !subscription.kind.is_shared();
                return self.attach(control, &name, consumer, exclusive).await;
            }
            self.replace(&found, subscription).await?;
        }
        let text = format!("subscription '{name}' is changed by others");
        Err(Error::new(ErrorKind::ResourceLocked, text))
    }

    /// Deletes a subscription that another one replaces, unless it is in use.
    async fn replace(&mut self, found: &QueueRef, by: &Subscription) -> Result<(), Error> {
        let name = &found.def().name;
        let refused = |kind, text| Err(Error::new(kind, format!("subscription '{name}' {text}")));
        if let Some(old) = self.subscription_of(found)
            && old.kind != by.kind
        {
            let text = if old.kind.is_shared() { "is shared" } else { "is not shared" };
            return refused(ErrorKind::PreconditionFailed, text);
        }
        if !self.delete_unused(found).await? {
            let text = "is in use, with another topic or selector";
            return refused(ErrorKind::ResourceLocked, text);
        }
        self.client.access.refresh();
        Ok(())
    }

    /// Deletes a subscription's queue; false if it has consumers.
    async fn delete_unused(&self, queue: &QueueRef) -> Result<bool, Error> {
        let conditions = DeleteConditions { if_unused: true, if_empty: false };
        if queue.begin_delete(conditions).await.is_err() {
            return Ok(false);
        }
        self.client.access.change(&Command::DeleteQueueById { id: queue.id() }).await?;
        Ok(true)
    }

    /// Declares the queue of a named subscription, and binds it.
    async fn declare(
        &mut self,
        control: &Control,
        queue: &ShortString,
        subscription: &Subscription,
    ) -> Result<(), Error> {
        let kind = (ShortString::from_static("x-queue-type"), Value::from("classic"));
        let declare = QueueDeclaration {
            queue: queue.clone(),
            passive: false,
            durable: subscription.kind.is_durable(),
            exclusive: false,
            auto_delete: !subscription.kind.is_durable(),
            arguments: [kind].into_iter().collect(),
        };
        DefinitionRequests(self.client).declare_or_find(control.channel, &declare).await?;
        let bound = self.bind(control, queue, subscription).await;
        if bound.is_err()
            && let Ok(made) = self.client.access.find_queue(&access::text(queue)?)
        {
            self.delete_unused(&made).await?;
        }
        bound
    }

    async fn bind(
        &mut self,
        control: &Control,
        queue: &ShortString,
        subscription: &Subscription,
    ) -> Result<(), Error> {
        let binding = QueueBinding {
            queue: queue.clone(),
            exchange: ShortString::from_static(TOPIC_EXCHANGE),
            routing_key: subscription.topic.clone(),
            arguments: self.arguments_of(subscription),
        };
        let requests = &mut DefinitionRequests(self.client);
        requests.bind_queue(control.channel, &binding, "bind", Command::Bind).await.map(drop)
    }

    /// The arguments of a subscription's binding.
    fn arguments_of(&self, subscription: &Subscription) -> Table {
        let selector = subscription.selector.as_deref().map(|text| (SQL_SELECTOR, text.into()));
        let container = || self.client.access.container_id().unwrap_or_default().into();
        let no_local = subscription.no_local.then(|| (NO_LOCAL, container()));
        let shared = subscription.kind.is_shared().then_some((SHARED, Value::Bool(true)));
        let all = [Some((MATCH_KEY, Value::Bool(true))), selector, no_local, shared];
        let named = |(name, value)| (ShortString::from_static(name), value);
        all.into_iter().flatten().map(named).collect()
    }

    /// The subscription whose queue this is, as its only binding says it.
    fn subscription_of(&self, queue: &QueueRef) -> Option<Subscription> {
        let routes = self.client.access.view.meta.routes(&self.client.access.vhost())?;
        let destination = Destination::Queue(queue.id());
        let of_topics = |binding: &Arc<Binding>| binding.source.as_str() == TOPIC_EXCHANGE;
        let bindings = routes.bindings_to(&destination).take(SUBSCRIPTION_BINDINGS_MAX);
        let mut bindings = bindings.filter(|it| of_topics(it));
        let binding = bindings.next().filter(|_| bindings.next().is_none())?;
        let arguments = &binding.arguments;
        let is_shared = arguments.get(SHARED.as_bytes()).is_some();
        let selector = arguments.get(SQL_SELECTOR.as_bytes()).and_then(Value::as_str);
        Some(Subscription {
            topic: ShortString::truncated(&String::from_utf8_lossy(&binding.key)),
            kind: match (queue.def().durable, is_shared) {
                (true, true) => SubscriptionKind::SharedDurable,
                (true, false) => SubscriptionKind::Durable,
                (false, true) => SubscriptionKind::Shared,
                (false, false) => SubscriptionKind::Own,
            },
            selector: selector.map(str::to_owned),
            no_local: arguments.get(NO_LOCAL.as_bytes()).is_some(),
        })
    }

    fn tell_subscribed(&mut self, control: &Control, subscription: &Subscription, queue: &Name) {
        let subscribed = TopicEvent::Subscribed {
            origin: control.origin,
            subscription: Box::new(subscription.clone()),
            queue: ShortString::truncated(queue),
        };
        self.client.turn.tell(|sink| sink.event(Event::Link(LinkEvent::Topic(subscribed.clone()))));
    }

    /// Binds a queue that was made for a consumer, and attaches that; if this fails the queue goes.
    async fn bind_and_attach(
        &mut self,
        control: &Control,
        queue: &Name,
        subscription: &Subscription,
        consumer: &Attachment,
    ) -> Result<Handled, Error> {
        let bound = self.bind(control, &ShortString::truncated(queue), subscription).await;
        let attached = match bound {
            Ok(()) => self.attach(control, queue, consumer, true).await,
            Err(error) => Err(error),
        };
        if attached.is_err()
            && let Ok(made) = self.client.access.find_queue(queue)
        {
            self.client.access.broker.changes().drop_queue(made.id()).await;
        }
        attached
    }

    async fn attach(
        &mut self,
        control: &Control,
        queue: &Name,
        consumer: &Attachment,
        exclusive: bool,
    ) -> Result<Handled, Error> {
        let queue = ShortString::truncated(queue);
        let consumer = Attachment { queue, exclusive, ..consumer.clone() };
        let attached = self.of_links().attach_consumer(control, &consumer).await;
        // The client may have it, but another one is there.
        attached.map_err(|error| match error.kind == ErrorKind::ExclusiveUse {
            true => Error { kind: ErrorKind::ResourceLocked, ..error },
            false => error,
        })
    }

    async fn look_up(
        &mut self,
        control: &Control,
        queue: &ShortString,
        consumer: &Attachment,
    ) -> Result<Handled, Error> {
        let name = access::text(queue)?;
        self.client.access.require_on_queue(Permission::Configure, &name)?;
        let found = self.client.access.find_queue(&name).ok();
        let Some(subscription) = found.and_then(|queue| self.subscription_of(&queue)) else {
            let vhost = self.client.access.vhost();
            let text = format!("no subscription '{name}' in vhost '{vhost}'");
            return Err(Error::new(ErrorKind::NotFound, text));
        };
        self.tell_subscribed(control, &subscription, &name);
        self.attach(control, &name, consumer, true).await
    }

    async fn unsubscribe(&mut self, link: LinkId, queue: &ShortString) -> Result<Handled, Error> {
        self.of_links().end_link(link).await;
        let name = access::text(queue)?;
        if self.client.access.require_on_queue(Permission::Configure, &name).is_ok()
            && let Ok(found) = self.client.access.find_queue(&name)
        {
            self.delete_unused(&found).await?;
        }
        Ok(Handled::Answered)
    }
}
