use super::*;
use std::cell::Cell;
use std::sync::atomic::AtomicBool;

/// A counter that ticks three times in two nanoseconds, and a clock that counts those nanoseconds.
#[derive(Default)]
struct Machine {
    ticks: Cell<u64>,
    /// The number of readings of the clock.
    readings: Cell<u32>,
}

impl Machine {
    fn ns(&self) -> u64 {
        self.ticks.get() / 3 * 2 + self.ticks.get() % 3 * 2 / 3
    }

    /// Advances the counter by `ticks`, and returns the time according to `ticker`.
    fn after(&self, ticks: u64, ticker: &Ticker) -> u64 {
        self.ticks.set(self.ticks.get() + ticks);
        let time = ticker.at(self.ticks.get());
        time.unwrap_or_else(|| self.read_clock(ticker))
    }

    fn read_clock(&self, ticker: &Ticker) -> u64 {
        ticker.read_clock(
            || self.ticks.get(),
            || {
                self.readings.set(self.readings.get() + 1);
                self.ns()
            },
        )
    }

    /// Whether `time` is right to a nanosecond.
    fn is_right(&self, time: u64) -> bool {
        time.abs_diff(self.ns()) <= 1
    }
}

/// Makes the ticker read `ticks` from the counter and `ns` from the clock.
fn read_clock(ticker: &Ticker, ticks: u64, ns: u64) -> u64 {
    ticker.read_clock(|| ticks, || ns)
}

/// A ticker with a known rate.
fn ticker_with_known_rate(machine: &Machine) -> Ticker {
    let ticker = Ticker::default();
    machine.after(1 << 40, &ticker);
    machine.after(WINDOW, &ticker);
    assert_eq!(machine.readings.get(), 2);
    assert_eq!(ticker.at(machine.ticks.get()), Some(machine.ns()));
    ticker
}

#[test]
fn the_clock_is_read_until_the_rate_is_known() {
    let machine = Machine::default();
    let ticker = Ticker::default();
    for readings in 1..100 {
        let time = machine.after(WINDOW / 100, &ticker);
        assert_eq!(time, machine.ns());
        assert_eq!(machine.readings.get(), readings);
        assert_eq!(ticker.at(machine.ticks.get()), None);
    }
}

#[test]
fn the_clock_is_read_once_in_a_window() {
    let machine = Machine::default();
    let ticker = ticker_with_known_rate(&machine);
    let windows = 2 * PRECISE_TICKS / WINDOW;
    let before = machine.readings.get();
    for _ in 0..windows * 64 {
        let time = machine.after(WINDOW / 64, &ticker);
        assert!(
            machine.is_right(time),
            "the ticker says {time}, the clock {}",
            machine.ns()
        );
    }
    let readings = u64::from(machine.readings.get() - before);
    assert!(
        (windows - 2..=windows + 2).contains(&readings),
        "{readings} readings in {windows} windows"
    );
}

#[test]
fn a_long_break_costs_one_reading() {
    let machine = Machine::default();
    let ticker = ticker_with_known_rate(&machine);
    let time = machine.after(1 << 44, &ticker);
    assert_eq!(time, machine.ns());
    assert_eq!(machine.readings.get(), 3);
    let time = machine.after(1000, &ticker);
    assert!(machine.is_right(time));
    assert_eq!(machine.readings.get(), 3);
}

#[test]
fn a_counter_that_goes_back_restarts_the_measurement() {
    let machine = Machine::default();
    let ticker = ticker_with_known_rate(&machine);
    machine.ticks.set(5);
    for _ in 0..5 {
        assert_eq!(machine.after(WINDOW / 4, &ticker), machine.ns());
    }
    let time = machine.after(WINDOW / 4, &ticker);
    assert!(machine.is_right(time));
    assert!(ticker.at(machine.ticks.get()).is_some());
}

#[test]
fn a_counter_that_changes_its_rate_restarts_the_measurement() {
    let ticker = Ticker::default();
    read_clock(&ticker, 0, 0);
    read_clock(&ticker, WINDOW, WINDOW);
    assert_eq!(ticker.at(WINDOW + 10), Some(WINDOW + 10));
    // The machine was suspended for as long as it had run, and its counter kept counting.
    read_clock(&ticker, PRECISE_TICKS, PRECISE_TICKS / 2);
    assert_eq!(ticker.at(PRECISE_TICKS + 10), None);
    read_clock(&ticker, PRECISE_TICKS + WINDOW, PRECISE_TICKS / 2 + WINDOW);
    let time = ticker.at(PRECISE_TICKS + WINDOW + 10);
    assert_eq!(time, Some(PRECISE_TICKS / 2 + WINDOW + 10));
}

#[test]
fn a_clock_that_changes_its_rate_is_followed() {
    let ticker = Ticker::default();
    read_clock(&ticker, 0, 0);
    read_clock(&ticker, WINDOW, WINDOW);
    // From now on the clock runs a tenth faster.
    let (ticks, ns) = (2 * WINDOW, 2 * WINDOW + WINDOW / 10);
    assert_eq!(read_clock(&ticker, ticks, ns), ns);
    assert_eq!(ticker.at(ticks + 10), None);
    let (ticks, ns) = (ticks + WINDOW, ns + WINDOW + WINDOW / 10);
    assert_eq!(read_clock(&ticker, ticks, ns), ns);
    assert_eq!(ticker.at(ticks + 1000), Some(ns + 1099));
}

#[test]
fn a_slightly_late_reading_keeps_the_rate() {
    let ticker = Ticker::default();
    read_clock(&ticker, 0, 0);
    read_clock(&ticker, WINDOW, WINDOW);
    read_clock(&ticker, 2 * WINDOW, 2 * WINDOW + TOLERANCE_NS);
    let time = ticker.at(2 * WINDOW + 10);
    assert_eq!(time, Some(2 * WINDOW + TOLERANCE_NS + 10));
}

#[test]
fn an_impossible_rate_is_discarded() {
    for (ticks, ns) in [(WINDOW, 0), (WINDOW, 1), (WINDOW, u64::MAX), (u64::MAX, 1)] {
        let ticker = Ticker::default();
        ticker.read_clock(|| 0, || 0);
        ticker.read_clock(|| ticks, || ns);
        assert_eq!(ticker.at(ticks), None, "{ns} ns in {ticks} ticks");
    }
}

#[test]
fn a_slow_reading_is_not_published() {
    let machine = Machine::default();
    let ticker = ticker_with_known_rate(&machine);
    let readings = Cell::new(0);
    let counter = || {
        readings.set(readings.get() + MAX_READING_TICKS);
        machine.ticks.get() + readings.get()
    };
    assert_eq!(ticker.read_clock(counter, || 7), 7);
    assert_eq!(ticker.at(machine.ticks.get()), Some(machine.ns()));
}

#[test]
fn threads_that_read_at_the_same_time_each_read_the_clock() {
    let ticker = Ticker::default();
    let inner = Cell::new(0);
    let outer = ticker.read_clock(
        || 0,
        || {
            inner.set(ticker.read_clock(|| 0, || 2));
            1
        },
    );
    assert_eq!((outer, inner.get()), (1, 2));
}

/// A reader never gets a mixture of two readings.
#[test]
fn readers_never_see_a_mixture_of_readings() {
    const RATE: u64 = 2 << 32;
    let ticker = Ticker::default();
    let (latest, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let reads = std::thread::scope(|scope| {
        let read = || {
            let mut reads = 0_u64;
            loop {
                let is_last = stop.load(Ordering::Relaxed);
                let ticks = latest.load(Ordering::Relaxed) + 100;
                if let Some(ns) = ticker.at(ticks) {
                    assert_eq!(ns, 2 * ticks);
                    reads += 1;
                }
                if is_last {
                    return reads;
                }
            }
        };
        let readers = [scope.spawn(read), scope.spawn(read)];
        for ticks in (0..200_000).map(|n| n * 1000) {
            let reading = Reading {
                ticks,
                ns: 2 * ticks,
            };
            ticker.publish(reading, RATE);
            latest.store(ticks, Ordering::Relaxed);
        }
        stop.store(true, Ordering::Relaxed);
        readers.map(|reader| reader.join().expect("a reader's assertion failed"))
    });
    assert!(reads.iter().all(|reads| *reads > 0));
}
