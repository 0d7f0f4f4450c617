//! The command line: one definition for parsing, help, manual page and completions.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use flightrec_settings::{Size, Span};

use crate::hour::Hour;

/// After the options; the manual page has each paragraph as a section.
const AFTER: &str = "\
Examples:
  flight-ship --check
        try everything that the service needs, storage and collector included
  flight-ship status
        what was shipped, what is waiting, and what blocks it
  flight-ship --once --config ./flight-ship.toml --state-dir /tmp/ship
        ship all that is there, and exit
  flight-ship compact
        merge what all hosts shipped in the last day into few large files, for SQL on many hosts
  FLIGHT_SHIP_LOG=debug flight-ship
        run the service, and log more

Signals:
  SIGTERM, SIGINT
        exit; what was under way is done again at the next start
  SIGKILL
        the same

Environment:
  FLIGHT_SHIP_LOG
        log levels: error, warn, info, debug or trace, or module=level, separated by commas
  CREDENTIALS_DIRECTORY
        credentials for the storage and a collector, one file each, as systemd passes them
  AWS_*, GOOGLE_*, AZURE_*
        credentials and settings of the storage, as the clouds' own tools know them

Files:
  /etc/flightrec/flight-ship.toml
        configuration
  /var/lib/flight-ship
        journal and spool
  /var/lib/flightrec
        the state directory of flightd, which is only read

Exit status:
  0  ended as requested; --check: all is well; --once: all is shipped; compact: all is compacted
  1  --check: something is wrong; --once, compact: the storage, or a limit, prevented it
  2  wrong usage or configuration, or could not start; the last line says why, and what to do
  3  --once: all that is left is shipped, but something was lost or could not be made; compact:
     what some hosts shipped could not be read, and is left out";

/// Ship snapshots and sums of the flight recorder to object storage and OpenTelemetry collectors.
///
/// Converts what flightd keeps to Parquet tables and HTML pages, and uploads them to S3-compatible
/// storage, Google Cloud Storage, Azure or a directory, in a layout that DuckDB, ClickHouse, Spark
/// and others read. Sends snapshots, metrics and waits to an OpenTelemetry collector. It only needs
/// to read flightd's state directory (group flightrec).
#[derive(Debug, Parser)]
#[command(name = "flight-ship", version, after_help = AFTER)]
pub struct Args {
    /// Configuration file
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/flightrec/flight-ship.toml",
        global = true
    )]
    pub config: PathBuf,
    /// Directory for the journal and the spool
    #[arg(long, value_name = "DIR", default_value = "/var/lib/flight-ship", global = true)]
    pub state_dir: PathBuf,
    /// Try everything that the service needs, and exit
    #[arg(long, group = "task")]
    pub check: bool,
    /// Ship what is there, and exit
    #[arg(long, group = "task")]
    pub once: bool,
    /// What to do, in place of the service
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do, in place of the service.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print what was shipped, what is waiting, and what blocks it
    Status {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print metrics as OpenMetrics text, for Prometheus
    Metrics,
    /// Merge the many small files that hosts ship into few large ones, for SQL on many hosts
    Compact(CompactArgs),
}

/// Merge the many small files that hosts ship into few large ones, for SQL on many hosts.
///
/// Reads the sums and the coverage of each hour, of all hosts, from the storage that the
/// configuration names, and writes the tables sums, hours, histograms and shipped below
/// schema=1/compact/, a few files an hour. If a host ships an hour late, that hour is compacted
/// again. Run it on one machine, with credentials that may list, read, write and delete; it needs
/// no flightd.
#[derive(Debug, clap::Args)]
pub struct CompactArgs {
    /// Compact the hours since this long ago
    #[arg(long, value_name = "TIME", default_value = "1day")]
    pub since: Span,
    /// Skip hours that ended less than this ago: hosts may still ship them
    #[arg(long, value_name = "TIME", default_value = "30m")]
    pub settle: Span,
    /// Compact the hours of this day (UTC)
    #[arg(long, value_name = "YYYY-MM-DD", conflicts_with_all = ["since", "hour"])]
    pub day: Option<String>,
    /// Compact this hour (UTC); may be repeated
    #[arg(long, value_name = "YYYY-MM-DDTHH", conflicts_with = "since")]
    pub hour: Vec<Hour>,
    /// Also compact hours that have not changed
    #[arg(long)]
    pub again: bool,
    /// Size of the parts, in bytes of what hosts shipped, into which a new hour is split
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    pub part_size: Size,
    /// Print a JSON object for each hour
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn what_is_typed() {
        let args = Args::parse_from(["flight-ship"]);
        assert_eq!(args.state_dir, PathBuf::from("/var/lib/flight-ship"));
        assert!(!args.once && !args.check && args.command.is_none());
        let args = Args::parse_from(["flight-ship", "status", "--json", "--state-dir", "/x"]);
        assert!(matches!(args.command, Some(Command::Status { json: true })));
        assert_eq!(args.state_dir, PathBuf::from("/x"));
        assert!(Args::try_parse_from(["flight-ship", "--once", "--check"]).is_err());
    }

    #[test]
    fn help_fits_a_terminal() {
        for line in AFTER.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}
