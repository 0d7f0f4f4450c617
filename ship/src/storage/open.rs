//! A storage of each kind, as the configuration, the credentials and the environment say.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::local::LocalFileSystem;
use object_store::{BackoffConfig, Certificate, ClientOptions, Error, ObjectStore, RetryConfig};

use crate::config::{self, Target};
use crate::credentials;
use crate::tls;

/// The region where none is named.
const REGION: &str = "us-east-1";

pub(super) fn open(
    target: &Target,
    config: &config::Storage,
) -> Result<Arc<dyn ObjectStore>, Error> {
    tls::cryptography();
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
        .with_client_options(options(config)?))
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
        .with_client_options(options(config)?))
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
        .with_client_options(options(config)?))
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

fn options(config: &config::Storage) -> Result<ClientOptions, Error> {
    let mut options = ClientOptions::new()
        .with_allow_http(config.allow_http)
        .with_connect_timeout(config.connect_timeout.duration())
        // As long as bytes come or go, nothing hangs.
        .with_timeout_disabled()
        .with_read_timeout(config.timeout.duration())
        // Without TLS no certificates are needed, and a small system may have none.
        .with_no_system_certificates(config.endpoint.starts_with("http://"));
    if !config.ca_file.as_os_str().is_empty() {
        let wrong = |what: String| Error::Generic {
            store: "TLS",
            source: format!("[storage] ca_file: {}: {what}", config.ca_file.display()).into(),
        };
        let pem = fs::read(&config.ca_file).map_err(|e| wrong(e.to_string()))?;
        let all = Certificate::from_pem_bundle(&pem).map_err(|e| wrong(e.to_string()))?;
        if all.is_empty() {
            return Err(wrong("there is no certificate in it: give a PEM file".to_owned()));
        }
        for certificate in all {
            options = options.with_root_certificate(certificate);
        }
    }
    Ok(options)
}
