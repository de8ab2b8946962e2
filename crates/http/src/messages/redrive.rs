//! Messages that are sent on: which, and where to, as a request says; counted, or as a job.

mod job;

use self::job::{NO_EXCHANGE, NO_ORIGIN, Redrive};
use super::import::publisher;
use super::look::{number, permitted};
use super::origin::Origin;
use super::select::{Picked, Selection};
use crate::call::{Answer, Call, Outcome};
use crate::objects::{flag, text};
use crate::refusal::Refusal;
use axum::http::StatusCode;
use meta::Permission;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::spawn_blocking;

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
