//! The transactions of a session (part 4): one at a time, on the session's own channel of the broker, which
//! keeps publishes and settlements until the commit.

use crate::fault::ProtocolFault;
use crate::outcomes::DeliveryRange;
use amqp10::{
    Attach, Condition, DeliveryOutcome, DeliveryState, MapRef, Modified, SerialNumber, Symbols,
};
use session::{ChannelId, Error, LinkId, MethodTag, Outcome};
use std::collections::{BTreeSet, VecDeque};

/// The capability of the coordinator: transactions of this node alone.
pub(crate) const LOCAL_TRANSACTIONS: Symbols<'static> = Symbols::One("amqp:local-transactions");
/// The requests that a client may make of the coordinator before it gets more credit.
pub(crate) const COORDINATOR_CREDIT: u32 = 8;
/// The largest request to the coordinator, in bytes.
pub(crate) const COORDINATOR_REQUEST_BYTES_MAX: u64 = 4 * 1024;
/// The dispositions of a transaction that do not settle: what they say is kept until its end.
const PROVISIONAL_RANGES_MAX: usize = 65_536;
/// The bit of a control request's name that says that its answer ends a transaction.
const TRANSACTION: u64 = 1 << 62;

/// The name of a transaction: its session's channel and its number, so that it is the only one of the
/// connection.
pub(crate) type TransactionName = [u8; 6];

/// The transactions of a session.
#[derive(Debug)]
pub(crate) struct SessionTransactions {
    session: u16,
    /// The channel on which the broker keeps what the open transaction has done, numbered as sessions are.
    pub(crate) channel: ChannelId,
    /// The handle of the coordinator's link, while it is attached.
    pub(crate) handle: Option<u32>,
    /// Whether the client lets requests be rejected; else the link ends.
    pub(crate) takes_rejections: bool,
    /// The number of the last transaction.
    last: u32,
    is_open: bool,
    /// The links on which the open transaction has settled messages.
    pub(crate) links: BTreeSet<LinkId>,
    /// The outcomes, in the open transaction, of messages that the client has not settled.
    pub(crate) provisional: Vec<SettledRange>,
    /// Whether a link has gone whose messages the open transaction settles: it cannot be committed any more.
    is_doomed: bool,
    ending: VecDeque<EndingTransaction>,
}

/// A transaction whose end the broker has not answered yet.
#[derive(Debug)]
pub(crate) struct EndingTransaction {
    number: u32,
    /// The discharge; none if the client wants no answer.
    pub(crate) discharge: Option<SerialNumber>,
    /// Messages that the client has given an outcome to, and has not settled.
    pub(crate) settled: Vec<SettledRange>,
    is_doomed: bool,
}

/// Deliveries with the same outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SettledRange {
    pub(crate) range: DeliveryRange,
    pub(crate) outcome: Outcome,
}

impl SessionTransactions {
    /// None of this session; `None` if there are no channels for them.
    pub(crate) fn of(session: u16, channel_max: u16) -> Option<Self> {
        // Broker's channels are numbered from 1 on.
        let channel =
            channel_max.checked_add(session)?.checked_add(1).filter(|it| *it < u16::MAX)?;
        Some(Self {
            session,
            channel: ChannelId(channel),
            handle: None,
            takes_rejections: false,
            last: 0,
            is_open: false,
            links: BTreeSet::new(),
            provisional: Vec::new(),
            is_doomed: false,
            ending: VecDeque::new(),
        })
    }

    /// The coordinator's link is attached.
    pub(crate) fn attached(&mut self, attach: &Attach<'_>) {
        let outcomes = attach.source.map_or(Symbols::NONE, |source| source.outcomes);
        self.handle = Some(attach.handle);
        self.takes_rejections = outcomes.contains("amqp:rejected:list");
    }

    /// The coordinator's link is gone, and the open transaction with it.
    pub(crate) fn end(&mut self) {
        (self.handle, self.is_open, self.is_doomed) = (None, false, false);
        self.links.clear();
        self.provisional.clear();
        self.ending.clear();
    }

    /// Begins a transaction.
    pub(crate) fn declare(&mut self, is_global: bool) -> Result<TransactionName, ProtocolFault> {
        let refuse = |text| Err(ProtocolFault::link(Condition::NotImplemented, text));
        if is_global {
            return refuse("distributed transactions are not supported");
        }
        if self.is_open {
            return refuse("the session has an open transaction");
        }
        self.is_open = true;
        self.last = self.last.wrapping_add(1);
        Ok(self.name())
    }

    /// Ends the open transaction; returns whether it is to be committed, and its number.
    pub(crate) fn discharge(&mut self, is_failed: bool) -> Discharged {
        let is_doomed = std::mem::take(&mut self.is_doomed) && !is_failed;
        self.is_open = false;
        self.links.clear();
        Discharged { number: self.last, commits: !is_failed && !is_doomed, is_doomed }
    }

    /// Notes outcomes of messages that the client has not settled.
    pub(crate) fn note_provisional(&mut self, settled: SettledRange) -> Result<(), ProtocolFault> {
        if self.provisional.len() >= PROVISIONAL_RANGES_MAX {
            let text = format!("dispositions of the transaction > {PROVISIONAL_RANGES_MAX}");
            return Err(ProtocolFault::link(Condition::ResourceLimitExceeded, text));
        }
        self.provisional.push(settled);
        Ok(())
    }

    /// Notes that a link is gone, and what was unsettled on it.
    pub(crate) fn note_detached(&mut self, link: LinkId) {
        self.is_doomed |=
            self.is_open && (self.links.contains(&link) || !self.provisional.is_empty());
    }

    /// Notes that the broker is asked for the end of a transaction.
    pub(crate) fn ends(
        &mut self,
        Discharged { number, is_doomed, .. }: Discharged,
        discharge: Option<SerialNumber>,
        settled: Vec<SettledRange>,
    ) {
        self.ending.push_back(EndingTransaction { number, discharge, settled, is_doomed });
    }

    /// Checks that a transaction is the open one.
    pub(crate) fn check(&self, name: &[u8]) -> Result<(), ProtocolFault> {
        if self.is_open && self.name() == name { Ok(()) } else { Err(unknown_transaction()) }
    }

    /// The channel, if a transaction is open.
    pub(crate) fn open_channel(&self) -> Option<ChannelId> {
        self.is_open.then_some(self.channel)
    }

    /// The name of the open transaction.
    pub(crate) fn name(&self) -> TransactionName {
        let [a, b] = self.session.to_be_bytes();
        let [c, d, e, f] = self.last.to_be_bytes();
        [a, b, c, d, e, f]
    }

    /// The transaction whose end the broker has answered, unless its link is gone.
    pub(crate) fn take_ended(&mut self, number: u32) -> Option<EndingTransaction> {
        self.ending.pop_front_if(|ending| ending.number == number)
    }
}

/// The name of a request to the broker that ends a transaction.
pub(crate) const fn discharge_origin(session: ChannelId, number: u32) -> MethodTag {
    MethodTag(TRANSACTION | (session.0 as u64) << 32 | number as u64)
}

/// The session and the number of the transaction that a request to the broker has ended.
#[expect(clippy::cast_possible_truncation, reason = "the parts of a tag of this front's own")]
pub(crate) fn discharged_by(origin: MethodTag) -> Option<(ChannelId, u32)> {
    let session = ChannelId((origin.0 >> 32) as u16);
    (origin.0 & TRANSACTION != 0).then_some((session, origin.0 as u32))
}

/// The session that keeps its transactions on this channel; `None` if the channel is a session's.
pub(crate) fn session_of(channel: ChannelId, channel_max: u16) -> Option<ChannelId> {
    channel.0.checked_sub(channel_max)?.checked_sub(1).map(ChannelId)
}

/// The fault of a client that names a transaction which is not open.
pub(crate) fn unknown_transaction() -> ProtocolFault {
    ProtocolFault::link(Condition::TransactionUnknownId, "no open transaction has this id")
}

/// The outcome as the client said it, without what else it said.
pub(crate) const fn state_of(outcome: Outcome) -> DeliveryState<'static> {
    match outcome {
        Outcome::Accepted => DeliveryState::ACCEPTED,
        Outcome::Released => DeliveryState::RELEASED,
        Outcome::Rejected => DeliveryState::rejected(None),
        Outcome::Modified => DeliveryState::Outcome(DeliveryOutcome::Modified(Modified {
            delivery_failed: true,
            undeliverable_here: false,
            message_annotations: MapRef::EMPTY,
        })),
    }
}

/// The end of a transaction that its client asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Discharged {
    pub(crate) number: u32,
    pub(crate) commits: bool,
    is_doomed: bool,
}

impl EndingTransaction {
    /// The result that the client is told: the broker's, or that the transaction could not be committed.
    pub(crate) fn result(&self, result: Result<(), Error>) -> Result<(), ProtocolFault> {
        let text = match result {
            Err(error) => error.text,
            Ok(()) if self.is_doomed => "a link of the transaction is detached".into(),
            Ok(()) => return Ok(()),
        };
        Err(ProtocolFault::link(Condition::TransactionRollback, text))
    }
}
