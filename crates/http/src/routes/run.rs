//! The ways to answer a request.

use super::{Cost, Group, Route, Run};
use crate::admin::{self, Reply};
use crate::audit;
use crate::call::{Answer, Call, Outcome};
use crate::list;
use crate::peers::{Peers, Sharing};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::stream;
use admission::Turn;
use api::ErrorCode;
use axum::body::Body;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use mgmt::{ApiError, Management};
use serde_json::Value;
use std::pin::Pin;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

/// A question that is answered, or done, at once.
pub(crate) type Ask = fn(&Management, &Request) -> Reply;
/// A question that is answered after a while.
pub(crate) type Later = for<'m> fn(&'m Management, &'m Request) -> Told<'m>;
/// The course of a `Later`.
pub(crate) type Told<'m> = Pin<Box<dyn Future<Output = Reply> + Send + 'm>>;

/// The beginnings of routes that need no definitions.
const EARLY: [&str; 10] = [
    "/leveret/cluster",
    "/leveret/connections",
    "/leveret/environment",
    "/leveret/listeners",
    "/leveret/log",
    "/leveret/metadata-store",
    "/leveret/os-env",
    "/leveret/state",
    "/leveret/status",
    "/leveret/stop",
];

impl Route {
    /// Whether operators of this machine may use the route before the node has started.
    pub(crate) fn is_early(&self) -> bool {
        EARLY.iter().any(|start| self.template.starts_with(start))
    }

    /// Answers a request; `upload` is the body of one that comes in for long.
    pub(crate) async fn answered(
        &'static self,
        call: Call,
        upload: Body,
    ) -> Result<Response, Refusal> {
        let api = Arc::clone(&call.api);
        match self.run {
            // A read of constant cost waits for no turn, unless an expression has to be compiled.
            Run::Read(read) | Run::Check(read)
                if self.cost == Cost::Constant && call.param("pattern").is_empty() =>
            {
                read(&call).map(stream::whole)
            }
            Run::Check(check) => api.turns.answered(call, check).await,
            Run::LogIn => Err(Refusal::internal()),
            Run::Follow(follow) => follow(call),
            Run::Upload(take) => {
                let place = api.turns.upload(&call.asker())?;
                on_its_own(async move {
                    let _place = place;
                    self.note(&call, &call.address());
                    take(&call, upload).await
                })
                .await
            }
            Run::Read(read) if self.sharing == Sharing::Own || !call.may_ask_others() => {
                api.turns.answered(call, move |call| reduced(call, read(call)?)).await
            }
            Run::Read(read) => self.answered_together(call, read).await,
            Run::Ask(ask) if self.method == Method::GET => {
                let read = move |call: &Call| {
                    let told = ask(&call.api.management, &call.request()?);
                    let told = told.map_err(|refused| self.refusal(call, refused))?;
                    reduced(call, self.shown(call, told)?)
                };
                api.turns.answered(call, read).await
            }
            Run::Ask(_) | Run::Later(_) | Run::Define(_) | Run::Change(_) | Run::Quiet(_) => {
                let (cost, is_later) = (self.cost, matches!(self.run, Run::Later(_)));
                // Work on a long text, or on very much, leaves the threads of sockets to their clients.
                if cost == Cost::Long || call.body.len() > stream::PIECE_BYTES {
                    let turn = api.turns.changes.begin(&call.asker()).await?;
                    return off_sockets(turn, async move { self.changed(&call).await }).await;
                }
                // Other jobs take their place when they know what they are to do.
                let place = (cost == Cost::Job && is_later)
                    .then(|| api.turns.search(&call.asker()))
                    .transpose()?;
                let reads = cost == Cost::Read;
                let turn =
                    if reads { Some(api.turns.reads.begin(&call.asker()).await?) } else { None };
                on_its_own(async move {
                    let _held = (place, turn);
                    self.changed(&call).await
                })
                .await
            }
        }
    }

    /// Answers together with the other nodes of the cluster.
    async fn answered_together(
        &self,
        mut call: Call,
        read: fn(&Call) -> Outcome,
    ) -> Result<Response, Refusal> {
        let api = Arc::clone(&call.api);
        let read = move |call: &Call| reduced(call, read(call)?);
        if self.sharing == Sharing::Object {
            let own = api.turns.answered(call.clone(), read).await;
            if !matches!(&own, Err(refusal) if refusal.status == StatusCode::NOT_FOUND) {
                return own;
            }
        }
        let replies = Arc::new(call.ask_others(self.sharing).await?);
        if self.sharing == Sharing::Object
            && let Some(text) = replies.first()
        {
            return Ok(stream::whole(Answer::Raw(text)));
        }
        call.peers = Peers::Asked(Arc::clone(&replies));
        let mut response = api.turns.answered(call, read).await?;
        replies.tell(response.headers_mut());
        Ok(response)
    }

    async fn changed(&self, call: &Call) -> Outcome {
        // A request whose columns are not valid changes nothing.
        list::reduced(&call.query, Value::Null)?;
        let finds = self.finds.filter(|_| !call.caller.is_local());
        let is_there = finds.map_or(Ok(()), |finds| finds(call));
        if self.method == Method::DELETE {
            is_there.clone()?;
        }
        let (request, management) = (call.request(), &call.api.management);
        let answer = match self.run {
            Run::LogIn | Run::Follow(_) | Run::Upload(_) => return Err(Refusal::internal()),
            Run::Read(read) | Run::Check(read) => return read(call),
            Run::Change(change) | Run::Quiet(change) => change(call).await?,
            Run::Define(define) => {
                let defined =
                    admin::definitions::define(management, define, &request.clone()?).await;
                defined.map_err(|refused| self.refusal(call, refused))?;
                Answer::NoContent
            }
            Run::Ask(ask) => {
                let told = ask(management, &request.clone()?);
                self.shown(call, told.map_err(|refused| self.refusal(call, refused))?)?
            }
            Run::Later(ask) => self.shown(call, ask(management, &request.clone()?).await?)?,
        };
        if self.method != Method::GET && !matches!(self.run, Run::Quiet(_)) {
            self.note(call, &request.unwrap_or_else(|_| call.address()));
        }
        match (answer, is_there) {
            (Answer::NoContent, Err(_)) if self.method == Method::PUT => Ok(Answer::Created(None)),
            (answer, _) => reduced(call, answer),
        }
    }

    /// Logs the change.
    fn note(&self, call: &Call, request: &Request) {
        let what = format!("{} {}", self.method, self.template);
        audit::note(&call.caller.operator, &what, request);
    }

    /// An answer of the node. COMPAT: users are told nothing where RabbitMQ tells nothing.
    fn shown(&self, call: &Call, value: Value) -> Outcome {
        let is_told = call.caller.is_local() || self.group == Group::Leveret;
        if value.is_null() || (!is_told && self.method != Method::GET) {
            return Ok(Answer::NoContent);
        }
        if self.method == Method::GET
            && let Value::Array(rows) = value
        {
            return call.list(rows);
        }
        Ok(Answer::Json(value))
    }

    /// Words a refusal. COMPAT: users are told other statuses than elsewhere, or in other words than
    /// operators.
    fn refusal(&self, call: &Call, refused: ApiError) -> Refusal {
        if call.caller.is_local() {
            return refused.into();
        }
        let puts = self.method == Method::PUT;
        match (self.group, refused.kind) {
            (Group::Access, ErrorCode::NoSuchUser | ErrorCode::NoSuchVhost) if puts => {
                Refusal::bad_request("vhost_or_user_not_found")
            }
            (Group::Limits, ErrorCode::NoSuchUser) if puts => Refusal::bad_request("no_such_user"),
            (Group::Limits, ErrorCode::NoSuchUser | ErrorCode::NoSuchVhost) => {
                Refusal::lacks("vhost_not_found")
            }
            (Group::Queues, _) if self.method == Method::GET => refused.into(),
            (Group::Queues, ErrorCode::NotFound) => Refusal::unavailable("not_found"),
            (Group::Queues, ErrorCode::LastMember) => Refusal::unavailable(refused.text),
            (Group::Queues, ErrorCode::NotReplicated) => {
                Refusal::unavailable("classic_queue_not_supported")
            }
            (Group::Queues, ErrorCode::NodeNotRunning) => Refusal::not_found(),
            _ => refused.into(),
        }
    }
}

/// An answer with the columns that the query wants.
fn reduced(call: &Call, answer: Answer) -> Outcome {
    Ok(if let Answer::Json(value) = answer {
        Answer::Json(list::reduced(&call.query, value)?)
    } else {
        answer
    })
}

/// Runs work to its end although its client goes, or to the end that it finds itself: no session is left
/// behind.
async fn on_its_own(
    work: impl Future<Output = Outcome> + Send + 'static,
) -> Result<Response, Refusal> {
    tokio::spawn(work).await.unwrap_or_else(|_| Err(Refusal::internal())).map(stream::whole)
}

/// Runs long work to its end on a thread that serves no sockets. The work must not wait for its client.
async fn off_sockets(
    turn: Turn,
    work: impl Future<Output = Outcome> + Send + 'static,
) -> Result<Response, Refusal> {
    let runtime = Handle::current();
    let worked = spawn_blocking(move || {
        let answer = runtime.block_on(work).map(stream::whole);
        drop(turn);
        answer
    });
    worked.await.unwrap_or_else(|_| Err(Refusal::internal()))
}
