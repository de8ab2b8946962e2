//! A stream's messages one by one, without credit or an outbox: for operators. Reading waits for the disk.

use crate::cursor::{Cursor, Read, StreamMessage};
use crate::messages::Damaged;
use crate::stream::Stream;
use message::BodyForm;
use session::Table;
use std::sync::Arc;

/// Messages of a stream from some place on.
#[derive(Debug)]
pub struct Tail {
    cursor: Cursor,
    stream: Arc<Stream>,
    next_offset: u64,
}

impl Tail {
    /// Opens a tail where the arguments of a consumer say.
    ///
    /// # Errors
    /// The text by which a consumer is refused.
    pub fn open(stream: &Stream, arguments: &Table) -> Result<Self, String> {
        let cursor =
            Cursor::open(stream, arguments, BodyForm::Plain, stream.services.time.unix_ms())?;
        let me = stream.me.upgrade().ok_or_else(|| "the stream is gone".to_owned())?;
        Ok(Self { next_offset: cursor.next_offset(), cursor, stream: me })
    }

    /// Shows the next message; false if there is none yet.
    ///
    /// # Errors
    /// The reason why the stream cannot be read.
    pub fn next(&mut self, see: impl FnOnce(&StreamMessage<'_>)) -> Result<bool, String> {
        let text = |Damaged(text)| text;
        loop {
            if let Some(next) = self.cursor.next().map_err(text)? {
                self.next_offset = next.offset + 1;
                see(&next);
                return Ok(true);
            }
            match self.cursor.read(&self.stream).map_err(text)? {
                Read::GoesOn | Read::Waits(None) => {}
                Read::Waits(Some(mut lent)) => {
                    let read = lent.read(&self.stream);
                    self.cursor.give_back(lent, read);
                }
                Read::End => {
                    self.next_offset = self.next_offset.max(self.cursor.next_offset());
                    return Ok(false);
                }
            }
        }
    }

    /// The offset that comes next.
    #[must_use]
    pub const fn next_offset(&self) -> u64 {
        self.next_offset
    }
}
