//! The way of every change to the definitions: awaited. On a lone node they answer at once; where replicas
//! have to agree on them, their leader is asked.
//!
//! A caller holds no lock meanwhile, and other changes may come before its own. What a client or an operator
//! asks for goes through here, and so does what follows from it: shards, delayed queues, defaults.

use control::{Changed, ControlPlane, Effects, PlanError, Planned, Unbinding};
use meta::{Command, MetaError, Removed, Resharding};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Submits changes to the control plane.
#[derive(Clone, Copy)]
pub(super) struct Submission<'b>(pub(super) &'b ControlPlane);

impl<'b> Submission<'b> {
    /// As [`ControlPlane::submit`].
    pub(super) async fn submit<'c>(self, command: &'c Command) -> Result<Changed<'c>, MetaError> {
        match self.0.replication() {
            None => self.0.submit(command),
            Some(replication) => replication.asking().submit(command).await,
        }
    }

    /// As [`ControlPlane::submit_together`].
    pub(super) async fn submit_together(
        self,
        basis: Option<u64>,
        planned: &mut Planned<'_>,
    ) -> Result<Changed<'static>, PlanError> {
        match self.0.replication() {
            None => self.0.submit_together(basis, planned),
            Some(replication) => replication.asking().submit_together(basis, planned).await,
        }
    }

    /// As [`ControlPlane::submit_first`].
    pub(super) async fn submit_first(self, commands: &[Command]) -> Result<Effects, MetaError> {
        match self.0.replication() {
            None => self.0.submit_first(commands),
            Some(replication) => replication.asking().submit_first(commands).await,
        }
    }

    /// As [`ControlPlane::unbind_slice`].
    pub(super) async fn unbind_slice(
        self,
        command: &Command,
        unbinding: &mut Option<Unbinding<'b>>,
    ) -> Vec<Removed> {
        self.0.unbind_slice(command, unbinding)
    }

    /// As [`ControlPlane::reshard`].
    pub(super) async fn reshard(self, left: Vec<Resharding>) -> Changed<'static> {
        match self.0.replication() {
            None => self.0.reshard(left),
            Some(replication) => replication.asking().reshard(left).await,
        }
    }
}

/// Makes a change where nobody can wait, which is right while definitions answer at once: at a start, before
/// anybody else changes anything, and for queues that the thread of rules finds unused. Where another node
/// may have to answer, a start must await it before it opens listeners, and the thread of rules, which sends
/// all dead letters, must leave deletions to a task.
pub(crate) fn at_once<T>(change: impl Future<Output = T>) -> Option<T> {
    match pin!(change).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => {
            tracing::error!("a change of definitions is given up: it was not answered at once");
            None
        }
    }
}
