//! The state that a queue's lock guards.

use super::confirms::Confirms;
use super::letters::Letters;
use super::members::Members;
use super::work::Work;
use crate::command_log::CommandLog;
use crate::lazy_machine::LazyMachine;
use crate::settings::machine_settings;
use content::{Content, Paging, Services};
use delivery::{QueueAlarms, dead_letter_to};
use meta::QueueSettings;
use queue::machine::Settings;

/// The state under a queue's lock.
pub(crate) struct QueueState {
    pub(crate) machine: LazyMachine,
    pub(crate) terms: Terms,
    pub(crate) log: CommandLog,
    pub(crate) content: Content,
    pub(crate) paging: Paging,
    pub(crate) members: Members,
    pub(crate) letters: Letters,
    pub(crate) alarms: QueueAlarms,
    /// Lists of a queue in use, between its turns.
    pub(crate) work: Option<Box<Work>>,
    pub(crate) publishing: Publishing,
    /// Position below which messages may have been delivered by an earlier life, whatever the machine knows.
    pub(crate) seen_below: u64,
    pub(crate) is_deleted: bool,
}

/// The node as the publisher of all messages, and the publishers it tells of them.
#[derive(Default)]
pub(crate) struct Publishing {
    /// Number of the last message put in, as [`NODE`](super::publish::NODE) counts them.
    pub(crate) last_number: Option<u64>,
    /// Publishers that wait, of a queue that has ever confirmed upon acknowledgements.
    pub(crate) confirms: Option<Box<Confirms>>,
}

/// The settings that definitions ask for.
pub(crate) struct Terms {
    pub(crate) settings: Settings,
    pub(crate) consumer_timeout_ms: Option<u64>,
    /// Epoch of the definitions that these settings are from.
    pub(crate) epoch: u64,
}

stdx::debug_of!(|it: QueueState| machine = it.machine);

impl QueueState {
    /// The state of a new queue.
    pub(crate) fn new(settings: &QueueSettings, services: &Services) -> Self {
        let machine = LazyMachine::unused(services.storage.time.unix_ms());
        Self::of(machine, CommandLog::default(), settings, services.number_base)
    }

    pub(crate) fn of(
        machine: LazyMachine,
        log: CommandLog,
        settings: &QueueSettings,
        number_base: u64,
    ) -> Self {
        let mut state = Self {
            machine,
            terms: Terms {
                settings: machine_settings(settings),
                consumer_timeout_ms: settings.consumer_timeout_ms,
                epoch: 0,
            },
            log,
            content: Content::beside_commands(),
            paging: Paging::default(),
            members: Members::numbered_from(number_base),
            letters: Letters::default(),
            alarms: QueueAlarms::default(),
            work: None,
            publishing: Publishing::default(),
            seen_below: 0,
            is_deleted: false,
        };
        state.letters.set_to(dead_letter_to(settings), state.machine.facts());
        state
    }

    /// Whether nobody uses the queue, and it has no messages.
    pub(crate) fn is_idle(&self) -> bool {
        self.members.is_empty() && self.content.backlog.stored_bytes() == 0
    }
}
