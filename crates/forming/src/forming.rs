//! Fresh nodes agree on the one that makes the cluster.
//!
//! Each fresh node asks all nodes that it is configured with, and tells them what it has promised. If one of
//! them belongs to a cluster, the node joins that. Else it promises itself, durably, to one maker: the node
//! with the smallest name among those that hear a majority of their names and are promised to nobody else. A
//! maker promises itself to itself under a number that is never used again: its attempt. The maker whose
//! attempt has the promises of a majority makes the cluster, and the others hear of it.
//!
//! A promise is told only once it is durable, and holds until its maker says that the attempt is over. The
//! maker says so only after another promise, or none, is durable in its own place: from then on it counts no
//! promise to that attempt, however late that promise comes. A maker ends its attempt for a smaller name that
//! can make the cluster, or when a node that has found such a name wants its promise back. So a promise is
//! never counted by two makers, and two majorities of the same names share a node: there is no second
//! cluster, whichever nodes are killed. In return a node whose maker never comes back waits for it for ever,
//! since that maker may have made the cluster. Its report says so; the operator who knows better resets the
//! node.
//!
//! Nodes may have different names configured. A promise counts together with those of a majority of the names
//! of the node that gave it: two makers need lists of which two majorities share no node, such as lists that
//! differ in two names, to make two clusters.

use crate::message::{FormingAnswer, FormingAsk, FreshNode};
use crate::promise::MakerPromise;
use log::ClusterId;
use peer::HANDSHAKE_MS;
use std::collections::{BTreeMap, BTreeSet};
use stdx::MonotonicMs;

/// The time between two reports of a node that waits.
pub const FORMING_REPORT_MS: u64 = 5_000;
/// Asks that may fail before a node is taken for unheard.
const HEARD_ASKS: u64 = 4;

/// A fresh node's configuration.
#[derive(Clone, Debug)]
pub struct FormingSettings {
    /// The node's own name.
    pub me: String,
    /// The names of all nodes that are to form the cluster, its own or not. At most
    /// [`NAMES_MAX`](crate::NAMES_MAX) of them.
    pub names: BTreeSet<String>,
    /// COMPAT: `cluster_formation.discovery_retry_interval`, the time between two asks of a node.
    pub retry_interval_ms: u64,
    /// COMPAT: `cluster_formation.discovery_retry_limit`, the asks after which a node that hears no majority
    /// gives up; none if it waits for ever.
    pub retry_limit: Option<u32>,
}

/// A thing to do for the host of a [`Forming`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormingStep {
    /// Ask a node; [`Forming::answered`] takes what comes back. An ask that is not answered is repeated.
    Ask {
        /// The node's name.
        to: String,
        /// The ask.
        ask: FormingAsk,
    },
    /// Write the promise durably in place of the last one, then call [`Forming::promise_durable`].
    WritePromise(Option<MakerPromise>),
    /// Make the cluster: this node is its first member. Durably; until then nothing is told.
    Make,
    /// Join a cluster.
    Join {
        /// The member that has answered.
        via: String,
        /// Its cluster.
        cluster: ClusterId,
    },
    /// Tell the operator.
    Report(FormingWait),
    /// Stop the node: it has heard no majority in the time that the configuration gives.
    GiveUp(FormingWait),
}

/// The nodes that a fresh node waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormingWait {
    /// The names that it does not hear.
    pub unheard: Vec<String>,
    /// The number of names that it is configured with, its own among them.
    pub n_names: usize,
    /// The maker that it has promised itself to, if that is another one which it does not hear.
    pub lost_maker: Option<String>,
}

impl std::fmt::Display for FormingWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let n_wanted = self.n_names / 2 + 1;
        write!(f, "waiting for {n_wanted} of {} nodes to form a cluster", self.n_names)?;
        if !self.unheard.is_empty() {
            write!(f, "; no answer from {}", self.unheard.join(", "))?;
        }
        if let Some(maker) = &self.lost_maker {
            write!(
                f,
                "; {maker} may have made the cluster already: start it, or, if its data is lost, reset this \
                 node"
            )?;
        }
        Ok(())
    }
}

/// A node that was heard of.
#[derive(Debug)]
struct HeardNode {
    node: FreshNode,
    last: MonotonicMs,
}

/// The way of a node out of being fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormingOutcome {
    Open,
    Makes,
    Joins,
}

/// A fresh node that forms a cluster with others, or joins theirs.
#[derive(Debug)]
pub struct Forming {
    settings: FormingSettings,
    /// The promise that is durable.
    promise: Option<MakerPromise>,
    /// The promise that is being written.
    writing: Option<Option<MakerPromise>>,
    /// Whether the promise has ended: its maker, perhaps this node, does not want it any more.
    is_over: bool,
    heard: BTreeMap<String, HeardNode>,
    outcome: FormingOutcome,
    n_attempts: u64,
    /// The base of the numbers of attempts.
    random: u64,
    n_asks: u32,
    next_ask: MonotonicMs,
    next_report: MonotonicMs,
}

impl Forming {
    /// Begins at `now`, or goes on after a start, with the promise that is on disk. `random` is new in each
    /// start of any node.
    #[must_use]
    pub fn new(
        mut settings: FormingSettings,
        promise: Option<MakerPromise>,
        random: u64,
        now: MonotonicMs,
    ) -> Self {
        settings.names.insert(settings.me.clone());
        let next_report = now.plus(FORMING_REPORT_MS);
        Self {
            settings,
            promise,
            writing: None,
            is_over: false,
            heard: BTreeMap::new(),
            outcome: FormingOutcome::Open,
            n_attempts: 0,
            random,
            n_asks: 0,
            next_ask: now,
            next_report,
        }
    }

    /// The time at which [`Forming::tick`] is to be called next.
    #[must_use]
    pub fn due(&self) -> MonotonicMs {
        match self.outcome {
            FormingOutcome::Open => self.next_ask.min(self.next_report),
            FormingOutcome::Makes | FormingOutcome::Joins => MonotonicMs::NEVER,
        }
    }

    /// Does what is due at `now`.
    pub fn tick(&mut self, now: MonotonicMs, steps: &mut Vec<FormingStep>) {
        self.decide(now, steps);
        if self.outcome != FormingOutcome::Open {
            return;
        }
        if self.next_ask <= now {
            self.next_ask = now.plus(self.settings.retry_interval_ms);
            self.ask_all(now, steps);
            self.n_asks = self.n_asks.saturating_add(1);
            let is_last = self.settings.retry_limit.is_some_and(|limit| self.n_asks > limit);
            if is_last && !self.hears_majority(now) {
                steps.push(FormingStep::GiveUp(self.wait(now)));
            }
        }
        if self.next_report <= now {
            self.next_report = now.plus(FORMING_REPORT_MS);
            steps.push(FormingStep::Report(self.wait(now)));
        }
    }

    /// Takes a fresh node's ask; returns the answer.
    pub fn asked(
        &mut self,
        ask: FormingAsk,
        now: MonotonicMs,
        steps: &mut Vec<FormingStep>,
    ) -> FormingAnswer {
        let promise = ask.node.promise.clone();
        let promise = promise.filter(|promise| promise.maker == self.settings.me);
        self.hear(ask.node, now);
        let over = promise.as_ref().filter(|promise| !self.may_hold(promise));
        let over = over.map(|promise| promise.attempt);
        self.is_over |= ask.wants_back && promise.is_some() && self.promise == promise;
        self.decide(now, steps);
        FormingAnswer::Fresh { node: self.as_told(now), over }
    }

    /// Takes the answer to an ask.
    pub fn answered(
        &mut self,
        answer: FormingAnswer,
        now: MonotonicMs,
        steps: &mut Vec<FormingStep>,
    ) {
        match answer {
            FormingAnswer::Member { name, cluster } => {
                if self.outcome == FormingOutcome::Open {
                    self.outcome = FormingOutcome::Joins;
                    steps.push(FormingStep::Join { via: name, cluster });
                }
            }
            FormingAnswer::Fresh { node, over } => {
                let promise = self.promise.as_ref().filter(|promise| promise.maker == node.name);
                self.is_over |= promise.is_some_and(|promise| over == Some(promise.attempt));
                self.hear(node, now);
                self.decide(now, steps);
            }
        }
    }

    /// Notes that the promise that was to be written is durable.
    pub fn promise_durable(&mut self, now: MonotonicMs, steps: &mut Vec<FormingStep>) {
        let Some(written) = self.writing.take() else { return };
        (self.promise, self.is_over) = (written, false);
        self.decide(now, steps);
        if self.outcome == FormingOutcome::Open {
            self.ask_all(now, steps);
        }
    }

    /// Takes other names of all nodes that are to form the cluster: some were not known before.
    pub fn set_names(&mut self, names: BTreeSet<String>) {
        self.settings.names = names;
        self.settings.names.insert(self.settings.me.clone());
        self.heard.retain(|name, _| self.settings.names.contains(name));
    }

    /// Goes on after the cluster that was to be joined could not be.
    pub fn resume(&mut self, now: MonotonicMs) {
        (self.outcome, self.next_ask) =
            (FormingOutcome::Open, now.plus(self.settings.retry_interval_ms));
    }

    /// Whether the promise is or may be on this node's disk.
    fn may_hold(&self, promise: &MakerPromise) -> bool {
        let writing = self.writing.as_ref().and_then(Option::as_ref);
        [self.promise.as_ref(), writing].contains(&Some(promise))
    }

    fn hear(&mut self, node: FreshNode, now: MonotonicMs) {
        if node.name != self.settings.me && self.settings.names.contains(&node.name) {
            self.heard.insert(node.name.clone(), HeardNode { node, last: now });
        }
    }

    /// The fresh nodes that were heard not long ago.
    fn living(&self, now: MonotonicMs) -> impl Iterator<Item = &FreshNode> {
        let span_ms = HEARD_ASKS * self.settings.retry_interval_ms + HANDSHAKE_MS;
        let heard = self.heard.values();
        heard.filter(move |heard| heard.last.plus(span_ms) >= now).map(|heard| &heard.node)
    }

    fn hears_majority(&self, now: MonotonicMs) -> bool {
        1 + self.living(now).count() > self.settings.names.len() / 2
    }

    /// The node as others are told of it. A promise that is being replaced is not told.
    fn as_told(&self, now: MonotonicMs) -> FreshNode {
        let promise = self.promise.clone().filter(|_| self.writing.is_none());
        FreshNode {
            name: self.settings.me.clone(),
            hears_majority: self.outcome != FormingOutcome::Joins && self.hears_majority(now),
            promise,
            names: self.settings.names.clone(),
        }
    }

    /// The node that is to make the cluster, as far as this one hears.
    fn best_maker(&self, now: MonotonicMs) -> Option<FreshNode> {
        let is_free = |node: &FreshNode| {
            node.promise.as_ref().is_none_or(|promise| promise.maker == node.name)
        };
        let me = self.as_told(now);
        let all = self.living(now).chain(std::iter::once(&me));
        let able = all.filter(|node| node.hears_majority && is_free(node));
        able.min_by_key(|node| &node.name).cloned()
    }

    /// Goes as far as it is possible now.
    fn decide(&mut self, now: MonotonicMs, steps: &mut Vec<FormingStep>) {
        if self.outcome != FormingOutcome::Open || self.writing.is_some() {
            return;
        }
        if self.may_make() {
            self.outcome = FormingOutcome::Makes;
            steps.push(FormingStep::Make);
            return;
        }
        let best = self.best_maker(now);
        let gives_back = match &self.promise {
            None => true,
            Some(promise) if promise.maker == self.settings.me => {
                self.is_over || best.as_ref().is_some_and(|best| best.name != self.settings.me)
            }
            Some(_) => self.is_over,
        };
        let next = best.and_then(|best| self.promise_to(best));
        if gives_back && next != self.promise {
            self.writing = Some(next.clone());
            steps.push(FormingStep::WritePromise(next));
        }
    }

    /// The promise to a maker; none as long as another one has not begun an attempt.
    fn promise_to(&mut self, maker: FreshNode) -> Option<MakerPromise> {
        if maker.name != self.settings.me {
            return maker.promise;
        }
        self.n_attempts += 1;
        // Odd multiples differ from each other.
        let attempt = self.random ^ self.n_attempts.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Some(MakerPromise { maker: maker.name, attempt })
    }

    /// Whether this node's attempt has the promises of a majority, or nobody else is to be asked.
    fn may_make(&self) -> bool {
        let me = &self.settings.me;
        let Some(promise) = self.promise.as_ref() else { return self.settings.names.len() == 1 };
        let mut lists = BTreeMap::from([(me.as_str(), &self.settings.names)]);
        let heard = self.heard.values().map(|heard| &heard.node);
        let given = heard.filter(|node| node.promise.as_ref() == Some(promise));
        lists.extend(given.map(|node| (node.name.as_str(), &node.names)));
        loop {
            // A promise without a majority of its own node's names does not count.
            let counted: BTreeSet<_> = lists.keys().copied().collect();
            lists.retain(|_, names| {
                let n = names.iter().filter(|name| counted.contains(name.as_str())).count();
                n > names.len() / 2
            });
            if lists.len() == counted.len() {
                return promise.maker == *me && counted.contains(me.as_str());
            }
        }
    }

    fn ask_all(&self, now: MonotonicMs, steps: &mut Vec<FormingStep>) {
        let (node, maker) = (self.as_told(now), self.promise.as_ref().map(|it| &it.maker));
        let best = self.best_maker(now);
        let listed = self.settings.names.iter();
        let unlisted = maker.filter(|maker| !self.settings.names.contains(*maker));
        for to in listed.chain(unlisted).filter(|name| **name != self.settings.me) {
            let wants_back =
                maker == Some(to) && best.as_ref().is_some_and(|best| best.name != *to);
            let ask = FormingAsk { node: node.clone(), wants_back };
            steps.push(FormingStep::Ask { to: to.clone(), ask });
        }
    }

    fn wait(&self, now: MonotonicMs) -> FormingWait {
        let heard: BTreeSet<_> = self.living(now).map(|node| &node.name).collect();
        let is_unheard = |name: &&String| **name != self.settings.me && !heard.contains(name);
        let unheard = self.settings.names.iter().filter(is_unheard).cloned().collect();
        let maker = self.promise.as_ref().map(|promise| &promise.maker);
        let lost_maker = maker.filter(is_unheard).cloned();
        FormingWait { unheard, n_names: self.settings.names.len(), lost_maker }
    }
}
