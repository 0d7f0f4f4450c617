//! Parts of a recording that can be left out, beside system calls, scheduling and task life.

/// A part that the configuration turns off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Structures,
    Signals,
    Disk,
    Memory,
    Interrupts,
    Locks,
    Network,
    Throttling,
    IoUring,
    Stacks,
    Samples,
}

impl Part {
    pub(super) const ALL: [Self; 11] = [
        Self::Structures,
        Self::Signals,
        Self::Disk,
        Self::Memory,
        Self::Interrupts,
        Self::Locks,
        Self::Network,
        Self::Throttling,
        Self::IoUring,
        Self::Stacks,
        Self::Samples,
    ];

    /// Section, key and value of the configuration without it.
    const fn setting(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Structures => ("record", "structures", "false"),
            Self::Signals => ("record", "signals", "false"),
            Self::Disk => ("record", "disk", "false"),
            Self::Memory => ("record", "memory", "false"),
            Self::Interrupts => ("record", "interrupts", "false"),
            Self::Locks => ("record", "locks", "false"),
            Self::Network => ("record", "network", "false"),
            Self::Throttling => ("record", "throttling", "false"),
            Self::IoUring => ("record", "io_uring", "false"),
            Self::Stacks => ("stacks", "enabled", "false"),
            Self::Samples => ("sampling", "hz", "0"),
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Structures => "flightrec, no structures",
            Self::Signals => "flightrec, signals = false",
            Self::Disk => "flightrec, disk = false",
            Self::Memory => "flightrec, memory = false",
            Self::Interrupts => "flightrec, interrupts off",
            Self::Locks => "flightrec, locks = false",
            Self::Network => "flightrec, network = false",
            Self::Throttling => "flightrec, throttling off",
            Self::IoUring => "flightrec, io_uring = false",
            Self::Stacks => "flightrec, stacks off",
            Self::Samples => "flightrec, no samples",
        }
    }

    /// Its name for machines.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Structures => "without_structures",
            Self::Signals => "without_signals",
            Self::Disk => "without_disk",
            Self::Memory => "without_memory",
            Self::Interrupts => "without_interrupts",
            Self::Locks => "without_locks",
            Self::Network => "without_network",
            Self::Throttling => "without_throttling",
            Self::IoUring => "without_io_uring",
            Self::Stacks => "without_stacks",
            Self::Samples => "without_samples",
        }
    }
}

/// The configuration without some parts.
pub(super) fn without(parts: &[Part]) -> String {
    let of = |section: &str| -> String {
        let settings = parts.iter().map(|part| part.setting()).filter(|of| of.0 == section);
        let lines: Vec<String> =
            settings.map(|(_, key, value)| format!("{key} = {value}")).collect();
        if lines.is_empty() {
            String::new()
        } else {
            format!("[{section}]\n{}\n", lines.join("\n"))
        }
    };
    ["record", "stacks", "sampling"].map(of).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_stand_once() {
        let text = without(&[Part::Samples, Part::Disk, Part::Locks]);
        assert_eq!(text, "[record]\ndisk = false\nlocks = false\n[sampling]\nhz = 0\n");
        assert_eq!(without(&[]), "");
        let all = without(&Part::ALL);
        assert_eq!((all.matches('[').count(), all.matches('=').count()), (3, Part::ALL.len()));
    }
}
