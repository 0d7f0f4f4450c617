//! Files are what `zstd` calls a file.

use std::path::Path;
use std::process::Command;

use flightrec_store::FileReader;

use crate::support::small;

/// Whether `zstd -t` accepts a file.
fn accepted(path: &Path) -> bool {
    let output = Command::new("zstd").arg("-tq").arg(path).output();
    output.expect("zstd runs: `cargo xtask setup` installs it").status.success()
}

#[test]
fn a_file_is_a_zstd_stream_closed_or_up_to_its_last_whole_block() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = small(dir.path());
    assert!(accepted(&path));
    let (bytes, blocks) =
        (std::fs::read(&path).unwrap(), FileReader::open(&path).unwrap().blocks().to_vec());
    for block in &blocks {
        // As a killed writer leaves it.
        std::fs::write(&path, &bytes[..block.end() as usize]).unwrap();
        assert!(accepted(&path));
        std::fs::write(&path, &bytes[..block.end() as usize - 1]).unwrap();
        assert!(!accepted(&path));
        std::fs::write(&path, &bytes[..block.data() as usize + 6]).unwrap();
        assert!(!accepted(&path));
    }
    let mut flipped = bytes.clone();
    flipped[blocks[0].data() as usize + 40] ^= 1;
    std::fs::write(&path, flipped).unwrap();
    assert!(!accepted(&path));
}
