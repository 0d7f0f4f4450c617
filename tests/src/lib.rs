//! End-to-end tests of flightrec: the harness that they share.
