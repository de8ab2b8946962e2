//! Answers to published messages, gathered until the bytes are taken: then each publisher has one frame, or
//! as many as they fill.

use crate::reply::refusal_code;
use session::{PublisherId, StreamRefusal};
use streamproto::command::{PublishConfirm, PublishError, PublishingError};
use streamproto::{Command as _, List, ResponseCode};

/// The most messages answered in one frame: it fits into the smallest frame that clients agree to.
const ANSWERS_PER_FRAME_MAX: usize = 512;
/// The most runs for which an idle outbox keeps memory.
const IDLE_RUNS_MAX: usize = 8;

/// Consecutive messages of a publisher with the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    publisher: u8,
    code: ResponseCode,
    first: u64,
    last: u64,
}

/// The answers that wait, in the order they came.
#[derive(Debug, Default)]
pub(super) struct AppendAnswers {
    runs: Vec<Run>,
    /// The number of messages that are answered.
    n_ids: u64,
    ids: Vec<u64>,
    errors: Vec<PublishingError>,
}

impl AppendAnswers {
    pub(super) const fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The number of bytes that the answers take, or will.
    pub(super) fn n_bytes(&self) -> usize {
        let encoded =
            usize::try_from(self.n_ids).unwrap_or(usize::MAX).saturating_mul(size_of::<u64>());
        encoded.saturating_add(self.runs.len() * size_of::<Run>())
    }

    pub(super) fn add(
        &mut self,
        PublisherId(publisher): PublisherId,
        first: u64,
        last: u64,
        answer: Result<(), StreamRefusal>,
    ) {
        self.n_ids += (last - first).saturating_add(1);
        let code = answer.map_or_else(refusal_code, |()| ResponseCode::OK);
        if let Some(run) = self.runs.last_mut()
            && (run.publisher, run.code) == (publisher, code)
            && run.last.checked_add(1) == Some(first)
        {
            run.last = last;
            return;
        }
        self.runs.push(Run { publisher, code, first, last });
    }

    /// Appends all answers that wait.
    pub(super) fn tell(&mut self, out: &mut Vec<u8>) {
        // The answers of a publisher with the same code stay in order; the order among others does not
        // matter.
        if !self.runs.is_sorted_by_key(|run| (run.publisher, run.code.0)) {
            self.runs.sort_by_key(|run| (run.publisher, run.code.0));
        }
        self.n_ids = 0;
        let mut runs = std::mem::take(&mut self.runs);
        for of_frame in runs.chunk_by(|a, b| (a.publisher, a.code) == (b.publisher, b.code)) {
            if let Some(run) = of_frame.first() {
                self.tell_publisher(run.publisher, run.code, of_frame, out);
            }
        }
        runs.clear();
        self.runs = runs;
    }

    fn tell_publisher(
        &mut self,
        publisher: u8,
        code: ResponseCode,
        runs: &[Run],
        out: &mut Vec<u8>,
    ) {
        for id in runs.iter().flat_map(|run| run.first..=run.last) {
            self.ids.push(id);
            if self.ids.len() == ANSWERS_PER_FRAME_MAX {
                self.put_frame(publisher, code, out);
            }
        }
        if !self.ids.is_empty() {
            self.put_frame(publisher, code, out);
        }
    }

    fn put_frame(&mut self, publisher_id: u8, code: ResponseCode, out: &mut Vec<u8>) {
        if code == ResponseCode::OK {
            let publishing_ids = List::of(&self.ids);
            PublishConfirm { publisher_id, publishing_ids }.encode_frame(out);
        } else {
            let errors = self.ids.iter().map(|id| PublishingError { publishing_id: *id, code });
            self.errors.extend(errors);
            let errors = List::of(&self.errors);
            PublishError { publisher_id, errors }.encode_frame(out);
            self.errors.clear();
        }
        self.ids.clear();
    }

    /// Gives back memory that is not in use.
    pub(super) fn trim(&mut self) {
        if self.runs.capacity() > IDLE_RUNS_MAX && self.runs.is_empty() {
            *self = Self::default();
        }
    }
}
