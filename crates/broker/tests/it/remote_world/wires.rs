//! Connections between two nodes: bytes that come in pieces, or stop at any byte, and ends that each node
//! notices in its own time.

use super::node::Node;
use peer::{
    ConnectionNumber, FrameDecoder, LinkBatch, PeerFrame, PeerLink, SESSION_ROWS, Vocabulary,
};
use peer::{SessionFrame, TakenFromLink};
use std::io::IoSlice;
use std::task::{Context, Poll, Waker};
use testing::Random;

/// The state of a connection as one of its nodes sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Expected,
    Open,
    Ended,
}

/// One of the two nodes of a connection, and the bytes on their way to it.
struct End {
    node: usize,
    standing: Standing,
    /// Whether the node has yet to be told that the connection is made.
    is_made_due: bool,
    is_stalled: bool,
    coming: Vec<u8>,
    decoder: FrameDecoder,
}

impl End {
    fn new(node: usize) -> Self {
        let decoder = FrameDecoder::new(Vocabulary::new(0, &[SESSION_ROWS]));
        let (standing, coming) = (Standing::Expected, Vec::new());
        Self { node, standing, is_made_due: true, is_stalled: false, coming, decoder }
    }
}

/// A connection, which may be broken.
pub(super) struct Wire {
    number: ConnectionNumber,
    is_broken: bool,
    ends: [End; 2],
}

impl Wire {
    pub(super) fn new(number: u64, nodes: [usize; 2]) -> Self {
        Self { number: ConnectionNumber(number), is_broken: false, ends: nodes.map(End::new) }
    }

    pub(super) fn is_between(&self, a: usize, b: usize) -> bool {
        let nodes = [self.ends[0].node, self.ends[1].node];
        nodes == [a, b] || nodes == [b, a]
    }

    pub(super) const fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether both nodes have it, and have been told so.
    pub(super) fn is_settled(&self) -> bool {
        let is_settled = |end: &End| end.standing == Standing::Open && !end.is_made_due;
        !self.is_broken && self.ends.iter().all(is_settled)
    }

    /// Whether both nodes have noticed its end.
    pub(super) fn is_over(&self) -> bool {
        self.is_broken && self.ends.iter().all(|end| end.standing == Standing::Ended)
    }

    /// Breaks it: of the bytes on their way, some still come.
    pub(super) fn sever(&mut self, random: &mut Random) {
        self.is_broken = true;
        for end in &mut self.ends {
            let n = random.below(end.coming.len() + 1);
            end.coming.truncate(n);
            if end.standing == Standing::Expected {
                end.standing = Standing::Ended;
            }
        }
    }

    /// A node has gone: it notices nothing any more.
    pub(super) fn lose(&mut self, node: usize) {
        self.ends.iter_mut().filter(|end| end.node == node).for_each(|end| {
            end.standing = Standing::Ended;
        });
    }

    pub(super) fn stall(&mut self, random: &mut Random) {
        let [a, b] = &mut self.ends;
        let end = if random.percent(50) { a } else { b };
        end.is_stalled = !end.is_stalled;
    }

    pub(super) fn unstall(&mut self) {
        self.ends.iter_mut().for_each(|end| end.is_stalled = false);
    }

    /// Does what is due, each with this probability; returns whether it did anything.
    pub(super) fn step(&mut self, nodes: &mut [Node], random: &mut Random, percent: usize) -> bool {
        let mut is_active = false;
        for at in 0..2 {
            is_active |= self.note(at, nodes, random, percent);
            is_active |= self.fetch(at, nodes);
            if self.ends[1 - at].standing == Standing::Open && random.percent(percent) {
                let whole = percent >= 100;
                is_active |= self.bring(1 - at, nodes, random, whole);
            }
        }
        is_active
    }

    /// A node opens its end, is told so, or notices that the connection has ended.
    fn note(&mut self, at: usize, nodes: &mut [Node], random: &mut Random, percent: usize) -> bool {
        let other = self.ends[1 - at].node;
        let end = &mut self.ends[at];
        let Some(running) = nodes[end.node].running.as_ref() else { return false };
        let (number, link) = (self.number, running.link(other));
        let _in_runtime = running.runtime.enter();
        match end.standing {
            Standing::Expected if random.percent(percent) => {
                assert!(link.open(number));
                end.standing = Standing::Open;
            }
            Standing::Open if self.is_broken && random.percent(percent) => {
                link.close(number);
                running.homes().ended(Node::number(other), number);
                running.served.ended(Node::number(other), number);
                end.standing = Standing::Ended;
            }
            Standing::Open if end.is_made_due && random.percent(percent) => {
                running.homes().made(Node::number(other));
                end.is_made_due = false;
            }
            Standing::Expected | Standing::Open | Standing::Ended => return false,
        }
        true
    }

    /// Takes what a node has put into its link.
    fn fetch(&mut self, at: usize, nodes: &[Node]) -> bool {
        let [from, to] = [&self.ends[at], &self.ends[1 - at]].map(|end| end.node);
        if self.ends[at].standing != Standing::Open {
            return false;
        }
        let Some(running) = nodes[from].running.as_ref() else { return false };
        let bytes = take(running.link(to), self.number);
        let is_active = !bytes.is_empty();
        if !self.is_broken {
            self.ends[1 - at].coming.extend(bytes);
        }
        is_active
    }

    /// Brings some bytes to a node.
    fn bring(&mut self, at: usize, nodes: &[Node], random: &mut Random, whole: bool) -> bool {
        let number = self.number;
        let [to, from] = [at, 1 - at].map(|at| self.ends[at].node);
        let end = &mut self.ends[at];
        if end.is_stalled || end.coming.is_empty() {
            return false;
        }
        let Some(running) = nodes[to].running.as_ref() else { return false };
        let _in_runtime = running.runtime.enter();
        let n = if whole { end.coming.len() } else { 1 + random.below(end.coming.len()) };
        let bytes: Vec<u8> = end.coming.drain(..n).collect();
        if !running.link(from).received(number, bytes.len()) {
            return true;
        }
        let mut input = &*bytes;
        while let Some(PeerFrame { kind, body }) = end.decoder.next(&mut input).unwrap() {
            let frame = SessionFrame::of_kind(kind).unwrap();
            running.receive(from, number, frame, body.into_bytes());
        }
        true
    }
}

/// The bytes that wait in a link.
fn take(link: &PeerLink, number: ConnectionNumber) -> Vec<u8> {
    let (mut batch, mut bytes) = (LinkBatch::default(), Vec::new());
    let context = Context::from_waker(Waker::noop());
    while link.poll_take(number, &context, &mut batch) == Poll::Ready(TakenFromLink::Batch) {
        while batch.n_left() > 0 {
            let mut slices = [IoSlice::new(&[])];
            let n = batch.fill(&mut slices);
            let part: Vec<u8> = slices[..n].iter().flat_map(|it| it.to_vec()).collect();
            bytes.extend_from_slice(&part);
            link.wrote(number, &mut batch, part.len());
        }
    }
    bytes
}
