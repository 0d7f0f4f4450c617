//! Sums by group, as the user wants them grouped.

use std::sync::Arc;

use flightrec_analysis::groups::{Groups, KEYS, Keys, Ranked, Sum, UNKNOWN, Words};
use flightrec_reader::names::errno;
use flightrec_reader::{Container, Session, unit};

use super::table::TableWords;
use super::{Facts, Key, Shape};
use crate::text::devices::Devices;

/// Sums by group.
pub struct Sums {
    /// The names of partners.
    pub partners: Words,
    /// The words of each key: where there are too many paths, commands still have names.
    words: [Words; KEYS],
    groups: Groups,
    by: Vec<Key>,
    session: Option<Arc<Session>>,
    devices: Devices,
}

impl Sums {
    /// None yet; of the keys in `by`, the first [`KEYS`] count.
    pub fn new(shape: &Shape, by: &[Key]) -> Self {
        Self {
            partners: Words::default(),
            words: <[Words; KEYS]>::default(),
            groups: Groups::new(shape.order),
            by: by.iter().take(KEYS).copied().collect(),
            session: None,
            devices: Devices::default(),
        }
    }

    /// What comes next is of this recording.
    pub fn go_on(&mut self, session: Arc<Session>) {
        self.devices = Devices::new(session.meta());
        self.session = Some(session);
    }

    /// The recording that is read, once there is one.
    pub fn session(&self) -> Option<&Arc<Session>> {
        self.session.as_ref()
    }

    /// Whether values are grouped by this.
    pub fn is_by(&self, key: Key) -> bool {
        self.by.contains(&key)
    }

    /// By what values are grouped.
    pub fn by(&self) -> &[Key] {
        &self.by
    }

    /// The sum of a group whose keys are these words; those that are not there are not known.
    pub fn of_words(&mut self, known: &[(Key, &[u8])]) -> &mut Sum {
        let mut keys: Keys = [0; KEYS];
        for ((key, slot), words) in self.by.iter().zip(&mut keys).zip(&mut self.words) {
            let found = known.iter().find(|(of, _)| of == key).map_or(&b""[..], |(_, word)| word);
            *slot = if key.is_word() {
                word(words, found)
            } else {
                let number = std::str::from_utf8(found).ok().and_then(|text| text.parse().ok());
                number.unwrap_or(UNKNOWN)
            };
        }
        self.groups.sum(keys)
    }

    /// Appends a device's name.
    pub fn device(&self, device: u32, out: &mut Vec<u8>) {
        self.devices.write(device, out);
    }

    /// The sum to which something belongs.
    pub fn of(&mut self, facts: &Facts<'_>) -> &mut Sum {
        let mut keys: Keys = [0; KEYS];
        for at in 0..self.by.len() {
            if let (Some(key), Some(slot)) = (self.by.get(at).copied(), keys.get_mut(at)) {
                *slot = self.key(at, key, facts);
            }
        }
        self.groups.sum(keys)
    }

    fn key(&mut self, at: usize, key: Key, facts: &Facts<'_>) -> u64 {
        let session = self.session.as_deref();
        let Some(words) = self.words.get_mut(at) else { return UNKNOWN };
        match key {
            Key::Comm => word(words, facts.comm),
            Key::Pid => u64::from(facts.pid),
            Key::Tid => u64::from(facts.tid),
            Key::Cpu => u64::from(facts.cpu),
            Key::Unit => {
                let path = session.and_then(|session| session.cgroup(facts.cgroup));
                word(words, path.and_then(unit).unwrap_or_default().as_bytes())
            }
            Key::Container | Key::ContainerName | Key::Pod | Key::Namespace | Key::Image => {
                let of = session.and_then(|session| session.container(facts.cgroup));
                word(words, of.map_or("", |of| contained(key, of)).as_bytes())
            }
            Key::Syscall => {
                let Some((call, session)) = facts.call.zip(session) else { return UNKNOWN };
                words.id(session.call_label(call.abi, call.nr).as_bytes())
            }
            Key::File => facts.file.map_or(UNKNOWN, |file| words.id(file)),
            Key::Device => facts.device.map_or(UNKNOWN, |device| {
                let mut name = Vec::new();
                self.devices.write(device, &mut name);
                words.id(&name)
            }),
            Key::Errno => match facts.errno {
                None => UNKNOWN,
                Some(number) => match errno(number) {
                    Some(name) => words.id(name.as_bytes()),
                    None => words.id(number.to_string().as_bytes()),
                },
            },
            own => {
                let known = facts.own.iter().find(|(key, _)| *key == own);
                known.map_or(UNKNOWN, |(_, value)| word(words, value))
            }
        }
    }

    /// All groups, the greatest `most` of them apart; and the words of their keys and partners.
    pub fn finish(self, most: usize) -> (Ranked, TableWords) {
        let Self { groups, words, partners, .. } = self;
        (groups.ranked(most), TableWords { keys: words, partners })
    }
}

fn word(words: &mut Words, text: &[u8]) -> u64 {
    if text.is_empty() { UNKNOWN } else { words.id(text) }
}

/// What a key says of a container; empty: it is not known.
fn contained(key: Key, of: &Container) -> &str {
    match key {
        Key::Container => of.short(),
        Key::ContainerName => &of.name,
        Key::Pod if of.pod.is_empty() => &of.pod_uid,
        Key::Pod => &of.pod,
        Key::Namespace => &of.namespace,
        Key::Image => &of.image,
        _ => "",
    }
}
