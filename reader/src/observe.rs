//! What reading tells meanwhile: that it takes a while, how far it is, and what it did without.
//!
//! As with a log, whoever reads says it here, and a program that wants to hear it says so once, by
//! [`listen`]. Without that nobody is told, and nothing is printed.

use std::sync::OnceLock;

/// What a program does about what it is told.
pub trait Observer: Sync {
    /// Something begins that may take a while, as in `reading the recording`. It has ended when
    /// what is returned is dropped.
    fn begins(&self, what: &'static str) -> Box<dyn Meter>;

    /// Something that a person should know: what was left out, or taken instead. One line.
    fn note(&self, line: &str);

    /// Files of any size are read from now on.
    fn reads_files(&self) {}
}

/// How far something is.
pub trait Meter: Send + Sync {
    /// So many bytes more are done.
    fn add(&self, bytes: u64);
}

static OBSERVER: OnceLock<&'static dyn Observer> = OnceLock::new();

/// Tells `observer` from now on; `false`: another one is told already, and stays.
pub fn listen(observer: &'static dyn Observer) -> bool {
    OBSERVER.set(observer).is_ok()
}

/// Nobody wants to know.
struct Nobody;

impl Meter for Nobody {
    fn add(&self, _bytes: u64) {}
}

/// Says that something begins.
pub fn begins(what: &'static str) -> Box<dyn Meter> {
    OBSERVER.get().map_or_else(|| Box::new(Nobody) as Box<dyn Meter>, |told| told.begins(what))
}

/// Says something to a person.
pub fn note(line: &str) {
    if let Some(told) = OBSERVER.get() {
        told.note(line);
    }
}

/// Says that files are read.
pub fn reads_files() {
    if let Some(told) = OBSERVER.get() {
        told.reads_files();
    }
}
