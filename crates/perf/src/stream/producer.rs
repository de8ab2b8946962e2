//! A producer: what it publishes next, and what was confirmed of it.

use amqp10::{Properties, ValueRef};
use streamproto::field::Field as _;
use streamproto::{Compression, Entry, SubBatch};

use super::config::Producing;
use super::message;
use super::super_stream::partition;
use super::unconfirmed::{Published, Unconfirmed};
use crate::publisher::Staged;
use crate::rate::RateLimiter;
use crate::stats::{Run, Sample};

/// Key and version of `Publish`, with filter values and without.
const PUBLISH: [u8; 4] = [0, 2, 0, 1];
const PUBLISH_FILTERED: [u8; 4] = [0, 2, 0, 2];
/// Bytes of a publish frame before its entries.
const FRAME_HEAD_BYTES: usize = 13;
/// Bytes of a publishing id.
const ID_BYTES: usize = 8;
/// Messages of a producer without a rate before its filter values change, as in stream-perf-test.
const FILTER_CYCLE: u64 = 100_000;

/// A producer of a stream, or of all partitions of a super stream.
#[derive(Debug)]
pub(super) struct Producer {
    config: Producing,
    rate: Option<RateLimiter>,
    /// Messages; `u64::MAX` for no end.
    limit: u64,
    links: Vec<Link>,
    /// An entry as it goes out, if messages differ in nothing but number and time.
    template: Vec<u8>,
    /// Where the time is in `template`.
    stamp_at: usize,
    sent: u64,
    confirmed: u64,
    latency: Run,
}

/// A publisher on a stream.
#[derive(Debug, Default)]
struct Link {
    publisher_id: u8,
    next_id: u64,
    /// The frame that is being filled.
    frame: Vec<u8>,
    n_entries: u32,
    sub_batch: Vec<u8>,
    n_sub_batch: u16,
    compression: Compression,
    /// `sub_batch` as it goes out.
    packed: Vec<u8>,
    unconfirmed: Unconfirmed,
}

impl Producer {
    /// A producer with publishers of these numbers, and the next publishing id of each. Frames are of
    /// `frame_max` bytes at most; 0 is no limit.
    ///
    /// # Errors
    /// If not even one message fits a frame.
    pub(super) fn new(
        mut config: Producing,
        rate: Option<RateLimiter>,
        frame_max: u32,
        links: &[(u8, u64)],
    ) -> anyhow::Result<Self> {
        let mut template = vec![0; ID_BYTES + 4];
        let stamp_at = message::put(&mut template, Properties::default(), config.size, 0);
        let len = u32::try_from(template.len() - ID_BYTES - 4)?.to_be_bytes();
        if let Some(slot) = template.get_mut(ID_BYTES..).and_then(<[u8]>::first_chunk_mut) {
            *slot = len;
        }
        // Room for what properties and filter values add.
        let entry_bytes =
            template.len() + if links.len() > 1 || config.is_filtered() { 512 } else { 16 };
        let room = usize::try_from(frame_max)?.saturating_sub(FRAME_HEAD_BYTES);
        if frame_max > 0 {
            config.batch = config.batch.min(room / entry_bytes);
            config.sub_entry = config.sub_entry.min(config.batch);
        }
        anyhow::ensure!(config.batch > 0, "no message of {} bytes fits a frame", config.size);
        let link = |&(publisher_id, next_id): &_| Link {
            publisher_id,
            next_id,
            compression: config.compression,
            ..Link::default()
        };
        let (links, limit) = (links.iter().map(link).collect(), config.limit.unwrap_or(u64::MAX));
        let (sent, confirmed, latency) = (0, 0, Run::default());
        Ok(Self { config, rate, limit, links, template, stamp_at, sent, confirmed, latency })
    }

    /// Whether everything is published and answered.
    pub(super) fn is_done(&self) -> bool {
        self.sent >= self.limit && self.n_unconfirmed() == 0
    }

    pub(super) fn n_unconfirmed(&self) -> u64 {
        self.sent - self.confirmed
    }

    /// Messages of a frame, at most.
    pub(super) fn batch(&self) -> usize {
        self.config.batch
    }

    /// Adds the next frame to `out`, or one for each partition.
    pub(super) fn stage(
        &mut self,
        now: u64,
        start: u64,
        out: &mut Vec<u8>,
        sample: &mut Sample,
    ) -> Staged {
        let room = self.config.window.saturating_sub(self.n_unconfirmed());
        let room = room.min(self.limit - self.sent);
        let n_max = u64::try_from(self.config.batch).unwrap_or(u64::MAX).min(room);
        if n_max == 0 {
            return Staged::Full;
        }
        let mut n = 0;
        while n < n_max {
            let Some(at) = self.due(now, start) else { break };
            self.push(at);
            n += 1;
        }
        if n == 0 {
            let rate = self.rate.as_ref();
            return rate.map_or(Staged::Full, |rate| Staged::NotBefore(rate.next()));
        }
        let is_filtered = self.config.is_filtered();
        self.links.iter_mut().for_each(|link| link.finish(is_filtered, now, out));
        sample.counts.sent += n;
        sample.counts.sent_bytes += n * u64::try_from(self.config.size).unwrap_or_default();
        Staged::Bytes
    }

    /// The time the next message is due, if that is now: with a rate, it may have been long ago.
    fn due(&mut self, now: u64, start: u64) -> Option<u64> {
        match &mut self.rate {
            None => Some(now),
            Some(rate) if rate.next() <= now.saturating_sub(start) => Some(start + rate.take()),
            Some(_) => None,
        }
    }

    fn push(&mut self, at: u64) {
        let number = self.sent;
        self.sent += 1;
        let tracks = self.config.tracks();
        if self.links.len() > 1 || self.config.is_filtered() {
            return self.push_with_properties(number, at);
        }
        let Some(link) = self.links.first_mut() else { return };
        if self.config.sub_entry > 1 {
            let message = self.template.get(ID_BYTES..).unwrap_or_default();
            let stamp_at = self.stamp_at - ID_BYTES;
            return link.push_sub_batch(message, self.config.sub_entry, stamp_at, at);
        }
        link.push(&self.template, self.stamp_at, at);
        if tracks {
            link.track(1, at);
        }
    }

    /// A message that is unlike the others: with its number, from which its partition follows, and with
    /// a filter value.
    fn push_with_properties(&mut self, number: u64, at: u64) {
        let is_super = self.links.len() > 1;
        let partition =
            if is_super { partition(number.to_string().as_bytes(), self.links.len()) } else { 0 };
        let to = self.config.filter_value(number);
        let mut message = Vec::with_capacity(self.template.len() + 64);
        let properties = Properties {
            message_id: is_super.then_some(ValueRef::U64(number)),
            to: to.map(ValueRef::Str),
            ..Properties::default()
        };
        let stamp_at = 4 + message::put(&mut message, properties, self.config.size, at);
        let Some(link) = self.links.get_mut(partition) else { return };
        let mut entry = Vec::with_capacity(message.len() + 4);
        Entry::Message(&message).put(&mut entry);
        if self.config.sub_entry > 1 {
            return link.push_sub_batch(&entry, self.config.sub_entry, stamp_at, at);
        }
        link.begin_entry();
        if self.config.is_filtered() {
            to.map(str::as_bytes).put(&mut link.frame);
        }
        link.frame.extend_from_slice(&entry);
        if self.config.tracks() {
            link.track(1, at);
        }
    }

    /// Entries with these ids of a publisher are stored.
    pub(super) fn on_confirm(
        &mut self,
        publisher_id: u8,
        ids: &mut dyn ExactSizeIterator<Item = u64>,
        now: u64,
        sample: &mut Sample,
    ) {
        let before = self.confirmed;
        if self.config.tracks() {
            let Self { links, latency, confirmed, .. } = self;
            let Some(link) = links.iter_mut().find(|link| link.publisher_id == publisher_id) else {
                return;
            };
            for published in ids.filter_map(|id| link.unconfirmed.take(id)) {
                let n = u64::from(published.n_messages);
                *confirmed += n;
                latency.add(now.saturating_sub(published.at), n, &mut sample.confirm_latency);
            }
            latency.flush(&mut sample.confirm_latency);
        } else {
            self.confirmed +=
                u64::try_from(ids.len()).unwrap_or_default().min(self.n_unconfirmed());
        }
        sample.counts.confirmed += self.confirmed - before;
    }

    /// Whether one of its publishers has this number.
    pub(super) fn has(&self, publisher_id: u8) -> bool {
        self.links.iter().any(|link| link.publisher_id == publisher_id)
    }
}

impl Producing {
    fn is_filtered(&self) -> bool {
        !self.filter_values.is_empty()
    }

    /// Whether it matters which entry is confirmed.
    fn tracks(&self) -> bool {
        self.measures_confirms || self.sub_entry > 1
    }

    /// The filter value of a message: for a while some of the values, then others, so that chunks
    /// differ in what they hold.
    fn filter_value(&self, number: u64) -> Option<&str> {
        let n = self.filter_values.len();
        let n_at_once = match n {
            0..=3 => 1,
            4..=10 => n - 3,
            _ => n * 7 / 10,
        };
        let cycle = usize::try_from(number / FILTER_CYCLE).unwrap_or_default();
        let within = usize::try_from(number).unwrap_or_default().checked_rem(n_at_once)?;
        let at = (cycle * n_at_once + within).checked_rem(n)?;
        self.filter_values.get(at).map(String::as_str)
    }
}

impl Link {
    /// Begins an entry with the next id.
    fn begin_entry(&mut self) {
        self.frame.extend_from_slice(&self.next_id.to_be_bytes());
        self.next_id += 1;
        self.n_entries += 1;
    }

    fn push(&mut self, template: &[u8], stamp_at: usize, at: u64) {
        let from = self.frame.len();
        self.frame.extend_from_slice(template);
        let Some(entry) = self.frame.get_mut(from..) else { return };
        patch(entry, 0, self.next_id);
        patch(entry, stamp_at, at);
        self.next_id += 1;
        self.n_entries += 1;
    }

    /// Adds a message to the entry of `n_max`, which it may end.
    fn push_sub_batch(&mut self, message: &[u8], n_max: usize, stamp_at: usize, at: u64) {
        let from = self.sub_batch.len();
        self.sub_batch.extend_from_slice(message);
        patch(self.sub_batch.get_mut(from..).unwrap_or_default(), stamp_at, at);
        self.n_sub_batch += 1;
        if usize::from(self.n_sub_batch) >= n_max {
            self.end_sub_batch(at);
        }
    }

    /// Ends an entry of several messages; as they are if they cannot be compressed.
    fn end_sub_batch(&mut self, at: u64) {
        self.begin_entry();
        self.packed.clear();
        let packed = match self.compression {
            Compression::NONE => None,
            compression => {
                let packed = sub_batch::pack(compression, &self.sub_batch, &mut self.packed);
                packed.is_ok().then_some((compression, &self.packed))
            }
        };
        let (compression, bytes) = packed.unwrap_or((Compression::NONE, &self.sub_batch));
        let batch = SubBatch {
            compression,
            n_records: self.n_sub_batch,
            uncompressed_bytes: u32::try_from(self.sub_batch.len()).unwrap_or(u32::MAX),
            bytes,
        };
        Entry::SubBatch(batch).put(&mut self.frame);
        self.track(self.n_sub_batch.into(), at);
        self.sub_batch.clear();
        self.n_sub_batch = 0;
    }

    /// Waits for the confirm of the entry that was begun last.
    fn track(&mut self, n_messages: u32, at: u64) {
        self.unconfirmed.push(Published { publishing_id: self.next_id - 1, n_messages, at });
    }

    /// Ends the frame and adds it to `out`.
    fn finish(&mut self, is_filtered: bool, now: u64, out: &mut Vec<u8>) {
        if self.n_sub_batch > 0 {
            self.end_sub_batch(now);
        }
        if self.n_entries == 0 {
            return;
        }
        let size = u32::try_from(self.frame.len() + FRAME_HEAD_BYTES - 4).unwrap_or(u32::MAX);
        out.extend_from_slice(&size.to_be_bytes());
        out.extend_from_slice(if is_filtered { &PUBLISH_FILTERED } else { &PUBLISH });
        out.push(self.publisher_id);
        out.extend_from_slice(&self.n_entries.to_be_bytes());
        out.extend_from_slice(&self.frame);
        self.frame.clear();
        self.n_entries = 0;
    }
}

fn patch(bytes: &mut [u8], at: usize, number: u64) {
    if let Some(slot) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *slot = number.to_be_bytes();
    }
}
