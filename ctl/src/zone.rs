//! The time zone in which times are shown.

use std::fs;
use std::path::Path;

use jiff::tz::TimeZone;

/// What localtime(5) makes the system's time zone.
const LOCALTIME: &str = "/etc/localtime";

/// The system's time zone, or that of `TZ`. Where it is the system's, one file is read; jiff, which
/// also wants its name, lists the whole database of zones first, which takes 3 ms.
pub fn system() -> TimeZone {
    let named = std::env::var_os("TZ").is_some();
    let file = if named { None } else { read(Path::new(LOCALTIME)) };
    file.unwrap_or_else(TimeZone::system)
}

/// The zone that a file describes (tzfile(5)).
fn read(path: &Path) -> Option<TimeZone> {
    TimeZone::tzif("Local", &fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    #[test]
    fn a_file_of_the_database_is_the_zone_of_its_name() {
        let named = TimeZone::get("Europe/Berlin").unwrap();
        let file = read(Path::new("/usr/share/zoneinfo/Europe/Berlin")).unwrap();
        for month in 0..24 {
            let moment = Timestamp::from_second(1_700_000_000 + month * 2_600_000).unwrap();
            assert_eq!(file.to_offset(moment), named.to_offset(moment), "{moment}");
        }
        assert!(file.to_offset(Timestamp::UNIX_EPOCH).seconds() != 0);
        assert!(read(Path::new("/proc/self/cmdline")).is_none());
    }
}
