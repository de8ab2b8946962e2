//! Work of the node that goes on after it was asked for. RabbitMQ's tools have nothing like it.

use super::list;
use crate::failure::Failure;
use crate::output::Answer;
use crate::run;
use crate::verb::{Action, Invocation, Section, VERB, Verb};
use serde_json::Value;

const JOBS: Verb = Verb { section: Section::Operations, ..VERB };

pub(super) const VERBS: &[Verb] = &[
    Verb {
        usage: "list_jobs",
        description: "Lists background jobs, such as moving messages",
        banner: "Listing jobs ...",
        action: list("GET /jobs", "id, user, state, done, total, stayed, error"),
        ..JOBS
    },
    Verb {
        usage: "pause_job <id>",
        description: "Pauses a job",
        params: &["id"],
        banner: "Pausing job {id} ...",
        action: Action::Offline(|invocation| steer(invocation, "paused")),
        ..JOBS
    },
    Verb {
        usage: "resume_job <id>",
        description: "Resumes a paused job",
        params: &["id"],
        banner: "Resuming job {id} ...",
        action: Action::Offline(|invocation| steer(invocation, "running")),
        ..JOBS
    },
    Verb {
        usage: "cancel_job <id>",
        description: "Cancels a job, without reverting its finished part",
        params: &["id"],
        banner: "Cancelling job {id} ...",
        action: Action::Do("DELETE /jobs/{id}"),
        ..JOBS
    },
];

fn steer(invocation: &Invocation, state: &str) -> Result<Answer, Failure> {
    let mut request = invocation.request()?;
    request.insert("state".to_owned(), Value::from(state));
    run::ask(invocation, "PUT /jobs/{id}", request).map(|_| Answer::Done)
}
