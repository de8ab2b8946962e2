//! A consumer: what it does with a chunk, and what it asks for next.

use anyhow::Context as _;
use streamproto::chunk::data_crc;
use streamproto::command::{ConsumerUpdateResponse, Credit, QueryOffset, StoreOffset, Unsubscribe};
use streamproto::spec::CHUNK_HEADER_BYTES;
use streamproto::{
    ChunkHeader, ChunkType, Command as _, Entries, Entry, FinalOffset, OffsetSpec, ResponseCode,
};

use super::config::Consuming;
use super::message;
use crate::stats::{Run, Sample};

/// A sub-batch with more bytes uncompressed is refused.
const SUB_BATCH_BYTES_MAX: u32 = 64 << 20;

/// A consumer of a stream, or of all partitions of a super stream.
#[derive(Debug)]
pub(super) struct Consumer {
    config: Consuming,
    /// Messages; `u64::MAX` for no end.
    limit: u64,
    subscriptions: Vec<Subscription>,
    received: u64,
    /// Time until which it handles nothing, nanoseconds of the clock.
    pub(super) open_at: u64,
    latency: Run,
}

/// A subscription to a stream.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) id: u8,
    pub(super) stream: String,
    /// The name under which offsets are stored.
    pub(super) reference: Option<String>,
    /// Where it begins.
    pub(super) offset: OffsetSpec,
    /// Chunks since credit was given.
    n_chunks: u16,
    /// Messages since the offset was stored.
    n_unstored: u64,
    next_offset: u64,
    /// The question of the broker that waits for a stored offset.
    update: Option<u32>,
}

impl Subscription {
    pub(super) fn new(
        id: u8,
        stream: String,
        reference: Option<String>,
        offset: OffsetSpec,
    ) -> Self {
        Self {
            id,
            stream,
            reference,
            offset,
            n_chunks: 0,
            n_unstored: 0,
            next_offset: 0,
            update: None,
        }
    }

    fn store(&mut self, out: &mut Vec<u8>) {
        let Some(reference) = self.reference.as_deref().filter(|_| self.n_unstored > 0) else {
            return;
        };
        self.n_unstored = 0;
        let offset = self.next_offset.saturating_sub(1);
        StoreOffset { reference, stream: &self.stream, offset }.encode_frame(out);
    }
}

/// The messages of a chunk that count.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    n: u64,
    bytes: u64,
}

impl Consumer {
    pub(super) fn new(config: Consuming, subscriptions: Vec<Subscription>) -> Self {
        let limit = config.limit.unwrap_or(u64::MAX);
        let (received, open_at, latency) = (0, 0, Run::default());
        Self { config, limit, subscriptions, received, open_at, latency }
    }

    pub(super) fn is_done(&self) -> bool {
        self.received >= self.limit
    }

    pub(super) fn subscriptions(&self) -> &[Subscription] {
        &self.subscriptions
    }

    pub(super) fn has(&self, subscription_id: u8) -> bool {
        self.subscriptions.iter().any(|one| one.id == subscription_id)
    }

    /// Takes a chunk as it is delivered, and asks for more.
    ///
    /// # Errors
    /// A chunk that is damaged.
    pub(super) fn on_chunk(
        &mut self,
        subscription_id: u8,
        chunk: &[u8],
        now: u64,
        out: &mut Vec<u8>,
        sample: &mut Sample,
    ) -> anyhow::Result<()> {
        if self.is_done() {
            return Ok(());
        }
        let at = self.subscriptions.iter().position(|one| one.id == subscription_id);
        let at = at.context("an unknown subscription")?;
        let (header, data) = checked(chunk)?;
        let tally = self.tally(at, &header, data, now, sample)?;
        let tally = Tally { n: tally.n.min(self.limit - self.received), ..tally };
        self.received += tally.n;
        sample.counts.received += tally.n;
        sample.counts.chunks += u64::from(tally.n > 0);
        sample.counts.received_bytes += tally.bytes;
        if let Some(hold_ns) = self.config.hold_ns {
            self.hold(now, tally.n, hold_ns);
        }
        let Self { config, limit, subscriptions, received, .. } = self;
        let Some(subscription) = subscriptions.get_mut(at) else { return Ok(()) };
        subscription.next_offset = header.next_offset();
        subscription.n_unstored += tally.n;
        if config.stores.as_ref().is_some_and(|(_, every)| subscription.n_unstored >= every.get()) {
            subscription.store(out);
        }
        subscription.n_chunks += 1;
        if received >= limit {
            self.unsubscribe(out);
        } else if subscription.n_chunks >= config.credits.every {
            subscription.n_chunks = 0;
            Credit { subscription_id, credit: config.credits.every }.encode_frame(out);
        }
        Ok(())
    }

    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates, which is meant")]
    fn hold(&mut self, now: u64, n: u64, hold_ns: f64) {
        let ns = (n as f64 * hold_ns) as u64;
        self.open_at = self.open_at.max(now).saturating_add(ns);
    }

    /// Counts the messages that were asked for: a chunk may begin before the first of them, and a
    /// filter lets others pass with them. Looks at each message only if something depends on it.
    fn tally(
        &mut self,
        at: usize,
        header: &ChunkHeader,
        data: &[u8],
        now: u64,
        sample: &mut Sample,
    ) -> anyhow::Result<Tally> {
        if header.chunk_type != ChunkType::USER {
            return Ok(Tally::default());
        }
        let Self { config, subscriptions, latency, .. } = self;
        let first = match subscriptions.get(at).map(|one| one.offset) {
            Some(OffsetSpec::Offset(first)) => first,
            _ => 0,
        };
        if first <= header.chunk_id && !config.measures_latency && config.filter_values.is_empty() {
            return Ok(Tally { n: header.n_records.into(), bytes: header.data_bytes.into() });
        }
        let mut tally = Tally::default();
        let mut look = |offset: u64, message: &[u8]| {
            let filters = &config.filter_values;
            let is_wanted = |to: &str| filters.iter().any(|value| value == to);
            if offset < first
                || !filters.is_empty() && !message::to_of(message).is_some_and(is_wanted)
            {
                return;
            }
            tally.n += 1;
            tally.bytes += u64::try_from(message.len()).unwrap_or_default();
            if config.measures_latency
                && let Some(stamp) = message::stamp_of(message)
            {
                latency.add(now.saturating_sub(stamp), 1, &mut sample.latency);
            }
        };
        each_message(header, data, &mut look)?;
        latency.flush(&mut sample.latency);
        Ok(tally)
    }

    fn unsubscribe(&mut self, out: &mut Vec<u8>) {
        for subscription in &mut self.subscriptions {
            if self.config.stores.is_some() {
                subscription.store(out);
            }
            let id = subscription.id;
            Unsubscribe { correlation_id: id.into(), subscription_id: id }.encode_frame(out);
        }
    }

    /// The broker asks where to begin, or says that somebody else is next.
    pub(super) fn on_update(&mut self, id: u8, update: u32, is_active: bool, out: &mut Vec<u8>) {
        let Some(subscription) = self.subscriptions.iter_mut().find(|one| one.id == id) else {
            return;
        };
        if let Some(reference) = subscription.reference.as_deref().filter(|_| is_active) {
            subscription.update = Some(update);
            let stream = subscription.stream.as_str();
            return QueryOffset { correlation_id: id.into(), reference, stream }.encode_frame(out);
        }
        subscription.store(out);
        answer(update, OffsetSpec::None, out);
    }

    /// The stored offset that was asked for; `None` if there is none.
    pub(super) fn on_stored_offset(&mut self, id: u8, stored: Option<u64>, out: &mut Vec<u8>) {
        let Some(subscription) = self.subscriptions.iter_mut().find(|one| one.id == id) else {
            return;
        };
        if let Some(stored) = stored {
            subscription.offset = OffsetSpec::Offset(stored.saturating_add(1));
        }
        if let Some(update) = subscription.update.take() {
            answer(update, subscription.offset, out);
        }
    }
}

fn answer(correlation_id: u32, offset: OffsetSpec, out: &mut Vec<u8>) {
    let code = ResponseCode::OK;
    ConsumerUpdateResponse { correlation_id, code, offset: FinalOffset(offset) }.encode_frame(out);
}

/// Header and entries of a delivered chunk whose checksum is right.
pub(super) fn checked(chunk: &[u8]) -> anyhow::Result<(ChunkHeader, &[u8])> {
    let (header, rest) =
        chunk.split_first_chunk::<CHUNK_HEADER_BYTES>().context("a short chunk")?;
    let header = ChunkHeader::decode(header)?;
    let data = rest.get(..usize::try_from(header.data_bytes)?).context("a short chunk")?;
    let found = data_crc(data);
    anyhow::ensure!(
        header.crc == found,
        "chunk {} is damaged: its checksum is {found:#010x}, and it says {:#010x}",
        header.chunk_id,
        header.crc
    );
    Ok((header, data))
}

/// Calls `look` with every message and its offset.
fn each_message(
    header: &ChunkHeader,
    data: &[u8],
    look: &mut impl FnMut(u64, &[u8]),
) -> anyhow::Result<()> {
    let mut unpacked = Vec::new();
    for entry in Entries::new(data, header.n_entries, header.chunk_id) {
        match entry? {
            (offset, Entry::Message(message)) => look(offset, message),
            (offset, Entry::SubBatch(batch)) => {
                let bytes = sub_batch::unpack(&batch, SUB_BATCH_BYTES_MAX, &mut unpacked)?;
                for inner in Entries::new(bytes, batch.n_records, offset) {
                    if let (offset, Entry::Message(message)) = inner? {
                        look(offset, message);
                    }
                }
            }
        }
    }
    Ok(())
}
