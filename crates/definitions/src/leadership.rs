//! The part of a replica that leads: definitions with all that is proposed, and asks that wait for that.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use cluster::Ticket;
use meta::{Done, Fact, State, begin_term};
use stdx::Now;

use crate::ask::{
    ASK_COMMANDS_MAX, AnswerBody, Ask, AskAnswer, Decision, Question, Refusal, RequestId,
};
use crate::entry::{DefinitionsEntry, ENTRY_BYTES_MAX};
use crate::machine::ReplicatedState;
use crate::window::RequestStatus;

/// Most asks that wait at a leader; more are declined.
pub const OPEN_ASKS_MAX: usize = 8192;

/// An ask that is decided and not answered.
#[derive(Debug)]
struct OpenAsk {
    /// The proposal whose fate decides; none if the ask changes nothing and no other replica votes.
    ticket: Option<Ticket>,
    request: RequestId,
    attempt: u64,
    decision: Decision,
    /// The definitions after it.
    after: State,
}

/// The next step about an ask.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The answer comes later, or is for nobody.
    Later,
    /// The answer.
    Answer(AnswerBody),
    /// The entry is to be proposed with the ticket; the ask is open.
    Propose(Bytes),
}

/// The changes that an ask makes.
struct Plan {
    done: Vec<Done>,
    facts: Vec<Fact>,
    after: State,
}

/// The part of a replica that leads.
#[derive(Debug)]
pub(crate) struct Leadership {
    pub(crate) term: u64,
    /// Whether other replicas vote, so that one of them may lead without this one knowing it.
    pub(crate) has_rivals: bool,
    /// The definitions with all that is proposed.
    ahead: State,
    open: VecDeque<OpenAsk>,
    /// The start and the last attempt of each node.
    attempts: BTreeMap<u16, (u32, u64)>,
}

impl Leadership {
    pub(crate) fn new(term: u64, machine: &ReplicatedState) -> Self {
        let ahead = of_term(term, machine.definitions.clone());
        let (open, attempts) = (VecDeque::new(), BTreeMap::new());
        Self { term, has_rivals: true, ahead, open, attempts }
    }

    /// Decides an ask that was not decided before.
    pub(crate) fn decide(
        &mut self,
        ask: &Ask,
        ticket: Ticket,
        machine: &ReplicatedState,
    ) -> Verdict {
        let RequestId { node, boot, .. } = ask.request;
        let last = self.attempts.entry(node).or_default();
        if *last >= (boot, ask.attempt) {
            // An earlier connection brought it late: the node waits for a later attempt.
            return Verdict::Later;
        }
        *last = (boot, ask.attempt);
        if let Some(open) =
            self.open.iter_mut().find(|it| it.ticket.is_some() && it.request == ask.request)
        {
            open.attempt = ask.attempt;
            return Verdict::Later;
        }
        match machine.window.status(ask.request) {
            RequestStatus::Forgotten => return Verdict::Answer(AnswerBody::Declined),
            RequestStatus::Done => return self.finish(ask, Decision::WasDone, ticket, machine),
            RequestStatus::New if self.open.len() >= OPEN_ASKS_MAX => {
                return Verdict::Answer(AnswerBody::Declined);
            }
            RequestStatus::New => {}
        }
        match self.plan(&ask.question, machine) {
            Ok(plan) if plan.facts.is_empty() => {
                self.finish(ask, Decision::Done(plan.done), ticket, machine)
            }
            Ok(plan) => self.propose(ask, plan, ticket, machine),
            Err(refusal) => self.finish(ask, Decision::Refused(refusal), ticket, machine),
        }
    }

    fn plan(&self, question: &Question, machine: &ReplicatedState) -> Result<Plan, Refusal> {
        if question.commands.len() > ASK_COMMANDS_MAX {
            return Err(Refusal::TooLarge);
        }
        let has_moved =
            |basis: u64| basis != machine.index || self.open.iter().any(OpenAsk::is_change);
        if question.basis.is_some_and(has_moved) {
            return Err(Refusal::Moved);
        }
        let mut plan = Plan { done: Vec::new(), facts: Vec::new(), after: self.ahead.clone() };
        for command in &question.commands {
            let outcome = plan.after.apply(Now::default(), command)?;
            plan.done.push(outcome.done);
            plan.facts.extend(outcome.facts);
        }
        Ok(plan)
    }

    fn propose(
        &mut self,
        ask: &Ask,
        plan: Plan,
        ticket: Ticket,
        machine: &ReplicatedState,
    ) -> Verdict {
        let Plan { done, facts, after } = plan;
        let entry = entry(ask, facts);
        if entry.len() > ENTRY_BYTES_MAX {
            return self.finish(ask, Decision::Refused(Refusal::TooLarge), ticket, machine);
        }
        self.ahead = after;
        self.push(ask, Some(ticket), Decision::Done(done));
        Verdict::Propose(entry)
    }

    /// Answers an ask that changes nothing, once all that was proposed before is committed. If other replicas
    /// vote, an entry without facts is to be committed too: a replica that leads no longer, and does not know
    /// it, would answer from definitions that others have changed.
    fn finish(
        &mut self,
        ask: &Ask,
        decision: Decision,
        ticket: Ticket,
        machine: &ReplicatedState,
    ) -> Verdict {
        if self.has_rivals {
            self.push(ask, Some(ticket), decision);
            return Verdict::Propose(entry(ask, Vec::new()));
        }
        if self.open.is_empty() {
            return Verdict::Answer(AnswerBody::Decided { index: machine.index, decision });
        }
        self.push(ask, None, decision);
        Verdict::Later
    }

    fn push(&mut self, ask: &Ask, ticket: Option<Ticket>, decision: Decision) {
        let (request, attempt, after) = (ask.request, ask.attempt, self.ahead.clone());
        self.open.push_back(OpenAsk { ticket, request, attempt, decision, after });
    }

    /// Answers the asks up to the one of a proposal that is committed, and those behind it that change
    /// nothing.
    pub(crate) fn committed(
        &mut self,
        ticket: Ticket,
        entry: u64,
        machine: &ReplicatedState,
        answers: &mut Vec<AskAnswer>,
    ) {
        // Entries without facts are no changes.
        let index = entry.min(machine.index);
        let Some(at) = self.position(ticket) else { return };
        let unproposed = self.open.iter().skip(at + 1).take_while(|it| it.ticket.is_none());
        let n = at + 1 + unproposed.count();
        answers.extend(self.open.drain(..n).map(|open| {
            let OpenAsk { request, attempt, decision, .. } = open;
            AskAnswer { request, attempt, body: AnswerBody::Decided { index, decision } }
        }));
    }

    /// Takes back a proposal that is in no log, and all that was decided behind it.
    pub(crate) fn refused(
        &mut self,
        ticket: Ticket,
        machine: &ReplicatedState,
        answers: &mut Vec<AskAnswer>,
    ) {
        let Some(at) = self.position(ticket) else { return };
        answers.extend(self.open.drain(at..).map(|open| {
            let OpenAsk { request, attempt, .. } = open;
            AskAnswer { request, attempt, body: AnswerBody::Declined }
        }));
        let last = self.open.back().map_or(&machine.definitions, |open| &open.after);
        self.ahead = of_term(self.term, last.clone());
    }

    fn position(&self, ticket: Ticket) -> Option<usize> {
        self.open.iter().position(|open| open.ticket == Some(ticket))
    }
}

impl OpenAsk {
    fn is_change(&self) -> bool {
        matches!(&self.decision, Decision::Done(done) if done.iter().any(Done::is_change))
    }
}

fn entry(ask: &Ask, facts: Vec<Fact>) -> Bytes {
    let (request, user) = (ask.request, ask.question.user.clone());
    DefinitionsEntry { request, user, facts }.encode().into()
}

/// Definitions whose next transient queues get ids that no earlier leader has given.
fn of_term(term: u64, mut definitions: State) -> State {
    begin_term(&mut definitions, u32::try_from(term).unwrap_or(u32::MAX));
    definitions
}
