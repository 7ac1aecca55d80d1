//! Requests that arrived, learnt, and the tables of them.

use crate::mix::Mix;
use crate::schedule::Schedule;
use crate::shape::Shape;
use crate::tables::{Building, Extent, Tables};

/// Draws of one step of [`Outlook::work`]: less than a millisecond with the largest mix.
const STEP_DRAWS: usize = 8;

/// The mix of requests that arrived, and the tables of the mix as it was when they were last due. Before the first ones are ready
/// there are none.
#[derive(Clone, Debug)]
pub struct Outlook {
    mix: Mix,
    schedule: Schedule,
    largest: Extent,
    tables: Option<Tables>,
    building: Option<Building>,
}

impl Outlook {
    /// Begins with nothing learnt on a cluster.
    #[must_use]
    pub fn new(largest: Extent) -> Self {
        Self { mix: Mix::default(), schedule: Schedule::default(), largest, tables: None, building: None }
    }

    /// Counts a request of an account. When tables are due, those that are being built are given up for newer ones.
    pub fn arrived(&mut self, account: u32, shape: Shape) {
        self.mix.arrived(account, shape);
        if self.schedule.arrived() {
            self.building = Some(Building::new(&self.mix, self.largest));
        }
    }

    /// Takes one step in building the tables that are due, if any.
    pub fn work(&mut self) {
        let Some(mut building) = self.building.take() else { return };
        if building.draw(STEP_DRAWS) {
            self.tables = Some(building.into_tables());
        } else {
            self.building = Some(building);
        }
    }

    /// Builds the tables that are due at once.
    pub fn finish(&mut self) {
        while self.building.is_some() {
            self.work();
        }
    }

    /// Returns the tables that are ready; `None`: fewer than 16 requests have arrived, or the first tables are being built.
    #[must_use]
    pub fn tables(&self) -> Option<&Tables> {
        self.tables.as_ref()
    }
}
