//! How many snapshots may be taken because of whom: so many at once, and so many an hour.
//!
//! Whoever can crash a process can make alarms at will. So what one user or unit causes has a quota
//! of its own, each cause has one, and what users cause takes nothing from what the system's own
//! services and the kernel have.

use std::collections::HashMap;
use std::time::Duration;

/// Because of whom an alarm is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Nobody in particular: the kernel, or the machine as a whole.
    Machine,
    /// A user.
    User(u32),
    /// A control group, where the user is one of the system's, or is not known.
    Group(u64),
}

/// The first user id that is a person's (`UID_MIN`, login.defs(5)); those below are the system's.
const PEOPLE: u32 = 1000;
/// At once, of one owner, of one cause, and in all.
const BURST_OWNER: u64 = 2;
const BURST_CAUSE: u64 = 4;
const BURST: u64 = 5;
const HOUR: u64 = 3_600_000_000_000;

impl Owner {
    /// Of a subject whose user and control group are so, as far as they are known. `path`: of the
    /// group.
    pub fn of(uid: Option<u32>, group: u64, path: Option<&str>) -> Self {
        match uid.or_else(|| path.and_then(slice_user)) {
            Some(uid) if uid >= PEOPLE => Self::User(uid),
            _ => Self::Group(group),
        }
    }

    /// For people.
    pub fn name(self) -> String {
        match self {
            Self::Machine => "the machine".into(),
            Self::User(uid) => format!("user {uid}"),
            Self::Group(id) => format!("control group {id}"),
        }
    }
}

/// The user whose processes systemd puts there: `user-1000.slice`.
fn slice_user(path: &str) -> Option<u32> {
    path.split('/')
        .find_map(|part| part.strip_prefix("user-")?.strip_suffix(".slice")?.parse().ok())
}

/// So many at once, and so many an hour.
#[derive(Debug)]
pub struct Bucket {
    /// ns that one takes to come back.
    each: u64,
    /// How many at once.
    burst: u64,
    /// When it would be full.
    full: u64,
}

impl Bucket {
    /// Full at `now`.
    pub fn new(per_hour: u32, burst: u64, now: u64) -> Self {
        Self { each: HOUR / u64::from(per_hour.max(1)), burst, full: now }
    }

    /// Of so many an hour, as many at once as any quota lets.
    pub fn whole(per_hour: u32, now: u64) -> Self {
        Self::new(per_hour, BURST, now)
    }

    /// When it is full again if one is taken; the error is how long it is until there is one.
    fn after_one(&self, now: u64) -> Result<u64, Duration> {
        let full = self.full.max(now).saturating_add(self.each);
        let most = now.saturating_add(self.each.saturating_mul(self.burst));
        if full > most { Err(Duration::from_nanos(full - most)) } else { Ok(full) }
    }

    /// Takes one, or says how long it is until there is one.
    pub fn take(&mut self, now: u64) -> Result<(), Duration> {
        self.full = self.after_one(now)?;
        Ok(())
    }
}

/// The quotas of all alarms.
#[derive(Debug)]
pub struct Quotas {
    per_hour: u32,
    /// Of what people's processes cause, and of the rest.
    classes: [Bucket; 2],
    /// By class, too.
    causes: HashMap<(bool, String), Bucket>,
    owners: HashMap<Owner, Bucket>,
}

impl Quotas {
    /// `per_hour`: of each class.
    pub fn new(per_hour: u32, now: u64) -> Self {
        let class = || Bucket::whole(per_hour, now);
        Self {
            per_hour,
            classes: [class(), class()],
            causes: HashMap::new(),
            owners: HashMap::new(),
        }
    }

    /// Takes one, or says whose quota is used up.
    pub fn take(&mut self, cause: &str, owner: Owner, now: u64) -> Result<(), String> {
        // Full ones know nothing; so as many stay as were taken lately, and that is bounded.
        self.causes.retain(|_, bucket| bucket.full > now);
        self.owners.retain(|_, bucket| bucket.full > now);
        let people = matches!(owner, Owner::User(_));
        let per_hour = self.per_hour;
        let new_owner = Bucket::new(per_hour / 4, BURST_OWNER, now);
        let new_cause = Bucket::new(per_hour.saturating_sub(per_hour / 4), BURST_CAUSE, now);
        let key = (people, cause.to_owned());
        // Nobody in particular is bounded by cause and in all.
        let by_owner = (owner != Owner::Machine)
            .then(|| self.owners.get(&owner).unwrap_or(&new_owner).after_one(now));
        let by_owner =
            by_owner.transpose().map_err(|_| format!("those that {} may cause", owner.name()))?;
        let by_cause = self.causes.get(&key).unwrap_or(&new_cause).after_one(now);
        let by_cause = by_cause.map_err(|_| format!("those of {cause}"))?;
        let class =
            if people { "all that users may cause" } else { "all that the system may cause" };
        let [system, users] = &mut self.classes;
        let bucket = if people { users } else { system };
        bucket.take(now).map_err(|_| class.to_owned())?;
        self.causes.entry(key).or_insert(new_cause).full = by_cause;
        if let Some(full) = by_owner {
            self.owners.entry(owner).or_insert(new_owner).full = full;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn one_user_leaves_room_for_others_and_all_users_for_the_system() {
        let mut quotas = Quotas::new(20, 0);
        let mut took =
            |cause: &str, owner| (0..100).filter(|_| quotas.take(cause, owner, S).is_ok()).count();
        assert_eq!(took("core_dump", Owner::User(1000)), 2);
        assert_eq!(took("oom_kill", Owner::User(1000)), 0, "whatever the cause");
        assert_eq!(took("core_dump", Owner::User(1001)), 2);
        assert_eq!(took("core_dump", Owner::User(1002)), 0, "of one cause");
        assert_eq!(took("oom_kill", Owner::User(1002)), 1, "of all users");
        assert_eq!(took("core_dump", Owner::Group(7)), 2, "a service");
        assert_eq!(took("core_dump", Owner::Group(8)), 2, "another one");
        assert_eq!(took("kernel_log", Owner::Machine), 1);
    }

    #[test]
    fn quotas_come_back_and_say_whose_they_are() {
        let mut quotas = Quotas::new(20, 0);
        let user = Owner::User(1000);
        assert!(quotas.take("a", user, S).and(quotas.take("b", user, S)).is_ok());
        assert_eq!(quotas.take("a", user, S), Err("those that user 1000 may cause".into()));
        // A quarter of 20 an hour: one in twelve minutes.
        let day = (0..86_400).filter(|s| quotas.take("a", user, s * S).is_ok()).count();
        assert!((119..=122).contains(&day), "{day}");
        assert!(quotas.owners.len() <= 1 && quotas.causes.len() <= 2);
    }

    #[test]
    fn owners_by_user_then_by_group() {
        let path = Some("/user.slice/user-1000.slice/session-3.scope");
        assert_eq!(Owner::of(Some(1001), 5, path), Owner::User(1001));
        assert_eq!(Owner::of(None, 5, path), Owner::User(1000));
        assert_eq!(Owner::of(Some(0), 5, path), Owner::Group(5));
        assert_eq!(Owner::of(None, 5, Some("/system.slice/db.service")), Owner::Group(5));
        assert_eq!(Owner::of(None, 0, None), Owner::Group(0));
    }
}
