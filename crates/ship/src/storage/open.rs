//! A storage of each kind, as the configuration, the credentials and the environment say.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::{HttpClient, HttpConnector};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::local::LocalFileSystem;
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, Error, ObjectStore, RetryConfig,
};
use reqwest::ClientBuilder;

use crate::config::{self, Target};
use crate::credentials;
use crate::tls;

/// The region where none is named.
const REGION: &str = "us-east-1";

pub(super) fn open(
    target: &Target,
    config: &config::Storage,
) -> Result<Arc<dyn ObjectStore>, Error> {
    Ok(match target {
        Target::Directory(path) => Arc::new(directory(path)?),
        Target::S3 { bucket, .. } => Arc::new(s3(bucket, config)?.build()?),
        Target::Gcs { bucket, .. } => Arc::new(gcs(bucket, config)?.build()?),
        Target::Azure { container, .. } => Arc::new(azure(container, config)?.build()?),
    })
}

/// A directory; made if it is not there, but not what it is in.
fn directory(path: &Path) -> Result<LocalFileSystem, Error> {
    let unusable = |source: std::io::Error| Error::Generic {
        store: "directory",
        source: format!("{}: {source}", path.display()).into(),
    };
    match fs::create_dir(path) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(unusable(e)),
        Err(_) if !path.is_dir() => {
            return Err(unusable(std::io::ErrorKind::NotADirectory.into()));
        }
        _ => {}
    }
    Ok(LocalFileSystem::new_with_prefix(path)?.with_fsync(true))
}

fn s3(bucket: &str, config: &config::Storage) -> Result<AmazonS3Builder, Error> {
    let mut builder = AmazonS3Builder::from_env();
    for of in credentials::of_storage() {
        match of.name.parse::<AmazonS3ConfigKey>() {
            Ok(key) => builder = builder.with_config(key, of.text),
            Err(_) => credentials::unknown(&of.name, "aws_access_key_id, aws_secret_access_key"),
        }
    }
    if !config.region.is_empty() {
        builder = builder.with_region(&config.region);
    } else if builder.get_config_value(&AmazonS3ConfigKey::Region).is_none() {
        builder = builder.with_region(REGION);
    }
    if !config.endpoint.is_empty() {
        builder = builder.with_endpoint(&config.endpoint);
    }
    Ok(builder
        .with_bucket_name(bucket)
        .with_virtual_hosted_style_request(config.virtual_hosted)
        .with_allow_http(config.allow_http)
        .with_retry(retry(config))
        .with_http_connector(Connector::new(config)?)
        .with_client_options(options(config)))
}

fn gcs(bucket: &str, config: &config::Storage) -> Result<GoogleCloudStorageBuilder, Error> {
    let mut builder = GoogleCloudStorageBuilder::from_env();
    for of in credentials::of_storage() {
        match of.name.parse::<GoogleConfigKey>() {
            // The credential is the file that these keys name.
            Ok(GoogleConfigKey::ServiceAccount | GoogleConfigKey::ApplicationCredentials) => {
                builder = builder.with_service_account_path(of.path.to_string_lossy());
            }
            Ok(key) => builder = builder.with_config(key, of.text),
            Err(_) => credentials::unknown(&of.name, "google_service_account"),
        }
    }
    if !config.endpoint.is_empty() {
        builder = builder.with_base_url(&config.endpoint);
    }
    Ok(builder
        .with_bucket_name(bucket)
        .with_retry(retry(config))
        .with_http_connector(Connector::new(config)?)
        .with_client_options(options(config)))
}

fn azure(container: &str, config: &config::Storage) -> Result<MicrosoftAzureBuilder, Error> {
    let mut builder = MicrosoftAzureBuilder::from_env();
    for of in credentials::of_storage() {
        match of.name.parse::<AzureConfigKey>() {
            Ok(key) => builder = builder.with_config(key, of.text),
            Err(_) => {
                credentials::unknown(
                    &of.name,
                    "azure_storage_account_name, \
                                                azure_storage_account_key",
                );
            }
        }
    }
    if !config.endpoint.is_empty() {
        builder = builder.with_endpoint(config.endpoint.clone());
    }
    Ok(builder
        .with_container_name(container)
        .with_allow_http(config.allow_http)
        .with_retry(retry(config))
        .with_http_connector(Connector::new(config)?)
        .with_client_options(options(config)))
}

/// No attempts of the library's own: flight-ship makes them, and tells.
fn retry(config: &config::Storage) -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(1),
        base: 2.0,
    };
    RetryConfig { backoff, max_retries: 0, retry_timeout: config.timeout.duration() }
}

/// What the library itself asks: whether a connection without TLS is allowed.
fn options(config: &config::Storage) -> ClientOptions {
    ClientOptions::new().with_allow_http(config.allow_http)
}

/// Makes the clients that talk to a storage, and to what gives this machine its credentials.
#[derive(Debug)]
struct Connector(config::Storage);

impl Connector {
    fn new(config: &config::Storage) -> Result<Self, Error> {
        let connector = Self(config.clone());
        // What is wrong with it is told before anything is asked.
        drop(connector.builder()?);
        Ok(connector)
    }

    fn builder(&self) -> Result<ClientBuilder, Error> {
        let Self(config) = self;
        let wrong = |what: String| Error::Generic { store: "TLS", source: what.into() };
        let builder = tls::client("storage", &config.endpoint, &config.ca_file).map_err(wrong)?;
        Ok(builder
            // As the library has it: one connection for each request that is under way.
            .http1_only()
            .connect_timeout(config.connect_timeout.duration())
            // As long as bytes come or go, nothing hangs.
            .read_timeout(config.timeout.duration()))
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient, Error> {
        // A cloud's credentials of a machine come without TLS, from the machine itself.
        let allows = options.get_config_value(&ClientConfigKey::AllowHttp);
        let https_only = allows.as_deref() != Some("true");
        let client = self.builder()?.https_only(https_only).build();
        let client = client.map_err(|e| Error::Generic { store: "HTTP", source: e.into() })?;
        Ok(HttpClient::new(client))
    }
}
