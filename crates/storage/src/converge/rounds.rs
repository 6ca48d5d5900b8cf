//! Ends a loop that observes, plans and executes when its steps do not help.

use std::{fmt::Display, mem::replace};

use thiserror::Error;

/// Maximum number of steps that the error names.
const NAMED_STEPS: usize = 3;

/// Steps remain after all rounds: another program undoes the steps.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{unit} is still not as desired after {rounds} rounds of steps; the last steps: {steps}")]
pub struct NotConverging {
    unit: String,
    rounds: usize,
    steps: String,
}

/// Counts the rounds of a loop that observes, plans and executes until no steps are left.
#[derive(Debug)]
pub struct Rounds {
    unit: String,
    limit: usize,
    made: usize,
    /// The first steps of the last round.
    steps: String,
}

impl Rounds {
    /// Returns the count of a loop that works on `unit` in at most `limit` rounds.
    pub fn new(unit: impl Display, limit: usize) -> Self {
        Self { unit: unit.to_string(), limit, made: 0, steps: String::new() }
    }

    /// Begins the round that executes `steps`; returns `false` if there are none, so that the loop ends.
    ///
    /// # Errors
    /// The loop has made all its rounds, and steps remain.
    pub fn begin(&mut self, steps: &[impl Display]) -> Result<bool, NotConverging> {
        if steps.is_empty() {
            return Ok(false);
        }
        let named: Vec<_> = steps.iter().take(NAMED_STEPS).map(ToString::to_string).collect();
        let last = replace(&mut self.steps, named.join("; "));
        if self.made == self.limit {
            return Err(NotConverging { unit: self.unit.clone(), rounds: self.limit, steps: last });
        }
        self.made += 1;
        Ok(true)
    }

    /// Leaves the last round out of the count.
    pub fn take_back(&mut self) {
        self.made = self.made.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_unit_and_the_steps_of_the_last_round() {
        let mut rounds = Rounds::new("mount /mnt/a", 2);
        for step in ["raced", "mount", "unmount"] {
            rounds.begin(&[step]).unwrap();
            if step == "raced" {
                rounds.take_back();
            }
        }
        let error = rounds.begin(&["mount"]).unwrap_err().to_string();
        assert_eq!(
            error,
            "mount /mnt/a is still not as desired after 2 rounds of steps; the last steps: unmount"
        );
    }
}
