//! The daemon's life: start, serve, end.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use flightrec_cli::{note, print};
use flightrec_format::control::ProbeChoice;
use nix::sys::signal::{SigHandler, Signal};
use nix::sys::stat::{Mode, umask};
use nix::unistd::geteuid;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use crate::attachments::ATTACHMENTS;
use crate::backend::Server;
use crate::budget::{Keeper, Settings};
use crate::config::{Config, Sizing, ram_bytes, tracepoint_key};
use crate::configured_tracepoints::{self, Wrong};
use crate::control::{self, Access, DirLock, LockError};
use crate::dir::Dir;
use crate::drain::Drain;
use crate::quiet::Quiet;
use crate::recording::Recording;
use crate::reload::Reload;
use crate::snapshots::{self, Snapshots};
use crate::sums::{self, Sums};
use crate::supervisor::Supervisor;
use crate::{bpffs, clock, cpus, dir, publishers, seccomp, triggers};

/// The configuration file that is used when none is named.
const DEFAULT_CONFIG: &str = "/etc/flightrec/flightd.toml";
/// Mode of the runtime directory: all may ask for the socket in it, which refuses by itself.
const RUNTIME_MODE: u32 = 0o755;
/// How often clocks and CPUs are looked at again.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// How often processes are asked which files they have mapped: one that has been sampled and ends
/// before is not asked.
const NAMING: Duration = Duration::from_millis(200);

/// Where everything is.
#[derive(Debug)]
pub struct Options {
    /// Configuration; `None`: the usual file, or the defaults.
    pub config: Option<PathBuf>,
    /// Control socket.
    pub runtime_dir: PathBuf,
    /// Stored recordings.
    pub state_dir: PathBuf,
    /// Pinned recording.
    pub bpffs_dir: PathBuf,
    /// Leave the recording running at the end.
    pub keep_recording: bool,
}

fn config(options: &Options) -> Result<Config> {
    match &options.config {
        Some(path) => Ok(Config::load(path)?),
        None if Path::new(DEFAULT_CONFIG).exists() => Ok(Config::load(Path::new(DEFAULT_CONFIG))?),
        None => Ok(Config::default()),
    }
}

/// Checks the configuration, and says what it comes to here.
pub fn check(options: &Options) -> Result<()> {
    let config = config(options)?;
    check_tracepoints(options, &config)?;
    let online = cpus::online().context("the list of CPUs can't be read")?.len() as u32;
    let possible = cpus::possible().context("the list of CPUs can't be read")?;
    let sizing = Sizing::compute(&config, online, possible, ram_bytes())?;
    let [syscall, sched, task, kernel] = sizing.ring_bytes().map(|bytes| bytes >> 10);
    let store = &config.store;
    let files = if store.enabled {
        format!("files of up to {} in {}", store.max_total, options.state_dir.display())
    } else {
        "no files".to_owned()
    };
    print(&format!(
        "The configuration is good. On this machine's {online} CPUs: {} MiB of kernel memory; for \
         each CPU {syscall} KiB of system calls, {sched} KiB of scheduling, {task} KiB of task \
         life, {kernel} KiB of disk requests, {} KiB of quiet processes; {files}.\n",
        (sizing.total + (1 << 19)) >> 20,
        u64::from(sizing.quiet_pages) * 4
    ))
}

/// Holds `[[tracepoint]]` against the running kernel. At a start what it lacks is left out, and
/// reported: a new kernel may lack what the last one had.
fn check_tracepoints(options: &Options, config: &Config) -> Result<()> {
    let path = options.config.as_deref().unwrap_or(Path::new(DEFAULT_CONFIG));
    for (i, table) in config.tracepoint.iter().enumerate() {
        let wrong = |key: &str, message| Config::wrong(path, &tracepoint_key(i, key), message);
        match configured_tracepoints::look_up(&config.kernel.tracefs, &table.event) {
            Ok(Ok(published)) => {
                let prepared = configured_tracepoints::prepare(table, &published);
                prepared.map_err(|Wrong { key, message }| wrong(key, message))?;
            }
            Ok(Err(message)) => return Err(wrong("event", message).into()),
            Err(e) => {
                note(&format!("[[tracepoint]] is not held against this kernel: {e}"));
                break;
            }
        }
    }
    Ok(())
}

/// As root, makes ready for a daemon that runs as `user`.
pub fn prepare(options: &Options, user: &str) -> Result<()> {
    crate::prepare::prepare(&config(options)?, user, &options.runtime_dir, &options.bpffs_dir)
}

/// As root, leaves what a daemon of another user may not open with systemd for it.
pub fn open_perf_fds(options: &Options) -> Result<()> {
    let config = config(options)?;
    Ok(crate::tracepoint_link::open_perf_fds(&config.kernel.tracefs, &config.tracepoint)?)
}

/// Ends the recording, and takes back what [`prepare`] gave.
pub fn remove(options: &Options) -> Result<()> {
    crate::prepare::remove(&options.runtime_dir, &options.bpffs_dir)
}

/// Runs until SIGTERM or SIGINT.
pub fn run(options: &Options) -> Result<()> {
    let since = clock::mono();
    let config = config(options)?;
    let runtime_dir = &options.runtime_dir;
    // What is made without a mode of its own is for this user and its group, whoever started
    // flightd.
    umask(Mode::from_bits_truncate(0o027));
    dir::make(runtime_dir, RUNTIME_MODE).with_context(|| {
        format!("can't make {}; run as root, or give another --runtime-dir", runtime_dir.display())
    })?;
    if config.store.enabled || config.snapshots.enabled {
        trust(&options.state_dir)?;
    }
    ignore_file_size_signal();
    bpffs::prepare(&options.bpffs_dir)?;
    let _locks = lock(options, config.store.enabled)?;
    let _bpffs_lock = bpffs::lock(&options.bpffs_dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(serve(options, &config, since));
    // Requests that still run hold the recording's maps, no more; ending the runtime ends them.
    runtime.shutdown_timeout(Duration::from_secs(1));
    // Where nothing is left in it; while it is locked, so that no other flightd begins there.
    bpffs::remove_made(&options.bpffs_dir);
    served
}

/// Refuses, as root, a state directory in which another user could lead root elsewhere. Where it is
/// not there yet, whoever can make it is asked about.
fn trust(state_dir: &Path) -> Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let path = std::path::absolute(state_dir)?;
    let in_the_way =
        |path: &&Path| path.symlink_metadata().is_ok_and(|of| !of.is_dir() && !of.is_symlink());
    // Writing the files reports a path that is no directory.
    for path in path.ancestors().skip_while(in_the_way) {
        match Dir::trusted(path, None, false) {
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e).context("the state directory can't be used"),
            Ok(dir) => return Ok(dir.check(None)?),
        }
    }
    Ok(())
}

/// A file that reaches a limit of its size (setrlimit(2)) is an error to be told, not an end of the
/// process.
fn ignore_file_size_signal() {
    // SAFETY: no handler is installed, so none can do harm.
    if let Err(e) = unsafe { nix::sys::signal::signal(Signal::SIGXFSZ, SigHandler::SigIgn) } {
        warn!("SIGXFSZ can't be ignored: {e}");
    }
}

/// Locks the runtime directory, and the state directory where it is there already: early in boot it
/// may not be, and recording does not wait for it. Writing files does, and says so.
fn lock(options: &Options, files: bool) -> Result<Vec<DirLock>> {
    let both: [&Path; 2] = [&options.runtime_dir, &options.state_dir];
    let [runtime, _] = both;
    if !files || !options.state_dir.is_dir() {
        return Ok(control::lock_all(&[runtime])?);
    }
    match control::lock_all(&both) {
        Err(LockError::Io { path, .. }) if path.parent() == Some(&options.state_dir) => {
            Ok(control::lock_all(&[runtime])?)
        }
        other => Ok(other?),
    }
}

/// The daemon's threads, by what they do: none ends by itself.
#[derive(Default)]
struct Threads(JoinSet<&'static str>);

impl Threads {
    /// `died` is dropped, or sent to, when the thread ends.
    fn watch(&mut self, name: &'static str, died: oneshot::Receiver<()>) {
        self.0.spawn(async move {
            drop(died.await);
            name
        });
    }

    /// Waits until one has died: its name.
    async fn died(&mut self) -> Option<&'static str> {
        self.0.join_next().await?.ok()
    }
}

async fn serve(options: &Options, config: &Config, since: u64) -> Result<()> {
    // Everything that can fail or interrupt comes before the recording is touched.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // By hand: a closed terminal ends it in order, for what it left running would go on costing. As
    // a service: reload.
    let by_hand = std::io::stdin().is_terminal();
    let mut config = config.clone();
    let supervisor = Supervisor::find();
    let mut hangup = signal(SignalKind::hangup())?;
    let access = Access::new(&config.access.group);
    let path = options.runtime_dir.join(flightrec_format::control::SOCKET_NAME);
    let listener = control::Listener::bind(&path, &access)?;
    let (recording, ended) =
        Recording::adopt_or_begin(&config, ATTACHMENTS, &options.runtime_dir, &options.bpffs_dir)?;
    // Loading is done. What comes from outside is read from now on.
    if let Err(e) = seccomp::forbid_loading(recording.needs_perf_events()) {
        warn!(
            "flightd can't block itself from loading programs: {e}. It records nevertheless; see \
             docs/security.md"
        );
    }
    let recording = Arc::new(recording);
    let (drain, died) =
        Drain::start(&config.store, &options.state_dir, access.gid, recording.clone(), ended)
            .context("the drain's thread")?;
    let mut threads = Threads::default();
    threads.watch("drain", died);
    let meta = recording.meta();
    let boot = flightrec_store::dir::parse_boot(&meta.boot_id).unwrap_or_default();
    let place = sums::Place {
        state_dir: &options.state_dir,
        group: access.gid,
        live: (boot, meta.session),
    };
    let (sums, died) = Sums::start(&config, &place).context("the thread of the sums of minutes")?;
    threads.watch("sums", died);
    let (quiet, died) = Quiet::start(recording.clone()).context("the thread of the quiet ring")?;
    threads.watch("quiet ring", died);
    let (keeper, died) = Keeper::start(config.budget.clone(), recording.clone(), drain.monitor())
        .context("the thread that keeps the budget")?;
    threads.watch("budget", died);
    let place = snapshots::SnapshotPlace {
        state_dir: &options.state_dir,
        group: access.gid,
        store: &config.store,
    };
    let snapshots = Snapshots::start(&config.snapshots, &place, recording.clone(), drain.monitor());
    let snapshots = Arc::new(snapshots.context("the thread of snapshots")?);
    let died = triggers::start(&config.triggers, recording.clone(), snapshots.clone())
        .context("the thread that watches for triggers")?;
    threads.watch("trigger", died);
    let server = Arc::new(Server::new(
        recording.clone(),
        drain.monitor(),
        sums.monitor(),
        keeper.settings(),
        snapshots.clone(),
        since,
    ));
    let (stop, stopped) = oneshot::channel::<()>();
    let backend: Arc<dyn control::Backend> = server.clone();
    let mut serving =
        tokio::spawn(control::serve(listener, backend, access, async { drop(stopped.await) }));
    let mut housekeeping = tokio::time::interval(HOUSEKEEPING);
    let mut naming = tokio::time::interval(NAMING);
    naming.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut named = Vec::new();
    info!("ready, at {}", path.display());
    Supervisor::ready();
    recording.name_binaries();
    if config.record.thread_contexts {
        publishers::start(&recording);
    }
    if config.containers.names {
        recording.name_containers(&config.containers.root);
    }
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                if by_hand {
                    break;
                }
                Supervisor::reloading();
                reload(options, &mut config, &recording, &keeper.settings());
                Supervisor::ready();
            }
            // A thread that dies ends the process; the recording stays for the next one.
            Some(name) = threads.died() => {
                recording.leave();
                anyhow::bail!(
                    "the {name} thread panicked; its message is above; please report it"
                );
            }
            ended = &mut serving => {
                recording.leave();
                let ended = ended.context("the control socket's task died")?;
                return ended.context("the control socket failed");
            }
            _ = naming.tick() => {
                recording.ask_binaries();
                recording.enter_containers();
            }
            _ = housekeeping.tick() => {
                keep_house(&recording, &mut named);
                supervisor.alive(drain.monitor().silent());
                let server = server.clone();
                tokio::task::spawn_blocking(move || {
                    server.probes().expire();
                    server.descriptors().keep_up();
                });
            }
        }
    }
    info!("ending");
    Supervisor::stopping();
    keeper.finish();
    snapshots.finish();
    quiet.finish();
    sums.finish();
    // They end with this process at the latest; now, so that nothing is recorded after the end.
    if let Ok(ended) = server.probes().remove(&ProbeChoice::All)
        && !ended.is_empty()
    {
        info!("{} probes have ended with flightd", ended.len());
    }
    if options.keep_recording {
        recording.leave();
        info!("the recording continues in the kernel");
    } else {
        recording.end()?;
        info!("the recording has ended");
    }
    // What was recorded until now goes into the files; the rings' memory is still there.
    drain.finish(!options.keep_recording);
    drop(stop);
    serving.await.context("the control socket's task died")?.context("the control socket failed")
}

/// Reads the configuration again, makes the changes that can be made without a gap, and names the
/// others.
fn reload(options: &Options, config: &mut Config, recording: &Recording, budget: &Settings) {
    let read = match self::config(options) {
        Ok(read) => read,
        Err(e) => return error!("{e:#}; the configuration is unchanged"),
    };
    let Some(Reload { config: changed, now, later }) = Reload::new(config, &read) else { return };
    *config = changed;
    recording.reconfigure(config);
    // What was set at run time has had its time.
    budget.set(|budget| budget.clone_from(&config.budget));
    if now.is_empty() {
        info!(
            "the configuration was read again: nothing changed that takes effect without a \
               restart"
        );
    } else {
        info!(
            changed = now.join(" "),
            "the configuration was read again, and these keys have changed: {}",
            now.join(", ")
        );
    }
    if !later.is_empty() {
        warn!(
            pending = later.join(" "),
            "these keys take effect when flightd is restarted: {}",
            later.join(", ")
        );
    }
}

/// Follows what may change: the offset of the wall clock's scale, control groups, and the CPUs.
fn keep_house(recording: &Recording, named: &mut Vec<u16>) {
    recording.follow();
    let unrecorded = recording.unrecorded_cpus();
    if !unrecorded.is_empty() && unrecorded != *named {
        warn!(
            "CPUs {unrecorded:?} came online after the recording began and are not recorded; \
             restart flightd without --keep-recording to include them"
        );
    }
    *named = unrecorded;
}
