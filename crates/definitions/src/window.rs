//! The latest requests of each node that were done: a part of the replicated state.

use std::collections::{BTreeMap, BTreeSet};

use stdx::record::{Reader, RecordError, put_u16, put_u32, put_u64};

use crate::ask::RequestId;

/// The numbers of each node that are remembered, back from its highest one: a node asks for nothing with a
/// number below these.
pub const REQUESTS_REMEMBERED: u64 = 1024;

/// Whether a request was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestStatus {
    /// The request was not done.
    New,
    /// The request was done.
    Done,
    /// The request is older than those that are remembered.
    Forgotten,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NodeWindow {
    boot: u32,
    /// The highest number that was done.
    last: u64,
    done: BTreeSet<u64>,
}

/// The latest requests of each node that were done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestWindow(BTreeMap<u16, NodeWindow>);

impl RequestWindow {
    pub(crate) fn status(&self, request: RequestId) -> RequestStatus {
        let Some(node) = self.0.get(&request.node).filter(|it| it.boot >= request.boot) else {
            return RequestStatus::New;
        };
        if node.boot > request.boot || is_past(request.n, node.last) {
            RequestStatus::Forgotten
        } else if node.done.contains(&request.n) {
            RequestStatus::Done
        } else {
            RequestStatus::New
        }
    }

    pub(crate) fn insert(&mut self, request: RequestId) {
        let RequestId { node, boot, n } = request;
        let node = self.0.entry(node).or_default();
        if node.boot != boot {
            *node = NodeWindow { boot, ..NodeWindow::default() };
        }
        node.last = node.last.max(n);
        node.done.insert(n);
        let last = node.last;
        node.done.retain(|n| !is_past(*n, last));
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_u64(out, self.0.len() as u64);
        for (no, node) in &self.0 {
            put_u16(out, *no);
            put_u32(out, node.boot);
            put_u64(out, node.last);
            put_u64(out, node.done.len() as u64);
            node.done.iter().for_each(|n| put_u64(out, *n));
        }
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, RecordError> {
        let mut nodes = BTreeMap::new();
        for _ in 0..r.u64()? {
            let (no, boot, last) = (r.u16()?, r.u32()?, r.u64()?);
            let n_done = r.u64()?;
            let done = (0..n_done).map(|_| r.u64()).collect::<Result<_, _>>()?;
            nodes.insert(no, NodeWindow { boot, last, done });
        }
        Ok(Self(nodes))
    }
}

/// Whether a number is too far below the highest one to be remembered.
const fn is_past(n: u64, last: u64) -> bool {
    n.saturating_add(REQUESTS_REMEMBERED) <= last
}
