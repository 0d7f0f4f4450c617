//! Against the running kernel's BTF, damaged copies of it, and small hostile ones.

use std::path::Path;

use flightrec_format::architecture::Architecture;
use proptest::prelude::*;

use super::*;

const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

fn vmlinux() -> Vec<u8> {
    std::fs::read(VMLINUX)
        .unwrap_or_else(|e| panic!("this test needs a kernel with BTF: {VMLINUX}: {e}"))
}

/// Builds BTF out of types (as words) and names; the first name stands at offset 1.
fn build(types: &[u32], names: &[&str]) -> Vec<u8> {
    let mut strings = vec![0];
    for name in names {
        strings.extend_from_slice(name.as_bytes());
        strings.push(0);
    }
    let mut out = vec![0x9f, 0xeb, 1, 0];
    for word in [24, 0, types.len() as u32 * 4, types.len() as u32 * 4, strings.len() as u32] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend(types.iter().flat_map(|w| w.to_le_bytes()));
    out.extend(strings);
    out
}

/// BTF with a typedef of each of these names, and a function of each of those.
pub(crate) fn with_names(typedefs: &[&str], functions: &[&str]) -> Btf {
    let names: Vec<&str> = typedefs.iter().chain(functions).copied().collect();
    let mut at = 1;
    let mut types = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let kind = if i < typedefs.len() { 8 } else { 12 };
        types.extend([at, info(kind, 0), 0]);
        at += name.len() as u32 + 1;
    }
    Btf::parse(&build(&types, &names)).unwrap()
}

const fn info(kind: u32, vlen: u32) -> u32 {
    kind << 24 | vlen
}

#[test]
fn the_running_kernels_members() {
    let btf = Btf::read(Path::new(VMLINUX)).unwrap();
    let o = read_offsets(&btf, Architecture::HERE).unwrap();
    assert_eq!(o.tgid, o.pid + 4);
    assert_eq!(o.arg_end, o.arg_start + 8);
    if Architecture::HERE == Architecture::X86_64 {
        assert_eq!(o.cpu, o.compat_flags + 4);
        // Where debuggers and core dumps know them (arch/x86/include/uapi/asm/ptrace.h).
        assert_eq!(o.arguments, [112, 104, 96, 56, 72, 64]);
        assert_eq!(o.compat_arguments, [40, 88, 96, 104, 112, 32]);
        assert_eq!(
            [o.call_number, o.function_result, o.stack_pointer, o.mode],
            [120, 80, 152, 136]
        );
    }
    assert!(o.comm > o.pid && o.start_time > o.pid && o.comm.is_multiple_of(8), "{o:?}");
    assert!(
        btf.has_struct("task_struct") && !btf.has_struct("task_struc") && !btf.has_struct("pid_t")
    );
    // void *__data, bool preempt, prev, next, prev_state
    assert_eq!(btf.func_proto_params("btf_trace_sched_switch"), Some(5));
    assert_eq!(btf.func_proto_params("btf_trace_no_such"), None);
    assert_eq!(btf.func_proto_params("pid_t"), None);
}

#[test]
fn the_values_measured_on_the_development_machine() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let btf = Btf::read(Path::new(VMLINUX)).unwrap();
    let o = read_offsets(&btf, Architecture::HERE).unwrap();
    let found = [o.state, o.prio, o.pid, o.tgid, o.comm];
    if release.starts_with("6.18.") && release.contains("-fc-") {
        assert_eq!(found, [24, 108, 1264, 1268, 1752]);
    } else {
        // Other kernels lay the struct out differently, but never in another order of these.
        assert!(found.is_sorted(), "{found:?}");
    }
}

#[test]
fn a_member_that_the_kernel_lacks_is_named() {
    let mut data = vmlinux();
    let whole = b"\0prio\0";
    let at = data
        .windows(whole.len())
        .position(|w| w == whole)
        .expect("the name stands once in the names");
    data[at + 1] = b'P';
    let error = read_offsets(&Btf::parse(&data).unwrap(), Architecture::HERE).unwrap_err();
    assert!(matches!(&error, BtfError::Missing { what } if what == "task_struct.prio"), "{error}");
    assert!(error.to_string().contains("this kernel's BTF has no task_struct.prio"), "{error}");
    let error = Btf::parse(&data).unwrap().member_offset("no_such", "x").unwrap_err();
    assert!(error.to_string().contains("no struct no_such"), "{error}");
}

#[test]
fn tracepoints_and_iterators_by_name() {
    let btf = with_names(&["btf_trace_here", "gone"], &["bpf_iter_task", "btf_trace_function"]);
    assert_eq!(["here", "her", "gone", "function"].map(|name| btf.has_tracepoint(name)), {
        [true, false, false, false]
    });
    assert!(btf.has_iterator("task") && !btf.has_iterator("task_file"));
    let running = Btf::read(Path::new(VMLINUX)).unwrap();
    assert!(running.has_tracepoint("sched_switch") && !running.has_tracepoint("no_such"));
    assert!(running.has_iterator("task_file") && !running.has_iterator("no_such"));
}

#[test]
fn a_group_is_there_as_a_whole_or_not() {
    let mut data = vmlinux();
    let btf = Btf::parse(&data).unwrap();
    let words = (FILES.read)(&btf).unwrap();
    assert_eq!(words.len() * 4, size_of::<flightrec_format::abi::file::FileOffsets>());
    // The first member, and the last.
    assert_eq!(words[0], btf.member_offset("task_struct", "files").unwrap());
    assert_eq!(words[words.len() - 1], btf.member_offset("file", "private_data").unwrap());
    let whole = b"\0unix_sock\0";
    let at = data.windows(whole.len()).position(|w| w == whole).expect("Unix sockets");
    data[at + 1] = b'U';
    let btf = Btf::parse(&data).unwrap();
    let error = (FILES.read)(&btf).unwrap_err();
    assert_eq!(error.reason(), "this kernel's BTF has no struct unix_sock");
    // The required ones do not suffer.
    read_offsets(&btf, Architecture::HERE).unwrap();
}

#[test]
fn a_copy_cut_anywhere_is_refused() {
    let data = vmlinux();
    for keep in (0..64).chain((64..data.len()).step_by(data.len() / 97)).chain([data.len() - 1]) {
        let error = Btf::parse(&data[..keep]).unwrap_err();
        assert!(matches!(error, BtfError::Malformed(_)), "{keep}: {error}");
    }
}

#[test]
fn no_file_and_wrong_files() {
    let error = Btf::read(Path::new("/nonexistent/btf")).unwrap_err().to_string();
    assert!(
        error.contains("/nonexistent/btf") && error.contains("CONFIG_DEBUG_INFO_BTF"),
        "{error}"
    );
    let error = Btf::read(Path::new("/proc")).unwrap_err();
    assert!(matches!(error, BtfError::Read { .. }), "{error}");
    let error = Btf::parse(b"\xeb\x9f\x01\0aaaaaaaaaaaaaaaaaaaaaaaa").unwrap_err().to_string();
    assert!(error.contains("big-endian"), "{error}");
}

#[test]
fn unnamed_members_qualifiers_and_bit_fields() {
    // 1: struct outer { int a; union { struct inner b; const inner_t c; }; int d:3; }
    // 2: the union, 3: struct inner { int x; int y; }, 4: int, 5: const -> 6, 6: typedef inner_t ->
    // 3
    let names = ["outer", "a", "b", "c", "d", "inner", "x", "y", "inner_t"];
    let at = |n: &str| {
        1 + names.iter().take_while(|m| **m != n).map(|m| m.len() as u32 + 1).sum::<u32>()
    };
    let types = [
        &[at("outer"), info(4, 3) | 1 << 31, 24][..],
        &[at("a"), 4, 0, 0, 2, 64, at("d"), 4, 3 << 24 | 0xa0],
        &[0, info(5, 2), 16, at("b"), 3, 0, at("c"), 5, 64],
        &[at("inner"), info(4, 2), 8, at("x"), 4, 0, at("y"), 4, 32],
        &[0, info(1, 0), 4, 32],
        &[0, info(10, 0), 6],
        &[at("inner_t"), info(8, 0), 3],
    ]
    .concat();
    let btf = Btf::parse(&build(&types, &names)).unwrap();
    assert_eq!(btf.member_offset("outer", "a").unwrap(), 0);
    assert_eq!(btf.member_offset("outer", "b").unwrap(), 8);
    assert_eq!(btf.member_offset("outer", "b.y").unwrap(), 12);
    assert_eq!(btf.member_offset("outer", "c.y").unwrap(), 20);
    assert!(matches!(btf.member_offset("outer", "a.y"), Err(BtfError::Missing { .. })));
    assert!(matches!(btf.member_offset("outer", ""), Err(BtfError::Missing { .. })));
    assert!(matches!(btf.member_offset("outer", "d"), Err(BtfError::BitField { .. })));
    // Bit 160 is the first of the u32 at 20.
    assert_eq!(btf.bit("outer", "d").unwrap(), (20, 1));
    assert!(matches!(btf.bit("outer", "a"), Err(BtfError::Missing { .. })), "no bit field");
    assert!(matches!(btf.bit("outer", "x"), Err(BtfError::Missing { .. })));
}

#[test]
fn variables_of_each_cpu_are_in_their_section() {
    // 1: int, 2: VAR here, 3: VAR elsewhere, 4: DATASEC .data..percpu { here at 64 },
    // 5: DATASEC .other { elsewhere at 8 }
    let names = ["here", "elsewhere", ".data..percpu", ".other"];
    let [here, elsewhere, section, other] = [1, 6, 16, 30];
    let types = [
        &[0, info(1, 0), 4, 32][..],
        &[here, info(14, 0), 1, 1],
        &[elsewhere, info(14, 0), 1, 1],
        &[section, info(15, 1), 100, 2, 64, 4],
        &[other, info(15, 1), 100, 3, 8, 4],
    ]
    .concat();
    let btf = Btf::parse(&build(&types, &names)).unwrap();
    assert_eq!(btf.per_cpu_variable("here").unwrap(), 64);
    let error = btf.per_cpu_variable("elsewhere").unwrap_err().reason();
    assert_eq!(error, "this kernel's BTF has no variable elsewhere of each CPU");
    assert!(with_names(&["here"], &[]).per_cpu_variable("here").is_err());
}

#[test]
fn where_the_running_kernel_has_the_context() {
    let btf = Btf::read(Path::new(VMLINUX)).unwrap();
    let words = (CONTEXT.read)(&btf).unwrap();
    assert_eq!(words[0], btf.member_offset("task_struct", "se.cfs_rq").unwrap());
    let at = |name| btf.per_cpu_variable(name);
    let count = at("__preempt_count").or_else(|_| at("pcpu_hot")).unwrap();
    assert!(words[2].wrapping_add(at("runqueues").unwrap()).wrapping_sub(count) < 64, "{words:?}");
    let io_wait = (IO_WAIT.read)(&btf).unwrap();
    assert!(io_wait[0].is_multiple_of(4) && io_wait[1].is_power_of_two(), "{io_wait:?}");
}

#[test]
fn types_that_contain_themselves_end() {
    // 1: struct s of 1000 unnamed members, each of type s: without a bound, 1000^32 steps.
    let mut types = vec![1, info(4, 1000), 8];
    types.extend((0..1000).flat_map(|_| [0, 1, 0]));
    let btf = Btf::parse(&build(&types, &["s"])).unwrap();
    assert!(matches!(btf.member_offset("s", "x"), Err(BtfError::Missing { .. })));
    // 1: typedef t -> 1
    let btf = Btf::parse(&build(&[1, info(8, 0), 1], &["t"])).unwrap();
    assert_eq!(btf.func_proto_params("t"), None);
}

/// Asks everything; only that it ends, without a panic, counts.
fn ask(data: &[u8]) {
    if let Ok(btf) = Btf::parse(data) {
        let _ = btf.member_offset("s", "x.y");
        let _ = btf.func_proto_params("t");
        let _ = read_offsets(&btf, Architecture::HERE);
        let _ = (FILES.read)(&btf);
        let _ = btf.has_tracepoint("t") || btf.has_iterator("t");
    }
}

proptest! {
    #[test]
    fn any_bytes(data: Vec<u8>) {
        ask(&data);
    }

    #[test]
    fn any_types(
        kinds in prop::collection::vec(
            (0u32..20, 0u32..4, any::<bool>(), any::<[u8; 12]>()),
            0..60,
        ),
    ) {
        let mut types = Vec::new();
        for (kind, vlen, flag, tail) in kinds {
            let info = info(kind, vlen) | u32::from(flag) << 31;
            types.extend([u32::from(tail[0] & 3), info, u32::from(tail[1] & 31)]);
            types.extend(tail.map(u32::from));
        }
        ask(&build(&types, &["s", "t", "x", "y"]));
    }

    #[test]
    fn any_header(words: [u32; 5], rest: Vec<u8>) {
        let mut data = vec![0x9f, 0xeb, 1, 0];
        data.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        data.extend(rest);
        ask(&data);
    }
}
