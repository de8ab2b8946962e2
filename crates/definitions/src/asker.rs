//! The asks of a node's clients, from when they are made to when their answers may be given.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::{LivingNodes, Members};
use thiserror::Error;

use crate::ask::{AnswerBody, Ask, AskAnswer, Decision, Question, RequestId};
use crate::window::REQUESTS_REMEMBERED;

/// The time after which an ask is sent again that was declined.
const RETRY_MS: u64 = 50;
/// The longest time that an answer waits for other nodes to apply what this one has.
const OTHERS_WAIT_MS: u64 = 1000;

/// A leader, as this node knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownLeader {
    /// Its node.
    pub node: u16,
    /// Its term.
    pub term: u64,
}

/// The surroundings that asks depend on.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The time on the node's own clock.
    pub now_ms: u64,
    /// The leader, if one is known.
    pub leader: Option<KnownLeader>,
    /// The group's members.
    pub members: &'a Members,
    /// The nodes that are alive.
    pub living: &'a LivingNodes,
}

/// The answer to an ask, which the node has applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The index of the definitions that the decision is about.
    pub index: u64,
    /// The decision.
    pub decision: Decision,
}

/// The error of an ask that has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AskError {
    /// The asker has no room: too many asks wait.
    #[error("too many changes of definitions wait for their answers")]
    Full,
    /// No leader was found in time: nothing was done or will be.
    #[error("no leader of the definitions was found in time")]
    NoLeader,
    /// No answer came in time: the change was done, will be done, or is lost.
    #[error("the leader of the definitions has not answered in time")]
    TimedOut,
}

/// The work of an asker for its host.
#[derive(Debug, Default)]
pub struct AskerEffects {
    /// Asks to send, by the node that leads, perhaps this one.
    pub asks: Vec<(u16, Ask)>,
    /// Results by the number of their asks.
    pub results: Vec<(u64, Result<Reply, AskError>)>,
}

#[derive(Debug)]
struct PendingAsk {
    question: Arc<Question>,
    deadline_ms: u64,
    /// The latest attempt and whom it went to.
    sent: Option<(KnownLeader, u64)>,
    /// The time before which no attempt is made.
    retry_ms: u64,
    /// Attempts that were not declined.
    n_undecided: u64,
    reply: Option<Reply>,
    /// The time at which the reply's index was applied here.
    applied_ms: Option<u64>,
}

/// The asks of a node's clients.
#[derive(Debug)]
pub struct Asker {
    node: u16,
    boot: u32,
    last_n: u64,
    last_attempt: u64,
    pending: BTreeMap<u64, PendingAsk>,
    /// The index that each node has applied.
    applied: BTreeMap<u16, u64>,
}

impl Asker {
    /// Makes the asker of a node's start.
    #[must_use]
    pub const fn new(node: u16, boot: u32) -> Self {
        Self {
            node,
            boot,
            last_n: 0,
            last_attempt: 0,
            pending: BTreeMap::new(),
            applied: BTreeMap::new(),
        }
    }

    /// Takes an ask that has an answer, or an error, by `deadline_ms`; returns its number.
    ///
    /// # Errors
    /// Too many are pending: of later ones the leader would not remember whether they were done.
    pub fn ask(&mut self, question: Question, deadline_ms: u64) -> Result<u64, AskError> {
        let n = self.last_n + 1;
        let oldest = self.pending.first_key_value().map_or(n, |(oldest, _)| *oldest);
        if n - oldest >= REQUESTS_REMEMBERED {
            return Err(AskError::Full);
        }
        self.last_n = n;
        let pending = PendingAsk {
            question: Arc::new(question),
            deadline_ms,
            sent: None,
            retry_ms: 0,
            n_undecided: 0,
            reply: None,
            applied_ms: None,
        };
        self.pending.insert(n, pending);
        Ok(n)
    }

    /// Takes an answer. Only one to the latest attempt decides: the leader may decide a later attempt in
    /// another way, as if the ones before had not been.
    pub fn receive(&mut self, answer: AskAnswer, now_ms: u64) {
        let RequestId { node, boot, n } = answer.request;
        let is_ours = (node, boot) == (self.node, self.boot);
        let Some(pending) = self.pending.get_mut(&n).filter(|_| is_ours) else { return };
        let is_latest = pending.sent.is_some_and(|(_, attempt)| attempt == answer.attempt);
        match answer.body {
            AnswerBody::Decided { index, decision } if is_latest => {
                pending.reply = Some(Reply { index, decision });
            }
            AnswerBody::Decided { .. } => {}
            AnswerBody::Declined => {
                pending.n_undecided = pending.n_undecided.saturating_sub(1);
                if is_latest {
                    (pending.sent, pending.retry_ms) = (None, now_ms + RETRY_MS);
                }
            }
        }
    }

    /// Sends again what went to a node over a connection that is lost.
    pub fn link_made(&mut self, node: u16) {
        let to_node = |it: &&mut PendingAsk| it.sent.is_some_and(|(to, _)| to.node == node);
        self.pending.values_mut().filter(to_node).for_each(|pending| pending.sent = None);
    }

    /// Notes which index a node has applied, this one too.
    pub fn applied(&mut self, node: u16, index: u64) {
        self.applied.insert(node, index);
    }

    /// Returns what is to be done now: after each change of the surroundings, and every now and then.
    pub fn poll(&mut self, around: Surroundings<'_>) -> AskerEffects {
        let mut fx = AskerEffects::default();
        let applied = self.applied.get(&self.node).copied().unwrap_or(0);
        let mut ended = Vec::new();
        for (n, pending) in &mut self.pending {
            let result = pending.result(applied, self.node, &self.applied, around);
            if let Some(result) = result {
                ended.push((*n, result));
                continue;
            }
            let Some(leader) = around.leader.filter(|leader| pending.is_to_go(*leader, around))
            else {
                continue;
            };
            self.last_attempt += 1;
            let (attempt, term) = (self.last_attempt, leader.term);
            pending.sent = Some((leader, attempt));
            pending.n_undecided += 1;
            let request = RequestId { node: self.node, boot: self.boot, n: *n };
            let question = Arc::clone(&pending.question);
            fx.asks.push((leader.node, Ask { request, attempt, term, question }));
        }
        for (n, _) in &ended {
            self.pending.remove(n);
        }
        fx.results = ended;
        fx
    }
}

impl PendingAsk {
    fn is_to_go(&self, leader: KnownLeader, around: Surroundings<'_>) -> bool {
        let is_sent = self.sent.is_some_and(|(to, _)| to == leader);
        self.reply.is_none() && !is_sent && around.now_ms >= self.retry_ms
    }

    /// The result, once there is one.
    fn result(
        &mut self,
        applied: u64,
        me: u16,
        all: &BTreeMap<u16, u64>,
        around: Surroundings<'_>,
    ) -> Option<Result<Reply, AskError>> {
        if let Some(reply) = self.reply.as_ref().filter(|reply| applied >= reply.index) {
            let applied_ms = *self.applied_ms.get_or_insert(around.now_ms);
            let is_late = around.now_ms >= applied_ms + OTHERS_WAIT_MS;
            let is_behind = |node: u16| all.get(&node).is_none_or(|index| *index < reply.index);
            let mut others = around.members.all().filter(|it| it.node() != me);
            if is_late || !others.any(|it| around.living.has(it) && is_behind(it.node())) {
                return self.reply.take().map(Ok);
            }
        }
        let error = if self.n_undecided > 0 { AskError::TimedOut } else { AskError::NoLeader };
        (around.now_ms >= self.deadline_ms).then_some(Err(error))
    }
}
