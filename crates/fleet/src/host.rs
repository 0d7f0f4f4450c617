//! The hosts: what each is for, and what is wrong with it.
//!
//! What is wrong is planted, so that questions have answers that are known ([`Fleet::truth`]).

use serde_json::{Value, json};

/// What a host is for. Its three letters are in its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Web,
    Database,
    Cache,
    Batch,
}

impl Role {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::Database => "dbs",
            Self::Cache => "kvs",
            Self::Batch => "job",
        }
    }
}

/// How many hosts there are, and for how many hours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fleet {
    pub(crate) hosts: usize,
    pub(crate) hours: usize,
}

/// A host, in an hour.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each fault comes or not, whatever the others")]
pub(crate) struct Host {
    pub(crate) number: usize,
    pub(crate) role: Role,
    pub(crate) rack: usize,
    /// It has a disk that turns, instead of flash.
    pub(crate) turns: bool,
    /// Its rack's storage is slow.
    pub(crate) slow_disk: bool,
    /// The release that is slower runs on it.
    pub(crate) deployed: bool,
    /// Its threads wait for CPUs.
    pub(crate) crowded: bool,
    /// It opens files slowly.
    pub(crate) outlier: bool,
    /// Its disk is full.
    pub(crate) full: bool,
    /// Events are missing.
    pub(crate) lossy: bool,
    /// It is switched off.
    pub(crate) absent: bool,
}

impl Host {
    pub(crate) fn name(&self) -> String {
        format!("r{:03}-{}-{:05}", self.rack, self.role.name(), self.number)
    }
}

/// The rack whose storage is slow.
const SLOW_RACK: usize = 1;

impl Fleet {
    /// The hour in which a rack's storage gets slow.
    fn slow_from(&self) -> usize {
        self.hours * 3 / 8
    }

    /// The hour of the release.
    fn deploy(&self) -> usize {
        self.hours / 2
    }

    /// The hour in which disks of databases get full.
    fn full_from(&self) -> usize {
        self.hours * 5 / 8
    }

    /// The hour in which events are missing.
    fn lossy_at(&self) -> usize {
        self.hours / 4
    }

    /// A host in an hour.
    pub(crate) fn host(&self, number: usize, hour: usize) -> Host {
        let role = match number % 20 {
            0..10 => Role::Web,
            10..13 => Role::Database,
            13..16 => Role::Cache,
            _ => Role::Batch,
        };
        let rack = number / (self.hosts / 250).max(2);
        let middle = self.hosts / 2;
        Host {
            number,
            role,
            rack,
            turns: number % 10 == 4,
            slow_disk: rack == SLOW_RACK && hour >= self.slow_from(),
            deployed: role == Role::Web && (number / 20).is_multiple_of(2) && hour >= self.deploy(),
            crowded: (middle..middle + 3).contains(&number),
            outlier: number % (self.hosts / 5).max(10) == 9,
            full: role == Role::Database && hour >= self.full_from(),
            lossy: number % (self.hosts / 100).max(10) == 3 && hour == self.lossy_at(),
            absent: number % (self.hosts / 10).max(10) == 7 && hour + 1 == self.hours,
        }
    }

    /// What questions have to find.
    pub(crate) fn truth(&self) -> Value {
        let last = self.hours.saturating_sub(1);
        let names = |hour: usize, is_one: fn(&Host) -> bool| -> Vec<String> {
            let all = (0..self.hosts).map(|number| self.host(number, hour));
            let mut names: Vec<String> = all.filter(is_one).map(|host| host.name()).collect();
            names.sort();
            names
        };
        json!({
            "hosts": self.hosts,
            "hours": self.hours,
            "slow_disk": names(last, |host| host.slow_disk),
            "slow_from": self.slow_from(),
            "crowded": names(last, |host| host.crowded),
            "lossy": names(self.lossy_at(), |host| host.lossy),
            "lossy_at": self.lossy_at(),
            "absent": names(last, |host| host.absent),
            "outliers": names(last, |host| host.outlier),
            "deploy": self.deploy(),
            "deployed": names(last, |host| host.deployed).len(),
            "full_from": self.full_from(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_wrong_in_every_fleet() {
        for (hosts, hours) in [(20, 4), (40, 8), (10_000, 24)] {
            let truth = Fleet { hosts, hours }.truth();
            for key in ["slow_disk", "crowded", "lossy", "absent", "outliers"] {
                let names = truth[key].as_array().unwrap();
                assert!(!names.is_empty() && names.len() <= hosts / 5, "{key}: {names:?}");
            }
            assert!(truth["slow_from"].as_u64() > Some(0), "there is a time before");
        }
        let slow = Fleet { hosts: 10_000, hours: 24 }.truth();
        assert_eq!(slow["slow_disk"].as_array().unwrap().len(), 40);
        assert_eq!(slow["slow_disk"][0], "r001-dbs-00050");
    }
}
