//! What a stream has lost: told once, and counted.

use crate::services::StreamDurability;
use crate::stream::Stream;
use chunk_log::{Cut, Damage, Lack, Recovered};

impl Stream {
    /// Tells what an opening has found.
    pub(crate) fn tell_recovered(&self, recovered: &Recovered) {
        recovered.cut.iter().for_each(|cut| self.tell_cut(cut));
        recovered.damaged.iter().for_each(|damage| self.tell_damage(damage));
        if let Some(Lack { what, n_messages }) = &recovered.lost {
            self.count_lost(*n_messages);
            let resource = self.def().resource();
            tracing::error!("{resource}: {n_messages} messages are lost, as was accepted: {what}");
        }
    }

    /// Tells of a chunk that is damaged, once.
    pub(crate) fn tell_damage(&self, damage: &Damage) {
        if !self.view.note_damaged(damage) {
            return;
        }
        let Damage { file, at, offset, n_messages, what } = damage;
        self.count_lost(*n_messages);
        let resource = self.def().resource();
        match offset {
            Some(offset) => tracing::error!(
                "{resource}: {n_messages} messages from offset {offset} on are lost: {file} is damaged at byte {at}: \
                 {what}"
            ),
            None => tracing::error!("{resource}: {file} is damaged at byte {at}: {what}"),
        }
    }

    /// What had been written whole had been handed to the system, which confirms it unless streams are synced
    /// first; what was synced is never cut off.
    fn tell_cut(&self, Cut { file, bytes, n_messages }: &Cut) {
        stdx::lock(&self.services.losses).cut_off_bytes += bytes;
        let is_confirmed_by_write = self.services.options.durability == StreamDurability::Write;
        if is_confirmed_by_write && *n_messages > 0 {
            self.count_lost(*n_messages);
            tracing::error!(
                "{}: {bytes} bytes at the end of {file} cannot be read: cut off. {n_messages} messages in them had been \
                 written, and may have been confirmed: they are lost",
                self.def().resource()
            );
            return;
        }
        tracing::warn!(
            "{bytes} bytes at the end of {file} were never finished: cut off. Nothing is known to have been confirmed \
             in them"
        );
    }

    fn count_lost(&self, n_messages: u64) {
        stdx::lock(&self.services.losses).n_messages += n_messages;
    }
}
