//! What arguments of system calls point to, strings aside: addresses of sockets, times, sets of
//! descriptors.
//!
//! One stands in a STRING record whose index is [`INDEX`] more than the argument's. Its bytes begin
//! with a [`head`]; what follows is as the program has it in its memory, but for what
//! [`Shape::Iovec`] and [`Shape::Message`] say.

use super::probe::CALLS;

/// What is added to an argument's number: a string of that index is what the argument points to.
pub const INDEX: u8 = 8;
/// Bytes of the [`head`].
pub const HEAD: usize = 4;
/// Most bytes after it.
pub const MAX: usize = 128;
/// Bytes of a page that the longest one may take. Four more than it has: the kernel's verifier
/// does not see that a length rounded down is a multiple of four.
pub const ROOM: usize = 8 + HEAD + MAX + 4;
/// Buffers whose lengths are recorded, of those that one [`Shape::Iovec`] has.
pub const BUFFERS: usize = 8;

/// In a head: it was read when the call returned, so it is what the kernel told the program.
const TOLD: u32 = 1 << 8;

/// The first word of what an argument points to; `shape` as a number.
#[inline(always)]
pub const fn head(shape: u32, told: bool) -> u32 {
    shape | if told { TOLD } else { 0 }
}

/// The shape of what follows a head, if this release knows it, and whether the kernel told it.
pub const fn unpack(head: u32) -> (Option<Shape>, bool) {
    (Shape::of(head as u8), head & TOLD != 0)
}

macro_rules! shapes {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal,)*) => {
        /// What a pointer points to (include/uapi/linux, Linux 6.18; x86_64).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Shape {
            $($(#[doc = $doc])+ $name = $number,)*
        }

        impl Shape {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// By its number.
            pub const fn of(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

shapes! {
    /// `struct sockaddr` of any family
    SocketAddress = 1,
    /// `struct __kernel_timespec`
    Timespec = 2,
    /// `struct iovec[]`: of each, the length alone, as a `u32`; greater ones are `u32::MAX`
    Iovec = 3,
    /// `struct pollfd[]`
    PollFds = 4,
    /// `struct epoll_event[]`
    EpollEvents = 5,
    /// `struct open_how`
    OpenHow = 6,
    /// `struct clone_args`
    CloneArgs = 7,
    /// `struct rlimit64`
    Rlimit = 8,
    /// `struct sigaction` of the kernel: handler, flags, restorer, mask
    SignalAction = 9,
    /// `sigset_t` of the kernel
    SignalSet = 10,
    /// `struct user_msghdr`: of it `msg_namelen`, `msg_iovlen`, `msg_controllen`, `msg_flags`, a
    /// `u32` each; address and buffers follow as shapes of their own, of the same argument
    Message = 11,
    /// Status of a process that has ended or stopped
    WaitStatus = 12,
    /// Two descriptors
    Descriptors = 13,
    /// `struct timeval[]`
    Timevals = 14,
    /// `struct __kernel_timespec[]`: two of them
    Timespecs = 15,
    /// `fd_set`
    DescriptorSet = 16,
    /// An `int`
    Int = 17,
    /// `siginfo_t`: its first 32 bytes
    SignalInfo = 18,
    /// `struct flock`
    FileLock = 19,
    /// Value of a socket's option
    SocketOption = 20,
    /// `loff_t`
    Offset = 21,
    /// `unsigned long[]`: a bit for each CPU
    CpuSet = 22,
    /// `struct itimerspec`
    TimerSpec = 23,
    /// An `int`: the room that the program gives for an address, of which the kernel writes no
    /// more, and in place of which it writes how long the address is (`move_addr_to_user`,
    /// net/socket.c, Linux 6.18)
    Room = 24,
    /// `msg_namelen` of a `struct user_msghdr`, which is the same (`____sys_recvmsg`)
    MessageRoom = 25,
    /// What a socket is that the call bound, connected or returned, as the kernel has it: a
    /// [`SocketRecord`](super::file::SocketRecord), and the name of one of `AF_UNIX`, if that fits
    Socket = 26,
}

/// How many bytes an argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Extent {
    /// One element.
    One = 0,
    /// As many elements as the next argument says.
    NextCounts = 1,
    /// As many elements as the `int` says that the next argument points to; and that `int`.
    NextPoints = 2,
    /// As many elements as the call returns.
    Returned = 3,
    /// A bit for each number below the first argument, in words of 64.
    FirstBits = 4,
    /// As many elements as the argument before says.
    BeforeCounts = 5,
    /// One element, where the call returns more than 0.
    IfPositive = 6,
    /// One element, where a futex operation waits (`FUTEX_WAIT` and its like).
    IfFutexWaits = 7,
    /// One element, where `fcntl`'s command is about a lock of a file.
    IfLocks = 8,
    /// A message: see [`Shape::Message`].
    Message = 9,
    /// As [`Self::NextCounts`], where it is a number of 4 or 8 bytes that an Internet protocol or
    /// the socket itself takes: other options of sockets may be keys.
    NextCountsNumber = 10,
    /// As [`Self::NextPoints`], with the same limits.
    NextPointsNumber = 11,
    /// One element, 8 bytes after: `msg_namelen` of a `struct user_msghdr`.
    MessageRoom = 12,
    /// What the argument is as a descriptor: a [`Shape::Socket`].
    OfArgument = 13,
    /// What the call's result is as a descriptor.
    OfResult = 14,
}

/// What is read of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Which argument; below 6.
    pub index: u8,
    /// What it points to.
    pub shape: Shape,
    /// Bytes of an element; below 128.
    pub element: u8,
    /// How many there are.
    pub extent: Extent,
    /// The kernel writes it: it is read when the call returns without an error.
    pub told: bool,
}

/// Most items of a call.
pub const ITEMS: usize = 3;
/// Bits of an item.
pub const ITEM_BITS: u32 = 20;
/// Where a call's items have the greatest room that they take, in units of 64 bytes.
const ROOM_SHIFT: u32 = 60;

/// What is read of each call, by its number: items of [`ITEM_BITS`] bits from the lowest on; bits
/// 0-2 of each are the argument, 3-7 the shape (0: no further item), 8-14 the bytes of an element,
/// 15-18 the [`Extent`], 19 whether the kernel tells it. Above them, the room.
pub type PointeeTable = [u64; CALLS];

/// Item `k` of a call's.
#[inline(always)]
pub const fn item(items: u64, k: u32) -> u32 {
    (items >> (ITEM_BITS * k)) as u32 & ((1 << ITEM_BITS) - 1)
}

/// Parts of an item as it is packed.
pub mod packed {
    /// Which argument.
    #[inline(always)]
    pub const fn index(item: u32) -> u32 {
        item & 7
    }

    /// What it points to, as a number; 0: nothing.
    #[inline(always)]
    pub const fn shape(item: u32) -> u32 {
        item >> 3 & 31
    }

    /// Bytes of an element.
    #[inline(always)]
    pub const fn element(item: u32) -> u32 {
        item >> 8 & 127
    }

    /// [`Extent`](super::Extent), as a number.
    #[inline(always)]
    pub const fn extent(item: u32) -> u32 {
        item >> 15 & 15
    }

    /// Whether the kernel tells it.
    #[inline(always)]
    pub const fn told(item: u32) -> bool {
        item >> 19 & 1 != 0
    }
}

/// Bytes of a page that a call's items take at most.
#[inline(always)]
pub const fn room(items: u64) -> usize {
    64 * (items >> ROOM_SHIFT) as usize
}

/// Packs the items of a call; those beyond [`ITEMS`] are left out.
pub const fn pack(items: &[Item]) -> u64 {
    let (mut bits, mut bytes, mut k) = (0, 0, 0);
    while k < items.len() && k < ITEMS {
        let Item { index, shape, element, extent, told } = items[k];
        let packed = (index & 7) as u64
            | ((shape as u8 & 31) as u64) << 3
            | ((element & 127) as u64) << 8
            | ((extent as u8 & 15) as u64) << 15
            | (told as u64) << 19;
        bits |= packed << (ITEM_BITS * k as u32);
        bytes += match extent {
            Extent::One
            | Extent::IfPositive
            | Extent::IfFutexWaits
            | Extent::IfLocks
            | Extent::MessageRoom => 8 + HEAD + (element as usize).next_multiple_of(4),
            // The message itself, its address, its buffers.
            Extent::Message => 8 + HEAD + 16 + 2 * ROOM,
            Extent::NextPoints => ROOM + 8 + HEAD + 4,
            _ => ROOM,
        };
        k += 1;
    }
    if bytes > 0 {
        // Whatever is written has to find the greatest room: the verifier takes each for that.
        bytes += ROOM;
    }
    bits | (bytes.div_ceil(64) as u64) << ROOM_SHIFT
}

const _: () = assert!(ITEM_BITS * ITEMS as u32 == ROOM_SHIFT);
// Three of the longest that a call has beside each other fit the room's bits.
const _: () = assert!((4 * ROOM).div_ceil(64) < 16 && (3 * ROOM + 28).div_ceil(64) < 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_as_they_went_in() {
        let items = [
            Item {
                index: 4,
                shape: Shape::SocketAddress,
                element: 1,
                extent: Extent::NextPoints,
                told: true,
            },
            Item {
                index: 2,
                shape: Shape::Timespec,
                element: 16,
                extent: Extent::One,
                told: false,
            },
        ];
        let bits = pack(&items);
        for (k, Item { index, shape, element, extent, told }) in (0..).zip(items) {
            let item = item(bits, k);
            assert_eq!(packed::index(item), u32::from(index));
            assert_eq!(packed::shape(item), shape as u32);
            assert_eq!(packed::element(item), u32::from(element));
            assert_eq!(packed::extent(item), extent as u32);
            assert_eq!(packed::told(item), told);
        }
        assert_eq!(packed::shape(item(bits, 2)), 0);
        assert!(room(bits) >= 2 * ROOM + 8 + HEAD + 16);
    }

    #[test]
    fn every_shape_has_its_number_and_five_bits() {
        for shape in Shape::ALL {
            assert!(*shape as u8 > 0 && (*shape as u8) < 32);
            assert_eq!(unpack(head(*shape as u32, true)), (Some(*shape), true));
        }
        assert_eq!(unpack(head(31, false)), (None, false));
    }
}
