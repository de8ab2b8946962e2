//! The scenarios of interop/TLS.md with rabbitmq-stream-client, which agrees on the newest version, and logs in
//! with a password alone.

use crate::check::{self, Failure, Outcome, WAIT};
use crate::lab::{Lab, publish, read};
use crate::suite::Suite;
use rabbitmq_stream_client::Environment;
use rabbitmq_stream_client::types::OffsetSpecification;
use rabbitmq_stream_client::{TlsConfiguration, error::ClientError};
use std::sync::Arc;
use tokio::time::timeout;

pub fn register(suite: &mut Suite) {
    suite.add("tls-1.3", |lab| there_and_back(lab, None));
    suite.add("tls-mutual", |lab| there_and_back(lab, Some("client")));
    suite.add("tls-expired", |_| refused(Some("expired"), "ca"));
    suite.add("tls-revoked", |_| refused(Some("revoked"), "ca"));
    suite.add("tls-foreign", |_| refused(Some("foreign"), "ca"));
    suite.add("tls-unknown-ca", |_| refused(None, "foreign_ca"));
}

async fn connect(
    certificate: Option<&str>,
    authority: &str,
) -> Outcome<Result<Environment, ClientError>> {
    let directory = std::env::var("INTEROP_TLS")?;
    let file = |name: String| format!("{directory}/{name}.pem");
    let mut tls = TlsConfiguration::builder()
        .add_root_certificates(file(format!("{authority}_certificate")));
    if let Some(name) = certificate {
        let (certificate, key) = (file(format!("{name}_certificate")), file(format!("{name}_key")));
        tls = tls.add_client_certificates_keys(certificate, key);
    }
    let port = std::env::var("INTEROP_TLS_STREAM_PORT")?.parse()?;
    let tls = tls.build().map_err(Failure::new)?;
    let building = Environment::builder().host("localhost").port(port).tls(tls).build();
    Ok(timeout(WAIT, building).await?)
}

async fn there_and_back(lab: Arc<Lab>, certificate: Option<&str>) -> Outcome {
    let environment = connect(certificate, "ca").await??;
    let stream = lab.stream(&environment).await?;
    let bodies = ["hare".repeat(25_000)];
    publish(&environment, &stream, &bodies).await?;
    let back = read(&environment, &stream, OffsetSpecification::First, 1).await?;
    check::that(back == bodies, "another body")
}

async fn refused(certificate: Option<&str>, authority: &str) -> Outcome {
    match connect(certificate, authority).await {
        Ok(Ok(_)) => Err(Failure::new("it is let in")),
        Ok(Err(_)) | Err(_) => Ok(()),
    }
}
