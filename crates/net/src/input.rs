//! What was read and not yet decoded. Between reads a connection holds only the leftover of a frame;
//! the large buffers to read into are shared by all connections.

use std::sync::Mutex;

/// What one read takes at most, unless reads keep filling it.
const READ_BYTES: usize = 64 * 1024;
/// What one read takes at most when they do.
const READ_BYTES_MAX: usize = 1024 * 1024;
/// Leftovers up to this size are copied out, so that the buffer can be given back.
const LEFTOVER_COPY_MAX: usize = 4 * 1024;
/// Buffers kept for the next reads, at most.
const SPARE_BUFFERS_MAX: usize = 64;

/// Buffers between reads.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    spare: Mutex<Vec<Vec<u8>>>,
}

impl Buffers {
    fn take(&self, bytes: usize) -> Vec<u8> {
        let mut buffer = stdx::lock(&self.spare).pop().unwrap_or_default();
        buffer.reserve_exact(bytes);
        buffer
    }

    fn give(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() > READ_BYTES_MAX {
            return;
        }
        buffer.clear();
        let mut spare = stdx::lock(&self.spare);
        if spare.len() < SPARE_BUFFERS_MAX {
            spare.push(buffer);
        }
    }
}

/// A connection's input.
#[derive(Debug)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    /// What the next read may take.
    read_bytes: usize,
    /// What must be there before decoding makes sense.
    wanted: usize,
}

impl Input {
    pub(crate) const fn new() -> Self {
        Self { bytes: Vec::new(), read_bytes: READ_BYTES, wanted: 0 }
    }

    /// What is there.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether a frame that was announced is still incomplete.
    pub(crate) fn is_short(&self) -> bool {
        self.bytes.len() < self.wanted
    }

    /// Lets `read` append to the buffer; what it returns is how many bytes that were.
    pub(crate) fn fill<E>(
        &mut self,
        buffers: &Buffers,
        read: impl FnOnce(&mut Vec<u8>) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let room = self.read_bytes.max(self.wanted.saturating_sub(self.bytes.len()));
        if self.bytes.capacity() - self.bytes.len() < room {
            let mut larger = buffers.take(self.bytes.len() + room);
            larger.extend_from_slice(&self.bytes);
            let old = std::mem::replace(&mut self.bytes, larger);
            if old.capacity() >= READ_BYTES {
                buffers.give(old);
            }
        }
        let result = read(&mut self.bytes);
        match &result {
            Ok(n) if *n >= room => self.read_bytes = (self.read_bytes * 2).min(READ_BYTES_MAX),
            Ok(n) if *n < self.read_bytes / 4 => {
                self.read_bytes = (self.read_bytes / 2).max(READ_BYTES);
            }
            Ok(_) => {}
            Err(_) => self.put_away(buffers),
        }
        result
    }

    /// Drops what was decoded; `wanted` bytes must be there before decoding is tried again.
    pub(crate) fn consume(&mut self, n: usize, wanted: usize) {
        self.bytes.drain(..n.min(self.bytes.len()));
        self.wanted = wanted;
    }

    /// Nothing is read for now: gives the large buffer back.
    pub(crate) fn put_away(&mut self, buffers: &Buffers) {
        if self.bytes.capacity() < READ_BYTES || self.bytes.len() > LEFTOVER_COPY_MAX {
            return;
        }
        let leftover = self.bytes.as_slice().into();
        buffers.give(std::mem::replace(&mut self.bytes, leftover));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(bytes: usize) -> impl FnOnce(&mut Vec<u8>) -> Result<usize, ()> {
        move |buffer| {
            assert!(buffer.capacity() - buffer.len() >= bytes);
            buffer.resize(buffer.len() + bytes, 7);
            Ok(bytes)
        }
    }

    #[test]
    fn an_idle_input_holds_only_its_leftover() {
        let buffers = Buffers::default();
        let mut input = Input::new();
        input.fill(&buffers, put(1_000)).unwrap();
        input.consume(990, 0);
        input.put_away(&buffers);
        assert_eq!((input.bytes().len(), input.bytes.capacity()), (10, 10));
        assert_eq!(buffers.spare.lock().unwrap().len(), 1);
        input.fill(&buffers, put(5)).unwrap();
        assert_eq!(input.bytes().len(), 15);
        assert!(buffers.spare.lock().unwrap().is_empty());
    }

    #[test]
    fn reads_grow_while_they_fill_the_buffer() {
        let buffers = Buffers::default();
        let mut input = Input::new();
        for _ in 0..10 {
            let room = input.read_bytes;
            input.fill(&buffers, put(room)).unwrap();
            input.consume(room, 0);
        }
        assert_eq!(input.read_bytes, READ_BYTES_MAX);
        for _ in 0..10 {
            input.fill(&buffers, put(1)).unwrap();
            input.consume(1, 0);
        }
        assert_eq!(input.read_bytes, READ_BYTES);
    }

    #[test]
    fn a_large_frame_gets_the_room_it_wants() {
        let buffers = Buffers::default();
        let mut input = Input::new();
        input.fill(&buffers, put(10)).unwrap();
        input.consume(0, 300_000);
        assert!(input.is_short());
        input.fill(&buffers, put(299_990)).unwrap();
        assert!(!input.is_short());
    }
}
