//! Session flow control (part 2, 2.5.6): how many transfers each side may send, whatever their links.
//!
//! The ids of transfers are counted on each side and wrap around. A window is counted from the id that its
//! receiver expected when it told the window; what was on its way by then is to be taken off.

use crate::fault::ProtocolFault;
use amqp10::{Begin, Condition, Flow, SerialNumber};
use session::ListedWindows;

/// The transfers that a client may send at first before the window is opened again. COMPAT: RabbitMQ's.
pub const INCOMING_WINDOW: u32 = 400;

/// The id of the first transfer that is sent to a client.
const FIRST_OUTGOING_ID: SerialNumber = SerialNumber::new(0);

/// The window that the server tells for what it sends: it holds itself back by the client's window alone.
pub const OUTGOING_WINDOW: u32 = u32::MAX;

/// The windows of a session, both ways.
#[derive(Clone, Debug)]
pub struct SessionWindows {
    /// The id of the next transfer that comes.
    next_incoming_id: SerialNumber,
    /// The transfers that may still come.
    incoming_window: u32,
    /// The window when it is open.
    incoming_window_max: u32,
    /// The transfers that came although the window was used up.
    n_excess: u32,
    /// Whether the window stays closed for now.
    is_held: bool,
    /// The id of the next transfer that goes out.
    next_outgoing_id: SerialNumber,
    /// The transfers that may still go out.
    remote_incoming_window: u32,
    /// The id behind the transfers that the client has said that it may send.
    remote_outgoing_end: SerialNumber,
}

impl SessionWindows {
    /// The windows of a session that a client begins.
    #[must_use]
    pub const fn new(begin: &Begin<'_>, is_held: bool) -> Self {
        Self {
            next_incoming_id: begin.next_outgoing_id,
            incoming_window: if is_held { 0 } else { INCOMING_WINDOW },
            incoming_window_max: INCOMING_WINDOW,
            n_excess: 0,
            is_held,
            next_outgoing_id: FIRST_OUTGOING_ID,
            remote_incoming_window: begin.incoming_window,
            remote_outgoing_end: begin.next_outgoing_id.plus(begin.outgoing_window),
        }
    }

    /// Counts a transfer that came. True if the window was opened again, which the client is to be told.
    ///
    /// # Errors
    /// The client has overrun the window by more than is forgiven.
    pub fn receive_transfer(&mut self) -> Result<bool, ProtocolFault> {
        match self.incoming_window.checked_sub(1) {
            Some(left) => self.incoming_window = left,
            None => self.n_excess += 1,
        }
        // COMPAT: as with RabbitMQ one window more is forgiven: so much may be on its way when it is closed.
        let excess_max = self.incoming_window_max;
        if self.n_excess > excess_max {
            // COMPAT: RabbitMQ's spelling.
            return Err(ProtocolFault::session(
                Condition::WindowViolation,
                format!("incoming window violation (tolerated excess tranfers: {excess_max})"),
            ));
        }
        self.next_incoming_id = self.next_incoming_id.plus(1);
        let opens = self.incoming_window <= self.incoming_window_max / 2 && !self.is_held;
        if opens {
            self.open();
        }
        Ok(opens)
    }

    /// Closes the window until further notice, or opens it again. True if the client is to be told.
    pub const fn hold(&mut self, is_held: bool) -> bool {
        let changes = self.is_held != is_held;
        self.is_held = is_held;
        if changes && is_held {
            self.incoming_window = 0;
        } else if changes {
            self.open();
        }
        changes
    }

    /// Lets the window have room for a link's credit twice, from when it is opened next on.
    #[inline]
    pub(crate) fn make_room(&mut self, link_credit: u32) {
        self.incoming_window_max = self.incoming_window_max.max(2 * link_credit);
    }

    const fn open(&mut self) {
        self.incoming_window = self.incoming_window_max;
        self.n_excess = 0;
    }

    /// Takes the windows that a client tells.
    ///
    /// # Errors
    /// The client expects a transfer that was not sent.
    pub fn receive_flow(&mut self, flow: &Flow<'_>) -> Result<(), ProtocolFault> {
        // A client that has not seen the session's begin counts from its first id.
        let expected = flow.next_incoming_id.unwrap_or(FIRST_OUTGOING_ID);
        if self.next_outgoing_id.is_before(expected) {
            return Err(ProtocolFault::session(
                Condition::WindowViolation,
                format!(
                    "next-incoming-id from FLOW ({}) leads next-outgoing-id ({})",
                    expected.bits(),
                    self.next_outgoing_id.bits()
                ),
            ));
        }
        let n_on_their_way = self.next_outgoing_id.since(expected);
        self.remote_incoming_window = flow.incoming_window.saturating_sub(n_on_their_way);
        self.next_incoming_id = flow.next_outgoing_id;
        self.remote_outgoing_end = flow.next_outgoing_id.plus(flow.outgoing_window);
        Ok(())
    }

    /// Whether a transfer may go out.
    #[inline]
    pub const fn can_send(&self) -> bool {
        self.remote_incoming_window > 0
    }

    /// Counts a transfer that goes out.
    #[inline]
    pub fn send_transfer(&mut self) {
        assert!(self.can_send(), "a transfer goes out only within the client's window");
        self.remote_incoming_window -= 1;
        self.next_outgoing_id = self.next_outgoing_id.plus(1);
    }

    /// The windows as listings show them.
    pub(crate) const fn listed(&self) -> ListedWindows {
        ListedWindows {
            next_incoming_id: self.next_incoming_id.bits(),
            incoming: self.incoming_window,
            next_outgoing_id: self.next_outgoing_id.bits(),
            remote_incoming: self.remote_incoming_window,
            remote_outgoing: self.remote_outgoing_end.since(self.next_incoming_id),
        }
    }

    /// A flow that tells these windows, and nothing of a link.
    #[must_use]
    pub const fn flow(&self) -> Flow<'static> {
        Flow::of_session(
            self.next_incoming_id,
            self.incoming_window,
            self.next_outgoing_id,
            OUTGOING_WINDOW,
        )
    }

    /// The server's begin in answer to that of a client on `channel`.
    #[must_use]
    pub fn begin(&self, channel: u16, handle_max: u32) -> Begin<'static> {
        Begin {
            remote_channel: Some(channel),
            next_outgoing_id: self.next_outgoing_id,
            incoming_window: self.incoming_window,
            outgoing_window: OUTGOING_WINDOW,
            handle_max,
            ..Begin::default()
        }
    }
}

#[cfg(test)]
mod tests;
