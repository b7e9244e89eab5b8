//! The words that `--sockets` and `ROCE_SOCKETS` take. The library that reads them has no other way to report
//! a wrong one than a line in the program's output.

use crate::error::Error;
use std::env;

/// The words without a value.
const WORDS: [&str; 5] = ["off", "only", "loopback", "quiet", "log"];

/// The word with a value.
const WAIT: &str = "wait=";

/// Checks the words of the option, or else of the variable.
pub(super) fn check(option: &str) -> Result<(), Error> {
    let variable = env::var("ROCE_SOCKETS").unwrap_or_default();
    let (whose, words) = match option {
        "" => ("ROCE_SOCKETS", variable.as_str()),
        option => ("--sockets", option),
    };
    match words.split(',').map(str::trim).find(|word| !is_known(word)) {
        None => Ok(()),
        Some(word) => Err(Error::usage(format_args!(
            "{whose} is {words:?}: {word:?} is none of {} and {WAIT}MILLISECONDS, which are separated by \
             commas",
            WORDS.join(", ")
        ))),
    }
}

fn is_known(word: &str) -> bool {
    let is_wait = |word: &str| {
        let value = word.strip_prefix(WAIT);
        value.is_some_and(|value| value.parse::<u64>().is_ok())
    };
    word.is_empty() || WORDS.contains(&word) || is_wait(word)
}
