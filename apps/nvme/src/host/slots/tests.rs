use super::*;

fn response(command_id: u16) -> Response {
    Response {
        command_id,
        ..Response::default()
    }
}

#[test]
fn a_command_is_over_when_it_was_sent_and_answered() {
    let mut slots = Slots::new(2);
    let now = Instant::now();
    let (first, second) = (
        slots.take(now).expect("room"),
        slots.take(now).expect("room"),
    );
    assert_ne!(first, second);
    assert_eq!(slots.take(now), None);

    assert_eq!(slots.sent(first), None);
    assert_eq!(
        slots.answered(response(first)),
        Ok(Some((first, response(first))))
    );
    assert_eq!(slots.answered(response(second)), Ok(None));
    assert_eq!(slots.room(), 1);
    assert_eq!(slots.sent(second), Some((second, response(second))));
    assert_eq!((slots.room(), slots.oldest()), (2, None));
}

#[test]
fn an_answer_to_no_command_is_refused() {
    let mut slots = Slots::new(2);
    let id = slots.take(Instant::now()).expect("room");
    assert_eq!(
        slots.answered(response(id ^ 1)),
        Err(NotOutstanding(id ^ 1))
    );
    assert_eq!(
        slots.answered(response(0xffff)),
        Err(NotOutstanding(0xffff))
    );
    assert_eq!(slots.answered(response(id)), Ok(None));
    assert_eq!(slots.answered(response(id)), Err(NotOutstanding(id)));
    assert!(slots.sent(id).is_some());
    assert_eq!(slots.answered(response(id)), Err(NotOutstanding(id)));
}
