//! What is wrong with a storage, in words that say what to do.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;

use crate::config::Target;
use crate::files;

/// What is wrong, as far as it makes a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// There is no such bucket.
    Bucket,
    /// Who asks is not known, or there are no credentials.
    Credentials,
    /// Who asks may not do that.
    Denied,
    /// This machine's clock is wrong.
    Clock,
    /// TLS.
    Tls,
    /// No connection.
    Unreachable,
    /// The storage says nothing, or says that it can't now.
    Busy,
    /// The storage is full.
    Full,
    /// There is no such object.
    Missing,
    /// A file of flight-ship's own.
    File,
    /// Anything else.
    Other,
}

impl Kind {
    /// Its name, in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bucket => "bucket",
            Self::Credentials => "credentials",
            Self::Denied => "denied",
            Self::Clock => "clock",
            Self::Tls => "tls",
            Self::Unreachable => "unreachable",
            Self::Busy => "busy",
            Self::Full => "full",
            Self::Missing => "missing",
            Self::File => "file",
            Self::Other => "other",
        }
    }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Of what kind it is.
    pub kind: Kind,
    /// What it is, and what to do.
    pub message: String,
    /// No connection was made, so nothing was sent.
    pub unsent: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Problem {}

impl Problem {
    fn new(kind: Kind, message: String) -> Self {
        Self { kind, message, unsent: false }
    }

    /// A file of flight-ship's own can't be read.
    pub fn of_file(path: &Path, error: &io::Error) -> Self {
        Self { unsent: true, ..Self::new(Kind::File, format!("{}: {error}", path.display())) }
    }
}

/// What a storage's error means.
pub(super) fn explain(error: &object_store::Error, target: &Target, place: &str) -> Problem {
    let chain = chain(error);
    let said = chain.join(": ");
    if let Target::Directory(path) = target {
        return of_directory(error, path, &said);
    }
    let problem = Problem::new;
    if let Some(problem) = of_code(target, place, &said) {
        return problem;
    }
    if let Some(problem) = of_connection(("storage", place), &said) {
        return problem;
    }
    let short = short(&chain);
    match error {
        object_store::Error::Unauthenticated { .. } => problem(
            Kind::Credentials,
            format!("{place}: the credentials are not accepted ({short}): {CREDENTIALS}"),
        ),
        object_store::Error::PermissionDenied { .. } => problem(
            Kind::Denied,
            format!("{place}: the credentials may not do that ({short}): {RIGHTS}"),
        ),
        object_store::Error::NotFound { path, .. } => {
            problem(Kind::Missing, format!("{place}: there is no {path}"))
        }
        _ => problem(Kind::Other, format!("{place}: {short}")),
    }
}

/// What to do about credentials.
const CREDENTIALS: &str = "give flight-ship others (docs/ship.md, Permissions)";
/// That there are none.
const NO_CREDENTIALS: &str = "there are no credentials";
/// What to do about rights.
const RIGHTS: &str = "allow them to write objects below the prefix (docs/ship.md, Permissions)";

/// What the storages' own codes of errors mean.
fn of_code(target: &Target, place: &str, said: &str) -> Option<Problem> {
    let has = |codes: &[&str]| codes.iter().any(|code| said.contains(code));
    let what = target.place();
    let (kind, message) =
        if has(&["NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist"]) {
            (Kind::Bucket, format!("{place} does not exist: make it, or correct [ship] to"))
        } else if has(&["RequestTimeTooSkewed", "RequestExpired", "RequestTimeSkewed"]) {
            let theirs = between(said, "<ServerTime>", "</ServerTime>");
            let theirs = theirs.map(|time| format!(" ({time})")).unwrap_or_default();
            (
                Kind::Clock,
                format!(
                    "{place}: this machine's clock is too far from the storage's{theirs}: set it \
                 (timedatectl status)"
                ),
            )
        } else if has(&["InvalidAccessKeyId"]) {
            (
                Kind::Credentials,
                format!("{place}: the access key is not known there: {CREDENTIALS}"),
            )
        } else if has(&["SignatureDoesNotMatch"]) {
            (
                Kind::Credentials,
                format!("{place}: the secret key is not that of the access key: {CREDENTIALS}"),
            )
        } else if has(&["ExpiredToken", "TokenRefreshRequired"]) {
            (Kind::Credentials, format!("{place}: the credentials have expired: {CREDENTIALS}"))
        } else if has(&[
            "InvalidToken",
            "AuthFailure",
            "AuthenticationFailed",
            "InvalidAuthenticationInfo",
            // Azure's words, by whatever code they come.
            "Server failed to authenticate the request",
        ]) {
            (Kind::Credentials, format!("{place}: the credentials are not accepted: {CREDENTIALS}"))
        } else if has(&["Invalid Access Key"]) {
            (Kind::Credentials, format!("{place}: the account key is not in base64: {CREDENTIALS}"))
        } else if has(&["service account file"]) {
            let why = said.split_once("service account file").map_or("", |(_, why)| why);
            (
                Kind::Credentials,
                format!("{place}: the service account's file can't be used:{why}: {CREDENTIALS}"),
            )
        } else if has(&["AccessDenied", "AuthorizationFailure", "AuthorizationPermissionMismatch"])
        {
            (Kind::Denied, format!("{place}: the credentials may not do that: {RIGHTS}"))
        } else if has(&[
            "169.254.169.254",
            "metadata.google.internal",
            "InstanceCredentials",
            "metadata/identity",
        ]) {
            (
                Kind::Credentials,
                format!(
                    "{place}: {NO_CREDENTIALS}: none by systemd, none in the environment, and this \
                 machine has none of its own: {CREDENTIALS}"
                ),
            )
        } else if has(&[
            "Received redirect without LOCATION",
            "PermanentRedirect",
            "AuthorizationHeaderMalformed",
            "IllegalLocationConstraint",
        ]) {
            (Kind::Bucket, format!("{what} is in another region: set [storage] region"))
        } else if has(&["301 ", "302 ", "303 ", "307 ", "308 "]) {
            (
                Kind::Bucket,
                format!(
                    "{place} sends requests on to another server, which does not get them, as the \
                     credentials are for this one alone: correct [storage] region or endpoint"
                ),
            )
        } else if has(&[
            "QuotaExceeded",
            "InsufficientStorage",
            "507 ",
            "StorageFull",
            "XMinioStorageFull",
        ]) {
            (Kind::Full, format!("{place} is full: make room there"))
        } else if has(&["SlowDown", "ServerBusy", "503 ", "500 ", "502 ", "504 ", "429 "]) {
            (Kind::Busy, format!("{place}: the storage can't take it now"))
        } else {
            return None;
        };
    // Without credentials nothing is asked.
    let unsent = message.contains(NO_CREDENTIALS);
    Some(Problem { unsent, ..Problem::new(kind, message) })
}

/// What an error of the connection means; `section`: of the configuration.
pub(crate) fn of_connection((section, place): (&str, &str), said: &str) -> Option<Problem> {
    let low = said.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| low.contains(word));
    let (kind, message) = if has(&["no ca certificates were loaded"]) {
        (
            Kind::Tls,
            "TLS: this machine trusts nobody: install its certificates (the package \
             ca-certificates)",
        )
    } else if has(&[
        "unknownissuer",
        "unknown issuer",
        "self-signed",
        "self signed",
        "invalid peer certificate: other",
    ]) {
        (
            Kind::Tls,
            "TLS: the server's certificate is from nobody who is trusted here: name the \
             certificate of who signed it in [storage] ca_file",
        )
    } else if has(&["notvalidforname", "not valid for name"]) {
        (Kind::Tls, "TLS: the server's certificate is for another name: correct [storage] endpoint")
    } else if has(&[
        "certificate expired",
        "invalid peer certificate: expired",
        "notvalidyet",
        "not valid yet",
    ]) {
        (
            Kind::Tls,
            "TLS: the server's certificate has expired, or is not valid yet: have it renewed, or \
             set this machine's clock (timedatectl status)",
        )
    } else if has(&[
        "invalidcontenttype",
        "corrupt message",
        "wrong version number",
        "invalid message",
    ]) {
        (
            Kind::Tls,
            "TLS: the server does not speak it at this address: correct [storage] endpoint \
             (http:// needs allow_http = true)",
        )
    } else if has(&["invalid peer certificate", "received fatal alert", "tls"]) {
        (Kind::Tls, "TLS: no connection")
    } else if has(&["dns error", "failed to lookup", "name or service not known"]) {
        (
            Kind::Unreachable,
            "the server's name is not known: correct [storage] endpoint, or see resolvectl",
        )
    } else if has(&["connection refused"]) {
        (Kind::Unreachable, "nobody answers at this address (connection refused)")
    } else if has(&["url scheme is not allowed"]) {
        (
            Kind::Tls,
            "a connection without TLS is not allowed: set [storage] allow_http = true, or an \
             https:// address",
        )
    } else if has(&["timed out", "timeout", "deadline"]) {
        (Kind::Unreachable, "no answer in time ([storage] timeout)")
    } else if has(&["network is unreachable", "no route to host", "host is unreachable"]) {
        (Kind::Unreachable, "there is no way to the server")
    } else if has(&[
        "connection reset",
        "connection closed",
        "broken pipe",
        "incomplete",
        "error sending request",
        "connect error",
    ]) {
        (Kind::Unreachable, "the connection broke off")
    } else {
        return None;
    };
    let message = message.replace("[storage]", &format!("[{section}]"));
    let broke_off = message.contains("broke off") || message.contains("in time");
    Some(Problem { unsent: !broke_off, ..Problem::new(kind, format!("{place}: {message}")) })
}

fn of_directory(error: &object_store::Error, dir: &Path, said: &str) -> Problem {
    let dir = dir.display();
    let is = |kind: io::ErrorKind| has_io(error, &|e| e.kind() == kind);
    if has_io(error, &files::is_full) || said.contains("os error 28") {
        return Problem::new(
            Kind::Full,
            format!("the file system of {dir} is full: make room there"),
        );
    }
    if is(io::ErrorKind::PermissionDenied) || is(io::ErrorKind::ReadOnlyFilesystem) {
        return Problem::new(
            Kind::Denied,
            format!(
                "{dir}: flight-ship may not write there: give the directory to its user, and name \
                 it in ReadWritePaths= of its unit (systemctl edit flight-ship)"
            ),
        );
    }
    if let object_store::Error::NotFound { path, .. } = error {
        return Problem::new(Kind::Missing, format!("{dir}: there is no {path}"));
    }
    Problem::new(Kind::Other, format!("{dir}: {said}"))
}

/// Whether an error of the system is among the reasons of another one.
fn has_io(error: &(dyn Error + 'static), is: &dyn Fn(&io::Error) -> bool) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.downcast_ref::<io::Error>().is_some_and(is) {
            return true;
        }
        next = error.source();
    }
    false
}

/// An error and its reasons, each once.
pub(crate) fn chain(error: &dyn Error) -> Vec<String> {
    let mut all = vec![error.to_string()];
    let mut next = error.source();
    while let Some(error) = next {
        let text = error.to_string();
        if !all.iter().any(|before| before.contains(&text)) {
            all.push(text);
        }
        next = error.source();
    }
    all
}

/// An error without what the library says of its own attempts, on one line of bounded length.
fn short(chain: &[String]) -> String {
    let text = chain.join(": ");
    let text = between(&text, "<Message>", "</Message>").map_or(text.as_str(), |message| message);
    let text: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
    text.trim().to_owned()
}

/// What stands between two words of a text.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(between, _)| between)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Problem {
        let target = Target::S3 { bucket: "b".into(), prefix: String::new() };
        let error = object_store::Error::Generic { store: "S3", source: text.to_owned().into() };
        explain(&error, &target, "the bucket \"b\" at https://s3")
    }

    #[test]
    fn errors_of_storages_say_what_to_do() {
        for (text, kind, words) in [
            (
                "404: <Code>NoSuchBucket</Code>",
                Kind::Bucket,
                "does not exist: make it, or correct [ship] to",
            ),
            ("403: <Code>InvalidAccessKeyId</Code>", Kind::Credentials, "access key is not known"),
            (
                "403: <Code>SignatureDoesNotMatch</Code>",
                Kind::Credentials,
                "secret key is not that",
            ),
            (
                "403: <Code>AccessDenied</Code>",
                Kind::Denied,
                "may not do that: allow them to write",
            ),
            (
                "<Code>RequestTimeTooSkewed</Code><ServerTime>2026-11-26T10:00:00Z</ServerTime>",
                Kind::Clock,
                "clock is too far from the storage's (2026-11-26T10:00:00Z): set it",
            ),
            (
                "error sending request for url (http://169.254.169.254/latest)",
                Kind::Credentials,
                "there are no credentials",
            ),
            (
                "AuthorizationFailure: Server failed to authenticate the request. Make sure",
                Kind::Credentials,
                "the credentials are not accepted: give",
            ),
            (
                "Invalid Access Key: Invalid padding",
                Kind::Credentials,
                "the account key is not in base64: give",
            ),
            (
                "GCP credential error: Unable to open service account file from /key: No such file",
                Kind::Credentials,
                "the service account's file can't be used: from /key: No such file: give",
            ),
            ("invalid peer certificate: UnknownIssuer", Kind::Tls, "ca_file"),
            ("No CA certificates were loaded from the system", Kind::Tls, "ca-certificates"),
            ("received corrupt message of type InvalidContentType", Kind::Tls, "does not speak it"),
            (
                "tcp connect error: Connection refused (os error 111)",
                Kind::Unreachable,
                "nobody answers",
            ),
            (
                "dns error: failed to lookup address information",
                Kind::Unreachable,
                "name is not known",
            ),
            ("operation timed out", Kind::Unreachable, "no answer in time"),
            ("<Code>SlowDown</Code>", Kind::Busy, "can't take it now"),
            ("something\nelse", Kind::Other, "something else"),
        ] {
            let problem = said(text);
            assert_eq!(problem.kind, kind, "{text}: {problem}");
            assert!(problem.message.contains(words), "{text}: {problem}");
            assert!(!problem.message.contains('\n'), "{problem}");
        }
    }

    #[test]
    fn a_directory_that_is_full() {
        let source = io::Error::from_raw_os_error(libc::ENOSPC);
        let error =
            object_store::Error::Generic { store: "LocalFileSystem", source: source.into() };
        let problem = explain(&error, &Target::Directory("/lake".into()), "/lake");
        assert_eq!(problem.kind, Kind::Full);
        assert_eq!(problem.message, "the file system of /lake is full: make room there");
    }
}
