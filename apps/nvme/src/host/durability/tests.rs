use super::*;

fn extents(journal: &Journal) -> Vec<(u32, Range<u64>, Reason)> {
    let all = journal.not_durable().into_iter();
    all.map(|e| (e.namespace, e.bytes, e.reason)).collect()
}

#[test]
fn a_write_is_durable_after_a_flush_that_was_posted_after_its_answer() {
    let mut journal = Journal::new(true);
    let first = journal.posted(1, 0..4096);
    assert_eq!(extents(&journal), [(1, 0..4096, Reason::Unanswered)]);
    journal.written(first, false);
    assert_eq!(extents(&journal), [(1, 0..4096, Reason::Unflushed)]);

    // The second write is answered after the flush was posted: the flush says nothing of it.
    let second = journal.posted(1, 8192..12288);
    let flush = journal.flush_posted(1);
    journal.written(second, false);
    journal.flushed(1, flush);
    assert_eq!(extents(&journal), [(1, 8192..12288, Reason::Unflushed)]);
    let flush = journal.flush_posted(1);
    journal.flushed(1, flush);
    assert_eq!(extents(&journal), []);
}

#[test]
fn a_flush_concerns_one_namespace() {
    let mut journal = Journal::new(true);
    for namespace in [1, 2] {
        let id = journal.posted(namespace, 0..512);
        journal.written(id, false);
    }
    let flush = journal.flush_posted(2);
    journal.flushed(2, flush);
    assert_eq!(extents(&journal), [(1, 0..512, Reason::Unflushed)]);
}

#[test]
fn a_durable_write_and_a_controller_without_a_cache_need_no_flush() {
    let mut journal = Journal::new(true);
    let id = journal.posted(1, 0..512);
    journal.written(id, true);
    assert_eq!(extents(&journal), []);
    let mut journal = Journal::new(false);
    let id = journal.posted(1, 0..512);
    journal.written(id, false);
    assert_eq!(extents(&journal), []);
}

#[test]
fn ranges_that_touch_are_one() {
    let mut journal = Journal::new(true);
    for start in [0, 1024, 512, 4096] {
        let id = journal.posted(1, start..start + 512);
        journal.written(id, false);
    }
    let both = [
        (1, 0..1536, Reason::Unflushed),
        (1, 4096..4608, Reason::Unflushed),
    ];
    assert_eq!(extents(&journal), both);
}

#[test]
fn a_flush_without_an_answer_makes_nothing_durable() {
    let mut journal = Journal::new(true);
    for start in 0..200 {
        let id = journal.posted(1, start * 512..(start + 1) * 512);
        journal.written(id, false);
        journal.flush_posted(1);
    }
    assert_eq!(extents(&journal), [(1, 0..200 * 512, Reason::Unflushed)]);
}

#[test]
fn memory_is_bounded_and_nothing_is_forgotten() {
    let mut journal = Journal::new(true);
    let count = MAX_RANGES as u64 + 10;
    for index in 0..count {
        let id = journal.posted(1, index * 1024..index * 1024 + 512);
        journal.written(id, false);
    }
    let all = extents(&journal);
    assert!(all.len() <= MAX_RANGES);
    let covers = |at: u64| all.iter().any(|(_, bytes, _)| bytes.contains(&at));
    assert!((0..count).all(|index| covers(index * 1024)));
}
