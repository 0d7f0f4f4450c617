//! What a changed configuration can change while it records, and what has to wait for the next
//! start.

use toml::{Table, Value};

use crate::config::Config;

/// Keys, or whole tables, that take effect at once; all others shape the kernel's side, which would
/// have to be made anew.
const AT_ONCE: [&str; 7] =
    ["budget", "interrupts", "locks", "record.own", "record.strings", "sampling", "stacks"];

/// What comes of reading the configuration again.
#[derive(Debug, PartialEq)]
pub struct Reload {
    /// In force from now on.
    pub config: Config,
    /// Keys that changed and take effect now.
    pub now: Vec<String>,
    /// Keys that changed and take effect when flightd is started the next time; the recording then
    /// begins anew.
    pub later: Vec<String>,
}

impl Reload {
    /// From what is in force to what was read. `None` where a configuration can't be told as TOML,
    /// which none is known to be.
    pub fn new(old: &Config, new: &Config) -> Option<Self> {
        let without =
            |config: &Config| Config { tracepoint: Vec::new(), ..config.clone() }.to_toml();
        let mut merged: Table = toml::from_str(&without(old)).ok()?;
        let wanted: Table = toml::from_str(&without(new)).ok()?;
        let (mut now, mut later) = (Vec::new(), Vec::new());
        for (table, entries) in wanted {
            let (Value::Table(entries), Some(Value::Table(held))) =
                (entries, merged.get_mut(&table))
            else {
                return None;
            };
            for (entry, value) in entries {
                let key = format!("{table}.{entry}");
                if held.get(&entry) == Some(&value) {
                    continue;
                }
                let at_once = AT_ONCE.iter().any(|at_once| key == *at_once || table == *at_once);
                // Without samples there is no program that takes them.
                let is_switch =
                    key == "sampling.hz" && (old.sampling.hz == 0) != (new.sampling.hz == 0);
                if at_once && !is_switch {
                    held.insert(entry, value);
                    now.push(key);
                } else {
                    later.push(key);
                }
            }
        }
        let mut config: Config = merged.try_into().ok()?;
        config.tracepoint.clone_from(&old.tracepoint);
        if old.tracepoint != new.tracepoint {
            // Without a ring for their events they wait for one.
            if old.uses_kernel_lane() {
                config.tracepoint.clone_from(&new.tracepoint);
                now.push("tracepoint".to_owned());
            } else {
                later.push("tracepoint".to_owned());
            }
        }
        Some(Self { config, now, later })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Share, Size, Span};

    #[test]
    fn nothing_changed() {
        let config = Config::default();
        let reload = Reload::new(&config, &config).unwrap();
        assert_eq!(reload, Reload { config, now: Vec::new(), later: Vec::new() });
    }

    #[test]
    fn samples_begin_and_end_at_the_next_start() {
        let with = |hz| {
            let mut config = Config::default();
            config.sampling.hz = hz;
            config
        };
        for (old, new, is_now) in [(49, 0, false), (0, 49, false), (49, 99, true)] {
            let reload = Reload::new(&with(old), &with(new)).unwrap();
            let key = vec!["sampling.hz".to_owned()];
            let (now, later) = if is_now { (key, Vec::new()) } else { (Vec::new(), key) };
            assert_eq!((reload.now, reload.later), (now, later));
            assert_eq!(reload.config.sampling.hz, if is_now { new } else { old });
        }
    }

    #[test]
    fn tracepoints_change_at_once_where_their_lane_has_a_ring() {
        let table = |event: &str| crate::configured_tracepoints::ConfiguredTracepoint {
            event: event.into(),
            ..Default::default()
        };
        let (old, mut new) = (Config::default(), Config::default());
        new.tracepoint = vec![table("a:b"), table("a:c")];
        let reload = Reload::new(&old, &new).unwrap();
        assert_eq!((reload.now, &reload.config), (vec!["tracepoint".to_owned()], &new));
        let back = Reload::new(&new, &old).unwrap();
        assert_eq!((back.now, &back.config), (vec!["tracepoint".to_owned()], &old));
        let mut without = Config::default();
        let record = &mut without.record;
        (record.disk, record.memory, record.interrupts) = (false, false, false);
        (record.locks, record.network, record.throttling) = (false, false, false);
        record.io_uring = false;
        without.sampling.hz = 0;
        let wanted = Config { tracepoint: new.tracepoint.clone(), ..without.clone() };
        let reload = Reload::new(&without, &wanted).unwrap();
        assert_eq!((reload.later, reload.config), (vec!["tracepoint".to_owned()], without));
    }

    #[test]
    fn what_can_change_does_and_the_rest_is_named() {
        let (old, mut new) = (Config::default(), Config::default());
        new.record.strings = false;
        new.budget.per_cpu = Share::Off;
        new.interrupts.longer_than = Span::millis(2);
        new.record.locks = false;
        new.access.group = "adm".into();
        new.rings.syscall = Size::mib(1);
        new.kernel.tracefs = "/t".into();
        let reload = Reload::new(&old, &new).unwrap();
        assert_eq!(reload.now, ["budget.per_cpu", "interrupts.longer_than", "record.strings"]);
        let later = ["access.group", "kernel.tracefs", "record.locks", "rings.syscall"];
        assert_eq!(reload.later, later);
        assert!(reload.config.record.locks && reload.config.interrupts == new.interrupts);
        assert!(!reload.config.record.strings);
        assert_eq!(reload.config.budget, new.budget);
        assert_eq!(reload.config.access, old.access);
        assert_eq!(
            (reload.config.rings.syscall, &reload.config.kernel),
            (old.rings.syscall, &old.kernel)
        );
    }
}
