//! The object in the repository. Whether the compiler makes the same bytes is checked by `cargo
//! xtask probes --check`, as that needs the probes' toolchain.

use std::path::Path;

use flightrec_probes_build::prebuilt;

#[test]
fn the_object_in_the_repository_is_of_these_sources() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let found = prebuilt(crates.parent().unwrap());
    assert!(found.is_ok(), "{found:?}: run `cargo xtask probes`, and commit what it writes");
}
