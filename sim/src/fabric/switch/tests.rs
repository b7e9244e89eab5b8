use super::*;

fn switch(spec: SwitchSpec) -> Switch {
    Switch::new(spec, 1, Dice::new(1))
}

/// The probability of a mark in the DCQCN paper: 0 up to Kmin, then a linear rise to Pmax at Kmax,
/// and 1 from Kmax on.
#[test]
fn marks_come_as_the_formula_says() {
    let ecn = EcnSpec {
        kmin_bytes: 5_000,
        kmax_bytes: 200_000,
        pmax_percent: 1,
    };
    let mut switch = switch(SwitchSpec {
        ecn: Some(ecn),
        ..SwitchSpec::default()
    });
    const PACKETS: u32 = 1_000_000;
    for (waiting, chance) in [
        (0, 0.0),
        (5_000, 0.0),
        (53_750, 0.0025),
        (102_500, 0.005),
        (199_999, 0.01),
        (200_000, 1.0),
        (300_000, 1.0),
    ] {
        let marked = (0..PACKETS).filter(|_| switch.marks(waiting)).count() as f64;
        let expected = f64::from(PACKETS) * chance;
        // Five standard deviations of that many draws.
        let slack = 5.0 * (expected * (1.0 - chance)).sqrt();
        assert!((marked - expected).abs() <= slack, "{waiting}: {marked}");
    }
}

/// The more bytes wait, the earlier a link is paused. A paused link also resumes when bytes of
/// others have left, and none waits for ever.
#[test]
fn a_shared_buffer_pauses_by_what_is_free() {
    let mut switch = switch(SwitchSpec {
        buffer: Some(BufferSpec {
            bytes: 10_000,
            headroom_bytes: 2_000,
            hysteresis_bytes: 500,
        }),
        ..SwitchSpec::default()
    });
    let [a, b] = [EgressId(0), EgressId(2)];
    // 4000 of the 8000 shared bytes are queued and 4000 are free, which does not exceed the limit.
    assert!(!switch.note_waiting(a, 4_000));
    assert!(!switch.note_waiting(b, 1_000));
    assert!(switch.note_waiting(a, 1_000));
    assert!(!switch.note_waiting(a, 1_000), "told already");
    assert!(switch.has_room(3_000));
    assert!(!switch.has_room(3_001));
    switch.note_gone(b, 1_000);
    assert_eq!(switch.resume(), None, "6000 wait, 2000 are free");
    switch.note_gone(a, 2_000);
    assert_eq!(switch.resume(), None, "4000 wait, the limit is 3500");
    switch.note_gone(a, 500);
    assert_eq!(switch.resume(), Some(a));
    assert_eq!(switch.resume(), None);
    switch.note_gone(a, 3_500);
    assert_eq!(switch.waiting(), 0);
}

#[test]
fn who_was_paused_goes_on_when_nothing_of_it_waits() {
    let mut switch = switch(SwitchSpec {
        pfc: Some(PfcSpec {
            pause_bytes: 100,
            resume_bytes: 0,
        }),
        ..SwitchSpec::default()
    });
    assert!(switch.note_waiting(EgressId(0), 200));
    assert_eq!(switch.resume(), None);
    switch.note_gone(EgressId(0), 200);
    assert_eq!(switch.resume(), Some(EgressId(0)));
}
