//! Sockets by their addresses, from the call on that gave them these; and of addresses that the
//! kernel tells, what it wrote. The witness is the kernel: `getsockname`, `getpeername`, /proc.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use flightrec_tests::Recorder;
use jiff::Timestamp;

use crate::support::{Line, dump, in_both_forms};

/// What this test's thread did since then.
fn done(recorder: &Recorder, since: Timestamp, calls: &str, args: &[&str]) -> Vec<Line> {
    // SAFETY: no arguments.
    let tid = unsafe { libc::gettid() }.to_string();
    let since = since.to_string();
    dump(recorder, &[&["--tid", &tid, "--since", &since, "--syscall", calls], args].concat())
}

fn has(lines: &[Line], text: &str) {
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    assert!(texts.iter().any(|line| line.contains(text)), "no {text} in {texts:#?}");
}

/// A connection to a server that does not ask who it is, by descriptors that nobody looked at.
#[test]
fn they_have_their_addresses_at_once() {
    in_both_forms(|recorder| {
        let since = Timestamp::now();
        let server = TcpListener::bind("127.0.0.1:0").expect("a server");
        let mut client = TcpStream::connect(server.local_addr().expect("bound")).expect("connect");
        // SAFETY: no address is asked for; the descriptor is ours alone.
        let mut peer = unsafe {
            let null = std::ptr::null_mut::<libc::c_void>();
            let fd = libc::accept4(server.as_raw_fd(), null.cast(), null.cast(), 0);
            assert!(fd >= 0);
            TcpStream::from(OwnedFd::from_raw_fd(fd))
        };
        client.write_all(b"x").expect("write");
        assert_eq!(peer.read(&mut [0]).expect("read"), 1);
        let (a, b) = (client.local_addr().expect("an address"), server.local_addr().expect("one"));
        let name = |fd: i32, of: String| format!("{fd}<TCP:[{of}]>");
        let client_name = name(client.as_raw_fd(), format!("{a}->{b}"));
        let peer_name = name(peer.as_raw_fd(), format!("{b}->{a}"));
        let lines = done(recorder, since, "accept4,connect,recvfrom,sendto,write,read", &[]);
        has(&lines, &format!("accept4({}", name(server.as_raw_fd(), b.to_string())));
        has(&lines, &format!("<-- {peer_name}"));
        has(&lines, &format!("({client_name}, "));
        has(&lines, &format!("({peer_name}, "));

        // Of unix sockets the numbers are those of /proc.
        let since = Timestamp::now();
        let path = recorder.sandbox().root().join("socket");
        let server = UnixListener::bind(&path).expect("a server");
        let mut client = UnixStream::connect(&path).expect("connect");
        let (mut peer, _) = server.accept().expect("accept");
        client.write_all(b"x").expect("write");
        assert_eq!(peer.read(&mut [0]).expect("read"), 1);
        let inode = |fd: i32| {
            let link = fs::read_link(format!("/proc/self/fd/{fd}")).expect("a link");
            let link = link.display().to_string();
            link.trim_start_matches("socket:[").trim_end_matches(']').to_owned()
        };
        let (of_client, of_peer) = (inode(client.as_raw_fd()), inode(peer.as_raw_fd()));
        let lines = done(recorder, since, "accept4,connect,recvfrom,sendto,write,read", &[]);
        let fd = client.as_raw_fd();
        // Who accepts it was not there when it connected.
        has(&lines, &format!("({fd}<UNIX-STREAM:[{of_client}"));
        let path = path.display();
        let fd = peer.as_raw_fd();
        has(&lines, &format!("({fd}<UNIX-STREAM:[{of_peer}->{of_client},\"{path}\"]>"));
        fs::remove_file(path.to_string()).expect("it is there");
    });
}

/// The kernel returns how long an address is, and writes no more than there is room for: what
/// stands after that in the program's memory is none.
#[test]
fn of_an_address_what_the_kernel_wrote() {
    in_both_forms(|recorder| {
        let since = Timestamp::now();
        let server = TcpListener::bind("[::1]:0").expect("a server");
        let fd = server.as_raw_fd();
        for room in [28, 8] {
            // What was there before.
            let mut memory = [0xaa_u8; 128];
            let mut length: libc::socklen_t = room;
            // SAFETY: so much room is there.
            let done =
                unsafe { libc::getsockname(fd, memory.as_mut_ptr().cast(), &raw mut length) };
            assert_eq!((done, length), (0, 28));
        }
        for args in [&[][..], &["--merge"]] {
            let lines = done(recorder, since, "getsockname", args);
            let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
            let port = server.local_addr().expect("bound").port();
            assert!(texts.iter().any(|of| of.contains(&format!("[::1]:{port}"))), "{texts:#?}");
            assert!(!texts.iter().any(|of| of.contains("aaaa")), "{texts:#?}");
        }
        let merged = done(recorder, since, "getsockname", &["--merge"]);
        has(&merged, "[8 => 28]) = 0");
    });
}
