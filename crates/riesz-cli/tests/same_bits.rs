//! Equal commands give equal model files, whatever the number of threads, the chunk, or a kill on the way.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{quantity, rings, Folder};
use riesz::model::Container;
use riesz::random::{uniform_open, Address, BlockIndex, Seed, Stream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

#[test]
fn neither_threads_nor_chunks_change_a_bit() {
    let folder = Folder::new("threads");
    folder.write("c.csv", &rings(5_000, 1));
    folder.write("r.csv", &quantity(5_000, 1));
    for data in ["c.csv", "r.csv"] {
        let mut models = Vec::new();
        for setting in [
            "--threads 1 --chunk 1024",
            "--threads 2 --chunk 1024",
            "--threads 1 --chunk 4096",
            "--threads 2",
        ] {
            folder.succeed(&format!(
                "fit {data} --model m.riesz --block-size 256 --max-blocks 6 --quiet {setting}"
            ));
            models.push(folder.bytes("m.riesz"));
        }
        assert!(models.windows(2).all(|pair| pair[0] == pair[1]), "{data}");
        folder
            .succeed(&format!("fit {data} --model m.riesz --block-size 256 --max-blocks 6 --quiet --seed 1"));
        assert_ne!(models[0], folder.bytes("m.riesz"), "another seed, another model");
    }
}

/// Rows enough that bandwidths are raced and rows held out.
const FIT: &str =
    "fit train.csv --model m.riesz --scaling none --block-size 512 --max-blocks 16 --quiet --threads 2";

fn start(folder: &Folder) -> Child {
    let arguments = format!("{FIT} --checkpoint c.riesz --checkpoint-every 0");
    folder.riesz(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Removes the files of an earlier fit.
fn clean(folder: &Folder) {
    for file in ["m.riesz", "c.riesz"] {
        let _ = std::fs::remove_file(folder.path(file));
    }
}

/// Waits until the first checkpoint is there, or the fit has ended.
fn wait_for_checkpoint(folder: &Folder, child: &mut Child) {
    while !folder.path("c.riesz").exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills a fit at a random moment, most of them after the first checkpoint; false if the fit was faster.
fn kill_at_random(folder: &Folder, trial: u64, before: Duration, after: Duration) -> bool {
    clean(folder);
    let share = uniform_open(Address::new(Seed(5), Stream::Synthetic, BlockIndex(trial), 0).words(0)[0]);
    let mut child = start(folder);
    if trial.is_multiple_of(4) {
        std::thread::sleep(before.mul_f64(share));
    } else {
        wait_for_checkpoint(folder, &mut child);
        std::thread::sleep(after.mul_f64(share));
    }
    child.kill().unwrap();
    !child.wait().unwrap().success()
}

#[test]
fn a_killed_fit_resumes_to_the_same_bits() {
    let folder = Folder::new("resume");
    folder.write("train.csv", &rings(2_100, 1));
    folder.succeed(FIT);
    let whole = folder.bytes("m.riesz");
    clean(&folder);
    let started = Instant::now();
    let mut child = start(&folder);
    wait_for_checkpoint(&folder, &mut child);
    let before = started.elapsed();
    assert!(child.wait().unwrap().success());
    let after = started.elapsed() - before;
    assert_eq!(folder.bytes("m.riesz"), whole, "checkpoints change nothing");
    let (mut killed, mut continued, mut raced) = (0, 0, 0);
    for trial in 0..200 {
        if !kill_at_random(&folder, trial, before, after) {
            continue;
        }
        killed += 1;
        if let Ok(checkpoint) = Container::load(&folder.path("c.riesz")) {
            continued += 1;
            raced += usize::from(checkpoint.f64s("outlooks").is_ok());
        }
        folder.succeed(&format!("{FIT} --checkpoint c.riesz"));
        assert_eq!(folder.bytes("m.riesz"), whole, "trial {trial}");
        assert!(!folder.path("c.riesz").exists(), "a finished fit leaves no checkpoint");
        if killed == 20 {
            break;
        }
    }
    assert_eq!(killed, 20);
    assert!(continued >= 10, "only {continued} of 20 kills left a checkpoint to continue from");
    assert!(raced >= 3 && raced < continued, "{raced} of {continued} kills were during the race");
}

#[test]
fn an_interrupted_fit_says_how_to_continue() {
    let folder = Folder::new("interrupt");
    folder.write("train.csv", &rings(2_100, 1));
    folder.succeed(FIT);
    let whole = folder.bytes("m.riesz");
    clean(&folder);
    let mut child = start(&folder);
    wait_for_checkpoint(&folder, &mut child);
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let output = child.wait_with_output().unwrap();
    let message = common::text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{message}");
    assert!(
        message.starts_with("error: interrupted after ") && message.contains("hint: the same command"),
        "{message}"
    );
    folder.succeed(&format!("{FIT} --checkpoint c.riesz"));
    assert_eq!(folder.bytes("m.riesz"), whole);
    // A checkpoint of another fit is not continued.
    assert!(kill_at_random(&folder, 1, Duration::ZERO, Duration::ZERO));
    let message = folder.fail(&format!("{FIT} --checkpoint c.riesz --seed 9"), 2);
    assert!(message.contains("does not belong to this fit"), "{message}");
}
