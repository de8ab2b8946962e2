//! Limits of names that peers send.

use stdx::record::{Reader, RecordError};

/// Names of nodes that a node may be configured with, its own among them; and members of a cluster.
pub const NAMES_MAX: usize = 64;
/// COMPAT: the bytes that a node's name may have, as in Erlang.
const NAME_BYTES_MAX: usize = 255;

/// Reads the name of a node or host. It may be shown and logged as it is.
pub(crate) fn read_name(reader: &mut Reader<'_>) -> Result<String, RecordError> {
    let name = reader.str()?;
    let is_name =
        !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control);
    is_name.then(|| name.to_owned()).ok_or(RecordError::Invalid)
}
