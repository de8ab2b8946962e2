//! Performatives read from frames' bodies: transfers and dispositions in one go if they have the form that
//! nearly all have. Transfers written likewise.

use crate::code::{
    BINARY8, DESCRIBED, FALSE, LIST_EMPTY, LIST8, NULL, TRUE, U32, U32_SMALL, U32_ZERO, U64_SMALL,
};
use crate::composite::read_descriptor;
use crate::delivery_state::DeliveryState;
use crate::error::DecodeError;
use crate::field::{DELIVERY_TAG_BYTES_MAX, DeliveryTag, Role};
use crate::frame::DATA_OFFSET_MIN;
use crate::performative::{Disposition, Performative, Transfer};
use crate::reader::ValueCursor;
use crate::serial::SerialNumber;
use crate::value::DEPTH_MAX;

const TRANSFER: u8 = 0x14;
const DISPOSITION: u8 = 0x15;
const ACCEPTED: u8 = 0x24;
const AMQP: u8 = 0;

/// A transfer of a whole message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeTransfer {
    /// The link's handle.
    pub handle: u32,
    /// The delivery's id.
    pub delivery_id: SerialNumber,
    /// The delivery's tag; none if the delivery is settled by being sent.
    pub tag: Option<u32>,
}

impl WholeTransfer {
    /// Appends the frame up to the message, which is to be appended next; then the frame's size is to be said
    /// ([`end_frame`](crate::end_frame)).
    #[inline]
    pub fn begin_frame(&self, channel: u16, out: &mut Vec<u8>) {
        let [c0, c1] = channel.to_be_bytes();
        let [i0, i1, i2, i3] = self.delivery_id.bits().to_be_bytes();
        let header = [0, 0, 0, 0, DATA_OFFSET_MIN, AMQP, c0, c1];
        out.extend_from_slice(&header);
        let Ok(h) = u8::try_from(self.handle) else { return self.encode(out) };
        let n = if self.tag.is_some() { 4 } else { 0 };
        let size = 12 + n;
        out.extend_from_slice(&[
            DESCRIBED, U64_SMALL, TRANSFER, LIST8, size, 5, U32_SMALL, h, U32, i0, i1, i2, i3,
            BINARY8, n,
        ]);
        match self.tag.map(u32::to_be_bytes) {
            None => out.extend_from_slice(&[U32_ZERO, TRUE]),
            Some([t0, t1, t2, t3]) => {
                out.extend_from_slice(&[t0, t1, t2, t3, U32_ZERO, FALSE]);
            }
        }
    }

    /// Appends the performative of a link with a large handle.
    #[cold]
    fn encode(&self, out: &mut Vec<u8>) {
        self.transfer(self.tag.map(u32::to_be_bytes).as_ref()).encode(out);
    }

    #[expect(clippy::inline_always, reason = "a struct copied whole just as it is filled stalls")]
    #[inline(always)]
    fn transfer<'t>(&self, tag: Option<&'t [u8; 4]>) -> Transfer<'t> {
        Transfer {
            delivery_id: Some(self.delivery_id),
            delivery_tag: Some(DeliveryTag(tag.map_or(&[], |tag| tag))),
            message_format: Some(0),
            settled: Some(tag.is_none()),
            ..Transfer::on(self.handle)
        }
    }
}

impl<'a> Performative<'a> {
    /// The performative at the front of a frame's body, and the payload behind it. Everything in it is
    /// checked; only `Open`, `Begin` and `Attach` allocate.
    ///
    /// # Errors
    /// The first thing that is wrong.
    #[inline]
    pub fn decode(body: &'a [u8]) -> Result<(Self, &'a [u8]), DecodeError> {
        if let Some(usual) = read_usual(body) {
            return Ok(usual);
        }
        let mut cursor = ValueCursor(body);
        let descriptor = read_descriptor(&mut cursor)?;
        let performative = Self::read_of(descriptor, &mut cursor, DEPTH_MAX);
        Ok((performative.ok_or(DecodeError::UnknownPerformative)??, cursor.0))
    }
}

/// The list that a performative is, in the form that nearly all peers write.
struct UsualList<'a> {
    code: u8,
    n_fields: u8,
    fields: &'a [u8],
    payload: &'a [u8],
}

impl<'a> UsualList<'a> {
    #[inline]
    fn read(body: &'a [u8]) -> Option<Self> {
        let [DESCRIBED, U64_SMALL, code, LIST8, size, n_fields, list @ ..] = body else {
            return None;
        };
        let (fields, payload) = list.split_at_checked(usize::from(*size).checked_sub(1)?)?;
        Some(Self { code: *code, n_fields: *n_fields, fields, payload })
    }
}

/// A transfer or disposition in the form that nearly all peers write, and the payload behind it; none for any
/// other, which may be right as well.
#[inline]
pub(crate) fn read_usual(body: &[u8]) -> Option<(Performative<'_>, &[u8])> {
    let UsualList { code, n_fields, fields, payload } = UsualList::read(body)?;
    let performative = match code {
        TRANSFER => Performative::Transfer(read_transfer(n_fields, fields)?),
        DISPOSITION => Performative::Disposition(read_disposition(n_fields, fields)?),
        _ => return None,
    };
    Some((performative, payload))
}

/// The transfer that a frame's body begins with, and the payload behind it, as [`Performative::decode`] reads
/// them; none if they are not in the form that nearly all peers write.
#[expect(clippy::inline_always, reason = "a struct copied whole just as it is filled stalls")]
#[inline(always)]
#[must_use]
pub fn usual_transfer(body: &[u8]) -> Option<(Transfer<'_>, &[u8])> {
    let UsualList { code, n_fields, fields, payload } = UsualList::read(body)?;
    Some((read_transfer((code == TRANSFER).then_some(n_fields)?, fields)?, payload))
}

#[expect(clippy::inline_always, reason = "a struct copied whole just as it is filled stalls")]
#[inline(always)]
fn read_transfer(n_fields: u8, fields: &[u8]) -> Option<Transfer<'_>> {
    let (handle, fields) = number(fields)?;
    let (id, fields) = number(fields)?;
    let [BINARY8, n_bytes, fields @ ..] = fields else { return None };
    let n_bytes = Some(usize::from(*n_bytes)).filter(|n| *n <= DELIVERY_TAG_BYTES_MAX)?;
    let (tag, fields) = fields.split_at_checked(n_bytes)?;
    let (message_format, fields) = number(fields)?;
    let (settled, more) = match (n_fields, fields) {
        (4, []) => (None, false),
        (5, [settled]) => (boolean(*settled)?, false),
        (6, [settled, more]) => (boolean(*settled)?, boolean(*more)?.unwrap_or(false)),
        _ => return None,
    };
    let whole = WholeTransfer { handle, delivery_id: SerialNumber::new(id), tag: None };
    Some(Transfer {
        delivery_tag: Some(DeliveryTag(tag)),
        message_format: Some(message_format),
        settled,
        more,
        ..whole.transfer(None)
    })
}

/// The first and the last delivery that the disposition in a frame's body settles as accepted, as
/// [`Performative::decode`] reads it; none for any other, or in another form than nearly all peers write.
#[inline]
#[must_use]
pub fn usual_acceptance(body: &[u8]) -> Option<(SerialNumber, SerialNumber)> {
    let UsualList { code, n_fields, fields, .. } = UsualList::read(body)?;
    let (first, last) = read_acceptance((code == DISPOSITION).then_some(n_fields)?, fields)?;
    Some((first, last.unwrap_or(first)))
}

/// A receiver's disposition that settles deliveries as accepted.
#[inline]
fn read_disposition(n_fields: u8, fields: &[u8]) -> Option<Disposition<'_>> {
    let (first, last) = read_acceptance(n_fields, fields)?;
    let (role, state) = (Role::Receiver, Some(DeliveryState::ACCEPTED));
    Some(Disposition { role, first, last, settled: true, state, batchable: false })
}

#[inline]
fn read_acceptance(n_fields: u8, fields: &[u8]) -> Option<(SerialNumber, Option<SerialNumber>)> {
    let [TRUE, fields @ ..] = fields else { return None };
    let (first, fields) = number(fields)?;
    let (last, fields) = match fields {
        [NULL, rest @ ..] => (None, rest),
        _ => number(fields).map(|(last, rest)| (Some(SerialNumber::new(last)), rest))?,
    };
    let [TRUE, DESCRIBED, U64_SMALL, ACCEPTED, LIST_EMPTY] = fields else { return None };
    (n_fields == 5).then_some((SerialNumber::new(first), last))
}

fn boolean(field: u8) -> Option<Option<bool>> {
    match field {
        TRUE => Some(Some(true)),
        FALSE => Some(Some(false)),
        NULL => Some(None),
        _ => None,
    }
}

#[inline]
fn number(fields: &[u8]) -> Option<(u32, &[u8])> {
    match fields {
        [U32_ZERO, rest @ ..] => Some((0, rest)),
        [U32_SMALL, n, rest @ ..] => Some(((*n).into(), rest)),
        [U32, b0, b1, b2, b3, rest @ ..] => Some((u32::from_be_bytes([*b0, *b1, *b2, *b3]), rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FrameType, decode_frame, end_frame};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_frame_says_what_the_transfer_is(
            handle in prop_oneof![0..300_u32, any::<u32>()], id: u32, tag: Option<u32>,
            message in prop::collection::vec(any::<u8>(), 0..20), channel: u16,
        ) {
            let mut out = b"before".to_vec();
            let delivery_id = SerialNumber::new(id);
            WholeTransfer { handle, delivery_id, tag }.begin_frame(channel, &mut out);
            out.extend_from_slice(&message);
            end_frame(&mut out, 6);
            let (frame, used) = decode_frame(&out[6..], FrameType::Amqp, u32::MAX).unwrap().unwrap();
            prop_assert_eq!((frame.channel, used), (channel, out.len() - 6));
            let (performative, payload) = Performative::decode(frame.body).unwrap();
            let Performative::Transfer(transfer) = performative else { panic!("{performative:?}") };
            prop_assert_eq!((transfer.handle, transfer.delivery_id), (handle, Some(delivery_id)));
            prop_assert_eq!((transfer.message_format, transfer.settled), (Some(0), Some(tag.is_none())));
            let bytes = tag.map_or(vec![], |tag| tag.to_be_bytes().to_vec());
            prop_assert_eq!(transfer.delivery_tag.map(|tag| tag.0.to_vec()), Some(bytes));
            prop_assert!(!transfer.more && payload == message);
            prop_assert!(read_usual(frame.body).is_some());
        }

        /// Where the usual form is read it is what any transfer would be.
        #[test]
        fn the_usual_form_is_no_other(
            id: u32, tag in prop::collection::vec(any::<u8>(), 0..40),
            settled: Option<bool>, last: Option<u32>, is_transfer: bool,
            changes in prop::collection::vec((0..30_usize, any::<u8>()), 0..3),
        ) {
            let mut body = Vec::new();
            let whole = WholeTransfer { handle: 1, delivery_id: SerialNumber::new(id), tag: None };
            let fields = Transfer { delivery_tag: Some(DeliveryTag(&tag)), ..whole.transfer(None) };
            let (first, last) = (SerialNumber::new(id), last.map(SerialNumber::new));
            let disposition = Disposition {
                role: Role::Receiver,
                first,
                last,
                settled: settled.unwrap_or(true),
                state: Some(DeliveryState::ACCEPTED),
                batchable: false,
            };
            if is_transfer {
                Transfer { settled, ..fields }.encode(&mut body);
            } else {
                disposition.encode(&mut body);
            }
            let is_usual = if is_transfer { tag.len() <= 32 } else { disposition.settled };
            prop_assert_eq!(read_usual(&body).is_some(), is_usual);
            body.extend_from_slice(b"payload");
            for (at, byte) in changes {
                if let Some(place) = body.get_mut(at) {
                    *place = byte;
                }
            }
            let transfer = match read_usual(&body) {
                Some((Performative::Transfer(transfer), payload)) => Some((transfer, payload)),
                _ => None,
            };
            prop_assert_eq!(usual_transfer(&body), transfer);
            let acceptance = match read_usual(&body) {
                Some((Performative::Disposition(it), _)) => Some((it.first, it.last.unwrap_or(it.first))),
                _ => None,
            };
            prop_assert_eq!(usual_acceptance(&body), acceptance);
            if let Some((usual, payload)) = read_usual(&body) {
                let mut cursor = ValueCursor(&body);
                let descriptor = read_descriptor(&mut cursor).unwrap();
                let any = Performative::read_of(descriptor, &mut cursor, DEPTH_MAX).unwrap().unwrap();
                prop_assert_eq!((any, cursor.0), (usual, payload));
            }
        }
    }
}
