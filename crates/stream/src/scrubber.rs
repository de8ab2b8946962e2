//! The scrubber of a node's streams: reads each once in an interval, so many bytes a second, and tells what
//! is damaged before anybody needs it.

use crate::losses::StreamDamage;
use crate::services::StreamServices;
use crate::stream::Stream;
use chunk_log::{SCRUB_STEP_BYTES, Scrub};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use stdx::UnixMs;

/// Bytes that are scrubbed in a second, by and large: a step, or several small streams.
pub const SCRUB_BYTES_PER_SECOND_MAX: u64 = SCRUB_STEP_BYTES;
/// The time after which due streams are looked for again, or the interval if that is shorter.
const LOOK_INTERVAL_MS: u64 = 60_000;

/// The scrubber.
#[derive(Debug)]
pub(crate) struct Scrubber {
    /// When the node began: streams that were never verified count as verified then, from now on.
    began_ms: UnixMs,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Streams that are due, the first perhaps begun.
    due: VecDeque<(Weak<Stream>, Option<Scrub>)>,
    next_look_ms: UnixMs,
    /// Whether a thread reads.
    is_under_way: bool,
}

impl Scrubber {
    pub(crate) fn new(began_ms: UnixMs) -> Self {
        Self { began_ms, state: Mutex::default() }
    }

    /// Has a thread go on; of all `streams` those are scrubbed that were not for the interval.
    pub(crate) fn tick<'a>(
        self: &Arc<Self>,
        services: &Arc<StreamServices>,
        streams: impl Iterator<Item = &'a Arc<Stream>>,
    ) {
        let (interval_ms, now_ms) = (services.options.scrub_interval_ms, services.time.unix_ms());
        let mut state = stdx::lock(&self.state);
        if interval_ms == 0 || state.is_under_way || services.is_busy() {
            return;
        }
        if state.due.is_empty() && now_ms >= state.next_look_ms {
            state.next_look_ms = now_ms.plus(LOOK_INTERVAL_MS.min(interval_ms));
            let is_due = |stream: &&Arc<Stream>| {
                let (id, table) = (stream.id().0, services.files.table());
                let noted = table.and_then(|it| it.scrubbed_at_ms(id));
                let last_ms = noted.unwrap_or_else(|| {
                    // The interval goes on over restarts.
                    table.inspect(|it| it.note_scrubbed(id, self.began_ms));
                    self.began_ms
                });
                stream.lack().is_none() && now_ms.since(last_ms) >= interval_ms
            };
            state.due = streams.filter(is_due).map(|it| (Arc::downgrade(it), None)).collect();
        }
        if !state.due.is_empty() {
            state.is_under_way = true;
            let (me, for_thread) = (Arc::clone(self), Arc::clone(services));
            services.read_beside(Box::new(move || me.go_on(&for_thread)));
        }
    }

    fn go_on(&self, services: &StreamServices) {
        let mut bytes_left = SCRUB_BYTES_PER_SECOND_MAX;
        while bytes_left > 0 {
            let Some((stream, scrub)) = stdx::lock(&self.state).due.pop_front() else { break };
            let Some(stream) = stream.upgrade().filter(|stream| !stream.is_deleted()) else {
                continue;
            };
            let mut scrub = scrub.unwrap_or_else(|| stream.view.scrub());
            let before = scrub.found().bytes;
            let goes_on = scrub.step();
            bytes_left = bytes_left.saturating_sub((scrub.found().bytes - before).max(1));
            for damage in scrub.take_damage() {
                StreamDamage(&stream).tell_damage(&damage);
            }
            match goes_on {
                Ok(true) => {
                    let unfinished = (Arc::downgrade(&stream), Some(scrub));
                    stdx::lock(&self.state).due.push_front(unfinished);
                    continue;
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::error!("cannot verify {}: {error}", stream.def().resource());
                }
            }
            if let Some(table) = services.files.table() {
                table.note_scrubbed(stream.id().0, services.time.unix_ms());
            }
        }
        stdx::lock(&self.state).is_under_way = false;
    }
}
