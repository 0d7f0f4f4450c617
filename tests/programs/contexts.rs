//! What tests/programs/contexts.c does, by a program in Rust: threads that work for spans of a
//! trace and publish which (OTEP 4947). The variable is the program's own, among its dynamic
//! symbols (`build.rs`). Arguments and output are as there.

use std::arch::{asm, global_asm};
use std::hint::black_box;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::sync::atomic::{Ordering, compiler_fence};
use std::thread;
use std::time::Duration;

use flightrec_tests::monotonic_ns;
use nix::unistd::gettid;

// Stable Rust has no thread-local variable with a name of its own.
global_asm!(
    ".pushsection .tbss.otel_thread_ctx_v1, \"awT\", @nobits",
    ".globl otel_thread_ctx_v1",
    ".type otel_thread_ctx_v1, @object",
    ".size otel_thread_ctx_v1, 8",
    ".p2align 3",
    "otel_thread_ctx_v1: .zero 8",
    ".popsection",
);

/// The record's head.
#[repr(C, align(8))]
struct Record {
    trace: [u8; 16],
    span: [u8; 8],
    valid: u8,
    flags: u8,
    attributes: u16,
}

/// Sets the variable of this thread.
fn set(record: *const Record) {
    compiler_fence(Ordering::SeqCst);
    // SAFETY: a store to this thread's variable.
    unsafe {
        asm!(
            "mov {at}, qword ptr [rip + otel_thread_ctx_v1@GOTTPOFF]",
            "mov qword ptr fs:[{at}], {record}",
            at = out(reg) _,
            record = in(reg) record,
            options(nostack)
        );
    }
    compiler_fence(Ordering::SeqCst);
}

/// When a thread published which span: after the first time, before the second.
type Line = (u64, u64, u64);

fn work(number: u64, rounds: u64) -> (i32, Vec<Line>) {
    let new = || Record { trace: [0xab; 16], span: [0; 8], valid: 1, flags: 1, attributes: 0 };
    let mut records = [new(), new()];
    let mut lines = Vec::with_capacity(rounds as usize);
    for round in 0..rounds {
        let span = if round % 8 == 7 { 0 } else { (number + 1) << 32 | (round + 1) };
        let before = monotonic_ns();
        set(std::ptr::null());
        if span != 0 {
            let record = &mut records[(round % 2) as usize];
            record.span = span.to_be_bytes();
            set(&raw const *black_box(record));
        }
        lines.push((before, monotonic_ns(), span));
        if round % 3 == 0 {
            for n in 0..20_000 {
                black_box(n);
            }
            thread::yield_now();
        } else {
            thread::sleep(Duration::from_micros(20));
        }
    }
    set(std::ptr::null());
    (gettid().as_raw(), lines)
}

fn main() -> io::Result<ExitCode> {
    let number = |n| std::env::args().nth(n).and_then(|text| text.parse::<u64>().ok());
    let (Some(threads), Some(rounds)) = (number(1), number(2)) else {
        return Ok(ExitCode::from(2));
    };
    println!("ready");
    io::stdin().read_line(&mut String::new())?;
    let running: Vec<_> =
        (0..threads).map(|number| thread::spawn(move || work(number, rounds))).collect();
    let mut out = BufWriter::new(io::stdout().lock());
    for thread in running {
        let (tid, lines) = thread.join().map_err(|_| io::Error::other("a thread panicked"))?;
        for (before, after, span) in lines {
            writeln!(out, "{tid} {before} {after} {span}")?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
