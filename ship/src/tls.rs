//! Clients of storages and collectors alike.

use std::fs;
use std::path::Path;
use std::sync::Once;

use reqwest::tls::Certificate;
use reqwest::{Client, ClientBuilder, redirect};

/// The cryptography is ring's: to be called before anything that may talk TLS is made.
fn cryptography() {
    static ONCE: Once = Once::new();
    // Another one that was installed before does as well.
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}

/// A client of one server, which trusts the certificates in a file, if one is named, beside the
/// system's. It follows no redirects: what the credentials are for is this server alone. `section`:
/// of the configuration.
///
/// # Errors
/// What is wrong with the file.
pub(crate) fn client(
    section: &str,
    endpoint: &str,
    ca_file: &Path,
) -> Result<ClientBuilder, String> {
    cryptography();
    let builder = Client::builder()
        .user_agent(concat!("flight-ship/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none());
    if endpoint.starts_with("http://") {
        // Without TLS no certificates are needed, and a small system may have none.
        return Ok(builder.tls_certs_only([]));
    }
    if ca_file.as_os_str().is_empty() {
        return Ok(builder);
    }
    let wrong = |what: String| format!("[{section}] ca_file: {}: {what}", ca_file.display());
    let pem = fs::read(ca_file).map_err(|e| wrong(e.to_string()))?;
    let all = Certificate::from_pem_bundle(&pem).map_err(|e| wrong(e.to_string()))?;
    if all.is_empty() {
        return Err(wrong("there is no certificate in it: give a PEM file".to_owned()));
    }
    Ok(builder.tls_certs_merge(all))
}
