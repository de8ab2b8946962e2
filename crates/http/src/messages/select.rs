//! The messages of a queue that an operator wants to do something to: those at positions, those that a filter
//! picks, or all that are there now. Only ready ones: what a consumer holds is the consumer's.

use super::look::{Wanted, number};
use super::pace::Pace;
use super::shown::{Rows, Shown};
use crate::Api;
use crate::call::Call;
use crate::refusal::Refusal;
use inspect::{LookFrom, LookedAt};
use message::MessageRef;
use mgmt::Course;
use queue_type::PickedMessage;
use serde_json::{Map, Value};
use std::ops::ControlFlow;

/// Messages that are named by their positions.
const POSITIONS_MAX: usize = 10_000;
/// Messages that are picked together.
const SELECTED_MAX: usize = 1_000_000;
/// Picked messages that are shown.
const SHOWN_MAX: usize = 20;
/// Bytes of each body that are shown.
const SHOWN_BYTES: usize = 256;

/// Messages that are to be picked.
pub(super) struct Selection {
    pub(super) wanted: Wanted,
    which: Which,
    limit: usize,
    course: Course,
}

enum Which {
    Filtered,
    /// The messages at these positions, rising.
    At(Vec<u64>),
}

/// Picked messages, their positions rising.
pub(super) type Picked = Vec<PickedMessage>;

impl Selection {
    /// The selection that a request wants: `select`, and `limit`.
    pub(super) fn of(call: &Call, fields: &Map<String, Value>) -> Result<Self, Refusal> {
        let invalid = || {
            let text = "select must be all, or an object with a filter or positions";
            Refusal::bad_request(text)
        };
        let (mut inner, mut which) = (Map::new(), Which::Filtered);
        match fields.get("select") {
            Some(Value::String(text)) if text == "all" => {}
            Some(Value::Object(select)) if select.len() == 1 => {
                match (select.get("filter"), select.get("positions")) {
                    (Some(filter), None) => drop(inner.insert("filter".to_owned(), filter.clone())),
                    (None, Some(positions)) => {
                        which = Which::At(at(positions).ok_or_else(invalid)?)
                    }
                    (Some(_), Some(_)) | (None, None) => return Err(invalid()),
                }
            }
            _ => return Err(invalid()),
        }
        let limit = number(fields, "limit")?.and_then(|limit| usize::try_from(limit).ok());
        let wanted = Wanted::of(call, &inner, None)?;
        if wanted.queue.as_stream().is_some() {
            return Err(Refusal::bad_request("messages of a stream cannot be moved or removed"));
        }
        let (limit, course) = (limit.unwrap_or(usize::MAX), call.course.clone());
        Ok(Self { wanted, which, limit, course })
    }

    /// Picks messages of those that are in the queue now; the first are shown too. The disk is read.
    pub(super) fn pick(&self, api: &Api) -> Result<(Picked, Vec<Vec<u8>>), Refusal> {
        self.pick_each(api, &mut |_| {})
    }

    /// Picks messages as [`Self::pick`] does, and shows each.
    pub(super) fn pick_each(
        &self,
        api: &Api,
        see: &mut dyn FnMut(&MessageRef<'_>),
    ) -> Result<(Picked, Vec<Vec<u8>>), Refusal> {
        let shown = Shown { payload_bytes: SHOWN_BYTES, ..self.wanted.sight.shown };
        let (mut picked, mut rows) = (Picked::new(), Rows::default());
        let mut pick = |at: &LookedAt<'_>| {
            see(&at.seen.message);
            let (position, body_bytes) = (at.seen.position, at.seen.message.body.len() as u64);
            picked.push(PickedMessage { position, body_bytes });
            if rows.len() < SHOWN_MAX {
                rows.push(at, shown);
            }
            if picked.len() >= self.limit.min(SELECTED_MAX + 1) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let end = self.wanted.end()?;
        match &self.which {
            Which::Filtered => self.filtered(end, &mut pick)?,
            Which::At(positions) => self.named(positions, &mut pick)?,
        }
        if picked.len() > SELECTED_MAX {
            let text = format!("more than {SELECTED_MAX} messages selected: set a limit");
            return Err(Refusal::bad_request(text));
        }
        Ok((picked, rows.take(api, &self.wanted.queue)))
    }

    fn filtered(&self, end: u64, pick: &mut Pick<'_>) -> Result<(), Refusal> {
        let mut look = self.wanted.look_from(LookFrom::Position(0), u64::MAX);
        let (mut pace, mut is_enough) = (Pace::new(), self.limit == 0);
        while !is_enough {
            let goes_on = look.step(&mut |at| {
                is_enough = at.seen.position >= end || pick(at).is_break();
                if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            is_enough |= !goes_on;
            self.course.check()?;
            pace.rest();
        }
        Ok(())
    }

    fn named(&self, positions: &[u64], pick: &mut Pick<'_>) -> Result<(), Refusal> {
        for position in positions.iter().take(self.limit) {
            self.course.check()?;
            let mut look = self.wanted.look_from(LookFrom::Position(*position), 1);
            look.step(&mut |at| {
                if at.seen.position == *position { pick(at) } else { ControlFlow::Break(()) }
            })?;
        }
        Ok(())
    }
}

type Pick<'p> = dyn FnMut(&LookedAt<'_>) -> ControlFlow<()> + 'p;

fn at(positions: &Value) -> Option<Vec<u64>> {
    let positions = positions.as_array().filter(|all| all.len() <= POSITIONS_MAX)?;
    let mut positions: Vec<u64> = positions.iter().map(Value::as_u64).collect::<Option<_>>()?;
    positions.sort_unstable();
    positions.dedup();
    Some(positions)
}
