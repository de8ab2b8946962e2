//! A queue as a list of messages.

use queue::{ConsumerKey, DeliveryCounts, Limits, QueuePolicy, RetryOn, Return};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum State {
    Ready,
    Held(ConsumerKey),
    Delayed(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) state: State,
    pub(crate) priority: u8,
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) bytes: u64,
    pub(crate) counts: DeliveryCounts,
}

/// A queue as a list of messages with everything written beside each.
pub(crate) struct Model {
    pub(crate) rules: QueuePolicy,
    pub(crate) now_ms: u64,
    pub(crate) messages: BTreeMap<u64, Message>,
    /// Attached consumers that get deliveries, as they came, with their priorities.
    pub(crate) line: Vec<(ConsumerKey, i64)>,
    pub(crate) getter: ConsumerKey,
    pub(crate) is_single: bool,
    pub(crate) active: Option<ConsumerKey>,
    pub(crate) known: BTreeSet<ConsumerKey>,
}

impl Model {
    pub(crate) fn of(&self, wanted: impl Fn(&Message) -> bool) -> Vec<u64> {
        self.messages.iter().filter(|(_, m)| wanted(m)).map(|(at, _)| *at).collect()
    }

    pub(crate) fn message(&self, at: u64) -> &Message {
        self.messages.get(&at).expect("the model has it")
    }

    pub(crate) fn message_mut(&mut self, at: u64) -> &mut Message {
        self.messages.get_mut(&at).expect("the model has it")
    }

    pub(crate) fn remove(&mut self, at: u64) -> Message {
        self.messages.remove(&at).expect("the model has it")
    }

    pub(crate) fn ready(&self) -> Vec<u64> {
        self.of(|message| message.state == State::Ready)
    }

    pub(crate) fn next(&self) -> Option<u64> {
        self.ready().into_iter().min_by_key(|at| (u8::MAX - self.message(*at).priority, *at))
    }

    pub(crate) fn ready_bytes(&self) -> u64 {
        self.ready().iter().map(|at| self.message(*at).bytes).sum()
    }

    pub(crate) fn n_counted(&self) -> u64 {
        self.of(|message| !matches!(message.state, State::Held(_))).len() as u64
    }

    pub(crate) fn exceeds(&self, n_messages: u64, bytes: u64) -> bool {
        let Limits { messages_max, bytes_max, .. } = self.rules.limits;
        messages_max.is_some_and(|max| n_messages > max) || bytes_max.is_some_and(|max| bytes > max)
    }

    pub(crate) fn pick_held(&self, n: usize) -> Option<(u64, ConsumerKey)> {
        let held: Vec<_> = self
            .messages
            .iter()
            .filter_map(|(at, message)| match message.state {
                State::Held(key) => Some((*at, key)),
                State::Ready | State::Delayed(_) => None,
            })
            .collect();
        held.get(n.checked_rem(held.len())?).copied()
    }

    /// The message comes back; true when it is gone by that.
    pub(crate) fn come_back(&mut self, at: u64, how: Return) -> bool {
        let (rules, now_ms) = (self.rules, self.now_ms);
        let message = self.message_mut(at);
        message.counts.n_acquired += 1;
        message.counts.n_failed += u32::from(how == Return::Failed);
        if rules.delivery_limit.is_some_and(|limit| message.counts.n_failed > limit) {
            self.messages.remove(&at);
            return true;
        }
        let waits = rules.retry.filter(|retry| match retry.on {
            RetryOn::All => true,
            RetryOn::Failed => how == Return::Failed,
            RetryOn::Released => how == Return::Released,
        });
        message.state = waits.map_or(State::Ready, |retry| {
            let n = u64::from(message.counts.n_failed.max(1));
            State::Delayed(now_ms + (retry.min_ms * n).min(retry.max_ms))
        });
        false
    }

    pub(crate) fn end_deliveries(&mut self, key: ConsumerKey) {
        self.line.retain(|(waiting, _)| *waiting != key);
        if self.is_single && self.active == Some(key) {
            let highest = self.line.iter().map(|(_, priority)| *priority).max();
            self.active = self.line.iter().find(|(_, p)| Some(*p) == highest).map(|next| next.0);
        }
    }
}
