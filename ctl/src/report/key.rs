//! By what sums are grouped.

use std::fmt;

macro_rules! keys {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal $form:ident,)+) => {
        /// By what sums are grouped.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Key {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Key {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name: for `--by`, in JSON and CSV.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Whether its values are words, or numbers.
            pub const fn is_word(self) -> bool {
                match self {
                    $(Self::$variant => keys!(@$form),)+
                }
            }
        }
    };
    (@word) => { true };
    (@number) => { false };
}

impl Key {
    /// Those by which every report can group: of the thread.
    pub const OF_THREADS: [Self; 9] = [
        Self::Comm,
        Self::Pid,
        Self::Tid,
        Self::Unit,
        Self::Container,
        Self::ContainerName,
        Self::Pod,
        Self::Namespace,
        Self::Image,
    ];
}

keys! {
    /// Name of the thread.
    Comm = "comm" word,
    /// Process.
    Pid = "pid" number,
    /// Thread.
    Tid = "tid" number,
    /// systemd unit.
    Unit = "unit" word,
    /// Container, by the first digits of its id.
    Container = "container" word,
    /// What a container is called.
    ContainerName = "container_name" word,
    /// Pod, by its name, or else by its uid.
    Pod = "pod" word,
    /// Namespace of a pod.
    Namespace = "namespace" word,
    /// Image of a container.
    Image = "image" word,
    /// System call.
    Syscall = "syscall" word,
    /// File, socket or pipe.
    File = "file" word,
    /// Block device.
    Device = "device" word,
    /// CPU.
    Cpu = "cpu" number,
    /// Error.
    Errno = "errno" word,
    /// Why a thread waited.
    Reason = "reason" word,
    /// Where in the kernel, or in the program: functions, from the innermost one out.
    Stack = "stack" word,
    /// What woke the thread.
    Waker = "waker" word,
    /// What was done on a disk, or whether bytes were read or written.
    Op = "op" word,
    /// Function.
    Function = "function" word,
    /// Interrupt.
    Interrupt = "interrupt" word,
    /// The other end of a connection.
    Remote = "remote" word,
    /// A socket's own address.
    Local = "local" word,
    /// Who ended a connection.
    ClosedBy = "closed_by" word,
    /// Signal.
    Signal = "signal" word,
    /// To whom a signal was sent.
    Target = "target" word,
    /// What became of it.
    Result = "result" word,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Key {
    /// By its name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|key| key.name() == name)
    }
}
