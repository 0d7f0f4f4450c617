//! A collector for tests, over HTTP or gRPC, which answers as it is told.

use std::collections::VecDeque;
use std::io::Read as _;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use flate2::read::GzDecoder;
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::message::{Answer, LogRecord, Logs, Metrics, PartialSuccess, Span, Traces};
use crate::config::{Otlp, Protocol};

/// What it answers.
#[derive(Debug, Clone)]
pub(crate) enum Say {
    /// It takes all.
    Take,
    /// It takes all but so many.
    Reject(i64),
    /// A status of HTTP, with more lines of headers.
    Http(u16, &'static str),
    /// A code of gRPC, with `grpc-status-details-bin`.
    Grpc(i32, String),
    /// Nothing, for long.
    Hang,
    /// It closes the connection.
    Close,
}

/// A request that came.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) path: String,
    /// Header lines of HTTP, or those of gRPC, in small letters.
    pub(crate) headers: String,
    pub(crate) body: Vec<u8>,
}

#[derive(Default)]
struct Shared {
    next: VecDeque<Say>,
    /// What is answered to paths that have this in them, whatever is next.
    always: Option<(&'static str, Say)>,
    got: Vec<Got>,
}

/// The collector.
#[derive(Clone)]
pub(crate) struct Fake {
    address: String,
    protocol: Protocol,
    shared: Arc<Mutex<Shared>>,
}

impl Fake {
    /// Starts it, on a port of loopback.
    pub(crate) async fn start(protocol: Protocol) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let fake = Self { address, protocol, shared: Arc::default() };
        let of = fake.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let of = of.clone();
                tokio::spawn(async move {
                    match of.protocol {
                        Protocol::Http => of.http(stream).await,
                        Protocol::Grpc => of.grpc(stream).await,
                    }
                });
            }
        });
        fake
    }

    /// A configuration for it, with short pauses.
    pub(crate) fn config(&self) -> Otlp {
        Otlp {
            endpoint: format!("http://{}", self.address),
            protocol: self.protocol,
            timeout: "300ms".parse().unwrap(),
            retry_least: "20ms".parse().unwrap(),
            retry_most: "40ms".parse().unwrap(),
            ..Otlp::default()
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap()
    }

    /// What it answers next, in this order; then it takes all.
    pub(crate) fn say(&self, next: &[Say]) {
        self.shared().next.extend(next.iter().cloned());
    }

    /// What it answers always to paths with this in them; `None`: as to others.
    pub(crate) fn always(&self, say: Option<(&'static str, Say)>) {
        self.shared().always = say;
    }

    /// What came, and was not given yet, requests without content left out.
    pub(crate) fn got(&self) -> Vec<Got> {
        let got = std::mem::take(&mut self.shared().got);
        got.into_iter().filter(|of| !of.body.is_empty()).collect()
    }

    /// How many requests came that were not given yet.
    pub(crate) fn count(&self) -> usize {
        self.shared().got.len()
    }

    fn came(&self, path: &str, headers: &str, body: Vec<u8>) -> Say {
        let mut shared = self.shared();
        shared.got.push(Got { path: path.into(), headers: headers.to_lowercase(), body });
        if let Some((of, say)) = &shared.always
            && path.contains(of)
        {
            return say.clone();
        }
        shared.next.pop_front().unwrap_or(Say::Take)
    }

    async fn http(&self, mut stream: TcpStream) {
        loop {
            let mut bytes = Vec::new();
            let end = loop {
                // The hello of TLS.
                if bytes.first() == Some(&0x16) {
                    let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
                    return;
                }
                if let Some(at) = bytes.windows(4).position(|of| of == b"\r\n\r\n") {
                    break at + 4;
                }
                match stream.read_buf(&mut bytes).await {
                    Ok(n) if n > 0 => {}
                    _ => return,
                }
            };
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            if head.starts_with("PRI * HTTP/2") {
                let _ = stream
                    .write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
                    .await;
                return;
            }
            let low = head.to_lowercase();
            let length = low.split("content-length: ").nth(1).and_then(|of| of.lines().next());
            let length: usize = length.and_then(|of| of.trim().parse().ok()).unwrap_or(0);
            while bytes.len() < end + length {
                if !matches!(stream.read_buf(&mut bytes).await, Ok(n) if n > 0) {
                    return;
                }
            }
            let mut body = bytes[end..].to_vec();
            if low.contains("content-encoding: gzip") {
                body = unzipped(&body);
            }
            let path = head.split(' ').nth(1).unwrap_or_default();
            let (status, lines, answer) = match self.came(path, &head, body) {
                Say::Take => (200, "", Vec::new()),
                Say::Reject(n) => (200, "", rejected(n)),
                Say::Http(status, lines) => (status, lines, Vec::new()),
                Say::Grpc(..) => unreachable!("it speaks HTTP"),
                Say::Hang => return tokio::time::sleep(Duration::from_mins(1)).await,
                Say::Close => return,
            };
            let head = format!(
                "HTTP/1.1 {status} x\r\ncontent-type: application/x-protobuf\r\n{lines}\
                 content-length: {}\r\n\r\n",
                answer.len()
            );
            let _ = stream.write_all(&[head.as_bytes(), &answer].concat()).await;
        }
    }

    async fn grpc(&self, stream: TcpStream) {
        let Ok(mut connection) = h2::server::handshake(stream).await else { return };
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let of = self.clone();
            tokio::spawn(async move {
                let (parts, mut stream) = request.into_parts();
                let mut body = Vec::new();
                while let Some(Ok(data)) = stream.data().await {
                    let _ = stream.flow_control().release_capacity(data.len());
                    body.extend_from_slice(&data);
                }
                assert_eq!(parts.headers["te"], "trailers");
                let length = u32::from_be_bytes(*body[1..].first_chunk().unwrap());
                assert_eq!(length as usize, body.len() - 5);
                let message = match body[0] {
                    0 => body[5..].to_vec(),
                    _ => unzipped(&body[5..]),
                };
                let headers = format!("{:?}", parts.headers);
                let mut answer = Vec::new();
                let mut trailers = http::HeaderMap::new();
                trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
                let mut status = 200;
                match of.came(parts.uri.path(), &headers, message) {
                    Say::Take => {}
                    Say::Reject(n) => answer = rejected(n),
                    Say::Http(of, _) => status = of,
                    Say::Grpc(code, details) => {
                        trailers.insert("grpc-status", code.into());
                        if !details.is_empty() {
                            trailers.insert("grpc-status-details-bin", details.parse().unwrap());
                        }
                    }
                    Say::Hang => return tokio::time::sleep(Duration::from_mins(1)).await,
                    Say::Close => return respond.send_reset(h2::Reason::INTERNAL_ERROR),
                }
                let response = http::Response::builder().status(status);
                let response = response.header("content-type", "application/grpc");
                let mut stream = respond.send_response(response.body(()).unwrap(), false).unwrap();
                let length = (answer.len() as u32).to_be_bytes();
                let framed = [&[0], &length[..], &answer].concat();
                let _ = stream.send_data(Bytes::from(framed), false);
                let _ = stream.send_trailers(trailers);
            });
        }
    }
}

impl Got {
    /// Its records.
    pub(crate) fn records(&self) -> Vec<LogRecord> {
        if !self.path.to_lowercase().contains("logs") {
            return Vec::new();
        }
        let all = Logs::decode(&*self.body).unwrap().resource_logs;
        all.into_iter().flat_map(|of| of.scope_logs).flat_map(|of| of.log_records).collect()
    }

    /// Its spans.
    pub(crate) fn spans(&self) -> Vec<Span> {
        if !self.path.to_lowercase().contains("trace") {
            return Vec::new();
        }
        let all = Traces::decode(&*self.body).unwrap().resource_spans;
        all.into_iter().flat_map(|of| of.scope_spans).flat_map(|of| of.spans).collect()
    }

    /// The names of its metrics.
    pub(crate) fn metrics(&self) -> Vec<String> {
        if !self.path.to_lowercase().contains("metrics") {
            return Vec::new();
        }
        let all = Metrics::decode(&*self.body).unwrap().resource_metrics;
        let metrics = all.into_iter().flat_map(|of| of.scope_metrics).flat_map(|of| of.metrics);
        metrics.map(|of| of.name).collect()
    }
}

fn rejected(n: i64) -> Vec<u8> {
    let partial = PartialSuccess { rejected: n, error_message: "too many".into() };
    Answer { partial_success: Some(partial) }.encode_to_vec()
}

fn unzipped(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
    plain
}
