//! Confirms that wait: numbered publishes, what must be durable for them, and the queues that must answer
//! them. Never the messages of queues, or how a protocol spells a confirm.
//! Start reading at [`ConfirmQueue`] and [`DurabilityToken`].

mod answering_queues;
mod multi_queue;

pub use answering_queues::AnsweringQueues;

use log::{CommitListener, Lsn, Wal};
use multi_queue::MultiQueueConfirms;
use session::{ChannelId, Confirmation, Error, ErrorKind, ListedSession, Outbox, Sink};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Waker;

/// A journal beside the log, of one queue.
pub trait DurableJournal: Debug + Send + Sync {
    /// Has `waiter` told when everything up to `note` is durable.
    fn wait(&self, note: u64, waiter: Box<dyn JournalSynced>);

    /// Whether everything up to `note` is durable, or nobody needs it to be.
    fn is_durable(&self, note: u64) -> bool;
}

/// A waiter for a journal: told once that the journal is durable up to its note, or dropped if that never
/// comes.
pub trait JournalSynced: Send {
    /// Tells the waiter, without any lock of a journal. The returned waker is called when no lock is held.
    fn synced(self: Box<Self>) -> Option<Waker>;

    /// Tells the waiter, likewise, that messages are lost on their way to another node, which no publisher
    /// waits for.
    fn lost(self: Box<Self>) -> Option<Waker> {
        None
    }
}

/// The log's and journals' ends that must be durable before something may be confirmed.
#[derive(Clone, Debug, Default)]
pub struct DurabilityToken {
    /// End of the log that must be durable, if any.
    pub log: Option<Lsn>,
    /// Journals of queues of version 1, each with the note up to which it must be durable.
    pub journals: SmallVec<[(Arc<dyn DurableJournal>, u64); 1]>,
}

impl DurabilityToken {
    /// Makes a token that waits for the log alone, up to `upto`.
    pub fn by_log(upto: Option<Lsn>) -> Self {
        Self { log: upto, ..Self::default() }
    }

    /// Adds all that another token waits for.
    pub fn add(&mut self, other: Self) {
        self.log = self.log.max(other.log);
        for (journal, note) in other.journals {
            self.add_journal(journal, note);
        }
    }

    /// Adds a journal that must be durable up to `note`.
    pub fn add_journal(&mut self, journal: Arc<dyn DurableJournal>, note: u64) {
        let known = self.journals.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &journal));
        match known {
            Some((_, known)) => *known = note.max(*known),
            None => self.journals.push((journal, note)),
        }
    }

    /// Whether the log and all journals are durable now.
    pub fn is_durable(&self, wal: &Wal) -> bool {
        self.log.is_none_or(|upto| wal.durable_upto() >= upto)
            && self.journals.iter().all(|(journal, note)| journal.is_durable(*note))
    }

    /// Resolves when the log and all journals are durable, or never will be.
    pub async fn durable(self, wal: &Wal) -> Result<(), LogFailed> {
        for (journal, note) in self.journals {
            let (done, wait) = tokio::sync::oneshot::channel();
            journal.wait(note, Box::new(Once { upto: Lsn(0), done: Mutex::new(Some(done)) }));
            wait.await.map_err(|_| LogFailed)?;
        }
        match self.log {
            Some(upto) => durable(wal, upto).await,
            None => Ok(()),
        }
    }
}

/// Publishes `first..=last` of a channel.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The channel.
    pub channel: ChannelId,
    /// Number of the first publish.
    pub first: u64,
    /// Number of the last publish.
    pub last: u64,
}

/// Publishes `first..=last` of a publisher, and the answer to each of them.
#[derive(Clone, Copy, Debug)]
pub struct AnsweredRun<'q> {
    /// Number of the first publish.
    pub first: u64,
    /// Number of the last publish.
    pub last: u64,
    /// The answer.
    pub answer: Confirmation<'q>,
}

impl Run {
    const fn len(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// The committer of the log that a confirm waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[must_use = "the caller may have to commit"]
pub enum CommitBy {
    /// The log's own thread, which has been told.
    #[default]
    Thread,
    /// The caller, soon: a single publish waits, so that gathering more would gain nothing.
    Caller,
}

/// A run that waits until the log is durable up to `upto`.
#[derive(Clone, Copy, Debug)]
struct PendingConfirm {
    upto: Lsn,
    run: Run,
}

/// The confirms of a connection that wait.
///
/// Lock order: the lock in here, then the outbox's. The former is held while the outbox is told, so that
/// after [`ConfirmQueue::forget`] no confirm of that channel is on its way.
pub struct ConfirmQueue {
    outbox: Arc<dyn Outbox>,
    state: Mutex<PendingConfirms>,
}

#[derive(Debug, Default)]
struct PendingConfirms {
    /// Runs that wait for the log, in rising order of `upto`.
    waiting: VecDeque<PendingConfirm>,
    watched: bool,
    /// Runs that wait for journals, by ticket.
    apart: BTreeMap<u64, MultiSync>,
    next_ticket: u64,
    /// Publishes that several parties have a part in.
    parts: MultiQueueConfirms,
    /// Channels that confirm.
    open: BTreeMap<ChannelId, Weak<Publisher>>,
}

/// A channel that confirms, as queues know it whose confirms wait for consumers.
#[derive(Debug)]
pub struct Publisher {
    confirms: Arc<ConfirmQueue>,
    channel: ChannelId,
    /// Publishes that one queue alone has to answer.
    n_alone: AtomicU64,
}

impl Publisher {
    /// Counts `n` publishes that one queue each answers alone; called before that queue can answer.
    pub fn begin_alone(&self, n: u64) {
        self.n_alone.fetch_add(n, Ordering::Relaxed);
    }

    /// Answers runs of publishes on behalf of a queue; returns the waker to be woken. Publishes of a channel
    /// that has been closed since go unanswered.
    pub fn answer<'q>(&self, runs: impl Iterator<Item = AnsweredRun<'q>>) -> Option<Waker> {
        let mut state = self.lock_open()?;
        let channel = self.channel;
        let mut runs = Some(runs);
        self.confirms.outbox.batch(&mut |sink: &mut dyn Sink| {
            for AnsweredRun { first, last, answer } in runs.take().into_iter().flatten() {
                let n_alone = state.parts.answer(sink, Run { channel, first, last }, answer);
                self.n_alone.fetch_sub(n_alone, Ordering::Relaxed);
            }
        })
    }

    /// Answers a publish on behalf of `n` of its parts.
    pub fn answer_parts(&self, sequence: u64, n: u32, answer: Confirmation<'_>) {
        let Some(mut state) = self.lock_open() else { return };
        if !state.parts.knows(self.channel, sequence) {
            self.n_alone.fetch_sub(1, Ordering::Relaxed);
        }
        let told = state.parts.answer_one(self.channel, sequence, n, answer);
        let waker = told.and_then(|answer| {
            self.confirms.outbox.batch(&mut |sink: &mut dyn Sink| {
                sink.confirm(self.channel, sequence, sequence, answer);
            })
        });
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Adds `n` parts to a publish beside the caller's.
    pub fn share_part(&self, sequence: u64, n: u32) {
        let Some(mut state) = self.lock_open() else { return };
        if !state.parts.knows(self.channel, sequence) {
            self.n_alone.fetch_sub(1, Ordering::Relaxed);
        }
        state.parts.add(self.channel, sequence, n);
    }

    /// Answers a publish on behalf of the caller's part when `awaited` is durable.
    pub fn answer_when_durable(&self, wal: &Wal, awaited: &DurabilityToken, sequence: u64) {
        self.share_part(sequence, 0);
        if self.lock_open().is_some() {
            let run = Run { channel: self.channel, first: sequence, last: sequence };
            self.confirms.wait_apart(wal, awaited, vec![run]);
        }
    }

    /// Locks the state; none if the channel has been closed.
    fn lock_open(&self) -> Option<MutexGuard<'_, PendingConfirms>> {
        let state = stdx::lock(&self.confirms.state);
        let open = state.open.get(&self.channel);
        open.is_some_and(|open| std::ptr::eq(open.as_ptr(), self)).then_some(state)
    }
}

/// Runs that wait for several journals, or for a journal and the log.
#[derive(Debug)]
struct MultiSync {
    n_awaited: usize,
    runs: Vec<Run>,
}

stdx::debug_of!(|it: ConfirmQueue| state = it.state);

impl ConfirmQueue {
    /// Makes the queue of a connection's confirms, which are told to `outbox`.
    #[must_use]
    pub fn new(outbox: Arc<dyn Outbox>) -> Arc<Self> {
        Arc::new(Self { outbox, state: Mutex::default() })
    }

    /// The session of the client, as [`Outbox::session_from`] has it.
    pub fn session_from(&self, channel: ChannelId) -> Option<ListedSession> {
        self.outbox.session_from(channel)
    }

    /// Opens a channel, which confirms from now on.
    pub fn open(self: &Arc<Self>, channel: ChannelId) -> Arc<Publisher> {
        let confirms = Arc::clone(self);
        let publisher = Arc::new(Publisher { confirms, channel, n_alone: AtomicU64::new(0) });
        stdx::lock(&self.state).open.insert(channel, Arc::downgrade(&publisher));
        publisher
    }

    /// The publisher of a channel, if the channel confirms.
    pub fn publisher(&self, channel: ChannelId) -> Option<Arc<Publisher>> {
        stdx::lock(&self.state).open.get(&channel)?.upgrade()
    }

    /// Adds confirms that wait for the log up to `upto`.
    pub fn wait(
        self: &Arc<Self>,
        wal: &Wal,
        upto: Lsn,
        runs: impl IntoIterator<Item = Run>,
    ) -> CommitBy {
        let (is_alone, newly_watched) = {
            let mut state = stdx::lock(&self.state);
            // Publishes to a queue with a journal may wait for a slightly earlier end than those before.
            let upto = state.waiting.back().map_or(upto, |last| last.upto.max(upto));
            state.waiting.extend(runs.into_iter().map(|run| PendingConfirm { upto, run }));
            let newly_watched = !state.waiting.is_empty() && !state.watched;
            state.watched |= newly_watched;
            let is_one = |waiting: &PendingConfirm| waiting.run.len() == 1;
            (state.waiting.len() == 1 && state.waiting.iter().all(is_one), newly_watched)
        };
        match (newly_watched, is_alone) {
            (false, _) => return CommitBy::Thread,
            (true, false) => wal.watch(Arc::<Self>::clone(self)),
            (true, true) => {
                wal.watch_here(Arc::<Self>::clone(self));
                return CommitBy::Caller;
            }
        }
        CommitBy::Thread
    }

    /// Adds confirms that wait for journals, and perhaps the log.
    #[cold]
    pub fn wait_apart(self: &Arc<Self>, wal: &Wal, awaited: &DurabilityToken, runs: Vec<Run>) {
        if runs.is_empty() {
            return;
        }
        let n_awaited = awaited.journals.len() + usize::from(awaited.log.is_some());
        let ticket = {
            let mut state = stdx::lock(&self.state);
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            state.apart.insert(ticket, MultiSync { n_awaited, runs });
            ticket
        };
        let part = || TicketPart { confirms: Arc::clone(self), ticket, upto: Lsn(0) };
        for (journal, note) in &awaited.journals {
            journal.wait(*note, Box::new(part()));
        }
        if let Some(upto) = awaited.log {
            wal.watch(Arc::new(TicketPart { upto, ..part() }));
        }
    }

    /// Notes that the log or a journal is durable as far as the runs of a ticket wait for it.
    fn part_done(&self, ticket: u64) -> Option<Waker> {
        let mut state = stdx::lock(&self.state);
        let apart = state.apart.get_mut(&ticket)?;
        apart.n_awaited -= 1;
        if apart.n_awaited > 0 {
            return None;
        }
        let runs = state.apart.remove(&ticket)?.runs;
        self.outbox.batch(&mut |sink: &mut dyn Sink| {
            for run in &runs {
                let _n_alone = state.parts.answer(sink, *run, Confirmation::Accepted);
            }
        })
    }

    /// Number of a channel's publishes that wait.
    pub fn n_waiting(&self, channel: ChannelId) -> u64 {
        let state = stdx::lock(&self.state);
        let apart = state.apart.values().flat_map(|apart| &apart.runs);
        let runs = state.waiting.iter().map(|waiting| &waiting.run).chain(apart);
        let runs = runs.filter(|run| run.channel == channel);
        let alone = |run: &Run| {
            let all = run.first..=run.last;
            all.filter(|sequence| !state.parts.knows(channel, *sequence)).count() as u64
        };
        let publisher = state.open.get(&channel).and_then(Weak::upgrade);
        let n_alone = publisher.map_or(0, |publisher| publisher.n_alone.load(Ordering::Relaxed));
        state.parts.n_open(channel) + n_alone + runs.map(alone).sum::<u64>()
    }

    /// Drops all confirms of a channel, which is closing.
    pub fn forget(&self, channel: ChannelId) {
        let mut state = stdx::lock(&self.state);
        state.waiting.retain(|waiting| waiting.run.channel != channel);
        for apart in state.apart.values_mut() {
            apart.runs.retain(|run| run.channel != channel);
        }
        state.parts.forget(channel);
        state.open.remove(&channel);
    }
}

impl CommitListener for ConfirmQueue {
    fn durable(&self, upto: Lsn) -> bool {
        let mut state = stdx::lock(&self.state);
        let n_done = state.waiting.partition_point(|waiting| waiting.upto <= upto);
        let mut waker = None;
        if n_done > 0 {
            stdx::walk::step("confirm");
            let PendingConfirms { waiting, parts, .. } = &mut *state;
            waker = self.outbox.batch(&mut |sink: &mut dyn Sink| {
                for PendingConfirm { run, .. } in waiting.drain(..n_done) {
                    let _n_alone = parts.answer(sink, run, Confirmation::Accepted);
                }
            });
        }
        state.watched = !state.waiting.is_empty();
        let keep = state.watched;
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        keep
    }
}

/// A ticket's wait for the log or one journal.
struct TicketPart {
    confirms: Arc<ConfirmQueue>,
    ticket: u64,
    upto: Lsn,
}

impl CommitListener for TicketPart {
    fn durable(&self, upto: Lsn) -> bool {
        if upto < self.upto {
            return true;
        }
        if let Some(waker) = self.confirms.part_done(self.ticket) {
            waker.wake();
        }
        false
    }
}

impl JournalSynced for TicketPart {
    fn synced(self: Box<Self>) -> Option<Waker> {
        self.confirms.part_done(self.ticket)
    }

    fn lost(self: Box<Self>) -> Option<Waker> {
        self.synced()
    }
}

/// The failure of the log: it will not be durable up to where somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFailed;

impl From<LogFailed> for Error {
    fn from(LogFailed: LogFailed) -> Self {
        Self::new(ErrorKind::InternalError, "the log has failed")
    }
}

/// Resolves when the log is durable up to a point, or never will be.
pub async fn durable(wal: &Wal, upto: Lsn) -> Result<(), LogFailed> {
    if wal.durable_upto() >= upto {
        return Ok(());
    }
    let (done, wait) = tokio::sync::oneshot::channel();
    wal.watch(Arc::new(Once { upto, done: Mutex::new(Some(done)) }));
    // A log that ends drops its watchers.
    wait.await.map_err(|_| LogFailed)
}

struct Once {
    upto: Lsn,
    done: Mutex<Option<tokio::sync::oneshot::Sender<()>>>,
}

impl Once {
    fn tell(&self) {
        if let Some(done) = stdx::lock(&self.done).take() {
            let _gone = done.send(()).is_err();
        }
    }
}

impl CommitListener for Once {
    fn durable(&self, upto: Lsn) -> bool {
        if upto < self.upto {
            return true;
        }
        self.tell();
        false
    }
}

impl JournalSynced for Once {
    fn synced(self: Box<Self>) -> Option<Waker> {
        self.tell();
        None
    }
}
