//! Messages in NDJSON, published line by line as they come in: to an exchange, or by the default one to a
//! queue.

use super::line::{Line, LineError, parse_line};
use crate::body::Incoming;
use crate::call::{Answer, Call, Outcome};
use crate::caller::Caller;
use crate::memory::Holding;
use crate::objects::exchanges;
use crate::refusal::Refusal;
use crate::stream::PIECE_BYTES;
use crate::user_session::{Told, UserSession, unexpected};
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use meta::{Name, Permission, Resource, ResourceKind};
use serde_json::{Map, Value, json};
use session::Op;
use std::collections::BTreeMap;
use tokio::task::yield_now;

/// Messages that wait for their confirms; one that is longer than a piece waits alone.
const WINDOW: usize = 64;
/// Lines after which others have their turn.
const SLICE: u64 = 64;
/// Lines that a report names for each reason.
const SHOWN_MAX: usize = 20;
/// Bytes that are still read of a body once it is refused, so that its sender hears why.
const DRAINED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Imports to an exchange, by the routing key of each line or one for all.
pub(crate) async fn to_exchange(call: &Call, body: Body) -> Outcome {
    let exchange = exchanges::name(call);
    if call.view().meta.exchange(call.param("vhost"), exchange).is_none() {
        return Err(Refusal::lacks("exchange_not_found"));
    }
    import(call, body, exchange, call.query.get("routing_key")).await
}

/// Imports to a queue.
pub(crate) async fn to_queue(call: &Call, body: Body) -> Outcome {
    let (view, name) = (call.view(), call.param("name"));
    let vhost = crate::call::vhost(&view.meta, call)?;
    vhost.queue(name).ok_or_else(|| Refusal::lacks("queue_not_found"))?;
    import(call, body, "", Some(name)).await
}

async fn import(call: &Call, body: Body, exchange: &str, key: Option<&str>) -> Outcome {
    let publisher = publisher(call)?;
    check_right(call, &publisher, exchange)?;
    let lines = Lines {
        body: Incoming::new(body, call.caller.peer.limits.idle_timeout()),
        came: Bytes::new(),
        line: Vec::new(),
        bytes_max: call.api.settings.body_bytes_max,
        holding: call.holding.as_deref(),
    };
    let session = UserSession::open(&call.api, &publisher, call.param("vhost")).await?;
    let mut import = Import {
        call,
        session,
        lines,
        exchange,
        key,
        n_lines: 0,
        is_heavy: false,
        waiting: BTreeMap::new(),
        report: Report::default(),
    };
    let ended = import.run().await;
    let unconfirmed = import.waiting.len();
    import.session.close().await;
    let Err(refusal) = ended else { return Ok(Answer::Json(import.report.to_json().into())) };
    if call.course.end().is_none() {
        import.lines.drain().await;
    }
    let (line, n_published) = (import.n_lines, import.report.n_published);
    let reason = format!("line {line}: {}; {n_published} messages published", refusal.reason);
    let mut answer = import.report.to_json();
    answer.extend([
        ("error".to_owned(), refusal.error.into()),
        ("reason".to_owned(), reason.into()),
        ("line".to_owned(), line.into()),
        ("unconfirmed".to_owned(), unconfirmed.into()),
    ]);
    Ok(Answer::Status(refusal.status, Value::Object(answer)))
}

/// Refuses who may not publish there before anything of the body is read.
fn check_right(call: &Call, publisher: &Caller, exchange: &str) -> Result<(), Refusal> {
    let (kind, vhost) = (ResourceKind::Exchange, call.name("vhost"));
    let resource = Resource { kind, name: Name::from(exchange), vhost };
    let view = call.view();
    Ok(view.meta.users().check_access(&publisher.user, Permission::Write, &resource)?)
}

/// The user who publishes: the caller, or the user whom an operator of this machine names.
pub(super) fn publisher(call: &Call) -> Result<Caller, Refusal> {
    if !call.caller.is_local() {
        return Ok(call.caller.clone());
    }
    let user = call.query.get("user").unwrap_or_default();
    let is_there = call.view().meta.users().get(user).is_some();
    let text = || format!("`user` must name a user, and '{user}' does not exist");
    is_there.then(|| call.caller.in_the_name_of(user)).ok_or_else(|| Refusal::bad_request(text()))
}

/// An import on its way.
struct Import<'c> {
    call: &'c Call,
    session: UserSession,
    lines: Lines<'c>,
    /// The exchange, and the routing key if it is one for all.
    exchange: &'c str,
    /// The routing key of all messages; `None` if each has its own.
    key: Option<&'c str>,
    n_lines: u64,
    /// Whether the last message was a long one.
    is_heavy: bool,
    /// Messages without a confirm by their numbers: line and routing key.
    waiting: BTreeMap<u64, (u64, Vec<u8>)>,
    report: Report,
}

impl Import<'_> {
    async fn run(&mut self) -> Result<(), Refusal> {
        self.session.ask(Op::EnableConfirms).await?;
        let ended = self.publish_all().await;
        // Confirms are awaited after an error too: the report tells what was published before.
        while !self.waiting.is_empty() {
            let confirmed = self.confirmed().await;
            if confirmed.is_err() {
                return ended.and(confirmed);
            }
        }
        ended
    }

    async fn publish_all(&mut self) -> Result<(), Refusal> {
        let mut n_sent = 0;
        loop {
            self.n_lines += 1;
            if self.n_lines.is_multiple_of(SLICE) {
                yield_now().await;
                self.call.course.check()?;
            }
            let told = |LineError(reason)| Refusal::bad_request(reason);
            let line = match self.lines.next().await? {
                None => return Ok(()),
                Some(line) if line.trim_ascii().is_empty() => continue,
                Some(line) if line.len() <= PIECE_BYTES => parse_line(line).map_err(told)?,
                Some(_) => {
                    let line = std::mem::take(&mut self.lines.line);
                    self.call.beside(move |_| parse_line(&line).map_err(told)).await?
                }
            };
            self.is_heavy |= line.payload.len() > PIECE_BYTES;
            let n_waiting_max = if std::mem::take(&mut self.is_heavy) { 1 } else { WINDOW };
            while self.waiting.len() >= n_waiting_max {
                self.confirmed().await?;
            }
            self.is_heavy = line.payload.len() > PIECE_BYTES;
            n_sent += 1;
            self.publish(n_sent, line).await?;
        }
    }

    async fn publish(&mut self, number: u64, line: Line) -> Result<(), Refusal> {
        let Line { routing_key, properties, payload } = line;
        let (exchange, key) = (self.exchange, self.key);
        let key = key.map_or(routing_key, |key| key.as_bytes().to_vec());
        let was_returned = self.session.send(exchange, &key, &properties, payload).await?;
        if was_returned {
            self.report.n_not_routed += 1;
            Report::note(&mut self.report.not_routed, self.n_lines, &key);
        }
        self.waiting.insert(number, (self.n_lines, key));
        Ok(())
    }

    /// Waits for the next confirm.
    async fn confirmed(&mut self) -> Result<(), Refusal> {
        let (first, last, is_refused) = match self.session.next().await? {
            Told::Confirmed { first, last, is_refused } => (first, last, is_refused),
            other @ (Told::Done | Told::Empty | Told::Got(_)) => {
                return unexpected(&other);
            }
        };
        for number in first..=last {
            let Some((line, key)) = self.waiting.remove(&number) else { continue };
            match is_refused {
                false => self.report.n_published += 1,
                true => Report::note(&mut self.report.refused, line, &key),
            }
        }
        Ok(())
    }
}

/// The course of an import.
#[derive(Debug, Default)]
struct Report {
    /// Messages that were confirmed, those among them that no queue got too.
    n_published: u64,
    n_not_routed: u64,
    not_routed: Vec<Value>,
    refused: Vec<Value>,
}

impl Report {
    fn note(list: &mut Vec<Value>, line: u64, key: &[u8]) {
        if list.len() < SHOWN_MAX {
            list.push(json!({"line": line, "routing_key": String::from_utf8_lossy(key)}));
        }
    }

    fn to_json(&self) -> Map<String, Value> {
        let fields = [
            ("published", self.n_published.into()),
            ("routed", self.n_published.saturating_sub(self.n_not_routed).into()),
            ("not_routed", self.not_routed.clone().into()),
            ("refused", self.refused.clone().into()),
        ];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// The lines of a body as it comes in.
struct Lines<'c> {
    body: Incoming,
    /// Bytes behind the last line.
    came: Bytes,
    line: Vec<u8>,
    bytes_max: usize,
    holding: Option<&'c Holding>,
}

impl Lines<'_> {
    /// The next line, without its end.
    async fn next(&mut self) -> Result<Option<&[u8]>, Refusal> {
        self.line.clear();
        loop {
            let end = self.came.iter().position(|byte| *byte == b'\n');
            let part = self.came.split_to(end.unwrap_or(self.came.len()));
            if self.line.len() + part.len() > self.bytes_max {
                let text = format!("longer than {} bytes", self.bytes_max);
                let status = StatusCode::PAYLOAD_TOO_LARGE;
                return Err(Refusal::of_status(status, "payload_too_large", text));
            }
            self.line.extend_from_slice(&part);
            if end.is_some() {
                let _its_end = self.came.split_to(1);
                return Ok(Some(&self.line));
            }
            if let Some(holding) = self.holding.filter(|_| self.line.len() > PIECE_BYTES) {
                holding.note(self.line.len() as u64)?;
            }
            match self.body.read().await? {
                Some(came) => self.came = came,
                None if self.line.is_empty() => return Ok(None),
                None => return Ok(Some(&self.line)),
            }
        }
    }

    async fn drain(&mut self) {
        let mut n_bytes = 0;
        while n_bytes < DRAINED_BYTES_MAX
            && let Ok(Some(came)) = self.body.read().await
        {
            n_bytes += came.len();
        }
    }
}
