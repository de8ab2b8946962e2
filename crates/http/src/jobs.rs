//! Work that goes on after the request that began it: how far it is, and that it is to pause or to end.

use crate::refusal::Refusal;
use broker::Broker;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::sleep;

/// The pause before another look at an alarm that is on.
const ALARM_PAUSE: Duration = Duration::from_millis(100);
/// Jobs that are remembered once they are over.
const ENDED_MAX: usize = 100;
/// Messages that stayed and are named one by one.
const STAYED_SHOWN_MAX: usize = 20;

/// The state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobState {
    Running,
    Paused,
    Cancelled,
    Done,
    Failed(String),
}

impl JobState {
    const fn as_str(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Cancelled => "cancelled",
            Self::Done => "done",
            Self::Failed(_) => "failed",
        }
    }

    const fn is_over(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Done | Self::Failed(_))
    }
}

/// How far a job is.
#[derive(Debug)]
struct Progress {
    state: JobState,
    n_done: u64,
    /// Messages that stayed where they were, by the reason.
    stayed: BTreeMap<&'static str, u64>,
    first_stayed: Vec<Value>,
}

/// A job.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: u64,
    /// The user who began the job.
    user: String,
    /// The request, as shown with the job.
    what: Value,
    n_total: u64,
    progress: Mutex<Progress>,
    changed: Notify,
}

impl Job {
    pub(crate) fn is_of(&self, user: &str) -> bool {
        self.user == user
    }

    pub(crate) fn to_json(&self) -> Value {
        let progress = stdx::lock(&self.progress);
        let error =
            if let JobState::Failed(reason) = &progress.state { Some(reason) } else { None };
        json!({
            "id": self.id,
            "user": self.user,
            "request": self.what,
            "state": progress.state.as_str(),
            "error": error,
            "total": self.n_total,
            "done": progress.n_done,
            "stayed": progress.stayed,
            "first_stayed": progress.first_stayed,
        })
    }

    /// Notes work that is done.
    pub(crate) fn note_done(&self, n: u64) {
        stdx::lock(&self.progress).n_done += n;
    }

    /// Notes a message that stays where it is.
    pub(crate) fn note_stayed(&self, position: u64, reason: &'static str) {
        let mut progress = stdx::lock(&self.progress);
        *progress.stayed.entry(reason).or_default() += 1;
        if progress.first_stayed.len() < STAYED_SHOWN_MAX {
            progress.first_stayed.push(json!({"position": position, "reason": reason}));
        }
    }

    /// Notes messages that stay for that reason, whichever they are.
    pub(crate) fn note_all_stayed(&self, n: u64, reason: &'static str) {
        if n > 0 {
            *stdx::lock(&self.progress).stayed.entry(reason).or_default() += n;
        }
    }

    /// Changes the job's state unless the job is over; returns whether the state is that one now.
    pub(crate) fn set(&self, state: JobState) -> bool {
        let mut progress = stdx::lock(&self.progress);
        if progress.state.is_over() {
            return progress.state == state;
        }
        progress.state = state;
        drop(progress);
        self.changed.notify_waiters();
        true
    }

    /// Resolves when the job may go on; false if it is to end.
    pub(crate) async fn goes_on(&self) -> bool {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match &stdx::lock(&self.progress).state {
                JobState::Running => return true,
                JobState::Paused => {}
                JobState::Cancelled | JobState::Done | JobState::Failed(_) => return false,
            }
            changed.await;
        }
    }

    /// Resolves when the job may publish, for which it also waits like any publisher while an alarm is on.
    pub(crate) async fn may_publish(&self, broker: &Broker) -> bool {
        while self.goes_on().await {
            if !broker.alarms.any() {
                return true;
            }
            sleep(ALARM_PAUSE).await;
        }
        false
    }

    fn is_over(&self) -> bool {
        stdx::lock(&self.progress).state.is_over()
    }
}

/// The jobs of a node since its start.
#[derive(Debug, Default)]
pub(crate) struct Jobs(Mutex<BTreeMap<u64, Arc<Job>>>);

impl Jobs {
    /// Begins a job, which is forgotten some time after it is over.
    pub(crate) fn begin(&self, user: &str, what: Value, n_total: u64) -> Arc<Job> {
        let mut jobs = stdx::lock(&self.0);
        let ended: Vec<u64> = jobs.values().filter(|job| job.is_over()).map(|job| job.id).collect();
        for id in ended.iter().take(ended.len().saturating_sub(ENDED_MAX - 1)) {
            jobs.remove(id);
        }
        let id = jobs.last_key_value().map_or(0, |(id, _)| *id) + 1;
        let progress = Progress {
            state: JobState::Running,
            n_done: 0,
            stayed: BTreeMap::new(),
            first_stayed: Vec::new(),
        };
        let job = Arc::new(Job {
            id,
            user: user.to_owned(),
            what,
            n_total,
            progress: Mutex::new(progress),
            changed: Notify::new(),
        });
        jobs.insert(id, Arc::clone(&job));
        job
    }

    /// Ends all jobs that are under way, since the node stops.
    pub(crate) fn end(&self) {
        for job in self.all() {
            job.set(JobState::Failed("the node is stopping".to_owned()));
        }
    }

    /// All jobs, the last first.
    pub(crate) fn all(&self) -> Vec<Arc<Job>> {
        stdx::lock(&self.0).values().rev().map(Arc::clone).collect()
    }

    /// The job of an id.
    pub(crate) fn get(&self, id: &str) -> Result<Arc<Job>, Refusal> {
        let found =
            id.parse().ok().and_then(|id: u64| stdx::lock(&self.0).get(&id).map(Arc::clone));
        found.ok_or_else(Refusal::not_found)
    }
}
