//! Requests to a collector, and what becomes of them.

use std::time::{Duration, Instant};

use tokio::net::TcpListener;

use super::client::{Collector, Failure, Fate, Kind, Request, Signal};
use super::fake::{Fake, Say};
use super::message::{Logs, PartialSuccess, Resource};
use super::record;
use crate::config::{Otlp, Protocol};

const BOTH: [Protocol; 2] = [Protocol::Http, Protocol::Grpc];

/// A request with so many records.
fn request(records: usize) -> Request {
    let one = super::message::LogRecord { event_name: "x".repeat(100), ..Default::default() };
    Request::Logs(record::request(&Resource::default(), vec![one; records]))
}

async fn send(config: &Otlp) -> Result<PartialSuccess, Failure> {
    Collector::open(config)?.send(&request(1)).await
}

#[tokio::test]
async fn what_is_sent_arrives_compressed_or_not() {
    for protocol in BOTH {
        let fake = Fake::start(protocol).await;
        let mut config = fake.config();
        config.headers = vec!["X-Scope: ops".into()];
        for (gzip, records) in [(true, 1), (true, 500), (false, 500)] {
            config.gzip = gzip;
            let collector = Collector::open(&config).unwrap();
            for signal in [Signal::Logs, Signal::Traces, Signal::Metrics] {
                collector.probe(signal).await.unwrap();
            }
            let taken = collector.send(&request(records)).await.unwrap();
            assert_eq!(taken, PartialSuccess::default());
            let got = fake.got();
            assert_eq!((got.len(), got[0].records().len()), (1, records), "{protocol:?}");
            assert!(got[0].headers.contains("ops"), "{}", got[0].headers);
        }
    }
}

#[tokio::test]
async fn what_is_rejected_is_read() {
    for protocol in BOTH {
        let fake = Fake::start(protocol).await;
        fake.say(&[Say::Reject(3)]);
        let taken = send(&fake.config()).await.unwrap();
        assert_eq!((taken.rejected, taken.error_message.as_str()), (3, "too many"));
    }
}

#[tokio::test]
async fn errors_say_what_to_do() {
    let http = Fake::start(Protocol::Http).await;
    let grpc = Fake::start(Protocol::Grpc).await;
    let details = String::new();
    for (fake, say, kind, words) in [
        (&http, Say::Http(401, ""), Kind::Credentials, "give flight-ship others"),
        (&grpc, Say::Grpc(16, details.clone()), Kind::Credentials, "give flight-ship others"),
        (&http, Say::Http(403, ""), Kind::Denied, "may not do that: allow them"),
        (&grpc, Say::Grpc(7, details.clone()), Kind::Denied, "may not do that: allow them"),
        (&http, Say::Http(404, ""), Kind::Address, "correct [otlp] endpoint"),
        (&grpc, Say::Grpc(12, details.clone()), Kind::Address, "correct [otlp] endpoint"),
        (&http, Say::Http(503, ""), Kind::Busy, "can't take it now"),
        (&grpc, Say::Grpc(14, details.clone()), Kind::Busy, "can't take it now"),
        (&http, Say::Http(400, ""), Kind::Refused, "refuses it"),
        (&grpc, Say::Grpc(3, details.clone()), Kind::Refused, "refuses it"),
        (&http, Say::Close, Kind::Unreachable, "broke off"),
        (&http, Say::Hang, Kind::Unreachable, "no answer in time ([otlp] timeout)"),
        (&grpc, Say::Hang, Kind::Unreachable, "no answer in time ([otlp] timeout)"),
    ] {
        fake.say(std::slice::from_ref(&say));
        let failure = send(&fake.config()).await.unwrap_err();
        assert_eq!(failure.kind, kind, "{say:?}: {failure}");
        assert!(failure.message.contains(words), "{say:?}: {failure}");
        assert!(!failure.message.contains('\n'), "{failure}");
    }
    // gRPC's own reset is tried again.
    grpc.say(&[Say::Close]);
    let failure = send(&grpc.config()).await.unwrap_err();
    assert_eq!(failure.fate, Fate::Retry(None), "{failure}");
}

#[tokio::test]
async fn a_port_of_the_other_protocol_is_told() {
    let http = Fake::start(Protocol::Http).await;
    let grpc = Fake::start(Protocol::Grpc).await;
    let config = Otlp { protocol: Protocol::Grpc, ..http.config() };
    let failure = send(&config).await.unwrap_err();
    assert!(failure.message.contains("set [otlp] protocol = \"http\""), "{failure}");
    let config = Otlp { protocol: Protocol::Http, ..grpc.config() };
    let failure = send(&config).await.unwrap_err();
    assert!(failure.message.contains("set [otlp] protocol = \"grpc\""), "{failure}");
}

#[tokio::test]
async fn nobody_or_no_tls_at_an_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for protocol in BOTH {
        let endpoint = format!("http://{address}");
        let failure = send(&Otlp { endpoint, protocol, ..Otlp::default() }).await.unwrap_err();
        assert_eq!((failure.kind, failure.fate), (Kind::Unreachable, Fate::Retry(None)));
        assert!(failure.message.contains("nobody answers at this address"), "{failure}");
        let endpoint = "http://collector.invalid:4318".to_owned();
        let config = Otlp { endpoint, protocol, ..Otlp::default() };
        let failure = send(&config).await.unwrap_err();
        assert!(failure.message.contains("correct [otlp] endpoint"), "{failure}");
    }
    let http = Fake::start(Protocol::Http).await;
    let endpoint = http.config().endpoint.replace("http:", "https:");
    let failure = send(&Otlp { endpoint, ..http.config() }).await.unwrap_err();
    assert_eq!(failure.kind, Kind::Tls, "{failure}");
    let missing = Otlp {
        endpoint: "https://localhost:1".into(),
        ca_file: "/nonexistent/ca.pem".into(),
        ..Otlp::default()
    };
    let failure = Collector::open(&missing).unwrap_err();
    assert!(failure.message.contains("[otlp] ca_file: /nonexistent/ca.pem: No such"), "{failure}");
}

#[tokio::test]
async fn a_hanging_collector_is_given_up_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    for protocol in BOTH {
        let timeout = "200ms".parse().unwrap();
        let config = Otlp { endpoint: endpoint.clone(), protocol, timeout, ..Otlp::default() };
        let began = Instant::now();
        let failure = send(&config).await.unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert_eq!(failure.fate, Fate::Retry(None), "{failure}");
        assert!(failure.message.contains("no answer in time"), "{failure}");
    }
}

#[test]
fn nothing_is_asked_without_content() {
    assert_eq!(prost::Message::encoded_len(&Logs::default()), 0);
}
