//! The messages a publisher sends, many at a time in one piece of memory.

use amqp091::Properties;

use crate::amqp10::transfer;
use crate::rate::Schedule;
use crate::template::{Address, Marking, RANDOM_KEY_BYTES, Template, stamped_body};

/// The source of messages.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) address: Address,
    /// Those of messages in turn.
    pub(crate) properties: Vec<Properties>,
    pub(crate) encoding: Encoding,
    pub(crate) bodies: Bodies,
    pub(crate) keys: Keys,
}

/// The protocol that messages are encoded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Amqp091,
    Amqp10 { is_settled: bool },
}

impl Source {
    fn templates<'a>(
        &'a self,
        body: &'a [u8],
        marking: Marking,
    ) -> impl Iterator<Item = Template> + use<'a> {
        self.properties.iter().map(move |properties| match self.encoding {
            Encoding::Amqp091 => Template::new(&self.address, properties, body, marking),
            Encoding::Amqp10 { is_settled } => {
                transfer::template(self.address.frame_max, is_settled, properties, body, marking)
            }
        })
    }
}

/// The bodies of messages.
#[derive(Debug)]
pub(crate) enum Bodies {
    /// Marks and filler, of a size that may change over time.
    Stamped { size: Schedule, marking: Marking },
    /// Given bodies in turn, with the time stamp in a header.
    Given(Vec<Vec<u8>>),
}

/// Routing keys.
#[derive(Debug)]
pub(crate) enum Keys {
    /// The routing key of the address.
    Fixed,
    /// Another one for every message.
    Random(Random),
    /// One of these for every message.
    Cached { keys: Vec<[u8; RANDOM_KEY_BYTES]>, random: Random },
}

impl Keys {
    fn next(&mut self) -> Option<[u8; RANDOM_KEY_BYTES]> {
        match self {
            Self::Fixed => None,
            Self::Random(random) => Some(random.key()),
            Self::Cached { keys, random } => {
                let n = u64::try_from(keys.len()).ok()?;
                let at = usize::try_from(random.next().checked_rem(n)?).ok()?;
                keys.get(at).copied()
            }
        }
    }
}

/// Numbers nobody can guess at a glance (splitmix64); good enough for keys and filler.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A routing key of hexadecimal digits.
    pub(crate) fn key(&mut self) -> [u8; RANDOM_KEY_BYTES] {
        let mut key = [0; RANDOM_KEY_BYTES];
        let number = u128::from(self.next()) << 64 | u128::from(self.next());
        for (at, digit) in key.iter_mut().enumerate() {
            let nibble = (number >> (4 * at)) & 0xF;
            *digit = b"0123456789abcdef"
                .get(usize::try_from(nibble).unwrap_or_default())
                .copied()
                .unwrap_or(b'0');
        }
        key
    }
}

/// Encoded messages on their way to the socket. As long as all are alike, the memory holds copies
/// of one message that were made once, and only marks are written.
#[derive(Debug)]
pub(crate) struct Messages {
    source: Source,
    templates: Vec<Template>,
    /// The index of the next template.
    next: usize,
    /// The time at which the size changes, nanoseconds after the start.
    sized_until: u64,
    bytes: Vec<u8>,
    /// The part of `bytes` that is not written yet.
    at: usize,
    end: usize,
    batch_bytes: usize,
}

impl Messages {
    /// Messages of the source, about `batch_bytes` at a time but at least one.
    pub(crate) fn new(source: Source, batch_bytes: usize) -> Self {
        let templates = match &source.bodies {
            Bodies::Stamped { .. } => Vec::new(),
            Bodies::Given(bodies) => {
                let of_body = |body| source.templates(body, Marking::Header);
                bodies.iter().flat_map(|body| of_body(body)).collect()
            }
        };
        let sized_until = if templates.is_empty() { 0 } else { u64::MAX };
        let (bytes, at, end, next) = (Vec::new(), 0, 0, 0);
        let mut messages =
            Self { source, templates, next, sized_until, bytes, at, end, batch_bytes };
        messages.begin(0);
        messages
    }

    /// Starts a batch; the one before is written.
    pub(crate) fn begin(&mut self, elapsed: u64) {
        if let Bodies::Stamped { size, marking } = &self.source.bodies
            && elapsed >= self.sized_until
        {
            let (size, until) = size.at(elapsed);
            let body = stamped_body(whole(size), *marking == Marking::Verified);
            self.templates = self.source.templates(&body, *marking).collect();
            self.sized_until = until;
            self.bytes.clear();
        }
        if self.templates.len() > 1 {
            self.bytes.clear();
        }
        (self.at, self.end) = (0, 0);
    }

    /// The number of messages that fit the batch.
    pub(crate) fn capacity(&self) -> usize {
        let longest = self.templates.iter().map(|template| template.bytes().len()).max();
        (self.batch_bytes / longest.unwrap_or(1).max(1)).max(1)
    }

    /// The frames that a message comes in, at most.
    pub(crate) fn n_frames(&self) -> usize {
        self.templates.iter().map(Template::n_frames).max().unwrap_or(1)
    }

    /// Adds the next message.
    #[inline]
    pub(crate) fn put(&mut self, mark: crate::template::Mark) {
        let Some(template) = self.templates.get(self.next) else { return };
        let (at, end) = (self.end, self.end + template.bytes().len());
        if end > self.bytes.len() {
            self.bytes.extend_from_slice(template.bytes());
        }
        if let Some(message) = self.bytes.get_mut(at..end) {
            template.mark(message, mark);
            if let Some(key) = self.source.keys.next() {
                template.set_key(message, key);
            }
        }
        self.end = end;
        self.next = if self.next + 1 < self.templates.len() { self.next + 1 } else { 0 };
    }

    /// The batch is complete.
    pub(crate) fn end(&mut self) {
        debug_assert!(self.end <= self.bytes.len(), "a batch is within its memory");
    }

    /// The mean size of the bodies.
    pub(crate) fn body_len(&self) -> u64 {
        let sum: usize = self.templates.iter().map(Template::body_len).sum();
        u64::try_from(sum / self.templates.len().max(1)).unwrap_or(u64::MAX)
    }

    /// The bytes of the batch that are not written yet.
    #[inline]
    pub(crate) fn pending(&self) -> &[u8] {
        self.bytes.get(self.at..self.end).unwrap_or_default()
    }

    /// Nothing more of it is to be written.
    pub(crate) fn drop_pending(&mut self) {
        (self.at, self.end) = (0, 0);
    }

    /// Notes that `n` bytes of the batch are written.
    pub(crate) fn written(&mut self, n: usize) {
        self.at += n;
    }
}

/// A size from a schedule as an integer.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, which is meant")]
fn whole(size: f64) -> usize {
    size as usize
}

/// A JSON object of about `size` bytes, made of `n_fields` different names and values.
pub(crate) fn json(size: usize, n_fields: usize, random: &mut Random) -> Vec<u8> {
    let mut text = String::from("{");
    let n_fields = u64::try_from(n_fields.max(1)).unwrap_or(1);
    while text.len() + 2 < size {
        if text.len() > 1 {
            text.push(',');
        }
        let name = random.next() % n_fields;
        let value = match random.next() % 3 {
            0 => format!("{}", random.next() >> 33),
            1 => format!("{}", random.next() & 1 == 0),
            _ => format!("\"{}\"", String::from_utf8_lossy(&random.key())),
        };
        text.push_str(&format!("\"field{name}\":{value}"));
    }
    text.push('}');
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Mark;

    fn source(bodies: Bodies, keys: Keys) -> Source {
        let address = Address {
            channel: 1,
            exchange: String::new(),
            routing_key: "0".repeat(RANDOM_KEY_BYTES),
            mandatory: false,
            immediate: false,
            frame_max: 8192,
        };
        let properties = vec![Properties::default()];
        Source { address, properties, encoding: Encoding::Amqp091, bodies, keys }
    }

    fn batch(messages: &mut Messages, elapsed: u64, numbers: std::ops::Range<u64>) -> Vec<u8> {
        messages.begin(elapsed);
        numbers.for_each(|number| messages.put(Mark { number, stamp: 1, publisher: 0 }));
        messages.end();
        messages.pending().to_vec()
    }

    #[test]
    fn a_batch_is_its_messages_one_after_the_other() {
        let stamped = Bodies::Stamped { size: Schedule::constant(12.0), marking: Marking::Body };
        let mut messages = Messages::new(source(stamped, Keys::Fixed), 1000);
        let five = batch(&mut messages, 0, 0..5);
        let stride = five.len() / 5;
        assert_eq!(messages.capacity(), 1000 / stride);
        // The number's last octet and the stamp's, from the end of a message.
        let marks = |batch: &[u8], n: usize| (batch[n * stride - 10], batch[n * stride - 2]);
        assert_eq!((marks(&five, 1), marks(&five, 5)), ((0, 1), (4, 1)));
        // The memory of a longer batch is used again for a shorter one.
        let two = batch(&mut messages, 0, 7..9);
        assert_eq!(two.len(), 2 * stride);
        assert_eq!((marks(&two, 1), marks(&two, 2)), ((7, 1), (8, 1)));
        messages.written(stride + 3);
        assert_eq!(messages.pending(), &two[stride + 3..]);
    }

    #[test]
    fn sizes_change_and_given_bodies_take_turns() {
        let size = Schedule::of(&[(20, 1), (100, 1)]).unwrap();
        let stamped = Bodies::Stamped { size, marking: Marking::Body };
        let mut messages = Messages::new(source(stamped, Keys::Fixed), 1000);
        let small = batch(&mut messages, 0, 0..2).len();
        let large = batch(&mut messages, 1_000_000_000, 0..2).len();
        assert_eq!(large - small, 2 * 80);
        assert_eq!(batch(&mut messages, 2_000_000_000, 0..2).len(), small);
        let given = Bodies::Given(vec![b"a".to_vec(), b"bcd".to_vec()]);
        let mut messages = Messages::new(source(given, Keys::Fixed), 1000);
        let both = batch(&mut messages, 0, 0..2);
        assert_eq!(batch(&mut messages, 0, 0..1).len() * 2 + 2, both.len());
        assert_eq!(batch(&mut messages, 0, 0..2).len(), both.len());
        assert_eq!(messages.body_len(), 2);
    }

    #[test]
    fn random_keys_differ_and_cached_ones_repeat() {
        let mut random = Random(1);
        assert_ne!(random.key(), random.key());
        let keys = vec![random.key()];
        let mut cached = Keys::Cached { keys: keys.clone(), random };
        assert_eq!(cached.next(), keys.first().copied());
    }

    #[test]
    fn json_bodies_are_json_of_about_the_size() {
        for size in [0, 2, 100, 5000] {
            let body = json(size, 10, &mut Random(7));
            assert!(body.len() >= size && body.len() < size + 60, "{} for {size}", body.len());
            serde_json::from_slice::<serde_json::Value>(&body).unwrap();
        }
    }
}
