//! Work of the node that goes on after it was asked for. RabbitMQ's tools have nothing like it.

use super::list;
use crate::failure::Failure;
use crate::output::Answer;
use crate::run;
use crate::verb::Banner::Lines;
use crate::verb::{Action, Invocation, Section, VERB, Verb, verbs};
use serde_json::Value;

const JOBS: Verb = Verb { section: Section::Operations, ..VERB };

pub(super) const VERBS: &[Verb] = verbs! {
    JOBS "list_jobs", "Lists background jobs, such as moving messages":
        banner: Lines("Listing jobs ..."),
        action: list("GET /jobs", "id, user, state, done, total, stayed, error");
    JOBS "pause_job <id>", "Pauses a job":
        params: &["id"], banner: Lines("Pausing job {id} ..."),
        action: Action::Offline(|invocation| steer(invocation, "paused"));
    JOBS "resume_job <id>", "Resumes a paused job":
        params: &["id"], banner: Lines("Resuming job {id} ..."),
        action: Action::Offline(|invocation| steer(invocation, "running"));
    JOBS "cancel_job <id>", "Cancels a job, without reverting its finished part":
        params: &["id"], banner: Lines("Cancelling job {id} ..."), action: Action::Do("DELETE /jobs/{id}");
};

fn steer(invocation: &Invocation, state: &str) -> Result<Answer, Failure> {
    let mut request = invocation.request()?;
    request.insert("state".to_owned(), Value::from(state));
    run::ask(invocation, "PUT /jobs/{id}", request).map(|_| Answer::Done)
}
