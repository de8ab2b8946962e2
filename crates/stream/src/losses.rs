//! Losses of a stream: told once, and counted.

use crate::services::StreamDurability;
use crate::stream::Stream;
use chunk_log::{Cut, Damage, Lack, Recovered, Scrubbed};

/// The losses of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamDamage<'s>(pub &'s Stream);

impl StreamDamage<'_> {
    /// Tells what an opening has found.
    pub(crate) fn tell_recovered(&self, recovered: &Recovered) {
        recovered.cut.iter().for_each(|cut| self.tell_cut(cut));
        for damage in &recovered.damaged {
            self.tell_damage(damage);
        }
        if let Some(Lack { what, n_messages }) = &recovered.lost {
            self.count_lost(*n_messages);
            let resource = self.0.def().resource();
            tracing::error!("{resource}: {n_messages} messages are lost, as accepted: {what}");
        }
    }

    /// Tells of a chunk that is damaged, once; whether nobody knew of it.
    pub fn tell_damage(&self, damage: &Damage) -> bool {
        let is_new = self.0.view.note_damaged(damage);
        if is_new {
            self.tell_new_damage(damage);
        }
        is_new
    }

    fn tell_new_damage(&self, damage: &Damage) {
        let Damage { file, at, offset, n_messages, what } = damage;
        self.count_lost(*n_messages);
        let resource = self.0.def().resource();
        match offset {
            Some(offset) => tracing::error!(
                "{resource}: {n_messages} messages from offset {offset} are lost: {file} is damaged at byte {at}: \
                 {what}"
            ),
            None => tracing::error!("{resource}: {file} is damaged at byte {at}: {what}"),
        }
    }

    /// Tells what was cut off. Chunks that had been written whole had been handed to the system, upon which
    /// they are confirmed unless streams are synced first; nothing that was synced is cut off.
    fn tell_cut(&self, Cut { file, bytes, n_messages }: &Cut) {
        stdx::lock(&self.0.services.losses).cut_off_bytes += bytes;
        let is_confirmed_by_write = self.0.services.options.durability == StreamDurability::Write;
        if is_confirmed_by_write && *n_messages > 0 {
            self.count_lost(*n_messages);
            tracing::error!(
                "{}: truncated {bytes} unreadable bytes at the end of {file}: {n_messages} messages are lost, \
                 which may have been confirmed",
                self.0.def().resource()
            );
            return;
        }
        tracing::warn!(
            "truncated {bytes} bytes of an incomplete write at the end of {file}; it was not confirmed"
        );
    }

    fn count_lost(&self, n_messages: u64) {
        stdx::lock(&self.0.services.losses).n_messages += n_messages;
    }

    /// Tells what a look at everything has found.
    pub fn tell_scrubbed(&self, found: &Scrubbed) {
        for damage in &found.damage {
            self.tell_damage(damage);
        }
    }
}
