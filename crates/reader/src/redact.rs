//! Strings that are left out of what is read, before anything is made of it.
//!
//! A recording is redacted where it leaves its source, and each event where the pipeline begins: so
//! neither names of descriptors, nor answers, nor any format ever has what is left out. It is set
//! for the process, as [`crate::memory`] is, so that no way through the program can forget it.

use std::sync::OnceLock;

use flightrec_format::abi::file::SocketRecord;
use flightrec_format::abi::pointee::Shape;
use flightrec_format::abi::record::Abi;
use flightrec_format::decode::{Body, Event, Text};
use flightrec_format::descriptors::{Ends, Object, Snapshot};
use flightrec_format::meta::{Meta, Syscall, is_path};
use rustc_hash::FxHashSet;

/// Which strings that programs gave the kernel are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strings {
    /// All.
    #[default]
    All,
    /// Names of files alone.
    Paths,
    /// None. Names of threads, units, devices and functions are no strings of programs.
    None,
}

static KEPT: OnceLock<Strings> = OnceLock::new();

/// Sets which strings are kept. It has no effect once anything was read: to be called before that.
pub fn keep(strings: Strings) {
    let _ = KEPT.set(strings);
}

/// Which strings are kept.
pub fn kept() -> Strings {
    *KEPT.get_or_init(Strings::default)
}

/// `sa_family` of a socket of this machine, whose address is a path.
const UNIX: u16 = libc::AF_UNIX as u16;
/// What stands for the kernel in [`Meta::probed`].
const KERNEL: &str = "kernel";

/// Takes strings out of a recording's own description.
pub(crate) fn meta(meta: &mut Meta, strings: Strings) {
    if strings == Strings::All {
        return;
    }
    // It has patterns of what is recorded, and of what is hidden.
    meta.config.clear();
    if strings == Strings::None {
        meta.binaries.iter_mut().for_each(|binary| binary.path.clear());
        let files = meta.probed.iter_mut().filter(|of| of.path != KERNEL);
        files.for_each(|of| of.path.clear());
    }
}

/// Takes strings out of what descriptors stood for.
pub(crate) fn descriptors(snapshots: &mut [Snapshot], strings: Strings) {
    if strings != Strings::None {
        return;
    }
    for snapshot in snapshots {
        let is_file = |object: &Object| match object {
            // The kernel's own name for what is no file has no slash before it.
            Object::Named(name) => name.starts_with(b"/") || name.ends_with(b" (deleted)"),
            Object::Socket(_) => false,
        };
        let hidden: Vec<bool> = snapshot.objects.iter().map(is_file).collect();
        for table in &mut snapshot.tables {
            let mut files = std::mem::take(&mut table.files);
            files.retain(|file| hidden.get(file.object as usize) != Some(&true));
            table.files = files;
        }
        for object in &mut snapshot.objects {
            match object {
                object if is_file(object) => *object = Object::Named(Box::default()),
                Object::Socket(socket) => {
                    if let Ends::Unix { name, .. } = &mut socket.ends {
                        *name = Box::default();
                    }
                }
                Object::Named(_) => {}
            }
        }
    }
}

/// Takes strings out of events.
#[derive(Debug, Clone)]
pub(crate) struct Events {
    strings: Strings,
    /// Arguments that are paths, if they are kept: the call, and which one.
    paths: FxHashSet<(u8, u16, usize)>,
}

impl Events {
    /// Of a recording; `None`: all are kept.
    pub(crate) fn of(meta: &Meta) -> Option<Self> {
        Self::keeping(meta, kept())
    }

    fn keeping(meta: &Meta, strings: Strings) -> Option<Self> {
        let mut paths = FxHashSet::default();
        if strings == Strings::Paths {
            for (abi, calls) in [(Abi::Native, &meta.native), (Abi::Compat, &meta.compat)] {
                for call in calls {
                    paths.extend(paths_of(call).map(|index| (abi as u8, call.nr, index)));
                }
            }
        }
        (strings != Strings::All).then_some(Self { strings, paths })
    }

    /// Takes them out.
    #[inline]
    pub(crate) fn redact(&self, event: &mut Event) {
        let is_kept = self.strings == Strings::Paths;
        match &mut event.body {
            Body::Enter(call) | Body::Exit { call, .. } if !call.strings.is_empty() => {
                let (abi, nr) = (call.abi as u8, call.nr);
                call.strings.retain(|text| {
                    if text.is_string() {
                        self.paths.contains(&(abi, nr, text.argument()))
                    } else {
                        is_kept || !is_path_of_socket(text)
                    }
                });
            }
            Body::IoSubmit { paths, .. } if !is_kept => paths.clear(),
            Body::Exec { file, args, .. } => {
                *args = None;
                if !is_kept {
                    *file = None;
                }
            }
            Body::Mark(text) => text.bytes = Box::default(),
            Body::Tracepoint(of) => {
                of.bytes = Box::default();
                of.cut = true;
            }
            _ => {}
        }
    }
}

/// Which arguments of a call are paths.
fn paths_of(call: &Syscall) -> impl Iterator<Item = usize> {
    let arguments = call.args.iter().flatten().enumerate();
    arguments.filter(|(_, argument)| is_path(&call.name, argument)).map(|(index, _)| index)
}

/// Whether an argument points to an address that is a path, or may be one.
fn is_path_of_socket(text: &Text) -> bool {
    match text.pointee() {
        Some((Shape::SocketAddress, _, bytes)) => {
            bytes.first_chunk().is_none_or(|family| u16::from_le_bytes(*family) == UNIX)
        }
        Some((Shape::Socket, _, bytes)) => {
            bytes.first_chunk().is_none_or(|of| SocketRecord::from_bytes(of).family == UNIX)
        }
        Some(_) => false,
        // Nobody knows what it is.
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::pointee;
    use flightrec_format::abi::record::StringStatus;
    use flightrec_format::decode::Call;
    use flightrec_format::descriptors::{Descriptor, Table};
    use flightrec_format::meta::{Argument, Binary};

    use super::*;

    fn described() -> Meta {
        let argument = |name: &str| Argument { name: name.into(), ctype: "const char *".into() };
        let arguments = ["dev_name", "dir_name", "type"].map(argument);
        let mount = Syscall { nr: 165, name: "mount".into(), args: Some(arguments.into()) };
        let binaries = vec![Binary { number: 1, build_id: "ab".into(), path: "/x".into() }];
        Meta { native: vec![mount], binaries, config: "mask".into(), ..Meta::default() }
    }

    fn text(index: u8, bytes: &[u8]) -> Text {
        Text { index, status: StringStatus::Whole, bytes: bytes.into() }
    }

    fn address(family: u16) -> Text {
        let head = pointee::head(Shape::SocketAddress as u32, false).to_le_bytes();
        let bytes = [&head[..], &family.to_le_bytes(), b"/run/x"].concat();
        text(pointee::INDEX + 1, &bytes)
    }

    /// What is left of the strings of a call of mount(2).
    fn left(strings: Strings) -> Vec<Text> {
        let texts = vec![
            text(0, b"/dev/vda"),
            text(1, b"/mnt"),
            text(2, b"ext4"),
            address(UNIX),
            address(libc::AF_INET as u16),
        ];
        let call = Call { nr: 165, abi: Abi::Native, nargs: 3, args: [0; 6], strings: texts };
        let mut event = Event { body: Body::Enter(call), ..Event::default() };
        if let Some(events) = Events::keeping(&described(), strings) {
            events.redact(&mut event);
        }
        let Body::Enter(call) = event.body else { panic!("it was a call") };
        call.strings
    }

    #[test]
    fn strings_of_calls() {
        assert_eq!(left(Strings::All).len(), 5);
        let paths = [text(0, b"/dev/vda"), text(1, b"/mnt"), address(UNIX)];
        let inet = address(libc::AF_INET as u16);
        assert_eq!(left(Strings::Paths), [&paths[..], std::slice::from_ref(&inet)].concat());
        assert_eq!(left(Strings::None), [inet]);
    }

    #[test]
    fn what_stands_beside_the_events() {
        let mut of = described();
        meta(&mut of, Strings::Paths);
        assert_eq!((of.config.as_str(), of.binaries[0].path.as_str()), ("", "/x"));
        meta(&mut of, Strings::None);
        assert_eq!(of.binaries[0].path, "");
        let named = |name: &[u8]| Object::Named(name.into());
        let open = |object| Descriptor { fd: object + 3, cloexec: false, object };
        let table = Table { processes: vec![1], files: vec![open(0), open(1)] };
        let objects = vec![named(b"/etc/shadow"), named(b"pipe:[5]")];
        let mut snapshots = [Snapshot { objects, tables: vec![table], ..Snapshot::default() }];
        let before = snapshots.clone();
        descriptors(&mut snapshots, Strings::Paths);
        assert_eq!(snapshots, before);
        descriptors(&mut snapshots, Strings::None);
        assert_eq!(snapshots[0].objects, [named(b""), named(b"pipe:[5]")]);
        assert_eq!(snapshots[0].tables[0].files, [open(1)]);
    }
}
