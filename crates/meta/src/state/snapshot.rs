//! The state as one record: the commands that make it again.
//!
//! ```text
//! snapshot = version:u8 next_durable_queue:u64 next_transient_queue:u64 (len:u32 command)*
//! ```
//! The order is: nodes, if there are any; virtual hosts with their content, limits after it; then users;
//! global parameters.

use routing::{Binding, Destination, Name, QueueId};
use stdx::record::{Reader, RecordError, put_bytes, put_u8, put_u64};
use thiserror::Error;

use super::State;
use super::resources::{exchange_redeclaration, redeclaration};
use crate::command::{BindingSpec, Command};
use crate::exchange::{NODE_EXCHANGES, node_exchange};
use crate::legacy::legacy_queue_version;
use crate::nodes::{ClusterNode, ClusterNodes};
use crate::outcome::Misfit;
use crate::policy::PolicyScope;
use crate::queue::QueueDef;
use crate::user::{User, UserLimits};
use crate::vhost::Vhost;
use crate::vhost_metadata::VhostLimits;

/// The version written in front.
const VERSION: u8 = 1;

/// The extent of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotOf {
    /// Objects that survive a restart.
    Durable,
    /// All objects, transient and exclusive ones too.
    Everything,
}

/// The error of a snapshot that cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RestoreError {
    /// The snapshot is cut, of a later version or damaged.
    #[error("damaged metadata snapshot: {0}")]
    Record(#[from] RecordError),
    /// Its content contradicts itself.
    #[error("contradictory metadata snapshot: {0}")]
    Misfit(#[from] Misfit),
}

impl State {
    /// Appends the state as one record.
    pub fn snapshot(&self, what: SnapshotOf, out: &mut Vec<u8>) {
        put_u8(out, VERSION);
        put_u64(out, self.queues().ids().next_durable());
        // A restart ends all transient queues, and with them the use of their ids.
        let next_transient = self.queues().ids().next_transient();
        put_u64(out, if what == SnapshotOf::Everything { next_transient } else { 0 });
        let mut scratch = Vec::new();
        let mut put = |command: Command| {
            scratch.clear();
            command.encode(&mut scratch);
            put_bytes(out, &scratch);
        };
        Commands { state: self, extent: what, put: &mut put }.put_all();
    }

    /// The state a snapshot was taken of.
    ///
    /// # Errors
    /// A snapshot that is damaged.
    pub fn restore(record: &[u8]) -> Result<Self, RestoreError> {
        let mut reader = Reader::new(record);
        if reader.u8()? != VERSION {
            return Err(RecordError::Invalid.into());
        }
        let mut state = Self::new();
        let (next_durable, next_transient) = (reader.u64()?, reader.u64()?);
        if !QueueDef::is_durable_id(QueueId(next_durable)) {
            return Err(RecordError::Invalid.into());
        }
        while !reader.is_empty() {
            let encoded = reader.bytes()?;
            if legacy_queue_version(encoded).is_some() {
                continue;
            }
            let command = Command::decode(encoded)?;
            state.make_source_of(&command)?;
            state.replay(&command)?;
        }
        state.resources.queues.restore_ids(next_durable, next_transient);
        Ok(state)
    }

    /// Snapshots used to hold what is bound to the node's own exchanges, and not these themselves.
    fn make_source_of(&mut self, command: &Command) -> Result<(), Misfit> {
        if let Command::Bind(BindingSpec { vhost, source, .. }) = command
            && NODE_EXCHANGES.contains(&source.as_str())
            && self.exchange(vhost, source).is_none()
        {
            let declare = Command::DeclareExchange(node_exchange(vhost.clone(), source));
            return self.replay(&declare).map(drop);
        }
        Ok(())
    }
}

/// The commands that make a state out of an empty one, handed over one by one.
struct Commands<'a> {
    state: &'a State,
    extent: SnapshotOf,
    put: &'a mut dyn FnMut(Command),
}

impl Commands<'_> {
    fn put_all(&mut self) {
        let state = self.state;
        put_nodes(state.nodes(), self.put);
        for vhost in state.vhosts() {
            let (name, metadata) = (vhost.name.clone(), vhost.metadata.clone());
            (self.put)(Command::CreateVhost { vhost: name, metadata });
            self.put_resources(vhost);
            settings(vhost, self.put);
        }
        for user in state.users().iter() {
            access(user, self.put);
        }
        for (name, value) in state.global_parameters().iter() {
            (self.put)(Command::SetGlobalParameter { name: name.clone(), value: value.clone() });
        }
    }

    fn put_resources(&mut self, vhost: &Vhost) {
        let all = self.extent == SnapshotOf::Everything;
        for exchange in vhost.exchanges() {
            if !exchange.comes_with_vhosts() && (all || exchange.durable) {
                (self.put)(exchange_redeclaration(&vhost.name, exchange));
            }
        }
        for queue in vhost.queues().filter(|queue| all || queue.durable) {
            (self.put)(redeclaration(queue));
        }
        for binding in vhost.routes.bindings() {
            if all || vhost.is_durable(binding, self.is_to_durable_queue(binding)) {
                let spec = self.spec(&vhost.name, binding);
                (self.put)(Command::Bind(spec));
            }
        }
    }

    fn is_to_durable_queue(&self, binding: &Binding) -> bool {
        match &binding.destination {
            Destination::Queue(id) => self.state.queue_by_id(*id).is_some_and(|it| it.durable),
            Destination::Exchange(_) => false,
        }
    }

    fn spec(&self, vhost: &Name, binding: &Binding) -> BindingSpec {
        let view = self.state.queues().view(binding);
        let view = view.expect("a queue takes its bindings along when it goes");
        BindingSpec {
            vhost: vhost.clone(),
            source: view.source,
            destination: view.destination,
            key: view.key,
            arguments: view.arguments,
            by: None,
        }
    }
}

/// Puts nodes in front of queues: what is said of nodes deletes queues.
fn put_nodes(nodes: &ClusterNodes, put: &mut dyn FnMut(Command)) {
    for node in nodes.iter() {
        let ClusterNode { no, name, address, token, boot, is_drained } = node.clone();
        put(Command::NodeJoined { no: Some(no), name, address, token });
        if boot > 0 {
            put(Command::NodeBooted { no, boot });
        }
        if is_drained {
            put(Command::NodeDrained { no, on: true });
        }
    }
    let last = nodes.last_number();
    if last > 0 && nodes.get(last).is_none() {
        put(Command::NodeForgotten { no: last });
    }
    if nodes.level() > 0 {
        put(Command::Level { n: nodes.level() });
    }
}

fn settings(vhost: &Vhost, put: &mut dyn FnMut(Command)) {
    let name = || vhost.name.clone();
    // After the queues: there may be more than a limit set later allows.
    if vhost.limits != VhostLimits::default() {
        put(Command::SetVhostLimits { vhost: name(), limits: vhost.limits });
    }
    for scope in [PolicyScope::User, PolicyScope::Operator] {
        for policy in vhost.policies.iter(scope) {
            put(Command::SetPolicy { scope, vhost: name(), policy: policy.spec.clone() });
        }
    }
    for it in vhost.parameters.iter() {
        put(Command::SetParameter {
            vhost: name(),
            component: it.component.clone(),
            name: it.name.clone(),
            value: it.value.clone(),
        });
    }
}

fn access(user: &User, put: &mut dyn FnMut(Command)) {
    let name = || user.name.clone();
    put(Command::CreateUser {
        user: name(),
        password: user.password.clone(),
        tags: user.tags.to_vec(),
    });
    if user.limits != UserLimits::default() {
        put(Command::SetUserLimits { user: name(), limits: user.limits });
    }
    for (vhost, permissions) in user.permissions() {
        put(Command::SetPermissions {
            user: name(),
            vhost: vhost.clone(),
            configure: permissions.configure.as_str().to_owned(),
            write: permissions.write.as_str().to_owned(),
            read: permissions.read.as_str().to_owned(),
        });
    }
    for it in user.topic_permissions() {
        put(Command::SetTopicPermissions {
            user: name(),
            vhost: it.vhost.clone(),
            exchange: it.exchange.clone(),
            write: it.permissions.write().to_owned(),
            read: it.permissions.read().to_owned(),
        });
    }
}
