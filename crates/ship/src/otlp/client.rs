//! A collector: opened as the configuration says, over HTTP (`http`) or gRPC (`grpc`), and what
//! became of a request, in words that say what to do.

use std::fmt;
use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt as _;
use prost::Message;
use reqwest::header::HeaderMap;
use reqwest::{Body, Client, ClientBuilder, Response};

use super::message::{Logs, Metrics, PartialSuccess, Traces};
use super::{grpc, http};
use crate::config::{Otlp, Protocol, header};
use crate::credentials;
use crate::storage::explain::{chain, of_connection};
use crate::storage::{self};
use crate::tls;

/// Longest answer that is read, bytes.
const ANSWER_MAX: usize = 64 << 10;
/// Longest pause that a collector can ask for.
const PAUSE_MAX: Duration = Duration::from_hours(1);
/// What is shorter is not compressed, bytes.
const GZIP_LEAST: usize = 512;
/// The credential with headers, a line each.
const HEADERS: &str = "otlp_headers";

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// Log records.
    Logs(Logs),
    /// Spans.
    Traces(Traces),
    /// Metrics.
    Metrics(Metrics),
}

/// What a request is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Log records.
    Logs,
    /// Spans.
    Traces,
    /// Metrics.
    Metrics,
}

impl Request {
    /// What it is of.
    pub const fn signal(&self) -> Signal {
        match self {
            Self::Logs(_) => Signal::Logs,
            Self::Traces(_) => Signal::Traces,
            Self::Metrics(_) => Signal::Metrics,
        }
    }

    pub(super) fn path(&self) -> &'static str {
        match self {
            Self::Logs(_) => "v1/logs",
            Self::Traces(_) => "v1/traces",
            Self::Metrics(_) => "v1/metrics",
        }
    }

    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Logs(_) => "opentelemetry.proto.collector.logs.v1.LogsService/Export",
            Self::Traces(_) => "opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Metrics(_) => "opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Logs(of) => of.encode_to_vec(),
            Self::Traces(of) => of.encode_to_vec(),
            Self::Metrics(of) => of.encode_to_vec(),
        }
    }
}

/// What is wrong with a collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What the headers should have.
    Credentials,
    /// Rights.
    Denied,
    /// There is no collector at this address, or none of this protocol.
    Address,
    /// TLS.
    Tls,
    /// No connection, or no answer.
    Unreachable,
    /// It can't take anything now.
    Busy,
    /// It does not take this.
    Refused,
    /// The configuration has something that can't be read.
    File,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Credentials,
        Self::Denied,
        Self::Address,
        Self::Tls,
        Self::Unreachable,
        Self::Busy,
        Self::Refused,
        Self::File,
    ];

    /// Its name, in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Credentials => "credentials",
            Self::Denied => "denied",
            Self::Address => "address",
            Self::Tls => "tls",
            Self::Unreachable => "unreachable",
            Self::Busy => "busy",
            Self::Refused => "refused",
            Self::File => "file",
        }
    }
}

/// What is to become of a request that was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is sent again, no sooner than the collector asks for.
    Retry(Option<Duration>),
    /// It is not sent again before somebody has changed something: a request without content finds
    /// out.
    Hold,
    /// It is never sent again.
    Drop,
}

/// Why a request was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Of what kind it is.
    pub kind: Kind,
    /// What it is, and what to do.
    pub message: String,
    /// What becomes of the request.
    pub fate: Fate,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// A collector.
#[derive(Debug)]
pub struct Collector {
    pub(super) client: Client,
    /// Its address, without a slash at the end.
    pub(super) endpoint: String,
    pub(super) headers: HeaderMap,
    protocol: Protocol,
    gzip: bool,
}

/// An answer, read.
pub(super) struct Answered {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) trailers: HeaderMap,
}

impl Collector {
    /// Opens it; nothing is sent.
    ///
    /// # Errors
    /// What of the configuration, or of the credentials, can't be.
    pub fn open(config: &Otlp) -> Result<Self, Failure> {
        let endpoint = config.endpoint.trim_end_matches('/').to_owned();
        let client = builder(config)?;
        let client = client.build().map_err(|e| broken(&endpoint, &chain(&e).join(": ")))?;
        let headers = headers(config).map_err(|what| file(&endpoint, &what))?;
        let (protocol, gzip) = (config.protocol, config.gzip);
        Ok(Self { client, endpoint, headers, protocol, gzip })
    }

    /// Where it is, and how it is talked to.
    pub fn place(&self) -> String {
        format!("{} ({})", self.endpoint, self.protocol.name())
    }

    /// Sends a request; what the collector did not take of it.
    ///
    /// # Errors
    /// It was not taken.
    pub async fn send(&self, request: &Request) -> Result<PartialSuccess, Failure> {
        let bytes = request.bytes();
        let packed = (self.gzip && bytes.len() >= GZIP_LEAST).then(|| gzip(&bytes)).flatten();
        match self.protocol {
            Protocol::Http => http::send(self, request.path(), bytes, packed).await,
            Protocol::Grpc => grpc::send(self, request.method(), bytes, packed).await,
        }
    }

    /// Tries whether requests of a kind would be taken, by one without content.
    ///
    /// # Errors
    /// They would not.
    pub async fn probe(&self, signal: Signal) -> Result<(), Failure> {
        let request = match signal {
            Signal::Logs => Request::Logs(Logs::default()),
            Signal::Traces => Request::Traces(Traces::default()),
            Signal::Metrics => Request::Metrics(Metrics::default()),
        };
        self.send(&request).await.map(drop)
    }

    /// Reads an answer.
    pub(super) async fn read(&self, response: Response) -> Result<Answered, Failure> {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let (mut body, mut trailers) = (Vec::new(), HeaderMap::new());
        let mut rest = Body::from(response);
        while let Some(frame) = rest.frame().await {
            let frame = match frame {
                Ok(frame) => frame,
                // The status says it all.
                Err(_) if status != 200 => break,
                Err(e) => return Err(self.unanswered(&e)),
            };
            match frame.into_data() {
                Ok(data) if body.len() + data.len() > ANSWER_MAX => break,
                Ok(data) => body.extend_from_slice(&data),
                Err(frame) => {
                    if let Ok(of) = frame.into_trailers() {
                        trailers = of;
                    }
                }
            }
        }
        Ok(Answered { status, headers, body, trailers })
    }

    /// A request without an answer.
    pub(super) fn unanswered(&self, error: &reqwest::Error) -> Failure {
        let said = chain(error).join(": ");
        if let Some(failure) = self.other_protocol(&said) {
            return failure;
        }
        let mut failure = broken(&self.endpoint, &said);
        if failure.message.ends_with("broke off") {
            let (other, port) = match self.protocol {
                Protocol::Http => (Protocol::Grpc, 4317),
                Protocol::Grpc => (Protocol::Http, 4318),
            };
            let hint = format!(
                ": if this is a port for {} (most often {port}), set [otlp] protocol = \"{}\"",
                other.label(),
                other.name()
            );
            failure.message.push_str(&hint);
        }
        if error.is_timeout() && failure.kind == Kind::Unreachable && !error.is_connect() {
            failure.message = format!(
                "{}: no answer in time ([otlp] timeout): is it a collector, and does it take {} \
                 there?",
                self.endpoint,
                self.protocol.label()
            );
        }
        failure
    }

    /// Whether the server seems to speak the other protocol.
    fn other_protocol(&self, said: &str) -> Option<Failure> {
        let low = said.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| low.contains(word));
        let (answers, other, port) = match self.protocol {
            Protocol::Http => {
                (has(&["invalid http version", "invalid http status"]), Protocol::Grpc, 4318)
            }
            Protocol::Grpc => (
                has(&[
                    "frame with invalid size",
                    "frame_size_error",
                    "protocol_error",
                    "unspecific protocol error",
                ]),
                Protocol::Http,
                4317,
            ),
        };
        answers.then(|| self.wrong_protocol(other, port))
    }

    /// The server speaks another protocol.
    pub(super) fn wrong_protocol(&self, other: Protocol, port: u16) -> Failure {
        let message = format!(
            "{}: the server there does not speak {}: set [otlp] protocol = \"{}\", or name the \
             port for {} (most often {port})",
            self.endpoint,
            self.protocol.label(),
            other.name(),
            self.protocol.label(),
        );
        Failure { kind: Kind::Address, message, fate: Fate::Hold }
    }

    /// Something that keeps every request from being taken.
    pub(super) fn held(&self, kind: Kind, said: &str) -> Failure {
        let what = match kind {
            Kind::Credentials => {
                "the credentials are not accepted: give flight-ship others (docs/otlp.md, \
                 Credentials)"
            }
            Kind::Denied => {
                "the credentials may not do that: allow them to write logs, traces and metrics"
            }
            _ => "there is no collector at this address: correct [otlp] endpoint or protocol",
        };
        let said = if said.is_empty() { String::new() } else { format!(" ({said})") };
        Failure { kind, message: format!("{}: {what}{said}", self.endpoint), fate: Fate::Hold }
    }

    /// It can't take anything now.
    pub(super) fn busy(&self, said: &str, pause: Option<Duration>) -> Failure {
        let message = format!("{}: the collector can't take it now ({said})", self.endpoint);
        let fate = Fate::Retry(pause.map(|pause| pause.min(PAUSE_MAX)));
        Failure { kind: Kind::Busy, message, fate }
    }

    /// It does not take this request.
    pub(super) fn refused(&self, said: &str) -> Failure {
        let message = format!("{}: the collector refuses it ({said})", self.endpoint);
        Failure { kind: Kind::Refused, message, fate: Fate::Drop }
    }
}

impl Protocol {
    const fn label(self) -> &'static str {
        match self {
            Self::Http => "OTLP/HTTP",
            Self::Grpc => "gRPC",
        }
    }
}

/// A text of somebody else, on one line of bounded length.
pub(super) fn short(text: &str) -> String {
    let plain: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
    plain.trim().to_owned()
}

fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

fn builder(config: &Otlp) -> Result<ClientBuilder, Failure> {
    let builder = tls::client("otlp", &config.endpoint, &config.ca_file)
        .map_err(|what| file(&config.endpoint, &what))?
        .connect_timeout(config.connect_timeout.duration())
        .timeout(config.timeout.duration());
    let is_grpc = config.protocol == Protocol::Grpc;
    Ok(if is_grpc { builder.http2_prior_knowledge() } else { builder })
}

/// The headers of the configuration, and those of the credential.
fn headers(config: &Otlp) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let mut add = |line: &str, place: &str| {
        let (name, value) = header(line).ok_or_else(|| {
            format!("{place} has a line that is no header: write \"name: value\"")
        })?;
        headers.insert(name, value);
        Ok::<_, String>(())
    };
    for line in &config.headers {
        add(line, "[otlp] headers")?;
    }
    for of in credentials::of_collector() {
        if of.name != HEADERS {
            credentials::unknown(&of.name, HEADERS);
            continue;
        }
        let lines = of.text.lines().map(str::trim).filter(|line| !line.is_empty());
        for line in lines {
            add(line, &format!("the credential {HEADERS}"))?;
        }
    }
    Ok(headers)
}

fn file(endpoint: &str, what: &str) -> Failure {
    Failure { kind: Kind::File, message: format!("{endpoint}: {what}"), fate: Fate::Hold }
}

/// What an error of the connection means: in any case, to try again is right.
fn broken(endpoint: &str, said: &str) -> Failure {
    let (kind, message) = match of_connection(("otlp", endpoint), said) {
        Some(problem) if problem.kind == storage::Kind::Tls => (Kind::Tls, problem.message),
        Some(problem) => (Kind::Unreachable, problem.message),
        None => (Kind::Unreachable, format!("{endpoint}: {}", short(said))),
    };
    Failure { kind, message, fate: Fate::Retry(None) }
}
