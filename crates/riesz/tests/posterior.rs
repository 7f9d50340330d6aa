//! Posteriors beside closed forms and grids.

use riesz::distributions::models::TiedMixture;
use riesz::distributions::{adaptive, AdaptiveOptions, Model, Posterior};
use riesz::driver::quietly;
use riesz::random::{normal_pair, uniform_open, Address, BlockIndex, Seed, Stream};

fn words(block: u64, i: u32) -> [u32; 4] {
    Address::new(Seed(2018), Stream::Synthetic, BlockIndex(block), i).words(0)
}

/// 1,000 observations of the tied mixture at θ = (1, −2).
fn mixture() -> TiedMixture {
    let draw = |i| {
        let [a, b, c, _] = words(0, i);
        2.5 * normal_pair(a, b)[0] + if uniform_open(c) < 0.5 { 1.0 } else { -1.0 }
    };
    TiedMixture::new((0..1_000).map(draw).collect()).unwrap()
}

fn fit(model: &dyn Model, options: &AdaptiveOptions) -> Posterior {
    quietly(|control| adaptive(model, options, control)).unwrap()
}

#[test]
fn scratch() {
    let model = mixture();
    for seed in 0..4 {
        let options = AdaptiveOptions { particles: 1_500, ..AdaptiveOptions::new(Seed(seed)) };
        let t = std::time::Instant::now();
        let posterior = fit(&model, &options);
        let left = posterior.mean(|theta| f64::from(theta[1] < 0.0));
        println!(
            "{:?} {:.4} ev {:?} ess {:.0} k {:?} r {:?} evals {:.2}M groups {} warnings {:?}",
            t.elapsed(),
            left.value,
            posterior.report().evidence,
            posterior.report().effective_size,
            posterior.report().pareto_k,
            posterior.report().r_hat,
            posterior.report().evaluations as f64 / 1e6,
            posterior.report().groups,
            posterior.warnings()
        );
        if seed == 0 {
            for s in &posterior.report().history {
                println!("{s:?}");
            }
        }
    }
}

/// A posterior made of peaks: N(0, 5² I) prior, mixture likelihood.
struct Peaks {
    d: usize,
    centres: Vec<Vec<f64>>,
    deviations: Vec<f64>,
    shares: Vec<f64>,
    wide: f64,
}
impl Peaks {
    fn new(d: usize, k: usize, seed: u64) -> Self {
        let mut centres: Vec<Vec<f64>> = Vec::new();
        let mut i = 0;
        while centres.len() < k {
            let c: Vec<f64> =
                (0..d).map(|j| 16.0 * uniform_open(words(seed + 100, i * 8 + j as u32)[0]) - 8.0).collect();
            i += 1;
            if centres
                .iter()
                .all(|o| o.iter().zip(&c).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt() > 4.0)
            {
                centres.push(c);
            }
            if i > 10_000 {
                break;
            }
        }
        let k = centres.len();
        let deviations = (0..k).map(|j| 0.3 + 0.5 * uniform_open(words(seed + 101, j as u32)[0])).collect();
        let raw: Vec<f64> = (0..k).map(|j| 0.5 + uniform_open(words(seed + 102, j as u32)[0])).collect();
        let t: f64 = raw.iter().sum();
        Self { d, centres, deviations, shares: raw.iter().map(|r| r / t).collect(), wide: 5.0 }
    }
    fn wide_log(&self, x: &[f64]) -> f64 {
        -x.iter()
            .map(|x| 0.5 * (x / self.wide).powi(2) + self.wide.ln() + 0.5 * std::f64::consts::TAU.ln())
            .sum::<f64>()
    }
    fn log_post(&self, x: &[f64]) -> f64 {
        let t: Vec<f64> = (0..self.centres.len())
            .map(|c| {
                self.shares[c].ln()
                    - x.iter()
                        .zip(&self.centres[c])
                        .map(|(a, b)| {
                            0.5 * ((a - b) / self.deviations[c]).powi(2)
                                + self.deviations[c].ln()
                                + 0.5 * std::f64::consts::TAU.ln()
                        })
                        .sum::<f64>()
            })
            .collect();
        riesz::distributions::special::log_sum_exp(&t)
    }
}
impl Model for Peaks {
    fn dimension(&self) -> usize {
        self.d
    }
    fn observations(&self) -> usize {
        1
    }
    fn draw_prior(&self, a: Address, t: &mut [f64]) -> riesz::Result<()> {
        for (j, t) in t.iter_mut().enumerate() {
            let w = a.words(j as u32);
            *t = self.wide * normal_pair(w[0], w[1])[0];
        }
        Ok(())
    }
    fn log_prior(&self, p: riesz::distributions::Particles<'_>, out: &mut [f64]) -> riesz::Result<()> {
        p.iter().zip(out).for_each(|(x, o)| *o = self.wide_log(x));
        Ok(())
    }
    fn log_likelihood(
        &self,
        p: riesz::distributions::Particles<'_>,
        _: &[u32],
        out: &mut [f64],
    ) -> riesz::Result<()> {
        p.iter().zip(out).for_each(|(x, o)| *o = self.log_post(x) - self.wide_log(x));
        Ok(())
    }
}

#[test]
fn peaks() {
    let m: usize = std::env::var("M").map_or(2000, |v| v.parse().unwrap());
    let isl: usize = std::env::var("I").map_or(2, |v| v.parse().unwrap());
    let list = |name: &str| -> Vec<usize> {
        std::env::var(name).unwrap_or("2".into()).split(',').map(|v| v.parse().unwrap()).collect()
    };
    for d in list("DS") {
        for k in list("KS") {
            let (mut ok, mut worst, mut ev, mut zerr, t) =
                (0, 0.0f64, 0.0, 0.0f64, std::time::Instant::now());
            let n = 20;
            let mut warned = 0;
            for seed in 0..n {
                let model = Peaks::new(d, k, 1000 * seed);
                let post = fit(
                    &model,
                    &AdaptiveOptions {
                        particles: m,
                        islands: isl,
                        effective: std::env::var("RHO").map_or(0.3, |v| v.parse().unwrap()),
                        ..AdaptiveOptions::new(Seed(seed))
                    },
                );
                let mut e = 0.0f64;
                for c in 0..model.centres.len() {
                    let share = post
                        .mean(|x| {
                            let near = (0..model.centres.len())
                                .min_by(|&a, &b| {
                                    let f = |c: usize| {
                                        x.iter()
                                            .zip(&model.centres[c])
                                            .map(|(a, b)| (a - b).powi(2))
                                            .sum::<f64>()
                                    };
                                    f(a).total_cmp(&f(b))
                                })
                                .unwrap();
                            f64::from(near == c)
                        })
                        .value;
                    e = e.max((share - model.shares[c]).abs());
                }
                if e <= 0.05 {
                    ok += 1;
                }
                worst = worst.max(e);
                ev += post.report().evaluations as f64;
                zerr = zerr.max(post.report().evidence.unwrap().value.abs());
                if !post.warnings().is_empty() {
                    warned += 1;
                }
            }
            println!("d {d} k {k}: ok {ok}/{n} worst {worst:.3} evals {:.0}k |logZ| {zerr:.3} warned {warned} {:?}", ev / n as f64 / 1e3, t.elapsed() / n as u32);
        }
    }
}
