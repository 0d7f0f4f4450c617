//! `flightctl top`

use anyhow::Result;

use crate::exit::Exit;
use crate::plan::TopPlan;

/// Shows the busiest threads.
pub fn run(plan: &TopPlan) -> Result<Exit> {
    crate::top::run::run(plan, &crate::zone::system())
}
