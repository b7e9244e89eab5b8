//! The incast in virtual time.

use super::incast::{ECN, Figures, INTERVAL_MS, Incast, MTU, QUEUE, SENDERS};
use roce_sim::congestion::{Loss, Outcome, Scenario, Topology, incast, run};
use roce_sim::network::Network;
use roce_stack::{DcqcnParameters, Duration, NotificationPoint};

/// Runs it from this seed.
///
/// # Errors
/// If the stack refuses something.
pub fn measure(scenario: &Incast, seed: u64) -> Result<Figures, String> {
    // A run is a function of its seed, so the shorter one is the beginning of the longer one.
    let half = simulate(scenario, seed, scenario.seconds / 2)?;
    let all = simulate(scenario, seed, scenario.seconds)?;
    let seconds = f64::from(scenario.seconds - scenario.seconds / 2);
    let phase = all.phases.first().ok_or("the simulation has no phase")?;
    let per_second = |of: fn(&Outcome) -> u64| (of(&all) - of(&half)) as f64 / seconds;
    let late = all.rows.iter().skip(half.rows.len());
    Ok(Figures {
        goodput: phase.goodput.iter().map(|(_, rate)| rate * 1e3).collect(),
        marked: per_second(|outcome| outcome.marked),
        cnps: per_second(|outcome| outcome.cnps),
        dropped: per_second(|outcome| outcome.dropped),
        queue_means: late.clone().map(|row| row.mean[0]).collect(),
        queue_peaks: late.map(|row| row.peak[0] as f64).collect(),
    })
}

fn simulate(scenario: &Incast, seed: u64, seconds: u32) -> Result<Outcome, String> {
    let (rate, delay) = (scenario.megabits_per_sec, scenario.delay_us);
    let [kmin, kmax, pmax] = ECN;
    let network = format!(
        "topology = 'star'\nhosts = {}\n[defaults]\nrate = '{rate}M'\ndelay = '{delay}us'\n\
         queue = '{QUEUE}'\nmax_packet = {MTU}\n\
         ecn = {{ kmin = '{kmin}', kmax = '{kmax}', pmax = '{pmax}' }}\n",
        SENDERS + 1
    );
    let network = Network::parse(&network).map_err(|error| error.to_string())?;
    let period = Duration::from_micros(Incast::PERIOD_US.into());
    let [rpg_ai_rate, rpg_hai_rate, rpg_min_rate] = Incast::STEPS;
    let scenario = Scenario {
        topology: Topology::Given(network),
        loss: Loss::Drop,
        dcqcn: DcqcnParameters {
            dce_tcp_rtt: period,
            rpg_time_reset: period,
            rpg_ai_rate,
            rpg_hai_rate,
            rpg_min_rate,
            rpg_max_rate: rate,
            start_rate: rate,
            ..DcqcnParameters::PAPER
        },
        notification: NotificationPoint {
            min_time_between_cnps: Duration::from_micros(Incast::CNP_US.into()),
            ..NotificationPoint::default()
        },
        duration: Duration::from_secs(seconds.into()),
        every: Duration::from_millis(INTERVAL_MS),
        ..incast("incast", "eight hosts send to one", SENDERS)
    };
    run(&scenario, seed, &mut |_| ()).map_err(|error| error.to_string())
}
