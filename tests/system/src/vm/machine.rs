//! The virtual machine, from power-on through the panic to the end of its crash kernel.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::image::{FORMS, Image};
use super::qmp;
use xtask::command::shown;

/// A run takes some minutes without KVM, on a busy machine more, with many CPUs up to an hour; who
/// takes so much longer hangs.
const PATIENCE: Duration = Duration::from_mins(30);
const PATIENCE_OF_MANY: Duration = Duration::from_hours(2);
/// What of the machine's memory the crash kernel gets.
const CRASH: &str = "192M";

/// By KVM, who says nothing on its console for so long has not begun to boot: there are machines
/// whose /dev/kvm does not work.
const SILENCE: Duration = Duration::from_secs(20);

/// What the crash kernel says where QEMU is to take the dump; it goes on some seconds later
/// (crash.sh).
const READY: &[u8] = b"ready for QEMU";

/// What of a machine is not the same for all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hardware {
    pub(super) cpus: u32,
    /// In QEMU's notation.
    pub(super) memory: &'static str,
    /// Whether its clock counts instructions where it is emulated, 1 ns each, one CPU at a time,
    /// and jumps over what it idles. So how long anything takes there does not depend on how many
    /// CPUs this machine has, nor on what else it does.
    counts: bool,
}

impl Hardware {
    /// The machine that panics.
    pub(super) const SMALL: Self = Self { cpus: 2, memory: "1G", counts: false };

    /// A machine of so many CPUs, with memory for the rings that many CPUs get: `max_total` of
    /// `config/flightd.toml` is the limit there, not `max_ram_percent`. The host gives it what it
    /// uses.
    pub(super) const fn of(cpus: u32) -> Self {
        Self { cpus, memory: "9G", counts: true }
    }

    fn patience(self) -> Duration {
        if self.counts { PATIENCE_OF_MANY } else { PATIENCE }
    }
}

/// How the machine's processor is had, the fastest first.
const WAYS: &[(&str, &str)] = &[
    (KVM, "host"),
    // Without -cx16 some kernels hang.
    (EMULATED, "max,-cx16"),
];
const KVM: &str = "kvm";
/// One CPU at a time, as QEMU also counts instructions. With a thread for each CPU, one of them may
/// run a breakpoint by which another one had patched the kernel (`text_poke_bp_batch`,
/// arch/x86/kernel/alternative.c, Linux 6.12) after it is gone: "Oops: int3" in a function that
/// nobody probes, as in two of four runs of 2026-11-28 (QEMU 7.2).
const EMULATED: &str = "tcg,thread=single,tb-size=512";

/// Runs it until it reboots, which ends it.
pub(super) fn run(image: &Image) -> Result<()> {
    // What did not work once is not waited for again.
    static KVM_FAILS: AtomicBool = AtomicBool::new(false);
    let has_kvm = File::options().read(true).write(true).open("/dev/kvm").is_ok()
        && !KVM_FAILS.load(Ordering::Relaxed);
    let mut ways = WAYS.iter().skip(usize::from(!has_kvm)).peekable();
    while let Some((accel, cpu)) = ways.next() {
        let silence = if ways.peek().is_some() { SILENCE } else { image.hardware.patience() };
        match boot(image, accel, cpu, silence)? {
            Ended::Off { .. } => return Ok(()),
            Ended::Silent if ways.peek().is_some() => {
                println!("vm: {accel} does not work here");
                KVM_FAILS.store(true, Ordering::Relaxed);
            }
            Ended::Silent => bail!(
                "the virtual machine said nothing on its console: {}",
                image.console.display()
            ),
        }
    }
    bail!("no way to run a virtual machine")
}

/// What the kernel of the aarch64 machine says last.
const PANICKED: &[u8] = b"end Kernel panic";

/// Runs the aarch64 machine until it has panicked, and has QEMU take its memory in all of
/// [`FORMS`].
pub(super) fn run_until_panic(image: &Image) -> Result<()> {
    let files = FORMS.map(|(name, form)| (image.memory.with_extension(name), form));
    let dump = Dump { at: PANICKED, files: &files, ends: true };
    match wait(&mut aarch64(image), image, PATIENCE, &dump)? {
        Ended::Off { dumped: true } => Ok(()),
        _ => bail!("the virtual machine did not panic; its console: {}", image.console.display()),
    }
}

/// Runs the aarch64 machine until it reboots or switches itself off.
pub(super) fn run_aarch64(image: &Image) -> Result<()> {
    let dump = Dump { at: PANICKED, files: &[], ends: true };
    match wait(&mut aarch64(image), image, PATIENCE, &dump)? {
        Ended::Off { dumped: false } => Ok(()),
        _ => bail!("the virtual machine panicked; its console: {}", image.console.display()),
    }
}

fn aarch64(image: &Image) -> Command {
    let mut qemu = Command::new("nice");
    // The newest processor that is fast to emulate; it has LSE.
    qemu.args(["-n", "1", "qemu-system-aarch64", "-M", "virt,gic-version=3"]);
    qemu.args(["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "neoverse-n1"]);
    connect(&mut qemu, image);
    qemu.arg("-append").arg(
        "console=ttyAMA0 loglevel=5 mitigations=off random.trust_cpu=on nowatchdog panic=0 \
         preempt=full",
    );
    qemu
}

/// When QEMU takes the machine's memory, and where to.
struct Dump<'a> {
    /// What the machine says then.
    at: &'a [u8],
    /// Files, each with QEMU's name of its form, where that is not ELF.
    files: &'a [(PathBuf, Option<&'a str>)],
    /// Whether the machine ends with it.
    ends: bool,
}

/// How a run ended.
enum Ended {
    /// It came to its end; whether its memory was taken.
    Off { dumped: bool },
    /// It did not even begin.
    Silent,
}

/// `preempt=full` where the kernel can be told: the hardest case for the probes.
fn boot(image: &Image, accel: &str, cpu: &str, silence: Duration) -> Result<Ended> {
    let mut qemu = Command::new("nice");
    qemu.args(["-n", "1", "qemu-system-x86_64", "-M", "q35", "-accel", accel, "-cpu", cpu]);
    // What waits for a panic is no machine that counts: there is none to take its memory.
    let panic = if image.hardware.counts { "-1" } else { "0" };
    if image.hardware.counts && accel != KVM {
        qemu.args(["-icount", "shift=0,sleep=off"]);
    }
    connect(&mut qemu, image);
    qemu.arg("-append").arg(format!(
        "console=ttyS0 loglevel=5 mitigations=off tsc=reliable no_timer_check random.trust_cpu=on \
         nowatchdog rcupdate.rcu_cpu_stall_suppress=1 panic={panic} preempt=full \
         crashkernel={CRASH}"
    ));
    let files = [(image.memory.clone(), None)];
    wait(&mut qemu, image, silence, &Dump { at: READY, files: &files, ends: false })
}

/// What every machine has: CPUs, memory, a disk, a console, a monitor.
fn connect(qemu: &mut Command, image: &Image) {
    let Hardware { cpus, memory, .. } = image.hardware;
    qemu.args(["-smp", &cpus.to_string(), "-m", memory]);
    qemu.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]);
    qemu.arg("-serial").arg(format!("file:{}", image.console.display()));
    qemu.arg("-qmp").arg(format!("unix:{},server=on,wait=off", image.monitor.display()));
    qemu.arg("-drive")
        .arg(format!("if=none,id=disk,file={},format=raw,cache=unsafe", image.disk.display()));
    qemu.args(["-device", "virtio-blk-pci,drive=disk", "-kernel"])
        .arg(&image.kernel)
        .arg("-initrd")
        .arg(&image.initrd);
}

/// Runs it.
fn wait(qemu: &mut Command, image: &Image, silence: Duration, dump: &Dump<'_>) -> Result<Ended> {
    let mut child = qemu
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("can't run {}", shown(qemu)))?;
    let started = Instant::now();
    let mut taken = false;
    let is_silent = || image.console.metadata().is_ok_and(|console| console.len() == 0);
    loop {
        if let Some(status) = child.try_wait()? {
            if is_silent() {
                return Ok(Ended::Silent);
            }
            ensure!(
                status.success(),
                "the virtual machine ended badly ({status}); its console: {}",
                image.console.display()
            );
            return Ok(Ended::Off { dumped: taken });
        }
        if !taken
            && fs::read(&image.console)
                .unwrap_or_default()
                .windows(dump.at.len())
                .any(|line| line == dump.at)
        {
            qmp::dump(&image.monitor, dump.files, dump.ends)?;
            taken = true;
        }
        let silent = started.elapsed() > silence && is_silent();
        if silent || started.elapsed() > image.hardware.patience() {
            child.kill()?;
            child.wait()?;
            ensure!(silent, "the virtual machine hangs; its console: {}", image.console.display());
            return Ok(Ended::Silent);
        }
        thread::sleep(Duration::from_secs(1));
    }
}
