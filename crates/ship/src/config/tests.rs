//! The shipped file, and wrong ones.

use std::path::Path;

use super::*;

const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/flight-ship.toml");

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("f.toml"))
}

#[test]
fn the_shipped_file_equals_the_defaults_and_has_every_key() {
    let text = std::fs::read_to_string(SHIPPED).unwrap();
    assert_eq!(parse(&text).unwrap(), Config::default());
    let shipped: toml::Table = text.parse().unwrap();
    assert_eq!(shipped, Config::default().to_toml().parse().unwrap());
    assert_eq!(parse("").unwrap(), Config::default());
}

#[test]
fn to_toml_reads_back() {
    let mut config = Config::default();
    config.ship.to = "s3://b/p".into();
    config.ship.strings = Strings::Paths;
    config.ship.patterns = vec!["a\"b\\.".into()];
    config.snapshots.tables = vec!["calls".into()];
    config.limits.per_day = Size::new(0);
    assert_eq!(parse(&config.to_toml()).unwrap(), config);
}

#[test]
fn wrong_files_name_the_line_and_what_would_be_right() {
    let cases = [
        ("[ship]\ntoo = \"\"", "f.toml:2: unknown key `ship.too`; did you mean `ship.to`?"),
        ("[shop]\nto = \"\"", "f.toml:1: unknown section `shop`; did you mean `ship`?"),
        (
            "[ship]\nspool = \"1GiB\"",
            "f.toml:2: unknown key `ship.spool`; `spool` belongs in section [limits]",
        ),
        ("[ship]\nto = \"bucket\"", "f.toml:2: ship.to: \"bucket\" names no storage: write s3://"),
        ("[ship]\nhost = \"a b\"", "f.toml:2: ship.host: \"a b\" is not a name"),
        ("[ship]\nstate_dir = \"x\"", "f.toml:2: ship.state_dir: \"x\" is not an absolute path"),
        ("[ship]\nstrings = \"some\"", "f.toml:2: ship.strings: unknown variant `some`"),
        ("[ship]\npatterns = [\"(\"]", "f.toml:2: ship.patterns: \"(\" is no regular expression"),
        ("[ship]\ninterval = \"1ms\"", "f.toml:2: ship.interval: 1ms is not within 100ms to 1h"),
        (
            "[ship]\nstrings = \"none\"\n[snapshots]\nflight = true",
            "f.toml:4: snapshots.flight: a recording's own file has everything in it",
        ),
        (
            "[ship]\npatterns = [\"x\"]\n[snapshots]\nflight = true",
            "f.toml:4: snapshots.flight: a recording's own file has everything in it",
        ),
        (
            "[snapshots]\ntables = [\"cals\"]",
            "f.toml:2: snapshots.tables: there is no table \"cals\"; there are events, calls,",
        ),
        ("[snapshots]\ntables = [\"sums\"]", "f.toml:2: snapshots.tables: there is no table"),
        ("[sums]\nreach = \"1m\"", "f.toml:2: sums.reach: 1m is not within 1h to"),
        (
            "[storage]\nendpoint = \"s3.example.org\"",
            "f.toml:2: storage.endpoint: write the server's address as in \"https://",
        ),
        (
            "[storage]\nendpoint = \"http://s3\"",
            "f.toml:2: storage.endpoint: http://s3 has no TLS: whoever is on the way reads",
        ),
        (
            "[storage]\nretry_most = \"100ms\"",
            "f.toml:2: storage.retry_most: 100ms is less than retry_least",
        ),
        (
            "[limits]\nbandwidth = \"1KiB\"",
            "f.toml:2: limits.bandwidth: 1KiB is too small: give at least 16KiB, or \"0B\"",
        ),
        (
            "[otlp]\nendpoint = \"collector:4318\"",
            "f.toml:2: otlp.endpoint: write the collector's address as in \"https://",
        ),
        (
            "[otlp]\nendpoint = \"http://otel.example.org:4318\"",
            "f.toml:2: otlp.endpoint: http://otel.example.org:4318 has no TLS: whoever is on",
        ),
        (
            "[otlp]\nendpoint = \"https://x/v1/logs\"",
            "f.toml:2: otlp.endpoint: name it without /v1/logs",
        ),
        (
            "[otlp]\nendpoint = \"https://x/y\"\nprotocol = \"grpc\"",
            "f.toml:2: otlp.endpoint: gRPC has no path",
        ),
        (
            "[otlp]\nendpoint = \"https://a:b@x\"",
            "f.toml:2: otlp.endpoint: a password does not stand here",
        ),
        ("[otlp]\nprotocol = \"udp\"", "f.toml:2: otlp.protocol: unknown variant `udp`"),
        ("[otlp]\nheaders = [\"a b: c\"]", "f.toml:2: otlp.headers: line 1 is no header"),
        (
            "[otlp]\nendpoint = \"http://127.evil.example:4318\"",
            "f.toml:2: otlp.endpoint: http://127.evil.example:4318 has no TLS",
        ),
        ("[otlp]\nspans = 5000", "f.toml:2: otlp.spans: 5000 is not within 0 to 1000"),
        ("[otlp]\nwaiting = 0", "f.toml:2: otlp.waiting: 0 is not within 1 to 10000"),
        (
            "[otlp]\nmetrics_interval = \"5ms\"",
            "f.toml:2: otlp.metrics_interval: 5ms is not within 1s to",
        ),
        ("[limits]\nspool = \"0B\"", "f.toml:2: limits.spool: 0B is too small: give at least 1MiB"),
        ("[limits]\nmemory = 5", "f.toml:2: limits.memory: invalid type: integer `5`"),
        ("[ship\n", "f.toml:1: "),
    ];
    for (text, expected) in cases {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.starts_with(expected) && !error.contains('\n'), "{text:?}: {error}");
    }
}

#[test]
fn a_file_that_is_not_there() {
    let error = Config::load(Path::new("/nonexistent/s.toml")).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/s.toml: No such file"), "{error}");
    assert!(error.contains("config/flight-ship.toml is a complete one"), "{error}");
}

#[test]
fn what_is_left_out_is_known() {
    assert!(!Config::default().redacts());
    for text in ["strings = \"paths\"", "strings = \"none\"", "patterns = [\"x\"]"] {
        assert!(parse(&format!("[ship]\n{text}")).unwrap().redacts(), "{text}");
    }
}
