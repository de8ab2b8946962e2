//! Effects of commands as records, for the node that has asked. A tag keeps its meaning forever.

use stdx::record::{Reader, RecordError, put_str};

use super::Done;
use crate::exchange::ExchangeDef;
use crate::field::{Field, Read, enums, structs, values};
use crate::queue::QueueDef;
use crate::queue_type::QueueKind;

enums! {
    Done {
        0 Nothing {};
        1 Changed {};
        2 ExchangeCreated { 0: it };
        3 ExchangeExists { 0: it };
        4 QueueCreated { 0: it };
        5 QueueExists { 0: it };
        6 NodeJoined { 0: it };
        7 NodeExists { 0: it };
    }
}

values! {
    QueueKind: put_str(|it| it.as_str()), str(|text| Self::of_name(text).ok_or(RecordError::Invalid));
}

structs! {
    ExchangeDef { name, kind, durable, auto_delete, internal, arguments }
    QueueDef { id, vhost, name, kind, durable, auto_delete, exclusive_owner, arguments, home }
}

impl Done {
    /// Appends the effect as a record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    /// Reads the next effect.
    ///
    /// # Errors
    /// A record that is cut, of a later version, or damaged.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, RecordError> {
        Field::read(r)
    }
}
