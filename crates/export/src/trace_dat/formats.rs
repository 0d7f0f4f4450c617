//! Formats of events, as in `/sys/kernel/tracing/events/…/format`.
//!
//! Those of the scheduler are the kernel's own. A call, and every other kind, has one text of all
//! that is known of it: the kernel's formats have addresses where the recording has strings.

use std::fmt::Write as _;

use rustc_hash::FxHashMap;

/// The text that describes a page.
pub(super) const HEADER_PAGE: &str = "\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;
";
/// The text that describes the head of an event.
pub(super) const HEADER_EVENT: &str = "# compressed entry header
\ttype_len    :    5 bits
\ttime_delta  :   27 bits
\tarray       :   32 bits

\tpadding     : type == 29
\ttime_extend : type == 30
\ttime_stamp : type == 31
\tdata max type_len  == 28
";
/// What every event begins with.
const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

";
/// Of a switch: `TASK_REPORT` and the states' letters, as the kernel's own format has them.
const SWITCH: &str = "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;
\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;
\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;
\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;

print fmt: \"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d \
next_prio=%d\", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & 0xff) ? \
__print_flags(REC->prev_state & 0xff, \"|\", { 0x01, \"S\" }, { 0x02, \"D\" }, { 0x04, \"T\" }, \
{ 0x08, \"t\" }, { 0x10, \"X\" }, { 0x20, \"Z\" }, { 0x40, \"P\" }, { 0x80, \"I\" }) : \"R\", \
REC->prev_state & 0x100 ? \"+\" : \"\", REC->next_comm, REC->next_pid, REC->next_prio
";
const WAKING: &str = "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;

print fmt: \"comm=%s pid=%d prio=%d target_cpu=%03d\", REC->comm, REC->pid, REC->prio, \
REC->target_cpu
";
const MIGRATE: &str = "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:int orig_cpu;\toffset:32;\tsize:4;\tsigned:1;
\tfield:int dest_cpu;\toffset:36;\tsize:4;\tsigned:1;

print fmt: \"comm=%s pid=%d prio=%d orig_cpu=%d dest_cpu=%d\", REC->comm, REC->pid, REC->prio, \
REC->orig_cpu, REC->dest_cpu
";
const TEXT: &str = "\tfield:__data_loc char[] text;\toffset:8;\tsize:4;\tsigned:0;

print fmt: \"%s\", __get_str(text)
";
const EXIT: &str = "\tfield:__data_loc char[] error;\toffset:8;\tsize:4;\tsigned:0;
\tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;

print fmt: \"%ld%s\", REC->ret, __get_str(error)
";

/// What an event holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Switch,
    Waking,
    Migrate,
    /// A text.
    Text,
    /// How a call ended.
    Exit,
}

/// The formats of the events that there are, by system and name.
#[derive(Debug, Default)]
pub(super) struct Formats {
    ids: FxHashMap<&'static str, FxHashMap<Box<str>, u16>>,
    texts: Vec<(&'static str, String)>,
}

/// The first number of a format: smaller ones are the kernel's own events.
const FIRST: u16 = 100;
/// Names of calls are of the recording, and may be anything.
const NAME_MAX: usize = 64;

impl Formats {
    /// The number of an event's format. Of more than there can be, the last one.
    pub(super) fn id(&mut self, system: &'static str, name: &str, form: Form) -> u16 {
        let ids = self.ids.entry(system).or_default();
        if let Some(id) = ids.get(name) {
            return *id;
        }
        let count = u16::try_from(self.texts.len()).unwrap_or(u16::MAX);
        let Some(id) = count.checked_add(FIRST).filter(|id| *id < u16::MAX) else {
            return u16::MAX - 1;
        };
        ids.insert(name.into(), id);
        let fields = match form {
            Form::Switch => SWITCH,
            Form::Waking => WAKING,
            Form::Migrate => MIGRATE,
            Form::Text => TEXT,
            Form::Exit => EXIT,
        };
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = name.chars().map(plain).take(NAME_MAX).collect();
        let mut text = String::new();
        // Writing to a text does not fail.
        let _ = write!(text, "name: {name}\nID: {id}\nformat:\n{COMMON}{fields}");
        self.texts.push((system, text));
        id
    }

    /// The formats of each system.
    pub(super) fn systems(&self) -> Vec<(&'static str, Vec<&str>)> {
        let mut systems: Vec<(&'static str, Vec<&str>)> = Vec::new();
        for (system, text) in &self.texts {
            match systems.iter_mut().find(|(name, _)| name == system) {
                Some((_, texts)) => texts.push(text),
                None => systems.push((system, vec![text])),
            }
        }
        systems
    }
}
