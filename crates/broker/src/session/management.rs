//! Requests of clients that manage: queues and bindings, described in full.

use super::Handled;
use super::access::text;
use super::client::Client;
use super::definitions::{DefinitionRequests, queue_refused};
use meta::{BindingSpec, Command, Name, Resource};
use queues::QueueRef;
use routing::{Binding, Destination};
use session::{
    BindingEnds, BindingReport, BindingTarget, Control, Error, ErrorKind, Event, ExchangeBinding,
    ManagementEvent, ManagementOp, MethodTag, QueueBinding, QueueDeclaration, QueueReport,
    ShortString, Table,
};
use std::sync::Arc;

/// The most bytes of names, keys and arguments in one answer about bindings.
const BINDINGS_BYTES_MAX: usize = 1024 * 1024;

/// Requests of a client that manages.
pub(super) struct ManagementRequests<'c>(pub(super) &'c mut Client);

impl ManagementRequests<'_> {
    pub(super) async fn act(
        &mut self,
        control: &Control,
        op: &ManagementOp,
    ) -> Result<Handled, Error> {
        match op {
            ManagementOp::DeclareQueue(declare) => self.declare_queue(control, declare).await,
            ManagementOp::DescribeQueue(queue) => self.describe_queue(control.origin, queue).await,
            ManagementOp::FindBindings(ends) => self.find_bindings(control, ends).await,
            ManagementOp::RemoveBinding { ends, arguments_hash } => {
                self.remove_binding(control, ends, arguments_hash).await
            }
        }
    }

    async fn declare_queue(
        &mut self,
        control: &Control,
        declare: &QueueDeclaration,
    ) -> Result<Handled, Error> {
        let declared = DefinitionRequests(self.0).declare_or_find(control.channel, declare).await?;
        let queue = match declared.queue {
            Some(queue) => queue,
            // The queue went as soon as it was declared.
            None => self.0.access.find_queue(&declared.name)?,
        };
        self.report(control.origin, declared.is_new, &queue).await
    }

    /// COMPAT: any permission will do, as for a passive declaration.
    async fn describe_queue(
        &mut self,
        origin: MethodTag,
        queue: &ShortString,
    ) -> Result<Handled, Error> {
        let name = text(queue)?;
        if self.0.is_live_reply_queue(queue.as_bytes()) {
            return self.report_replies(origin, &name);
        }
        let resource = Resource::queue(&self.0.access.vhost(), &name);
        self.0.access.require_any(&resource)?;
        let Ok(queue) = self.0.access.find_loaded_queue(&name).await else {
            return Err(Error::new(ErrorKind::NotFound, format!("{resource} not found")));
        };
        self.report(origin, false, &queue).await
    }

    /// The description of a queue of direct replies: its consumer is there.
    fn report_replies(&self, origin: MethodTag, name: &Name) -> Result<Handled, Error> {
        let queue = QueueReport {
            name,
            kind: "rabbit_volatile_queue",
            durable: false,
            auto_delete: true,
            exclusive: true,
            arguments: &Table::default(),
            n_ready: 0,
            n_consumers: 1,
        };
        let is_new = false;
        self.0.turn.answer(Event::Management(ManagementEvent::Queue { origin, is_new, queue }))
    }

    async fn report(
        &self,
        origin: MethodTag,
        is_new: bool,
        queue: &QueueRef,
    ) -> Result<Handled, Error> {
        let def = queue.def();
        let stat = queue.stat().await.map_err(|refused| queue_refused(refused, def))?;
        // COMPAT: an exclusive queue is told as durable, the default of the requests that make it; clients of
        // other protocols have theirs from declarations without it.
        let is_own = def.exclusive_owner == Some(self.0.access.connection.id);
        let queue = QueueReport {
            name: &def.name,
            kind: def.kind.as_str(),
            durable: def.durable || is_own,
            auto_delete: def.auto_delete,
            exclusive: def.exclusive_owner.is_some(),
            arguments: &def.arguments,
            n_ready: stat.n_ready,
            n_consumers: stat.n_consumers,
        };
        self.0.turn.answer(Event::Management(ManagementEvent::Queue { origin, is_new, queue }))
    }

    /// COMPAT: bindings are shown to those who may make and remove them.
    async fn find_bindings(
        &mut self,
        control: &Control,
        ends: &BindingEnds,
    ) -> Result<Handled, Error> {
        self.binding(control, ends, Table::default())?;
        let origin = control.origin;
        let found = self.bindings(ends).await?;
        let mut n_bytes = 0;
        let mut reports = Vec::new();
        for binding in &found {
            let encoded = binding.arguments.to_bytes();
            n_bytes += ends.source.len() + ends.routing_key.len() + encoded.len();
            if n_bytes > BINDINGS_BYTES_MAX {
                let text =
                    format!("more bindings than an answer takes ({BINDINGS_BYTES_MAX} bytes)");
                return Err(Error::new(ErrorKind::ResourceError, text));
            }
            let arguments_hash = arguments_hash(&binding.arguments);
            reports.push(BindingReport { ends, arguments: &binding.arguments, arguments_hash });
        }
        let bindings = &*reports;
        self.0.turn.answer(Event::Management(ManagementEvent::Bindings { origin, bindings }))
    }

    /// The bindings of a key, whatever their arguments.
    async fn bindings(&mut self, ends: &BindingEnds) -> Result<Vec<Arc<Binding>>, Error> {
        let source = text(&ends.source)?;
        let access = &self.0.access;
        let Some(vhost) = access.own_vhost() else { return Ok(Vec::new()) };
        let destination = match &ends.destination {
            BindingTarget::Queue(queue) => match vhost.queue(&text(queue)?) {
                Some(queue) => Destination::Queue(queue.id),
                None => return Ok(Vec::new()),
            },
            BindingTarget::Exchange(exchange) => Destination::Exchange(text(exchange)?),
        };
        let (mut found, mut n_seen) = (Vec::new(), 0);
        for binding in vhost.routes.bindings_to(&destination) {
            n_seen += 1;
            if binding.source == source && binding.key.as_bytes() == ends.routing_key.as_bytes() {
                found.push(Arc::clone(binding));
            }
        }
        self.0.turn.did_steps(n_seen).await;
        Ok(found)
    }

    async fn remove_binding(
        &mut self,
        control: &Control,
        ends: &BindingEnds,
        hash: &str,
    ) -> Result<Handled, Error> {
        let found = self.bindings(ends).await?;
        let found = found.iter().find(|binding| arguments_hash(&binding.arguments) == hash);
        let arguments = found.map(|binding| binding.arguments.clone()).unwrap_or_default();
        let binding = self.binding(control, ends, arguments)?;
        if found.is_some() {
            self.0.access.change(&Command::Unbind(binding)).await?;
        }
        Ok(Handled::Done)
    }

    /// The binding of these ends, which the client may make and remove.
    fn binding(
        &mut self,
        control: &Control,
        ends: &BindingEnds,
        arguments: Table,
    ) -> Result<BindingSpec, Error> {
        let BindingEnds { source, destination, routing_key } = ends.clone();
        let requests = DefinitionRequests(self.0);
        match destination {
            BindingTarget::Queue(queue) => {
                let binding = QueueBinding { queue, exchange: source, routing_key, arguments };
                requests.binding_of_queue(control.channel, &binding, "unbind")
            }
            BindingTarget::Exchange(destination) => {
                let binding = ExchangeBinding { destination, source, routing_key, arguments };
                requests.binding_of_exchange(&binding)
            }
        }
    }
}

/// FNV-1a of the arguments; nothing of none.
fn arguments_hash(arguments: &Table) -> String {
    if arguments.is_empty() {
        return String::new();
    }
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = arguments.to_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    format!("{hash:016x}")
}
