//! `flight-ship` and the storages of Azure and Google: the same objects as in a directory, each
//! once, whoever is killed; and what is wrong is said.
//!
//! Azure's is Microsoft's emulator. Google's is a server of S3's protocol: the XML API of Google
//! Cloud Storage, which flight-ship speaks, is that protocol with headers of its own; what is
//! Google's alone (tokens of OAuth) has no judge here.

use std::collections::BTreeMap;
use std::fs;

use flightrec_tests::azure_server::{ACCOUNT, AzureServer, KEY};
use flightrec_tests::shipping::{S3Server, Shipper};
use tempfile::TempDir;

use crate::compact;
use crate::ship::{Recorded, SETTLED, exits, kill_until_done, same};

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
    let dir = TempDir::new().expect("a directory");
    // A key of the same length.
    let other = KEY.replace('E', "F");
    let wrong = [("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT), ("AZURE_STORAGE_ACCOUNT_KEY", &other)];
    let words = "the credentials are not accepted";
    Cloud::azure(&dir).has_each_object_once(&dir, &wrong, words);
}

#[test]
fn azure_has_each_host_once_in_what_is_compacted() {
    let dir = TempDir::new().expect("a directory");
    Cloud::azure(&dir).has_each_host_once(&dir);
}

#[test]
fn google_has_each_object_once_whoever_is_killed() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("none.json").display().to_string();
    let words = "the service account's file can't be used: from";
    let wrong = [("GOOGLE_SERVICE_ACCOUNT", file.as_str())];
    Cloud::google(&dir).has_each_object_once(&dir, &wrong, words);
}

#[test]
fn google_has_each_host_once_in_what_is_compacted() {
    let dir = TempDir::new().expect("a directory");
    Cloud::google(&dir).has_each_host_once(&dir);
}
