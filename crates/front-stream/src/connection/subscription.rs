//! Subscriptions as clients spell them.

use session::{ChunkSelection, Properties, StreamOffset, StreamSubscription, SubscriptionId};
use streamproto::command::{Property, Subscribe};
use streamproto::{List, OffsetSpec};

/// The prefix of the properties that each have a filter value.
const FILTER_PREFIX: &str = "filter.";

/// The subscription; `None` without a place to begin at.
pub(super) fn subscription(it: &Subscribe<'_>) -> Option<StreamSubscription> {
    let list = it.properties.0;
    Some(StreamSubscription {
        subscription: SubscriptionId(it.subscription_id),
        stream: it.stream.to_owned(),
        offset: start(it.offset)?,
        credit: it.credit,
        selection: chunk_selection(list),
        name: value_of(list, "name").map(str::to_owned),
        single_active: value_of(list, "single-active-consumer") == Some("true"),
        super_stream: value_of(list, "super-stream").map(str::to_owned),
        properties: properties(list),
    })
}

pub(super) fn chunk_selection(list: List<'_, Property<'_>>) -> ChunkSelection {
    let filters = list.iter().filter(|property| property.key.starts_with(FILTER_PREFIX));
    ChunkSelection {
        filters: filters.map(|property| property.value.as_bytes().to_vec()).collect(),
        match_unfiltered: value_of(list, "match-unfiltered") == Some("true"),
        all_types: value_of(list, "chunk_selector") == Some("all"),
    }
}

/// The place that is meant; `None` where none is.
pub(super) const fn start(offset: OffsetSpec) -> Option<StreamOffset> {
    match offset {
        OffsetSpec::None => None,
        OffsetSpec::First => Some(StreamOffset::First),
        OffsetSpec::Last => Some(StreamOffset::Last),
        OffsetSpec::Next => Some(StreamOffset::Next),
        OffsetSpec::Offset(offset) => Some(StreamOffset::Offset(offset)),
        OffsetSpec::Timestamp(ms) => Some(StreamOffset::TimestampMs(ms)),
    }
}

/// Properties of a subscription, or arguments of a stream, as values.
pub(super) fn properties(list: List<'_, Property<'_>>) -> Properties {
    list.iter().map(|property| (property.key.to_owned(), property.value.to_owned())).collect()
}

/// The value of a property; of several of a name the last, as in a map.
fn value_of<'a>(list: List<'a, Property<'a>>, key: &str) -> Option<&'a str> {
    list.iter().filter(|property| property.key == key).last().map(|property| property.value)
}
