//! The events of a client that the model says something about.

use session::{ChannelId, LinkId, Position};
use testing::outbox::{self, Transcript, What};

/// A message as it is given to a client.
pub(crate) struct Given {
    pub(crate) link: LinkId,
    pub(crate) position: Position,
    /// Its number.
    pub(crate) id: u64,
    /// It is a dead letter.
    pub(crate) is_letter: bool,
    /// It is settled by being written.
    pub(crate) by_write: bool,
}

impl Given {
    fn of(given: &outbox::Given) -> Self {
        Self {
            link: LinkId(given.link),
            position: given.position,
            id: given.content.id().unwrap(),
            is_letter: given.content.properties != [0, 0],
            by_write: given.by_write,
        }
    }
}

/// Everything a client was told since it was last asked.
#[derive(Default)]
pub(crate) struct Heard {
    /// By channel: the publishes from one number to another, and whether they are confirmed.
    pub(crate) answers: Vec<(ChannelId, u64, u64, bool)>,
    pub(crate) given: Vec<Given>,
    pub(crate) failed: Vec<ChannelId>,
    /// The link of the consumer it asked for.
    pub(crate) consuming: Option<LinkId>,
}

impl Heard {
    pub(crate) fn take(transcript: &Transcript) -> Self {
        let mut heard = Self::default();
        for (_, what) in std::mem::take(&mut *transcript.lock().unwrap()) {
            match what {
                What::Deliver { given, .. } | What::Got { given, .. } => {
                    heard.given.push(Given::of(&given));
                }
                What::Consuming { link, .. } => heard.consuming = Some(LinkId(link)),
                What::ChannelFailed { channel, .. } => heard.failed.push(ChannelId(channel)),
                What::ConnectionFailed { text, .. } => panic!("a client is thrown out: {text}"),
                What::Confirm { channel, first, last, answer } => {
                    heard.answers.push((ChannelId(channel), first, last, answer.is_ack()));
                }
                _ => {}
            }
        }
        heard
    }
}
