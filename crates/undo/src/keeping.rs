//! Taking messages away: what can be brought back is written down first.

use crate::entry::{Act, Busy, Entry, Head, KeptStream, PortionRecord, UndoEntry, name_of};
use crate::undo::Undo;
use inspect::{Browser, LookFrom, end_of};
use meta::{BindingSpec, Command, NamedBy, QueueDeclare, State};
use queue::Standing;
use queue_type::PickedMessage;
use queues::{QueueContents, QueueRef};
use routing::Destination;
use segments::{DiskFile, FileError, IoContext as _};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Messages that are taken out under a queue's lock together.
const TOGETHER_MAX: usize = 1_024;
/// Bindings of a deleted queue that are made again.
const BINDINGS_MAX: usize = 10_000;

/// The messages that are taken away.
#[derive(Clone, Debug)]
pub enum Taking {
    /// All messages that no consumer holds.
    Purge,
    /// All messages: the queue is to be deleted.
    Delete,
    /// The ready messages among these, in rising order.
    Remove(Vec<PickedMessage>),
}

/// Messages that were taken away.
#[derive(Clone, Debug)]
pub struct TakenAway {
    /// How many messages.
    pub n_messages: u64,
    /// The entry that they can be brought back from, if there is one.
    pub undo: Option<UndoEntry>,
}

/// The taking away of a queue's messages, which are kept for undo. Its methods wait for the disk.
#[derive(Debug)]
pub struct Keeping {
    undo: Arc<Undo>,
    queue: QueueRef,
    taking: Taking,
    by: String,
    browser: Browser,
    /// The position before which all messages are taken away, or stay.
    done_upto: u64,
    /// The position from which on messages came too late to be taken.
    end: u64,
    open: Option<(Arc<Entry>, Box<dyn DiskFile>)>,
    bytes_max: u64,
    n_kept: u64,
    n_delayed: u64,
    is_full: bool,
}

/// A portion, and its ready messages.
struct Portion {
    record: PortionRecord,
    ready: Vec<PickedMessage>,
    n_delayed: u64,
}

impl Keeping {
    /// Begins to take messages away, in the name of a user. No message is gone yet. If the queue is deleted,
    /// `meta` has the definitions that make it again.
    #[must_use]
    pub fn begin(
        undo: &Arc<Undo>,
        queue: &QueueRef,
        taking: Taking,
        by: &str,
        meta: &State,
    ) -> Self {
        let (is_stream, stream) = (queue.as_stream().is_some(), undo.kept_stream(queue));
        let offer = undo.offer().filter(|_| !is_stream || stream.is_some());
        let end = match &taking {
            Taking::Purge => end_of(queue).ok(),
            Taking::Delete => Some(u64::MAX),
            Taking::Remove(picked) => picked.last().map(|it| it.position + 1),
        };
        let mut keeping = Self {
            undo: Arc::clone(undo),
            queue: queue.clone(),
            taking,
            by: by.to_owned(),
            browser: Browser::new(queue, LookFrom::Position(0)),
            done_upto: 0,
            end: end.unwrap_or(0),
            open: None,
            bytes_max: offer.map_or(0, |offer| offer.bytes_max),
            n_kept: 0,
            n_delayed: 0,
            is_full: offer.is_none() || end.is_none(),
        };
        if offer.is_some() && matches!(keeping.taking, Taking::Delete) {
            let opened = keeping.open(stream, &definitions(meta, queue));
            keeping.or_full(opened);
            if is_stream && keeping.is_full {
                keeping.forget();
            }
        }
        keeping.is_full |= is_stream;
        keeping
    }

    /// Takes the messages away from a queue that stays, for as long as `goes_on` says so.
    #[must_use]
    pub async fn take(mut self, goes_on: &dyn Fn() -> bool) -> TakenAway {
        let (mut n_messages, mut is_stopped) = (0, !goes_on());
        while !is_stopped && let Some(portion) = self.next_portion() {
            is_stopped = !goes_on();
            let put = self.put(&portion);
            let Some(number) = self.or_full(put).flatten() else { break };
            let mut stayed = Vec::new();
            n_messages += self.remove(&portion.ready, &mut stayed);
            self.done_upto = portion.ready.last().map_or(self.done_upto, |it| it.position + 1);
            if !stayed.is_empty() {
                let noted =
                    self.with_open(|entry, file| entry.leave_out(file, number, Some(&stayed)));
                self.or_full(noted);
            }
        }
        let n_plain = if is_stopped { 0 } else { self.take_plainly().await };
        n_messages += n_plain;
        let n_left_out = n_plain.saturating_sub(self.n_delayed);
        TakenAway { n_messages, undo: self.end(n_left_out) }
    }

    /// Writes down the messages of a queue that is to be deleted, those that were not before, for as long as
    /// `goes_on` says so.
    pub fn keep(&mut self, goes_on: &dyn Fn() -> bool) {
        while goes_on()
            && let Some(portion) = self.next_portion()
        {
            let put = self.put(&portion);
            self.or_full(put);
        }
    }

    /// Ends a deletion that has taken `n_messages` away; returns the entry, if there is one.
    #[must_use]
    pub fn end_delete(mut self, n_messages: u64) -> Option<UndoEntry> {
        if let (Some(stream), Some((entry, _))) = (self.queue.as_stream(), &self.open) {
            if !stream.is_deleted() {
                self.forget();
                return None;
            }
            entry.end_writing(Some(Arc::clone(stream)));
            self.n_kept = n_messages;
        }
        let n_left_out = n_messages.saturating_sub(self.n_kept);
        self.end(n_left_out)
    }

    /// Removes the entry with what was written down.
    pub fn take_back(mut self) {
        self.forget();
    }

    fn forget(&mut self) {
        if let Some((entry, _)) = self.open.take() {
            entry.set_stream(None);
            entry.set_busy(Busy::No);
            let _was_there = self.undo.forget(entry.id);
        }
    }

    fn end(self, n_left_out: u64) -> Option<UndoEntry> {
        let (entry, file) = self.open.as_ref()?;
        if self.n_kept == 0 && !matches!(self.taking, Taking::Delete) {
            self.take_back();
            return None;
        }
        if let Err(error) = entry.end(&**file, n_left_out) {
            tracing::warn!("{error}");
        }
        entry.set_busy(Busy::No);
        Some(entry.shown())
    }

    /// Notes that no more messages are written down, if something went wrong.
    fn or_full<T>(&mut self, done: Result<T, FileError>) -> Option<T> {
        done.inspect_err(|error| {
            tracing::warn!(
                queue = %self.queue.def().name, vhost = %self.queue.def().vhost,
                "undo data is incomplete: {error}"
            );
            self.is_full = true;
        })
        .ok()
    }

    fn with_open<T>(
        &self,
        act: impl FnOnce(&Entry, &dyn DiskFile) -> Result<T, FileError>,
    ) -> Result<Option<T>, FileError> {
        self.open.as_ref().map(|(entry, file)| act(entry, &**file)).transpose()
    }

    fn open(
        &mut self,
        stream: Option<KeptStream>,
        definitions: &[Command],
    ) -> Result<(), FileError> {
        let undo = Arc::clone(&self.undo);
        let (def, at_ms) = (self.queue.def(), undo.unix_ms());
        let head = Head {
            vhost: def.vhost.clone(),
            queue: def.name.clone(),
            act: match self.taking {
                Taking::Purge => Act::Purge,
                Taking::Delete => Act::Delete,
                Taking::Remove(_) => Act::Remove,
            },
            by: self.by.clone(),
            at_ms,
            until_ms: at_ms.plus(self.undo.options.window_ms),
            stream,
        };
        let id = self.undo.next_id(at_ms);
        let created = Entry::create(undo.disk(), id, head, definitions);
        let (entry, file) = created.inspect_err(|_| drop(undo.disk().remove(&name_of(id))))?;
        let entry = Arc::new(entry);
        if self.undo.insert(&entry) {
            self.open = Some((entry, file));
            self.make_room(0);
        } else {
            undo.disk().remove(&name_of(id)).context("remove", &name_of(id))?;
        }
        Ok(())
    }

    fn make_room(&mut self, more: u64) -> bool {
        let id = self.open.as_ref().map_or(u64::MAX, |(entry, _)| entry.id);
        let is_room = self.undo.make_room(id, more, self.bytes_max);
        self.is_full |= !is_room;
        is_room
    }

    /// Writes a portion down; returns its number, or `None` if there is no room for it.
    fn put(&mut self, portion: &Portion) -> Result<Option<u32>, FileError> {
        if self.open.is_none() {
            self.open(None, &[])?;
        }
        if !self.make_room(portion.record.size_bytes() as u64) {
            return Ok(None);
        }
        let number = self.with_open(|entry, file| entry.put(file, &portion.record))?;
        self.n_kept += portion.record.n();
        self.n_delayed += portion.n_delayed;
        Ok(number)
    }

    /// Reads the next portion; `None` if there are no more messages, or no more are written down.
    fn next_portion(&mut self) -> Option<Portion> {
        let mut portion = Portion { record: PortionRecord::new(), ready: Vec::new(), n_delayed: 0 };
        let mut goes_on = !self.is_full;
        let bytes = self.undo.options.portion_bytes;
        while goes_on && portion.record.size_bytes() < bytes {
            self.skip();
            match self.look(&mut portion) {
                Ok(more) => goes_on = more,
                Err(reason) => {
                    tracing::warn!("cannot read messages for undo: {reason}");
                    self.is_full = true;
                    goes_on = false;
                }
            }
        }
        (portion.record.n() > 0).then_some(portion)
    }

    /// Goes on to the next message that is wanted.
    fn skip(&mut self) {
        if let (Taking::Remove(picked), LookFrom::Position(place)) =
            (&self.taking, self.browser.place())
        {
            let next = picked.partition_point(|it| it.position < place);
            if let Some(next) = picked.get(next).filter(|it| it.position > place) {
                self.browser = Browser::new(&self.queue, LookFrom::Position(next.position));
            }
        }
    }

    /// Reads a page of messages into the portion; returns whether there may be more.
    fn look(&mut self, portion: &mut Portion) -> Result<bool, String> {
        let Self { undo, taking, browser, end, n_delayed, .. } = self;
        let bytes = undo.options.portion_bytes;
        let mut is_over = false;
        let goes_on = browser.step(&mut |at| {
            let (seen, position) = (&at.seen, at.seen.position);
            // A message that waits to be tried again can go only with all that is there.
            is_over = position >= *end && *n_delayed + portion.n_delayed == 0;
            if is_over {
                return ControlFlow::Break(());
            }
            if takes(taking, position, seen.standing) {
                portion.record.push(position, &seen.message);
                match seen.standing {
                    Standing::Ready => {
                        let body_bytes = seen.message.body.len() as u64;
                        portion.ready.push(PickedMessage { position, body_bytes });
                    }
                    Standing::Delayed(_) => portion.n_delayed += 1,
                    Standing::Held | Standing::Departing => {}
                }
            }
            let is_enough = portion.record.size_bytes() >= bytes;
            if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(goes_on && !is_over)
    }

    fn remove(&self, messages: &[PickedMessage], stayed: &mut Vec<u64>) -> u64 {
        let remove = |together| QueueContents(&self.queue).remove(together, stayed);
        messages.chunks(TOGETHER_MAX).map(remove).sum()
    }

    /// Takes away messages that could not be written down, and delayed ones; returns how many.
    async fn take_plainly(&self) -> u64 {
        match &self.taking {
            Taking::Purge if self.is_full || self.n_delayed > 0 => {
                self.queue.purge().await.unwrap_or(0)
            }
            Taking::Remove(picked) if self.is_full => {
                let left = picked.partition_point(|it| it.position < self.done_upto);
                self.remove(picked.get(left..).unwrap_or_default(), &mut Vec::new())
            }
            Taking::Purge | Taking::Delete | Taking::Remove(_) => 0,
        }
    }
}

fn takes(taking: &Taking, position: u64, standing: Standing) -> bool {
    match taking {
        Taking::Purge => matches!(standing, Standing::Ready | Standing::Delayed(_)),
        Taking::Delete => standing != Standing::Departing,
        Taking::Remove(picked) => {
            standing == Standing::Ready
                && picked.binary_search_by_key(&position, |it| it.position).is_ok()
        }
    }
}

/// The commands that make a queue again, with its bindings.
fn definitions(meta: &State, queue: &QueueRef) -> Vec<Command> {
    let def = queue.def();
    let declare = QueueDeclare {
        vhost: def.vhost.clone(),
        name: def.name.clone(),
        named_by: NamedBy::Client,
        durable: def.durable,
        auto_delete: def.auto_delete,
        exclusive_owner: None,
        arguments: def.arguments.clone(),
        // A stream is made of files, which it gets with a new id.
        id: queue.as_stream().is_some().then_some(def.id),
        home: def.home,
    };
    let destination = Destination::Queue(def.id);
    let vhost = meta.vhost(&def.vhost).into_iter();
    let bindings = vhost.flat_map(|vhost| vhost.routes.bindings_to(&destination));
    let bindings = bindings.filter_map(|binding| meta.queues().view(binding));
    let bind = |binding: meta::BindingView| {
        Command::Bind(BindingSpec {
            vhost: def.vhost.clone(),
            source: binding.source,
            destination: binding.destination,
            key: binding.key,
            arguments: binding.arguments,
            by: None,
        })
    };
    let bindings = bindings.take(BINDINGS_MAX).map(bind);
    [Command::DeclareQueue(declare)].into_iter().chain(bindings).collect()
}
