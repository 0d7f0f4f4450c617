//! Minutes of a machine that does not exist: the same ones each time.

use flightrec_sums::model::{Cell, Group, Period, Table, bucket};

pub(crate) const BOOT: [u8; 16] = [0xb0; 16];
pub(crate) const SESSION: u64 = 0x5e55;
pub(crate) const MINUTE: u64 = 60_000_000_000;
/// A full hour, ns since 1970.
pub(crate) const WALL: i64 = 1_800_000_000_000_000_000;

/// A sequence of numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most.max(1)
    }

    /// A duration, as calls have them: most about 2^`middle` ns, some much longer.
    fn duration(&mut self, middle: u32) -> u64 {
        let power = middle + (self.below(4) as u32) + if self.below(50) == 0 { 6 } else { 0 };
        (1 << power) + self.below(1 << power)
    }
}

/// Adds so many durations: of a dozen different ones at most.
fn add(cell: &mut Cell, numbers: &mut Numbers, n: u64, middle: u32) {
    let different = n.min(12);
    for at in 0..different {
        let value = numbers.duration(middle);
        cell.add(value);
        let more = (n - at - 1) / different;
        let of = cell.buckets.iter_mut().find(|(of, _)| *of == bucket(value)).unwrap();
        of.1 += more;
        cell.count += more;
        cell.sum += more * value;
    }
}

const CALLS: [&str; 25] = [
    "read",
    "write",
    "close",
    "openat",
    "newfstatat",
    "epoll_wait",
    "futex",
    "recvfrom",
    "sendto",
    "mmap",
    "munmap",
    "poll",
    "ioctl",
    "getpid",
    "clock_nanosleep",
    "accept4",
    "fsync",
    "pread64",
    "pwrite64",
    "lseek",
    "brk",
    "madvise",
    "rt_sigaction",
    "rt_sigprocmask",
    "fcntl",
];
const REASONS: [(&str, &str); 6] = [
    ("waits for events (epoll_wait)", "idle"),
    ("waits for a time", "idle"),
    ("waits for a user-space lock", ""),
    ("waits for a disk", ""),
    ("waits for a child", "idle"),
    ("in read", ""),
];

/// One minute of a machine of so many units. A fifth of them is busy: 25 kinds of call, thousands
/// of them; the others do what idle services do: a few calls of a few kinds, most minutes.
pub(crate) fn minute(at: u64, units: u64) -> Period {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 ^ at.wrapping_mul(0x1234_5678_9abc_def1));
    let mut period = Period {
        from: at * MINUTE,
        until: (at + 1) * MINUTE,
        wall: WALL + (at * MINUTE) as i64,
        ..Period::default()
    };
    for unit in 0..units {
        let name = format!("service-{unit:03}.service");
        let name = name.as_bytes();
        let is_busy = unit % 5 == 0;
        if !is_busy && numbers.below(3) == 0 {
            continue;
        }
        let calls = if is_busy { CALLS.len() as u64 } else { 2 + unit % 3 };
        for call in 0..calls {
            let name_of = CALLS[call as usize].as_bytes();
            let cell = period.cell(Group::new(Table::Calls, [name, name_of, b""]));
            let n = if is_busy { 20 + numbers.below(60) } else { 1 + numbers.below(6) };
            add(cell, &mut numbers, n, 9 + call as u32 % 8);
            if call == 3 {
                cell.extra(0, n / 4);
                let cell = period.cell(Group::new(Table::Errors, [name, name_of, b"2"]));
                cell.count = n / 4;
            }
            if call < 2 {
                let op: &[u8] = if call == 0 { b"read" } else { b"write" };
                let cell = period.cell(Group::new(Table::Bytes, [name, name_of, op]));
                for _ in 0..n.min(12) {
                    let bytes = numbers.below(8192);
                    cell.add(bytes);
                    cell.extra(call as usize, bytes);
                }
            }
        }
        let cell = period.cell(Group::new(Table::RunQueue, [name, b"", b""]));
        add(cell, &mut numbers, if is_busy { 60 } else { 4 }, 11);
        cell.extra(0, numbers.duration(if is_busy { 30 } else { 20 }));
        for (reason, idle) in REASONS.iter().take(if is_busy { 6 } else { 2 }) {
            let keys = [name, reason.as_bytes(), idle.as_bytes()];
            let cell = period.cell(Group::new(Table::Waits, keys));
            add(cell, &mut numbers, if is_busy { 40 } else { 3 }, 18);
        }
        if is_busy {
            let cell = period.cell(Group::new(Table::Block, [b"vda", b"write", name]));
            for _ in 0..10 {
                cell.add(numbers.duration(16));
                cell.extra(0, 4096);
            }
        }
    }
    for cpu in 0..8u8 {
        let cpu = [b'0' + cpu];
        let cell = period.cell(Group::new(Table::Cpus, [&cpu, b"", b""]));
        add(cell, &mut numbers, 100, 11);
        cell.extra(0, numbers.duration(32));
    }
    period
}

/// A day of a machine of 100 units.
pub(crate) fn day(at: u64) -> impl Iterator<Item = Period> {
    (at * 1440..(at + 1) * 1440).map(|at| minute(at, 100))
}
