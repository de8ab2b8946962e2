//! The messages that somebody wants to look at: of which queue, from where, which of them.

use super::shown::Shown;
use crate::call::Call;
use crate::objects::{flag, permitted};
use crate::refusal::Refusal;
use crate::request::optional_text;
use crate::settings::MessageAccess;
use axum::http::StatusCode;
use conversion::to_amqp091;
use inspect::{Browser, LookFrom, LookedAt};
use message::MessageRef;
use meta::{Candidate, Filter, Permission};
use mgmt::off_sockets;
use queue::Standing;
use queues::QueueRef;
use serde_json::{Map, Value, json};
use std::ops::ControlFlow;

/// Bytes of each body that are shown when nothing is said.
const PAYLOAD_BYTES: u64 = 4_096;

/// The messages that somebody wants to look at.
pub(super) struct Wanted {
    pub(super) queue: QueueRef,
    pub(super) sight: Sight,
    from: LookFrom,
    which: Which,
}

/// The filter that messages are looked at through, and how much of each is shown.
pub(super) struct Sight {
    pub(super) shown: Shown,
    hides_bodies: bool,
    filter: Option<Filter>,
}

/// Messages by where they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Ready,
    Unacked,
    Delayed,
    All,
}

impl Which {
    fn of(word: &str) -> Result<Self, Refusal> {
        Ok(match word {
            "ready" => Self::Ready,
            "unacked" => Self::Unacked,
            "delayed" => Self::Delayed,
            "all" => Self::All,
            other => {
                let text = format!("which must be ready, unacked, delayed or all, not '{other}'");
                return Err(Refusal::bad_request(text));
            }
        })
    }

    const fn has(self, standing: Standing) -> bool {
        match standing {
            Standing::Ready => matches!(self, Self::Ready | Self::All),
            Standing::Held => matches!(self, Self::Unacked | Self::All),
            Standing::Delayed(_) => matches!(self, Self::Delayed | Self::All),
            Standing::Departing => false,
        }
    }
}

/// The fields of a request: those of its body, or of its address where a body cannot be.
pub(super) fn fields(call: &Call) -> Result<Map<String, Value>, Refusal> {
    let mut fields = call.object()?;
    for (name, value) in &call.query.0 {
        fields.entry(name.as_str()).or_insert_with(|| Value::from(value.as_str()));
    }
    Ok(fields)
}

/// A number of a request, as such or as text.
pub(super) fn number(fields: &Map<String, Value>, name: &str) -> Result<Option<u64>, Refusal> {
    let found = match fields.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.parse().ok(),
        Some(value) => value.as_u64(),
    };
    let text = || Refusal::bad_request(format!("{name} must be a number, 0 or more"));
    found.map(Some).ok_or_else(text)
}

/// The queue of the address, if who asks has that permission for it.
pub(super) fn permitted(call: &Call, permission: Permission) -> Result<QueueRef, Refusal> {
    permitted::queue(call, call.param("name"), permission)
}

impl Sight {
    /// The sight that a request wants. `bytes_max` of bodies are shown where the request does not say how
    /// many.
    pub(super) fn of(
        call: &Call,
        fields: &Map<String, Value>,
        bytes_max: Option<u64>,
    ) -> Result<Self, Refusal> {
        let hides_bodies = match call.api.settings.restrictions.message_access {
            MessageAccess::Full => false,
            MessageAccess::Headers => true,
            MessageAccess::None => {
                let text = "browsing is disabled by management.message_access";
                return Err(Refusal::of_status(StatusCode::FORBIDDEN, "forbidden", text));
            }
        };
        let bytes = number(fields, "payload_bytes")?.or(bytes_max);
        let payload_bytes =
            bytes.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX));
        let headers_only = flag(fields, "headers_only")? || hides_bodies;
        Ok(Self {
            shown: Shown { headers_only, payload_bytes },
            hides_bodies,
            filter: optional_text(fields, "filter")?
                .map(|text| off_sockets(|| Filter::parse(text)))
                .transpose()?,
        })
    }

    /// Makes a sight as [`Sight::of`] does, which shows the beginnings of bodies.
    pub(super) fn of_beginnings(call: &Call, fields: &Map<String, Value>) -> Result<Self, Refusal> {
        Self::of(call, fields, Some(PAYLOAD_BYTES))
    }

    /// Whether the filter lets a message through.
    pub(super) fn has(&self, message: &MessageRef<'_>, redelivered: bool) -> bool {
        let Some(filter) = &self.filter else { return true };
        let mut converted = Vec::new();
        let message = &to_amqp091(message, &mut converted);
        let body = (!self.hides_bodies).then(|| message.body.bytes());
        filter.matches(&Candidate { message, body, redelivered })
    }
}

impl Wanted {
    /// The messages that a request wants. `bytes_max` of bodies are shown where it does not say how many.
    pub(super) fn of(
        call: &Call,
        fields: &Map<String, Value>,
        bytes_max: Option<u64>,
    ) -> Result<Self, Refusal> {
        // First, since it may be that nobody looks at messages.
        let sight = Sight::of(call, fields, bytes_max)?;
        Ok(Self {
            queue: permitted(call, Permission::Read)?,
            sight,
            from: from(fields.get("from"))?,
            which: Which::of(optional_text(fields, "which")?.unwrap_or("ready"))?,
        })
    }

    /// Makes the wish for messages as [`Wanted::of`] does, which shows the beginnings of bodies.
    pub(super) fn with_beginnings(
        call: &Call,
        fields: &Map<String, Value>,
    ) -> Result<Self, Refusal> {
        Self::of(call, fields, Some(PAYLOAD_BYTES))
    }

    fn has(&self, at: &LookedAt<'_>) -> bool {
        let seen = &at.seen;
        let redelivered = seen.redelivered.unwrap_or(false);
        self.which.has(seen.standing) && self.sight.has(&seen.message, redelivered)
    }

    /// The position behind the last message of the queue, whichever are wanted; 0 without any.
    pub(super) fn end(&self) -> Result<u64, Refusal> {
        inspect::end_of(&self.queue).map_err(|error| unreadable(&self.queue, &error))
    }

    /// Begins to look, at so many messages at most.
    pub(super) fn look(&self, scan_max: u64) -> Look<'_> {
        self.look_from(self.from, scan_max)
    }

    /// Begins to look from a place, at so many messages at most.
    pub(super) fn look_from(&self, from: LookFrom, scan_max: u64) -> Look<'_> {
        let browser = Browser::new(&self.queue, from);
        Look { wanted: self, browser, scan_max, n_scanned: 0, n_matched: 0 }
    }
}

/// The place where a look begins. Positions are numbers, or texts such as `position:17`.
fn from(value: Option<&Value>) -> Result<LookFrom, Refusal> {
    let invalid = || {
        Refusal::bad_request(
            "from must be head, tail, or position, before or timestamp with a number",
        )
    };
    let of = |word: &str, number: u64| match word {
        "position" => Some(LookFrom::Position(number)),
        "before" => Some(LookFrom::Before(number)),
        "timestamp" => Some(LookFrom::TimeMs { since_ms: number, position: 0 }),
        _ => None,
    };
    match value {
        None | Some(Value::Null) => Ok(LookFrom::Position(0)),
        Some(Value::String(text)) => match (&**text, text.split_once(':')) {
            ("head", _) => Ok(LookFrom::Position(0)),
            ("tail", _) => Ok(LookFrom::Before(u64::MAX)),
            (_, Some((word, number))) => {
                number.parse().ok().and_then(|number| of(word, number)).ok_or_else(invalid)
            }
            (_, None) => Err(invalid()),
        },
        Some(Value::Object(object)) if object.len() == 2 => {
            let number = |name| object.get(name).and_then(Value::as_u64).ok_or_else(invalid);
            let (since_ms, position) = (number("timestamp")?, number("position")?);
            Ok(LookFrom::TimeMs { since_ms, position })
        }
        Some(Value::Object(object)) if object.len() == 1 => {
            let found = object.iter().next();
            let found = found.and_then(|(word, number)| of(word, number.as_u64()?));
            found.ok_or_else(invalid)
        }
        Some(_) => Err(invalid()),
    }
}

fn unreadable(queue: &QueueRef, error: &str) -> Refusal {
    tracing::error!(queue = %queue.def().name, "cannot read messages: {error}");
    Refusal::internal()
}

/// A place as requests have it.
pub(super) fn place(from: LookFrom) -> Value {
    match from {
        LookFrom::Position(position) => json!({"position": position}),
        LookFrom::Before(position) => json!({"before": position}),
        LookFrom::TimeMs { since_ms, position } => {
            json!({"timestamp": since_ms, "position": position})
        }
    }
}

/// A look at messages under way.
pub(super) struct Look<'w> {
    wanted: &'w Wanted,
    browser: Browser,
    scan_max: u64,
    pub(super) n_scanned: u64,
    pub(super) n_matched: u64,
}

impl Look<'_> {
    /// Shows the wanted ones of the next messages, a page of them at most. False when there are no more.
    pub(super) fn step(
        &mut self,
        see: &mut dyn FnMut(&LookedAt<'_>) -> ControlFlow<()>,
    ) -> Result<bool, Refusal> {
        let Self { wanted, browser, scan_max, n_scanned, n_matched } = self;
        let stepped = browser.step(&mut |at| {
            *n_scanned += 1;
            let mut flow = ControlFlow::Continue(());
            if wanted.has(at) {
                *n_matched += 1;
                flow = see(at);
            }
            if n_scanned >= scan_max { ControlFlow::Break(()) } else { flow }
        });
        stepped.map_err(|error| unreadable(&wanted.queue, &error))
    }

    /// The position that comes next, where the first come first.
    pub(super) const fn position(&self) -> u64 {
        match self.browser.place() {
            LookFrom::Position(position)
            | LookFrom::Before(position)
            | LookFrom::TimeMs { position, .. } => position,
        }
    }

    /// The place where the look goes on.
    pub(super) fn place(&self) -> Value {
        place(self.browser.place())
    }
}
