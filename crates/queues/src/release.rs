//! The consumers that a channel ends or recovers together, at a queue of any type.

use crate::queue_ref::LinkRef;
use classic::Release;
use queue::Return;
use queue_type::AfterDetach;
use std::collections::HashSet;
use std::sync::Arc;

/// The consumers of one channel at one queue, whose messages come back together.
#[derive(Debug)]
pub enum ReleaseRef {
    /// Consumers of a classic queue.
    Classic(Release),
    /// Consumers of a quorum queue.
    Quorum(quorum::Release),
    /// Consumers of a stream.
    Stream(stream::Release),
}

impl ReleaseRef {
    /// Collects consumers of one queue, with the positions that each keeps; `None` without consumers.
    pub fn of<'l>(links: impl Iterator<Item = (&'l LinkRef, HashSet<u64>)>) -> Option<Self> {
        let (mut classic, mut of_quorum, mut of_stream) = (Vec::new(), Vec::new(), Vec::new());
        for (link, kept) in links {
            match link {
                LinkRef::Classic(consumer) => classic.push((consumer, kept)),
                LinkRef::Quorum(consumer) => of_quorum.push((consumer, kept)),
                LinkRef::Stream(consumer) => of_stream.push(Arc::clone(consumer)),
            }
        }
        let classic = Release::of(classic.into_iter()).map(Self::Classic);
        let classic =
            classic.or_else(|| quorum::Release::of(of_quorum.into_iter()).map(Self::Quorum));
        classic.or_else(|| stream::Release::of(of_stream).map(Self::Stream))
    }

    /// The number of consumers.
    pub fn n_consumers(&self) -> usize {
        each!(self, release => release.n_consumers())
    }

    /// Whether the queue's consumers hold more than `n` messages.
    pub fn is_of_more_than(&self, n: usize) -> bool {
        classic!(self, release => release.is_of_more_than(n), false)
    }

    /// Ends the deliveries of the last `n` consumers, and detaches those without unacked messages; `None`
    /// when all consumers were retired.
    pub fn retire(&mut self, n: usize) -> Option<AfterDetach> {
        each!(self, release => release.retire(n))
    }

    /// Gives back up to `n` of the messages that the consumers do not keep; returns how many there were.
    pub fn give_back(&mut self, n: usize, how: Return) -> usize {
        classic!(self, release => release.give_back(n, how), 0)
    }

    /// Requeues everything that the consumers hold, except what each keeps; the consumers stay attached.
    pub fn requeue_all(self) {
        match self {
            Self::Classic(release) => release.requeue_all(),
            Self::Quorum(release) => release.requeue_all(),
            Self::Stream(release) => release.settle_all(),
        }
    }

    /// Detaches the consumers and gives back what they hold, before another consumer gets any of it.
    /// COMPAT: to classic queues always as failed, whatever `how` says.
    pub fn detach(self, how: Return) -> AfterDetach {
        match self {
            Self::Classic(release) => release.detach(),
            Self::Quorum(release) => release.detach(how),
            Self::Stream(release) => release.detach(),
        }
    }
}
