//! Words that many QPs access with atomics.
//!
//! Each word is used with one kind of operation, so that a history can be checked in one pass:
//! additions of one, whose results count up; or swaps to unique values, whose results form a chain.

use super::{Verdict, about, violated};
use roce_stack::Buffer;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordOp {
    /// Adds one.
    Increment,
    /// Compares and swaps to a value that no other operation swaps to.
    Swap {
        /// The expected value.
        compare: u64,
        /// The new value.
        swap: u64,
    },
}

/// Identifies a request: pair, side, number.
type Id = (usize, usize, usize);

#[derive(Clone, Copy, Debug)]
struct Posted {
    op: WordOp,
    posted: u64,
    /// When it completed, and the previous value.
    completed: Option<(u64, u64)>,
}

/// The words of a host.
#[derive(Debug)]
pub struct Words {
    buffer: Arc<Buffer>,
    /// Offset of the first word.
    at: usize,
    first: Vec<u64>,
    history: Vec<BTreeMap<Id, Posted>>,
}

impl Words {
    /// `count` words of `buffer`, from offset `at` on. Their present values are the initial ones.
    pub fn new(buffer: Arc<Buffer>, at: usize, count: usize) -> Self {
        let mut words = Self {
            buffer,
            at,
            first: Vec::new(),
            history: vec![BTreeMap::new(); count],
        };
        words.first = (0..count).map(|word| words.actual(word)).collect();
        words
    }

    /// A possible value of the word, for a compare-and-swap.
    pub fn guess(&self, word: usize) -> u64 {
        self.actual(word)
    }

    pub(super) fn posted(&mut self, word: usize, id: Id, op: WordOp, clock: u64) {
        let posted = Posted {
            op,
            posted: clock,
            completed: None,
        };
        self.history[word].insert(id, posted);
    }

    pub(super) fn completed(&mut self, word: usize, id: Id, old: u64, clock: u64) -> Verdict {
        let done = self.history[word].get_mut(&id);
        match done {
            Some(posted) if posted.completed.is_none() => {
                posted.completed = Some((clock, old));
                Ok(())
            }
            _ => violated(format!("atomic {id:?} completed twice, or was not posted")),
        }
    }

    pub(super) fn check(&self) -> Verdict {
        for word in 0..self.first.len() {
            let history: Vec<Posted> = self.history[word].values().copied().collect();
            let (first, last) = (self.first[word], self.actual(word));
            let swaps = history.iter().any(|p| matches!(p.op, WordOp::Swap { .. }));
            let checked = if swaps {
                check_swaps(&history, first, last)
            } else {
                check_increments(&history, first, last)
            };
            checked.map_err(about(format_args!("word {word}")))?;
        }
        Ok(())
    }

    fn actual(&self, word: usize) -> u64 {
        let mut bytes = [0; 8];
        // In bounds according to the arguments of `new`.
        let _ = self.buffer.read(self.at + 8 * word, &mut bytes);
        u64::from_ne_bytes(bytes)
    }
}

/// Checks that the results count up: each once, none beyond the last, in an order consistent with
/// the real time of the requests.
fn check_increments(history: &[Posted], first: u64, last: u64) -> Verdict {
    let total = last.wrapping_sub(first);
    let unknown = history.iter().filter(|p| p.completed.is_none()).count() as u64;
    let known = history.len() as u64 - unknown;
    if total < known || total > known + unknown {
        return violated(format!(
            "{total} additions were executed, but {known} succeeded and {unknown} more may have"
        ));
    }
    let mut in_order: Vec<(u64, u64, u64)> = history
        .iter()
        .filter_map(|p| {
            let (completed, old) = p.completed?;
            Some((old.wrapping_sub(first), p.posted, completed))
        })
        .collect();
    in_order.sort_unstable();
    for pair in in_order.windows(2) {
        if pair[0].0 == pair[1].0 {
            return violated(format!("two additions fetched {}", pair[0].0));
        }
    }
    let mut earliest_end = u64::MAX;
    for (old, posted, completed) in in_order.into_iter().rev() {
        if old >= total {
            return violated(format!("an addition fetched {old} of {total}"));
        }
        if posted > earliest_end {
            return violated(format!(
                "the addition that fetched {old} was posted after a later one had completed"
            ));
        }
        earliest_end = earliest_end.min(completed);
    }
    Ok(())
}

/// Checks that each value was replaced at most once, and that operations returned only values that
/// were swapped in.
fn check_swaps(history: &[Posted], first: u64, last: u64) -> Verdict {
    let mut values = vec![first];
    let mut replaced = Vec::new();
    for posted in history {
        let WordOp::Swap { compare, swap } = posted.op else {
            return violated("additions and swaps are mixed".to_owned());
        };
        match posted.completed {
            Some((_, old)) if old == compare => {
                values.push(swap);
                replaced.push(old);
            }
            Some(_) => {}
            None => values.push(swap),
        }
    }
    let seen = history.iter().filter_map(|p| Some(p.completed?.1));
    for value in seen.chain([last]) {
        if !values.contains(&value) {
            return violated(format!("{value:#x} was seen, but never swapped in"));
        }
    }
    replaced.sort_unstable();
    if let Some(twice) = replaced.windows(2).find(|pair| pair[0] == pair[1]) {
        return violated(format!("{:#x} was replaced twice", twice[0]));
    }
    if replaced.contains(&last) {
        return violated(format!("{last:#x} was replaced, but is still there"));
    }
    Ok(())
}
