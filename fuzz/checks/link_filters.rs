//! What must hold for any filters of a link, and any message. Shared by the fuzz target and by an ordinary test of
//! the crate, which needs no fuzzer.

use amqp10::ValueRef;
use routing::{LinkFilters, SectionsFilter};
use stdx::UnixMs;

/// The first line is SQL, what follows the sections of a message, and filters of an attach if it is a map. SQL is
/// refused at one of its places, with a reason, or can be asked: then it is not true together with its contrary.
/// The filters in place are some of those asked for, and stay in place when they are asked for again.
pub(crate) fn link_filters(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (text, rest) = input.split_at(end);
    let rest = rest.get(1..).unwrap_or_default();
    if let Ok(text) = std::str::from_utf8(text) {
        sql(text, rest);
    }
    let Ok((ValueRef::Map(asked), _)) = ValueRef::decode(rest) else { return };
    let filters = LinkFilters::of(asked);
    let Ok((ValueRef::Map(in_place), _)) = ValueRef::decode(&filters.in_place) else {
        panic!("the filters in place are a map");
    };
    assert!(in_place.len() <= asked.len());
    assert_eq!(LinkFilters::of(in_place).in_place, filters.in_place);
}

fn sql(text: &str, sections: &[u8]) {
    let now = UnixMs::from_raw(1_000);
    match SectionsFilter::of_sql(text) {
        Ok(filter) => {
            let is_true = filter.matches(sections, now);
            if let Ok(contrary) = SectionsFilter::of_sql(&format!("NOT ({text})")) {
                assert!(!(is_true && contrary.matches(sections, now)));
            }
        }
        Err(error) => {
            let columns = 1..=text.chars().count() + 1;
            assert!(columns.contains(&error.column) && !error.reason.is_empty());
        }
    }
}
