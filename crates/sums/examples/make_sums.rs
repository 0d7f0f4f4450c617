//! Makes the sums of a state directory, and tells what that costs: `make_sums STATE_DIR`.
//!
//! The directory is not to be that of a running flightd. Sums that are there are gone on with.

use std::path::Path;
use std::time::Instant;

use flightrec_sums::history;
use flightrec_sums::keeper::Limits;
use flightrec_sums::worker::{Turn, Worker};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).ok_or("usage: make_sums STATE_DIR")?;
    let begun = Instant::now();
    let limits = Limits { max_size: 50_000_000, keep: None };
    let mut worker = Worker::open(Path::new(&dir), limits, None)?;
    while worker.turn(None)? == Turn::More {}
    worker.flush()?;
    let seconds = begun.elapsed().as_secs_f64();
    let (events, mut periods, mut rows, mut lost) = (worker.events(), 0, 0, 0);
    history::read(
        Path::new(&dir),
        (i64::MIN, i64::MAX),
        |_| true,
        |dated| {
            periods += 1;
            rows += dated.period.rows.len();
            lost += dated.period.missing();
        },
    )?;
    let bytes: u64 = flightrec_sums::dir::files(Path::new(&dir))?.iter().map(|of| of.bytes).sum();
    println!(
        "{events} events in {seconds:.2} s: {:.0} ns each; {periods} periods, {rows} groups, {lost} \
         events lost; {bytes} bytes",
        seconds * 1e9 / events.max(1) as f64
    );
    Ok(())
}
