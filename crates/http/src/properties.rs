//! The properties of a message as JSON.

use message::Properties as MessageProperties;
use meta::definitions::table_to_json;
use serde_json::{Value, json};
use session::ShortString;

/// The properties that a message has.
pub(crate) fn object(properties: &MessageProperties) -> Value {
    let fields = fields(properties).into_iter();
    Value::Object(fields.filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
}

/// All properties, with their values if they are set.
pub(crate) fn fields(properties: &MessageProperties) -> [(&'static str, Option<Value>); 14] {
    let text = |field: &Option<ShortString>| field.as_ref().map(|it| json!(it.to_text()));
    [
        ("content_type", text(&properties.content_type)),
        ("content_encoding", text(&properties.content_encoding)),
        ("headers", properties.headers.as_ref().map(table_to_json)),
        ("delivery_mode", properties.delivery_mode.map(Value::from)),
        ("priority", properties.priority.map(Value::from)),
        ("correlation_id", text(&properties.correlation_id)),
        ("reply_to", text(&properties.reply_to)),
        ("expiration", text(&properties.expiration)),
        ("message_id", text(&properties.message_id)),
        ("timestamp", properties.timestamp.map(Value::from)),
        ("type", text(&properties.kind)),
        ("user_id", text(&properties.user_id)),
        ("app_id", text(&properties.app_id)),
        ("cluster_id", text(&properties.cluster_id)),
    ]
}
