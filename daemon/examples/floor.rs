//! Attaches programs that record nothing to the tracepoints of the probes, until standard input is
//! closed: `floor FILE empty`; `floor FILE clock`, which reads the clock once an event; or `floor
//! FILE store`, which also stores it and a word. FILE is what probes-ebpf/src/floor.rs is compiled
//! to. Prints `ready` once all are attached. For `cargo xtask bench overhead`.

use std::io::{self, Read, Write};

use anyhow::{Context, Result, bail};
use aya::Ebpf;
use aya::programs::{RawTracePoint, TracePoint};
use flightd::attachments::{self, ATTACHMENTS, ProgramForm, Wanted};
use flightd::load::kernel_version;
use nix::sys::utsname::uname;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let file = args.next().unwrap_or_default();
    let (name, classic_name) = match args.next().as_deref() {
        Some("empty") => ("empty", "empty_classic"),
        Some("clock") => ("clock", "clock_classic"),
        Some("store") => ("store", "store_classic"),
        _ => bail!("usage: floor FILE empty|clock|store"),
    };
    let mut ebpf =
        Ebpf::load_file(&file).with_context(|| format!("can't load {file} (as root?)"))?;
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
