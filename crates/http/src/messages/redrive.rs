//! Messages that are sent on: each is routed and confirmed where it goes before it leaves its queue. What
//! finds no queue, or a full one, stays. Whoever holds a message meanwhile keeps it.

use super::import::publisher;
use super::look::{Wanted, number, permitted};
use super::origin::{Origin, redriven};
use super::select::{Picked, Selection};
use crate::Api;
use crate::call::{Answer, Call, Outcome};
use crate::caller::Caller;
use crate::jobs::{Job, JobState};
use crate::objects::{flag, text};
use crate::refusal::Refusal;
use crate::searches::SearchTurn;
use crate::user_session::{Told, UserSession, unexpected};
use axum::body::Bytes;
use axum::http::StatusCode;
use broker::LookFrom;
use message::OwnedMessage;
use meta::{Name, Permission, Resource, ResourceKind};
use serde_json::{Map, Value, json};
use session::{Confirmation, Op};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Messages that are on their way together, and the bytes of their bodies, but for the last.
const TOGETHER_MAX: usize = 256;
const TOGETHER_BYTES: u64 = 8 << 20;
/// Targets that a dry run tells apart.
const TARGETS_MAX: usize = 1_000;

/// Where messages go.
#[derive(Clone)]
enum Target {
    /// To the exchange and by the key that each had when it died first.
    Origin,
    To(Origin),
}

impl Target {
    fn of(fields: &Map<String, Value>) -> Result<Self, Refusal> {
        let to = match fields.get("to") {
            Some(Value::String(word)) if word == "origin" => return Ok(Self::Origin),
            Some(Value::Object(to)) => to,
            _ => {
                let text =
                    "to is origin, or an object with a queue, or with an exchange and routing_key";
                return Err(Refusal::bad_request(text));
            }
        };
        let (exchange, key) = match to.get("queue") {
            Some(_) => ("", text(to, "queue")?),
            None => (text(to, "exchange")?, text(to, "routing_key")?),
        };
        crate::objects::short(key)?;
        let exchange = if exchange == "amq.default" { "" } else { exchange };
        Ok(Self::To(Origin { exchange: exchange.to_owned(), key: key.as_bytes().to_vec() }))
    }

    fn of_message(&self, message: &message::MessageRef<'_>) -> Option<Origin> {
        match self {
            Self::Origin => Origin::of(message),
            Self::To(target) => Some(target.clone()),
        }
    }
}

/// Sends messages on, or tells which and where to.
pub(crate) async fn begin(call: &Call) -> Outcome {
    let fields = call.object()?;
    let target = Target::of(&fields)?;
    let selection = Selection::of(call, &fields)?;
    permitted(call, Permission::Read)?;
    let caller = publisher(call)?;
    let turn = call.api.turns.search(&call.caller.user)?;
    let api = Arc::clone(&call.api);
    let counted = target.clone();
    let picked = spawn_blocking(move || {
        let mut targets = BTreeMap::new();
        let picked = selection.pick_each(&api, &mut |message| {
            let target = counted.of_message(message);
            if targets.len() < TARGETS_MAX || targets.contains_key(&target) {
                *targets.entry(target).or_insert(0_u64) += 1;
            }
        });
        picked.map(|(picked, first)| (selection, picked, first, targets))
    });
    let picked = picked.await.unwrap_or_else(|_| Err(Refusal::internal()));
    let (selection, picked, first, targets) = picked?;
    if flag(&fields, "dry_run")? {
        return Ok(Answer::Raw(told(call, &picked, &first, &targets)));
    }
    let rate = number(&fields, "rate")?.filter(|rate| *rate > 0);
    let mut what = Value::Object(fields.clone());
    crate::objects::put_field(&mut what, "queue", call.param("name").into());
    crate::objects::put_field(&mut what, "vhost", call.param("vhost").into());
    let n_total = picked.len() as u64;
    let job = call.api.turns.jobs.begin(&call.caller.user, what, n_total);
    let redrive = Redrive {
        api: Arc::clone(&call.api),
        caller,
        vhost: call.name("vhost"),
        wanted: Arc::new(selection.wanted),
        target,
        clears_deaths: flag(&fields, "clear_deaths")?,
        rate,
        job: Arc::clone(&job),
        _turn: turn,
    };
    tokio::spawn(redrive.run(picked));
    Ok(Answer::Status(StatusCode::ACCEPTED, json!({"job": job.id(), "total": n_total})))
}

fn told(
    call: &Call,
    picked: &Picked,
    first: &[Vec<u8>],
    targets: &BTreeMap<Option<Origin>, u64>,
) -> Vec<u8> {
    let view = call.view();
    let target = |(target, n): (&Option<Origin>, &u64)| match target {
        None => json!({"messages": n, "problem": NO_ORIGIN}),
        Some(target) => {
            let is_there = view.meta.exchange(call.param("vhost"), &target.exchange).is_some();
            json!({
                "messages": n,
                "exchange": target.exchange,
                "routing_key": String::from_utf8_lossy(&target.key),
                "problem": (!is_there).then_some(NO_EXCHANGE),
            })
        }
    };
    let targets: Value = targets.iter().map(target).collect();
    let mut out = format!("{{\"targets\":{targets},").into_bytes();
    let rest = super::remove::told(picked.len() as u64, first);
    out.extend_from_slice(rest.get(1..).unwrap_or_default());
    out
}

const NO_ORIGIN: &str = "it has not been dead-lettered: it has no origin";
const NO_EXCHANGE: &str = "there is no such exchange";
const NOT_PERMITTED: &str = "the user may not publish there";
const OTHER_USER: &str = "its property user_id names another user";
const NOT_ROUTED: &str = "no queue is bound for it";
const REFUSED: &str = "a queue has refused it";
const UNCONFIRMED: &str = "it was not confirmed: it may be at both places";
const GONE: &str = "it was taken, or is gone, meanwhile";
const TAKEN: &str = "it was sent on, and taken by a consumer meanwhile: it is at both places";

/// Messages on their way.
struct Redrive {
    api: Arc<Api>,
    /// The user in whose name they are published.
    caller: Caller,
    vhost: Name,
    wanted: Arc<Wanted>,
    target: Target,
    clears_deaths: bool,
    /// Messages a second.
    rate: Option<u64>,
    job: Arc<Job>,
    _turn: SearchTurn,
}

/// A message that waits for its confirm.
type Waiting = BTreeMap<u64, (u64, u64)>;

impl Redrive {
    async fn run(self, picked: Picked) {
        let ended = match UserSession::open(&self.api, &self.caller, &self.vhost).await {
            Ok(mut session) => {
                let ended = self.send_all(&mut session, &picked).await;
                session.close().await;
                ended
            }
            Err(refusal) => Err(refusal),
        };
        self.api.management.broker.operations().durable().await;
        match ended {
            Ok(()) => self.job.set(JobState::Done),
            Err(refusal) => self.job.set(JobState::Failed(refusal.reason)),
        };
    }

    async fn send_all(&self, session: &mut UserSession, picked: &Picked) -> Result<(), Refusal> {
        session.ask(Op::EnableConfirms).await?;
        let (mut rest, mut number) = (&picked[..], 0);
        while !rest.is_empty() && self.job.goes_on().await {
            let mut bytes = 0;
            let within = |(_, body_bytes): &&(u64, u64)| {
                let is_within = bytes < TOGETHER_BYTES;
                bytes += body_bytes;
                is_within
            };
            let most = self.rate.map_or(TOGETHER_MAX, |rate| {
                usize::try_from(rate.div_ceil(10)).unwrap_or(usize::MAX).min(TOGETHER_MAX)
            });
            let n = rest.iter().take(most).take_while(within).count();
            let (together, others) = rest.split_at(n.min(rest.len()));
            rest = others;
            self.send(session, together, &mut number).await?;
            if let Some(rate) = self.rate {
                sleep(
                    Duration::from_secs(together.len() as u64)
                        / u32::try_from(rate).unwrap_or(u32::MAX),
                )
                .await;
            }
        }
        Ok(())
    }

    /// Sends messages, and drops those that have arrived.
    async fn send(
        &self,
        session: &mut UserSession,
        together: &[(u64, u64)],
        number: &mut u64,
    ) -> Result<(), Refusal> {
        let messages = self.read(together).await?;
        for (position, _) in together.iter().filter(|(at, _)| !messages.contains_key(at)) {
            self.job.note_stayed(*position, GONE);
        }
        let (mut waiting, mut arrived) = (Waiting::new(), Vec::new());
        for (position, message) in messages {
            let message = message.message();
            let target = match self.checked(&message) {
                Ok(target) => target,
                Err(reason) => {
                    self.job.note_stayed(position, reason);
                    continue;
                }
            };
            let properties = redriven(&message, self.clears_deaths);
            let body = Bytes::copy_from_slice(message.body.bytes());
            let size = body.len() as u64;
            *number += 1;
            let address = (&*target.exchange, &*target.key);
            if session.send(address, &properties, body).await? {
                self.job.note_stayed(position, NOT_ROUTED);
            } else {
                waiting.insert(*number, (position, size));
            }
        }
        let confirmed = self.confirmed(session, *number, &mut waiting, &mut arrived).await;
        for (position, _) in waiting.values() {
            self.job.note_stayed(*position, UNCONFIRMED);
        }
        arrived.sort_unstable();
        let operations = self.api.management.broker.operations();
        let n_removed = operations.remove_messages(&self.wanted.queue, &arrived);
        self.job.note_done(n_removed);
        let n_taken = (arrived.len() as u64).saturating_sub(n_removed);
        self.job.note_all_stayed(n_taken, TAKEN);
        confirmed
    }

    /// Waits for the confirms up to a number. Those that are refused stay.
    async fn confirmed(
        &self,
        session: &UserSession,
        upto: u64,
        waiting: &mut Waiting,
        arrived: &mut Vec<(u64, u64)>,
    ) -> Result<(), Refusal> {
        while !waiting.is_empty() {
            let (first, last, answer) = match session.next().await? {
                Told::Confirmed(first, last, answer) => (first, last.min(upto), answer),
                other @ (Told::Done | Told::Empty | Told::Got(_)) => return unexpected(&other),
            };
            for number in first..=last {
                let Some((position, size)) = waiting.remove(&number) else { continue };
                match answer {
                    Confirmation::Ack => arrived.push((position, size)),
                    Confirmation::Nack => self.job.note_stayed(position, REFUSED),
                }
            }
        }
        Ok(())
    }

    /// Reads messages that are still there and still picked.
    async fn read(&self, together: &[(u64, u64)]) -> Result<BTreeMap<u64, OwnedMessage>, Refusal> {
        let (wanted, together) = (Arc::clone(&self.wanted), together.to_vec());
        let read = spawn_blocking(move || {
            let mut found = BTreeMap::new();
            let [(first, _), ..] = together[..] else { return Ok(found) };
            let last = together.last().map_or(first, |(at, _)| *at);
            let mut look = wanted.look_from(LookFrom::Position(first), u64::MAX);
            let mut is_over = false;
            while !is_over {
                let goes_on = look.step(&mut |at| {
                    let position = at.seen.position;
                    if together.binary_search_by_key(&position, |(at, _)| *at).is_ok() {
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

    /// The target of a message, if it can be sent there; else why not.
    fn checked(&self, message: &message::MessageRef<'_>) -> Result<Origin, &'static str> {
        let view = self.api.management.broker.view();
        let target = self.target.of_message(message).ok_or(NO_ORIGIN)?;
        view.meta.exchange(&self.vhost, &target.exchange).ok_or(NO_EXCHANGE)?;
        let resource = Resource {
            kind: ResourceKind::Exchange,
            name: Name::from(&*target.exchange),
            vhost: self.vhost.clone(),
        };
        let (users, user) = (view.meta.users(), &self.caller.user);
        let key = Some(&*target.key);
        if !users.access_reason(user, Permission::Write, &resource, key).is_allowed() {
            return Err(NOT_PERMITTED);
        }
        let said = message.view().user_id();
        if said.is_some_and(|said| said != user.as_bytes()) { Err(OTHER_USER) } else { Ok(target) }
    }
}
