//! Messages that are sent on: which, and where to, as a request says; counted, or as a job.

mod elsewhere;
mod job;

use self::elsewhere::Elsewhere;
use self::job::{NO_EXCHANGE, NO_ORIGIN, Redrive};
use super::import::publisher;
use super::look::{number, permitted};
use super::origin::Origin;
use super::select::{Picked, Selection};
use crate::call::{Answer, Call, Outcome};
use crate::caller::Caller;
use crate::objects::flag;
use crate::refusal::Refusal;
use crate::request::{optional_text, text};
use axum::http::StatusCode;
use client::Uri;
use meta::Permission;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Targets that a dry run tells apart.
const TARGETS_MAX: usize = 1_000;

/// The target of messages.
#[derive(Clone)]
struct Target {
    /// An exchange and a key; `None` for those that each message had when it died first.
    to: Option<Origin>,
    /// The other broker, if messages go to another one.
    elsewhere: Option<Uri>,
}

impl Target {
    fn of(fields: &Map<String, Value>) -> Result<Self, Refusal> {
        let to = match fields.get("to") {
            Some(Value::String(word)) if word == "origin" => {
                return Ok(Self { to: None, elsewhere: None });
            }
            Some(Value::Object(to)) => to,
            _ => {
                let text = "to must be origin, or an object with a queue, an exchange and routing_key, \
                            or the uri of another broker with or without these";
                return Err(Refusal::bad_request(text));
            }
        };
        let elsewhere =
            optional_text(to, "uri")?.map(|uri| Uri::parse(uri).map_err(Refusal::bad_request));
        let elsewhere = elsewhere.transpose()?;
        if elsewhere.is_some() && to.len() == 1 {
            return Ok(Self { to: None, elsewhere });
        }
        let (exchange, key) = match to.get("queue") {
            Some(_) => ("", text(to, "queue")?),
            None => (text(to, "exchange")?, text(to, "routing_key")?),
        };
        crate::objects::short(exchange)?;
        crate::objects::short(key)?;
        let exchange = if exchange == "amq.default" { "" } else { exchange };
        let to = Some(Origin { exchange: exchange.to_owned(), key: key.as_bytes().to_vec() });
        Ok(Self { to, elsewhere })
    }

    fn of_message(&self, message: &message::MessageRef<'_>) -> Option<Origin> {
        self.to.clone().or_else(|| Origin::of(message))
    }

    /// The caller in whose name messages are sent to the target.
    fn sender(&self, call: &Call) -> Result<Caller, Refusal> {
        if self.elsewhere.is_none() {
            return publisher(call);
        }
        let text = "only policymakers and administrators may move messages to another broker";
        let may = call.caller.may_reach_others();
        may.then(|| call.caller.clone()).ok_or_else(|| Refusal::not_authorised(text))
    }

    /// The request as shown with the job: without the password of another broker.
    fn shown(&self, call: &Call, mut fields: Map<String, Value>) -> Value {
        if let (Some(uri), Some(to)) = (&self.elsewhere, fields.get_mut("to")) {
            let scheme = if uri.is_encrypted { "amqps" } else { "amqp" };
            let shown = format!("{scheme}://{}:{}/{}", uri.host, uri.port, uri.vhost);
            crate::objects::put_field(to, "uri", shown.into());
        }
        let mut what = Value::Object(fields);
        crate::objects::put_field(&mut what, "queue", call.param("name").into());
        crate::objects::put_field(&mut what, "vhost", call.param("vhost").into());
        what
    }
}

/// Sends messages on, or tells which and where to.
pub(crate) async fn begin(call: &Call) -> Outcome {
    let fields = call.object()?;
    let target = Target::of(&fields)?;
    let selection = Selection::of(call, &fields)?;
    permitted(call, Permission::Read)?;
    let caller = target.sender(call)?;
    let turn = call.api.turns.search(&call.asker())?;
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
        let is_here = target.elsewhere.is_none();
        return Ok(Answer::Raw(told(call, &picked, &first, &targets, is_here)));
    }
    let rate = number(&fields, "rate")?.filter(|rate| *rate > 0);
    let clears_deaths = flag(&fields, "clear_deaths")?;
    let (what, n_total) = (target.shown(call, fields), picked.len() as u64);
    let job = call.api.turns.jobs.begin(&call.caller.user, what, n_total);
    let redrive = Redrive {
        api: Arc::clone(&call.api),
        caller,
        vhost: call.name("vhost"),
        wanted: Arc::new(selection.wanted),
        elsewhere: target.elsewhere.clone().map(Elsewhere::of),
        target,
        clears_deaths,
        rate,
        job: Arc::clone(&job),
        _turn: turn,
    };
    tokio::spawn(redrive.run(picked));
    Ok(Answer::Status(StatusCode::ACCEPTED, json!({"job": job.id, "total": n_total})))
}

fn told(
    call: &Call,
    picked: &Picked,
    first: &[Vec<u8>],
    targets: &BTreeMap<Option<Origin>, u64>,
    is_here: bool,
) -> Vec<u8> {
    let view = call.view();
    let target = |(target, n): (&Option<Origin>, &u64)| match target {
        None => json!({"messages": n, "problem": NO_ORIGIN}),
        Some(target) => {
            let is_there =
                !is_here || view.meta.exchange(call.param("vhost"), &target.exchange).is_some();
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
