//! The fields of each command once more, as words, to make up frames that do not come from the
//! codec.
//!
//! `u8 u16 u32 u64` any number, `flag`, `str`, `null-str` a string or null, `bytes`, `entry`,
//! `offset`, `chunk` anything up to the end, `[ ... ]` an array, `?[ ... ]` one that is left out
//! rather than empty.

use proptest::collection::vec;
use proptest::prelude::*;

/// Key, version and fields of what a client sends.
pub(crate) const TO_SERVER: &[(u16, u16, &str)] = &[
    (0x0001, 1, "u32 u8 str str"),
    (0x0002, 1, "u8 [ u64 entry ]"),
    (0x0002, 2, "u8 [ u64 null-str entry ]"),
    (0x0005, 1, "u32 str str"),
    (0x0006, 1, "u32 u8"),
    (0x0007, 1, "u32 u8 str offset u16 ?[ str str ]"),
    (0x0009, 1, "u8 u16"),
    (0x000a, 1, "str str u64"),
    (0x000b, 1, "u32 str str"),
    (0x000c, 1, "u32 u8"),
    (0x000d, 1, "u32 str [ str str ]"),
    (0x000e, 1, "u32 str"),
    (0x000f, 1, "u32 [ str ]"),
    (0x0011, 1, "u32 [ str str ]"),
    (0x0012, 1, "u32"),
    (0x0013, 1, "u32 str bytes"),
    (0x0014, 1, "u32 u32"),
    (0x8014, 1, "u32 u32"),
    (0x0015, 1, "u32 str"),
    (0x0016, 1, "u32 u16 str"),
    (0x8016, 1, "u32 u16"),
    (0x0017, 1, ""),
    (0x0018, 1, "u32 str str"),
    (0x0019, 1, "u32 str"),
    (0x801a, 1, "u32 u16 offset"),
    (0x001b, 1, "u32 [ u16 u16 u16 ]"),
    (0x001c, 1, "u32 str"),
    (0x001d, 1, "u32 str [ str ] [ str ] [ str str ]"),
    (0x001e, 1, "u32 str"),
    (0x001f, 1, "u32 str offset ?[ str str ]"),
];

/// Key, version and fields of what a server sends.
pub(crate) const TO_CLIENT: &[(u16, u16, &str)] = &[
    (0x8001, 1, "u32 u16"),
    (0x0003, 1, "u8 [ u64 ]"),
    (0x0004, 1, "u8 [ u64 u16 ]"),
    (0x8005, 1, "u32 u16 u64"),
    (0x8006, 1, "u32 u16"),
    (0x8007, 1, "u32 u16"),
    (0x0008, 1, "u8 chunk"),
    (0x0008, 2, "u8 u64 chunk"),
    (0x8009, 1, "u16 u8"),
    (0x800b, 1, "u32 u16 u64"),
    (0x800c, 1, "u32 u16"),
    (0x800d, 1, "u32 u16"),
    (0x800e, 1, "u32 u16"),
    (0x800f, 1, "u32 [ u16 str u32 ] [ str u16 u16 [ u16 ] ]"),
    (0x0010, 1, "u16 str"),
    (0x8011, 1, "u32 u16 [ str str ]"),
    (0x8012, 1, "u32 u16 [ str ]"),
    (0x8013, 1, "u32 u16 bytes"),
    (0x0014, 1, "u32 u32"),
    (0x8014, 1, "u32 u32"),
    (0x8015, 1, "u32 u16 [ str str ]"),
    (0x0016, 1, "u32 u16 str"),
    (0x8016, 1, "u32 u16"),
    (0x0017, 1, ""),
    (0x8018, 1, "u32 u16 [ str ]"),
    (0x8019, 1, "u32 u16 [ str ]"),
    (0x001a, 1, "u32 u8 flag"),
    (0x801b, 1, "u32 u16 [ u16 u16 u16 ]"),
    (0x801c, 1, "u32 u16 [ str u64 ]"),
    (0x801d, 1, "u32 u16"),
    (0x801e, 1, "u32 u16"),
    (0x801f, 1, "u32 u16 offset"),
];

/// A frame from its key on.
pub(crate) fn frame(command: (u16, u16, &str)) -> BoxedStrategy<Vec<u8>> {
    let (key, version, fields) = command;
    let id = [key.to_be_bytes(), version.to_be_bytes()].concat();
    let mut words = fields.split_whitespace();
    joined(vec![Just(id).boxed(), sequence(&mut words)])
}

/// Any frame of a list of commands.
pub(crate) fn any_frame(commands: &'static [(u16, u16, &str)]) -> BoxedStrategy<Vec<u8>> {
    proptest::sample::select(commands).prop_flat_map(frame).boxed()
}

fn sequence<'w>(words: &mut impl Iterator<Item = &'w str>) -> BoxedStrategy<Vec<u8>> {
    let mut parts = Vec::new();
    while let Some(word) = words.next() {
        parts.push(match word {
            "]" => break,
            "[" => array(sequence(words), true),
            "?[" => array(sequence(words), false),
            _ => field(word),
        });
    }
    joined(parts)
}

fn field(word: &str) -> BoxedStrategy<Vec<u8>> {
    match word {
        "u8" => random(1),
        "u16" => random(2),
        "u32" => random(4),
        "u64" => random(8),
        "flag" => any::<bool>().prop_map(|flag| vec![u8::from(flag)]).boxed(),
        "str" => string(),
        "null-str" => prop_oneof![string(), with_len::<2>(), Just(vec![0xff; 2])].boxed(),
        "bytes" => with_len::<4>(),
        "chunk" => vec(any::<u8>(), 0..40).boxed(),
        "offset" => prop_oneof![
            (0_u8..4).prop_map(|kind| vec![0, kind]),
            (4_u8..6, any::<[u8; 8]>()).prop_map(|(kind, at)| [&[0, kind][..], &at].concat()),
        ]
        .boxed(),
        "entry" => prop_oneof![with_len::<4>(), sub_batch()].boxed(),
        _ => panic!("no such word: {word}"),
    }
}

fn random(n: usize) -> BoxedStrategy<Vec<u8>> {
    vec(any::<u8>(), n).boxed()
}

fn string() -> BoxedStrategy<Vec<u8>> {
    "\\PC{0,12}".prop_map(|text| after_len::<2>(text.as_bytes())).boxed()
}

fn with_len<const N: usize>() -> BoxedStrategy<Vec<u8>> {
    vec(any::<u8>(), 0..20).prop_map(|bytes| after_len::<N>(&bytes)).boxed()
}

fn after_len<const N: usize>(bytes: &[u8]) -> Vec<u8> {
    let len = bytes.len().to_be_bytes();
    [len.last_chunk::<N>().expect("at most eight"), bytes].concat()
}

fn sub_batch() -> BoxedStrategy<Vec<u8>> {
    let kind = (0_u8..8).prop_map(|compression| vec![0x80 | compression << 4]).boxed();
    joined(vec![kind, random(6), with_len::<4>()])
}

fn array(element: BoxedStrategy<Vec<u8>>, may_be_empty: bool) -> BoxedStrategy<Vec<u8>> {
    vec(element, 0..5)
        .prop_map(move |elements| {
            let n = u32::try_from(elements.len()).expect("a few");
            if n == 0 && !may_be_empty {
                return Vec::new();
            }
            [&n.to_be_bytes()[..], &elements.concat()].concat()
        })
        .boxed()
}

fn joined(parts: Vec<BoxedStrategy<Vec<u8>>>) -> BoxedStrategy<Vec<u8>> {
    parts.prop_map(|parts| parts.concat()).boxed()
}
