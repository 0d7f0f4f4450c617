//! TLS, of storages and collectors alike.

use std::sync::Once;

/// The cryptography is ring's: to be called before anything that may talk TLS is made.
pub(crate) fn cryptography() {
    static ONCE: Once = Once::new();
    // Another one that was installed before does as well.
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}
