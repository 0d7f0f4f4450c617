//! systemd's units, by the paths of control groups.
//!
//! A manager's units are in slices: `/system.slice/nginx.service`. What is below a service or a
//! scope was delegated: to another manager (`user@1000.service`, a container's), or to the service
//! itself. Whoever has it may give groups there any names, also those of other units: so such a unit
//! is named with the one that it is in, `user@1000.service/app.slice/nginx.service`
//! (systemd's `CGROUP_DELEGATION.md`).

/// Kinds of units that have processes, and no other units of the same manager below them.
const KINDS: [&str; 5] = [".service", ".scope", ".socket", ".mount", ".swap"];

/// The kind that has units below it.
const SLICE: &str = ".slice";

/// The unit that a control group is in: the system's, as `nginx.service`; of a unit below it, the
/// path from there. Of a group that is in slices alone, the innermost one.
pub fn unit(path: &str) -> Option<&str> {
    let Some((first, outer)) = parts(path).find(|(_, part)| is_unit(part)) else {
        return path.rsplit('/').find(|part| part.contains('.'));
    };
    let (last, inner) =
        parts(path).filter(|(_, part)| is_unit(part)).last().unwrap_or((first, outer));
    path.get(first..last + inner.len())
}

/// Whether a control group is in a unit or a slice: of the system's by its name; of one below a
/// unit by both names, with the slices between or without, as in `user@1000.service/nginx.service`.
/// A name without a kind is a service's, as systemctl(1) takes it.
pub fn is_in(path: &str, wanted: &str) -> bool {
    let wanted = full_name(wanted);
    let outer = parts(path).position(|(_, part)| is_unit(part));
    let parts: Vec<&str> = parts(path).map(|(_, part)| part).collect();
    if !wanted.contains('/') {
        let own = outer.map_or(parts.len(), |at| at + 1);
        return parts.iter().take(own).any(|part| *part == wanted);
    }
    let below = outer.and_then(|at| parts.get(at..)).unwrap_or_default();
    let begins = |parts: &mut dyn Iterator<Item = &str>| {
        wanted.split('/').all(|of| parts.next() == Some(of))
    };
    begins(&mut below.iter().copied())
        || begins(&mut below.iter().copied().filter(|part| !is_slice(part)))
}

/// `nginx.service` of `nginx`.
pub fn full_name(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains('.') { name.to_owned() } else { format!("{name}.service") }
}

/// Whether a part of a path is a slice.
pub fn is_slice(part: &str) -> bool {
    part.ends_with(SLICE)
}

fn is_unit(part: &str) -> bool {
    KINDS.iter().any(|kind| part.ends_with(kind))
}

/// The parts of a path, each with its place.
fn parts(path: &str) -> impl Iterator<Item = (usize, &str)> {
    let place = |part: &str| part.as_ptr() as usize - path.as_ptr() as usize;
    path.split('/').filter(|part| !part.is_empty()).map(move |part| (place(part), part))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service of a user's own manager, of the same name as one of the system's.
    const OF_USER: &str = "/user.slice/user-7.slice/user@7.service/app.slice/nginx.service/x";

    #[test]
    fn the_units_of_paths() {
        for (path, of) in [
            ("/system.slice/nginx.service", Some("nginx.service")),
            ("/system.slice/db.service/payload", Some("db.service")),
            ("/user.slice/user-7.slice/session-3.scope", Some("session-3.scope")),
            ("/user.slice/user-7.slice", Some("user-7.slice")),
            (OF_USER, Some("user@7.service/app.slice/nginx.service")),
            (
                "/docker-1.scope/system.slice/a.service",
                Some("docker-1.scope/system.slice/a.service"),
            ),
            ("/kubepods/burstable", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(unit(path), of, "{path}");
        }
    }

    #[test]
    fn a_units_name_is_not_that_of_a_group_below_another() {
        for wanted in ["nginx.service", "nginx", "system.slice"] {
            assert!(is_in("/system.slice/nginx.service/x", wanted), "{wanted}");
            assert!(!is_in(OF_USER, wanted), "{wanted}");
        }
        for wanted in [
            "user@7.service",
            "user-7.slice",
            "user@7.service/app.slice/nginx.service",
            "user@7.service/nginx.service",
            "user@7.service/nginx",
        ] {
            assert!(is_in(OF_USER, wanted), "{wanted}");
        }
        assert!(!is_in(OF_USER, "app.slice") && !is_in(OF_USER, "user@7.service/other"));
    }
}
