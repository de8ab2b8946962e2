//! The chunks of a stream, read from its beginning: how many messages each holds.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use streamproto::command::{Command as _, Credit, Subscribe};
use streamproto::list::Trailing;
use streamproto::{ChunkType, List, OffsetSpec, ToClient, decode_frame};

use crate::stream::client::StreamClient;
use crate::stream::consumer::checked;
use client::Transport;

/// Chunks that are asked for ahead.
const CREDIT: u16 = 50;
/// Time without a chunk after which there is no more.
const IDLE: Duration = Duration::from_secs(2);
/// Chunk sizes that are printed, at most.
const LINES_MAX: usize = 20;

/// The chunks of a stream: how many there are of each number of messages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chunks {
    by_messages: BTreeMap<u32, u64>,
    /// Bytes of the entries of all.
    bytes: u64,
}

impl Chunks {
    pub(super) fn n_messages(&self) -> u64 {
        self.by_messages.iter().map(|(n, chunks)| u64::from(*n) * chunks).sum()
    }

    fn n_chunks(&self) -> u64 {
        self.by_messages.values().sum()
    }

    pub(super) fn summary(&self) -> String {
        let (messages, chunks) = (self.n_messages(), self.n_chunks());
        let mean = messages as f64 / chunks.max(1) as f64;
        format!("{messages} messages in {chunks} chunks, {mean:.2} in each")
    }

    /// A line for each number of messages, the most frequent ones if there are many.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut most: Vec<(u32, u64)> =
            self.by_messages.iter().map(|(n, chunks)| (*n, *chunks)).collect();
        most.sort_by_key(|&(n, chunks)| (std::cmp::Reverse(chunks), n));
        let n_left = most.len().saturating_sub(LINES_MAX);
        most.truncate(LINES_MAX);
        most.sort_unstable();
        let total = self.n_chunks().max(1) as f64;
        let line = |(n, chunks): (u32, u64)| {
            format!(
                "  {n:>6} messages: {chunks:>9} chunks ({:.2} %)",
                chunks as f64 * 100.0 / total
            )
        };
        let mut lines: Vec<String> = most.into_iter().map(line).collect();
        if n_left > 0 {
            lines.push(format!("  and {n_left} other sizes"));
        }
        lines
    }

    pub(super) fn json(&self) -> Value {
        let sizes: Vec<Value> =
            self.by_messages.iter().map(|(n, chunks)| json!([n, chunks])).collect();
        json!({
            "messages": self.n_messages(),
            "chunks": self.n_chunks(),
            "chunk_sizes": sizes,
            "bytes": self.bytes,
        })
    }

    /// Adds a delivered chunk; gives back its messages.
    fn add(&mut self, chunk: &[u8]) -> anyhow::Result<u64> {
        let (header, _) = checked(chunk)?;
        if header.chunk_type != ChunkType::USER {
            return Ok(0);
        }
        *self.by_messages.entry(header.n_records).or_default() += 1;
        self.bytes += u64::from(header.data_bytes);
        Ok(header.n_records.into())
    }
}

/// Reads a stream from the first chunk on, until `n_messages` have come or nothing comes any more.
///
/// # Errors
/// A stream that is not there, a damaged chunk, a connection that ends.
pub(super) fn read(
    mut client: StreamClient,
    stream: &str,
    n_messages: u64,
) -> anyhow::Result<Chunks> {
    let mut chunks = Chunks::default();
    let what = format!("subscription to stream '{stream}'");
    client.call(&what, |correlation_id| Subscribe {
        correlation_id,
        subscription_id: 0,
        stream,
        offset: OffsetSpec::First,
        credit: CREDIT,
        properties: Trailing(List::of(&[])),
    })?;
    let (mut transport, mut input) = client.into_parts();
    transport.socket().set_read_timeout(Some(IDLE))?;
    let (mut output, mut n_read) = (Vec::new(), 0);
    loop {
        let mut used = 0;
        while let Some((frame, n)) = decode_frame(input.get(used..).unwrap_or_default(), 0)? {
            used += n;
            let command = ToClient::decode(frame)?;
            if let ToClient::Deliver(deliver) = command {
                n_read += chunks.add(deliver.chunk.0)?;
                Credit { subscription_id: 0, credit: 1 }.encode_frame(&mut output);
            } else if let ToClient::Close(close) = command {
                bail!("the broker closes: {} {}", close.code, close.reason);
            }
        }
        input.drain(..used);
        transport.send_all(&output).context("writing")?;
        output.clear();
        if n_read >= n_messages || !receive(&mut transport, &mut input)? {
            return Ok(chunks);
        }
    }
}

/// Whether something came.
fn receive(transport: &mut Transport, input: &mut Vec<u8>) -> anyhow::Result<bool> {
    let is_late = |error: &std::io::Error| error.kind() == ErrorKind::WouldBlock;
    match transport.read_more(input) {
        Err(error) if error.downcast_ref().is_some_and(is_late) => Ok(false),
        read => read.context("waiting for a chunk").map(|()| true),
    }
}
