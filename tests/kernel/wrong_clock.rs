//! A machine whose clock is wrong: what a storage says of its requests, and what `flightctl
//! collect` says of its windows.

use std::fmt::Write as _;
use std::net::TcpStream;
use std::process::Output;

use flightrec_tests::shipping::{S3Server, Shipper};
use flightrec_tests::{FakeClock, Judge, PATIENCE, wait_until};
use jiff::Timestamp;
use serde_json::Value;
use tempfile::TempDir;

use crate::fleet::{OpenSsh, collected, lasted};
use crate::ship::{Recorded, SETTLED, exits, same};
use crate::support::start;

/// Requests that are signed at a time more than 15 minutes from the server's are refused, by the
/// server's own check; nothing is lost by it, and it goes on when the clock is set.
#[test]
fn a_storage_refuses_it_until_it_is_set() {
    Judge::S3.require();
    FakeClock::require();
    let recorded = Recorded::new();
    let (_reference, expected) = recorded.shipped("");
    let dir = TempDir::new().expect("a directory");
    let server = S3Server::start(&dir.path().join("s3"), None).expect("a server");
    let config = recorded.config("s3://lake", SETTLED);
    let config = format!("{config}endpoint = {:?}\nallow_http = true\n", server.endpoint());
    let mut shipper = Shipper::new(&dir.path().join("ship"), &config).expect("flight-ship");
    let clock = FakeClock::new(dir.path(), "+0").expect("libfaketime");
    let variables = clock.variables();
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    shipper.environment(&variables);
    let words = "this machine's clock is too far from the storage's";
    for by in ["+20m", "-20m"] {
        clock.set(by).expect("written");
        let checked = shipper.run(&["--check"]).expect("flight-ship");
        exits(&checked, 1);
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(said.contains(words) && said.contains("set it (timedatectl status)"), "{said}");
        let tried = shipper.run(&["--once"]).expect("flight-ship");
        exits(&tried, 1);
        let logged = String::from_utf8_lossy(&tried.stderr).into_owned();
        assert!(logged.contains(words) && logged.contains("nothing is lost"), "{by}: {logged}");
    }
    assert_eq!(server.objects().expect("objects").len(), 0);
    clock.set("+20m").expect("written");
    shipper.start().expect("flight-ship");
    let is_told = || shipper.status().is_some_and(|status| status["problem"]["kind"] == "clock");
    assert!(wait_until(PATIENCE, is_told), "{:?}\n{}", shipper.status(), shipper.log());
    // 14 minutes are taken.
    clock.set("+14m").expect("written");
    let is_done = || shipper.is_done(recorded.items());
    assert!(wait_until(PATIENCE, is_done), "{:?}\n{}", shipper.status(), shipper.log());
    let status = shipper.status().expect("a status");
    assert_eq!((&status["dropped"], &status["failed"]), (&0.into(), &0.into()), "{status}");
    // The table of what there is comes after the rest.
    wait_until(PATIENCE, || server.objects().is_ok_and(|all| all == expected));
    shipper.terminate().expect("its end");
    same(&server.objects().expect("objects"), &expected);
}

/// Over OpenSSH, at ports: the clock of one host is right, that of another is wrong. How ssh comes
/// to them does not matter: by a port, by one of an address of IPv6, by an alias.
#[test]
fn collect_tells_it() {
    const WRONG: i64 = -330_000_000_000;
    FakeClock::require();
    Judge::SSHD.require();
    let recorder = start("");
    lasted(&recorder);
    let open = OpenSsh::new();
    let clock = FakeClock::new(open.dir(), "-330s").expect("libfaketime");
    let variables = clock.variables().map(|(name, value)| format!("{name}={value}")).join(" ");
    let (right, wrong) = (open.listen(""), open.listen(&variables));
    let (port, other) = (right.port, wrong.port);
    let alias = format!("Host web9\n HostName 127.0.0.1\n Port {port}\n User root\n");
    let ssh = open.configured(&alias);
    let mut hosts = format!("root@127.0.0.1:{other}\nroot@127.0.0.1:{port}\nweb9\n");
    if TcpStream::connect(("::1", port)).is_ok() {
        writeln!(hosts, "root@[::1]:{port}").expect("text");
    }
    let asked = |args: &[&str]| collected(&ssh, &recorder, open.dir(), &hosts, args);
    let output = asked(&["--last", "2s", "--json"]);
    // An event of something else on this machine may be missing.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    let table: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for (host, is) in table["hosts"].as_array().expect("hosts").iter().zip([WRONG, 0, 0, 0]) {
        let ahead = host["clock_ahead_ns"].as_i64().unwrap_or_else(|| panic!("{host}"));
        let within = host["clock_ahead_within_ns"].as_u64().expect("a number");
        eprintln!("{}: {ahead} ns ahead, within {within} ns", host["host"]);
        // The time goes through a library that takes microseconds more.
        assert!(ahead.abs_diff(is) <= within + 1_000_000 && within < 1_000_000_000, "{host}");
    }
    assert_eq!(table["answered"], hosts.lines().count(), "{table}");
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let told = text(&asked(&["--last", "2s"]));
    assert!(told.contains(&format!("root@127.0.0.1:{other}: its clock is 5m ")), "{told}");
    assert!(
        told.contains("behind this machine's: the times in its files differ by that"),
        "{told}"
    );
    assert_eq!(told.matches("its clock is").count(), 1, "{told}");
    let of_day = asked(&["--since", &Timestamp::now().to_string()]);
    assert_eq!(of_day.status.code(), Some(3), "{of_day:?}");
    let told = text(&of_day);
    assert!(told.contains("so its window is not of the time that was asked for"), "{told}");
}
