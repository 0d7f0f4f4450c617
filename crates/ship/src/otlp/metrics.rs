//! Metrics: what `flightctl metrics` tells of the recorder, and `flight-ship metrics` of
//! flight-ship, as OTLP has it.
//!
//! A name becomes `flightrec.lost_events`, of `flightrec_lost_events_total`: without what
//! Prometheus says by suffixes, which here are the kind and the unit. A collector that exports to
//! Prometheus makes the same name of it again.

use std::collections::BTreeMap;

use super::exposition::{Family, Sample, families};
use super::message::{
    Data, Gauge, KeyValue, Metric, Metrics, Number, Point, Resource, ResourceMetrics, ScopeMetrics,
    Sum, text,
};
use super::resource::{SCHEMA, scope};

/// `AggregationTemporality`: since the start.
const CUMULATIVE: i32 = 2;
/// Most points of a request: a collector takes 4 MiB of gRPC, if nothing else is set.
const POINTS_MAX: usize = 4000;
/// Counters that begin with the recording; the others of flightd begin with flightd.
const OF_RECORDING: [&str; 5] = [
    "flightrec_events",
    "flightrec_lost_events",
    "flightrec_own_events",
    "flightrec_recursion_misses",
    "flightrec_thread_table_collisions",
];
/// Starts as near as that, ns, are the same one: they are found out from two clocks.
const SAME: u64 = 1_000_000_000;

/// Since when counters add up, as it was told last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Starts {
    recording: u64,
    daemon: u64,
    /// Those of flight-ship itself.
    shipper: u64,
}

impl Starts {
    /// `shipper`: when flight-ship began to count, ns since 1970.
    pub fn new(shipper: i64) -> Self {
        Self { shipper: shipper.try_into().unwrap_or(0), ..Self::default() }
    }

    fn learn(&mut self, all: &BTreeMap<String, Family>) {
        let start = |name: &str| {
            let seconds = all.get(name)?.value()?;
            Some((seconds * 1e9) as u64)
        };
        for (known, name) in [
            (&mut self.recording, "flightrec_recording_start_time_seconds"),
            (&mut self.daemon, "flightrec_start_time_seconds"),
        ] {
            if let Some(told) = start(name).filter(|told| told.abs_diff(*known) > SAME) {
                *known = told;
            }
        }
    }

    fn of(&self, family: &str) -> u64 {
        if family.starts_with("flightship_") {
            self.shipper
        } else if OF_RECORDING.contains(&family) {
            self.recording
        } else {
            self.daemon
        }
    }
}

/// The requests that tell what these texts do; `now`: when it was so, ns since 1970.
pub fn requests(
    resource: &Resource,
    texts: &[&str],
    starts: &mut Starts,
    now: i64,
) -> Vec<Metrics> {
    let now = now.try_into().unwrap_or(0);
    let mut requests = Vec::new();
    let (mut metrics, mut points) = (Vec::new(), 0);
    let mut end = |metrics: &mut Vec<Metric>| {
        if !metrics.is_empty() {
            requests.push(request(resource, std::mem::take(metrics)));
        }
    };
    for text in texts {
        let all = families(text);
        starts.learn(&all);
        for family in all.values() {
            for samples in family.samples.chunks(POINTS_MAX) {
                if points + samples.len() > POINTS_MAX {
                    end(&mut metrics);
                    points = 0;
                }
                points += samples.len();
                metrics.push(metric(family, samples, (starts.of(&family.name), now)));
            }
        }
    }
    end(&mut metrics);
    requests
}

/// How many points a request has.
pub fn points(request: &Metrics) -> u64 {
    let scopes = request.resource_metrics.iter().flat_map(|of| &of.scope_metrics);
    let points = |metric: &Metric| match &metric.data {
        Some(Data::Sum(sum)) => sum.data_points.len(),
        Some(Data::Gauge(gauge)) => gauge.data_points.len(),
        None => 0,
    };
    scopes.flat_map(|of| &of.metrics).map(|metric| points(metric) as u64).sum()
}

fn request(resource: &Resource, metrics: Vec<Metric>) -> Metrics {
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics }];
    let resource = Some(resource.clone());
    Metrics {
        resource_metrics: vec![ResourceMetrics {
            resource,
            scope_metrics,
            schema_url: SCHEMA.to_owned(),
        }],
    }
}

fn metric(family: &Family, samples: &[Sample], (start, now): (u64, u64)) -> Metric {
    let (name, unit) = name(family);
    let start = if family.is_counter { start.min(now) } else { 0 };
    let data_points: Vec<Point> = samples.iter().filter_map(|of| point(of, start, now)).collect();
    let data = if family.is_counter {
        Data::Sum(Sum { data_points, aggregation_temporality: CUMULATIVE, is_monotonic: true })
    } else {
        Data::Gauge(Gauge { data_points })
    };
    Metric { name, description: family.help.clone(), unit: unit.to_owned(), data: Some(data) }
}

fn point(sample: &Sample, start_time_unix_nano: u64, time_unix_nano: u64) -> Option<Point> {
    let value = match sample.value.parse::<i64>() {
        Ok(whole) => Number::Int(whole),
        Err(_) => Number::Double(sample.value.parse().ok()?),
    };
    let attributes: Vec<KeyValue> =
        sample.labels.iter().filter_map(|(key, value)| text(key, value)).collect();
    Some(Point { start_time_unix_nano, time_unix_nano, value: Some(value), attributes })
}

/// The name of a family here, and its unit by UCUM.
fn name(family: &Family) -> (String, &'static str) {
    let plain = family.name.as_str();
    let units = [("_timestamp_seconds", "s"), ("_seconds", "s"), ("_bytes", "By")];
    let known = units.into_iter().find(|(suffix, _)| plain.ends_with(suffix));
    let (plain, unit) = match known {
        // The moment stays in the name.
        Some((suffix, unit)) if suffix.starts_with("_timestamp") => {
            (plain.strip_suffix("_seconds").unwrap_or(plain), unit)
        }
        Some((suffix, unit)) => (plain.strip_suffix(suffix).unwrap_or(plain), unit),
        None => (plain, annotation(family)),
    };
    (plain.replacen('_', ".", 1), unit)
}

/// What a counter counts; of a gauge nothing.
fn annotation(family: &Family) -> &'static str {
    let has = |word: &str| family.name.contains(word);
    match () {
        () if !family.is_counter => "",
        () if has("events") => "{event}",
        () if has("objects") => "{object}",
        () if has("files") => "{file}",
        () if has("snapshots") => "{snapshot}",
        () if has("failures") => "{failure}",
        () if has("misses") => "{run}",
        () if has("collisions") => "{thread}",
        () => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# TYPE flightrec_lost_events counter\n# HELP flightrec_lost_events Lost.\n\
        flightrec_lost_events_total{cpu=\"0\"} 5\n\
        # TYPE flightrec_store_cpu_seconds counter\nflightrec_store_cpu_seconds_total 0.25\n\
        # TYPE flightrec_recording_start_time_seconds gauge\n\
        flightrec_recording_start_time_seconds 100.5\n\
        # TYPE flightrec_start_time_seconds gauge\nflightrec_start_time_seconds 200\n\
        # TYPE flightrec_ring_bytes gauge\nflightrec_ring_bytes{lane=\"x\"} 4096\n\
        # TYPE flightrec_store_oldest_timestamp_seconds gauge\n\
        flightrec_store_oldest_timestamp_seconds 7\n# EOF\n";
    const OWN: &str = "# TYPE flightship_failures counter\nflightship_failures_total 2\n# EOF\n";

    fn all(starts: &mut Starts) -> BTreeMap<String, Metric> {
        let requests = requests(&Resource::default(), &[TEXT, OWN], starts, 300_000_000_000);
        assert_eq!(requests.len(), 1);
        let metrics = requests[0].resource_metrics[0].scope_metrics[0].metrics.iter();
        metrics.map(|metric| (metric.name.clone(), metric.clone())).collect()
    }

    #[test]
    fn counters_add_up_since_their_start() {
        let mut starts = Starts::new(250_000_000_000);
        let all = all(&mut starts);
        let sum = |name: &str| match all[name].data.as_ref().unwrap() {
            Data::Sum(sum) => sum.clone(),
            Data::Gauge(_) => panic!("{name} is a gauge"),
        };
        let lost = sum("flightrec.lost_events");
        assert!(lost.is_monotonic && lost.aggregation_temporality == 2);
        assert_eq!(lost.data_points[0].value, Some(Number::Int(5)));
        assert_eq!(lost.data_points[0].attributes[0].key, "cpu");
        assert_eq!(lost.data_points[0].start_time_unix_nano, 100_500_000_000);
        assert_eq!(lost.data_points[0].time_unix_nano, 300_000_000_000);
        let cpu = sum("flightrec.store_cpu");
        assert_eq!(cpu.data_points[0].start_time_unix_nano, 200_000_000_000);
        assert_eq!(cpu.data_points[0].value, Some(Number::Double(0.25)));
        assert_eq!(sum("flightship.failures").data_points[0].start_time_unix_nano, 250_000_000_000);
        let unit = |name: &str| all[name].unit.as_str();
        assert_eq!(unit("flightrec.lost_events"), "{event}");
        assert_eq!((unit("flightrec.store_cpu"), unit("flightrec.ring")), ("s", "By"));
        assert_eq!(unit("flightrec.store_oldest_timestamp"), "s");
        assert!(matches!(&all["flightrec.ring"].data, Some(Data::Gauge(_))));
    }

    #[test]
    fn a_start_stays_the_same_where_only_its_last_digits_differ() {
        let mut starts = Starts { recording: 100_500_400_000, ..Starts::default() };
        all(&mut starts);
        assert_eq!((starts.recording, starts.daemon), (100_500_400_000, 200_000_000_000));
    }

    #[test]
    fn many_points_go_in_several_requests() {
        use std::fmt::Write as _;
        let mut text = "# TYPE flightrec_events counter\n".to_owned();
        for n in 0..=POINTS_MAX * 2 {
            writeln!(text, "flightrec_events_total{{cpu=\"{n}\"}} {n}").unwrap();
        }
        let requests = requests(&Resource::default(), &[&text, OWN], &mut Starts::default(), 1);
        let most = POINTS_MAX as u64;
        assert_eq!(requests.iter().map(points).collect::<Vec<_>>(), [most, most, 2]);
    }
}
