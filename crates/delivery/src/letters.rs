//! Dead letters on their way: copies of messages that depart, for the thread of rules, and its progress.

use message::MessageRef;
use queue::Reason;
use queue_type::{DeadLetter, DeadLetterTo, LetterBatch, LetterLimits};
use std::sync::Arc;
use store::backlog::{Backlog, Lookup};

/// State of sending a queue's dead letters by the thread of rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sending {
    /// The thread was not asked to send.
    #[default]
    Idle,
    /// The thread is to be asked: the first dead letter is wanted in memory.
    Wanted,
    /// The thread was asked to send: the first dead letter stays in memory.
    Asked,
    /// The thread has copies of the first dead letters.
    UnderWay,
    /// The thread goes on when the disk has space for the dead letters.
    WaitsForSpace,
}

/// A message that departs.
#[derive(Clone, Copy, Debug)]
pub struct DepartingMessage {
    /// Number of the letter: the position, or a number of its own.
    pub number: u64,
    /// Position of the message.
    pub at: u64,
    /// Rule by which the message left.
    pub reason: Reason,
}

/// Copies of the first messages that depart.
pub struct CopiedLetters {
    /// The copies.
    pub batch: LetterBatch,
    /// Numbers of the messages that were lost meanwhile.
    pub lost: Vec<u64>,
    /// Number after the last message that was copied or lost.
    pub end: u64,
}

impl CopiedLetters {
    /// Copies messages of `backlog` in order within limits, as far as they are in memory. A queue that
    /// `keeps_all` has stored transient messages as persistent ones.
    pub fn of(
        to: Arc<DeadLetterTo>,
        departing: impl Iterator<Item = DepartingMessage>,
        backlog: &Backlog,
        keeps_all: bool,
        LetterLimits { n_max, bytes_max }: LetterLimits,
    ) -> Self {
        let mut batch = LetterBatch { to, letters: Vec::new(), n_positions: 0, awaited: None };
        let (mut bytes, mut end, mut lost) = (0, 0, Vec::new());
        for DepartingMessage { number, at, reason } in departing {
            match backlog.get(at) {
                Lookup::Here(message) => {
                    let persistent = message.persistent && !keeps_all;
                    let mut letter = DeadLetter::of(&MessageRef { persistent, ..message }, reason);
                    (letter.position, letter.n_before) = (number, batch.n_positions);
                    bytes += letter.bytes();
                    batch.letters.push(letter);
                }
                Lookup::Cold => break,
                Lookup::Gone => lost.push(number),
            }
            batch.n_positions += 1;
            end = number + 1;
            if batch.letters.len() >= n_max || bytes >= bytes_max {
                break;
            }
        }
        debug_assert_eq!(batch.n_positions, (batch.letters.len() + lost.len()) as u64);
        Self { batch, lost, end }
    }
}
