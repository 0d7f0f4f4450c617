//! Functions of programs and of the kernel, and marks in programs, that are probed for a time.
//!
//! Who asks for them, root, has found them in their files and opened a perf event for each point
//! (`ctl/src/commands/probe`): the daemon may neither read every file nor open such events
//! everywhere, and needs no parser of files of programs. Here the programs of the recording are
//! linked to these events. The links are not pinned: they live as long as this process at most, so
//! a daemon that is killed leaves nothing attached, and there is nothing that a next one would have
//! to find. Their names go into the recording's metadata before the first call is recorded, and
//! stay there; a function that is probed again has its number again.
//!
//! Bounds: [`PROBED_MAX`] functions and marks at a time, `FUNCTIONS` in a recording, `BYTES_MAX` of
//! the metadata.

use std::collections::BTreeMap;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flightrec_format::abi::function::{ARGUMENTS, Calls, Mark, Operand, cookie};
use flightrec_format::control::{
    FunctionCalls, NewMark, NewProbe, PROBE_LASTS_MAX, PROBED_MAX, PROBED_SINGLY_MAX, ProbeChoice,
    ProbeStatus,
};
use flightrec_format::live::map::ArrayMap;
use flightrec_format::live::sys;
use tracing::{info, warn};

use crate::attachments::{FUNCTION_ENTRY, FUNCTION_MARK, FUNCTION_RETURN};
use crate::function_names::Names;
use crate::multi::{self, Points};
use crate::recording::Recording;
use crate::{clock, load};

/// Probes of a recording.
#[derive(Debug)]
pub struct Probes {
    recording: Arc<Recording>,
    dir: PathBuf,
    /// `None`: this recording has no such table.
    calls: Option<ArrayMap>,
    marks: Option<ArrayMap>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The id that the next one gets, less 1.
    last: u32,
    probes: Vec<Probe>,
    /// What is counted or was, by number.
    counted: BTreeMap<u32, Counted>,
}

/// What was asked for at once.
#[derive(Debug)]
struct Probe {
    status: ProbeStatus,
    /// The functions' numbers.
    numbers: Vec<u32>,
    /// Places in the table of marks.
    places: Vec<usize>,
    /// What keeps the programs attached.
    links: Vec<OwnedFd>,
}

/// A function, or a mark.
#[derive(Debug, Clone)]
struct Counted {
    name: String,
    path: String,
    returns: bool,
    since: u64,
    /// 0: it is probed.
    until: u64,
}

impl Probes {
    /// Of a recording. Nothing is probed yet.
    pub fn new(recording: Arc<Recording>) -> Self {
        let dir = recording.dir().to_path_buf();
        let map = |name| ArrayMap::open(&dir.join("maps").join(name), true).ok();
        let (calls, marks) = (map(load::FUNCTION_CALLS), map(load::MARKS));
        Self { recording, dir, calls, marks, state: Mutex::default() }
    }

    /// Probes what is asked for, with the perf events of its points. The error is for the user.
    pub fn add(&self, new: &NewProbe, events: Vec<OwnedFd>) -> Result<ProbeStatus, String> {
        let counts = self.calls.as_ref().ok_or("this recording has no room for probes")?;
        let mut state = self.state();
        check(new, events.len(), &state)?;
        let programs = Programs::open(&self.dir).map_err(|e| self.lacking(&e))?;
        let places = self.set_marks(&new.marks, &state)?;
        let names = Names::of(new);
        let numbers = self.recording.name_functions(&names)?;
        let is_probed = |number: &&u32| state.counted.get(number).is_some_and(|of| of.until == 0);
        if let Some((i, _)) = numbers.iter().enumerate().find(|(_, number)| is_probed(number)) {
            let name = names.all.get(i).copied().unwrap_or_default();
            return Err(format!(
                "{name} of {} is probed already: see `flightctl probe list`, and remove that probe \
                 first",
                new.path
            ));
        }
        for number in &numbers {
            for cpu in 0..counts.entries() {
                counts.write(cpu, *number as usize * size_of::<Calls>(), &[0; size_of::<Calls>()]);
            }
        }
        let since = clock::mono();
        let links = if is_file(new) {
            let file = events.first().ok_or("the file did not come with the request")?;
            self.link_file(new, &numbers, &places, file)?
        } else {
            programs.link(new, &numbers, &places, events)?
        };
        state.last += 1;
        let status = ProbeStatus {
            id: state.last,
            spec: new.spec.clone(),
            path: new.path.clone(),
            functions: numbers.len() as u32,
            since,
            until: since.saturating_add(new.lasts),
            left: new.lasts,
        };
        for (i, (number, name)) in numbers.iter().zip(&names.all).enumerate() {
            let counted = Counted {
                name: (*name).to_owned(),
                path: new.path.clone(),
                returns: new.returns && i < new.functions.len(),
                since,
                until: 0,
            };
            state.counted.insert(*number, counted);
        }
        state.probes.push(Probe { status: status.clone(), numbers, places, links });
        info!(
            probe = status.id,
            "probing {} functions and marks of {} for {} s: {}",
            status.functions,
            status.path,
            new.lasts / 1_000_000_000,
            status.spec
        );
        Ok(status)
    }

    /// Links programs to all points of a file at once.
    fn link_file(
        &self,
        new: &NewProbe,
        numbers: &[u32],
        places: &[usize],
        file: &OwnedFd,
    ) -> Result<Vec<OwnedFd>, String> {
        let functions = Points {
            offsets: new.offsets.clone(),
            semaphores: vec![0; new.offsets.len()],
            cookies: numbers.iter().take(new.functions.len()).map(|of| cookie(*of, 0)).collect(),
        };
        let of_marks = numbers.iter().skip(new.functions.len()).zip(places);
        let marks = Points {
            offsets: new.marks.iter().map(|of| of.offset).collect(),
            semaphores: new.marks.iter().map(|of| of.semaphore).collect(),
            cookies: of_marks.map(|(number, place)| cookie(*number, *place as u32)).collect(),
        };
        let mut links = Vec::new();
        let all = [
            (FUNCTION_ENTRY, &functions, false, true),
            (FUNCTION_RETURN, &functions, true, new.returns),
            (FUNCTION_MARK, &marks, false, true),
        ];
        for (program, points, returns, wanted) in all {
            if wanted && !points.offsets.is_empty() {
                let link = multi::link(&self.dir, program, file, points, returns);
                links.push(link.map_err(|e| {
                    format!(
                        "{} of {} can't be probed: the kernel says {e}; it may have no probe at \
                         the first instruction of one of these functions: narrow the pattern",
                        new.spec, new.path
                    )
                })?);
            }
        }
        Ok(links)
    }

    /// Whether many points of a file can be probed at once.
    pub fn takes_files(&self) -> bool {
        [FUNCTION_ENTRY, FUNCTION_RETURN, FUNCTION_MARK]
            .iter()
            .all(|program| self.dir.join("progs").join(multi::pin(program)).exists())
    }

    /// What is probed.
    pub fn list(&self) -> Vec<ProbeStatus> {
        let now = clock::mono();
        let told = |probe: &Probe| ProbeStatus {
            left: probe.status.until.saturating_sub(now),
            ..probe.status.clone()
        };
        self.state().probes.iter().map(told).collect()
    }

    /// Ends probes; those that were. The error is for the user.
    pub fn remove(&self, choice: &ProbeChoice) -> Result<Vec<ProbeStatus>, String> {
        let removed = self.end(|probe| match choice {
            ProbeChoice::All => true,
            ProbeChoice::Id(id) => probe.id == *id,
            ProbeChoice::Spec(spec) => probe.spec == *spec,
        });
        match choice {
            ProbeChoice::Id(id) if removed.is_empty() => {
                Err(format!("there is no probe {id}: see `flightctl probe list`"))
            }
            ProbeChoice::Spec(spec) if removed.is_empty() => {
                Err(format!("nothing is probed as {spec}: see `flightctl probe list`"))
            }
            _ => Ok(removed),
        }
    }

    /// Ends those whose time is over.
    pub fn expire(&self) {
        let now = clock::mono();
        self.end(|probe| probe.until <= now);
    }

    fn end(&self, is_chosen: impl Fn(&ProbeStatus) -> bool) -> Vec<ProbeStatus> {
        let mut state = self.state();
        let (ended, left): (Vec<Probe>, Vec<Probe>) =
            state.probes.drain(..).partition(|probe| is_chosen(&probe.status));
        state.probes = left;
        drop(state);
        let mut statuses = Vec::new();
        for Probe { status, numbers, links, .. } in ended {
            // Detaches: they are the only references. The kernel may take its time, and nobody is
            // to wait for it who asks for something else.
            drop(links);
            let until = clock::mono();
            let mut state = self.state();
            for number in numbers {
                if let Some(counted) = state.counted.get_mut(&number) {
                    counted.until = until;
                }
            }
            info!(probe = status.id, "the probe of {} has ended: {}", status.path, status.spec);
            statuses.push(status);
        }
        statuses
    }

    /// How often what is probed, or was, was called.
    pub fn calls(&self) -> Vec<FunctionCalls> {
        let state = self.state();
        let told = |(number, of): (&u32, &Counted)| {
            let Calls { calls, returns } = self.count(*number);
            FunctionCalls {
                name: of.name.clone(),
                path: of.path.clone(),
                calls,
                returns: of.returns.then_some(returns),
                since: of.since,
                until: of.until,
            }
        };
        state.counted.iter().map(told).collect()
    }

    /// The sum over all CPUs.
    fn count(&self, number: u32) -> Calls {
        let mut sum = Calls::default();
        let Some(map) = &self.calls else { return sum };
        let at = number as usize * size_of::<Calls>();
        for cpu in 0..map.entries() {
            sum.calls += map.load(cpu, at + offset_of!(Calls, calls));
            sum.returns += map.load(cpu, at + offset_of!(Calls, returns));
        }
        sum
    }

    /// Enters marks into their table, where no mark is that is probed.
    fn set_marks(&self, marks: &[NewMark], state: &State) -> Result<Vec<usize>, String> {
        let Some(table) = self.marks.as_ref() else {
            return if marks.is_empty() {
                Ok(Vec::new())
            } else {
                Err("this recording has no room for marks".into())
            };
        };
        let is_free = |place: &usize| !state.probes.iter().any(|of| of.places.contains(place));
        let places: Vec<usize> = (0..table.entries()).filter(is_free).take(marks.len()).collect();
        if places.len() < marks.len() {
            return Err(format!(
                "{} marks are more than the {} that can still be probed at a time: narrow the \
                 pattern",
                marks.len(),
                places.len()
            ));
        }
        for (place, mark) in places.iter().zip(marks) {
            table.write(*place, 0, &mark_bytes(mark));
        }
        Ok(places)
    }

    /// Why a program is not there.
    fn lacking(&self, e: &io::Error) -> String {
        let meta = self.recording.meta();
        let told = meta.lacking.iter().find(|of| of.program == FUNCTION_ENTRY);
        told.map_or_else(
            || format!("the programs for probes are not there: {e}"),
            |of| format!("this kernel lets no program run at functions: {}", of.why),
        )
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the request makes sense: it comes from root, but may be of another release.
fn check(new: &NewProbe, events: usize, state: &State) -> Result<(), String> {
    let functions = new.functions.len();
    let each = if new.returns { 2 } else { 1 };
    let wanted = if is_file(new) { 1 } else { functions * each + new.marks.len() };
    let (asked, probed) = (
        functions + new.marks.len(),
        state.probes.iter().map(|of| of.numbers.len()).sum::<usize>(),
    );
    if asked == 0 {
        return Err("nothing is to be probed".into());
    }
    if asked + probed > PROBED_MAX {
        return Err(format!(
            "{asked} functions are too many: {PROBED_MAX} can be probed at a time, and {probed} \
             are; narrow the pattern, or remove probes"
        ));
    }
    if !is_file(new) && asked > PROBED_SINGLY_MAX {
        return Err(format!(
            "{asked} functions are too many: this kernel can probe {PROBED_SINGLY_MAX} at a time; \
             narrow the pattern"
        ));
    }
    if !new.offsets.is_empty() && new.offsets.len() != functions {
        return Err(
            "functions without a place; use flightctl and flightd of the same release".into()
        );
    }
    if events != wanted {
        return Err(format!(
            "{events} descriptors came with the request, but it needs {wanted}; use flightctl and \
             flightd of the same release"
        ));
    }
    if !(1..=PROBE_LASTS_MAX).contains(&new.lasts) {
        return Err("a probe lasts from 1 ns to 7 days".into());
    }
    Ok(())
}

/// Whether its points are bytes of a file that comes with it.
fn is_file(new: &NewProbe) -> bool {
    !new.offsets.is_empty() || new.marks.iter().any(|of| of.offset != 0)
}

/// A mark as the programs see it.
fn mark_bytes(mark: &NewMark) -> Vec<u8> {
    let mut operands = [Operand::default(); ARGUMENTS];
    for (to, from) in operands.iter_mut().zip(&mark.operands) {
        let &flightrec_format::control::NewOperand { how, shift, base, index, scale, offset } =
            from;
        *to = Operand { how, shift, base, index, scale, reserved: 0, offset };
    }
    let mut bytes = Vec::with_capacity(size_of::<Mark>());
    bytes.extend((mark.operands.len().min(ARGUMENTS) as u64).to_le_bytes());
    for Operand { how, shift, base, index, scale, reserved, offset } in operands {
        for word in [how, shift, base, index, scale, reserved] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(offset.to_le_bytes());
    }
    bytes
}

/// The pinned programs.
struct Programs {
    entry: OwnedFd,
    returned: OwnedFd,
    mark: OwnedFd,
}

impl Programs {
    fn open(dir: &Path) -> io::Result<Self> {
        let program = |name| sys::obj_get(&dir.join("progs").join(name));
        Ok(Self {
            entry: program(FUNCTION_ENTRY)?,
            returned: program(FUNCTION_RETURN)?,
            mark: program(FUNCTION_MARK)?,
        })
    }

    /// Links them to the events, which are closed: a link keeps its own. Where one fails none is
    /// linked.
    fn link(
        &self,
        new: &NewProbe,
        numbers: &[u32],
        places: &[usize],
        events: Vec<OwnedFd>,
    ) -> Result<Vec<OwnedFd>, String> {
        let mut points = Vec::with_capacity(events.len());
        for (number, name) in numbers.iter().zip(&new.functions) {
            points.push((&self.entry, cookie(*number, 0), name));
            if new.returns {
                points.push((&self.returned, cookie(*number, 0), name));
            }
        }
        let marks = numbers.iter().skip(new.functions.len()).zip(places).zip(&new.marks);
        for ((number, place), mark) in marks {
            points.push((&self.mark, cookie(*number, *place as u32), &mark.name));
        }
        let mut links = Vec::with_capacity(points.len());
        for ((program, cookie, name), event) in points.into_iter().zip(events) {
            let link = sys::link_perf_event_with(program.as_fd(), event.as_fd(), cookie);
            links.push(link.map_err(|e| {
                warn!("{name} of {} can't be probed: {e}", new.path);
                format!("{name} of {} can't be probed: the kernel says {e}", new.path)
            })?);
        }
        Ok(links)
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::function::{BASE, MEMORY};
    use flightrec_format::control::NewOperand;

    use super::*;

    #[test]
    fn a_mark_is_written_as_the_programs_read_it() {
        let operand = NewOperand {
            how: BASE | MEMORY,
            shift: 32,
            base: 152,
            offset: -8,
            ..Default::default()
        };
        let mark = NewMark { name: "a:b".into(), operands: vec![operand; 2], ..NewMark::default() };
        let bytes = mark_bytes(&mark);
        assert_eq!(bytes.len(), size_of::<Mark>());
        assert_eq!(bytes[..8], 2u64.to_le_bytes());
        let second = 8 + size_of::<Operand>();
        let at = |at: usize| second + at;
        assert_eq!(bytes[at(offset_of!(Operand, how))], (BASE | MEMORY) as u8);
        assert_eq!(bytes[at(offset_of!(Operand, base))], 152);
        assert_eq!(bytes[at(offset_of!(Operand, offset))..][..8], (-8i64).to_le_bytes());
        let too_many = NewMark { operands: vec![operand; ARGUMENTS + 3], ..mark };
        assert_eq!(mark_bytes(&too_many).len(), size_of::<Mark>());
    }

    #[test]
    fn requests_are_bounded() {
        let new = |functions: usize| NewProbe {
            functions: vec!["f".into(); functions],
            returns: true,
            lasts: 1,
            ..NewProbe::default()
        };
        let state = State::default();
        assert_eq!(check(&new(3), 6, &state), Ok(()));
        for (new, events, wanted) in [
            (new(0), 0, "nothing"),
            (new(3), 3, "needs 6"),
            (new(PROBED_MAX + 1), 2 * PROBED_MAX + 2, "too many"),
            (NewProbe { lasts: 0, ..new(1) }, 2, "7 days"),
            (NewProbe { lasts: u64::MAX, ..new(1) }, 2, "7 days"),
        ] {
            let told = check(&new, events, &state).unwrap_err();
            assert!(told.contains(wanted), "{told}");
        }
    }
}
