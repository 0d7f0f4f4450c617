//! What is said of a kernel dump before anything else.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use flightrec_cli::note;
use flightrec_reader::source::{Source, VmcoreSource};

/// Says which recording it is, until when it goes, and what the dump lacks; before all, what others
/// claim to be it.
pub fn announce(source: &VmcoreSource, zone: &TimeZone) {
    source.first_remark().into_iter().for_each(note);
    let death = source.clock();
    let moment = moment(i128::from(death.now) + i128::from(death.wall_offset), zone);
    note(&format!("recording {:016x}, up to its last event at {moment}", source.meta().session));
    source.remarks().iter().for_each(|line| note(line));
}

/// Local time, from ns since 1970.
pub fn moment(ns: i128, zone: &TimeZone) -> String {
    let moment = Timestamp::from_nanosecond(ns).unwrap_or(Timestamp::UNIX_EPOCH);
    moment.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S%.3f").to_string()
}
