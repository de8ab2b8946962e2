//! The frames of one class that wait on a link.

use crate::connection::LinkClass;
use crate::frame::{PIECE_BYTES_MAX, frame_head, piece_kind, put_begin};
use crate::kinds::FrameKind;
use crate::link::batch::LinkBatch;
use bytes::Bytes;
use std::collections::VecDeque;

/// Shared bytes up to this length are copied between the small ones: a slice of its own costs more.
const COPIED_BYTES_MAX: usize = 4 * 1024;
/// Small frames are written together up to this length, and then others may pass.
const RUN_BYTES_MAX: usize = PIECE_BYTES_MAX;

/// The frames of a class, in order.
#[derive(Debug)]
pub(super) struct ClassQueue {
    class: LinkClass,
    parts: VecDeque<QueuedPart>,
    /// Small frames after all parts.
    run: Vec<u8>,
    n_run_frames: usize,
    /// Bytes that wait, heads of pieces left out.
    n_bytes: usize,
}

#[derive(Debug)]
enum QueuedPart {
    /// Bytes, and how many frames end in them; 0 if the frame goes on with the next part.
    Bytes(Bytes, usize),
    Large(LargeFrame),
}

/// A frame that is sent in pieces.
#[derive(Debug)]
struct LargeFrame {
    kind: FrameKind,
    slices: VecDeque<Bytes>,
    n_left: usize,
    is_begun: bool,
}

impl ClassQueue {
    pub(super) const fn new(class: LinkClass) -> Self {
        Self { class, parts: VecDeque::new(), run: Vec::new(), n_run_frames: 0, n_bytes: 0 }
    }

    /// Adds a frame whose body is what `fill` appends, and the payloads.
    pub(super) fn push(
        &mut self,
        kind: FrameKind,
        fill: impl FnOnce(&mut Vec<u8>),
        payloads: &[Bytes],
    ) {
        let start = self.run.len();
        self.run.extend(frame_head(kind, 0));
        let body_at = self.run.len();
        fill(&mut self.run);
        let n_payload: usize = payloads.iter().map(Bytes::len).sum();
        let n_body = self.run.len() - body_at + n_payload;
        self.n_bytes += body_at - start + n_body;
        if n_body > PIECE_BYTES_MAX {
            let head = Bytes::from(self.run.split_off(start)).slice(body_at - start..);
            self.end_run();
            let slices = std::iter::once(head).chain(payloads.iter().cloned());
            let slices = slices.filter(|slice| !slice.is_empty()).collect();
            let large = LargeFrame { kind, slices, n_left: n_body, is_begun: false };
            return self.parts.push_back(QueuedPart::Large(large));
        }
        let head = self.run.iter_mut().skip(start);
        head.zip(frame_head(kind, n_body)).for_each(|(to, from)| *to = from);
        if n_payload <= COPIED_BYTES_MAX {
            payloads.iter().for_each(|payload| self.run.extend_from_slice(payload));
            self.n_run_frames += 1;
            if self.run.len() >= RUN_BYTES_MAX {
                self.end_run();
            }
        } else {
            let head = self.run.split_off(start);
            self.end_run();
            self.parts.push_back(QueuedPart::Bytes(head.into(), 0));
            for (n, payload) in payloads.iter().enumerate() {
                let n_frames = usize::from(n + 1 == payloads.len());
                self.parts.push_back(QueuedPart::Bytes(payload.clone(), n_frames));
            }
        }
    }

    /// Bytes that wait.
    pub(super) const fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Moves frames into the batch: one, or one piece, and more until the batch has `n_bytes_max`.
    pub(super) fn take(&mut self, batch: &mut LinkBatch, n_bytes_max: usize) {
        self.end_run();
        let mut may_stop = false;
        while !may_stop || batch.n_left() < n_bytes_max {
            match self.parts.pop_front() {
                Some(QueuedPart::Bytes(bytes, n_frames)) => {
                    may_stop = n_frames > 0;
                    self.n_bytes -= bytes.len();
                    batch.push(bytes);
                }
                Some(QueuedPart::Large(mut large)) => {
                    may_stop = true;
                    self.n_bytes -= large.take_piece(self.class, batch);
                    if large.n_left > 0 {
                        self.parts.push_front(QueuedPart::Large(large));
                    } else {
                        self.n_bytes -= frame_head(large.kind, 0).len();
                    }
                }
                None => return,
            }
        }
    }

    /// Drops all; returns how many frames those were.
    pub(super) fn clear(&mut self) -> usize {
        let n_frames = self.parts.iter().map(|part| match part {
            QueuedPart::Bytes(_, n_frames) => *n_frames,
            QueuedPart::Large(_) => 1,
        });
        let n_frames = n_frames.sum::<usize>() + self.n_run_frames;
        *self = Self::new(self.class);
        n_frames
    }

    /// Lets other frames pass after those of the run.
    fn end_run(&mut self) {
        if !self.run.is_empty() {
            let run = Bytes::from(std::mem::take(&mut self.run));
            self.parts.push_back(QueuedPart::Bytes(run, std::mem::take(&mut self.n_run_frames)));
        }
    }
}

impl LargeFrame {
    /// Moves the next piece into the batch; returns how many bytes of the body that is.
    fn take_piece(&mut self, class: LinkClass, batch: &mut LinkBatch) -> usize {
        let mut heads = Vec::new();
        if !std::mem::replace(&mut self.is_begun, true) {
            let n_bytes = u32::try_from(self.n_left).unwrap_or(u32::MAX);
            put_begin(&mut heads, class, self.kind, n_bytes);
        }
        let n_piece = self.n_left.min(PIECE_BYTES_MAX);
        heads.extend(frame_head(piece_kind(class), n_piece));
        batch.push(heads.into());
        let mut n = n_piece;
        while n > 0
            && let Some(slice) = self.slices.front_mut()
        {
            let part = slice.split_to(n.min(slice.len()));
            n -= part.len();
            batch.push(part);
            if slice.is_empty() {
                self.slices.pop_front();
            }
        }
        self.n_left -= n_piece;
        n_piece
    }
}
