//! How much greater the probe overhead is now than when it was measured: where all CPUs make calls
//! without end, siblings of a core share it, and others' machines the core. A model;
//! [`super::keeper`] does the measuring, where system calls come and go: an own call with them
//! attached, and with them detached.

use crate::calibrate::Costs;

/// A disturbed measurement must not keep system calls away, nor let them run free.
const SANE: std::ops::RangeInclusive<f64> = 1.0..=4.0;

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub struct Crowding {
    /// An own call with system calls detached, ns.
    detached: Option<f64>,
    factor: f64,
}

impl Default for Crowding {
    fn default() -> Self {
        Self { detached: None, factor: *SANE.start() }
    }
}

impl Crowding {
    /// An own call took so long while system calls were detached, ns.
    pub fn is_detached(&mut self, ns: f64) {
        self.detached = Some(ns);
    }

    /// An own call took so long while they were attached, ns.
    pub fn is_attached(&mut self, ns: f64, costs: &Costs) {
        let Some(detached) = self.detached else { return };
        let now = (ns - detached) / f64::from(costs.call_floor.max(1));
        if now.is_finite() {
            self.factor = now.clamp(*SANE.start(), *SANE.end()).midpoint(self.factor);
        }
    }

    /// A cost as it was measured × this is what it is now; 1 to 4.
    pub fn factor(&self) -> f64 {
        self.factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_costs_more_where_it_is_crowded() {
        let costs = Costs { call_floor: 100, ..Costs::ASSUMED };
        let mut crowding = Crowding::default();
        crowding.is_attached(900.0, &costs);
        assert!(crowding.factor() < 1.01, "without the other figure it says nothing: {crowding:?}");
        for _ in 0..20 {
            crowding.is_detached(200.0);
            crowding.is_attached(400.0, &costs);
        }
        assert!((crowding.factor() - 2.0).abs() < 0.01, "{crowding:?}");
        crowding.is_attached(f64::NAN, &costs);
        crowding.is_attached(1e9, &costs);
        assert!(crowding.factor() <= 3.01, "{crowding:?}");
        for _ in 0..20 {
            crowding.is_attached(100.0, &costs);
        }
        assert!(
            (crowding.factor() - 1.0).abs() < 0.01,
            "it never costs less than nobody else's: {crowding:?}"
        );
    }
}
