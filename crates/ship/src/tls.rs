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

#[cfg(test)]
mod tests {
    use std::io::{self, Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A server that sends everybody elsewhere gets credentials for itself alone.
    #[test]
    fn no_redirect_is_followed() {
        let elsewhere = TcpListener::bind("127.0.0.1:0").expect("a server");
        elsewhere.set_nonblocking(true).expect("a socket");
        let server = TcpListener::bind("127.0.0.1:0").expect("a server");
        let endpoint = format!("http://{}/", server.local_addr().expect("bound"));
        let location = format!("http://{}/", elsewhere.local_addr().expect("bound"));
        let answer = format!(
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
        );
        let serving = thread::spawn(move || {
            let (mut stream, _) = server.accept().expect("a client");
            let mut request = [0; 4096];
            let length = stream.read(&mut request).expect("a request");
            stream.write_all(answer.as_bytes()).expect("it reads");
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        let client = client("store", &endpoint, Path::new("")).expect("a client");
        let client = client.build().expect("a client");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let asked = async {
            let request = client.get(&endpoint).header("x-amz-security-token", "secret");
            request.send().await.expect("an answer").status()
        };
        assert_eq!(runtime.expect("a runtime").block_on(asked), 307);
        assert!(serving.join().expect("it ends").contains("secret"), "the premise");
        // Whoever follows it has connected before it has an answer.
        let nobody = elsewhere.accept().expect_err("nobody comes");
        assert_eq!(nobody.kind(), io::ErrorKind::WouldBlock);
    }
}
