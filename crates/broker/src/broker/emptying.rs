//! The deletion of what is in a virtual host, before it goes itself: one command that took very many queues
//! along would keep everybody else from the definitions.

use super::changes::{BY_OPERATOR, Changes};
use crate::slices::{SLICE, Slices};
use meta::{Command, Name, Vhost};

/// How far the deletion of a virtual host came that has ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfEmptied {
    /// Exchanges and queues that are gone.
    pub n_deleted: usize,
    /// Those that are left.
    pub n_left: usize,
    /// The reason.
    pub why: &'static str,
}

impl Changes<'_> {
    /// Deletes the exchanges and queues of a virtual host until few are left, which its own deletion takes
    /// along; nothing if it may not be deleted. Its connections are closed first. What was done stays done
    /// when `end` gives a reason to end: the rest can be deleted later.
    ///
    /// # Errors
    /// How far it came until then.
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
                // It may be gone meanwhile.
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

/// The deletions of all that is in a virtual host: of exchanges first, which have shards made anew.
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
