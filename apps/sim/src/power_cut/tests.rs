use super::{Outcome, run};

fn runs(seeds: u64) -> Outcome {
    let mut all = Outcome::default();
    for seed in 0..seeds {
        let one = run(seed);
        assert_eq!(one.violation, None, "seed {seed}");
        all.cuts += one.cuts;
        all.acknowledged += one.acknowledged;
        all.under_way += one.under_way;
    }
    all
}

#[test]
fn what_was_acknowledged_survives() {
    let all = runs(1000);
    assert!(all.cuts >= 1000);
    assert!(all.acknowledged > 10 * all.cuts, "{all:?}");
    assert!(all.under_way > all.cuts / 10, "{all:?}");
}

#[test]
fn a_seed_gives_the_same_run() {
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed));
    }
}
