//! A queue whose messages are on another node.

use crate::commands::SessionCommand;
use crate::consumer::{ConsumerClient, RemoteConsumer};
use crate::home::{Home, Homes};
use crate::requests::{LinkTerms, SessionRequest, SessionResponse};
use confirm::DurabilityToken;
use log::NodeNumber;
use message::Refusal;
use meta::{ConfirmOn, Name, QueueDef};
use queue::{AckMode, Checkout, CreditMode, Return};
use queue_type::{
    Attach, AttachRefused, DeleteConditions, Owner, Publishes, QueueRefused, QueueStat, RefusedItem,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// A queue whose home, the node that has its messages, is another node.
#[derive(Debug)]
pub struct RemoteQueue {
    def: Arc<QueueDef>,
    home_name: Name,
    home: Arc<Home>,
    /// The place of the queue's `x-confirm-on` among all its values.
    confirm_on: AtomicU8,
    is_deleted: AtomicBool,
}

impl RemoteQueue {
    /// Makes the queue of a definition; `home` is the name of the other node.
    #[must_use]
    pub fn new(def: Arc<QueueDef>, home: Name, homes: &Homes) -> Arc<Self> {
        let node = NodeNumber(def.home.node);
        Arc::new(Self {
            def,
            home_name: home,
            home: homes.of(node),
            confirm_on: AtomicU8::new(0),
            is_deleted: AtomicBool::new(false),
        })
    }

    /// The queue's definition.
    #[must_use]
    pub const fn def(&self) -> &Arc<QueueDef> {
        &self.def
    }

    /// The name of the node that has the queue's messages.
    #[must_use]
    pub const fn home_name(&self) -> &Name {
        &self.home_name
    }

    pub(crate) const fn home(&self) -> &Arc<Home> {
        &self.home
    }

    /// Whether the queue's home can be reached.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.home.is_up()
    }

    /// The event upon which the queue's publishes are confirmed.
    #[must_use]
    pub fn confirm_on(&self) -> ConfirmOn {
        let place = usize::from(self.confirm_on.load(Ordering::Relaxed));
        ConfirmOn::ALL.get(place).copied().unwrap_or(ConfirmOn::Enqueue)
    }

    /// Takes the event upon which the queue's publishes are confirmed.
    pub fn set_confirm_on(&self, on: ConfirmOn) {
        self.confirm_on.store(on as u8, Ordering::Relaxed);
    }

    /// Sends messages to the queue's home, which answers their publishers. Without the home they are
    /// refused. A deleted queue takes messages silently, as those of this node do.
    pub fn publish(
        &self,
        publishes: &Publishes<'_, '_>,
        refused: &mut Vec<RefusedItem>,
    ) -> DurabilityToken {
        if self.is_deleted() {
            refused.extend(RefusedItem::awaited_by_deleted(publishes.messages));
            return DurabilityToken::default();
        }
        self.home.put(&self.def, publishes).unwrap_or_else(|| {
            let items = (0..).zip(&*publishes.messages).map(|(item, _)| item);
            let why = Refusal::Unavailable;
            refused.extend(items.map(|item| RefusedItem { item, why, dead_letter_to: None }));
            DurabilityToken::default()
        })
    }

    /// Whether publishers may go on: the home has taken most of what was sent to it.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.home.has_room()
    }

    /// Whether a publisher should let the consumers have their turn.
    #[must_use]
    pub fn slows_down(&self) -> bool {
        self.home.slows_down(self.def.id)
    }

    /// Resolves when publishers may go on.
    pub async fn room(&self) {
        self.home.room().await;
    }

    /// Attaches a consumer.
    ///
    /// # Errors
    /// The queue refuses it, or is down.
    pub async fn attach(
        self: &Arc<Self>,
        attach: Attach<'_>,
    ) -> Result<Arc<RemoteConsumer>, AttachRefused> {
        let client = ConsumerClient {
            outbox: Arc::clone(attach.outbox),
            link: attach.link,
            consumer_tag: attach.consumer_tag.clone(),
            answer: attach.answer,
            tally: attach.tally,
        };
        let link = RemoteConsumer::new(self, attach.channel, attach.checkout, Some(client));
        let owner = (attach.connection, attach.channel);
        let mut asked = attach.asked.clone();
        asked.consumer_tag = attach.consumer_tag.clone();
        let request = SessionRequest::Attach {
            terms: self.terms(owner, &link, attach.node_timeout_ms),
            checkout: attach.checkout,
            asked,
        };
        self.attach_link(link, &request).await
    }

    /// Attaches a link that gets only the messages it asks for.
    ///
    /// # Errors
    /// The queue refuses it, or is down.
    pub async fn attach_passive(
        self: &Arc<Self>,
        owner: Owner,
        settling: AckMode,
        node_timeout_ms: Option<u64>,
    ) -> Result<Arc<RemoteConsumer>, AttachRefused> {
        let checkout = Checkout { settling, credit_mode: CreditMode::Unlimited, priority: 0 };
        let link = RemoteConsumer::new(self, owner.1, checkout, None);
        let terms = self.terms(owner, &link, node_timeout_ms);
        self.attach_link(link, &SessionRequest::AttachPassive { terms, settling }).await
    }

    fn terms(
        &self,
        owner: Owner,
        link: &RemoteConsumer,
        node_timeout_ms: Option<u64>,
    ) -> LinkTerms {
        let (connection, channel) = owner;
        LinkTerms { queue: self.def.id, link: link.number(), connection, channel, node_timeout_ms }
    }

    /// Attaches a link. It is detached if the caller gives up before the answer.
    async fn attach_link(
        &self,
        link: Arc<RemoteConsumer>,
        request: &SessionRequest,
    ) -> Result<Arc<RemoteConsumer>, AttachRefused> {
        let mut pending = PendingLink { home: &self.home, number: Some(link.number()) };
        match self.home.ask(request, Some(&link)).await {
            Some(SessionResponse::Done) => {
                pending.number = None;
                Ok(link)
            }
            Some(SessionResponse::AttachRefused(refused)) => Err(refused),
            Some(_) | None => Err(self.refuse_attach()),
        }
    }

    /// Notes that the queue is in use.
    pub fn touch(&self) {
        let _is_up = self.home.command(&SessionCommand::Touch(self.def.id));
    }

    /// Drops every ready message; returns how many.
    ///
    /// # Errors
    /// The queue refuses it, or is down.
    pub async fn purge(&self) -> Result<u64, QueueRefused> {
        self.count(&SessionRequest::Purge(self.def.id)).await
    }

    /// The queue's figures: those of messages and consumers.
    ///
    /// # Errors
    /// The queue is down.
    pub async fn stat(&self) -> Result<QueueStat, QueueRefused> {
        match self.home.ask(&SessionRequest::Stat(self.def.id), None).await {
            Some(SessionResponse::Stat(stat)) => Ok(stat),
            Some(SessionResponse::Refused(refused)) => Err(refused),
            Some(_) | None => Err(self.refuse()),
        }
    }

    async fn count(&self, request: &SessionRequest) -> Result<u64, QueueRefused> {
        match self.home.ask(request, None).await {
            Some(SessionResponse::Count(n)) => Ok(n),
            Some(SessionResponse::Refused(refused)) => Err(refused),
            Some(_) | None => Err(self.refuse()),
        }
    }

    /// Begins to delete the queue if the conditions hold; returns the number of ready messages that will go
    /// with it. Without the home the definition goes alone, and the home drops the messages once it is back:
    /// no message is said to go. COMPAT: as RabbitMQ, whatever consumers the queue had.
    ///
    /// # Errors
    /// A condition does not hold; or the queue is to be empty, which nobody knows.
    pub async fn begin_delete(&self, conditions: DeleteConditions) -> Result<u64, QueueRefused> {
        match self.count(&SessionRequest::BeginDelete(self.def.id, conditions)).await {
            Err(QueueRefused::HomeDown(_)) if conditions.if_empty => Err(QueueRefused::NotEmpty),
            Err(QueueRefused::HomeDown(_)) => Ok(0),
            answer => answer,
        }
    }

    /// The refusal of a consumer and of a `basic.get` while the home is down.
    #[must_use]
    pub fn refuse_attach(&self) -> AttachRefused {
        AttachRefused::HomeDown(self.explanation())
    }

    /// The refusal of any other request with an answer while the home is down.
    #[must_use]
    pub fn refuse(&self) -> QueueRefused {
        QueueRefused::HomeDown(self.explanation())
    }

    /// The text of all refusals. COMPAT: RabbitMQ's for durable queues; it deletes the other queues of a node
    /// that goes down.
    #[must_use]
    pub fn explanation(&self) -> String {
        let (home, resource) = (&self.home_name, self.def.resource());
        let durable = if self.def.durable { "durable " } else { "" };
        format!("home node '{home}' of {durable}{resource} is down or inaccessible")
    }

    /// Notes that the queue is deleted.
    pub fn delete(&self) {
        self.is_deleted.store(true, Ordering::Release);
    }

    /// Whether the queue is deleted.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.is_deleted.load(Ordering::Acquire)
    }
}

/// A link that is being attached: given up if nobody takes it.
struct PendingLink<'h> {
    home: &'h Home,
    number: Option<u64>,
}

impl Drop for PendingLink<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            self.home.detach(vec![number], Return::Released);
        }
    }
}
