//! The definitions as a client may see, use and change them.

use crate::broker::{Broker, ChangeError};
use crate::connections::Connection;
use confirm::LogFailed;
use control::View;
use meta::{
    Command, Done, ErrorKind as MetaKind, ExchangeKind, MetaError, Name, Permission, Resource,
    State, TopicUse, Vhost,
};
use queues::QueueRef;
use session::{Error, ErrorKind, ShortString};
use std::sync::Arc;

/// The newest definitions that a session has looked at, and what its client may do with them.
pub(super) struct Access {
    pub(super) broker: Arc<Broker>,
    pub(super) connection: Arc<Connection>,
    pub(super) view: Arc<View>,
}

impl Access {
    pub(super) const fn new(
        broker: Arc<Broker>,
        connection: Arc<Connection>,
        view: Arc<View>,
    ) -> Self {
        Self { broker, connection, view }
    }

    /// Takes the newest definitions.
    pub(super) fn refresh(&mut self) {
        if self.broker.version() != self.view.version() {
            self.view = self.broker.view();
        }
    }

    pub(super) fn vhost(&self) -> Name {
        Name::from(self.connection.identity.vhost.as_str())
    }

    /// The container of a client of AMQP 1.0.
    pub(super) fn container_id(&self) -> Option<&str> {
        self.connection.identity.login.container_id()
    }

    /// The definitions of the client's virtual host.
    pub(super) fn own_vhost(&self) -> Option<&Vhost> {
        self.view.meta.vhost(&self.connection.identity.vhost)
    }

    pub(super) fn may_impersonate(&self) -> bool {
        let user = self.view.meta.user(&self.connection.identity.user);
        user.is_some_and(|user| user.has_tag("impersonator"))
    }

    fn require(&self, permission: Permission, resource: &Resource) -> Result<(), Error> {
        let user = self.connection.identity.user.as_str();
        let allowed = self.view.meta.users().check_access(user, permission, resource);
        allowed.map_err(|error| refused(&error))
    }

    pub(super) fn require_on_queue(
        &self,
        permission: Permission,
        name: &Name,
    ) -> Result<(), Error> {
        self.require(permission, &Resource::queue(&self.vhost(), name))
    }

    pub(super) fn require_on_exchange(
        &self,
        permission: Permission,
        name: &Name,
    ) -> Result<(), Error> {
        self.require(permission, &Resource::exchange(&self.vhost(), name))
    }

    /// COMPAT: any permission will do for a passive declaration; the refusal names the
    /// one that another declaration needs.
    pub(super) fn require_any(&self, resource: &Resource) -> Result<(), Error> {
        let others = [Permission::Read, Permission::Write];
        if others.into_iter().any(|permission| self.require(permission, resource).is_ok()) {
            return Ok(());
        }
        self.require(Permission::Configure, resource)
    }

    pub(super) fn require_topic(
        &self,
        permission: Permission,
        exchange: &Name,
        key: &[u8],
    ) -> Result<(), Error> {
        let user = self.connection.identity.user.as_str();
        let exchange = Resource::exchange(&self.vhost(), exchange);
        let topic = TopicUse::of(permission, key);
        let allowed = self.view.meta.users().check_topic_access(user, &exchange, topic);
        allowed.map_err(|error| refused(&error))
    }

    pub(super) fn find_queue(&self, name: &Name) -> Result<QueueRef, Error> {
        self.view.queue(&self.vhost(), name).ok_or_else(|| self.no_queue(name))
    }

    /// As [`Access::find_queue`], and waits while the queue is being read after a start. A queue that is
    /// deleted meanwhile is not found.
    pub(super) async fn find_loaded_queue(&self, name: &Name) -> Result<QueueRef, Error> {
        let queue = self.find_queue(name)?;
        queue.loaded().await;
        if queue.is_deleted() { Err(self.no_queue(name)) } else { Ok(queue) }
    }

    fn no_queue(&self, name: &Name) -> Error {
        let queue = Resource::queue(&self.vhost(), name);
        Error::new(ErrorKind::NotFound, format!("no {queue}"))
    }

    pub(super) fn check_exclusive_access(&self, queue: &QueueRef) -> Result<(), Error> {
        queue.def().check_access(Some(self.connection.id)).map_err(|error| refused(&error))
    }

    /// Whether the client may publish there with these keys.
    pub(super) fn check_publish(&self, exchange: &[u8], keys: &[&[u8]]) -> Result<(), Error> {
        let (name, vhost) = (Name::from(&*String::from_utf8_lossy(exchange)), self.vhost());
        self.require_on_exchange(Permission::Write, &name)?;
        let Some(found) = self.view.meta.exchange(&vhost, &name) else {
            let text = format!("no {}", Resource::exchange(&vhost, &name));
            return Err(Error::new(ErrorKind::NotFound, text));
        };
        if found.internal {
            let resource = Resource::exchange(&vhost, &name);
            let text = format!("cannot publish to internal {resource}");
            return Err(Error::new(ErrorKind::InternalExchange, text));
        }
        if found.kind == ExchangeKind::Topic {
            for key in keys {
                self.require_topic(Permission::Write, &name, key)?;
            }
        }
        Ok(())
    }

    /// Changes the definitions on the client's behalf; the change is durable then.
    pub(super) async fn change(&self, command: &Command) -> Result<Done, Error> {
        Ok(self.broker.changes().apply_durably(command, &self.connection.identity.user).await?)
    }

    /// As [`Access::change`] for all changes that `plan` names, or none of them.
    pub(super) async fn change_together<E: From<MetaError>>(
        &self,
        plan: impl Fn(&State) -> Result<Vec<Command>, E>,
    ) -> Result<Result<(), E>, LogFailed> {
        self.broker.changes().apply_together(&self.connection.identity.user, plan).await
    }
}

/// A name as definitions keep it. Names that are no UTF-8 cannot exist.
pub(super) fn text(name: &ShortString) -> Result<Name, Error> {
    let text = name.as_str().ok_or_else(|| {
        Error::new(ErrorKind::SyntaxError, "names must be valid UTF-8".to_owned())
    })?;
    Ok(Name::from(text))
}

/// The error a client sees when the definitions refuse a command.
pub(crate) fn refused(error: &MetaError) -> Error {
    let kind = match error.kind() {
        MetaKind::NotFound => ErrorKind::NotFound,
        MetaKind::AccessRefused => ErrorKind::AccessRefused,
        MetaKind::ResourceLocked => ErrorKind::ResourceLocked,
        // COMPAT: the whole connection is lost.
        MetaKind::NotPermitted | MetaKind::InternalError => ErrorKind::InternalError,
        MetaKind::PreconditionFailed if matches!(error, MetaError::QueueLimit { .. }) => {
            ErrorKind::QueueLimit
        }
        MetaKind::PreconditionFailed if matches!(error, MetaError::UnknownExchangeType(_)) => {
            ErrorKind::UnknownType
        }
        MetaKind::AlreadyExists
        | MetaKind::PreconditionFailed
        | MetaKind::InUse
        | MetaKind::NotAllowed
        | MetaKind::Invalid => ErrorKind::PreconditionFailed,
    };
    Error::new(kind, error.to_string())
}

impl From<ChangeError> for Error {
    fn from(not_changed: ChangeError) -> Self {
        match not_changed {
            ChangeError::Refused(error) => refused(&error),
            ChangeError::LogFailed => LogFailed.into(),
        }
    }
}
