//! Jobs, as requests see and steer them.

use crate::call::{Answer, Call, Outcome};
use crate::jobs::{Job, JobState};
use crate::refusal::Refusal;
use crate::request::text;
use serde_json::Value;
use std::sync::Arc;

/// A job that who asks may see: one's own, and all of them for who monitors.
fn seen(call: &Call) -> Result<Arc<Job>, Refusal> {
    let job = call.api.turns.jobs.get(call.param("id"))?;
    let is_seen = call.caller.is_monitor() || job.is_of(&call.caller.user);
    if is_seen { Ok(job) } else { Err(Refusal::not_found()) }
}

/// A job that who asks may steer.
fn steered(call: &Call) -> Result<Arc<Job>, Refusal> {
    let job = seen(call)?;
    let may = call.caller.is_administrator() || job.is_of(&call.caller.user);
    if may { Ok(job) } else { Err(Refusal::not_yours()) }
}

pub(crate) fn list(call: &Call) -> Outcome {
    let all = call.api.turns.jobs.all();
    let caller = &call.caller;
    let seen = all.iter().filter(|job| caller.is_monitor() || job.is_of(&caller.user));
    Ok(Answer::Json(seen.map(|job| job.to_json()).collect::<Value>()))
}

pub(crate) fn get(call: &Call) -> Outcome {
    seen(call).map(|job| Answer::Json(job.to_json()))
}

/// Pauses a job, or has it go on.
pub(crate) async fn steer(call: &Call) -> Outcome {
    let body = call.object()?;
    let state = match text(&body, "state")? {
        "running" => JobState::Running,
        "paused" => JobState::Paused,
        other => {
            return Err(Refusal::bad_request(format!(
                "state must be running or paused, not '{other}'"
            )));
        }
    };
    set(call, state)
}

/// Ends a job; what it has done stays so.
pub(crate) async fn cancel(call: &Call) -> Outcome {
    set(call, JobState::Cancelled)
}

fn set(call: &Call, state: JobState) -> Outcome {
    let job = steered(call)?;
    if job.set(state) {
        return Ok(Answer::Json(job.to_json()));
    }
    Err(Refusal::bad_request("the job has ended"))
}
