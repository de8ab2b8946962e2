//! The scenarios of interop/TLS.md with lapin, which agrees on the newest version: others cannot be asked for.

use crate::check::{Failure, Outcome, WAIT, that};
use crate::lab::Lab;
use crate::suite::Suite;
use lapin::options::{BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions};
use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Connection, ConnectionProperties};
use std::sync::Arc;
use tokio::time::timeout;

pub fn register(suite: &mut Suite) {
    suite.add("tls-1.3", |lab| there_and_back(lab, None));
    suite.add("tls-external-1.3", |lab| there_and_back(lab, Some("client")));
    suite.add("tls-expired", |lab| refused(lab, Some("expired"), "ca"));
    suite.add("tls-revoked", |lab| refused(lab, Some("revoked"), "ca"));
    suite.add("tls-foreign", |lab| refused(lab, Some("foreign"), "ca"));
    suite.add("tls-unknown-ca", |lab| refused(lab, None, "foreign_ca"));
}

async fn connect(certificate: Option<&str>, authority: &str) -> Outcome<Connection> {
    let port = std::env::var("INTEROP_TLS_PORT")?;
    let directory = std::env::var("INTEROP_TLS")?;
    let file = |name: String| std::fs::read(format!("{directory}/{name}.pem"));
    let mut query = "";
    let mut identity = None;
    if let Some(name) = certificate {
        query = "?auth_mechanism=external";
        let (pem, key) = (file(format!("{name}_certificate"))?, file(format!("{name}_key"))?);
        identity = Some(OwnedIdentity::PKCS8 { pem, key });
    }
    let cert_chain = Some(String::from_utf8(file(format!("{authority}_certificate"))?)?);
    let uri = format!("amqps://guest:guest@localhost:{port}/%2f{query}");
    let connected = Connection::connect_with_config(
        &uri,
        ConnectionProperties::default(),
        OwnedTLSConfig { identity, cert_chain },
        lapin::runtime::default_runtime()?,
    );
    Ok(timeout(WAIT, connected).await??)
}

async fn there_and_back(lab: Arc<Lab>, certificate: Option<&str>) -> Outcome {
    let connection = connect(certificate, "ca").await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let queue = lab.queue_with(&channel, "q", FieldTable::default()).await?;
    let body = b"hare".repeat(25_000);
    let (name, options) = (queue.as_str(), BasicPublishOptions::default());
    let properties = BasicProperties::default();
    channel.basic_publish("".into(), name.into(), options, &body, properties).await?.await?;
    let message = channel.basic_get(name.into(), BasicGetOptions { no_ack: true }).await?;
    that(message.is_some_and(|message| message.data == body), "another body")?;
    Ok(connection.close(200, "".into()).await?)
}

async fn refused(_: Arc<Lab>, certificate: Option<&str>, authority: &str) -> Outcome {
    match connect(certificate, authority).await {
        Ok(_) => Err(Failure::new("it is let in")),
        Err(_) => Ok(()),
    }
}
