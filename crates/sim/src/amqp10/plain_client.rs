//! A client of AMQP 0-9-1 beside those of AMQP 1.0: a channel with confirms, and consumers.

use super::frame_client::Answer;
use super::ledger::{DEAD, Given, Ledger, Sent, Settled};
use super::work::{number_of, sections_of};
use super::{Amqp10World, Violation};
use crate::client::{Read, control, settle, short};
use crate::harness::{Connected, Harness, expect_ok, fail};
use broker::Session;
use message::BodyForm;
use session::{Attachment, Op, Outcome, Position, Request, Table};
use std::collections::BTreeMap;
use std::sync::Arc;
use testing::outbox::{Content, Recorder, What};

const CHANNEL: u16 = 1;
const LINKS_MAX: usize = 3;
const SIZES: &[usize] = &[0, 300, 3_000];

pub(super) struct PlainClient {
    session: Session,
    recorder: Arc<Recorder>,
    n_published: u64,
    unconfirmed: BTreeMap<u64, u64>,
    n_tags: u64,
    asked: Option<&'static str>,
    /// The queue of each consumer, and the newest message that it was the first to get.
    links: BTreeMap<u64, (&'static str, u64)>,
    held: BTreeMap<(u64, Position), u64>,
}

impl PlainClient {
    pub(super) fn connect(harness: &mut Harness) -> Self {
        let Connected { recorder, session, .. } = harness.connect();
        let mut client = Self {
            session,
            recorder,
            n_published: 0,
            unconfirmed: BTreeMap::new(),
            n_tags: 0,
            asked: None,
            links: BTreeMap::new(),
            held: BTreeMap::new(),
        };
        client.ask(harness, Op::OpenChannel);
        client.ask(harness, Op::EnableConfirms);
        client
    }

    pub(super) fn has_unconfirmed(&self) -> bool {
        !self.unconfirmed.is_empty()
    }

    pub(super) fn ask(&mut self, harness: &mut Harness, op: Op) {
        harness.note(format!("plain: {op:?}"));
        self.submit(harness, Read::of(vec![control(CHANNEL, op)]));
    }

    fn submit(&mut self, harness: &mut Harness, read: Read) {
        let said = harness.say(&mut self.session, read);
        self.session.wake();
        if !harness.has_failed() {
            said.check();
        }
    }

    pub(super) fn publish(&mut self, harness: &mut Harness, ledger: &mut Ledger, id: u64) {
        let queue = harness.random.pick(&["q0", "q1", "q2"]);
        let is_durable = harness.random.percent(75);
        let payload = Content::numbered_body(id, harness.random.choose(SIZES).unwrap_or(0));
        let delivery_mode = is_durable.then_some(2);
        let properties = message::Properties { delivery_mode, ..Default::default() };
        let content = Content {
            exchange: Vec::new(),
            key: queue.into(),
            properties: properties.to_bytes(),
            body: payload.clone(),
            persistent: is_durable,
            form: BodyForm::Plain,
        };
        harness.note(format!("plain: m{id}>{queue}"));
        let sent = Sent { payload, bare: None, is_durable, is_routed: true, answer: None };
        ledger.publish((id, queue), sent);
        self.n_published += 1;
        self.unconfirmed.insert(self.n_published, id);
        let mut read = Read::default();
        read.publish(CHANNEL, &content);
        self.submit(harness, read);
    }

    pub(super) fn consume(&mut self, harness: &mut Harness) {
        if self.links.len() >= LINKS_MAX {
            return;
        }
        let queue = harness.random.pick(&["q0", "q1", "q2", DEAD]);
        let prefetch_count = harness.random.choose(&[1, 5, 100]).unwrap_or(1);
        self.ask(harness, Op::SetPrefetch { prefetch_count, global: false });
        self.n_tags += 1;
        let (consumer_tag, arguments) = (short(&format!("c{}", self.n_tags)), Table::default());
        let (no_ack, source, exclusive) = (false, None, false);
        let queue_name = short(queue);
        self.asked = Some(queue);
        self.ask(
            harness,
            Op::Attach(Attachment {
                queue: queue_name,
                consumer_tag,
                no_ack,
                source,
                exclusive,
                arguments,
            }),
        );
    }

    pub(super) fn settle(&mut self, harness: &mut Harness, ledger: &mut Ledger) {
        let Some(key) = harness.random.choose_key(&self.held) else { return };
        let Some(id) = self.held.remove(&key) else { return };
        let Some((queue, _)) = self.links.get(&key.0) else { return };
        let outcome = harness.some_outcome();
        let back = |has_failed| Settled::Back { has_failed, note: None, until_ms: 0 };
        let settled = match outcome {
            Outcome::Accepted => Settled::Done,
            Outcome::Rejected => Settled::Dead,
            Outcome::Modified => back(true),
            Outcome::Released => back(false),
        };
        harness.note(format!("plain: m{id} of {queue} {outcome:?}"));
        ledger.settle((id, queue), settled);
        self.recorder.forget(key.0, key.1);
        let request = Request::Settle(settle(CHANNEL, key, outcome));
        self.submit(harness, Read::of(vec![request]));
    }

    /// Takes what the client was told.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "it asks for nothing that has other answers"
    )]
    fn hear(
        &mut self,
        (harness, ledger): (&mut Harness, &mut Ledger),
        what: What,
    ) -> Result<(), Violation> {
        let is_over = harness.has_failed();
        match what {
            What::Confirm { first, last, answer, .. } => {
                for number in first..=last {
                    let id = self.unconfirmed.remove(&number).ok_or("answered twice")?;
                    if answer.is_ack() || !is_over {
                        let is_ack = answer.is_ack();
                        let answer = if is_ack { Answer::Accepted } else { Answer::Rejected };
                        ledger.answer(id, answer)?;
                    }
                }
            }
            What::Consuming { link, .. } => {
                let queue = self.asked.take().ok_or("consuming, unasked")?;
                self.links.insert(link, (queue, 0));
            }
            What::Deliver { given, .. } => {
                let (queue, newest) = self.links.get_mut(&given.link).ok_or("an unknown link")?;
                let seen = given_of(&given)?;
                if !is_over {
                    ledger.give(queue, &seen, newest)?;
                }
                self.held.insert((given.link, given.position), seen.id);
            }
            What::ChannelFailed { text, .. } | What::ConnectionFailed { text, .. } if !is_over => {
                return Err(format!("the plain client is refused: {text}"));
            }
            _ => {}
        }
        Ok(())
    }

    /// The connection ends; false if it would take for ever.
    pub(super) fn end(self, harness: &mut Harness, ledger: &mut Ledger) -> bool {
        for ((link, _), id) in &self.held {
            if let Some((queue, _)) = self.links.get(link) {
                let back = Settled::Back { has_failed: true, note: None, until_ms: 0 };
                ledger.settle((*id, queue), back);
            }
        }
        self.links.values().for_each(|(queue, _)| ledger.leave(queue));
        harness.close(self.session)
    }
}

/// A message as the broker keeps it, or hands it to a client of AMQP 0-9-1's front.
pub(super) fn given_of(given: &testing::outbox::Given) -> Result<Given, Violation> {
    let content = &given.content;
    let seen = match content.form {
        BodyForm::Plain => {
            let payload = content.body.clone();
            Given { id: number_of(&payload)?, payload, ..Given::default() }
        }
        BodyForm::Amqp10 => sections_of(&content.body)?,
    };
    // Counts and notes are told by the index, which is not looked at.
    Ok(Given { is_again: given.redelivered, n_failed: None, note: None, ..seen })
}

impl Amqp10World {
    /// Takes in what the plain client was told; false if that is nothing.
    pub(super) fn take_in_plain(&mut self) -> bool {
        let heard = std::mem::take(&mut *stdx::lock(&self.harness.transcript));
        let Some(plain) = &mut self.plain else { return false };
        let any = !heard.is_empty();
        for (_, what) in heard {
            self.harness.note(format!("  plain: {what}"));
            if let Err(violation) = plain.hear((&mut self.harness, &mut self.ledger), what) {
                fail(violation);
            }
        }
        plain.session.resume(&plain.recorder.read_all());
        any
    }

    /// The plain client is gone, if there is one.
    pub(super) fn end_plain(&mut self) {
        self.take_in_plain();
        let Some(plain) = self.plain.take() else { return };
        let is_gone = plain.end(&mut self.harness, &mut self.ledger);
        if !is_gone && !self.is_over() {
            expect_ok(Err("the plain client cannot leave".to_owned()))
        }
        stdx::lock(&self.harness.transcript).clear();
    }
}
