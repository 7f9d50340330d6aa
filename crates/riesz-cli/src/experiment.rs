//! `riesz experiment`: the experiments of the texts, one file each in `experiments/`.

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{duration, grouped, make_folder, print, significant, write};
use common::{Console, Report};
use riesz::random::Seed;
use riesz::Error;
use std::path::PathBuf;
use std::time::Instant;

#[path = "../../../experiments/binary.rs"]
pub(crate) mod binary;
#[path = "../../../experiments/c1.rs"]
pub(crate) mod c1;
#[path = "../../../experiments/common.rs"]
pub(crate) mod common;
#[path = "../../../experiments/d1.rs"]
pub(crate) mod d1;
#[path = "../../../experiments/d2.rs"]
pub(crate) mod d2;
#[path = "../../../experiments/d3.rs"]
pub(crate) mod d3;
#[path = "../../../experiments/d4.rs"]
pub(crate) mod d4;
#[path = "../../../experiments/d5.rs"]
pub(crate) mod d5;
#[path = "../../../experiments/e1.rs"]
pub(crate) mod e1;
#[path = "../../../experiments/e2.rs"]
pub(crate) mod e2;
#[path = "../../../experiments/e3.rs"]
pub(crate) mod e3;
#[path = "../../../experiments/f1.rs"]
pub(crate) mod f1;
#[path = "../../../experiments/f2.rs"]
pub(crate) mod f2;
#[path = "../../../experiments/f3.rs"]
pub(crate) mod f3;
#[path = "../../../experiments/f4.rs"]
pub(crate) mod f4;
#[path = "../../../experiments/f5.rs"]
pub(crate) mod f5;
#[path = "../../../experiments/f9.rs"]
pub(crate) mod f9;
#[path = "../../../experiments/features.rs"]
pub(crate) mod features;

/// θ, unless the user or the experiment says otherwise.
pub(crate) const THETA: f64 = 1_000.0;

/// The experiments there are.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Name {
    /// Kernel ridge regression on 2^20 rows of a function of the plane, by doubly stochastic gradients
    #[value(name = "F1")]
    F1,
    /// Gaussian-process regression on 2^11 rows of the same: mean and variance against the closed form
    #[value(name = "F2")]
    F2,
    /// Adult (a9a): support-vector machine by one pass of doubly stochastic gradients, beside block descent
    #[value(name = "F3")]
    F3,
    /// MNIST, 8 against 6, in 50 principal components: the same on virtual samples
    #[value(name = "F4")]
    F4,
    /// Forest cover type, class 2 against the others: the same
    #[value(name = "F5")]
    F5,
    /// MNIST-8M, given convolutional features, or a stand-in
    #[value(name = "F6")]
    F6,
    /// CIFAR-10, given convolutional features, or a stand-in
    #[value(name = "F7")]
    F7,
    /// ImageNet, given convolutional features, or a stand-in
    #[value(name = "F8")]
    F8,
    /// QM7: atomisation energies from random Coulomb matrices, cross-validated
    #[value(name = "F9")]
    F9,
    /// MolecularSpace, given descriptors, or a stand-in
    #[value(name = "F10")]
    F10,
    /// The posterior of a mixture with two modes: particle mirror descent beside sequential Monte Carlo and Langevin dynamics
    #[value(name = "D1")]
    D1,
    /// Bayesian logistic regression on MNIST, 8 against 6, in 50 principal components, or on a stand-in
    #[value(name = "D2")]
    D2,
    /// Sparse Gaussian process on YearPredictionMSD, or on kin40k in its stead: error against rows visited
    #[value(name = "D3")]
    D3,
    /// Topics of 20 Newsgroups: particle mirror descent beside stochastic variational inference
    #[value(name = "D4")]
    D4,
    /// Sparse Gaussian process on 2^11 rows of a function of one variable: mean and variance against the exact process
    #[value(name = "D5")]
    D5,
    /// Five classes under a risk constraint: POLK, the projected primal-dual method and penalties
    #[value(name = "C1")]
    C1,
    /// Learning from noisy inputs: Embedding-SGD and the closed form beside sample averages and virtual samples
    #[value(name = "E1")]
    E1,
    /// QM7: atomisation energies from permuted Coulomb matrices, the same methods at equal work
    #[value(name = "E2")]
    E2,
    /// Policy evaluation in three environments: Bellman errors and errors of the value, nine methods
    #[value(name = "E3")]
    E3,
}

/// Arguments of `riesz experiment`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which experiment
    #[arg(value_enum, ignore_case = true)]
    name: Name,
    /// Folder for the table and the picture
    #[arg(long, default_value = "results", value_name = "DIR")]
    out: PathBuf,
    /// Folder of the data sets of D2 to D4, E2 and F3 to F10 [default: the environment variable RIESZ_DATA]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Made-up data of the same shape instead of the real ones (D2, E2, F6 to F10)
    #[arg(long)]
    pub(crate) stand_in: bool,
    /// Rows, such as 1048576 or 2^20 [default: 2^20; F2: 2^11; F4: 2^18 virtual samples; F5: 500,000 to learn]
    #[arg(long, value_parser = count)]
    pub(crate) rows: Option<usize>,
    /// θ of the step size θ/(t + t₀) of F1 to F5; the theorem's choice for F1 is 1e6 (see experiments/f1.rs why it is
    /// not the default) [default: 1000; F2: 30; F5: 5000]
    #[arg(long)]
    pub(crate) theta: Option<f64>,
    /// t₀ of the step size; the published form is 0
    #[arg(long, default_value_t = 20.0)]
    pub(crate) delay: f64,
    /// Bandwidth σ of F3 to F10, if not that of the text
    #[arg(long)]
    pub(crate) bandwidth: Option<f64>,
    /// Damping ρ of block descent in F3 to F10
    #[arg(long)]
    pub(crate) damping: Option<f64>,
    /// Rows per step of the streams of F3 to F5; documents per step of D4
    #[arg(long, value_parser = count)]
    pub(crate) batch: Option<usize>,
    /// Only this environment of E3: navigation, cart_pole_swing_up or puma560
    #[arg(long, value_name = "NAME")]
    pub(crate) environment: Option<String>,
    /// Features per block of F3 to F10
    #[arg(long, value_parser = count)]
    pub(crate) block_size: Option<usize>,
    /// Blocks of block descent in F3 to F10
    #[arg(long, value_parser = count)]
    pub(crate) blocks: Option<usize>,
    /// Random Coulomb matrices of each molecule that are learnt (F9) [default: 40]
    #[arg(long, value_parser = count)]
    pub(crate) matrices: Option<usize>,
    /// Random Coulomb matrices averaged in testing (F9) [default: 20]
    #[arg(long, value_parser = count)]
    pub(crate) test_matrices: Option<usize>,
    /// Folds of the cross-validation (F9) [default: 5]
    #[arg(long, value_parser = count)]
    pub(crate) folds: Option<usize>,
    /// Test only the first so many folds (E2, F9) [default: E2: 3]
    #[arg(long, value_parser = count, value_name = "N")]
    pub(crate) only_folds: Option<usize>,
    /// Seed of data and features
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Seconds instead of minutes: fewer rows, steps, blocks or matrices
    #[arg(long, conflicts_with = "rows")]
    pub(crate) quick: bool,
}

/// A positive whole number, also as a power such as `2^20`.
fn count(text: &str) -> Result<usize, String> {
    let parsed = match text.split_once('^') {
        Some((base, exponent)) => {
            base.parse::<usize>().ok().zip(exponent.parse().ok()).and_then(|(b, e)| b.checked_pow(e))
        }
        None => text.replace(['_', ','], "").parse().ok(),
    };
    parsed
        .filter(|&value| value > 0)
        .ok_or_else(|| "expected a positive number such as 1048576 or 2^20".into())
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Outcome<()> {
    match arguments.name {
        Name::F1 => run_f1(arguments),
        Name::F2 => run_f2(arguments),
        Name::F3 => reported("F3", arguments, |console| Ok(f3::run(arguments, console)?.report())),
        Name::F4 => reported("F4", arguments, |console| Ok(f4::run(arguments, console)?.report())),
        Name::F5 => reported("F5", arguments, |console| Ok(f5::run(arguments, console)?.report())),
        Name::F6 => recipe(&features::F6, arguments),
        Name::F7 => recipe(&features::F7, arguments),
        Name::F8 => recipe(&features::F8, arguments),
        Name::F9 => reported("F9", arguments, |console| f9::run(arguments, console)),
        Name::F10 => recipe(&features::F10, arguments),
        Name::D1 => reported("D1", arguments, |console| d1::run(arguments, console)),
        Name::D2 => reported("D2", arguments, |console| d2::run(arguments, console)),
        Name::D3 => reported("D3", arguments, |console| d3::run(arguments, console)),
        Name::D4 => reported("D4", arguments, |console| d4::run(arguments, console)),
        Name::D5 => reported("D5", arguments, |console| d5::run(arguments, console)),
        Name::C1 => run_c1(arguments),
        Name::E1 => reported("E1", arguments, |console| e1::run(arguments, console)),
        Name::E2 => reported("E2", arguments, |console| e2::run(arguments, console)),
        Name::E3 => reported("E3", arguments, |console| e3::run(arguments, console)),
    }
}

fn recipe(recipe: &features::Recipe, arguments: &Arguments) -> Outcome<()> {
    reported(recipe.name, arguments, |console| features::run(recipe, arguments, console))
}

/// Runs an experiment that reports line by line, and writes its table and picture.
fn reported(
    name: &str,
    arguments: &Arguments,
    experiment: impl FnOnce(&mut Console<'_>) -> Outcome<Report>,
) -> Outcome<()> {
    let interrupt = Interrupt::listen();
    // A terminal that has gone away is noticed by the next print.
    let mut say = |line: &str| drop(print(&format!("{line}\n")));
    let mut cancelled = || interrupt.asked();
    let report = experiment(&mut Console { say: &mut say, cancelled: &mut cancelled })?;
    make_folder(&arguments.out)?;
    let [table, picture] = ["csv", "svg"].map(|extension| arguments.out.join(name).with_extension(extension));
    write(&table, &report.table)?;
    write(&picture, &report.picture)?;
    print(&format!("{}wrote {} and {}\n", report.summary, table.display(), picture.display()))?;
    ended(report.ended)
}

fn run_c1(arguments: &Arguments) -> Outcome<()> {
    let mut pictures = Vec::new();
    let outcome = reported("C1", arguments, |console| c1::run(arguments, console, &mut pictures));
    for (name, picture) in pictures {
        write(&arguments.out.join(format!("C1-{}.svg", name.replace(' ', "-"))), &picture)?;
    }
    outcome
}

fn run_f2(arguments: &Arguments) -> Outcome<()> {
    make_folder(&arguments.out)?;
    let &Arguments { delay, seed, .. } = arguments;
    let theta = arguments.theta.unwrap_or(30.0);
    let rows = arguments.rows.unwrap_or(1 << 11);
    let steps = if arguments.quick { 8 } else { 64 };
    let settings =
        f2::Settings { rows, test: 1 << 10, batch: 64, block: 512, steps, theta, delay, seed: Seed(seed) };
    let interrupt = Interrupt::listen();
    print(&format!("{:>6} {:>12} {:>12}\n", "t", "mean", "variance"))?;
    let mut observe = |point: &f2::Point| {
        let f2::Point { step, mean, variance } = *point;
        // A terminal that has gone away is noticed by the next print.
        let _ = print(&format!("{step:>6} {mean:>12.3e} {variance:>12.3e}\n"));
    };
    let curve = f2::run(settings, &mut observe, &mut || interrupt.asked())?;
    let [table, picture] = ["csv", "svg"].map(|extension| arguments.out.join("F2").with_extension(extension));
    write(&table, &curve.to_csv())?;
    write(&picture, &curve.to_svg())?;
    print(&format!(
        "bandwidth {}\nslope of the mean {:.2}, of the variance {:.2}\nwrote {} and {}\n",
        significant(curve.bandwidth),
        curve.slope(|p| p.mean),
        curve.slope(|p| p.variance),
        table.display(),
        picture.display()
    ))?;
    ended(curve.ended)
}

/// The outcome of an experiment that may have ended early.
fn ended(reason: Option<Error>) -> Outcome<()> {
    match reason {
        None => Ok(()),
        Some(Error::Cancelled { blocks }) => {
            Err(Failure::interrupted(format!("interrupted at step {blocks}")))
        }
        Some(error) => Err(error.into()),
    }
}

fn run_f1(arguments: &Arguments) -> Outcome<()> {
    const BATCH: usize = 1 << 10;
    let rows = arguments.rows.unwrap_or(if arguments.quick { 1 << 16 } else { 1 << 20 });
    if rows < 4 * BATCH {
        return Err(Failure::bad_input(format!(
            "--rows {rows} is too few: at least {} for a slope",
            4 * BATCH
        )));
    }
    make_folder(&arguments.out)?;
    let &Arguments { delay, seed, .. } = arguments;
    let theta = arguments.theta.unwrap_or(THETA);
    let settings = f1::Settings { rows, batch: BATCH, ridge: 1e-6, theta, delay, seed: Seed(seed) };
    let (started, interrupt) = (Instant::now(), Interrupt::listen());
    print(&format!("{:>6} {:>10} {:>12} {:>12} {:>12}\n", "t", "rows", "last", "average", "time"))?;
    let mut observe = |point: &f1::Point| {
        let f1::Point { step, rows, last, average } = *point;
        let time = duration(started.elapsed());
        // A terminal that has gone away is noticed by the next print.
        let _ =
            print(&format!("{step:>6} {:>10} {last:>12.3e} {average:>12.3e} {time:>12}\n", grouped(rows)));
    };
    let curve = f1::run(settings, &mut observe, &mut || interrupt.asked())?;
    let [table, picture] = ["csv", "svg"].map(|extension| arguments.out.join("F1").with_extension(extension));
    write(&table, &curve.to_csv())?;
    write(&picture, &curve.to_svg())?;
    let slopes = |from| [curve.slope(from, |p| p.last), curve.slope(from, |p| p.average)];
    let [[last, average], [late_last, late_average]] = [slopes(1.0), slopes(curve.middle())];
    print(&format!(
        "bandwidth {}\nslope of the last iterate {last:.2}, of the average {average:.2}; from t = {:.0} on {late_last:.2} and {late_average:.2}\nwrote {} and {}\n",
        significant(curve.bandwidth), curve.middle(), table.display(), picture.display()
    ))?;
    ended(curve.ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_may_be_powers() {
        assert_eq!(count("2^20"), Ok(1 << 20));
        assert_eq!(count("1_000"), Ok(1_000));
        for bad in ["0", "2^99", "x", "2^", "-1", ""] {
            assert!(count(bad).is_err(), "{bad}");
        }
    }

    /// The rate of the default schedule on a short run: a schedule that stalls or diverges fails.
    #[test]
    fn the_error_of_f1_falls_nearly_like_one_over_t() {
        let settings = f1::Settings {
            rows: 1 << 14,
            batch: 1 << 9,
            ridge: 1e-6,
            theta: 1_000.0,
            delay: 20.0,
            seed: Seed(1),
        };
        let curve = f1::run(settings, &mut |_| {}, &mut || false).unwrap();
        let slope = curve.slope(1.0, |point| point.last);
        assert!((-1.6..-0.8).contains(&slope), "{slope}");
        assert!((curve.bandwidth - 0.51).abs() < 0.02, "{}", curve.bandwidth);
        let published = f1::Settings { theta: 1e6, delay: 0.0, ..settings };
        assert!(f1::run(published, &mut |_| {}, &mut || false).unwrap().ended.is_some(), "it diverges");
    }

    /// The defaults of the command line.
    fn arguments(text: &str) -> Arguments {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            arguments: Arguments,
        }
        <Line as clap::Parser>::parse_from(text.split(' ')).arguments
    }

    fn quietly<T>(experiment: impl FnOnce(&mut Console<'_>) -> Outcome<T>) -> T {
        experiment(&mut Console { say: &mut |_| {}, cancelled: &mut || false }).unwrap()
    }

    /// Rows on both sides of a circle, which no line separates.
    fn ring(count: usize, block: u64) -> binary::Labelled {
        let (x, _) = f1::sample(Seed(1), block, count);
        let x: Vec<f32> = x.iter().map(|v| v / 5.0).collect();
        let y = x.chunks_exact(2).map(|p| if p[0] * p[0] + p[1] * p[1] < 0.6 { 1.0 } else { -1.0 }).collect();
        binary::Labelled { x, y, columns: 2 }
    }

    /// Both solvers learn a circle: about half of the rows lie inside.
    #[test]
    fn one_pass_and_block_descent_learn_two_classes() {
        let (train, test) = (ring(4_096, 1), ring(1_024, 2));
        let options = arguments("experiment F3 --batch 128 --block-size 128 --blocks 8 --bandwidth 0.5");
        let settings = f3::settings(&options, &train).unwrap();
        assert_eq!(settings.ridge, 1.0 / 409_600.0);
        let course = quietly(|console| binary::one_pass_and_descent(settings, &train, &test, console));
        let last = |method| course.of(method).last().unwrap().error;
        assert!(last(binary::Method::Last) < 6.0 && last(binary::Method::Average) < 6.0, "{course:?}");
        assert!(last(binary::Method::Descent) < 4.0, "{course:?}");
        assert_eq!(course.of(binary::Method::Last).last().unwrap().rows, 4_096);
        assert!(course
            .to_csv()
            .starts_with("method,rows,features,seconds,error_percent\none pass last iterate,128,"));
        assert!(course.to_svg().contains("the text, exact: 15 %"));
    }

    #[test]
    fn columns_are_scaled_by_the_range_of_the_rows_learnt() {
        let part = |x: &[f32]| binary::Labelled { x: x.to_vec(), y: vec![1.0; x.len() / 2], columns: 2 };
        let (mut train, mut test) = (part(&[1.0, 7.0, 3.0, 7.0]), part(&[2.0, 7.0, 5.0, 8.0]));
        train.scale_to_unit(&mut test);
        assert_eq!((train.x, test.x), (vec![0.0, 0.0, 1.0, 0.0], vec![0.5, 0.0, 2.0, 1.0]));
        assert!(part(&[0.0; 8]).split(4, Seed(1)).is_err());
    }

    /// A virtual sample depends on its number alone, keeps the class and moves few pixels far.
    #[test]
    fn virtual_samples_are_addressed() {
        let bar = |class: f32| -> Vec<f32> {
            (0..784).map(|p| if (p % 28 > 12) == (class > 0.0) && p % 28 < 16 { 1.0 } else { 0.0 }).collect()
        };
        let x = [bar(1.0), bar(-1.0)].concat();
        let train = binary::Labelled { x, y: vec![1.0, -1.0], columns: 784 };
        let many = f4::deformed(&train, 0..64, Seed(5));
        let some = f4::deformed(&train, 40..44, Seed(5));
        assert_eq!((&many.x[40 * 784..44 * 784], &many.y[40..44]), (&some.x[..], &some.y[..]));
        assert_ne!(many.x, f4::deformed(&train, 0..64, Seed(6)).x);
        let ink = |image: &[f32]| image.iter().sum::<f32>();
        for (image, &y) in many.x.chunks_exact(784).zip(&many.y) {
            let before = ink(if y > 0.0 { &train.x[..784] } else { &train.x[784..] });
            assert!((0.5..1.5).contains(&(ink(image) / before)), "{} of {before}", ink(image));
        }
        let classes = many.y.iter().filter(|&&y| y > 0.0).count();
        // Binomial, 64 draws of one half: five deviations are 20.
        assert!((12..=52).contains(&classes), "{classes}");
        let options =
            arguments("experiment F4 --rows 1024 --batch 128 --block-size 128 --blocks 2 --bandwidth 5");
        let course = quietly(|console| f4::learn(&options, &train, &many, console));
        assert!(course.of(binary::Method::Descent).last().unwrap().error < 5.0, "{course:?}");
    }

    /// A realisation is the matrix under an order of its atoms: the trace and the sum of squares stay.
    #[test]
    fn random_coulomb_matrices_are_permutations() {
        let molecules = f9::Molecules::synthetic(5, Seed(1));
        let diagonal = |triangle: &[f32]| {
            let (mut at, mut sum) = (0, 0.0);
            for width in (1..=23).rev() {
                sum += triangle[at];
                at += width;
            }
            sum
        };
        for i in 0..5 {
            let full = &molecules.coulomb[i * 529..(i + 1) * 529];
            let trace: f32 = (0..23).map(|a| full[a * 24]).sum();
            let realised: Vec<_> = (0..8).map(|j| molecules.realise(i, j, 1.0, Seed(3))).collect();
            for triangle in &realised {
                assert!((diagonal(triangle) - trace).abs() < 1e-3 * trace);
                let mut sorted = triangle.clone();
                let mut expected: Vec<f32> = (0..23)
                    .flat_map(|a| (a..23).map(move |b| (a, b)))
                    .map(|(a, b)| full[a * 23 + b])
                    .collect();
                sorted.sort_by(f32::total_cmp);
                expected.sort_by(f32::total_cmp);
                assert_eq!(sorted, expected);
            }
            assert!(realised.iter().any(|triangle| *triangle != realised[0]), "never another order");
            assert_eq!(realised[2], molecules.realise(i, 2, 1.0, Seed(3)));
        }
    }

    /// The error of made-up molecules falls well below that of the mean energy, and averaging is over matrices of one
    /// molecule: the fold has no molecule in common with the rows learnt.
    #[test]
    fn f9_learns_made_up_molecules() {
        let molecules = f9::Molecules::synthetic(400, Seed(2));
        let settings = f9::Settings {
            matrices: 3,
            test_matrices: 3,
            folds: 4,
            tested: 1,
            bandwidth: 30.0,
            damping: 1e-3,
            block: 256,
            blocks: 4,
            seed: Seed(2),
        };
        let curve = quietly(|console| f9::cross_validate(&molecules, settings, console));
        let mean = molecules.energies.iter().sum::<f64>() / 400.0;
        let spread = molecules.energies.iter().map(|e| (e - mean).abs()).sum::<f64>() / 400.0;
        assert!(curve.result().0 < 0.4 * spread, "{:?} of {spread}", curve.result());
        assert!(curve.to_csv().starts_with("fold,blocks,features,mae,rmse,train_rmse,seconds\n1,1,256,"));
        assert!(curve.to_svg().contains("the text: 2.97"));
        let bad = f9::Settings { folds: 1, ..settings };
        let mut console = Console { say: &mut |_| {}, cancelled: &mut || false };
        assert!(f9::cross_validate(&molecules, bad, &mut console).is_err());
    }

    /// In small: all methods tell the classes apart, the constrained one has a multiplier and a lower tail.
    #[test]
    fn c1_keeps_its_constraint() {
        let mut pictures = Vec::new();
        let settings = arguments("experiment C1 --quick");
        let report = quietly(|console| c1::run(&settings, console, &mut pictures));
        let last = |method: &str| -> Vec<f64> {
            let own =
                report.table.lines().rfind(|line| line.starts_with(&format!("softmax,{method},0,2000,")));
            own.unwrap().split(',').skip(4).map(|field| field.parse().unwrap()).collect()
        };
        let [free, bound] = ["POLK", "primal-dual"].map(last);
        assert!(free[4] > 0.9 && bound[4] > 0.9, "{free:?} {bound:?}");
        assert!(free[2] == 0.0 && bound[2] > 0.0 && bound[5] < free[5], "{free:?} {bound:?}");
        assert!(pictures.len() == 9 && report.picture.starts_with("<svg"), "{}", pictures.len());
    }

    /// All four methods learn planted topics: perplexity falls below that of the words alone.
    #[test]
    fn d4_learns_planted_topics() {
        let words = |count: u32, block: u64| -> Vec<Vec<(usize, f32)>> {
            let word = |d, i| {
                riesz::random::Address::new(
                    Seed(4),
                    riesz::random::Stream::Synthetic,
                    riesz::random::BlockIndex(block),
                    d,
                )
                .words(i)[0] as usize
            };
            (0..count)
                .map(|d| (0..12).map(|i| (word(d, 99) % 4 * 8 + word(d, i) % 8, 1.0)).collect())
                .collect()
        };
        let documents = |count, block| d4::Documents::new(&words(count, block), 32);
        let corpus =
            d4::Corpus { train: documents(300, 0), observed: documents(50, 1), held_out: documents(50, 1) };
        let settings = d4::Settings { topics: 4, batch: 20, passes: 3, particles: 2, seed: Seed(1) };
        let report = quietly(|console| d4::compare(&corpus, settings, console));
        let first = format!("\n{},80,", d4::METHODS[0]);
        assert!(report.table.starts_with("method,documents,seconds,perplexity\n"), "{}", report.table);
        assert!(report.table.contains(&first), "{}", report.table);
        for method in d4::METHODS {
            let line = report.table.lines().rfind(|line| line.starts_with(method)).unwrap();
            let (documents, perplexity) = (line.split(',').nth(1).unwrap(), line.rsplit(',').next().unwrap());
            assert_eq!(documents, "900");
            let perplexity: f64 = perplexity.parse().unwrap();
            assert!((7.0..22.0).contains(&perplexity), "{method}: {perplexity}, of 32 words in groups of 8");
        }
    }

    /// 500 rows of a logistic model tell its classes apart; the published algorithm, whose kernel densities know little in 50
    /// dimensions, is better than chance by four deviations of 2,000 test rows.
    #[test]
    fn d2_learns_its_stand_in() {
        let report =
            quietly(|console| d2::run(&arguments("experiment D2 --stand-in --rows 500 --batch 50"), console));
        let lines: Vec<&str> = report.table.lines().collect();
        assert_eq!((lines[0], lines.len()), ("method,visited,percent_right", 7));
        let right = |line: &str| line.rsplit(',').next().unwrap().parse::<f64>().unwrap();
        assert!(lines[1].starts_with("adaptive,") && right(lines[1]) > 80.0, "{}", report.table);
        assert!(lines[6].starts_with("paper,2500,") && right(lines[6]) > 54.5, "{}", report.table);
        assert_ne!(d2::stand_in(Seed(1), 0, 2).x, d2::stand_in(Seed(2), 0, 2).x);
        assert_eq!(d2::stand_in(Seed(1), 0, 2).x[50..], d2::stand_in(Seed(1), 1, 1).x);
    }

    /// In small: the posterior of the sparse process is that of the exact one after a pass, and was not before.
    #[test]
    fn d5_reaches_the_exact_process() {
        let report = quietly(|console| d5::run(&arguments("experiment D5 --rows 256 --batch 32"), console));
        let errors: Vec<(&str, f64)> = report
            .table
            .lines()
            .skip(1)
            .map(|line| line.split(',').collect::<Vec<_>>())
            .map(|fields| {
                (if fields[0] == "paper" { "paper" } else { "adaptive" }, fields[2].parse().unwrap())
            })
            .collect();
        for mode in ["paper", "adaptive"] {
            let own: Vec<f64> = errors.iter().filter(|e| e.0 == mode).map(|e| e.1).collect();
            assert!(own[own.len() - 1] < 0.01 && own[0] > 0.05, "{mode}: {own:?}");
        }
    }

    /// The stand-ins have the shape of the text, and another seed gives other rows.
    #[test]
    fn stand_ins_have_the_shape_of_the_text() {
        for recipe in [features::F6, features::F7, features::F8, features::F10] {
            let part = features::stand_in(&recipe, 3..7, Seed(1));
            assert_eq!((part.x.len(), part.y.len()), (4 * recipe.columns, 4));
            assert_eq!(part.x, features::stand_in(&recipe, 0..7, Seed(1)).x[3 * recipe.columns..]);
            assert_ne!(part.x, features::stand_in(&recipe, 3..7, Seed(2)).x);
        }
    }
}
