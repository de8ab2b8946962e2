//! A replica goes on without the others of its group, by an operator's word that they are lost.

use std::collections::BTreeSet;

use bytes::Bytes;
use log::{LogError, Wal};

use crate::effects::Health;
use crate::entry::{EntryType, Payload, Vote};
use crate::group::{Raft, RaftGroup};
use crate::members::{Change, PeerId};
use crate::raft_log::{NewEntry, NewState, RaftLog};

/// Has a replica that was found at a start, and not stepped since, be the only member of its group. All that
/// its log holds counts as committed from then on, whatever the others have; the removal of the others
/// follows it there, in a term of its own. **Blocks** until that is durable.
///
/// # Errors
/// The log's; the replica is as it was then, or the only member at the next start.
pub fn discard_others(group: RaftGroup, wal: &Wal) -> Result<RaftGroup, LogError> {
    let health = group.health;
    let mut log = match group.raft {
        Raft::Alone(log) | Raft::Asleep(log, _) => *log,
        Raft::Awake(engine) => engine.into_log(),
    };
    let others: BTreeSet<PeerId> = members_ever(&log, wal).filter(|peer| *peer != log.me).collect();
    if others.is_empty() || health != Health::Sound {
        return Ok(RaftGroup::of_log(log, health));
    }
    let (me, term, last) = (log.me, log.vote.term + 1, log.last_index());
    // A change that does not fit the members is passed over when it is applied.
    let own = [Change::AddLearner(me), Change::Promote(me)];
    let changes = own.into_iter().chain(others.into_iter().map(Change::Remove));
    let entry = |(index, change): (u64, Change)| {
        let mut bytes = Vec::new();
        change.encode(&mut bytes);
        let payload = Payload { entry_type: EntryType::Membership, bytes: Bytes::from(bytes) };
        NewEntry { index, term, payload }
    };
    let entries: Vec<_> = (last + 1..).zip(changes).map(entry).collect();
    let commit = last + entries.len() as u64;
    let vote = Some(Vote { term, vote: me, commit });
    let durable = log.append(wal, NewState { image: None, vote, entries });
    wal.wait_durable(durable)?;
    Ok(RaftGroup::of_log(log, health))
}

/// The members at the image, and those of the changes behind it.
fn members_ever(log: &RaftLog, wal: &Wal) -> impl Iterator<Item = PeerId> {
    let changes = (log.image.index + 1..=log.last_index()).filter(|index| log.is_change(*index));
    let changes = log.payloads(wal, changes.collect::<Vec<_>>().into_iter());
    let added = changes.into_iter().filter_map(|payload| match Change::decode(&payload.bytes) {
        Ok(Change::AddLearner(peer) | Change::Promote(peer)) => Some(peer),
        Ok(Change::Remove(_)) | Err(_) => None,
    });
    log.members().all().collect::<Vec<_>>().into_iter().chain(added)
}
