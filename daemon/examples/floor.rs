//! Attaches programs that record nothing to the tracepoints of the probes, until standard input is
//! closed: `floor empty`; `floor clock`, which reads the clock once an event; or `floor store`,
//! which also stores it and a word. Prints `ready` once all are attached. For `cargo xtask bench
//! overhead`.

use std::io::{self, Read, Write};

use anyhow::{Context, Result, bail};
use aya::Ebpf;
use aya::programs::{RawTracePoint, TracePoint};
use flightd::attachments::{self, ATTACHMENTS, ProgramForm, Wanted};
use flightd::load::kernel_version;
use nix::sys::utsname::uname;

static FLOOR: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/floor"));

fn main() -> Result<()> {
    let (name, classic_name) = match std::env::args().nth(1).as_deref() {
        Some("empty") => ("empty", "empty_classic"),
        Some("clock") => ("clock", "clock_classic"),
        Some("store") => ("store", "store_classic"),
        _ => bail!("usage: floor empty|clock|store"),
    };
    let mut ebpf = Ebpf::load(FLOOR).context("can't load (as root?)")?;
    let release = uname()?.release().to_string_lossy().into_owned();
    let form = ProgramForm::for_kernel(kernel_version(&release).unwrap_or((7, 0)));

    let raw: &mut RawTracePoint = ebpf.program_mut(name).context("no such program")?.try_into()?;
    raw.load()?;
    let rows = attachments::wanted(ATTACHMENTS, &Wanted::all(form));
    let recording = rows.iter().filter(|row| row.topic.is_some());
    let tracepoints: Vec<_> = recording
        .filter_map(|row| {
            row.tracepoint().map(|(tracepoint, form)| (tracepoint, form, row.optional))
        })
        .collect();
    for (tracepoint, _, optional) in tracepoints.iter().filter(|row| row.1 == ProgramForm::TpBtf) {
        // The recorder does without it as well where this kernel lacks it.
        if let Err(e) = raw.attach(tracepoint.name)
            && !optional
        {
            return Err(e).with_context(|| format!("can't attach to {tracepoint}"));
        }
    }
    let classic: &mut TracePoint =
        ebpf.program_mut(classic_name).context("no such program")?.try_into()?;
    classic.load()?;
    for (tracepoint, ..) in tracepoints.iter().filter(|row| row.1 == ProgramForm::Tracepoint) {
        classic
            .attach(tracepoint.category, tracepoint.name)
            .with_context(|| format!("can't attach to {tracepoint}"))?;
    }
    println!("ready");
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
