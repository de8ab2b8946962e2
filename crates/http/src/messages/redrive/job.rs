//! Messages on their way: read, sent on some at a time, and gone from their queue once they are where they
//! go. What finds no queue, or a full one, stays. Whoever holds a message meanwhile keeps it.

use super::Target;
use super::elsewhere::{Elsewhere, Stays};
use crate::Api;
use crate::caller::Caller;
use crate::jobs::{Job, JobState};
use crate::messages::look::Wanted;
use crate::messages::origin::{Origin, redriven};
use crate::messages::select::Picked;
use crate::refusal::Refusal;
use crate::turns::Place;
use broker::{Departed, Departure, Fate};
use inspect::LookFrom;
use message::{Annotations, MessageRef, OwnedMessage};
use meta::{Name, Permission, Resource, ResourceKind};
use queue_type::PickedMessage;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Messages that are on their way together, and the bytes of their bodies, but for the last.
const TOGETHER_MAX: usize = 256;
const TOGETHER_BYTES: u64 = 8 << 20;

pub(super) const NO_ORIGIN: &str = "not dead-lettered: no origin";
pub(super) const NO_EXCHANGE: &str = "the exchange does not exist";
const NOT_PERMITTED: &str = "no permission to publish";
const NOT_ROUTED: &str = "unroutable";
const REFUSED: &str = "rejected by a queue";
const GONE: &str = "consumed or removed meanwhile";
const TAKEN: &str = "moved, but delivered to a consumer meanwhile: the message is in both places";

/// Messages on their way.
pub(super) struct Redrive {
    pub(super) api: Arc<Api>,
    /// The user in whose name they are published.
    pub(super) caller: Caller,
    pub(super) vhost: Name,
    pub(super) wanted: Arc<Wanted>,
    pub(super) target: Target,
    /// The broker they go to, if it is another one.
    pub(super) elsewhere: Option<Elsewhere>,
    pub(super) clears_deaths: bool,
    /// Messages a second.
    pub(super) rate: Option<u64>,
    pub(super) job: Arc<Job>,
    pub(super) _turn: Place,
}

impl Redrive {
    /// Sends messages on, each told by its position and the size of its body, until the job is to end.
    pub(super) async fn run(mut self, picked: Picked) {
        let ended = self.send_all(&picked).await;
        if let Some(elsewhere) = self.elsewhere.take() {
            drop(spawn_blocking(move || elsewhere.close()).await);
        }
        self.api.management.broker.operations().durable().await;
        match ended {
            Ok(()) => self.job.set(JobState::Done),
            Err(refusal) => self.job.set(JobState::Failed(refusal.reason)),
        };
    }

    async fn send_all(&mut self, picked: &[PickedMessage]) -> Result<(), Refusal> {
        let mut rest = picked;
        while !rest.is_empty() && self.may_go_on().await {
            let (together, others) = rest.split_at(self.n_together(rest));
            rest = others;
            self.send(together).await?;
            if let Some(rate) = self.rate {
                let seconds = Duration::from_secs(together.len() as u64);
                sleep(seconds / u32::try_from(rate).unwrap_or(u32::MAX)).await;
            }
        }
        Ok(())
    }

    async fn may_go_on(&self) -> bool {
        match self.elsewhere {
            Some(_) => self.job.goes_on().await,
            None => self.job.may_publish(&self.api.management.broker).await,
        }
    }

    /// The number of messages, of the first of `rest`, that go together.
    fn n_together(&self, rest: &[PickedMessage]) -> usize {
        let mut bytes = 0;
        let within = |it: &&PickedMessage| {
            let is_within = bytes < TOGETHER_BYTES;
            bytes += it.body_bytes;
            is_within
        };
        let most = self.rate.map_or(TOGETHER_MAX, |rate| {
            usize::try_from(rate.div_ceil(10)).unwrap_or(usize::MAX).min(TOGETHER_MAX)
        });
        rest.iter().take(most).take_while(within).count().min(rest.len())
    }

    async fn send(&mut self, together: &[PickedMessage]) -> Result<(), Refusal> {
        let messages = self.read(together).await?;
        for gone in together.iter().filter(|it| !messages.contains_key(&it.position)) {
            self.job.note_stayed(gone.position, GONE);
        }
        let mut departures = Vec::with_capacity(messages.len());
        for (position, message) in messages {
            match self.departure(position, &message.message()) {
                Ok(departure) => departures.push(departure),
                Err(reason) => self.job.note_stayed(position, reason),
            }
        }
        match self.elsewhere.take() {
            Some(elsewhere) => self.send_elsewhere(elsewhere, departures).await,
            None => self.send_here(&departures).await,
        }
    }

    async fn send_here(&self, departures: &[Departure]) -> Result<(), Refusal> {
        let operations = self.api.management.broker.operations();
        let sent = operations.send_on(&self.wanted.queue, departures).await;
        let Departed { fates, n_left } = sent.map_err(|_| Refusal::internal())?;
        let stays = |fate| match fate {
            Fate::Arrived => None,
            Fate::NotRouted => Some(NOT_ROUTED),
            Fate::Refused => Some(REFUSED),
        };
        let places = departures.iter().map(|it| it.position).zip(fates.into_iter().map(stays));
        self.note(places, n_left);
        Ok(())
    }

    async fn send_elsewhere(
        &mut self,
        mut elsewhere: Elsewhere,
        departures: Vec<Departure>,
    ) -> Result<(), Refusal> {
        let sent = spawn_blocking(move || {
            let messages: Vec<_> = departures.iter().map(|it| it.message.message()).collect();
            let (stays, sent) = elsewhere.take(&messages);
            (elsewhere, departures, stays, sent)
        });
        let (elsewhere, departures, stays, sent) = sent.await.map_err(|_| Refusal::internal())?;
        self.elsewhere = Some(elsewhere);
        let arrived = departures.iter().zip(&stays).filter(|(_, stays)| stays.is_none());
        let picked = |it: &Departure| {
            let body_bytes = it.message.message().body.len() as u64;
            PickedMessage { position: it.position, body_bytes }
        };
        let arrived: Vec<_> = arrived.map(|(it, _)| picked(it)).collect();
        let operations = self.api.management.broker.operations();
        let n_left = operations.hand_over(&self.wanted.queue, &arrived);
        self.note(departures.iter().map(|it| it.position).zip(stays), n_left);
        sent.map_err(Refusal::bad_request)
    }

    /// Notes which messages stay, and that of those that do not so many left their queue.
    fn note(&self, places: impl Iterator<Item = (u64, Stays)>, n_left: u64) {
        let mut n_arrived = 0_u64;
        for (position, stays) in places {
            match stays {
                None => n_arrived += 1,
                Some(reason) => self.job.note_stayed(position, reason),
            }
        }
        self.job.note_done(n_left);
        self.job.note_all_stayed(n_arrived.saturating_sub(n_left), TAKEN);
    }

    /// Reads messages that are still there and still picked.
    async fn read(
        &self,
        together: &[PickedMessage],
    ) -> Result<BTreeMap<u64, OwnedMessage>, Refusal> {
        let (wanted, together) = (Arc::clone(&self.wanted), together.to_vec());
        let read = spawn_blocking(move || {
            let mut found = BTreeMap::new();
            let [PickedMessage { position: first, .. }, ..] = together[..] else {
                return Ok(found);
            };
            let last = together.last().map_or(first, |it| it.position);
            let mut look = wanted.look_from(LookFrom::Position(first), u64::MAX);
            let mut is_over = false;
            while !is_over {
                let goes_on = look.step(&mut |at| {
                    let position = at.seen.position;
                    if together.binary_search_by_key(&position, |it| it.position).is_ok() {
                        found.insert(position, OwnedMessage::new(&at.seen.message));
                    }
                    is_over = position >= last;
                    if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
                is_over |= !goes_on;
            }
            Ok(found)
        });
        read.await.unwrap_or_else(|_| Err(Refusal::internal()))
    }

    /// A message as it is to arrive, if it may go there; else why not.
    fn departure(
        &self,
        position: u64,
        message: &MessageRef<'_>,
    ) -> Result<Departure, &'static str> {
        let Origin { exchange, key } = self.target.of_message(message).ok_or(NO_ORIGIN)?;
        if self.elsewhere.is_none() {
            self.check(&exchange, &key)?;
        }
        let properties = redriven(message, self.clears_deaths);
        let dead_lettered = message.annotations.dead_lettered && !self.clears_deaths;
        let message = MessageRef {
            exchange: exchange.as_bytes(),
            routing_key: &key,
            properties: &properties,
            annotations: Annotations { dead_lettered, ..message.annotations },
            ..*message
        };
        Ok(Departure { position, message: OwnedMessage::new(&message) })
    }

    /// Whether the user may publish there.
    fn check(&self, exchange: &str, key: &[u8]) -> Result<(), &'static str> {
        let view = self.api.management.broker.view();
        let def = view.meta.exchange(&self.vhost, exchange).ok_or(NO_EXCHANGE)?;
        let resource = Resource {
            kind: ResourceKind::Exchange,
            name: Name::from(exchange),
            vhost: self.vhost.clone(),
        };
        let (users, user) = (view.meta.users(), &self.caller.user);
        let reason = users.access_reason(user, Permission::Write, &resource, Some(key));
        if reason.is_allowed() && !def.internal { Ok(()) } else { Err(NOT_PERMITTED) }
    }
}
