//! Processes, as `/proc` shows them.

use std::fs;

/// The parent of a process; `None` if there is no such process.
pub(crate) fn parent_of(pid: u32) -> Option<u32> {
    parent_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The fourth word, after a name in parentheses that may contain anything.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    after_name.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_may_contain_anything() {
        assert_eq!(parent_in("7 (a b) c) S 12 7 7"), Some(12));
        assert_eq!(parent_in("7 (a"), None);
    }
}
