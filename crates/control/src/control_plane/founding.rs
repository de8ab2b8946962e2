//! A node begins to have its definitions together with others: as the first one, or as one that joins.

use super::node_work::NodeWork;
use super::replica::{Replica, ReplicaParts};
use super::{Agreed, Cause, ControlPlane, Definitions};
use bytes::Bytes;
use cluster::{IMAGE_IN_LOG_BYTES_MAX, ImageStore, RaftGroup};
use definitions::{DEFINITIONS_GROUP, DefinitionsGroup, StopReason};
use meta::QueueHome;
use segments::FileError;
use std::sync::{Arc, MutexGuard};
use thiserror::Error;

/// The error of a node that cannot begin to have definitions together with others.
#[derive(Debug, Error)]
pub enum FoundingError {
    /// The definitions are those of a cluster already.
    #[error("the node is a member of a cluster")]
    IsMember,
    /// Something with very many bindings is being deleted.
    #[error("a deletion is under way")]
    Busy,
    /// The disk's error.
    #[error(transparent)]
    Disk(#[from] FileError),
    /// The log's error.
    #[error(transparent)]
    Log(#[from] log::LogError),
    /// The replica's error.
    #[error(transparent)]
    Stopped(#[from] StopReason),
}

/// Makes a lone node's definitions those of a cluster, whose only member is this node. They go on in the log
/// as a group's; what is there of their former form goes once the log has the group durably. **Blocks** if
/// they are very many.
///
/// # Errors
/// As [`FoundingError`] says; the node has its definitions alone then, as before.
pub fn found_cluster(plane: &ControlPlane, parts: ReplicaParts) -> Result<(), FoundingError> {
    let mut definitions = alone(plane)?;
    let (images, wal) = (image_store(plane)?, &plane.storage().wal);
    let home = QueueHome { node: parts.me.node(), boot: parts.boot };
    meta::settle_homes(&mut definitions.meta, home);
    let group = DefinitionsGroup::found(parts.me, definitions.meta.clone(), wal, &images)?;
    definitions.log.found(wal.stats().appended_upto);
    begin(plane, &mut definitions, Replica::new(group, images, parts, plane.view().epoch));
    Ok(())
}

/// Has this node wait for the definitions of a cluster that is going to add it: its own, which are new and
/// name no queues, give way to them.
///
/// # Errors
/// As [`FoundingError`] says.
pub fn join_cluster(plane: &ControlPlane, parts: ReplicaParts) -> Result<(), FoundingError> {
    let mut definitions = alone(plane)?;
    let group = DefinitionsGroup::new(RaftGroup::join(DEFINITIONS_GROUP, parts.me), &[])?;
    let images = image_store(plane)?;
    begin(plane, &mut definitions, Replica::new(group, images, parts, plane.view().epoch));
    Ok(())
}

/// This node's replica as a start has found it, for [`resume_cluster`].
#[derive(Debug)]
pub struct FoundReplica {
    /// The group.
    pub group: RaftGroup,
    /// The bytes of its image.
    pub image: Bytes,
    /// The files of images.
    pub images: ImageStore,
    /// The index of the definitions that the start has made queues of.
    pub index: u64,
}

/// Goes on with the replica that a start has found. Until then the definitions cannot be changed.
///
/// # Errors
/// As [`FoundingError`] says; [`FoundingError::IsMember`] also if nothing was found.
pub fn resume_cluster(plane: &ControlPlane, parts: ReplicaParts) -> Result<(), FoundingError> {
    let mut definitions = stdx::lock(&plane.definitions);
    let found = definitions.found.take().ok_or(FoundingError::IsMember)?;
    let FoundReplica { group, image, images, index } = *found;
    let group = DefinitionsGroup::new(group, &image)?;
    let mut replica = Replica::new(group, images, parts, 0);
    replica.follows_upto(index);
    begin(plane, &mut definitions, replica);
    drop(definitions);
    if let Some(replication) = plane.replication() {
        replication.durable();
    }
    Ok(())
}

/// Has the replica that a start has found be the only one of its cluster, by an operator's word that the
/// others are lost. **Blocks** until that is durable. Nothing is done if nothing was found.
///
/// # Errors
/// As [`FoundingError`] says.
pub fn discard_others(plane: &ControlPlane) -> Result<(), FoundingError> {
    let found = stdx::lock(&plane.definitions).found.take();
    let Some(found) = found else { return Ok(()) };
    let group = cluster::discard_others(found.group, &plane.storage().wal)?;
    stdx::lock(&plane.definitions).found = Some(Box::new(FoundReplica { group, ..*found }));
    Ok(())
}

fn alone(plane: &ControlPlane) -> Result<MutexGuard<'_, Definitions>, FoundingError> {
    let definitions = stdx::lock(&plane.definitions);
    if plane.node_work.get().is_some() || definitions.found.is_some() {
        return Err(FoundingError::IsMember);
    }
    if definitions.n_unbinding > 0 {
        return Err(FoundingError::Busy);
    }
    Ok(definitions)
}

fn image_store(plane: &ControlPlane) -> Result<ImageStore, FoundingError> {
    let disk = Arc::clone(plane.storage().shared_disk());
    Ok(ImageStore::open(disk, IMAGE_IN_LOG_BYTES_MAX)?)
}

/// Has the replica decide from now on.
fn begin(plane: &ControlPlane, definitions: &mut Definitions, mut replica: Replica) {
    replica.upto = definitions.log.upto();
    definitions.agreed = Some(Agreed { epoch: replica.epoch() });
    let home = QueueHome { node: replica.parts.me.node(), boot: replica.parts.boot };
    definitions.replica = Some(Box::new(replica));
    plane.node_work.get_or_init(|| Arc::new(NodeWork::of(home)));
    plane.publish(definitions, Cause::Definitions);
}
