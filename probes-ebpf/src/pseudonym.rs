//! Names for things of the kernel that have none: requests to disks, locks.

/// Of the hash. Filled by the loader.
#[unsafe(no_mangle)]
static PSEUDONYM_KEYS: [u64; 2] = [0; 2];

/// What a thing of the kernel is called: its address, by a hash with a secret key (SipHash-1-3 of
/// one word), so that nobody who reads the recording learns where the kernel's memory is.
#[inline(always)]
pub(crate) fn pseudonym(address: u64) -> u32 {
    // SAFETY: a static of ours; volatile because the loader replaces its value.
    let [k0, k1] = unsafe { (&raw const PSEUDONYM_KEYS).read_volatile() };
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573 ^ address,
    ];
    round(&mut v);
    v[0] ^= address;
    v[2] ^= 0xff;
    round(&mut v);
    round(&mut v);
    round(&mut v);
    (v[0] ^ v[1] ^ v[2] ^ v[3]) as u32
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}
