//! The deletion of the content of a virtual host before the virtual host itself: a single command that
//! deleted very many queues would keep everybody else from the definitions.

use super::changes::{BY_OPERATOR, Changes};
use control::slices::{SLICE, Slices};
use meta::{Command, Name, Vhost};

/// The progress of a virtual host's deletion that was stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfEmptied {
    /// Exchanges and queues that were deleted.
    pub n_deleted: usize,
    /// Exchanges and queues that are left.
    pub n_left: usize,
    /// The reason.
    pub why: &'static str,
}

impl Changes<'_> {
    /// Deletes the exchanges and queues of a virtual host until few are left, which the virtual host's own
    /// deletion removes; nothing if the virtual host is protected. Its connections are closed first.
    /// Deletions stay done when `end` gives a reason to stop: the rest can be deleted later.
    ///
    /// # Errors
    /// The progress until `end` gave a reason to stop.
    pub async fn empty_vhost(
        &self,
        name: &Name,
        end: &(dyn Fn() -> Option<&'static str> + Sync),
    ) -> Result<(), HalfEmptied> {
        let (mut n_deleted, mut slices) = (0, Slices::default());
        loop {
            let view = self.0.view();
            let vhost = view.meta.vhost(name).filter(|it| !it.metadata.protected_from_deletion);
            let commands = vhost.map(deletions).unwrap_or_default();
            drop(view);
            if commands.len() <= SLICE {
                return Ok(());
            }
            let reason = format!("vhost '{name}' is deleted");
            self.0.connections.kick_where(&reason, |one| one.vhost == **name);
            let (n_all, n_before) = (commands.len(), n_deleted);
            for (n, command) in commands.iter().enumerate() {
                if let Some(why) = end() {
                    return Err(HalfEmptied { n_deleted, n_left: n_all - n, why });
                }
                // The exchange or queue may be gone meanwhile.
                if self.apply_in_slices(command, BY_OPERATOR, &mut slices).await.is_ok() {
                    n_deleted += 1;
                }
                slices.did(1).await;
            }
            if n_deleted == n_before {
                return Ok(());
            }
        }
    }
}

/// Lists the deletions of a virtual host's content: exchanges first, since they would make deleted shards
/// anew.
fn deletions(vhost: &Vhost) -> Vec<Command> {
    let exchange = |name: &Name| Command::DeleteExchange {
        vhost: vhost.name.clone(),
        name: name.clone(),
        if_unused: false,
    };
    let exchanges =
        vhost.exchanges().filter(|it| !it.is_predeclared()).map(|it| exchange(&it.name));
    exchanges.chain(vhost.queues().map(|it| Command::DeleteQueueById { id: it.id })).collect()
}
