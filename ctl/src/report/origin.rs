//! What the beginning of a system call tells of a wait in it: what it is about.

use std::borrow::Cow;
use std::rc::Rc;

use flightrec_analysis::groups::Shared;
use flightrec_format::abi::record::Abi;
use flightrec_format::decode::{Call, Text};
use flightrec_format::meta::{Argument, Meta, is_descriptor, is_path};

use flightrec_reader::fds::FdNames;
use flightrec_reader::names::Calls;

/// What a system call is about.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// What its first descriptor stands for, or its first path; `None`: not known, or there was no
    /// room for it.
    pub object: Option<Rc<[u8]>>,
    /// Its second argument, which says what `fcntl` does.
    pub command: Option<u64>,
}

/// Arguments of a call that say what it is about.
#[derive(Debug, Clone, Copy, Default)]
struct Places {
    fd: Option<u8>,
    path: Option<u8>,
}

/// Of which calls which arguments say what they are about.
#[derive(Debug, Clone, Default)]
pub(super) struct Abouts {
    native: Box<[Places]>,
    compat: Box<[Places]>,
}

impl Abouts {
    /// Of a recording.
    pub(super) fn new(meta: &Meta) -> Self {
        let calls = Calls::new(meta);
        let table = |abi| {
            let of = |call: &Option<flightrec_reader::names::Call<'_>>| {
                let arguments = call.and_then(|call| call.arguments).unwrap_or_default();
                let name = call.map_or("", |call| call.name);
                let place = |is: &dyn Fn(&Argument) -> bool| {
                    arguments.iter().take(6).position(is).and_then(|at| u8::try_from(at).ok())
                };
                Places {
                    fd: place(&|of| is_descriptor(name, of)),
                    path: place(&|of| is_path(name, of)),
                }
            };
            calls.table(abi).iter().map(of).collect()
        };
        Self { native: table(Abi::Native), compat: table(Abi::Compat) }
    }

    fn places(&self, call: &Call) -> Places {
        let table = match call.abi {
            Abi::Native | Abi::X32 => &self.native,
            Abi::Compat => &self.compat,
        };
        table.get(usize::from(call.nr)).copied().unwrap_or_default()
    }

    /// What a call is about: what its first descriptor stands for, or its first path.
    pub(super) fn object<'a>(&self, call: &'a Call, fds: FdNames<'a>) -> Option<Cow<'a, [u8]>> {
        let Places { fd, path } = self.places(call);
        let argument = |at: u8| call.args.get(usize::from(at)).filter(|_| at < call.nargs);
        let by_fd = fd.and_then(argument).and_then(|fd| fds.get(*fd as i32));
        by_fd.map(Cow::Borrowed).or_else(|| {
            let is_path = |at: u8| {
                let mut strings = call.strings.iter();
                let text = strings.find(|text| text.is_string() && text.index == at);
                text.map(Text::marked).filter(|bytes| !bytes.is_empty())
            };
            path.and_then(is_path)
        })
    }

    /// The same, for a stretch to keep.
    pub(super) fn told(&self, call: &Call, fds: FdNames<'_>, shared: &mut Shared) -> Told {
        let object = self.object(call, fds).and_then(|object| shared.get(&object));
        let command = call.args.get(1).copied().filter(|_| call.nargs > 1);
        Told { object, command }
    }
}
