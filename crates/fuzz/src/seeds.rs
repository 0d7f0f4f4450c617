//! Inputs that are whole: what the recorder itself writes.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::abi::record::{Abi, StringStatus, WakeContext};
use flightrec_format::chunks;
use flightrec_format::control::{self, Request, Response};
use flightrec_format::decode::{Body, Call, Event, Page, Text};
use flightrec_format::descriptors::{Descriptor, HALF_PAGES, Object, Snapshot, Table};
use flightrec_format::encode::{PageWriter, in_kernel};
use flightrec_format::identity::public_id;
use flightrec_format::meta::{self, Argument, ContainerNames, Lanes, Meta, Syscall};
use flightrec_store::{Checkpoint, FileHeader, FileWriter, RingMark};
use flightrec_sums::model::{self, Group, Period};
use flightrec_vmcore::synthetic::{self, Codec, Image};

type Bytes = Box<[u8; PAGE_SIZE]>;

/// The recording's secret ([`flightrec_format::identity`]).
const SECRET: u64 = 7;

/// Pages of all lanes.
pub fn pages() -> Result<Vec<Vec<u8>>> {
    let mut pages = rings()?;
    pages.extend(description()?);
    Ok(pages.into_iter().map(|page| page.to_vec()).collect())
}

/// Some of each ring's events: calls with strings, folded and not, switches, wakeups.
fn rings() -> Result<Vec<Bytes>> {
    let mut calls = PageWriter::new(SECRET, Lane::Syscall, 0, 1 << 60);
    let mut sched = PageWriter::new(SECRET, Lane::Sched, 1, 1 << 60);
    for i in 0..120u64 {
        let time = 1000 + i * 5000;
        let text =
            Text { index: 1, status: StringStatus::Whole, bytes: b"/etc/hosts".to_vec().into() };
        let args = [i.wrapping_sub(100), 0x7fff_1234_0000 + i * 64, i << 20, 0, 0, 0];
        let call = Call { nr: 257, abi: Abi::Native, nargs: 4, args, strings: vec![text] };
        let push = |writer: &mut PageWriter, time, body| {
            let event = Event { time, cpu: writer.header().cpu, tid: 100 + (i % 3) as u32, body };
            writer.push(&event).map(drop).ok().context("an event that does not fit")
        };
        push(&mut calls, time, Body::Enter(call.clone()))?;
        let entered = i.is_multiple_of(2).then_some(time);
        push(&mut calls, time + 320, Body::Exit { call, ret: -2, entered })?;
        let next = 100 + ((i + 1) % 3) as u32;
        push(
            &mut sched,
            time,
            Body::Switch {
                prev_state: 1,
                next,
                preempted: false,
                io_wait: false,
                prev_prio: 120,
                next_prio: 99,
            },
        )?;
        push(
            &mut sched,
            time + 9,
            Body::Waking {
                wakee: 101,
                prio: 120,
                state: 2,
                cpu: 1,
                new: false,
                context: WakeContext::Thread,
            },
        )?;
    }
    Ok([calls.finish(), sched.finish()].concat())
}

fn metadata() -> Meta {
    let args = vec![Argument { name: "fd".into(), ctype: "int".into() }];
    let native = vec![Syscall { nr: 257, name: "openat".into(), args: Some(args) }];
    let boot_id = "01234567-89ab-cdef-0123-456789abcdef".to_owned();
    let config = "x".repeat(5000);
    let (id, uid) = ("0123456789abcdef".repeat(4), "1a2b3c4d_1111_2222_3333_0123456789ab");
    let cgroups = BTreeMap::from([
        (7, format!("/kubepods.slice/kubepods-pod{uid}.slice/cri-containerd-{id}.scope")),
        (8, "/machine.slice/machine-a\\x2db.scope".to_owned()),
    ]);
    let [name, pod, namespace, image] = ["app", "shop-0", "prod", "shop:7"].map(str::to_owned);
    let containers = BTreeMap::from([(7, ContainerNames { name, pod, namespace, image })]);
    Meta {
        cgroups,
        containers,
        session: public_id(SECRET),
        boot_id,
        started: 5,
        cpus: vec![0, 1],
        lanes: Lanes::new([1 << 20; 4], [false; 4]),
        native,
        config,
        ..Meta::default()
    }
}

/// The pages of the metadata.
fn description() -> Result<Vec<Bytes>> {
    Ok(meta::pack(&metadata(), 1, meta::HALF_PAGES)?
        .iter()
        .map(|page| in_kernel(page, SECRET))
        .collect())
}

/// The metadata's pages, one after the other.
pub fn meta_pages() -> Result<Vec<Vec<u8>>> {
    Ok(vec![description()?.iter().flat_map(|page| page.iter().copied()).collect()])
}

fn snapshot() -> Snapshot {
    let object = |name: &[u8]| Object::Named(name.into());
    let files =
        (0..20).map(|fd| Descriptor { fd: fd * 3, object: fd % 2, cloexec: fd > 4 }).collect();
    let tables = vec![Table { processes: vec![1, 2], files }];
    Snapshot {
        begin: 10,
        end: 20,
        left_out: 0,
        objects: vec![object(b"/etc/hosts"), object(b"pipe:[7]")],
        tables,
        divided: vec![3, 1000],
    }
}

/// A document of descriptors.
pub fn descriptors() -> Result<Vec<Vec<u8>>> {
    Ok(vec![snapshot().encode()])
}

/// Messages of both directions.
pub fn messages() -> Result<Vec<Vec<u8>>> {
    let bodies = [
        control::encode(&Request::Status)?,
        control::encode(&Request::Mark { text: "now".into() })?,
        control::encode(&Response::Error("no".into()))?,
        control::encode(&Response::Meta(meta::to_json(&metadata())?))?,
    ];
    Ok(bodies.into_iter().map(|frame| frame.get(4..).unwrap_or_default().to_vec()).collect())
}

/// A file with blocks of every kind; closed, and as a kill leaves it.
pub fn files() -> Result<Vec<Vec<u8>>> {
    let header = FileHeader {
        compatible: 0,
        incompatible: 0,
        boot_id: [1; 16],
        session: public_id(SECRET),
        number: 1,
        created_wall: 1 << 60,
        created_mono: 5,
        begins: 0,
    };
    let mut file = FileWriter::new(Vec::new(), &header, 1)?;
    file.meta(&metadata(), 5)?;
    file.descriptors(20, &snapshot().encode())?;
    let marks = vec![RingMark::new(Lane::Syscall, 0), RingMark::new(Lane::Sched, 1)];
    file.checkpoint(&Checkpoint { time: 5, rings: marks })?;
    for lane in [Lane::Syscall, Lane::Sched] {
        let of_lane: Vec<Page> = rings()?
            .into_iter()
            .filter_map(|page| Page::new(page).ok())
            .filter(|page| page.lane() == lane)
            .collect();
        file.pages(&of_lane)?;
    }
    let closed = file.finish()?;
    let killed = closed.get(..closed.len() * 4 / 5).unwrap_or_default().to_vec();
    Ok(vec![closed, killed])
}

/// Blocks' columns.
pub fn columns() -> Result<Vec<Vec<u8>>> {
    let pages: Vec<Page> = rings()?.into_iter().filter_map(|page| Page::new(page).ok()).collect();
    let encoded = |lane| {
        let of_lane: Vec<Page> = pages.iter().filter(|page| page.lane() == lane).cloned().collect();
        let mut out = Vec::new();
        flightrec_store::columns::encode(&of_lane, &mut out);
        out
    };
    Ok(vec![encoded(Lane::Syscall), encoded(Lane::Sched)])
}

/// A small machine's memory.
fn image() -> Result<Image> {
    let mut image = Image::new();
    let snapshot: Vec<Bytes> =
        chunks::pack(Lane::Descriptors, public_id(SECRET), 1, HALF_PAGES, &snapshot().encode())
            .ok()
            .context("too large")?
            .iter()
            .map(|page| in_kernel(page, SECRET))
            .collect();
    for (number, page) in (0u64..).zip([description()?, rings()?, snapshot].concat()) {
        image.insert(3 + number * 5 % 64, page);
        image.insert(70 + number, Box::new([number as u8; PAGE_SIZE]));
    }
    Ok(image)
}

/// ELF files, and memory without a header.
pub fn elf() -> Result<Vec<Vec<u8>>> {
    let image = image()?;
    Ok(vec![synthetic::elf(&image, 0x7c8), synthetic::elf(&image, 1 << 14), synthetic::raw(&image)])
}

/// kdump-compressed files, by every codec.
pub fn kdump() -> Result<Vec<Vec<u8>>> {
    let image = image()?;
    let mut all: Vec<Vec<u8>> =
        Codec::ALL.iter().map(|codec| synthetic::kdump(&image, *codec)).collect();
    all.push(synthetic::kdump_of_version(&image, Codec::Zlib, 1));
    Ok(all)
}

/// Either, flattened.
pub fn flattened() -> Result<Vec<Vec<u8>>> {
    let image = image()?;
    Ok(vec![
        synthetic::flatten(&synthetic::kdump(&image, Codec::Lzo), 3000),
        synthetic::flatten(&synthetic::elf(&image, 0), 5000),
    ])
}

/// A file of sums with two blocks.
pub fn sums() -> Result<Vec<Vec<u8>>> {
    let periods = periods();
    let mut file = flightrec_sums::file::Header { number: 1, step: 60, created: 1 << 60 }.encode();
    for periods in periods.chunks(2) {
        file.extend(flightrec_sums::file::block([7; 16], SECRET, periods)?);
    }
    Ok(vec![file])
}

/// The data of a block of sums.
pub fn sums_data() -> Result<Vec<Vec<u8>>> {
    Ok(vec![flightrec_sums::codec::encode(&periods())])
}

/// Four minutes of sums of all tables.
fn periods() -> Vec<Period> {
    let minute = |at: u64| {
        let from = 1_000_000 + at * 60_000_000_000;
        let mut period =
            Period { from, until: from + 60_000_000_000, flags: at as u32, ..Period::default() };
        period.lost[1] = at * 1000;
        for (nr, table) in model::Table::ALL.iter().enumerate() {
            for unit in ["ssh.service", "cron.service", ""] {
                let keys: [&[u8]; 3] = [unit.as_bytes(), b"read", if nr == 1 { b"2" } else { b"" }];
                let cell = period.cell(Group::new(*table, keys));
                (0..40u64).for_each(|value| cell.add((value * value * value) << at));
                cell.extra(nr % 5, at);
            }
        }
        period
    };
    (0..4).map(minute).collect()
}
