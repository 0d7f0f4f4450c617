//! What the walk over open files tells the daemon: one record for each descriptor, by way of the
//! iterator's file. Nothing of it is stored or sent as it is; the daemon makes a snapshot of it. But
//! a [`SocketRecord`] is recorded with the call that binds, connects or accepts a socket as well.

/// The descriptor is closed by an exec.
pub const CLOEXEC: u32 = 1;
/// It is a socket; [`FileRecord::socket`] means something.
pub const SOCKET: u32 = 2;
/// The kernel could not give its path.
pub const UNNAMED: u32 = 4;

/// Most bytes of text after a record: a path of `PATH_MAX`.
pub const TEXT_MAX: usize = 4096;

/// One open descriptor. The text follows: [`Self::text`] bytes, the file's path; of a Unix socket
/// its name, which may begin with a NUL (an abstract one).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct FileRecord {
    /// Bytes of text after the record.
    pub text: u32,
    /// [`CLOEXEC`], [`SOCKET`], [`UNNAMED`].
    pub flags: u32,
    /// Process.
    pub tgid: u32,
    /// Thread: the process's leader, or one that has descriptors of its own.
    pub tid: u32,
    /// Address of the `files_struct`: threads and processes of the same one share their
    /// descriptors.
    pub files: u64,
    /// Inode number.
    pub inode: u64,
    /// Descriptor.
    pub fd: u32,
    /// If it is a socket: what it is.
    pub socket: SocketRecord,
}

const _: () = assert!(size_of::<FileRecord>() == 88);

/// What a socket is, and what it is bound and connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct SocketRecord {
    /// Inode number, which has 32 bits (`get_next_ino`, fs/inode.c, Linux 6.18).
    pub inode: u32,
    /// `AF_UNIX`: inode number of the other end; 0: none.
    pub peer: u32,
    /// `sock_common.skc_family`
    pub family: u16,
    /// `sock.sk_type`
    pub kind: u16,
    /// `sock.sk_protocol`
    pub protocol: u16,
    /// `AF_INET`, `AF_INET6`: local port.
    pub local_port: u16,
    /// Remote port; 0: not connected.
    pub remote_port: u16,
    /// `AF_UNIX`: bytes of its name, which is not here.
    pub name: u16,
    /// Local address, in the network's order; an IPv4 address is its first four bytes.
    pub local: [u8; 16],
    /// Remote address.
    pub remote: [u8; 16],
}

impl SocketRecord {
    /// By its bytes, whatever they hold.
    pub fn from_bytes(bytes: &[u8; SOCKET_BYTES]) -> Self {
        let word = |at: usize| match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            Some(word) => u32::from_le_bytes(*word),
            None => 0,
        };
        let address = |at: usize| {
            bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
        };
        Self {
            inode: word(0),
            peer: word(4),
            family: word(8) as u16,
            kind: (word(8) >> 16) as u16,
            protocol: word(12) as u16,
            local_port: (word(12) >> 16) as u16,
            remote_port: word(16) as u16,
            name: (word(16) >> 16) as u16,
            local: address(20),
            remote: address(36),
        }
    }
}

/// Bytes of a [`SocketRecord`].
pub const SOCKET_BYTES: usize = size_of::<SocketRecord>();

const _: () = assert!(SOCKET_BYTES == 52 && align_of::<SocketRecord>() == 4);

/// Byte offsets of the kernel's members that the walk reads, from the running kernel's BTF; beside
/// [`super::probe::Offsets`], as a kernel that lacks one of these is recorded all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct FileOffsets {
    /// `task_struct.files`
    pub files: u32,
    /// `files_struct.fdt`
    pub fdt: u32,
    /// `fdtable.close_on_exec`
    pub close_on_exec: u32,
    /// `file.f_path`
    pub f_path: u32,
    /// `file.f_inode`
    pub f_inode: u32,
    /// `inode.i_mode`
    pub i_mode: u32,
    /// `inode.i_ino`
    pub i_ino: u32,
    /// `socket.sk`
    pub socket_sk: u32,
    /// `socket.file`
    pub socket_file: u32,
    /// `sock.__sk_common.skc_family`
    pub family: u32,
    /// `sock.__sk_common.skc_num`: the local port, in the machine's order.
    pub num: u32,
    /// `sock.__sk_common.skc_dport`: the remote port, in the network's order.
    pub dport: u32,
    /// `sock.__sk_common.skc_rcv_saddr`
    pub local4: u32,
    /// `sock.__sk_common.skc_daddr`
    pub remote4: u32,
    /// `sock.__sk_common.skc_v6_rcv_saddr`; [`super::probe::ABSENT`] in a kernel without IPv6.
    pub local6: u32,
    /// `sock.__sk_common.skc_v6_daddr`; as above.
    pub remote6: u32,
    /// `sock.sk_type`
    pub kind: u32,
    /// `sock.sk_protocol`
    pub protocol: u32,
    /// `sock.sk_socket`
    pub sk_socket: u32,
    /// `unix_sock.addr`
    pub unix_addr: u32,
    /// `unix_sock.peer`
    pub unix_peer: u32,
    /// `unix_address.len`: of the whole address, its family included.
    pub unix_len: u32,
    /// `unix_address.name`: a `struct sockaddr_un`.
    pub unix_name: u32,
    /// `fdtable.fd`: the files by descriptor; for lines that somebody writes into the kernel's
    /// log.
    pub fd: u32,
    /// `inode.i_rdev`: which device; as above.
    pub i_rdev: u32,
    /// `file.private_data`: of a socket's, its `struct socket`.
    pub private_data: u32,
}

const _: () = assert!(size_of::<FileOffsets>() == 26 * 4);
