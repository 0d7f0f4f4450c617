//! A small workload, as the demo records it: a file copied, a pipe ping-pong, a sleep, a failing
//! open.

use std::fs::{self, File};
use std::io::{Read, Write, pipe};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

const ROUNDS: usize = 3;

/// Works in an empty folder.
///
/// # Errors
/// What it does fails.
pub fn run(folder: &Path) -> Result<()> {
    let (original, copy) = (folder.join("original"), folder.join("copy"));
    fs::write(&original, b"what the machine did just before it went slow\n")
        .context("can't write a file")?;
    fs::copy(&original, &copy).context("can't copy a file")?;
    ping_pong()?;
    thread::sleep(Duration::from_millis(20));
    ensure!(
        File::open(folder.join("no-such-file")).is_err(),
        "a file that nobody made could be opened"
    );
    Ok(())
}

/// Two threads that wake each other.
fn ping_pong() -> Result<()> {
    let (mut from_ping, mut to_pong) = pipe()?;
    let (mut from_pong, mut to_ping) = pipe()?;
    let pong = thread::Builder::new().name("pong".to_owned()).spawn(move || {
        let mut ball = [0];
        (0..ROUNDS).try_for_each(|_| {
            from_ping.read_exact(&mut ball).and_then(|()| to_ping.write_all(&ball))
        })
    })?;
    for _ in 0..ROUNDS {
        to_pong.write_all(b"o")?;
        from_pong.read_exact(&mut [0])?;
    }
    Ok(pong.join().map_err(|_| anyhow!("pong has panicked"))??)
}
