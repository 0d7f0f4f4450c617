//! What runs on a CPU at a moment.

use flightrec_format::abi::record::sample::UserFrame;
use flightrec_format::abi::record::stack::Status;
use flightrec_format::decode::Sample;
use flightrec_format::meta::Binary;
use flightrec_format::symbols::Symbols;
use flightrec_reader::binaries::Binaries;

use super::escape::escape;
use super::number::hex;
use super::stack;

/// Digits of a build id that stand for a binary without a name.
const ID: usize = 12;

/// `(SAMPLE) kernel vfs_read <- ksys_read | read [libc.so.6] <- main [cat]`: from the innermost
/// function out, those of the kernel, and after the bar those of the program; `...` where there
/// may be more.
pub(super) fn line(sample: &Sample, symbols: &Symbols, binaries: &Binaries, out: &mut Vec<u8>) {
    out.extend_from_slice(b"(SAMPLE) ");
    out.extend_from_slice(mode(sample).as_bytes());
    match sample.status {
        Status::Taken => {}
        Status::Refused => return out.extend_from_slice(b" (stack refused by the budget)"),
        Status::Unreadable => return out.extend_from_slice(b" (stack not available)"),
    }
    if !sample.kernel.is_empty() {
        out.push(b' ');
        stack::kernel(&sample.kernel, sample.kernel_cut, symbols, out);
    }
    if sample.user.is_empty() {
        return;
    }
    out.extend_from_slice(if sample.kernel.is_empty() { b" " } else { b" | " });
    for (i, frame) in sample.user.iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(b" <- ");
        }
        user(*frame, i == 0, binaries, out);
    }
    if sample.user_cut {
        out.extend_from_slice(b" <- ...");
    }
}

/// `user`: the program ran; `kernel`: the kernel did, for it or in its place.
pub(crate) fn mode(sample: &Sample) -> &'static str {
    if sample.user_mode { "user" } else { "kernel" }
}

/// `main [cat]`; of a function without a name `libfoo.so+0x1234`, by the byte of the file; of an
/// address in no binary `?0x7f00deadbeef`.
pub(crate) fn user(frame: UserFrame, ran: bool, binaries: &Binaries, out: &mut Vec<u8>) {
    let place = binaries.find(frame, ran);
    match (place.function, place.binary) {
        (Some((function, _)), Some(of)) => {
            escape(function.as_bytes(), out);
            out.extend_from_slice(b" [");
            name(of, out);
            out.push(b']');
        }
        (_, Some(of)) => {
            name(of, out);
            out.push(b'+');
            hex(frame.at, out);
        }
        (_, None) if frame.binary != 0 => {
            out.extend_from_slice(b"?+");
            hex(frame.at, out);
        }
        (_, None) => {
            out.push(b'?');
            hex(frame.at, out);
        }
    }
}

/// The file's own name; where it is not known, the beginning of its build id.
fn name(of: &Binary, out: &mut Vec<u8>) {
    let name = of.path.rsplit('/').next().filter(|name| !name.is_empty());
    if let Some(name) = name {
        return escape(name.as_bytes(), out);
    }
    out.push(b'?');
    escape(of.build_id.get(..ID).unwrap_or(&of.build_id).as_bytes(), out);
}

#[cfg(test)]
mod tests {
    use flightrec_format::meta::Meta;

    use super::super::stack::tests::symbols;
    use super::*;

    fn sample(kernel: &[u32], user: &[(u16, u64)]) -> Sample {
        Sample {
            user_mode: kernel.is_empty(),
            status: Status::Taken,
            kernel_cut: false,
            user_cut: false,
            kernel: kernel.into(),
            user: user.iter().map(|(binary, at)| UserFrame { binary: *binary, at: *at }).collect(),
        }
    }

    fn shown(sample: &Sample) -> String {
        let binary = |number, path: &str| Binary {
            number,
            build_id: "0123456789abcdef".into(),
            path: path.into(),
        };
        let binaries = Binaries::new(&Meta {
            binaries: vec![binary(1, "/nonexistent/lib\u{1b}foo.so"), binary(2, "")],
            ..Meta::default()
        });
        let mut out = Vec::new();
        let symbols = symbols(&["wait", "read [xfs]", "do_syscall_64"]);
        line(sample, &symbols, &binaries, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn frames_are_shown_as_far_as_they_are_known() {
        let user = [(1, 0x1234), (2, 7), (0, 0x7f00_1234), (9, 3), (0xffff, 4)];
        let names = "lib\\33foo.so+0x1234 <- ?0123456789ab+0x7 <- ?0x7f001234 <- ?+0x3 <- ?+0x4";
        assert_eq!(shown(&sample(&[], &user)), format!("(SAMPLE) user {names}"));
        let both = Sample { user_cut: true, ..sample(&[110, 210, 310], &user[..1]) };
        assert_eq!(
            shown(&both),
            "(SAMPLE) kernel wait <- read [xfs] | lib\\33foo.so+0x1234 <- ..."
        );
        assert_eq!(shown(&sample(&[110], &[])), "(SAMPLE) kernel wait");
        let refused = Sample { status: Status::Refused, ..sample(&[], &[]) };
        assert_eq!(shown(&refused), "(SAMPLE) user (stack refused by the budget)");
    }
}
