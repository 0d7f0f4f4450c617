//! Snapshots and metrics, told to a collector that answers as it is told.

use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use flightrec_format::meta::Meta;
use flightrec_store::snapshot::About;
use flightrec_store::{FileHeader, FileWriter};
use tempfile::TempDir;

use super::*;
use crate::config::Protocol;
use crate::otlp::diary::Diary;
use crate::otlp::fake::{Fake, Got, Say};
use crate::otlp::message::{LogRecord, Value};

const ANSWER: &str = r#"{"sentence":"orders waited 671 ms for flock","complete":true,
    "spans_left_out":4,"spans":[{"trace":{"trace_id":"0af7651916cd43dd8448eb211c80319c",
    "span_id":"b7ad6b7169203331","flags":1},"thread":{"tid":7,"name":"orders"},"from_ns":1,
    "until_ns":9,"mono_ns":5,"call":"flock"}]}"#;

/// A state directory of flightd, one of flight-ship, and a collector.
struct Place {
    dir: TempDir,
    config: Config,
    fake: Fake,
}

impl Place {
    async fn new(protocol: Protocol) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fake = Fake::start(protocol).await;
        let mut config = Config { otlp: fake.config(), ..Config::default() };
        config.ship.state_dir = dir.path().join("state");
        config.ship.host = "web1".into();
        config.ship.interval = "100ms".parse().unwrap();
        config.snapshots.settle = "0s".parse().unwrap();
        config.otlp.metrics_interval = "0s".parse().unwrap();
        config.otlp.records_per_minute = 1000;
        fs::create_dir_all(dir.path().join("state/snapshots")).unwrap();
        // In flightctl's place.
        let program = dir.path().join("flightctl");
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *metrics*) printf '# TYPE flightrec_x gauge\\nflightrec_x 5\\n';;\n\
             *) echo '{ANSWER}';; esac\n"
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        Self { dir, config, fake }
    }

    /// Snapshots of these numbers.
    fn take(&self, numbers: std::ops::Range<u64>) {
        for n in numbers {
            let created = now();
            let header = FileHeader {
                compatible: 0,
                incompatible: 0,
                boot_id: [1; 16],
                session: 7,
                number: 1,
                created_wall: created,
                created_mono: 5,
                begins: 5,
            };
            let dir = self.config.ship.state_dir.join("snapshots");
            let path = dir.join(format!(".{n}"));
            let out = File::create(&path).unwrap();
            let mut file = FileWriter::new(out, &header, 1).unwrap();
            file.meta(&Meta { session: 7, cpus: vec![0], ..Meta::default() }, 5).unwrap();
            let about =
                About { cause: "slow_call".into(), wall: created, until: 9, ..About::default() };
            file.snapshot(&about).unwrap();
            file.finish().unwrap();
            fs::rename(&path, dir.join(format!("20261126T120000Z-slow-call-{n:04}.flight")))
                .unwrap();
        }
    }

    fn own(&self) -> PathBuf {
        self.dir.path().join("own")
    }

    fn service(&self, once: bool) -> Service {
        let mut service = Service::open(self.config.clone(), &self.own(), once).unwrap();
        service.tool = Tool::new(self.dir.path().join("flightctl"), &self.config);
        service
    }

    async fn once(&self) -> Outcome {
        self.service(true).run().await
    }

    /// Runs the service until something is so.
    async fn until(&self, is: impl Fn(&Report) -> bool) -> Report {
        let service = self.service(false);
        let end = Instant::now() + Duration::from_secs(30);
        let look = async {
            loop {
                let report = service.stand();
                if is(&report) {
                    return report;
                }
                assert!(Instant::now() < end, "{report:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            _ = service.run() => panic!("it ended"),
            report = look => report,
        }
    }

    fn diary(&self) -> Diary {
        Diary::open(&self.own(), 0).unwrap()
    }
}

fn records(got: &[Got]) -> Vec<LogRecord> {
    got.iter().flat_map(Got::records).collect()
}

fn number(record: &LogRecord, key: &str) -> Option<i64> {
    let found = record.attributes.iter().find(|of| of.key == key)?;
    match found.value.as_ref()?.value {
        Some(Value::Int(n)) => Some(n),
        _ => None,
    }
}

#[tokio::test]
async fn snapshots_spans_and_metrics_are_told_once() {
    for protocol in [Protocol::Http, Protocol::Grpc] {
        let mut place = Place::new(protocol).await;
        place.config.otlp.metrics_interval = "1s".parse().unwrap();
        place.take(0..3);
        assert_eq!(place.once().await, Outcome::Shipped);
        let got = place.fake.got();
        let records = records(&got);
        assert_eq!(records.len(), 3);
        let body = records[0].body.as_ref().unwrap().value.as_ref();
        assert_eq!(body, Some(&Value::Text("orders waited 671 ms for flock".into())));
        assert_eq!(number(&records[0], "flightrec.spans.left_out"), Some(4));
        assert_eq!(got.iter().flat_map(Got::spans).count(), 3);
        let metrics: Vec<String> = got.iter().flat_map(Got::metrics).collect();
        assert!(metrics.iter().any(|name| name == "flightrec.x"), "{metrics:?}");
        assert!(metrics.iter().any(|name| name == "flightship.otlp_snapshots"), "{metrics:?}");
        // Nothing new but metrics, also after a restart.
        assert_eq!(place.once().await, Outcome::Shipped);
        let again = place.fake.got();
        assert!(again.iter().all(|of| !of.metrics().is_empty()), "{again:?}");
        let diary = place.diary();
        assert_eq!((diary.records, diary.spans, diary.left_out), (3, 3, 0));
        assert!(diary.points > 10 && diary.rejected == 0);
    }
}

#[tokio::test]
async fn what_is_not_taken_now_is_sent_again_and_no_sooner_than_asked() {
    let place = Place::new(Protocol::Http).await;
    place.take(0..1);
    place.fake.say(&[
        Say::Http(503, "retry-after: 1\r\n"),
        Say::Close,
        Say::Hang,
        Say::Http(429, ""),
    ]);
    let began = Instant::now();
    let report = place.until(|of| of.otlp.as_ref().unwrap().records == 1).await;
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    let otlp = report.otlp.unwrap();
    assert_eq!((otlp.failures, otlp.problem), (4, None));
    assert_eq!(records(&place.fake.got()).len(), 5, "the same one");
}

#[tokio::test]
async fn wrong_credentials_are_tried_by_nothing_and_lose_nothing() {
    for (protocol, say) in
        [(Protocol::Http, Say::Http(401, "")), (Protocol::Grpc, Say::Grpc(16, String::new()))]
    {
        let place = Place::new(protocol).await;
        place.take(0..2);
        place.fake.always(Some(("", say)));
        let report = place.until(|of| of.otlp.as_ref().unwrap().failures > 3).await;
        let otlp = report.otlp.unwrap();
        assert_eq!((otlp.records, otlp.waiting), (0, 2));
        assert_eq!(otlp.problem.unwrap().kind, "credentials");
        assert!(place.fake.count() > 3);
        assert_eq!(records(&place.fake.got()).len(), 1, "the rest were without content");
        place.fake.always(None);
        place.until(|of| of.otlp.as_ref().unwrap().records == 2).await;
        assert_eq!(records(&place.fake.got()).len(), 2);
    }
}

#[tokio::test]
async fn what_is_refused_is_not_sent_again_and_what_is_rejected_is_counted() {
    let place = Place::new(Protocol::Http).await;
    place.take(0..2);
    place.fake.say(&[Say::Http(400, ""), Say::Take, Say::Reject(1), Say::Reject(1)]);
    assert_eq!(place.once().await, Outcome::Shipped);
    let diary = place.diary();
    assert_eq!((diary.refused, diary.records, diary.rejected), (1, 1, 2));
    assert_eq!(records(&place.fake.got()).len(), 2);
}

#[tokio::test]
async fn a_collector_of_logs_alone_is_told_of_logs() {
    let place = Place::new(Protocol::Http).await;
    place.take(0..3);
    place.fake.always(Some(("traces", Say::Http(404, ""))));
    place.until(|of| of.otlp.as_ref().unwrap().records == 3).await;
    let diary = place.diary();
    assert_eq!((diary.records, diary.spans), (3, 0));
    assert!(diary.spans_left_out >= 2 * (4 + 1), "{diary:?}");
}

#[tokio::test]
async fn a_storm_is_told_in_bounds_and_the_counts_add_up() {
    let mut place = Place::new(Protocol::Http).await;
    (place.config.otlp.records_per_minute, place.config.otlp.waiting) = (5, 20);
    place.config.otlp.spans = 0;
    place.take(0..300);
    // A record is counted as told before it is taken from those that wait.
    let is_told =
        |of: &Report| of.otlp.as_ref().is_some_and(|otlp| (otlp.records, otlp.waiting) == (5, 15));
    let report = place.until(is_told).await;
    assert_eq!(report.otlp.unwrap().left_out, 280);
    // More come, also after a kill: not one more is told in this minute.
    place.take(300..340);
    let report = place.until(|of| of.otlp.as_ref().unwrap().left_out == 315).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(report.otlp.unwrap().waiting, 20);
    let told = records(&place.fake.got());
    assert_eq!(told.len(), 5);
    let left_out: Vec<_> = told.iter().map(|of| number(of, "flightrec.left_out")).collect();
    assert_eq!(left_out, [Some(280), None, None, None, None]);
    // A minute later, with room for all: the next record says what is left out since.
    place.config.otlp.records_per_minute = 1000;
    place.until(|of| of.otlp.as_ref().unwrap().records == 25).await;
    let told = records(&place.fake.got());
    assert_eq!(number(&told[0], "flightrec.left_out"), Some(35));
    let diary = place.diary();
    assert_eq!((diary.records + diary.left_out, diary.to_say), (340, 0));
}

#[tokio::test]
async fn kills_lose_nothing_and_tell_at_most_one_twice_each() {
    let place = Place::new(Protocol::Http).await;
    place.take(0..20);
    let mut kills = 0;
    while !place.own().join("otlp.json").exists() || place.diary().records < 20 {
        let service = place.service(false);
        // Whatever it is at then, it is dropped.
        let _ =
            tokio::time::timeout(Duration::from_millis(20 + 7 * (kills % 10)), service.run()).await;
        kills += 1;
        assert!(kills < 500);
    }
    assert_eq!(place.once().await, Outcome::Shipped);
    let mut uids: Vec<String> = records(&place.fake.got())
        .iter()
        .map(|of| format!("{:?}", of.attributes.iter().find(|of| of.key == "log.record.uid")))
        .collect();
    let all = uids.len();
    uids.sort();
    uids.dedup();
    assert_eq!(uids.len(), 20, "each is told");
    assert!(all as u64 <= 20 + kills, "{all} records, {kills} kills");
}

#[tokio::test]
async fn storage_and_collector_do_not_hold_each_other_up() {
    let mut place = Place::new(Protocol::Http).await;
    place.config.snapshots.page = false;
    place.config.snapshots.tables = Vec::new();
    let lake = place.dir.path().join("lake");
    flightrec_tests::shipping::write_minutes(
        &place.config.ship.state_dir,
        1,
        crate::hour::Hour::of(now()).before(3).start(),
        60,
    )
    .unwrap();
    place.config.sums.settle = "0s".parse().unwrap();
    place.take(0..1);
    // The collector hangs, and sums are shipped.
    place.config.ship.to = lake.to_string_lossy().into_owned();
    place.fake.always(Some(("", Say::Hang)));
    let report = place.until(|of| of.shipped > 0).await;
    assert_eq!(report.otlp.unwrap().records, 0);
    // Nothing can be written to the storage, and the snapshot is told.
    let broken = place.dir.path().join("broken");
    fs::create_dir(&broken).unwrap();
    fs::write(broken.join("schema=1"), "no directory").unwrap();
    place.config.ship.to = broken.to_string_lossy().into_owned();
    place.fake.always(None);
    place.take(1..2);
    let report = place.until(|of| of.otlp.as_ref().unwrap().records == 2).await;
    assert!(report.problem.is_some(), "{report:?}");
    // Without a storage, as well.
    place.config.ship.to = String::new();
    place.take(2..3);
    let report = place.until(|of| of.otlp.as_ref().unwrap().records == 3).await;
    assert_eq!(report.storage, "");
}

/// As of a file that was seen while flightd wrote it.
#[tokio::test]
async fn a_snapshot_whose_time_changes_waits_once() {
    let mut place = Place::new(Protocol::Http).await;
    (place.config.otlp.records_per_minute, place.config.otlp.waiting) = (1, 3);
    place.config.otlp.spans = 0;
    place.take(0..3);
    let changed = Cell::new(None::<Instant>);
    let dir = place.config.ship.state_dir.join("snapshots");
    let report = place
        .until(|of| {
            let otlp = of.otlp.as_ref().unwrap();
            if changed.get().is_none() && (otlp.records, otlp.waiting) == (1, 2) {
                for entry in fs::read_dir(&dir).unwrap() {
                    let file = File::open(entry.unwrap().path()).unwrap();
                    file.set_modified(SystemTime::now()).unwrap();
                }
                changed.set(Some(Instant::now()));
            }
            changed.get().is_some_and(|at| at.elapsed() > Duration::from_millis(500))
        })
        .await;
    let otlp = report.otlp.unwrap();
    assert_eq!((otlp.records, otlp.waiting, otlp.left_out), (1, 2, 0));
}
