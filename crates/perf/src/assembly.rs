//! Content as it comes in: a header frame, then the body in frames.

use amqp091::{ContentHeader, FrameKind};
use anyhow::{Context as _, bail};

use crate::config::VERIFIED_BYTES;
use crate::template::STAMP_HEADER;

/// The largest body that is kept whole for verification.
const BODY_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// The content that is being received on a channel.
#[derive(Debug)]
pub(crate) struct Assembly {
    /// Whether bodies are kept whole; otherwise only their start.
    keeps_all: bool,
    is_expected: bool,
    size: u64,
    left: u64,
    /// The start of a body that comes in several frames.
    kept: Vec<u8>,
}

impl Assembly {
    pub(crate) fn new(keeps_all: bool) -> Self {
        Self { keeps_all, is_expected: false, size: 0, left: 0, kept: Vec::new() }
    }

    /// Forgets what has come so far.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.keeps_all);
    }

    /// A method announced content.
    pub(crate) fn begin(&mut self) {
        self.is_expected = true;
    }

    /// The header frame; `true` if that was all, since the body is empty.
    #[inline]
    pub(crate) fn header(&mut self, payload: &[u8]) -> anyhow::Result<bool> {
        if !std::mem::take(&mut self.is_expected) {
            bail!("a content header where none belongs");
        }
        let size = payload.get(4..).and_then(<[u8]>::first_chunk).context("a short header")?;
        self.size = u64::from_be_bytes(*size);
        if self.size > BODY_BYTES_MAX {
            bail!("a body of {} bytes", self.size);
        }
        self.left = self.size;
        self.kept.clear();
        Ok(self.size == 0)
    }

    /// A body frame; the body (or at least its start) if that was all.
    #[inline]
    pub(crate) fn body<'a>(&'a mut self, payload: &'a [u8]) -> anyhow::Result<Option<&'a [u8]>> {
        let n = u64::try_from(payload.len()).unwrap_or(u64::MAX);
        let is_first = self.left == self.size;
        self.left = self.left.checked_sub(n).context("a body frame where none belongs")?;
        if is_first && self.left == 0 {
            return Ok(Some(payload));
        }
        let wanted = if self.keeps_all { payload.len() } else { VERIFIED_BYTES };
        self.kept.extend_from_slice(payload.get(..wanted).unwrap_or(payload));
        Ok((self.left == 0).then_some(self.kept.as_slice()))
    }

    /// The size of the body.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }
}

/// The time stamp in the headers of a message, for bodies that have none.
pub(crate) fn header_stamp(payload: &[u8]) -> Option<u64> {
    let headers = ContentHeader::decode(payload).ok()?.properties.headers()?;
    u64::try_from(headers.get(STAMP_HEADER.as_bytes())?.as_i64()?).ok()
}

/// Whether a frame belongs to content.
pub(crate) fn is_content(kind: FrameKind) -> bool {
    kind == FrameKind::Header || kind == FrameKind::Body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(size: u8) -> [u8; 14] {
        [0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, size, 0, 0]
    }

    #[test]
    fn bodies_in_one_frame_and_in_several() {
        let mut assembly = Assembly::new(true);
        assembly.begin();
        assert!(!assembly.header(&header(3)).unwrap());
        assert_eq!(assembly.body(b"abc").unwrap(), Some(&b"abc"[..]));
        assembly.begin();
        assembly.header(&header(5)).unwrap();
        assert_eq!(assembly.body(b"ab").unwrap(), None);
        assert_eq!(assembly.body(b"cde").unwrap(), Some(&b"abcde"[..]));
        assembly.begin();
        assert!(assembly.header(&header(0)).unwrap());
    }

    #[test]
    fn frames_out_of_place_are_errors() {
        let mut assembly = Assembly::new(false);
        assert!(assembly.header(&header(3)).is_err());
        assert!(assembly.body(b"a").is_err());
        assembly.begin();
        assert!(assembly.header(&[0, 60]).is_err());
        assembly.begin();
        assembly.header(&header(3)).unwrap();
        assert!(assembly.body(b"abcd").is_err());
    }
}
