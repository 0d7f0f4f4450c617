//! What the package's scripts, its temporary files and systemd itself do as root.

use std::process::Command;

use anyhow::Result;

use super::{ROOTS, as_service, secrets, untouched};
use crate::service::trial::{RUNTIME, STATE, Trial, UNIT, check};

/// Leaves links wherever the user may.
pub(in crate::service) fn plant() -> Result<()> {
    secrets()?;
    let [disk, run] = ROOTS;
    as_service(&format!(
        "cd {STATE}; ln -sfn {disk} crash; ln -sfn {disk}/file a; mkdir -p b; ln -sfn {disk} b/c; \
         ln -sfn {run} d
         cd {RUNTIME}; ln -sfn {run} a; ln -sfn {run}/file b; mkdir -p c; ln -sfn {run} c/d"
    ))
    .map(drop)
}

/// The scripts that an upgrade and `dpkg-reconfigure` run, and what systemd does at a boot and at a
/// start.
pub(in crate::service) fn scripts(_: &mut Trial) -> Result<String> {
    plant()?;
    let script = |name: &str| format!("/var/lib/dpkg/info/flightrec.{name}");
    let runs: [(String, &[&str]); 6] = [
        (script("prerm"), &["upgrade", "0.1.0-9"]),
        (script("postrm"), &["upgrade", "0.1.0-9"]),
        (script("postinst"), &["configure", "0.1.0-0"]),
        (
            "systemd-tmpfiles".to_owned(),
            &["--create", "--remove", "/usr/lib/tmpfiles.d/flightrec.conf"],
        ),
        ("systemd-sysusers".to_owned(), &["/usr/lib/sysusers.d/flightrec.conf"]),
        ("systemctl".to_owned(), &["restart", UNIT]),
    ];
    for (program, args) in &runs {
        check(Command::new(program).args(*args))?;
        untouched(&format!("{program} {}", args.join(" ")))?;
    }
    as_service(&format!("cd {STATE}; rm -rf crash a b d; cd {RUNTIME}; rm -rf a b c"))?;
    Ok("the package's scripts, tmpfiles, sysusers and a restart follow no link of its".to_owned())
}
