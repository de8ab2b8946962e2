//! The settings of connections with other nodes.

use tls::{Options, Verify};

/// The listener of other nodes, as far as something is said of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Distribution {
    pub(crate) port: Option<u16>,
    /// An IP address; all where it is absent.
    pub(crate) interface: Option<String>,
    /// The certificate that is shown to other nodes, and the authorities of theirs.
    pub(crate) tls: Option<Options>,
}

impl Distribution {
    /// The settings of TLS, to be changed: both sides show certificates.
    pub(super) fn tls(&mut self) -> &mut Options {
        let new = || Options { verify: Verify::Always, ..Options::new("cluster.tls") };
        self.tls.get_or_insert_with(new)
    }
}
