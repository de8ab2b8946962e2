//! Effects and refusals as records.

use std::collections::BTreeSet;

use proptest::prelude::*;
use stdx::record::{Reader, RecordError, put_str};

use super::properties::{command, populated};
use super::*;

/// Checks that a record gives back its value, and that none of its beginnings is one.
fn check<T: PartialEq + std::fmt::Debug>(
    value: &T,
    record: &[u8],
    read: fn(&mut Reader<'_>) -> Result<T, RecordError>,
) {
    let mut reader = Reader::new(record);
    assert_eq!(read(&mut reader).as_ref(), Ok(value));
    assert!(reader.is_empty());
    for cut in 0..record.len() {
        assert_eq!(read(&mut Reader::new(&record[..cut])), Err(RecordError::Truncated));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn effects_and_refusals_survive_encoding(commands in prop::collection::vec(command(), 1..60)) {
        let mut state = populated();
        for command in commands {
            let mut record = Vec::new();
            match apply(&mut state, command) {
                Ok(Outcome { done, .. }) => {
                    done.encode(&mut record);
                    check(&done, &record, Done::read);
                }
                Err(error) => {
                    error.encode(&mut record);
                    check(&error, &record, MetaError::read);
                }
            }
        }
    }

    #[test]
    fn reading_anything_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        drop(Done::read(&mut Reader::new(&bytes)));
        drop(MetaError::read(&mut Reader::new(&bytes)));
    }
}

/// Records of up to four fields, of which each refusal is made.
fn records() -> Vec<Vec<u8>> {
    let text = |text| {
        let mut out = Vec::new();
        put_str(&mut out, text);
        out
    };
    let resource = [text("queue"), text("q"), text("/")].concat();
    let binding = [vec![8], text("x"), text("no")].concat();
    let fields = [text("read"), text("queue"), resource, binding, vec![1, 0]];
    let fields: Vec<_> = fields.into_iter().chain([vec![2, 0, 0, 0], vec![9; 8]]).collect();
    let mut records = vec![Vec::new()];
    let mut from = 0;
    for _ in 0..4 {
        let upto = records.len();
        for at in from..upto {
            records.extend(
                fields.iter().map(|field| [&records[at][..], field].concat()).collect::<Vec<_>>(),
            );
        }
        from = upto;
    }
    records
}

#[test]
fn every_refusal_survives_encoding() {
    let mut tags = BTreeSet::new();
    for fields in records() {
        for tag in 0..=u8::MAX {
            let record = [&[tag][..], &fields].concat();
            let mut reader = Reader::new(&record);
            let Ok(error) = MetaError::read(&mut reader) else { continue };
            if reader.is_empty() {
                let mut again = Vec::new();
                error.encode(&mut again);
                assert_eq!(again, record, "{error:?}");
                tags.insert(tag);
            }
        }
    }
    assert_eq!(tags, (0..42).collect(), "each kind of refusal was read");
}
