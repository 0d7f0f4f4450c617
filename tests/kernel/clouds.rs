//! `flight-ship` and the storages of Azure and Google: the same objects as in a directory, each
//! once, whoever is killed; and what is wrong is said.
//!
//! Azure's is Microsoft's emulator. Google's is a server of S3's protocol: the XML API of Google
//! Cloud Storage, which flight-ship speaks, is that protocol with headers of its own; what is
//! Google's alone (tokens of OAuth) has no judge here.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use flightrec_tests::azure_server::{ACCOUNT, AzureServer, KEY};
use flightrec_tests::shipping::{S3Server, Shipper};
use flightrec_tests::{Judge, PATIENCE, wait_until};
use tempfile::TempDir;

use crate::compact;
use crate::ship::{Recorded, SETTLED, exits, kill_until_done, same};
use crate::support::start;

/// Credentials of Azure's emulator.
const AZURE: [(&str, &str); 2] =
    [("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT), ("AZURE_STORAGE_ACCOUNT_KEY", KEY)];
/// The file of a service account of Google's that needs no token.
const ACCOUNT_FILE: &str = r#"{"private_key": "", "private_key_id": "", "client_email": "",
"disable_oauth": true}"#;

/// A storage in the cloud.
enum Cloud {
    Azure(AzureServer),
    /// And the file of its account.
    Google(S3Server, String),
}

impl Cloud {
    fn azure(dir: &TempDir) -> Self {
        Self::Azure(AzureServer::start(&dir.path().join("azure")).expect("Azurite"))
    }

    fn google(dir: &TempDir) -> Self {
        let server = S3Server::start(&dir.path().join("s3"), None).expect("a server");
        let file = dir.path().join("account.json");
        fs::write(&file, ACCOUNT_FILE).expect("written");
        Self::Google(server, file.display().to_string())
    }

    /// Where to ship, below a bucket or container of this name.
    fn to(&self, bucket: &str) -> String {
        let scheme = if matches!(self, Self::Azure(_)) { "az" } else { "gs" };
        format!("{scheme}://{bucket}")
    }

    /// Keys of `[storage]`.
    fn storage(&self) -> String {
        let endpoint = match self {
            Self::Azure(server) => server.endpoint(),
            Self::Google(server, _) => server.endpoint(),
        };
        format!("endpoint = {endpoint:?}\nallow_http = true\n")
    }

    fn credentials(&self) -> Vec<(&str, &str)> {
        match self {
            Self::Azure(_) => AZURE.to_vec(),
            Self::Google(_, file) => vec![("GOOGLE_SERVICE_ACCOUNT", file)],
        }
    }

    fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let all = match self {
            Self::Azure(server) => server.objects(),
            Self::Google(server, _) => server.objects(),
        };
        all.expect("objects")
    }

    /// What was recorded is there, each object once, through kills; a bucket that is not there is
    /// said before. `wrong`: credentials that can't be used, and `words` that are said
    /// of them.
    fn has_each_object_once(&self, dir: &TempDir, wrong: &[(&str, &str)], words: &str) {
        let recorded = Recorded::new();
        let (_reference, expected) = recorded.shipped("");
        let config = |to: &str| format!("{}{}", recorded.config(to, SETTLED), self.storage());
        let right = config(&self.to("lake"));
        let mut shipper = Shipper::new(&dir.path().join("ship"), &right).expect("flight-ship");
        let fails = |shipper: &Shipper, words: &str| {
            let tried = shipper.run(&["--once"]).expect("flight-ship");
            exits(&tried, 1);
            let logged = String::from_utf8_lossy(&tried.stderr).into_owned();
            assert!(logged.contains(words) && logged.contains("nothing is lost"), "{logged}");
        };
        shipper.environment(&self.credentials());
        shipper.configure(&config(&self.to("lakes"))).expect("written");
        fails(&shipper, "does not exist: make it, or correct [ship] to");
        shipper.configure(&right).expect("written");
        shipper.environment(wrong);
        let tried = shipper.run(&["--once"]).expect("flight-ship");
        let logged = String::from_utf8_lossy(&tried.stderr).into_owned();
        // 2: it can't even start with them.
        assert!(matches!(tried.status.code(), Some(1 | 2)) && logged.contains(words), "{tried:?}");
        shipper.environment(&self.credentials());
        exits(&shipper.run(&["--check"]).expect("flight-ship"), 0);
        kill_until_done(&mut shipper, recorded.items(), 10, |_| ());
        same(&self.objects(), &expected);
    }

    /// What hosts ship is compacted there as in a directory.
    fn has_each_host_once(&self, dir: &TempDir) {
        let to = self.to("lake/fleet");
        for host in compact::HOSTS {
            compact::ship(dir.path(), host, 60, (&to, &self.storage()), &self.credentials());
        }
        let mut compactor = compact::compactor(dir.path(), &to, &self.storage());
        compactor.environment(&self.credentials());
        exits(&compactor.run(&compact::ARGS).expect("flight-ship"), 0);
        let again = compactor.run(&compact::ARGS).expect("flight-ship");
        exits(&again, 0);
        let text = String::from_utf8_lossy(&again.stdout).into_owned();
        assert!(text.lines().all(|line| line.ends_with("  unchanged")), "{text}");
        let all = self.objects();
        let tables = compact::compacted(&all);
        assert_eq!(tables.len(), 4 * compact::HOURS as usize, "{tables:?}");
        let lake = dir.path().join("lake");
        compact::put(&lake, &all);
        compact::compare(&lake);
    }
}

#[test]
fn azure_has_each_object_once_whoever_is_killed() {
    Judge::AZURITE.require();
    let dir = TempDir::new().expect("a directory");
    // A key of the same length.
    let other = KEY.replace('E', "F");
    let wrong = [("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT), ("AZURE_STORAGE_ACCOUNT_KEY", &other)];
    let words = "the credentials are not accepted";
    Cloud::azure(&dir).has_each_object_once(&dir, &wrong, words);
}

/// Calls whose paths no two are alike: the snapshot has some 30 MB that can't be compressed.
fn long_paths() {
    let script = "import os, random\n\
                  for n in range(240_000): os.access('/%0240x' % random.getrandbits(960), 0)\n";
    let status = Command::new("python3").args(["-c", script]).status().expect("python3");
    assert!(status.success());
}

/// Objects of several blocks: they are there once the list of their blocks is, whoever is killed in
/// between, and what was uploaded of them before does not come twice.
#[test]
fn azure_has_objects_of_many_blocks_whoever_is_killed() {
    /// What is longer goes in blocks (`flightrec_ship::storage::PART`).
    const BLOCK: usize = 8 << 20;
    Judge::AZURITE.require();
    let dir = TempDir::new().expect("a directory");
    let server = AzureServer::start(&dir.path().join("azure")).expect("Azurite");
    let recorded = Recorded::of(start(""), long_paths);
    let flights = format!("{SETTLED}flight = true\npage = false\ntables = [\"calls\"]\n");
    let (_reference, expected) = recorded.shipped_as(&flights);
    let long: Vec<&String> =
        expected.iter().filter(|(_, of)| of.len() > 2 * BLOCK).map(|(name, _)| name).collect();
    assert!(long.len() >= 2, "{:?}", expected.values().map(Vec::len).collect::<Vec<_>>());
    let storage = format!("endpoint = {:?}\nallow_http = true\n", server.endpoint());
    let config = |bandwidth: &str| {
        let limits = format!("[limits]\nbandwidth = {bandwidth:?}\n");
        format!("{}{storage}{limits}", recorded.config("az://lake", &flights))
    };
    // So slowly, with 4 s from one block to the next, that whoever is killed after the first or
    // the second is in the middle of an object, also on a machine that has much else to do.
    let slow = config("2MiB");
    let mut shipper = Shipper::new(&dir.path().join("ship"), &slow).expect("flight-ship");
    shipper.environment(&AZURE);
    let (mut cut, mut before) = (0, 0);
    for round in 0..6 {
        shipper.start().expect("flight-ship");
        // Each start uploads blocks of names of their own.
        let blocks = || server.begun().expect("names").into_values().sum::<usize>();
        let new = 1 + round as usize % 2;
        let has_begun = || blocks() >= before + new;
        assert!(wait_until(PATIENCE, has_begun), "{before}: {}", shipper.log());
        thread::sleep(Duration::from_millis(100 * round));
        shipper.kill();
        // Some blocks of an object are there, and not the object.
        let begun = server.begun().expect("names");
        assert!(begun.keys().all(|name| long.contains(&name)), "{begun:?}");
        cut += usize::from(blocks() >= before + new);
        before = blocks();
        // None of them is there in part.
        let there = server.objects().expect("objects");
        let is_whole = |name: &&String| there.get(*name).is_none_or(|of| *of == expected[*name]);
        assert!(long.iter().all(is_whole), "{:?}", there.keys());
    }
    assert!(cut >= 4, "{cut} kills between the blocks of an object");
    shipper.configure(&config("16MiB")).expect("written");
    kill_until_done(&mut shipper, recorded.items(), 4, |_| ());
    same(&server.objects().expect("objects"), &expected);
    assert_eq!(server.begun().expect("names"), BTreeMap::new());
}

#[test]
fn azure_has_each_host_once_in_what_is_compacted() {
    Judge::DUCKDB.require();
    Judge::AZURITE.require();
    let dir = TempDir::new().expect("a directory");
    Cloud::azure(&dir).has_each_host_once(&dir);
}

#[test]
fn google_has_each_object_once_whoever_is_killed() {
    Judge::S3.require();
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("none.json").display().to_string();
    let words = "the service account's file can't be used: from";
    let wrong = [("GOOGLE_SERVICE_ACCOUNT", file.as_str())];
    Cloud::google(&dir).has_each_object_once(&dir, &wrong, words);
}

#[test]
fn google_has_each_host_once_in_what_is_compacted() {
    Judge::DUCKDB.require();
    Judge::S3.require();
    let dir = TempDir::new().expect("a directory");
    Cloud::google(&dir).has_each_host_once(&dir);
}
