//! A message as a client sees it: its number, its deaths, and how often it came back.

use amqp10::{MapRef, MessageRef, Section, Sections, ValueRef};
use amqp091::{Table, Value};
use message::BodyForm;
use session::Position;
use testing::outbox::{Content, Given};

/// The times that a message was acquired which a client of AMQP 1.0 is not told.
const ACQUIRED: u64 = u64::MAX;

/// A death as the broker notes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Death {
    pub(crate) queue: String,
    pub(crate) reason: String,
    pub(crate) n: u64,
}

/// A message as a client sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) id: u64,
    /// Newest first.
    pub(crate) deaths: Vec<Death>,
    pub(crate) n_failed: u64,
    pub(crate) n_acquired: u64,
    pub(crate) redelivered: bool,
}

impl Seen {
    pub(crate) fn of(given: &Given) -> Result<Self, String> {
        let id = Parts::of(&given.content).id()?;
        let properties = message::View::of(&given.content.properties);
        let headers = properties.headers().and_then(|headers| headers.to_owned().ok());
        let headers = headers.unwrap_or_default();
        let deaths = headers.get(b"x-death").and_then(Value::as_array).unwrap_or_default();
        let deaths = deaths.iter().filter_map(Value::as_table).map(death_of).collect();
        let n_failed = number(&headers, b"x-delivery-count");
        let n_acquired = number(&headers, b"x-acquired-count");
        Ok(Self { id, deaths, n_failed, n_acquired, redelivered: given.redelivered })
    }

    /// The number of times it was dead-lettered.
    pub(crate) fn n_deaths(&self) -> u64 {
        self.deaths.iter().map(|death| death.n).sum()
    }

    /// Whether the message's headers count how often it came back.
    pub(crate) const fn is_counted(&self) -> bool {
        self.n_failed > 0 || self.n_acquired > 0
    }

    /// Whether it was in that queue since a consumer has refused it.
    pub(crate) fn has_been_in(&self, queue: &str) -> bool {
        let since_refused = self.deaths.iter().take_while(|death| death.reason != "rejected");
        since_refused.into_iter().any(|death| death.queue == queue)
    }
}

fn number(headers: &Table, name: &[u8]) -> u64 {
    let number = headers.get(name).and_then(Value::as_i64).unwrap_or(0);
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn death_of(table: &Table) -> Death {
    let text = |name: &[u8]| table.get(name).and_then(Value::as_str).unwrap_or("?").to_owned();
    Death { queue: text(b"queue"), reason: text(b"reason"), n: number(table, b"count") }
}

/// The parts of a message that nobody may change, in either form.
pub(crate) struct Parts {
    pub(crate) payload: Vec<u8>,
    /// The bare message, if it is in sections.
    pub(crate) bare: Option<Vec<u8>>,
}

impl Parts {
    pub(crate) fn of(content: &Content) -> Self {
        let body = &content.body;
        match MessageRef::parse(body).ok().filter(|_| content.form == BodyForm::Amqp10) {
            Some(message) => {
                let payload = message.body.data().flatten().copied().collect();
                Self { payload, bare: Some(bare_of(body).to_vec()) }
            }
            None => Self { payload: body.clone(), bare: None },
        }
    }

    /// The number in front of the body.
    pub(crate) fn id(&self) -> Result<u64, String> {
        let number = Content::number_of(&self.payload);
        number.ok_or_else(|| "a delivery without a number".to_owned())
    }

    /// Whether a message that was published with these parts has come out with others.
    pub(crate) fn is_in(&self, seen: &Self) -> bool {
        self.payload == seen.payload && (self.bare.is_none() || self.bare == seen.bare)
    }
}

fn bare_of(sections: &[u8]) -> &[u8] {
    let (mut bare, mut rest) = (sections, Sections::new(sections));
    while let Some(Ok(
        Section::Header(_) | Section::DeliveryAnnotations(_) | Section::MessageAnnotations(_),
    )) = rest.next()
    {
        bare = rest.rest();
    }
    bare
}

/// Whether a message was given to a client of AMQP 1.0, which is told neither exchange nor key.
pub(crate) const fn is_framed(given: &Given) -> bool {
    given.content.exchange.is_empty() && given.content.key.is_empty()
}

/// A message as a client of AMQP 1.0 is given it.
#[derive(Clone)]
pub(crate) struct Framed {
    pub(crate) given: Given,
    pub(crate) seen: Seen,
    /// The annotation that it was given back with.
    pub(crate) note: Option<u64>,
}

impl std::fmt::Debug for Framed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { given, seen, note } = self;
        write!(f, "{} bytes, note {note:?}, {seen:?}", given.content.body.len())
    }
}

impl Framed {
    /// A delivery of a link, in sections. The position is the offset, of a stream.
    pub(crate) fn of(sections: &[u8], handle: u32) -> Result<Self, String> {
        let message =
            MessageRef::parse(sections).map_err(|error| format!("no message: {error}"))?;
        let header = message.header.unwrap_or_default();
        let annotation = |name: &str| match message.message_annotations.get(name) {
            Some(ValueRef::U64(n)) => Some(n),
            Some(ValueRef::I64(n)) => u64::try_from(n).ok(),
            Some(_) | None => None,
        };
        let deaths = match message.message_annotations.get("x-opt-deaths") {
            Some(ValueRef::Array(deaths)) => deaths.iter().filter_map(annotated_death).collect(),
            Some(_) | None => Vec::new(),
        };
        let content = Content {
            exchange: Vec::new(),
            key: Vec::new(),
            properties: Vec::new(),
            body: sections.to_vec(),
            persistent: header.durable.unwrap_or(false),
            form: BodyForm::Amqp10,
        };
        let id = Parts::of(&content).id()?;
        if annotation("x-id").is_some_and(|it| it != id) {
            return Err(format!("m{id} has the annotations of another"));
        }
        let redelivered = !header.first_acquirer;
        let given = Given {
            link: handle.into(),
            position: Position(annotation("x-stream-offset").unwrap_or(0)),
            redelivered,
            n_failed: header.delivery_count,
            by_write: false,
            content,
            reply_key: None,
        };
        let rejected = deaths.iter().filter(|death: &&Death| death.reason == "rejected");
        let n_rejected: u64 = rejected.map(|death| death.n).sum();
        let n_failed = u64::from(header.delivery_count).saturating_sub(n_rejected);
        let n_acquired = if redelivered { ACQUIRED } else { 0 };
        let seen = Seen { id, deaths, n_failed, n_acquired, redelivered };
        Ok(Self { given, seen, note: annotation("x-n") })
    }
}

fn annotated_death(death: ValueRef<'_>) -> Option<Death> {
    let ValueRef::Map(death) = death else { return None };
    let text = |name: &str| text_of(&death, name);
    let n = if let Some(ValueRef::U64(n)) = death.get("count") { n } else { 0 };
    Some(Death { queue: text("queue"), reason: text("reason"), n })
}

fn text_of(map: &MapRef<'_>, name: &str) -> String {
    match map.get(name) {
        Some(ValueRef::Str(text) | ValueRef::Symbol(text)) => text.to_owned(),
        Some(_) | None => "?".to_owned(),
    }
}
