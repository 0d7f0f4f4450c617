//! `[ship] to`: where to.

use std::path::PathBuf;

use thiserror::Error;

/// A storage, and a place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A bucket of an S3-compatible server: `s3://bucket/prefix`.
    S3 {
        /// The bucket.
        bucket: String,
        /// The place in it.
        prefix: String,
    },
    /// A bucket of Google's: `gs://bucket/prefix`.
    Gcs {
        /// The bucket.
        bucket: String,
        /// The place in it.
        prefix: String,
    },
    /// A container of Azure's: `az://container/prefix`.
    Azure {
        /// The container.
        container: String,
        /// The place in it.
        prefix: String,
    },
    /// A directory: `file:///directory`, or its path.
    Directory(PathBuf),
}

/// A text that names no storage.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TargetError {
    /// It is of no known kind.
    #[error(
        "{0:?} names no storage: write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, \
         az://CONTAINER/PREFIX, or the absolute path of a directory"
    )]
    Unknown(String),
    /// It has no bucket.
    #[error("{0:?} names no bucket: write it after the `//`")]
    NoBucket(String),
    /// A part of the place can't be.
    #[error(
        "{0:?}: {1:?} can't be a part of a name in the storage; use letters, digits, `.`, `-`, \
         `_`, `=`"
    )]
    Part(String, String),
}

impl Target {
    /// Reads what stands in the configuration.
    ///
    /// # Errors
    /// See [`TargetError`].
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let path = text.strip_prefix("file://").unwrap_or(text);
        if path.starts_with('/') {
            return Ok(Self::Directory(path.into()));
        }
        let unknown = || TargetError::Unknown(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(unknown)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '=');
        let is_part = |part: &str| {
            !part.is_empty() && part != "." && part != ".." && part.chars().all(of_name)
        };
        let parts = prefix.split('/').filter(|_| !prefix.is_empty());
        if let Some(part) =
            [bucket].into_iter().filter(|b| !b.is_empty()).chain(parts).find(|part| !is_part(part))
        {
            return Err(TargetError::Part(text.to_owned(), part.to_owned()));
        }
        let (name, prefix) = (bucket.to_owned(), prefix.to_owned());
        let target = match scheme {
            "s3" => Self::S3 { bucket: name, prefix },
            "gs" => Self::Gcs { bucket: name, prefix },
            "az" => Self::Azure { container: name, prefix },
            _ => return Err(unknown()),
        };
        if bucket.is_empty() { Err(TargetError::NoBucket(text.to_owned())) } else { Ok(target) }
    }

    /// The place in the storage that everything is below; empty: all of it.
    pub fn prefix(&self) -> &str {
        match self {
            Self::S3 { prefix, .. } | Self::Gcs { prefix, .. } | Self::Azure { prefix, .. } => {
                prefix
            }
            Self::Directory(_) => "",
        }
    }

    /// Where an object is, of its whole name in it.
    pub fn url(&self, name: &str) -> String {
        match self {
            Self::S3 { bucket, .. } => format!("s3://{bucket}/{name}"),
            Self::Gcs { bucket, .. } => format!("gs://{bucket}/{name}"),
            Self::Azure { container, .. } => format!("az://{container}/{name}"),
            Self::Directory(path) => path.join(name).to_string_lossy().into_owned(),
        }
    }

    /// What it is, for messages: `the bucket "b"`.
    pub fn place(&self) -> String {
        match self {
            Self::S3 { bucket, .. } | Self::Gcs { bucket, .. } => format!("the bucket {bucket:?}"),
            Self::Azure { container, .. } => format!("the container {container:?}"),
            Self::Directory(path) => format!("the directory {}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storages_by_url() {
        let s3 = |prefix: &str| Target::S3 { bucket: "b".into(), prefix: prefix.into() };
        for (text, target) in [
            ("s3://b", s3("")),
            ("s3://b/", s3("")),
            ("s3://b/a/c=1/", s3("a/c=1")),
            ("gs://b/x", Target::Gcs { bucket: "b".into(), prefix: "x".into() }),
            ("az://b/x", Target::Azure { container: "b".into(), prefix: "x".into() }),
            ("/srv/lake", Target::Directory("/srv/lake".into())),
            ("file:///srv/lake", Target::Directory("/srv/lake".into())),
        ] {
            assert_eq!(Target::parse(text).unwrap(), target, "{text}");
        }
        for (text, said) in [
            ("", "names no storage"),
            ("lake", "names no storage"),
            ("ftp://b", "names no storage"),
            ("file://lake", "names no storage"),
            ("s3://", "names no bucket"),
            ("s3:///x", "names no bucket"),
            ("s3://b/../c", "\"..\" can't be a part"),
            ("s3://b/a//c", "\"\" can't be a part"),
            ("s3://b c", "\"b c\" can't be a part"),
        ] {
            let error = Target::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
