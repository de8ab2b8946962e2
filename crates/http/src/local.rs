//! The control socket: the same routes for operators of this machine. That they can open it lets them do
//! everything, as RabbitMQ's tools may that know its cookie.

use crate::Api;
use crate::connection::{Local, Peer};
use crate::server::router;
use crate::settings::Limits;
use axum::Extension;
use mgmt::ControlSocket;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Serves the control socket until `until` resolves; then those that are being answered are finished.
///
/// # Errors
/// The system's.
pub async fn serve_local(
    ControlSocket { listener, file }: ControlSocket,
    api: Arc<Api>,
    until: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    let here = Peer { address, is_encrypted: false, limits: Limits::default() };
    let router = router(api, "").layer(Extension(here));
    let router = router.into_make_service_with_connect_info::<Local>();
    let served = axum::serve(listener, router).with_graceful_shutdown(until).await;
    drop(file);
    served
}

#[cfg(test)]
mod tests;
