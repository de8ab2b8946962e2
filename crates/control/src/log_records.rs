//! The broker's entries in the node's log. The owner of an entry, which it is about, says what the entry's
//! kind means: 0 is the definitions, the greatest number the node itself, any other a queue by its id. An
//! unknown kind is an error: a newer version wrote the entry.
//!
//! Entries of format 5 and before have no owner in their header: the id of a queue stands in front of the
//! payload, and kinds of the definitions and the node are other ones than a queue's.

pub mod definitions;
pub mod node;

use content::records::QueueEntry;
use definitions::DefinitionEntry;
use log::Owner;
use node::NodeEntry;
use stdx::record::{Reader, RecordError};

/// The owner of the definitions' entries.
pub const DEFINITIONS: Owner = Owner(0);
/// The owner of the node's own entries.
pub const NODE: Owner = Owner(u64::MAX);

/// An entry as recovery reads it.
#[derive(Debug)]
pub enum Entry<'a> {
    /// An entry of a queue, with the queue's id.
    Queue(u64, QueueEntry<'a>),
    /// An entry of the definitions.
    Definition(DefinitionEntry<'a>),
    /// An entry of the node.
    Node(NodeEntry<'a>),
}

/// Reads an entry.
pub fn parse<'a>(entry: &log::Entry<'a>) -> Result<Entry<'a>, RecordError> {
    let (owner, payload) = owned(entry)?;
    match owner {
        DEFINITIONS => definitions::parse(entry.kind, payload).map(Entry::Definition),
        NODE => node::parse(entry.kind, payload).map(Entry::Node),
        Owner(queue) => content::records::parse_entry(entry.kind, payload)
            .map(|about| Entry::Queue(queue, about)),
    }
}

/// Returns the owner of an entry, and the payload in the form of entries with owners.
pub fn owned<'a>(entry: &log::Entry<'a>) -> Result<(Owner, &'a [u8]), RecordError> {
    if let Some(owner) = entry.owner {
        return Ok((owner, entry.payload));
    }
    if definitions::has_kind(entry.kind) {
        return Ok((DEFINITIONS, entry.payload));
    }
    if node::has_kind(entry.kind) {
        return Ok((NODE, entry.payload));
    }
    let mut reader = Reader::new(entry.payload);
    Ok((Owner(reader.u64()?), reader.rest()))
}

#[cfg(test)]
mod tests {
    use super::node::append_stopped;
    use super::*;
    use log::{Wal, WalOptions};
    use std::iter::empty;
    use std::sync::Arc;
    use stdx::record::List;
    use testing::MemoryDisk;

    fn show(entry: Entry<'_>) -> String {
        let all = |list: List<'_, (u64, u64)>| list.iter().collect::<Vec<_>>();
        match entry {
            Entry::Queue(queue, QueueEntry::Settled { positions }) => {
                format!("settled {queue} {:?}", positions.iter().collect::<Vec<_>>())
            }
            Entry::Queue(queue, QueueEntry::Purged { ranges }) => {
                let ranges: Vec<_> = ranges.iter().map(|range| range.start..range.end).collect();
                format!("purged {queue} {ranges:?}")
            }
            Entry::Node(NodeEntry::Stopped { cursors }) => format!("stopped {:?}", all(cursors)),
            Entry::Node(NodeEntry::Unused { queues }) => format!("unused {:?}", all(queues)),
            other @ (Entry::Queue(..) | Entry::Definition(_) | Entry::Node(_)) => {
                format!("{other:?}")
            }
        }
    }

    #[test]
    fn entries_of_a_clean_stop_read_back() {
        let disk = MemoryDisk::new();
        let open = |seen: &mut Vec<String>| {
            Wal::open_stepped(Arc::new(disk.clone()), WalOptions::default(), &mut |entry| {
                seen.push(show(parse(&entry).unwrap()));
                Ok(())
            })
            .unwrap()
        };
        let (wal, mut stepper) = open(&mut Vec::new());
        append_stopped(&wal, [(7, 10), (8, 0)].into_iter(), empty());
        append_stopped(&wal, empty(), [(7, 900)].into_iter());
        while stepper.step() {}
        let mut seen = Vec::new();
        drop(open(&mut seen));
        assert_eq!(seen, ["stopped [(7, 10), (8, 0)]", "unused [(7, 900)]", "stopped []"]);
    }

    /// Nodes of format 5 and before wrote entries without owners.
    #[test]
    fn entries_without_owners_are_read() {
        let at = log::EntryAddress::default();
        let read = |kind, payload: &[u8]| {
            let entry = log::Entry { at, lsn: log::Lsn(1), owner: None, kind, payload };
            parse(&entry).map(show).map_err(|error| error.to_string())
        };
        let numbers = |numbers: &[u64]| -> Vec<u8> {
            numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
        };
        assert_eq!(read(2, &numbers(&[7, 3, 4])).unwrap(), "settled 7 [3, 4]");
        assert_eq!(read(3, &numbers(&[7, 3, 5])).unwrap(), "purged 7 [3..5]");
        let command = "Definition(DefinitionEntry { serial: 9, command: [] })";
        assert_eq!(read(16, &numbers(&[9])).unwrap(), command);
        assert_eq!(read(17, &numbers(&[7, 10])).unwrap(), "stopped [(7, 10)]");
        assert_eq!(read(18, &[]).unwrap(), "Node(Started)");
        assert_eq!(read(19, &numbers(&[7, 900])).unwrap(), "unused [(7, 900)]");
        assert!(read(2, &[1; 7]).is_err() && read(77, &numbers(&[1])).is_err());
    }
}
