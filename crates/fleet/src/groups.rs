//! What hosts of each role do: groups of sums, how often, and how long.

use flightrec_sums::model::{Cell, Group, Table};

use crate::host::{Host, Role};

/// A group of sums.
pub(crate) struct Spec {
    table: Table,
    keys: [&'static str; 3],
    /// How often in a minute.
    rate: u64,
    /// Half of the values are of this power of two.
    power: u32,
}

const fn spec(table: Table, keys: [&'static str; 3], rate: u64, power: u32) -> Spec {
    Spec { table, keys, rate, power }
}

/// Of 1000 values, how many are of the power of two that most are of, and of those above it.
const SPREAD: [u64; 5] = [500, 300, 150, 45, 5];
/// Error numbers.
const ENOENT: &str = "2";
const EAGAIN: &str = "11";
const ENOSPC: &str = "28";
const ECONNREFUSED: &str = "111";

/// What all hosts do.
const ALL: [Spec; 9] = [
    spec(Table::Cpus, ["0", "", ""], 90_000, 14),
    spec(Table::Cpus, ["1", "", ""], 80_000, 14),
    spec(Table::Calls, ["sshd.service", "read", ""], 40, 12),
    spec(Table::Calls, ["node-exporter.service", "openat", ""], 900, 13),
    spec(Table::Calls, ["node-exporter.service", "read", ""], 1800, 11),
    spec(Table::RunQueue, ["node-exporter.service", "", ""], 300, 14),
    spec(Table::Waits, ["node-exporter.service", "event on its descriptors", "idle"], 60, 30),
    spec(Table::Errors, ["sshd.service", "openat", ENOENT], 3, 0),
    spec(Table::Bytes, ["node-exporter.service", "read", "read"], 1800, 9),
];

const WEB: [Spec; 15] = [
    spec(Table::Calls, ["nginx.service", "epoll_wait", ""], 60_000, 21),
    spec(Table::Calls, ["nginx.service", "sendfile", ""], 20_000, 15),
    spec(Table::Calls, ["nginx.service", "openat", ""], 20_000, 13),
    spec(Table::Calls, ["app.service", "recvfrom", ""], 40_000, 18),
    spec(Table::Calls, ["app.service", "connect", ""], 2000, 18),
    spec(Table::Calls, ["app.service", "fsync", ""], 60, 21),
    spec(Table::RunQueue, ["nginx.service", "", ""], 50_000, 14),
    spec(Table::RunQueue, ["app.service", "", ""], 50_000, 14),
    spec(Table::Waits, ["nginx.service", "event on its descriptors", "idle"], 60_000, 21),
    spec(Table::Waits, ["app.service", "receiving from a socket", ""], 40_000, 18),
    spec(Table::Waits, ["app.service", "futex", ""], 30_000, 20),
    spec(Table::Errors, ["app.service", "connect", ECONNREFUSED], 200, 0),
    spec(Table::Errors, ["nginx.service", "openat", ENOENT], 90, 0),
    spec(Table::Block, ["DISK", "write", "app.service"], 600, 17),
    spec(Table::Bytes, ["nginx.service", "sendfile", "write"], 20_000, 14),
];

const DATABASE: [Spec; 11] = [
    spec(Table::Calls, ["postgresql.service", "pread64", ""], 30_000, 14),
    spec(Table::Calls, ["postgresql.service", "fsync", ""], 1200, 21),
    spec(Table::Calls, ["postgresql.service", "openat", ""], 900, 13),
    spec(Table::RunQueue, ["postgresql.service", "", ""], 40_000, 14),
    spec(Table::Waits, ["postgresql.service", "disk: fsync", ""], 1200, 21),
    spec(Table::Waits, ["postgresql.service", "lock of a file", ""], 400, 20),
    spec(Table::Errors, ["backup.service", "openat", ENOENT], 20, 0),
    spec(Table::Errors, ["backup.service", "write", ENOSPC], 0, 0),
    spec(Table::Block, ["DISK", "read", "postgresql.service"], 9000, 17),
    spec(Table::Block, ["DISK", "write", "postgresql.service"], 6000, 17),
    spec(Table::Bytes, ["postgresql.service", "pread64", "read"], 30_000, 13),
];

const CACHE: [Spec; 7] = [
    spec(Table::Calls, ["redis.service", "read", ""], 90_000, 11),
    spec(Table::Calls, ["redis.service", "write", ""], 90_000, 13),
    spec(Table::Calls, ["redis.service", "fsync", ""], 60, 21),
    spec(Table::RunQueue, ["redis.service", "", ""], 40_000, 14),
    spec(Table::Waits, ["redis.service", "event on its descriptors", "idle"], 40_000, 20),
    spec(Table::Errors, ["redis.service", "read", EAGAIN], 9000, 0),
    spec(Table::Block, ["DISK", "write", "redis.service"], 300, 17),
];

const BATCH: [Spec; 9] = [
    spec(Table::Calls, ["job.service", "read", ""], 50_000, 14),
    spec(Table::Calls, ["job.service", "openat", ""], 8000, 13),
    spec(Table::Calls, ["job.service", "fsync", ""], 200, 21),
    spec(Table::RunQueue, ["job.service", "", ""], 90_000, 15),
    spec(Table::Waits, ["job.service", "disk: read", ""], 9000, 17),
    spec(Table::Waits, ["job.service", "reading a pipe", ""], 5000, 18),
    spec(Table::Errors, ["job.service", "openat", ENOENT], 700, 0),
    spec(Table::Block, ["DISK", "read", "job.service"], 12_000, 17),
    spec(Table::Bytes, ["job.service", "read", "read"], 50_000, 15),
];

/// What hosts of a role do.
pub(crate) fn of(role: Role) -> impl Iterator<Item = &'static Spec> {
    let own: &[Spec] = match role {
        Role::Web => &WEB,
        Role::Database => &DATABASE,
        Role::Cache => &CACHE,
        Role::Batch => &BATCH,
    };
    ALL.iter().chain(own)
}

impl Spec {
    /// The group.
    pub(crate) fn group(&self, host: &Host) -> Group {
        let disk = if host.turns { "sda" } else { "nvme0n1" };
        let key = |key: &'static str| if key == "DISK" { disk } else { key };
        Group::new(self.table, self.keys.map(|of| key(of).as_bytes()))
    }

    /// What it comes to in so many minutes; `random`: of that host and time. `None`: nothing.
    pub(crate) fn cell(&self, host: &Host, minutes: u64, random: u64) -> Option<Cell> {
        let is = |unit: &str, call: &str| self.keys[0] == unit && self.keys[1] == call;
        let is_sync = self.keys[1] == "fsync" || self.keys[1] == "disk: fsync";
        let mut power = self.power;
        power += match self.table {
            Table::Calls | Table::Waits if is_sync && host.slow_disk => 6,
            Table::Block if host.slow_disk => 6,
            Table::Block if host.turns => 5,
            Table::Calls if host.deployed && is("app.service", "recvfrom") => 3,
            Table::Calls if host.outlier && self.keys[1] == "openat" => 5,
            Table::Cpus if host.crowded => 6,
            _ => 0,
        };
        let rate = match self.table {
            Table::Errors if host.full && self.keys[2] == ENOSPC => 300,
            _ => self.rate,
        };
        // A tenth more or less.
        let count = rate * minutes * (900 + random % 200) / 1000;
        if count == 0 {
            return None;
        }
        let mut cell = Cell { count, ..Cell::default() };
        if self.table == Table::Errors {
            return Some(cell);
        }
        let mut left = count;
        for (at, share) in SPREAD.into_iter().enumerate().rev() {
            let n = if at == 0 { left } else { count * share / 1000 };
            left -= n;
            if n == 0 {
                continue;
            }
            let least = 1_u64 << (power + at as u32);
            let bucket = (power + at as u32 + 1) as u8;
            cell.buckets.insert(0, (bucket, n));
            // In the middle of what the bucket takes.
            cell.sum += n * (least + least / 2);
            cell.max = cell.max.max(least + least / 2 + random % (least / 2));
        }
        match self.table {
            Table::RunQueue | Table::Cpus => cell.extra(0, count * 200_000),
            Table::Block => {
                cell.extra(0, count * 16_384);
                cell.extra(1, count * 9000);
                cell.extra(2, count);
            }
            Table::Bytes => {
                let is_read = self.keys[2] == "read";
                let sum = cell.sum;
                cell.extra(usize::from(!is_read), sum);
            }
            Table::Calls | Table::Errors | Table::Waits => {}
        }
        Some(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Fleet;

    #[test]
    fn cells_add_up() {
        let fleet = Fleet { hosts: 40, hours: 4 };
        for number in 0..40 {
            let host = fleet.host(number, 3);
            for (n, spec) in of(host.role).enumerate() {
                let Some(cell) = spec.cell(&host, 10, 77 * n as u64) else { continue };
                let values: u64 = cell.buckets.iter().map(|(_, n)| n).sum();
                assert!(cell.buckets.is_empty() || values == cell.count, "{cell:?}");
                assert!(cell.buckets.is_sorted(), "{cell:?}");
                assert!(cell.max <= cell.sum, "{cell:?}");
            }
        }
    }
}
