//! OTLP/gRPC: calls of one message each way, over the HTTP/2 that is there for storages
//! (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>). A message is a byte that
//! says whether it is compressed, its length, and its bytes; what became of a call stands in
//! trailers, or in the headers of an answer without a message.

use std::time::Duration;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, TE};

use super::client::{Answered, Collector, Failure, Kind, short};
use super::message::{Answer, PartialSuccess, RetryInfo, Status};
use crate::config::Protocol;

/// What is sent, and answered.
const GRPC: &str = "application/grpc";
/// Bytes before a message.
const HEAD: usize = 5;
/// Details of an error come with padding or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// What a [`RetryInfo`] is called.
const RETRY_INFO: &str = "google.rpc.RetryInfo";

/// Sends a request; `packed`: the same, compressed.
pub(super) async fn send(
    to: &Collector,
    method: &str,
    bytes: Vec<u8>,
    packed: Option<Vec<u8>>,
) -> Result<PartialSuccess, Failure> {
    let mut headers = to.headers.clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc+proto"));
    headers.insert(TE, HeaderValue::from_static("trailers"));
    if packed.is_some() {
        headers.insert("grpc-encoding", HeaderValue::from_static("gzip"));
    }
    let url = format!("{}/{method}", to.endpoint);
    let body = framed(packed.is_some(), &packed.unwrap_or(bytes));
    let response = to.client.post(url).headers(headers).body(body).send().await;
    let response = response.map_err(|e| to.unanswered(&e))?;
    meaning(to, &to.read(response).await?)
}

/// A message as it is sent.
fn framed(is_packed: bool, bytes: &[u8]) -> Vec<u8> {
    // Requests are far below 4 GiB.
    let length = (bytes.len() as u32).to_be_bytes();
    [&[u8::from(is_packed)], &length[..], bytes].concat()
}

/// What an answer means.
fn meaning(to: &Collector, answer: &Answered) -> Result<PartialSuccess, Failure> {
    let kind = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_grpc = kind.is_some_and(|kind| kind.starts_with(GRPC));
    let code = code(&answer.trailers).or_else(|| code(&answer.headers));
    let Some(code) = code.filter(|_| is_grpc) else {
        return Err(without_code(to, answer.status, is_grpc));
    };
    let place = if answer.trailers.contains_key("grpc-status") {
        &answer.trailers
    } else {
        &answer.headers
    };
    let said = said(code, place);
    match code {
        0 => Ok(read(&answer.body).partial_success.unwrap_or_default()),
        // CANCELLED, DEADLINE_EXCEEDED, ABORTED, OUT_OF_RANGE, UNAVAILABLE, DATA_LOSS.
        1 | 4 | 10 | 11 | 14 | 15 => Err(to.busy(&said, pause(place))),
        // RESOURCE_EXHAUSTED: only where the collector says that it will be over.
        8 => match pause(place) {
            Some(pause) => Err(to.busy(&said, Some(pause))),
            None => Err(to.refused(&said)),
        },
        // UNAUTHENTICATED, PERMISSION_DENIED, UNIMPLEMENTED.
        16 => Err(to.held(Kind::Credentials, &said)),
        7 => Err(to.held(Kind::Denied, &said)),
        12 => Err(to.held(Kind::Address, &said)),
        _ => Err(to.refused(&said)),
    }
}

/// What an answer that is not of gRPC means, by the table of the protocol
/// (doc/http-grpc-status-mapping.md).
fn without_code(to: &Collector, status: u16, is_grpc: bool) -> Failure {
    let said = format!("HTTP {status}");
    match status {
        401 => to.held(Kind::Credentials, &said),
        403 => to.held(Kind::Denied, &said),
        429 | 502 | 503 | 504 => to.busy(&said, None),
        200 if is_grpc => to.busy("the answer broke off", None),
        200 | 400 | 404 | 405 | 415 => to.wrong_protocol(Protocol::Http, 4317),
        _ => to.refused(&said),
    }
}

/// The message of an answer.
fn read(body: &[u8]) -> Answer {
    match body.split_at_checked(HEAD) {
        // Nobody was asked to compress answers.
        Some(([0, ..], bytes)) => Answer::decode(bytes).unwrap_or_default(),
        _ => Answer::default(),
    }
}

fn code(headers: &HeaderMap) -> Option<i32> {
    headers.get("grpc-status")?.to_str().ok()?.trim().parse().ok()
}

/// What is wrong, with its code.
fn said(code: i32, headers: &HeaderMap) -> String {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    let name = usize::try_from(code).ok().and_then(|code| NAMES.get(code)).unwrap_or(&"UNKNOWN");
    let message = headers.get("grpc-message").map(|value| unescaped(value.as_bytes()));
    short(&format!("{name} {}", message.unwrap_or_default()))
}

/// A text in which some bytes are written as `%41`.
fn unescaped(bytes: &[u8]) -> String {
    let (mut plain, mut rest) = (Vec::new(), bytes);
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let escaped = byte.filter(|_| *first == b'%');
        plain.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// The pause that an answer asks for.
fn pause(headers: &HeaderMap) -> Option<Duration> {
    let bytes = BASE64.decode(headers.get("grpc-status-details-bin")?.as_bytes()).ok()?;
    let status = Status::decode(&*bytes).ok()?;
    let detail = status.details.iter().find(|of| of.type_url.ends_with(RETRY_INFO))?;
    let delay = RetryInfo::decode(&*detail.value).ok()?.retry_delay.unwrap_or_default();
    let (seconds, nanos) = (delay.seconds.try_into().ok()?, delay.nanos.try_into().ok()?);
    Some(Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Otlp;
    use crate::otlp::client::Fate;
    use crate::otlp::message::{Delay, Detail};

    fn of(
        headers: &[(&'static str, &str)],
        trailers: &[(&'static str, &str)],
        body: &[u8],
    ) -> Result<PartialSuccess, Failure> {
        let config = Otlp {
            endpoint: "http://localhost:1".into(),
            protocol: Protocol::Grpc,
            ..Otlp::default()
        };
        let map = |all: &[(&'static str, &str)]| {
            all.iter().fold(HeaderMap::new(), |mut map, (name, value)| {
                map.insert(*name, value.parse().unwrap());
                map
            })
        };
        let answer = Answered {
            status: 200,
            headers: map(headers),
            body: body.to_vec(),
            trailers: map(trailers),
        };
        meaning(&Collector::open(&config).unwrap(), &answer)
    }

    const KIND: (&str, &str) = ("content-type", "application/grpc");

    #[test]
    fn codes_and_what_becomes_of_a_request() {
        let fate = |code: &str| of(&[KIND], &[("grpc-status", code)], b"").unwrap_err().fate;
        for code in ["1", "4", "10", "11", "14", "15"] {
            assert_eq!(fate(code), Fate::Retry(None), "{code}");
        }
        for code in ["7", "12", "16"] {
            assert_eq!(fate(code), Fate::Hold, "{code}");
        }
        for code in ["2", "3", "5", "6", "8", "9", "13", "99"] {
            assert_eq!(fate(code), Fate::Drop, "{code}");
        }
        // Without a message, the headers have the code.
        let error = of(&[KIND, ("grpc-status", "16"), ("grpc-message", "no%20token%0a")], &[], b"");
        let error = error.unwrap_err();
        assert_eq!(error.kind, Kind::Credentials);
        assert!(error.message.ends_with("(UNAUTHENTICATED no token)"), "{error}");
        let page = of(&[("content-type", "text/html")], &[], b"").unwrap_err();
        assert!(page.message.contains("set [otlp] protocol = \"http\""), "{page}");
        assert_eq!(of(&[KIND], &[], b"").unwrap_err().fate, Fate::Retry(None), "it broke off");
    }

    #[test]
    fn what_is_not_taken_is_read() {
        let part = PartialSuccess { rejected: 2, error_message: "no".into() };
        let body = framed(false, &Answer { partial_success: Some(part.clone()) }.encode_to_vec());
        let taken = |body: &[u8]| of(&[KIND], &[("grpc-status", "0")], body).unwrap();
        assert_eq!(taken(&body), part);
        assert_eq!(
            (taken(b""), taken(&[0; 5])),
            (PartialSuccess::default(), PartialSuccess::default())
        );
    }

    #[test]
    fn pauses_that_a_collector_asks_for() {
        let info = RetryInfo { retry_delay: Some(Delay { seconds: 7, nanos: 500_000_000 }) };
        let detail = Detail {
            type_url: format!("type.googleapis.com/{RETRY_INFO}"),
            value: info.encode_to_vec(),
        };
        let status = Status { code: 8, message: String::new(), details: vec![detail] };
        let details = BASE64.encode(status.encode_to_vec());
        let trailers = [("grpc-status", "8"), ("grpc-status-details-bin", details.as_str())];
        let fate = of(&[KIND], &trailers, b"").unwrap_err().fate;
        assert_eq!(fate, Fate::Retry(Some(Duration::from_millis(7500))));
        let unpadded = details.trim_end_matches('=');
        let trailers = [("grpc-status", "14"), ("grpc-status-details-bin", unpadded)];
        let fate = of(&[KIND], &trailers, b"").unwrap_err().fate;
        assert_eq!(fate, Fate::Retry(Some(Duration::from_millis(7500))));
    }

    #[test]
    fn messages_have_a_head() {
        assert_eq!(framed(true, b"ab"), [1, 0, 0, 0, 2, b'a', b'b']);
        assert_eq!(unescaped(b"a%4%%41%zz%"), "a%4%A%zz%");
    }
}
