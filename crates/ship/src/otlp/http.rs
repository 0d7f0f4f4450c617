//! OTLP/HTTP with binary protobuf
//! (<https://opentelemetry.io/docs/specs/otlp/#otlphttp>).

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use prost::Message as _;
use reqwest::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};

use super::client::{Answered, Collector, Failure, Kind, short};
use super::message::{Answer, PartialSuccess, Status};
use crate::config::Protocol;

/// What is sent, and answered.
const PROTOBUF: &str = "application/x-protobuf";

/// Sends a request; `packed`: the same, compressed.
pub(super) async fn send(
    to: &Collector,
    path: &str,
    bytes: Vec<u8>,
    packed: Option<Vec<u8>>,
) -> Result<PartialSuccess, Failure> {
    let mut headers = to.headers.clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROTOBUF));
    if packed.is_some() {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    let url = format!("{}/{path}", to.endpoint);
    let request = to.client.post(url).headers(headers).body(packed.unwrap_or(bytes));
    let response = request.send().await.map_err(|e| to.unanswered(&e))?;
    meaning(to, &to.read(response).await?)
}

/// What an answer means.
fn meaning(to: &Collector, answer: &Answered) -> Result<PartialSuccess, Failure> {
    let kind = text(&answer.headers, &CONTENT_TYPE);
    let said = said(answer, kind);
    match answer.status {
        200..=299 if kind.starts_with("application/grpc") => {
            Err(to.wrong_protocol(Protocol::Grpc, 4318))
        }
        200..=299 if kind.starts_with("text/html") => Err(to.held(Kind::Address, "a web page")),
        200..=299 => {
            let read = Answer::decode(&*answer.body).unwrap_or_default();
            Ok(read.partial_success.unwrap_or_default())
        }
        429 | 502 | 503 | 504 => Err(to.busy(&said, pause(&answer.headers))),
        401 | 407 => Err(to.held(Kind::Credentials, &said)),
        403 => Err(to.held(Kind::Denied, &said)),
        300..=399 | 404 | 405 | 415 | 501 | 505 => Err(to.held(Kind::Address, &said)),
        _ => Err(to.refused(&said)),
    }
}

/// What an answer says, with its status.
fn said(answer: &Answered, kind: &str) -> String {
    let message = if kind.starts_with(PROTOBUF) {
        Status::decode(&*answer.body).map(|of| of.message).unwrap_or_default()
    } else if kind.starts_with("text/html") {
        String::new()
    } else {
        String::from_utf8_lossy(&answer.body).into_owned()
    };
    short(&format!("HTTP {} {message}", answer.status))
}

/// The pause that an answer asks for.
fn pause(headers: &HeaderMap) -> Option<Duration> {
    let value = text(headers, &RETRY_AFTER).trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = DateTimeParser::new().parse_timestamp(value).ok()?;
    // A moment that is over: at once.
    Some(until.duration_since(Timestamp::now()).try_into().unwrap_or(Duration::ZERO))
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Otlp;
    use crate::otlp::client::Fate;

    fn of(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Result<PartialSuccess, Failure> {
        let config = Otlp { endpoint: "http://localhost:1".into(), ..Otlp::default() };
        let pairs = headers.iter().map(|(name, value)| {
            (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
        });
        let answer = Answered {
            status,
            headers: pairs.collect(),
            body: body.to_vec(),
            trailers: HeaderMap::new(),
        };
        meaning(&Collector::open(&config).unwrap(), &answer)
    }

    #[test]
    fn answers_and_what_becomes_of_a_request() {
        let fate = |status| of(status, &[], b"").unwrap_err().fate;
        for status in [429, 502, 503, 504] {
            assert_eq!(fate(status), Fate::Retry(None), "{status}");
        }
        for status in [301, 401, 403, 404, 405, 415] {
            assert_eq!(fate(status), Fate::Hold, "{status}");
        }
        for status in [400, 413, 422, 500] {
            assert_eq!(fate(status), Fate::Drop, "{status}");
        }
        let taken = of(200, &[("content-type", PROTOBUF)], b"").unwrap();
        assert_eq!(taken, PartialSuccess::default());
        let part = PartialSuccess { rejected: 2, error_message: "no".into() };
        let answer = Answer { partial_success: Some(part.clone()) }.encode_to_vec();
        assert_eq!(of(200, &[("content-type", PROTOBUF)], &answer).unwrap(), part);
        let page = of(200, &[("content-type", "text/html; x")], b"<html>").unwrap_err();
        assert_eq!((page.kind, page.fate), (Kind::Address, Fate::Hold));
        let grpc = of(200, &[("content-type", "application/grpc")], b"").unwrap_err();
        assert!(grpc.message.contains("set [otlp] protocol = \"grpc\""), "{grpc}");
    }

    #[test]
    fn what_a_collector_says_is_told() {
        let status = Status { message: "no\ntoken".into(), ..Status::default() };
        let body = status.encode_to_vec();
        let error = of(401, &[("content-type", PROTOBUF)], &body).unwrap_err();
        assert!(error.message.contains("not accepted: give"), "{error}");
        assert!(error.message.ends_with("(HTTP 401 no token)"), "{error}");
        let error = of(400, &[("content-type", "text/plain")], b"bad span").unwrap_err();
        assert!(error.message.contains("refuses it (HTTP 400 bad span)"), "{error}");
    }

    #[test]
    fn pauses_that_a_collector_asks_for() {
        let of = |value: &str| match of(503, &[("retry-after", value)], b"").unwrap_err().fate {
            Fate::Retry(pause) => pause,
            fate => panic!("{fate:?}"),
        };
        assert_eq!(of("7"), Some(Duration::from_secs(7)));
        assert_eq!(of("100000"), Some(Duration::from_hours(1)));
        assert_eq!(of("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        let later = Timestamp::now() + Duration::from_secs(100);
        let later = jiff::fmt::rfc2822::to_string(&later.to_zoned(jiff::tz::TimeZone::UTC));
        let pause = of(&later.unwrap()).unwrap();
        assert!(pause > Duration::from_secs(90) && pause <= Duration::from_secs(100), "{pause:?}");
        assert_eq!(of("soon"), None);
    }
}
