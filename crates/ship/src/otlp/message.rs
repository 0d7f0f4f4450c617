//! The messages of OTLP 1.x that are sent and read, by the names and numbers of its `.proto` files
//! (<https://github.com/open-telemetry/opentelemetry-proto>); fields that are never used are left
//! out, which on the wire is the same as their defaults.

use prost::Message;

/// A value of an attribute.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    /// Which one; `None`: an empty one.
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5")]
    pub value: Option<Value>,
}

/// The kinds of values.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Value {
    /// A text.
    #[prost(string, tag = "1")]
    Text(String),
    /// Yes or no.
    #[prost(bool, tag = "2")]
    Bool(bool),
    /// A whole number.
    #[prost(int64, tag = "3")]
    Int(i64),
    /// A number.
    #[prost(double, tag = "4")]
    Double(f64),
    /// Several.
    #[prost(message, tag = "5")]
    Array(ArrayValue),
}

/// Several values.
#[derive(Clone, PartialEq, Message)]
pub struct ArrayValue {
    /// The values.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<AnyValue>,
}

/// An attribute.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// Who tells.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// What is known of it.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// The library that tells.
#[derive(Clone, PartialEq, Message)]
pub struct Scope {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// `ExportLogsServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct Logs {
    /// By resource.
    #[prost(message, repeated, tag = "1")]
    pub resource_logs: Vec<ResourceLogs>,
}

/// Records of a resource.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceLogs {
    /// The resource.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// By scope.
    #[prost(message, repeated, tag = "2")]
    pub scope_logs: Vec<ScopeLogs>,
    /// The schema of the attributes' names.
    #[prost(string, tag = "3")]
    pub schema_url: String,
}

/// Records of a scope.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeLogs {
    /// The scope.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// The records.
    #[prost(message, repeated, tag = "2")]
    pub log_records: Vec<LogRecord>,
}

/// A record.
#[derive(Clone, PartialEq, Message)]
pub struct LogRecord {
    /// When it happened, ns since 1970.
    #[prost(fixed64, tag = "1")]
    pub time_unix_nano: u64,
    /// `SeverityNumber`.
    #[prost(int32, tag = "2")]
    pub severity_number: i32,
    /// The same as a word.
    #[prost(string, tag = "3")]
    pub severity_text: String,
    /// What happened.
    #[prost(message, optional, tag = "5")]
    pub body: Option<AnyValue>,
    /// More of it.
    #[prost(message, repeated, tag = "6")]
    pub attributes: Vec<KeyValue>,
    /// Flags of the trace.
    #[prost(fixed32, tag = "8")]
    pub flags: u32,
    /// The trace; empty: none.
    #[prost(bytes = "vec", tag = "9")]
    pub trace_id: Vec<u8>,
    /// The span of it.
    #[prost(bytes = "vec", tag = "10")]
    pub span_id: Vec<u8>,
    /// When it was seen, ns since 1970.
    #[prost(fixed64, tag = "11")]
    pub observed_time_unix_nano: u64,
    /// What kind of record it is.
    #[prost(string, tag = "12")]
    pub event_name: String,
}

/// `ExportTraceServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct Traces {
    /// By resource.
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// Spans of a resource.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceSpans {
    /// The resource.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// By scope.
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
    /// The schema of the attributes' names.
    #[prost(string, tag = "3")]
    pub schema_url: String,
}

/// Spans of a scope.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeSpans {
    /// The scope.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// The spans.
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

/// A span.
#[derive(Clone, PartialEq, Message)]
pub struct Span {
    /// The trace.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// Its own id.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// The span that it is part of.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    /// What it is.
    #[prost(string, tag = "5")]
    pub name: String,
    /// `SpanKind`.
    #[prost(int32, tag = "6")]
    pub kind: i32,
    /// When it began, ns since 1970.
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    /// When it ended.
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    /// More of it.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// Flags of the trace.
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
}

/// `ExportMetricsServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct Metrics {
    /// By resource.
    #[prost(message, repeated, tag = "1")]
    pub resource_metrics: Vec<ResourceMetrics>,
}

/// Metrics of a resource.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceMetrics {
    /// The resource.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// By scope.
    #[prost(message, repeated, tag = "2")]
    pub scope_metrics: Vec<ScopeMetrics>,
    /// The schema of the attributes' names.
    #[prost(string, tag = "3")]
    pub schema_url: String,
}

/// Metrics of a scope.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeMetrics {
    /// The scope.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// The metrics.
    #[prost(message, repeated, tag = "2")]
    pub metrics: Vec<Metric>,
}

/// A metric.
#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What it is.
    #[prost(string, tag = "2")]
    pub description: String,
    /// Its unit, by UCUM.
    #[prost(string, tag = "3")]
    pub unit: String,
    /// Its values.
    #[prost(oneof = "Data", tags = "5, 7")]
    pub data: Option<Data>,
}

/// Values of a metric.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Data {
    /// What is so now.
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    /// What adds up.
    #[prost(message, tag = "7")]
    Sum(Sum),
}

/// What is so now.
#[derive(Clone, PartialEq, Message)]
pub struct Gauge {
    /// The values.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<Point>,
}

/// What adds up.
#[derive(Clone, PartialEq, Message)]
pub struct Sum {
    /// The values.
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<Point>,
    /// `AggregationTemporality`.
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
    /// Whether it never goes down.
    #[prost(bool, tag = "3")]
    pub is_monotonic: bool,
}

/// `NumberDataPoint`.
#[derive(Clone, PartialEq, Message)]
pub struct Point {
    /// Since when it adds up, ns since 1970; 0: not known, or it does not.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// When it was so.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// The value.
    #[prost(oneof = "Number", tags = "4, 6")]
    pub value: Option<Number>,
    /// What tells it from the others.
    #[prost(message, repeated, tag = "7")]
    pub attributes: Vec<KeyValue>,
}

/// A value of a metric.
#[derive(Clone, Copy, PartialEq, prost::Oneof)]
pub enum Number {
    /// Not whole.
    #[prost(double, tag = "4")]
    Double(f64),
    /// Whole.
    #[prost(sfixed64, tag = "6")]
    Int(i64),
}

/// What a collector answers to each kind of request: `Export…ServiceResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct Answer {
    /// What it did not take; `None`: it took all.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// What a collector did not take: `Export…PartialSuccess`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PartialSuccess {
    /// How many records, spans, or points of metrics.
    #[prost(int64, tag = "1")]
    pub rejected: i64,
    /// Why not; with 0 above, a warning.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Status {
    /// A code of gRPC.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// What is wrong.
    #[prost(string, tag = "2")]
    pub message: String,
    /// More of it.
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Detail>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Detail {
    /// Which message it is.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// Its bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct RetryInfo {
    /// How long to wait; `None`: it does not say.
    #[prost(message, optional, tag = "1")]
    pub retry_delay: Option<Delay>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Delay {
    /// Seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// And ns.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// An attribute of a text; `None` of an empty one.
pub fn text(key: &str, value: &str) -> Option<KeyValue> {
    (!value.is_empty()).then(|| of(key, Value::Text(value.to_owned())))
}

/// An attribute of several texts; `None` of none.
pub fn texts(key: &str, all: &[String]) -> Option<KeyValue> {
    let value = |text: &String| AnyValue { value: Some(Value::Text(text.clone())) };
    let values: Vec<AnyValue> = all.iter().map(value).collect();
    (!values.is_empty()).then(|| of(key, Value::Array(ArrayValue { values })))
}

/// An attribute of a number.
pub fn number(key: &str, value: impl TryInto<i64>) -> KeyValue {
    of(key, Value::Int(value.try_into().unwrap_or(i64::MAX)))
}

/// An attribute of yes or no.
pub fn flag(key: &str, value: bool) -> KeyValue {
    of(key, Value::Bool(value))
}

fn of(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that the generated Python messages of `opentelemetry-proto` 1.45 make of the same:
    /// `LogRecord(time_unix_nano=1, severity_number=13, body=AnyValue(string_value="a"),
    /// trace_id=b"\1"*16, span_id=b"\2"*8, observed_time_unix_nano=2, event_name="e")`.
    #[test]
    fn a_record_as_the_generated_messages_have_it() {
        let record = LogRecord {
            time_unix_nano: 1,
            severity_number: 13,
            body: Some(AnyValue { value: Some(Value::Text("a".into())) }),
            trace_id: vec![1; 16],
            span_id: vec![2; 8],
            observed_time_unix_nano: 2,
            event_name: "e".into(),
            ..LogRecord::default()
        };
        let mut expected = vec![0x09, 1, 0, 0, 0, 0, 0, 0, 0, 0x10, 13, 0x2a, 3, 0x0a, 1, b'a'];
        expected.extend([&[0x4a, 16][..], &[1; 16], &[0x52, 8], &[2; 8]].concat());
        expected.extend([0x59, 2, 0, 0, 0, 0, 0, 0, 0, 0x62, 1, b'e']);
        assert_eq!(record.encode_to_vec(), expected);
    }

    #[test]
    fn answers_are_read_whatever_else_they_have() {
        let success = PartialSuccess { rejected: 3, error_message: "no".into() };
        let mut bytes = Answer { partial_success: Some(success.clone()) }.encode_to_vec();
        // A field of a later release.
        bytes.extend([0x7a, 2, 1, 2]);
        assert_eq!(Answer::decode(&*bytes).unwrap().partial_success, Some(success));
        assert_eq!(Answer::decode(&[][..]).unwrap(), Answer::default());
        assert!(Answer::decode(&b"<html>"[..]).is_err());
    }

    #[test]
    fn attributes() {
        assert_eq!(text("a", ""), None);
        assert_eq!(texts("a", &[]), None);
        assert_eq!(number("n", u64::MAX).value.unwrap().value, Some(Value::Int(i64::MAX)));
        assert_eq!(flag("n", true).value.unwrap().value, Some(Value::Bool(true)));
    }
}
