//! The protocols of clients, and the words for them in listings, events, figures and logs: a further protocol
//! is a further row.

/// The words for a protocol, and what its clients have. The words of listings and events are RabbitMQ's.
#[derive(Debug)]
pub struct ProtocolRow {
    /// Its name in the log.
    pub logged_as: &'static str,
    /// Its name where connections are listed, and in their events.
    pub listed_as: &'static str,
    /// Its name where the HTTP API lists connections.
    pub shown_as: &'static str,
    /// Its name in events of logins.
    pub told_as: &'static str,
    /// Its name in figures.
    pub counted_as: &'static str,
    /// The names of its listeners, and of those with TLS.
    pub listeners: [&'static str; 2],
    /// Its name where listeners are described.
    pub purpose: &'static str,
    /// Whether its clients have channels or sessions, on which messages are counted; else they use streams.
    pub has_channels: bool,
    /// Whether windows hold its publishers back during an alarm, so that it is read on.
    pub has_windows: bool,
}

/// The protocols: `VARIANT: COLUMNS`.
macro_rules! protocols {
    ($($(#[$meta:meta])* $kind:ident: $($column:ident: $value:expr),*;)*) => {
        /// A protocol of clients.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ProtocolKind { $($(#[$meta])* $kind,)* }

        impl ProtocolKind {
            /// All protocols.
            pub const ALL: [Self; [$(stringify!($kind)),*].len()] = [$(Self::$kind),*];

            /// The protocol's row.
            pub const fn row(self) -> &'static ProtocolRow {
                match self { $(Self::$kind => &ProtocolRow { $($column: $value),* },)* }
            }
        }
    };
}

protocols! {
    /// AMQP 0-9-1.
    #[default]
    Amqp091:
        logged_as: "AMQP", listed_as: "{0,9,1}", shown_as: "AMQP 0-9-1",
        told_as: "{'AMQP',\"0-9-1\"}", counted_as: "amqp091",
        listeners: ["amqp", "amqp/ssl"], purpose: "AMQP 0-9-1",
        has_channels: true, has_windows: false;
    /// AMQP 1.0.
    Amqp10:
        logged_as: "AMQP 1.0", listed_as: "{1,0}", shown_as: "AMQP 1-0",
        told_as: "{1,0}", counted_as: "amqp10",
        listeners: ["amqp", "amqp/ssl"], purpose: "AMQP 1.0",
        has_channels: true, has_windows: true;
    /// The stream protocol.
    Stream:
        logged_as: "stream", listed_as: "stream", shown_as: "stream",
        told_as: "{stream,\"1.0\"}", counted_as: "stream",
        listeners: ["stream", "stream/ssl"], purpose: "stream",
        has_channels: false, has_windows: false;
    /// The sessions of the HTTP API, which do what clients of AMQP 0-9-1 do.
    Direct:
        logged_as: "HTTP", listed_as: "Direct 0-9-1", shown_as: "Direct 0-9-1",
        told_as: "Direct 0-9-1", counted_as: "amqp091",
        listeners: ["http", "https"], purpose: "HTTP API",
        has_channels: true, has_windows: false;
}

impl ProtocolKind {
    /// The protocols that figures tell apart.
    pub const COUNTED: [Self; Self::ALL.len() - 1] = [Self::Amqp091, Self::Amqp10, Self::Stream];

    /// The place, in [`ProtocolKind::COUNTED`], of the protocol that figures take this one for.
    pub fn counted_at(self) -> usize {
        let counted_as = self.row().counted_as;
        Self::COUNTED.iter().take_while(|it| it.row().counted_as != counted_as).count()
    }
}
