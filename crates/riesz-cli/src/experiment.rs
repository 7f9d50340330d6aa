//! `riesz experiment`: the experiments of the texts, one file each in `experiments/`.

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{duration, grouped, make_folder, print, significant, write};
use riesz::random::Seed;
use riesz::Error;
use std::path::PathBuf;
use std::time::Instant;

#[path = "../../../experiments/f1.rs"]
pub(crate) mod f1;
#[path = "../../../experiments/f2.rs"]
pub(crate) mod f2;

/// The experiments there are.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Name {
    /// Kernel ridge regression on 2^20 rows of a function of the plane, by doubly stochastic gradients
    #[value(name = "F1")]
    F1,
    /// Gaussian-process regression on 2^11 rows of the same: mean and variance against the closed form
    #[value(name = "F2")]
    F2,
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
    /// Rows, such as 1048576 or 2^20 [default: 2^20; F2: 2^11]
    #[arg(long, value_parser = count)]
    rows: Option<usize>,
    /// θ of the step size θ/(t + t₀); the theorem's choice is 1e6 (see experiments/f1.rs why it is not the default)
    #[arg(long, default_value_t = 1_000.0)]
    theta: f64,
    /// t₀ of the step size; the published form is 0
    #[arg(long, default_value_t = 20.0)]
    delay: f64,
    /// Seed of data and features
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds instead of minutes: 2^16 rows, or an eighth of the steps of F2
    #[arg(long, conflicts_with = "rows")]
    quick: bool,
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
    }
}

fn run_f2(arguments: &Arguments) -> Outcome<()> {
    make_folder(&arguments.out)?;
    let &Arguments { theta, delay, seed, .. } = arguments;
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
    let &Arguments { theta, delay, seed, .. } = arguments;
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
}
