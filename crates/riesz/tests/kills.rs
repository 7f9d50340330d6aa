//! A posterior whose process is killed on the way, again and again, has the bits of one that was left alone.
#![allow(clippy::unwrap_used, clippy::panic)]

use riesz::distributions::models::{Family, GeneralisedLinear};
use riesz::distributions::{adaptive, AdaptiveOptions};
use riesz::driver::{quietly, CheckpointPolicy};
use riesz::model::Stored;
use riesz::random::{uniform_open, Address, BlockIndex, Seed, Stream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where the process that is killed finds its files.
const FOLDER: &str = "RIESZ_TEST_FOLDER";
const KILLS: usize = 20;

fn uniform(index: u64) -> f64 {
    uniform_open(Address::new(Seed(8), Stream::Synthetic, BlockIndex(index), 0).words(0)[0])
}

/// Classes by the side of a plane, with noise.
fn model() -> GeneralisedLinear {
    const COLUMNS: usize = 2;
    let x: Vec<f64> = (0..600 * COLUMNS as u64).map(|i| 2.0 * uniform(i) - 1.0).collect();
    let noise = (0..600).map(|i| uniform(1 << 20 | i) - 0.5);
    let y: Vec<f64> = x
        .chunks_exact(COLUMNS)
        .zip(noise)
        .map(|(x, noise)| f64::from(u8::from(x[0] - 0.5 * x[1] + noise > 0.0)))
        .collect();
    GeneralisedLinear::new(Family::Logistic, &x, COLUMNS, &y, 3.0).unwrap()
}

fn options() -> AdaptiveOptions {
    AdaptiveOptions { particles: 400, laplace: false, ..AdaptiveOptions::new(Seed(3)) }
}

/// The work of the process that is killed: nothing unless it was started for that.
#[test]
#[ignore = "started by the test below"]
fn fit_in_a_process_of_its_own() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let posterior = pool.install(|| {
        quietly(|control| {
            control.checkpoint =
                Some(CheckpointPolicy { path: folder.join("checkpoint"), every: Duration::ZERO });
            adaptive(&model(), &options(), control)
        })
    });
    posterior.unwrap().save(&folder.join("posterior")).unwrap();
}

fn start(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "fit_in_a_process_of_its_own", "--ignored"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Sees that a finished fit has left `expected` and no checkpoint, and removes it.
fn harvest(folder: &Path, expected: &[u8]) {
    assert!(std::fs::read(folder.join("posterior")).unwrap() == expected, "other bits");
    let left: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    // A kill may leave a file that was being written; a finished fit leaves none.
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("checkpoint")), "{left:?}");
    std::fs::remove_file(folder.join("posterior")).unwrap();
}

#[test]
fn a_killed_posterior_resumes_to_the_same_bits() {
    let folder = std::env::temp_dir().join(format!("riesz-kills-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let whole = quietly(|control| adaptive(&model(), &options(), control)).unwrap();
    let whole = whole.to_bytes().unwrap();
    let started = Instant::now();
    assert!(start(&folder).wait().unwrap().success());
    let time = started.elapsed();
    harvest(&folder, &whole);
    let (mut kills, mut continued) = (0, 0);
    for trial in 0..400 {
        let mut child = start(&folder);
        std::thread::sleep(time.mul_f64(uniform(1 << 30 | trial)));
        child.kill().unwrap();
        if child.wait().unwrap().success() {
            harvest(&folder, &whole);
            continue;
        }
        kills += 1;
        continued += usize::from(folder.join("checkpoint").exists());
        if kills == KILLS {
            break;
        }
    }
    assert!(start(&folder).wait().unwrap().success());
    harvest(&folder, &whole);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(kills, KILLS);
    assert!(continued >= KILLS / 2, "only {continued} of {kills} kills left a checkpoint to continue from");
}
