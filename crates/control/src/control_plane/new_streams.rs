//! Streams that are declared together: their files are made before, one after the other, while nobody waits
//! for the definitions.

use super::{ControlPlane, Definitions};
use meta::{Command, Done, MetaError, Name, QueueDeclare, QueueDef, QueueKind, State};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use stream::{Stream, StreamService};

/// Streams that commands are about to declare. Those that were made are unmade if they are not.
pub(super) struct NewStreams<'p> {
    streams: &'p StreamService,
    wanted: VecDeque<Arc<QueueDef>>,
    definitions: State,
    made: BTreeMap<(Name, Name), Arc<Stream>>,
}

impl<'p> NewStreams<'p> {
    /// The streams that these commands declare; none of them if one of the commands would be refused now.
    pub(super) fn of(control_plane: &'p ControlPlane, commands: &[Command]) -> Self {
        let definitions = control_plane.view().meta.clone();
        let mut draft = definitions.clone();
        let mut wanted = VecDeque::new();
        // Where replicas agree on definitions, the files are made once they have.
        let is_lone = control_plane.replication().is_none();
        for command in commands.iter().filter(|_| is_lone) {
            let command = control_plane.parts.limits.types.complete(&draft, command);
            let is_refused = draft.check_room(&control_plane.parts.limits, &command).is_err();
            let has_files = matches!(&*command, Command::DeclareQueue(it) if it.id.is_some());
            match draft.apply(control_plane.storage().time.ticked(), &command) {
                Ok(outcome) if !is_refused => {
                    if let Done::QueueCreated(def) = outcome.done
                        && def.kind == QueueKind::Stream
                        && control_plane.parts.homes.is_here(&draft, &def)
                        && !has_files
                    {
                        wanted.push_back(def);
                    }
                }
                Ok(_) | Err(_) => {
                    wanted.clear();
                    break;
                }
            }
        }
        let mut now = stdx::lock(&control_plane.definitions);
        for def in &mut wanted {
            *def = Arc::new(QueueDef { id: meta::take_queue_id(&mut now.meta), ..(**def).clone() });
        }
        drop(now);
        Self { streams: &control_plane.parts.streams, wanted, definitions, made: BTreeMap::new() }
    }

    /// Makes one; false if there is none left to be made.
    ///
    /// # Errors
    /// The disk's.
    pub(super) fn make_next(&mut self) -> Result<bool, MetaError> {
        let Some(def) = self.wanted.pop_front() else { return Ok(false) };
        let settings = meta::stream_settings(&self.definitions, &def);
        let stream = self.streams.make(&def, &settings).map_err(|error| {
            let (object, reason) = (def.resource().to_string(), error.to_string());
            MetaError::NoFiles { object, reason }
        })?;
        self.made.insert((def.vhost.clone(), def.name.clone()), stream);
        Ok(true)
    }

    pub(super) fn take_made(&mut self) -> BTreeMap<(Name, Name), Arc<Stream>> {
        std::mem::take(&mut self.made)
    }
}

impl Drop for NewStreams<'_> {
    fn drop(&mut self) {
        self.made.values().for_each(|stream| self.streams.unmake(stream));
    }
}

/// The stream whose files were made for this declaration, which gets its id.
pub(super) fn take_premade<'c>(
    definitions: &mut Definitions,
    command: Cow<'c, Command>,
) -> (Cow<'c, Command>, Option<Arc<Stream>>) {
    let Command::DeclareQueue(declare) = &*command else { return (command, None) };
    let key = (declare.vhost.clone(), declare.name.clone());
    let is_like = |stream: &Arc<Stream>| stream.def().arguments == declare.arguments;
    match definitions.premade.remove(&key) {
        Some(stream) if is_like(&stream) => {
            let id = Some(stream.id());
            (
                Cow::Owned(Command::DeclareQueue(QueueDeclare { id, ..declare.clone() })),
                Some(stream),
            )
        }
        Some(stream) => {
            definitions.premade.insert(key, stream);
            (command, None)
        }
        None => (command, None),
    }
}
