use super::*;
use std::cell::Cell;
use std::sync::atomic::AtomicBool;

/// A counter that ticks three times in two nanoseconds, and a clock that counts those nanoseconds.
#[derive(Default)]
struct Machine {
    ticks: Cell<u64>,
    /// The number of readings of the clock.
    asked: Cell<u32>,
}

impl Machine {
    fn ns(&self) -> u64 {
        self.ticks.get() / 3 * 2 + self.ticks.get() % 3 * 2 / 3
    }

    /// The time by `ticker`, `ticks` later.
    fn after(&self, ticks: u64, ticker: &Ticker) -> u64 {
        self.ticks.set(self.ticks.get() + ticks);
        let told = ticker.at(self.ticks.get());
        told.unwrap_or_else(|| self.ask(ticker))
    }

    fn ask(&self, ticker: &Ticker) -> u64 {
        ticker.ask(
            || self.ticks.get(),
            || {
                self.asked.set(self.asked.get() + 1);
                self.ns()
            },
        )
    }

    /// Whether `told` is the time, to a nanosecond.
    fn is_right(&self, told: u64) -> bool {
        told.abs_diff(self.ns()) <= 1
    }
}

/// Makes the ticker read the counter at `ticks` and the clock at `ns`.
fn ask(ticker: &Ticker, ticks: u64, ns: u64) -> u64 {
    ticker.ask(|| ticks, || ns)
}

/// A ticker with a known rate.
fn in_use(machine: &Machine) -> Ticker {
    let ticker = Ticker::default();
    machine.after(1 << 40, &ticker);
    machine.after(WINDOW, &ticker);
    assert_eq!(machine.asked.get(), 2);
    assert_eq!(ticker.at(machine.ticks.get()), Some(machine.ns()));
    ticker
}

#[test]
fn the_clock_is_asked_until_the_rate_is_known() {
    let machine = Machine::default();
    let ticker = Ticker::default();
    for asked in 1..100 {
        let told = machine.after(WINDOW / 100, &ticker);
        assert_eq!(told, machine.ns());
        assert_eq!(machine.asked.get(), asked);
        assert_eq!(ticker.at(machine.ticks.get()), None);
    }
}

#[test]
fn the_clock_is_asked_once_in_a_window() {
    let machine = Machine::default();
    let ticker = in_use(&machine);
    let windows = 2 * PRECISE / WINDOW;
    let before = machine.asked.get();
    for _ in 0..windows * 64 {
        let told = machine.after(WINDOW / 64, &ticker);
        assert!(
            machine.is_right(told),
            "told {told}, but it was {}",
            machine.ns()
        );
    }
    let asked = u64::from(machine.asked.get() - before);
    assert!(
        (windows - 2..=windows + 2).contains(&asked),
        "asked {asked} times in {windows} windows"
    );
}

#[test]
fn a_long_break_costs_one_question() {
    let machine = Machine::default();
    let ticker = in_use(&machine);
    let told = machine.after(1 << 44, &ticker);
    assert_eq!(told, machine.ns());
    assert_eq!(machine.asked.get(), 3);
    let told = machine.after(1000, &ticker);
    assert!(machine.is_right(told));
    assert_eq!(machine.asked.get(), 3);
}

#[test]
fn a_counter_that_goes_back_is_begun_with_anew() {
    let machine = Machine::default();
    let ticker = in_use(&machine);
    machine.ticks.set(5);
    for _ in 0..5 {
        assert_eq!(machine.after(WINDOW / 4, &ticker), machine.ns());
    }
    let told = machine.after(WINDOW / 4, &ticker);
    assert!(machine.is_right(told));
    assert!(ticker.at(machine.ticks.get()).is_some());
}

#[test]
fn a_counter_that_changes_its_rate_is_begun_with_anew() {
    let ticker = Ticker::default();
    ask(&ticker, 0, 0);
    ask(&ticker, WINDOW, WINDOW);
    assert_eq!(ticker.at(WINDOW + 10), Some(WINDOW + 10));
    // The machine was suspended for as long as it had run, and its counter kept counting.
    ask(&ticker, PRECISE, PRECISE / 2);
    assert_eq!(ticker.at(PRECISE + 10), None);
    ask(&ticker, PRECISE + WINDOW, PRECISE / 2 + WINDOW);
    let told = ticker.at(PRECISE + WINDOW + 10);
    assert_eq!(told, Some(PRECISE / 2 + WINDOW + 10));
}

#[test]
fn a_clock_that_is_set_to_another_rate_is_followed() {
    let ticker = Ticker::default();
    ask(&ticker, 0, 0);
    ask(&ticker, WINDOW, WINDOW);
    // From now on the clock runs a tenth faster.
    let (ticks, ns) = (2 * WINDOW, 2 * WINDOW + WINDOW / 10);
    assert_eq!(ask(&ticker, ticks, ns), ns);
    assert_eq!(ticker.at(ticks + 10), None);
    let (ticks, ns) = (ticks + WINDOW, ns + WINDOW + WINDOW / 10);
    assert_eq!(ask(&ticker, ticks, ns), ns);
    assert_eq!(ticker.at(ticks + 1000), Some(ns + 1099));
}

#[test]
fn an_answer_that_was_a_little_late_changes_nothing() {
    let ticker = Ticker::default();
    ask(&ticker, 0, 0);
    ask(&ticker, WINDOW, WINDOW);
    ask(&ticker, 2 * WINDOW, 2 * WINDOW + TOLERATED_NS);
    let told = ticker.at(2 * WINDOW + 10);
    assert_eq!(told, Some(2 * WINDOW + TOLERATED_NS + 10));
}

#[test]
fn no_counter_has_an_impossible_rate() {
    for (ticks, ns) in [(WINDOW, 0), (WINDOW, 1), (WINDOW, u64::MAX), (u64::MAX, 1)] {
        let ticker = Ticker::default();
        ticker.ask(|| 0, || 0);
        ticker.ask(|| ticks, || ns);
        assert_eq!(ticker.at(ticks), None, "{ns} ns in {ticks} ticks");
    }
}

#[test]
fn an_answer_that_took_long_is_told_to_nobody_else() {
    let machine = Machine::default();
    let ticker = in_use(&machine);
    let readings = Cell::new(0);
    let counter = || {
        readings.set(readings.get() + PROMPT);
        machine.ticks.get() + readings.get()
    };
    assert_eq!(ticker.ask(counter, || 7), 7);
    assert_eq!(ticker.at(machine.ticks.get()), Some(machine.ns()));
}

#[test]
fn who_comes_while_another_asks_asks_for_itself() {
    let ticker = Ticker::default();
    let inner = Cell::new(0);
    let outer = ticker.ask(
        || 0,
        || {
            inner.set(ticker.ask(|| 0, || 2));
            1
        },
    );
    assert_eq!((outer, inner.get()), (1, 2));
}

/// A reader never gets a mixture of two readings.
#[test]
fn threads_are_told_one_time() {
    const RATE: u64 = 2 << 32;
    let ticker = Ticker::default();
    let (latest, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    let told = std::thread::scope(|scope| {
        let read = || {
            let mut told = 0_u64;
            loop {
                let is_last = ends.load(Ordering::Relaxed);
                let ticks = latest.load(Ordering::Relaxed) + 100;
                if let Some(ns) = ticker.at(ticks) {
                    assert_eq!(ns, 2 * ticks);
                    told += 1;
                }
                if is_last {
                    return told;
                }
            }
        };
        let readers = [scope.spawn(read), scope.spawn(read)];
        for ticks in (0..200_000).map(|n| n * 1000) {
            let answer = Answer {
                ticks,
                ns: 2 * ticks,
            };
            ticker.publish(answer, RATE);
            latest.store(ticks, Ordering::Relaxed);
        }
        ends.store(true, Ordering::Relaxed);
        readers.map(|reader| reader.join().expect("a reader's assertion failed"))
    });
    assert!(told.iter().all(|told| *told > 0));
}
