//! The shipped file, wrong files, and sizes on machines small and large.

use std::path::Path;

use proptest::prelude::*;

use super::*;

const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/flightd.toml");
const GIB: u64 = 1 << 30;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("f.toml"), 24 * GIB)
}

/// The error's text; panics when there is none.
fn wrong(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

#[test]
fn the_shipped_file_equals_the_defaults_and_has_every_key() {
    let text = std::fs::read_to_string(SHIPPED).unwrap();
    assert_eq!(parse(&text).unwrap(), Config::default());
    let shipped: toml::Table = text.parse().unwrap();
    assert_eq!(shipped, Config::default().to_toml().parse().unwrap());
    assert_eq!(parse("").unwrap(), Config::default());
}

#[test]
fn to_toml_reads_back() {
    let mut config = Config::default();
    config.rings.sched = Size::new(12_345);
    config.kernel.syscall_programs = SyscallPrograms::TpBtf;
    config.store.file_age = "1h 30m 5s".parse().unwrap();
    config.store.max_age = "7days".parse().unwrap();
    config.access.group = "a \"b\"\n".into();
    config.tracepoint = vec![
        ConfiguredTracepoint { event: "a:b".into(), when: Some("x == 'y'".into()), stack: true },
        ConfiguredTracepoint { event: "a:c".into(), when: None, stack: false },
    ];
    assert_eq!(parse(&config.to_toml()).unwrap(), config);
}

#[test]
fn wrong_keys_name_line_and_the_nearest_right_one() {
    let cases = [
        (
            "[rings]\nsycall = \"1MiB\"\n",
            "f.toml:2: unknown key `rings.sycall`; did you mean `rings.syscall`?",
        ),
        ("\n[recrod]\nown = true\n", "f.toml:2: unknown section `recrod`; did you mean `record`?"),
        (
            "[rings]\nslots = 5\n",
            "f.toml:2: unknown key `rings.slots`; `slots` belongs in section [threads]",
        ),
        (
            "strings = true\n",
            "f.toml:1: unknown key `strings`; `strings` belongs in section [record]",
        ),
        (
            "[threads]\nbananas = 1\n",
            "f.toml:2: unknown key `threads.bananas`; section [threads] has: slots",
        ),
        (
            "[zzzzzzzzz]\n",
            "f.toml:1: unknown section `zzzzzzzzz`; the sections are: access, budget, containers, \
             history, interrupts, kernel, locks, record, rings, sampling, snapshots, stacks, store, \
             threads, tracepoint, triggers",
        ),
        (
            "[[tracepoint]]\nevent = \"a:b\"\n[[tracepoint]]\nwhen = \"x == 1\"\nstak = true\n",
            "f.toml:5: unknown key `tracepoint.stak`; did you mean `tracepoint.stack`?",
        ),
        (
            "record.sched.x = 1\n",
            "f.toml:1: unknown key `record.sched.x`; did you mean `record.sched`?",
        ),
        ("[rings]\nsyscall = \"1MiB\"\nsyscall = \"1MiB\"\n", "f.toml:3: duplicate key"),
    ];
    for (text, expected) in cases {
        let error = wrong(text);
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}

#[test]
fn wrong_values_name_line_key_and_what_to_do() {
    let cases = [
        (
            "[rings]\n\nsyscall = \"0MiB\"",
            "f.toml:3: rings.syscall: 0B is too small: a ring takes at least 8KiB; to leave",
        ),
        ("[rings]\nsched = \"4KiB\"", "f.toml:2: rings.sched: 4KiB is too small"),
        (
            "[[tracepoint]]\nevent = \"a:b\"\n[[tracepoint]]\nevent = \"switch\"",
            "f.toml:4: tracepoint[2].event: \"switch\" is not a tracepoint: write SUBSYSTEM:NAME",
        ),
        (
            "[[tracepoint]]\nevent = \"a:b\"\nwhen = \"x = 1\"",
            "f.toml:3: tracepoint[1].when: after `x` one of ==, !=",
        ),
        (
            "[[tracepoint]]\nevent = \"a:b\"\n[[tracepoint]]\nstack = true\nevent = \"a:b\"",
            "f.toml:5: tracepoint[2].event: a:b has a table already",
        ),
        (
            "[[tracepoint]]\nstack = true",
            "f.toml:1: tracepoint[1]: it has no `event`: write SUBSYSTEM:NAME",
        ),
        ("[[tracepoint]]\nevent = 5", "f.toml:2: tracepoint[1].event: invalid type: integer `5`"),
        (
            "[rings]\ntask = \"25GiB\"",
            "f.toml:2: rings.task: 25GiB is more than this machine's memory of 24GiB",
        ),
        ("[rings]\nmax_total = \"1TiB\"", "f.toml:2: rings.max_total: 1TiB is more than"),
        ("[rings]\nmax_total = \"64KiB\"", "f.toml:2: rings.max_total: 64KiB is too small"),
        (
            "[rings]\nmax_ram_percent = 0",
            "f.toml:2: rings.max_ram_percent: 0 is not within 1 to 90",
        ),
        ("[rings]\nmax_ram_percent = 300", "f.toml:2: rings.max_ram_percent: invalid value"),
        (
            "[rings]\nsyscall = 16",
            "f.toml:2: rings.syscall: invalid type: integer `16`, expected a size in quotes with \
             a unit",
        ),
        (
            "[rings]\nsyscall = \"16\"",
            "f.toml:2: rings.syscall: \"16\" is not a size: write a number and a unit",
        ),
        ("[rings]\nsyscall = \"-1MiB\"", "f.toml:2: rings.syscall: \"-1MiB\" is not a size"),
        (
            "[rings]\nsyscall = \"99999999999999TiB\"",
            "f.toml:2: rings.syscall: \"99999999999999TiB\" is too large",
        ),
        (
            "[record]\nown = \"no\"",
            "f.toml:2: record.own: invalid type: string \"no\", expected a boolean",
        ),
        (
            "[budget]\nper_cpu = \"5\"",
            "f.toml:2: budget.per_cpu: \"5\" is not a share of a CPU: write percent, like \"5%\"",
        ),
        (
            "[budget]\nper_cpu = \"0%\"",
            "f.toml:2: budget.per_cpu: \"0%\" is not within 0.01% to 100%; for no limit",
        ),
        ("[budget]\nper_cpu = \"101%\"", "f.toml:2: budget.per_cpu: \"101%\" is not within"),
        ("[budget]\nper_cpu = \"inf%\"", "f.toml:2: budget.per_cpu: \"inf%\" is not a share"),
        (
            "[budget]\nper_cpu = 5",
            "f.toml:2: budget.per_cpu: invalid type: integer `5`, expected a share in quotes",
        ),
        ("[budget]\nburst = \"0s\"", "f.toml:2: budget.burst: 0s is not within 1s to 1h"),
        (
            "[budget]\nburst = \"1500ms\"",
            "f.toml:2: budget.burst: 1s 500ms is not a whole number of seconds",
        ),
        (
            "[budget]\nburst = 10",
            "f.toml:2: budget.burst: invalid type: integer `10`, expected a span of time",
        ),
        (
            "[budget]\ndegrade_order = [\"strings\"]",
            "f.toml:2: budget.degrade_order: unknown variant `strings`, expected one of \
             `no_strings`, `untimed_exits`, `fewer_arguments`, `sampling`, `quiet_only`, \
             `no_stacks`",
        ),
        (
            "[budget]\ndegrade_order = [\"sampling\", \"sampling\"]",
            "f.toml:2: budget.degrade_order: \"sampling\" is listed twice",
        ),
        ("[threads]\nslots = 0", "f.toml:2: threads.slots: 0 is not within 4 to 4194304"),
        ("[threads]\nslots = -1", "f.toml:2: threads.slots: invalid value"),
        (
            "[kernel]\nsyscall_programs = \"kprobe\"",
            "f.toml:2: kernel.syscall_programs: unknown variant `kprobe`, expected one of",
        ),
        (
            "[kernel]\nbtf = \"vmlinux\"",
            "f.toml:2: kernel.btf: \"vmlinux\" is not an absolute path",
        ),
        ("[access]\ngroup = \"\"", "f.toml:2: access.group: the name is empty"),
        (
            "[store]\nfile_size = \"1KiB\"",
            "f.toml:2: store.file_size: 1KiB is too small: give at least 256KiB",
        ),
        (
            "[store]\nmax_total = \"100MiB\"",
            "f.toml:2: store.max_total: 100MiB is less than two files of 64MiB: raise it",
        ),
        ("[store]\nfile_age = \"0s\"", "f.toml:2: store.file_age: 0s is too short"),
        (
            "[interrupts]\nlonger_than = \"100ns\"",
            "f.toml:2: interrupts.longer_than: 100ns is too short: give at least 1us, or set \
             interrupts = false in [record]",
        ),
        (
            "[locks]\nlonger_than = \"0s\"",
            "f.toml:2: locks.longer_than: 0s is too short: give at least 1us, or set locks = false \
             in [record]",
        ),
        (
            "[rings]\nkernel = \"4KiB\"",
            "f.toml:2: rings.kernel: 4KiB is too small: a ring takes at least 8KiB; to leave these \
             events out, set disk = false, memory = false, interrupts = false, locks = false, \
             network = false, throttling = false, \
             io_uring = false in [record], and hz = 0 in [sampling]",
        ),
        (
            "[store]\nmax_age = \"1m\"",
            "f.toml:2: store.max_age: 1m is less than one file's age of 1h",
        ),
        ("[store]\nlevel = 22", "f.toml:2: store.level: 22 is not within -7 to 19"),
        (
            "[triggers.errors]\nlearn = \"1s\"",
            "f.toml:2: triggers.errors.learn: 1s is not within 10s to 1h",
        ),
        (
            "[store]\nflush_interval = \"1ms\"",
            "f.toml:2: store.flush_interval: 1ms is not within 50ms to 10m",
        ),
        (
            "[store]\nsync_interval = \"2h\"",
            "f.toml:2: store.sync_interval: 2h is not within 50ms to 1h",
        ),
        (
            "[store]\nsync_interval = \"soon\"",
            "f.toml:2: store.sync_interval: \"soon\" is not a span of time",
        ),
        (
            "[store]\nsync_interval = 10",
            "f.toml:2: store.sync_interval: invalid type: integer `10`, expected a span of time",
        ),
        (
            "[store]\nenabled = 1",
            "f.toml:2: store.enabled: invalid type: integer `1`, expected a boolean",
        ),
        (
            "[snapshots]\nbefore = \"1h\"",
            "f.toml:2: snapshots.before: 1h is too long: give at most 10m",
        ),
        (
            "[snapshots]\nmax_size = \"1GiB\"",
            "f.toml:1: snapshots.max_total: 512MiB is less than two snapshots of 1GiB",
        ),
        (
            "[snapshots]\nhook = [\"mail\"]",
            "f.toml:2: snapshots.hook: the program is not an absolute path",
        ),
        ("[snapshots]\nper_hour = 0", "f.toml:2: snapshots.per_hour: 0 is not within 1 to 3600"),
        (
            "[triggers]\ninterval = \"1ms\"",
            "f.toml:2: triggers.interval: 1ms is not within 100ms to 10s",
        ),
        (
            "[triggers.blocked]\nlongr_than = \"1s\"",
            "f.toml:2: unknown key `triggers.blocked.longr_than`; did you mean \
             `triggers.blocked.longer_than`?",
        ),
        (
            "[triggers.errors]\nfactor = 1",
            "f.toml:2: triggers.errors.factor: 1 would fire at the usual rate",
        ),
        (
            "[triggers.errors]\nignore = [\"ENO\"]",
            "f.toml:2: triggers.errors.ignore: there is no error \"ENO\"",
        ),
        (
            "[triggers.slow_call]\nrules = [{ slower_than = \"1s\" }]",
            "f.toml:2: triggers.slow_call.rules: a rule names neither process nor unit",
        ),
        (
            "[triggers.slow_call]\nrules = [{ process = \"a\", calls = [\"frob\"], slower_than = \
             \"1s\" }]",
            "f.toml:2: triggers.slow_call.rules: there is no system call \"frob\"",
        ),
        (
            "[triggers.kernel_log]\nlines = [\"\"]",
            "f.toml:2: triggers.kernel_log.lines: \"\" matches too many kernel messages",
        ),
        ("rings = 5", "f.toml:1: rings: invalid type: integer `5`"),
        ("[rings\n", "f.toml:1: "),
    ];
    for (text, expected) in cases {
        let error = wrong(text);
        assert!(error.starts_with(expected) && !error.contains('\n'), "{text:?}: {error}");
    }
}

#[test]
fn files_that_cannot_be_read() {
    let error = Config::load(Path::new("/nonexistent/flightd.toml")).unwrap_err().to_string();
    assert!(
        error.starts_with("/nonexistent/flightd.toml: No such file") && error.contains("--config"),
        "{error}"
    );
    let error = Config::load(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.contains("longer than 1 MiB"), "{error}");
    let error = Config::load(Path::new("/bin/true")).unwrap_err().to_string();
    assert!(error.contains("valid UTF-8"), "{error}");
}

#[test]
fn the_default_cap_is_no_error_on_a_tiny_machine() {
    assert_eq!(Config::parse("", Path::new("f.toml"), GIB / 4).unwrap(), Config::default());
}

#[test]
fn sizes_in_human_units() {
    for (text, bytes) in
        [("16MiB", 16 << 20), ("1.5 KiB", 1536), ("64kb", 64_000), ("8K", 8000), ("7B", 7)]
    {
        assert_eq!(text.parse::<Size>().unwrap().bytes(), bytes, "{text}");
    }
    for (size, text) in
        [(0, "0B"), (1023, "1023B"), (8192, "8KiB"), (3 << 30, "3GiB"), (1 << 41, "2TiB")]
    {
        assert_eq!(Size::new(size).to_string(), text);
    }
}

#[test]
fn shares_of_a_cpu() {
    for (text, millionths) in
        [("5%", Some(50_000)), ("0.5 %", Some(5000)), ("0.01%", Some(100)), ("off", None)]
    {
        assert_eq!(text.parse::<Share>().unwrap().millionths(), millionths, "{text}");
    }
    for (share, text) in [(50_000, "5%"), (12_345, "1.2345%"), (1_000_000, "100%")] {
        assert_eq!(Share::Millionths(share).to_string(), text);
        assert_eq!(text.parse(), Ok(Share::Millionths(share)));
    }
}

#[test]
fn the_defaults_on_2_64_and_256_cpus_as_documented() {
    let shipped = std::fs::read_to_string(SHIPPED).unwrap();
    for (cpus, ram) in [(2, 16 * GIB), (64, 256 * GIB), (256, 1024 * GIB)] {
        let s = Sizing::compute(&Config::default(), cpus, cpus, ram).unwrap();
        let [syscall, sched, task, kernel] = s.ring_bytes().map(|b| b >> 10);
        let (quiet, mib) = (s.quiet_pages * 4, (s.total + (1 << 19)) >> 20);
        let line = format!(
            "#{cpus:>7}   {syscall:>5} KiB, {sched:>5} KiB, {task:>4} KiB, {kernel:>4} KiB, \
             {quiet:>4} KiB   {mib:>3} MiB"
        );
        assert!(shipped.contains(&line), "config/flightd.toml should say:\n{line}");
        assert!(s.total <= 512 << 20);
        assert_eq!(s.shrunk, cpus > 2);
        assert_eq!((s.slot_pages, s.meta_pages), (2115, 512));
    }
}

#[test]
fn a_share_of_memory_bounds_small_machines() {
    let s = Sizing::compute(&Config::default(), 2, 4, GIB / 2).unwrap();
    assert!(s.shrunk && s.total <= GIB / 2 / 100 * 6, "{s:?}");
    assert_eq!(s.ring_pages[0] / s.ring_pages[1], 2, "in proportion: {s:?}");
}

#[test]
fn a_lane_that_is_off_takes_no_memory() {
    let mut config = Config::default();
    (config.record.syscalls, config.record.tasks) = (false, false);
    let s = Sizing::compute(&config, 2, 2, 16 * GIB).unwrap();
    assert_eq!(s.ring_pages, [2, 2048, 256, 512], "marks still need the task lane");
}

#[test]
fn rings_stop_shrinking_at_their_floor() {
    let mut config = Config::default();
    config.rings.max_total = Size::mib(100);
    config.rings.task = Size::kib(12); // less than the floor: kept as it is
    let s = Sizing::compute(&config, 64, 64, 256 * GIB).unwrap();
    assert_eq!(s.ring_pages[2], 3);
    assert!(s.total <= 100 << 20 && s.total > 99 << 20, "{s:?}");
    config.rings.sched = Size::kib(80); // 1/200 of syscall's: would fall below 64 KiB
    config.rings.max_total = Size::mib(40);
    let s = Sizing::compute(&config, 64, 64, 256 * GIB).unwrap();
    assert_eq!(s.ring_pages[1..], [16, 3, 16]);
    assert!(s.total <= 40 << 20 && s.ring_pages[0] > 16, "{s:?}");
}

#[test]
fn a_cap_without_room_is_an_error_that_names_the_key() {
    let mut config = Config::default();
    config.rings.max_total = Size::mib(20);
    let error = Sizing::compute(&config, 256, 256, 64 * GIB).unwrap_err().to_string();
    assert!(
        error.contains("256 CPUs") && error.contains("105MiB") && error.contains("raise max_total"),
        "{error}"
    );
    config.rings.quiet = Size::new(0);
    let error = Sizing::compute(&config, 256, 256, 64 * GIB).unwrap_err().to_string();
    assert!(error.contains("89MiB"), "{error}");
    let error = Sizing::compute(&Config::default(), 2, 2, GIB / 10).unwrap_err().to_string();
    assert!(error.contains("max_ram_percent"), "{error}");
}

#[test]
fn this_machines_memory() {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let kib: u64 =
        meminfo.lines().next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
    assert_eq!(ram_bytes() >> 10, kib);
}

proptest! {
    #[test]
    fn any_text(text in "[a-z\\[\\]=\".0-9 \n]{0,80}") {
        let _ = parse(&text);
    }

    #[test]
    fn within_the_cap_and_the_floor(
        sizes: [u64; 4], total in 1u64 << 20..1 << 50, percent in 1u8..=90, slots in 4u32..=1 << 22,
        online in 0u32..5000, ram in 1u64 << 20..1 << 50,
    ) {
        let mut config = Config::default();
        let [a, b, c, d] = sizes.map(|s| Size::new(s >> (s % 50)));
        (config.rings.syscall, config.rings.sched) = (a, b);
        (config.rings.task, config.rings.kernel) = (c, d);
        (config.rings.max_total, config.rings.max_ram_percent) = (Size::new(total), percent);
        config.threads.slots = slots;
        if let Ok(s) = Sizing::compute(&config, online, online + 5, ram) {
            prop_assert!(s.total <= total.min(ram / 100 * u64::from(percent)));
            for (pages, asked) in s.ring_pages.iter().zip([a, b, c, d]) {
                let asked = (asked.bytes() / 4096).max(2);
                prop_assert!(u64::from(*pages) >= asked.min(16) && u64::from(*pages) <= asked);
            }
        }
    }
}
