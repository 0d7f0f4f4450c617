//! Which recording a page is of: a secret in the kernel's memory, and the public id that stands for
//! it everywhere else.
//!
//! A process can map pages that look like a ring's, and whoever reads a dump of the machine's
//! memory finds them. So the header of each page in the kernel's maps
//! ([`MAGIC`](crate::abi::page::MAGIC)) says a secret, random for each recording, which only the
//! kernel's memory and `flightd` hold. A copy ([`COPY_MAGIC`](crate::abi::page::COPY_MAGIC)) says
//! the public id instead: a hash of the secret. Files, sockets, the journal and status tell that
//! one; who knows it can make no page that hashes to it, short of 2^64 attempts.

use sha2::{Digest, Sha256};

/// What is hashed before the secret, so that the hash is of use for nothing else.
const DOMAIN: &[u8] = b"flightrec: public id of a recording\0";

/// The public id of the recording with this secret: the first 8 bytes of a SHA-256, never 0.
pub fn public_id(secret: u64) -> u64 {
    let hash = Sha256::new().chain_update(DOMAIN).chain_update(secret.to_le_bytes()).finalize();
    let first = hash.first_chunk().map_or(1, |first| u64::from_le_bytes(*first));
    first.max(1)
}

/// Public ids of secrets, page after page: the last one is remembered, as nearly all pages are of
/// one recording.
#[derive(Debug, Clone, Copy, Default)]
pub struct PublicIds {
    last: Option<(u64, u64)>,
}

impl PublicIds {
    /// The public id of a secret.
    pub fn of(&mut self, secret: u64) -> u64 {
        match self.last {
            Some((known, id)) if known == secret => id,
            _ => {
                let id = public_id(secret);
                self.last = Some((secret, id));
                id
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_hash_of_its_secret() {
        // sha256sum of the domain and the secret's bytes.
        assert_eq!(public_id(0xf11e), 0xab44_5cfd_8bb8_5abd);
        let mut ids = PublicIds::default();
        assert_eq!([ids.of(1), ids.of(1), ids.of(2), ids.of(1)], [1, 1, 2, 1].map(public_id));
        assert!(public_id(1) != public_id(2) && public_id(1) != 1);
    }
}
