//! A daemon's answer with something in every field, for tests of what is made of it.

use super::*;
use flightrec_format::abi::counts::Counts;
use flightrec_format::control::{LastSnapshot, SnapshotStatus, SumsStatus};

/// Files that are being written.
pub(crate) fn store() -> StoreStatus {
    StoreStatus {
        state: StoreState::Writing,
        directory: "/var/lib/flightrec".into(),
        file: Some("/var/lib/flightrec/0123/20231114T221330Z-000001.flight".into()),
        files: Some(12),
        bytes: 700 << 20,
        oldest: Some(1_699_990_000_000_000_000),
        drained: 69_000_000_000,
        synced: 62_500_000_000,
        written_bytes: 3 << 20,
        rate: 2 << 10,
        written_events: [200, 30, 4, 0],
        lost_events: [5, 0, 1, 0],
        deleted: [(40, 2 << 30), (3, 192 << 20), (0, 0)],
        failures: 2,
        cpu: 25_000_000,
    }
}

/// Sums that are late.
pub(crate) fn sums() -> SumsStatus {
    SumsStatus {
        enabled: true,
        looked: true,
        failed: None,
        added: 66_000_000_000,
        written: 10_000_000_000,
        files: 3,
        bytes: 5 << 20,
        events: 9_000_000,
        unsummed: 120_000_000_000,
        hurries: true,
        cpu: 1_300_000_000,
    }
}

/// A daemon's answer with something in every field.
pub(crate) fn status() -> Status {
    let cpu = |cpu, recorded| CpuTotals {
        cpu,
        recorded,
        events: [
            Counts::first([100, 99]),
            Counts::first([7, 5, 1, 2]),
            Counts::first([3, 2, 1, 1, 1, 1]),
            Counts::first([2, 3, 3]),
        ],
        refused: [[4, 0, 9], [0, 5, 0], [0; 3], [0; 3]],
        no_ring: [0; 4],
        throttled: [Counts::ZERO, Counts::first([3, 2]), Counts::ZERO, Counts::ZERO],
        strings: 17,
        stack_time: 1_500_000,
        looked: 0,
        given: if cpu == 1 { GIVEN_STRINGS | GIVEN_EXIT_TIMES } else { 0 },
    };
    let without = CpuTotals { cpu: 2, no_ring: [1, 2, 3, 0], ..CpuTotals::default() };
    let never = CpuTotals { cpu: 3, ..CpuTotals::default() };
    Status {
        version: "0.1.0".into(),
        session: 0xabc,
        pid: 77,
        recording_since: 10_000_000_000,
        wall_offset: 1_700_000_000_000_000_000,
        daemon_since: 20_000_000_000,
        daemon_cpu: 500_000_000,
        syscall_programs: "tp_btf".into(),
        memory: 50 << 20,
        ring_bytes: [16 << 20, 8 << 20, 1 << 20, 2 << 20],
        held: [12_500_000_000, 60_000_000_000, 60_000_000_000, 60_000_000_000],
        totals: Totals {
            now: 70_000_000_000,
            cpus: vec![cpu(0, true), cpu(1, true), without, never],
            misses: vec![("sys_enter".into(), 2)],
            slot_collisions: 1,
        },
        strings: true,
        threads: 321,
        budget: control::Budget {
            limits: [30_000, 20_000],
            total: 10_000,
            call: 260,
            string: 120,
            sched: 200,
            disk: 250,
            call_floor: 140,
            sched_floor: 100,
            disk_floor: 110,
            exit_time: 35,
            arguments: 5,
            measured: true,
            detached: false,
        },
        store: store(),
        sums: sums(),
        descriptors: DescriptorStatus {
            available: true,
            taken: 69_500_000_000,
            cost: 2_500_000,
            processes: 12,
            descriptors: 345,
            left_out: 6,
            kept: 7,
        },
        snapshots: SnapshotStatus {
            enabled: true,
            pending: 1,
            taken: 3,
            repeated: 1234,
            refused: 5,
            failed: 6,
            kept: 9,
            bytes: 40 << 20,
            last: Some(LastSnapshot {
                id: "20231114T221425Z-blocked".into(),
                time: 65_000_000_000,
                reason: "dd (12) has been blocked\u{1b}[2J".into(),
            }),
        },
        unpinned: None,
        switched_off: Vec::new(),
        lacking: Vec::new(),
        tracepoints: Vec::new(),
    }
}
