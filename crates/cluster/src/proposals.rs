//! A leader's proposals: those that wait to be put into an entry, and the entries on their way.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::effects::{GroupEffects, ProposalOutcome, Ticket};
use crate::members::PeerId;
use crate::sparse::Empty;

/// Most bytes of one proposal.
pub const PROPOSAL_BYTES_MAX: usize = 512 << 20;
/// Bytes of commands that wait for the entry in front of them to be durable; more become an entry at once.
pub const GATHERED_BYTES_MAX: usize = 256 << 10;
/// Bytes of commands that a group has proposed and not committed; more are refused.
pub const UNCOMMITTED_BYTES_MAX: usize = 4 << 20;

/// An entry on its way.
#[derive(Debug)]
struct InFlight {
    index: u64,
    term: u64,
    tickets: Vec<Ticket>,
    bytes: usize,
}

/// The proposals of a replica that leads.
#[derive(Debug, Default)]
pub(crate) struct Proposals {
    gathered: Vec<u8>,
    tickets: Vec<Ticket>,
    flight: VecDeque<InFlight>,
    flight_bytes: usize,
}

impl Empty for Proposals {
    const EMPTY: &'static Self = &Self {
        gathered: Vec::new(),
        tickets: Vec::new(),
        flight: VecDeque::new(),
        flight_bytes: 0,
    };
}

impl Proposals {
    /// Whether so many bytes more are within the limit; one proposal always is.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let uncommitted = self.flight_bytes + self.gathered.len();
        uncommitted == 0 || uncommitted + bytes <= UNCOMMITTED_BYTES_MAX
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.flight.is_empty() && self.tickets.is_empty()
    }

    pub(crate) fn has_gathered(&self) -> bool {
        !self.tickets.is_empty()
    }

    pub(crate) fn gather(&mut self, ticket: Ticket, commands: &[u8]) {
        self.gathered.extend_from_slice(commands);
        self.tickets.push(ticket);
    }

    /// Whether the commands that wait are enough for an entry of their own.
    pub(crate) fn is_full(&self) -> bool {
        self.gathered.len() >= GATHERED_BYTES_MAX
    }

    pub(crate) fn take_gathered(&mut self) -> (Bytes, Vec<Ticket>) {
        (std::mem::take(&mut self.gathered).into(), std::mem::take(&mut self.tickets))
    }

    pub(crate) fn sent(&mut self, [index, term]: [u64; 2], tickets: Vec<Ticket>, bytes: usize) {
        self.flight_bytes += bytes;
        self.flight.push_back(InFlight { index, term, tickets, bytes });
    }

    /// Answers the proposals of entries up to `index`, which is committed with `term`.
    pub(crate) fn committed(&mut self, index: u64, term: u64, fx: &mut GroupEffects) {
        while self.flight.front().is_some_and(|entry| entry.index <= index)
            && let Some(entry) = self.flight.pop_front()
        {
            self.flight_bytes -= entry.bytes;
            let is_it = entry.index == index && entry.term == term;
            let answer =
                if is_it { ProposalOutcome::Committed(index) } else { ProposalOutcome::Lost };
            fx.answers.extend(entry.tickets.into_iter().map(|ticket| (ticket, answer)));
        }
    }

    /// Answers all, since the replica does not lead any more.
    pub(crate) fn end(&mut self, leader: Option<PeerId>, fx: &mut GroupEffects) {
        let (_, tickets) = self.take_gathered();
        fx.answers
            .extend(tickets.into_iter().map(|ticket| (ticket, ProposalOutcome::Refused(leader))));
        let flight = std::mem::take(&mut self.flight).into_iter();
        fx.answers
            .extend(flight.flat_map(|entry| entry.tickets).map(|it| (it, ProposalOutcome::Lost)));
        self.flight_bytes = 0;
    }
}
