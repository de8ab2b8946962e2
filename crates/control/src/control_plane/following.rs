//! The queues, exchanges and connections of a node follow the definitions: from facts and what they removed,
//! which every node has, whoever decided the change.

use super::{Cause, ControlParts, ControlPlane, Definitions};
use classic::{ClassicService, Queue};
use exchanges::NewlyDelaying;
use log::{Appended, Owner};
use meta::{ChangeFacts, Command, QueueDef, QueueId, QueueKind, QueueVersion, Removed, State};
use queues::QueueRef;
use quorum::QuorumQueue;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stream::Stream;

impl ControlPlane {
    /// Has queues and exchanges follow changes that led to the definitions, and publishes the new view.
    /// `appended` is where the log has them, if it also has the versions of new queues. Adds the exchanges
    /// that may delay messages now; returns the queues that went.
    pub(super) fn follow<'c>(
        &self,
        definitions: &mut Definitions,
        changes: impl Iterator<Item = ChangeFacts<'c>> + Clone,
        appended: Option<Appended>,
        delaying: &mut Vec<NewlyDelaying>,
    ) -> Vec<QueueRef> {
        stdx::walk::step("make");
        for fact in changes.clone().flat_map(ChangeFacts::commands) {
            if let Some(queue) = self.parts.new_queue(definitions, fact, appended) {
                definitions.queues.insert(queue.id(), queue);
                self.churn.n_created.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (mut gone, mut any) = (Vec::new(), false);
        for change in changes {
            any |= !change.facts.is_empty();
            definitions.gone.note(change.commands(), change.removed);
            let queues = change.removed.iter().filter_map(removed_queue);
            gone.extend(queues.filter_map(|id| definitions.queues.remove(&id)));
            self.parts.exchanges.follow(&definitions.meta, change, delaying);
        }
        if any {
            self.publish(definitions, Cause::Definitions);
        }
        // Deletions count once the view lacks the queues, so that no listing counts a queue twice.
        self.churn.note_ended(&gone);
        gone
    }
}

fn removed_queue(removed: &Removed) -> Option<QueueId> {
    if let Removed::Queue(def) = removed { Some(def.id) } else { None }
}

impl ControlParts {
    /// Makes the queue that a fact declares, if it is still defined.
    fn new_queue(
        &self,
        definitions: &mut Definitions,
        fact: &Command,
        appended: Option<Appended>,
    ) -> Option<QueueRef> {
        let Command::DeclareQueue(declare) = fact else { return None };
        let meta = &definitions.meta;
        let def = meta.queue_by_id(declare.id?)?;
        if let Some(remote) = self.homes.remote(meta, def) {
            return Some(remote.into());
        }
        match def.kind {
            QueueKind::Classic => {
                let version = self.new_version(meta, def);
                Some(self.new_classic(meta, def, version, appended).into())
            }
            QueueKind::Quorum => {
                let services = Arc::clone(&self.services);
                let settings = meta.queue_settings(def);
                Some(QuorumQueue::new(Arc::clone(def), &settings, services).into())
            }
            QueueKind::Stream => {
                let made = definitions.new_streams.remove(&def.id);
                Some(made.unwrap_or_else(|| self.new_stream(meta, def)).into())
            }
        }
    }

    /// The version that the files of a new queue have.
    pub(super) fn new_version(&self, meta: &State, def: &QueueDef) -> QueueVersion {
        let has_version =
            def.durable && def.kind == QueueKind::Classic && self.homes.is_here(meta, def);
        if has_version { meta.wanted_version(def, self.default_version) } else { QueueVersion::V2 }
    }

    /// Makes a classic queue.
    fn new_classic(
        &self,
        meta: &State,
        def: &Arc<QueueDef>,
        version: QueueVersion,
        appended: Option<Appended>,
    ) -> Arc<Queue> {
        let (settings, services) = (meta.queue_settings(def), &self.services);
        let queue = Queue::new(Arc::clone(def), settings, Arc::clone(services), version);
        if version == QueueVersion::V1 {
            let wal = &services.storage.wal;
            if let Some(appended) = appended {
                // The command logged with the version has kept the segment until now.
                wal.retain(appended.at.segment, Owner(def.id.0), 1);
                queue.files_version.note_logged(appended.at.segment);
            } else {
                queue.files_version.log(wal, version);
            }
            ClassicService::make_files(services, Arc::clone(&queue));
        }
        queue
    }

    /// Makes a stream whose declaration was decided before its files were made.
    fn new_stream(&self, meta: &State, def: &Arc<QueueDef>) -> Arc<Stream> {
        let settings = meta::stream_settings(meta, def);
        let opened = self.streams.open(def, &settings);
        opened.unwrap_or_else(|error| self.streams.closed(def, &settings, &error))
    }
}
