//! The broker's upkeep, set off by ticks and syncs.

use super::Broker;
use classic::ClassicService;
use content::Storage;
use control::other_homes;
use control::{ControlPlane, View};
use log::Owner;
use meta::QueueId;
use queues::Upkeep;
use std::sync::atomic::Ordering;
use stdx::MonotonicMs;

/// Segments the log may have before survivors of the oldest are moved to its end.
const RELOCATE_FROM_SEGMENTS: u64 = 4;
/// Bytes of the log per byte that is needed at which the oldest segment is moved, however much of it
/// is needed.
const RELOCATE_ABOVE_FACTOR: u64 = 3;

/// Queues are looked at for overdue messages each second, and later by a millisecond for so many.
const OVERDUE_QUEUES_PER_MS: u64 = 20;

/// Has channels closed that hold messages for too long, and connections that hold too many.
pub(super) fn look_for_overdue(broker: &Broker, now_ms: MonotonicMs) {
    if !broker.holdings.is_look_due(now_ms) {
        return;
    }
    broker.holdings.note_unacked(broker.figures().unacked_by_connection(), &broker.connections);
    let (view, node_timeout_ms) = (broker.view(), broker.limits().consumer_timeout_ms);
    for overdue in view.queues().flat_map(|queue| Upkeep(queue).overdue(node_timeout_ms, now_ms)) {
        if let Some(connection) = broker.connections.get(overdue.connection) {
            connection.note_overdue(overdue.channel, overdue.timeout_ms);
        } else if view.meta.nodes().get(overdue.connection.node()).is_some() {
            other_homes(&broker.control_plane).tell_overdue(overdue);
        }
    }
    let pause_ms = view.queues().count() as u64 / OVERDUE_QUEUES_PER_MS;
    broker.holdings.set_next_look(now_ms.plus(pause_ms));
}

/// Has connections closed that do not answer what their single active consumers are told; those that are held
/// by an alarm cannot be heard.
pub(super) fn look_for_silent_consumers(broker: &Broker, now_ms: MonotonicMs) {
    for id in broker.view().streams().flat_map(|stream| stream.memberships.silent(now_ms)) {
        let connection = broker.connections.get(id);
        if let Some(it) = connection.filter(|it| !it.blocked.load(Ordering::Relaxed)) {
            let reason = "a consumer update was not answered in time";
            tracing::info!(connection = %it.identity.name, "closing the connection: {reason}");
            it.kick(reason);
        }
    }
}

/// Has queues page that take more than they may since others have grown, and files reclaimed.
pub(super) fn keep_memory_small(view: &View, classic: &ClassicService) {
    let is_there = |vhost: &str| view.meta.vhost(vhost).is_some();
    // In this order: the view holds what is appended.
    let log = classic.storage().wal.stats();
    classic.storage().bodies.leave(is_there, log.appended_upto, log.durable_upto);
    classic.keep_memory_small(|| {
        view.classic_queues().for_each(|queue| queue.upkeep().look_at_pages());
        view.quorum_queues().for_each(|queue| queue.look_at_pages());
    });
}

/// Moves what is left in the oldest segment to the log's end when that is worth it.
pub(super) fn keep_log_short(control_plane: &ControlPlane, storage: &Storage) {
    let stats = storage.wal.stats();
    let oldest = stats.oldest.filter(|_| stats.segments > RELOCATE_FROM_SEGMENTS);
    if control_plane.is_snapshot_due(oldest)
        && let Err(error) = control_plane.write_snapshot()
    {
        tracing::error!("cannot write the definitions: {error}");
    }
    if let (Some(replication), Some(oldest)) = (control_plane.replication(), oldest) {
        replication.relocate(oldest.id);
    }
    // A segment that is needed as a whole is moved only when most of what lies behind it is
    // superfluous: segments are freed oldest first.
    let is_worth_it = |oldest: &log::SegmentState| {
        oldest.live_bytes < oldest.bytes / 2
            || stats.live_bytes < stats.bytes / RELOCATE_ABOVE_FACTOR
    };
    let may_move = |oldest: &log::SegmentState| storage.may_move(oldest.live_bytes);
    let Some(oldest) = oldest.filter(is_worth_it).filter(may_move) else {
        return;
    };
    let (view, owners) = (control_plane.view(), storage.wal.owners_in(oldest.id));
    for queue in owners.into_iter().filter_map(|Owner(id)| view.queue_by_id(QueueId(id))) {
        Upkeep(&queue).relocate(oldest.id);
    }
}
