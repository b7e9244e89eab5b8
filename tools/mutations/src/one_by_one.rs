//! A separate build for each mutation: slow, but possible for every mutation.

use crate::programs::{Step, build};
use crate::{Copy, Edit, Outcome, Runner};
use std::io;

/// A copy in which one mutation at a time is made and built.
#[derive(Debug)]
pub struct OneByOne(pub Copy);

impl OneByOne {
    /// Runs the tests with `edit`.
    ///
    /// # Errors
    /// If the copy can't be changed, or cargo or a program can't be run.
    pub fn run(&self, runner: &Runner, edit: &Edit) -> io::Result<Outcome> {
        let _applied = self.0.apply(edit)?;
        let mut slow_ones = Vec::new();
        for step in Step::near(edit) {
            let Ok(programs) = build(&self.0, &step.build)? else {
                return Ok(Outcome::DoesNotBuild);
            };
            match runner.run(&edit.file, 0, &step.quick(&programs))? {
                Outcome::Survived => {}
                outcome => return Ok(outcome),
            }
            slow_ones.extend(step.slow(&programs));
        }
        for step in Step::wide(edit) {
            let Ok(programs) = build(&self.0, &step.build)? else {
                return Ok(Outcome::DoesNotBuild);
            };
            slow_ones.extend(step.quick(&programs));
            slow_ones.extend(step.slow(&programs));
        }
        runner.run(&edit.file, 0, &slow_ones)
    }
}
