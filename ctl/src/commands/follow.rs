//! `flightctl follow`

use anyhow::Result;

use crate::exit::Exit;
use crate::follow::show;
use crate::follow::stop::Stop;
use crate::plan::FollowPlan;

/// Prints events as they come.
pub fn run(plan: &FollowPlan) -> Result<Exit> {
    let stop = Stop::on_signals(plan.time)?;
    show::run(plan, &stop, &crate::zone::system())
}
