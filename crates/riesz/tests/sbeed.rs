//! SBEED as an agent: what the dual function is for, closed forms of V, the same bits, files, and what is refused.
#![allow(clippy::unwrap_used)]

use riesz::driver::quietly;
use riesz::dynamics::sbeed::{
    Actions, After, Form, Horizon, Options, PolicyStep, Sbeed, Smoothing, Steps, Target,
};
use riesz::model::Stored;
use riesz::random::{uniform_open, Address, BlockIndex, Seed, Stream};
use riesz::Result;

const PICK: Actions = Actions::Discrete { count: 2, start: 0 };

/// A choice between one for sure and, with probability 0.4, a corridor of five steps with five at its end: six states, which
/// are told by indicators. The second is worth two.
struct Lottery {
    place: usize,
    draws: Box<dyn Iterator<Item = u32>>,
}

const PLACES: usize = 6;

impl Lottery {
    fn new(seed: u64) -> Self {
        let words = Address::new(Seed(seed), Stream::Synthetic, BlockIndex(0), 0).sequence();
        Self { place: 0, draws: Box::new(words) }
    }

    fn seen(&self) -> Vec<f32> {
        (0..PLACES).map(|place| f32::from(u8::from(place == self.place))).collect()
    }

    /// The reward, and whether the task ends.
    fn step(&mut self, action: f64) -> (f64, bool) {
        let (reward, ends) = match (self.place, action) {
            (0, 0.0) => (1.0, true),
            (0, _) => (0.0, uniform_open(self.draws.next().unwrap()) > 0.4),
            (place, _) => (if place == PLACES - 1 { 5.0 } else { 0.0 }, place == PLACES - 1),
        };
        self.place += 1;
        (reward, ends)
    }
}

fn one_step(target: Target, dual_weight: f64, seed: u64) -> Options {
    Options {
        horizon: Horizon { discount: 0.99, steps: 1, trace: 1.0 },
        smoothing: Smoothing { temperature: 0.01, dual_weight },
        target,
        environments: 1,
        standardised: (false, true),
        ..Options::new(Seed(seed))
    }
}

/// Learns in the lottery; gives the agent.
fn gambler(options: Options, updates: usize) -> Result<Sbeed> {
    let mut lottery = Lottery::new(options.seed.0);
    let mut agent = Sbeed::new(options, PLACES, PICK)?;
    for update in 0..updates {
        for _ in 0..500 {
            let states = lottery.seen();
            let acted = agent.act(&states)?;
            let (reward, ends) = lottery.step(acted.taken[0]);
            let after = [if ends { After::End } else { After::Step }];
            if ends {
                lottery.place = 0;
            }
            agent.observe(&Steps {
                lanes: &[0],
                states: &states,
                actions: &acted.actions,
                log_behaviour: Some(&acted.log_probabilities),
                rewards: &[reward],
                next_states: &lottery.seen(),
                after: &after,
            })?;
        }
        quietly(|control| agent.learn(update as f64 / updates as f64, control))?;
    }
    Ok(agent)
}

fn choice(agent: &Sbeed) -> f64 {
    let start: Vec<f32> = (0..PLACES).map(|place| f32::from(u8::from(place == 0))).collect();
    agent.predict(&start, None).unwrap()[0]
}

/// At the saddle point the dual function decides: without it the variance of V(s') counts against the lottery. Frozen targets
/// have no such bias.
#[test]
fn the_dual_function_finds_the_better_lottery() {
    for seed in 0..3 {
        let chosen = |target, dual_weight| choice(&gambler(one_step(target, dual_weight, seed), 16).unwrap());
        assert_eq!(chosen(Target::Saddle, 1.0), 1.0, "seed {seed}");
        assert_eq!(chosen(Target::Saddle, 0.0), 0.0, "seed {seed}");
        assert_eq!(chosen(Target::Frozen, 0.1), 1.0, "seed {seed}");
    }
}

/// One state, one reward a step: V is R/(1 − γ) where time goes on unseen, and R where every step is the last, plus the entropy
/// of a policy that has no reason to choose.
#[test]
fn what_is_unseen_is_not_an_end() {
    for (after, factor) in [(After::Unseen, 1.0 / (1.0 - 0.8)), (After::End, 1.0)] {
        let (lambda, n) = (0.05, 400);
        let options = Options {
            horizon: Horizon { discount: 0.8, steps: 5, trace: 0.9 },
            smoothing: Smoothing { temperature: lambda, dual_weight: 0.5 },
            environments: 1,
            standardised: (false, false),
            step: PolicyStep::Fixed(1e-9),
            ..Options::new(Seed(1))
        };
        let mut agent = Sbeed::new(options, 1, PICK).unwrap();
        agent
            .observe(&Steps {
                lanes: &vec![0; n],
                states: &vec![0.3; n],
                actions: &(0..n).map(|i| (i % 2) as f64).collect::<Vec<_>>(),
                log_behaviour: None,
                rewards: &vec![2.0; n],
                next_states: &vec![0.3; n],
                after: &vec![after; n],
            })
            .unwrap();
        (0..20).for_each(|_| drop(quietly(|control| agent.learn(0.0, control)).unwrap()));
        let expected = factor * (2.0 + lambda * 2.0_f64.ln());
        let found = agent.values(&[0.3]).unwrap()[0];
        assert!((found - expected).abs() < 0.01 * expected, "{after:?}: {found} {expected}");
    }
}

/// Neither the number of threads nor a stop between two updates changes a bit; and what a file holds is all there is.
#[test]
fn learning_goes_on_from_a_file_to_the_same_bits() {
    let whole = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| gambler(one_step(Target::Frozen, 0.5, 5), 3)).unwrap()
    };
    let bytes = whole(1).to_bytes().unwrap();
    assert_eq!(bytes, whole(3).to_bytes().unwrap());
    let again = Sbeed::from_bytes(&bytes).unwrap();
    assert_eq!(again.to_bytes().unwrap(), bytes);
    let learn = |mut agent: Sbeed| {
        quietly(|control| agent.learn(0.5, control)).unwrap();
        agent.to_bytes().unwrap()
    };
    assert_eq!(learn(again), learn(whole(2)));
    assert!(whole(1).without_replay().unwrap().to_bytes().unwrap().len() < bytes.len());
}

/// A number that should be pursued: a ~ N(·, σ²) is rewarded by −(a − x)² at state x. Features, networks and the published form
/// learn it.
#[test]
fn every_form_learns_to_follow() {
    let network = Form::Network { hidden: vec![16, 16] };
    let base = || Options {
        horizon: Horizon { discount: 0.5, steps: 1, trace: 1.0 },
        environments: 1,
        capacity: 1_000,
        ..Options::new(Seed(2))
    };
    let networks = || {
        let mut options = Options { policy: network.clone(), ..base() };
        for critic in [&mut options.value, &mut options.dual] {
            (critic.form, critic.sweeps, critic.descent) = (network.clone(), 1, (10, 0.01));
        }
        options
    };
    let published = || Options {
        environments: 1,
        capacity: 1_000,
        horizon: Horizon { discount: 0.5, steps: 1, trace: 1.0 },
        step: PolicyStep::Fixed(0.02),
        ..Options::published(Seed(2))
    };
    for (name, options, updates) in
        [("features", base(), 40), ("networks", networks(), 40), ("published", published(), 20)]
    {
        let actions = Actions::Box { low: vec![-2.0], high: vec![2.0] };
        let mut agent = Sbeed::new(options, 1, actions).unwrap();
        let state = |i: usize| ((i * 37) % 101) as f32 / 50.0 - 1.0;
        for _ in 0..updates {
            for i in 0..250 {
                let acted = agent.act(&[state(i)]).unwrap();
                agent
                    .observe(&Steps {
                        lanes: &[0],
                        states: &[state(i)],
                        actions: &acted.actions,
                        log_behaviour: Some(&acted.log_probabilities),
                        rewards: &[-(acted.taken[0] - f64::from(state(i))).powi(2)],
                        next_states: &[state(i)],
                        after: &[After::End],
                    })
                    .unwrap();
            }
            quietly(|control| agent.learn(0.0, control)).unwrap();
        }
        let error = |x: f32| (agent.predict(&[x], None).unwrap()[0] - f64::from(x)).abs();
        let mean = (0..21).map(|i| error(i as f32 / 10.0 - 1.0)).sum::<f64>() / 21.0;
        // Not having learnt is an action of zero, whose mean error is 0.52.
        assert!(mean < if name == "published" { 0.4 } else { 0.1 }, "{name}: {mean}");
        // What each damping gained is part of a file, and the deviation of actions ends at its last bound.
        let bytes = agent.to_bytes().unwrap();
        let ended = |mut agent: Sbeed| {
            quietly(|control| agent.learn(1.0, control)).unwrap();
            agent
        };
        let (one, other) = (ended(agent), ended(Sbeed::from_bytes(&bytes).unwrap()));
        assert_eq!(one.to_bytes().unwrap(), other.to_bytes().unwrap(), "{name}");
        assert_eq!(one.log_deviation() == Some(vec![-1.5]), name != "published");
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let options = || Options { environments: 1, ..Options::new(Seed(1)) };
    let refused =
        |options: Options, actions: Actions| Sbeed::new(options, 2, actions).unwrap_err().to_string();
    let unbounded = Actions::Box { low: vec![f64::NEG_INFINITY], high: vec![1.0] };
    assert!(refused(options(), unbounded).contains("RescaleAction"));
    assert!(refused(options(), Actions::Discrete { count: 1, start: 0 }).contains("actions"));
    assert!(refused(Options { iterations: 0, ..options() }, PICK).contains("iterations"));
    assert!(refused(Options { iterations: 1_000_000, ..options() }, PICK).contains("iterations"));
    assert!(refused(Options { log_deviation: (1.0, -1.0, 0.0), ..options() }, PICK).contains("log_std"));
    let smoothing = Smoothing { temperature: 0.1, dual_weight: 1.5 };
    assert!(refused(Options { smoothing, ..options() }, PICK).contains("dual_weight"));
    let saddle = Options { target: Target::Saddle, ..Options::published(Seed(1)) };
    assert!(refused(saddle, PICK).contains("saddle"));

    let mut agent = Sbeed::new(options(), 2, PICK).unwrap();
    let empty = quietly(|control| agent.learn(0.0, control)).unwrap_err().to_string();
    assert!(empty.contains("remembers"), "{empty}");
    let good = Steps {
        lanes: &[0],
        states: &[0.0, 1.0],
        actions: &[1.0],
        log_behaviour: None,
        rewards: &[0.0],
        next_states: &[0.0, 1.0],
        after: &[After::End],
    };
    let bad = [
        (Steps { rewards: &[f64::NAN], ..good }, "rewards"),
        (Steps { states: &[0.0], ..good }, "observations"),
        (Steps { next_states: &[0.0, f32::INFINITY], ..good }, "next observations"),
        (Steps { actions: &[2.0], ..good }, "action"),
        (Steps { lanes: &[1], ..good }, "environment"),
    ];
    for (steps, name) in bad {
        let error = agent.observe(&steps).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
    assert!(agent.observe(&good).is_ok());
    assert!(agent.act(&[0.0, f32::NAN]).unwrap_err().to_string().contains("observations"));
    assert!(agent.act(&[0.0]).is_err());
}
