//! Finds the fewest and smallest faults that make a test fail.

/// Leaves out what is not needed, by delta debugging: halves and their complements first, then
/// smaller and smaller pieces.
///
/// `all` is known to fail. `fails` is asked about lists that are shorter than the best one so far.
/// Whatever it answers, the result is `all` or a list of which it said that it fails.
pub(super) fn fewest<T: Clone>(all: &[T], fails: &mut impl FnMut(&[T]) -> bool) -> Vec<T> {
    if all.is_empty() || fails(&[]) {
        return Vec::new();
    }
    let mut best = all.to_vec();
    let mut pieces = 2;
    while best.len() > 1 {
        match shorter(&best, pieces).into_iter().find(|part| fails(part)) {
            Some(found) => {
                best = found;
                pieces = 2;
            }
            None if pieces >= best.len() => break,
            None => pieces = (2 * pieces).min(best.len()),
        }
    }
    best
}

/// Each of `pieces` pieces of a list alone, and the list without each of them.
fn shorter<T: Clone>(all: &[T], pieces: usize) -> Vec<Vec<T>> {
    let size = all.len().div_ceil(pieces.max(1)).max(1);
    let mut lists: Vec<Vec<T>> = all.chunks(size).map(<[T]>::to_vec).collect();
    // Of two pieces, each is the list without the other.
    if lists.len() > 2 {
        let starts = (0..all.len()).step_by(size);
        lists.extend(starts.map(|start| {
            let end = (start + size).min(all.len());
            [&all[..start], &all[end..]].concat()
        }));
    }
    lists
}

/// Replaces each of a list by the first of `smaller` with which the list still fails, until nothing
/// is left to try.
pub(super) fn smallest<T: Clone>(
    all: &[T],
    smaller: impl Fn(&T) -> Vec<T>,
    fails: &mut impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let mut best = all.to_vec();
    for at in 0..best.len() {
        loop {
            let with = |part: T| {
                let mut list = best.clone();
                list[at] = part;
                list
            };
            let lists = smaller(&best[at]).into_iter().map(with);
            match lists.into_iter().find(|list| fails(list)) {
                Some(found) => best = found,
                None => break,
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result, and the number of lists that were tried.
    fn shrunk(all: &[u32], fails: impl Fn(&[u32]) -> bool) -> (Vec<u32>, usize) {
        let mut tried = 0;
        let found = fewest(all, &mut |list: &[u32]| {
            tried += 1;
            fails(list)
        });
        (found, tried)
    }

    #[test]
    fn one_of_many_is_found_in_few_runs() {
        let all: Vec<u32> = (0..16).collect();
        for needed in &all {
            let (found, tried) = shrunk(&all, |list| list.contains(needed));
            assert_eq!(found, [*needed]);
            assert!(tried <= 9, "{tried} runs for {needed}");
        }
    }

    #[test]
    fn all_that_are_needed_together_are_kept() {
        let all: Vec<u32> = (0..7).collect();
        for first in 0..7 {
            for last in first..7 {
                let needed = [first, last];
                let (found, _) = shrunk(&all, |list| needed.iter().all(|n| list.contains(n)));
                let mut expected = needed.to_vec();
                expected.dedup();
                assert_eq!(found, expected);
            }
        }
        let (found, _) = shrunk(&all, |list| list.len() == 7);
        assert_eq!(found, all);
    }

    #[test]
    fn a_test_that_fails_without_faults_needs_none() {
        assert_eq!(shrunk(&[1, 2, 3], |_| true), (Vec::new(), 1));
        assert_eq!(shrunk(&[], |_| panic!("nothing to try")), (Vec::new(), 0));
    }

    /// As with a test that fails now and then, or when the time is over.
    #[test]
    fn whatever_the_answers_the_result_has_failed() {
        for answers in 0..512_u32 {
            let mut failed = vec![vec![0, 1, 2, 3, 4]];
            let mut asked = 0;
            let found = fewest(&[0, 1, 2, 3, 4], &mut |list: &[u32]| {
                asked += 1;
                let answer = answers >> (asked % 9) & 1 == 1;
                if answer {
                    failed.push(list.to_vec());
                }
                answer
            });
            assert_eq!(Some(&found), failed.last());
            assert!(asked < 100, "{asked} runs");
        }
    }

    #[test]
    fn numbers_shrink_one_after_the_other() {
        let halves = |number: &u32| match number {
            0 => Vec::new(),
            number => vec![0, number / 2, number - 1],
        };
        let mut tried = 0;
        let found = smallest(&[100, 50, 9], halves, &mut |list: &[u32]| {
            tried += 1;
            list[0] >= 13 && list[1] >= 50
        });
        assert_eq!(found, [13, 50, 0]);
        assert!(tried < 60, "{tried} runs");
    }
}
