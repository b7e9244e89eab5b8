//! A separate build for each mutation: slow, but possible for every mutation.

use crate::programs::{NEAR, WIDE, build, first_near, quick, slow};
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
        for step in &NEAR[first_near(edit)..] {
            let Ok(programs) = build(&self.0, step)? else {
                return Ok(Outcome::DoesNotBuild);
            };
            match runner.run(&edit.file, 0, &quick(&programs))? {
                Outcome::Survived => {}
                outcome => return Ok(outcome),
            }
            slow_ones.extend(slow(&programs));
        }
        let Ok(programs) = build(&self.0, WIDE)? else {
            return Ok(Outcome::DoesNotBuild);
        };
        slow_ones.extend(quick(&programs));
        slow_ones.extend(slow(&programs));
        runner.run(&edit.file, 0, &slow_ones)
    }
}
