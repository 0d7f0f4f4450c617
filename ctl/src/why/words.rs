//! Names of what a recording's numbers stand for, fit to print.

use flightrec_analysis::why::{Names, Told};
use flightrec_format::abi::record::sample::UserFrame;
use flightrec_format::containers::{Container, Containers};
use flightrec_format::decode::{Body, Call, Event};
use flightrec_format::meta::Meta;
use flightrec_format::symbols::Symbols;
use flightrec_reader::binaries::Binaries;
use flightrec_reader::fds::FdNames;
use flightrec_reader::names::{errno, io_op, signal};
use flightrec_reader::pipeline::EventContext;

use crate::text::devices::Devices;
use crate::text::io_uring::name_of_fd;
use crate::text::{Options, Renderer, printable};

/// A backtick of a name: sentences have threads' names between backticks, as has the page.
const GRAVE: &str = r"\140";
/// Most bytes of a call's words.
const CALL_MAX: usize = 400;

/// The names of a recording.
pub struct Dictionary {
    renderer: Renderer,
    symbols: Symbols,
    binaries: Binaries,
    devices: Devices,
    groups: std::collections::BTreeMap<u64, String>,
    containers: Containers,
}

impl Dictionary {
    /// Those that a recording's metadata tell.
    pub fn new(meta: &Meta) -> Self {
        Self {
            renderer: Renderer::new(meta, Options::default()),
            symbols: Symbols::new(meta),
            binaries: Binaries::new(meta),
            devices: Devices::new(meta),
            groups: meta.cgroups.clone(),
            containers: Containers::new(meta),
        }
    }

    /// The container, or pod, that a control group is in, by its path.
    pub(super) fn container(&self, path: &str) -> Option<&Container> {
        let (group, _) = self.groups.iter().find(|(_, of)| word(of) == path)?;
        self.containers.get(*group)
    }

    /// The call, the operation or the program of an event in words.
    pub fn told(&self, event: &Event, known: &EventContext<'_>) -> Told {
        match &event.body {
            Body::Enter(call) | Body::Exit { call, .. } => self.call(call, known.fds),
            Body::Exec { exec, file, args } => {
                let args = args.as_ref().map(|args| args.argument_words(exec.args_len as usize));
                let args = args.filter(|args| !args.is_empty()).map(|args| args.join(&b' '));
                let file = || file.as_ref().map(|file| file.marked().into_owned());
                let text = word(args.or_else(file).unwrap_or_default());
                Told { text: cut(text.trim_end().to_owned()).into(), ..Told::default() }
            }
            _ => {
                let file = known.operation.and_then(|of| name_of_fd(&of.submit, known.fds));
                let object = file.map(|name| cut(word(name)).into_boxed_str());
                Told { text: object.clone().unwrap_or_default(), object, ..Told::default() }
            }
        }
    }

    /// A call in words.
    pub fn call(&self, call: &Call, fds: FdNames<'_>) -> Told {
        let mut text = Vec::new();
        self.renderer.call(call, fds, &mut text);
        // Every byte is ASCII.
        let text = cut(String::from_utf8_lossy(&text).replace('`', GRAVE));
        let open_flags = match text.split_once('(').map(|(name, _)| name) {
            Some("open") => call.args.get(1),
            Some("openat") => call.args.get(2),
            _ => None,
        };
        Told {
            object: object(&text).map(String::into_boxed_str),
            peer: peer(&text).map(Into::into),
            open_flags: open_flags.copied().unwrap_or(0),
            text: text.into(),
        }
    }
}

/// A name, fit to print in a sentence.
fn word(name: impl AsRef<[u8]>) -> String {
    printable(name).replace('`', GRAVE)
}

fn cut(mut text: String) -> String {
    if text.len() > CALL_MAX {
        text.truncate(text.floor_char_boundary(CALL_MAX));
        text.push_str("...");
    }
    text
}

/// What a call in words is about: what its first argument, a descriptor, stands for; or its first
/// path; of a directory and a path below it both.
pub(crate) fn object(text: &str) -> Option<String> {
    let (_, arguments) = text.split_once('(')?;
    let first = arguments.trim_start_matches(|c: char| c.is_ascii_digit());
    let file = first.strip_prefix('<').filter(|_| first.len() < arguments.len()).and_then(|name| {
        let end = [">,", ">)"].into_iter().filter_map(|end| name.find(end)).min()?;
        name.get(..end)
    });
    let path = arguments.split('"').nth(1).filter(|path| !path.ends_with('\\'));
    match (file, path) {
        // What is after a socket's address is no path.
        (Some(file), Some(path)) if !file.ends_with(']') && !path.starts_with('/') => {
            Some(format!("{file}/{path}"))
        }
        (Some(file), _) => Some(file.to_owned()),
        (None, Some(path)) if !arguments.contains("{AF_") => Some(path.to_owned()),
        _ => None,
    }
}

/// The address of a socket among a call's arguments: `127.0.0.1:53`, `/run/socket`.
fn peer(text: &str) -> Option<&str> {
    let (_, address) = text.split_once("{AF_")?;
    let (_, address) = address.split_once(", ")?;
    let end = address.find('}')?;
    Some(address.get(..end)?.trim_start_matches('@').trim_matches('"'))
}

impl Names for Dictionary {
    fn text(&self, bytes: &[u8]) -> String {
        word(bytes)
    }

    fn error(&self, number: i32) -> String {
        errno(number).map_or_else(|| format!("error {number}"), str::to_owned)
    }

    fn kernel(&self, frame: u32) -> String {
        word(self.symbols.name(frame))
    }

    fn user(&self, frame: UserFrame, ran: bool) -> String {
        let place = self.binaries.find(frame, ran);
        let file = place.binary.map(|of| of.path.rsplit('/').next().unwrap_or_default());
        match (place.function, file) {
            (Some((function, _)), Some(file)) => word(format!("{function} [{file}]")),
            (None, Some(file)) => word(format!("{file}+{:#x}", frame.at)),
            _ => format!("?{:#x}", frame.at),
        }
    }

    fn binary(&self, frame: UserFrame) -> Option<String> {
        let path = &self.binaries.find(frame, true).binary?.path;
        Some(word(path.rsplit('/').next().unwrap_or_default()))
    }

    fn device(&self, device: u32) -> String {
        let mut text = Vec::new();
        self.devices.write(device, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    fn signal(&self, number: u32) -> String {
        signal(number).map_or_else(|| format!("signal {number}"), Into::into)
    }

    fn group(&self, cgroup: u64) -> Option<String> {
        self.groups.get(&cgroup).map(word)
    }

    fn is_in_container(&self, cgroup: u64, wanted: &str) -> bool {
        self.containers.is_in(cgroup, wanted)
    }

    fn is_in_pod(&self, cgroup: u64, wanted: &str) -> bool {
        self.containers.is_in_pod(cgroup, wanted)
    }

    fn operation(&self, op: u32) -> String {
        io_op(op).map_or_else(|| format!("operation {op}"), str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_where_its_backtick_stands() {
        assert_eq!(word("x` (1) was `y"), r"x\140 (1) was \140y");
    }

    #[test]
    fn what_a_call_is_about() {
        let of = |text| object(text);
        assert_eq!(of("fsync(3</srv/a b>)").as_deref(), Some("/srv/a b"));
        assert_eq!(
            of("read(3<TCP:[1.2.3.4:5->6.7.8.9:1]>, 0x1, 5)").as_deref(),
            Some("TCP:[1.2.3.4:5->6.7.8.9:1]")
        );
        assert_eq!(of("openat(AT_FDCWD, \"/etc/x\", O_RDONLY)").as_deref(), Some("/etc/x"));
        assert_eq!(of("openat(4</etc>, \"x\", O_RDONLY)").as_deref(), Some("/etc/x"));
        assert_eq!(of("connect(3, {AF_UNIX, \"/run/x\"}, 9)"), None);
        assert_eq!(of("futex(0x7f00, FUTEX_WAIT, 2, NULL)"), None);
        assert_eq!((of("read(3"), of(""), of("x(5</a")), (None, None, None));
    }

    #[test]
    fn who_is_talked_to() {
        assert_eq!(peer("connect(3<UDP:[1]>, {AF_INET, 127.0.0.1:53}, 16)"), Some("127.0.0.1:53"));
        assert_eq!(peer("connect(3, {AF_UNIX, \"/run/x\"}, 9)"), Some("/run/x"));
        assert_eq!((peer("connect(3, {AF_UNIX}, 2)"), peer("{AF_INET, ")), (None, None));
    }
}
