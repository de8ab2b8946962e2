//! Syncs of journals: what was noted in them is made durable, and those who wait are told.

use content::{Journal, JournalInbox, OPEN_JOURNALS_MAX, QUEUES_DIR, Services, Storage};
use log::LogError;
use queue_index::Unsynced;
use segments::IoContext;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::StoreError;

/// Number of journals from which on one sync of the whole disk is cheaper than a sync of each.
pub(super) const SYNC_ALL_FROM: usize = 16;

/// Makes everything durable that was noted in journals, and tells those who wait.
pub(super) fn sync(
    inbox: &JournalInbox,
    storage: &Storage,
    journals: &[Arc<Journal>],
) -> Result<(), StoreError> {
    // Notes that are added from here on list their journal anew.
    journals.iter().for_each(|journal| journal.is_listed.store(false, Ordering::Release));
    for journals in journals.chunks(OPEN_JOURNALS_MAX) {
        make_durable(storage, journals)?;
        journals.iter().for_each(|journal| inbox.note_open(journal));
    }
    for journal in journals {
        inbox.count(journal);
        journal.tell_synced();
    }
    for journal in journals.iter().filter(|journal| journal.v1.wants_flush()) {
        let flushed = journal.v1.flush(&journal.bodies.blobs)?;
        inbox.count(journal);
        for damage in flushed.damage {
            storage.count_unreadable(&damage);
            tracing::error!("messages of a queue are lost: {damage}");
        }
        journal.tell_synced();
    }
    Ok(())
}

fn make_durable(storage: &Storage, journals: &[Arc<Journal>]) -> Result<(), StoreError> {
    if journals.len() < SYNC_ALL_FROM {
        return journals
            .iter()
            .try_for_each(|journal| journal.v1.sync(&journal.bodies.blobs).map(drop));
    }
    let write = |journal: &Arc<Journal>| journal.v1.write_unsynced(&journal.bodies.blobs);
    let written: Vec<Unsynced> = journals.iter().map(write).collect::<Result<_, StoreError>>()?;
    storage.disk.sync_all().context("sync", QUEUES_DIR)?;
    for (journal, written) in journals.iter().zip(written) {
        journal.v1.confirm(written);
    }
    Ok(())
}

/// Makes everything durable that was noted in a journal. For the end of the node, when nobody
/// else does it any more.
///
/// # Errors
/// The disk's, also those of the time before.
pub(crate) fn sync_at_end(services: &Services, journal: &Arc<Journal>) -> Result<(), LogError> {
    let journal = std::slice::from_ref(journal);
    sync(&services.journals, &services.storage, journal).map_err(|error| match error {
        StoreError::Disk(error) => error.into(),
        error @ (StoreError::Missing { .. } | StoreError::Poisoned { .. }) => {
            LogError::Poisoned { reason: error.to_string() }
        }
    })
}
