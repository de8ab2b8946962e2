//! The ledger of messages in queues without rules: what was published, answered, given and settled, and what
//! must be where after each start.

use super::frame_client::{Answer, LinkTarget};
use super::work::NOWHERE;
use std::collections::{BTreeMap, BTreeSet};

/// The violated rule, in words.
pub(super) type Violation = String;

/// The queue of dead letters.
pub(super) const DEAD: &str = "dead";

/// A message in a queue.
pub(super) type At = (u64, &'static str);

/// A queue of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) is_quorum: bool,
    pub(super) version: u64,
    /// Dead letters go to [`DEAD`].
    pub(super) has_letters: bool,
}

/// A message as it was published.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// The body's bytes.
    pub(super) payload: Vec<u8>,
    /// The bare message, if it was published over AMQP 1.0.
    pub(super) bare: Option<Vec<u8>>,
    /// A queue is to have it.
    pub(super) is_routed: bool,
    pub(super) is_durable: bool,
    pub(super) answer: Option<Answer>,
}

/// The state of a message in a queue, in this life of the node.
#[derive(Clone, Debug, Default)]
struct Place {
    /// A client has settled it, or it was dead-lettered.
    is_done: bool,
    is_held: bool,
    /// It was there at the start, or is a dead letter: how often it was given is not known.
    is_found: bool,
    n_given: u32,
    n_failed: u32,
    /// The newest annotation.
    note: Option<u32>,
    waits_until_ms: u64,
}

/// A message as a consumer is given it.
#[derive(Clone, Default)]
pub(super) struct Given {
    pub(super) id: u64,
    pub(super) payload: Vec<u8>,
    /// The bare message, where it comes in sections.
    pub(super) bare: Option<Vec<u8>>,
    pub(super) is_again: bool,
    /// Failed deliveries before this one, where the protocol tells them.
    pub(super) n_failed: Option<u32>,
    pub(super) note: Option<u32>,
}

impl std::fmt::Debug for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { id, payload, is_again, n_failed, note, .. } = self;
        let n_bytes = payload.len();
        write!(f, "m{id}, {n_bytes} bytes, again {is_again}, failed {n_failed:?}, note {note:?}")
    }
}

/// The outcome of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Done,
    Dead,
    Back { has_failed: bool, note: Option<u32>, until_ms: u64 },
}

#[derive(Default)]
pub(super) struct Ledger {
    pub(super) queues: BTreeMap<&'static str, Queue>,
    pub(super) sent: BTreeMap<u64, Sent>,
    places: BTreeMap<At, Place>,
    /// Annotations that a message was ever given.
    notes: BTreeMap<At, BTreeSet<u32>>,
    /// Queues a consumer of which is gone: what it was sent and has not seen counts as given.
    unsure: BTreeSet<&'static str>,
    /// Dead letters that a crash may have repeated, or brought about anew.
    has_crashed: bool,
    pub(super) now_ms: u64,
}

impl Ledger {
    pub(super) fn new(queues: BTreeMap<&'static str, Queue>, now_ms: u64) -> Self {
        Self { queues, now_ms, ..Self::default() }
    }

    /// The end of a link at a queue, or at an exchange that has none for its messages.
    pub(super) fn target(&self, queue: &'static str) -> LinkTarget {
        let address = match queue {
            NOWHERE => "/exchanges/amq.direct/none".to_owned(),
            queue => format!("/queues/{queue}"),
        };
        let is_quorum = self.queues.get(queue).is_some_and(|it| it.is_quorum);
        LinkTarget { queue, address, is_quorum }
    }

    pub(super) fn publish(&mut self, at: At, sent: Sent) {
        if sent.is_routed {
            self.places.insert(at, Place::default());
        }
        self.sent.insert(at.0, sent);
    }

    pub(super) fn answer(&mut self, id: u64, answer: Answer) -> Result<(), Violation> {
        let sent = self.sent.get_mut(&id).ok_or("an answer to nothing")?;
        let wanted = if sent.is_routed { Answer::Accepted } else { Answer::Released };
        if answer != wanted || sent.answer.is_some() {
            return Err(format!("m{id} is answered {answer:?}, after {:?}", sent.answer));
        }
        sent.answer = Some(answer);
        Ok(())
    }

    /// A consumer is gone.
    pub(super) fn leave(&mut self, queue: &'static str) {
        self.unsure.insert(queue);
    }

    /// A consumer is given a message; `newest` is the newest that its link was the first to get.
    pub(super) fn give(
        &mut self,
        queue: &'static str,
        given: &Given,
        newest: &mut u64,
    ) -> Result<(), Violation> {
        let Given { id, is_again, n_failed, note, .. } = *given;
        self.check_payload(queue, given)?;
        let is_unsure = self.unsure.contains(queue) || queue == DEAD;
        let is_doubled = queue == DEAD && self.has_crashed;
        let is_quorum = self.queues.get(queue).is_some_and(|it| it.is_quorum);
        let place = self.places.get_mut(&(id, queue)).ok_or("a message that is not there")?;
        let wrong = |what: &str| Err(format!("m{id} of {queue} {what}: {place:?}, {given:?}"));
        if place.is_done && !is_doubled {
            return wrong("is settled, and given again");
        }
        if place.is_held && !is_doubled {
            return wrong("is held, and given to another");
        }
        if !place.is_found && (is_again != (place.n_given > 0)) && !(is_again && is_unsure) {
            return wrong("has a wrong mark");
        }
        let n_wanted = place.n_failed;
        let is_counted = n_failed.is_none_or(|n| n == n_wanted || (is_unsure && n > n_wanted));
        if !place.is_found && queue != DEAD && !is_counted {
            return wrong("failed as often as this");
        }
        let may_have =
            |note: &u32| self.notes.get(&(id, queue)).is_some_and(|it| it.contains(note));
        let is_noted = match place.is_found || queue == DEAD {
            true => note.is_none() || queue == DEAD || note.as_ref().is_some_and(may_have),
            false => note == place.note.filter(|_| is_quorum),
        };
        if n_failed.is_some() && !is_noted {
            return wrong("has other annotations");
        }
        if place.waits_until_ms > self.now_ms {
            return wrong("comes before its time");
        }
        let is_first = !place.is_found && place.n_given == 0 && !is_again && queue != DEAD;
        if is_first && std::mem::replace(newest, (*newest).max(id)) > id {
            return Err(format!("m{id} of {queue} comes out of order"));
        }
        (place.is_held, place.n_given) = (true, place.n_given + 1);
        Ok(())
    }

    /// Checks what is given of a message for its bytes.
    pub(super) fn check_payload(&self, queue: &str, given: &Given) -> Result<(), Violation> {
        let Some(sent) = self.sent.get(&given.id) else {
            return Err(format!("nobody published m{} of {queue}", given.id));
        };
        let is_bare = |bare: &Vec<u8>| given.bare.as_ref().is_none_or(|it| it == bare);
        if sent.payload != given.payload || !sent.bare.as_ref().is_none_or(is_bare) {
            return Err(format!(
                "m{} of {queue} is another: {given:?}, not {} bytes",
                given.id,
                sent.payload.len()
            ));
        }
        Ok(())
    }

    /// A client settles a message, or it goes back with the client.
    pub(super) fn settle(&mut self, at: At, settled: Settled) {
        let (id, queue) = at;
        let (is_quorum, has_letters) =
            self.queues.get(queue).map_or((false, false), |it| (it.is_quorum, it.has_letters));
        let Some(place) = self.places.get_mut(&at) else { return };
        place.is_held = false;
        match settled {
            Settled::Done => place.is_done = true,
            Settled::Dead => {
                place.is_done = true;
                if has_letters {
                    let letter = Place { is_found: true, ..Place::default() };
                    self.places.entry((id, DEAD)).or_insert(letter);
                }
            }
            Settled::Back { has_failed, note, until_ms } => {
                place.n_failed += u32::from(has_failed);
                place.note = note.or(place.note);
                place.waits_until_ms = if is_quorum { until_ms } else { 0 };
                self.notes.entry(at).or_default().extend(note);
            }
        }
    }

    /// The node has started again, and has this. Checks that nothing is lost, and nothing is back.
    pub(super) fn restart(
        &mut self,
        found: &BTreeMap<&'static str, Vec<u64>>,
        is_clean: bool,
    ) -> Result<(), Violation> {
        let is_there = |(id, queue): At| found.get(queue).is_some_and(|ids| ids.contains(&id));
        for (at, place) in &self.places {
            let (id, queue) = *at;
            let Some(sent) = self.sent.get(&id) else { continue };
            let is_quorum = self.queues.get(queue).is_some_and(|it| it.is_quorum);
            let is_letter = queue == DEAD;
            let is_found = place.is_found && !is_letter;
            let is_kept = is_clean || sent.answer == Some(Answer::Accepted) || is_found;
            let is_sure = is_kept && (sent.is_durable || (is_quorum && !is_letter));
            // A rejection may not have become durable: then it is where it was.
            let first = |queue: &&'static str| is_there((id, queue));
            let is_elsewhere = is_letter && self.queues.keys().any(first);
            if is_sure && !place.is_done && !is_there(*at) && !is_elsewhere {
                return Err(format!("m{id} of {queue} is lost: {place:?}"));
            }
            // A quorum queue that has kept it may send its dead letter anew.
            if is_there(*at) && !sent.is_durable && !is_quorum && !is_letter {
                return Err(format!("transient m{id} survived in {queue}"));
            }
        }
        let mut places = BTreeMap::new();
        for (queue, ids) in found {
            for id in ids {
                if !self.places.contains_key(&(*id, *queue)) {
                    return Err(format!("m{id} of {queue} is back"));
                }
                let is_new =
                    places.insert((*id, *queue), Place { is_found: true, ..Place::default() });
                if is_new.is_some() && *queue != DEAD {
                    return Err(format!("m{id} is twice in {queue}"));
                }
            }
        }
        // Where both are, the rejection is lost, or the letter was repeated: either may be taken.
        self.places = places;
        self.unsure.clear();
        self.has_crashed = true;
        Ok(())
    }

    /// Checks that everything that is to be anywhere was taken out.
    pub(super) fn check_taken(&self) -> Result<(), Violation> {
        let left = self.places.iter().find(|(_, place)| !place.is_done);
        left.map_or(Ok(()), |((id, queue), _)| Err(format!("m{id} does not come out of {queue}")))
    }
}
