//! The way of publishes into a stream's log: who publishes makes chunks under the writer's lock; whoever
//! finds nobody writing writes them, and goes on with those that have come meanwhile. Chunks form from what
//! arrived during the last write, across publishers.

use crate::confirms::Waiter;
use crate::services::StreamDurability;
use crate::stream::{Stream, log_options};
use crate::writer::{Turn, Writer, review};
use chunk_log::{ChunkLog, ChunkLogError, LogEnd, SyncJob};
use confirm::{DurabilityToken, DurableJournal, JournalSynced};
use conversion::DeliveryAttempt;
use message::Refusal;
use meta::StreamSettings;
use queue_type::{Incoming, RefusedItem, Wakes, wake_all};
use session::ConvertedTo;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, Weak};

/// The most rounds in which a publisher writes what others have published meanwhile; then the threads go on.
const ROUNDS_MAX: usize = 16;

impl Stream {
    /// Puts messages in, in order. Returns what they wait for to be confirmed. A deleted stream takes them
    /// silently, one that is closed refuses them.
    pub fn publish(
        &self,
        messages: &[Incoming<'_>],
        refused: &mut Vec<RefusedItem>,
        wakes: &mut Wakes,
    ) -> DurabilityToken {
        if self.lack().is_some() {
            let refuse =
                |(item, _)| RefusedItem { item, why: Refusal::Unavailable, dead_letter_to: None };
            refused.extend((0..).zip(messages).map(refuse));
            return DurabilityToken::default();
        }
        let mut writer = stdx::lock(&self.writer);
        if self.is_deleted() {
            return DurabilityToken::default();
        }
        let mut n_converted = 0;
        for incoming in messages {
            let message = &incoming.message;
            n_converted += u64::from(message.form.is_plain());
            let filter_value = conversion::stream_filter_value(message);
            writer.making.add_message(filter_value, |out| {
                conversion::to_amqp10(message, DeliveryAttempt::FIRST, out)
            });
        }
        self.services.conversions.note_many(ConvertedTo::Sections, n_converted);
        let note = writer.count(messages.len() as u64);
        Writing(self).write(writer, wakes);
        let mut token = DurabilityToken::default();
        if !self.is_durable(note)
            && let Some(me) = self.me.upgrade()
        {
            token.add_journal(me, note);
        }
        token
    }
}

impl Stream {
    /// Takes settings, unless it has those of a later epoch of the definitions. What they do not keep goes
    /// soon, whether anybody publishes or not.
    pub fn set_settings(&self, settings: &StreamSettings, epoch: u64) {
        if stdx::lock(&self.writer).set_settings(log_options(settings), epoch) {
            Writing(self).ask_for_review();
        }
    }
}

impl DurableJournal for Stream {
    fn wait(&self, note: u64, waiter: Box<dyn JournalSynced>) {
        Writing(self).wait_committed(note, waiter);
    }

    fn is_durable(&self, note: u64) -> bool {
        self.n_committed.load(Ordering::Acquire) >= note
    }
}

/// The writing of a stream.
pub(crate) struct Writing<'s>(pub(crate) &'s Stream);

impl Writing<'_> {
    /// Has everything written that was added, here or by who writes already.
    pub(crate) fn write(&self, mut writer: MutexGuard<'_, Writer>, wakes: &mut Wakes) {
        self.0.services.inbox.add_excess(writer.making.take_added_bytes());
        if self.0.services.options.durability == StreamDurability::Fsync {
            self.ask(&mut writer);
            return;
        }
        drop(writer);
        for _ in 0..ROUNDS_MAX {
            if !self.take_turn(wakes) {
                return;
            }
        }
        self.ask(&mut stdx::lock(&self.0.writer));
    }

    /// Has a thread write.
    fn ask(&self, writer: &mut Writer) {
        if !writer.is_asked
            && let Some(me) = self.0.me.upgrade()
        {
            writer.is_asked = true;
            let write = move || Writing(&me).write_on_thread();
            self.0.services.ask(Box::new(write));
        }
    }

    /// Writes what was added and is yet to be, on a thread of streams.
    pub(crate) fn write_on_thread(&self) {
        stdx::lock(&self.0.writer).is_asked = false;
        let mut wakes = Wakes::new();
        while self.take_turn(&mut wakes) {
            wake_all(&mut wakes);
        }
        wake_all(&mut wakes);
    }

    /// Writes what was added, unless somebody is at it; false if there was nothing to do.
    fn take_turn(&self, wakes: &mut Wakes) -> bool {
        let now_ms = self.0.services.time.unix_ms();
        let Some(mut turn) = stdx::lock(&self.0.writer).next_turn(now_ms) else { return false };
        match turn.run(&self.0.services) {
            Ok(end) => self.commit(turn, end, wakes),
            Err(error) => {
                self.fail(&error);
                return false;
            }
        }
        true
    }

    /// Commits what a turn has written, and tells those that wait for it.
    fn commit(&self, turn: Turn, end: LogEnd, wakes: &mut Wakes) {
        let Turn { log, chunks, n_added, to_sync, .. } = turn;
        self.sync_beside(to_sync);
        self.0.services.note_written(chunks.data_bytes());
        if let Some(chunk_id) = chunks.last_chunk_id() {
            self.0.last_chunk_id.store(chunk_id, Ordering::Release);
        }
        self.0.view.set_committed(end);
        self.0.n_committed.store(n_added, Ordering::Release);
        let told = stdx::lock(&self.0.writer).confirms.take(n_added);
        wakes.extend(told.into_iter().filter_map(|(_, waiter)| waiter.committed()));
        self.0.readers.tell(chunks.bytes.len(), wakes);
        stdx::lock(&self.0.writer).making.give_spare(chunks);
        self.give_back(log, wakes);
    }

    /// Gives the log back once all are told who wait for what is committed, so that they are told in order:
    /// some have come meanwhile, with what was published before.
    fn give_back(&self, log: Box<ChunkLog>, wakes: &mut Wakes) {
        loop {
            let mut writer = stdx::lock(&self.0.writer);
            let told = writer.confirms.take(self.0.n_committed.load(Ordering::Acquire));
            if told.is_empty() {
                writer.log = Some(log);
                return;
            }
            drop(writer);
            wakes.extend(told.into_iter().filter_map(|(_, waiter)| waiter.committed()));
        }
    }

    /// Has a thread sync what was written, which goes on meanwhile, and close what retention has removed.
    fn sync_beside(&self, job: Option<SyncJob>) {
        let Some((job, me)) = job.zip(self.0.me.upgrade()) else { return };
        self.0.services.ask(Box::new(move || {
            let ran = job.run(&*me.services.disk);
            stdx::lock(&me.writer).synced.push((job, ran));
            me.services.files.close_removed();
        }));
    }

    /// Has a thread sync everything once nothing was published for a while: a start need not verify it; and,
    /// if it `may_review`, look at what is kept, once that is due.
    pub(crate) fn tick(&self, may_review: bool) {
        let mut writer = stdx::lock(&self.0.writer);
        let now_ms = i64::try_from(self.0.services.time.unix_ms().get()).unwrap_or(i64::MAX);
        if may_review && writer.is_review_due(now_ms) {
            self.ask_for_review();
        }
        if writer.is_idle()
            && let Some(me) = self.0.me.upgrade()
        {
            self.0.services.ask(Box::new(move || Writing(&me).checkpoint()));
        }
    }

    /// Checkpoints the log, then writes what was published meanwhile, which is left to this thread.
    fn checkpoint(&self) {
        let Some(mut log) = stdx::lock(&self.0.writer).log.take() else { return };
        let mut wakes = Wakes::new();
        match log.checkpoint() {
            Ok(()) => self.give_back(log, &mut wakes),
            Err(error) => self.fail(&error),
        }
        wake_all(&mut wakes);
        self.write_on_thread();
    }

    fn ask_for_review(&self) {
        let me = Weak::clone(&self.0.me);
        self.0.services.review(Box::new(move || {
            if let Some(stream) = me.upgrade() {
                Writing(&stream).review();
            }
        }));
    }

    /// Removes what is not kept any more. Publishers that come meanwhile leave it to this thread to write.
    fn review(&self) {
        if self.0.is_deleted() {
            return;
        }
        let Some(mut log) = stdx::lock(&self.0.writer).take_for_review() else { return };
        review(&mut log, self.0.services.time.unix_ms());
        let mut wakes = Wakes::new();
        self.give_back(log, &mut wakes);
        wake_all(&mut wakes);
        self.write_on_thread();
    }

    /// The files of a deleted stream may be gone before its last chunks are written: who waits for these is
    /// told as if they were. Of any other stream it is a failure of the node.
    fn fail(&self, error: &ChunkLogError) {
        let mut writer = stdx::lock(&self.0.writer);
        if self.0.is_deleted() {
            self.0.n_committed.store(u64::MAX, Ordering::Release);
            let told = writer.confirms.take(u64::MAX);
            drop(writer);
            let mut wakes = Wakes::new();
            wakes.extend(told.into_iter().filter_map(|(_, waiter)| waiter.committed()));
            wake_all(&mut wakes);
            return;
        }
        drop(writer);
        tracing::error!("cannot write {}: {error}", self.0.def().resource());
        self.0.services.failure.note(error);
    }

    pub(crate) fn wait_committed(&self, note: u64, waiter: Box<dyn JournalSynced>) {
        let mut writer = stdx::lock(&self.0.writer);
        if !self.0.is_durable(note) {
            writer.confirms.insert(note, Waiter::Journal(waiter));
            return;
        }
        drop(writer);
        if let Some(waker) = waiter.synced() {
            waker.wake();
        }
    }

    /// Ends in good order: everything is written and durable. Nobody publishes any more.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn close(&self) -> Result<(), ChunkLogError> {
        self.write_on_thread();
        let mut writer = stdx::lock(&self.0.writer);
        let unsynced = writer.log.as_mut().filter(|log| !log.is_checkpointed());
        unsynced.map_or(Ok(()), |log| log.checkpoint())
    }
}
