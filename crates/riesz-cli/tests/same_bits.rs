//! Equal commands give equal model files, whatever the number of threads, the chunk, or a kill on the way.

mod common;

use common::{quantity, rings, Folder};
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
        for setting in ["--threads 1 --chunk 1024", "--threads 2 --chunk 1024", "--threads 1 --chunk 4096", "--threads 2"] {
            folder.succeed(&format!("fit {data} --model m.riesz --block-size 256 --max-blocks 6 --quiet {setting}"));
            models.push(folder.bytes("m.riesz"));
        }
        assert!(models.windows(2).all(|pair| pair[0] == pair[1]), "{data}");
        folder.succeed(&format!("fit {data} --model m.riesz --block-size 256 --max-blocks 6 --quiet --seed 1"));
        assert_ne!(models[0], folder.bytes("m.riesz"), "another seed, another model");
    }
}

/// Rows enough that bandwidths are raced and rows held out.
const FIT: &str = "fit train.csv --model m.riesz --block-size 256 --max-blocks 24 --quiet --threads 2";

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

#[test]
fn a_killed_fit_resumes_to_the_same_bits() {
    let folder = Folder::new("resume");
    folder.write("train.csv", &rings(2_500, 1));
    let started = Instant::now();
    folder.succeed(FIT);
    let (whole, time) = (folder.bytes("m.riesz"), started.elapsed());
    let (mut killed, mut continued) = (0, 0);
    for trial in 0.. {
        clean(&folder);
        let mut child = start(&folder);
        let share = uniform_open(Address::new(Seed(5), Stream::Synthetic, BlockIndex(trial), 0).words(0)[0]);
        std::thread::sleep(Duration::from_secs_f64(1.2 * share * time.as_secs_f64()));
        child.kill().unwrap();
        if child.wait().unwrap().success() {
            assert!(trial < 100, "the fit is too fast to be killed");
            continue;
        }
        killed += 1;
        continued += usize::from(folder.path("c.riesz").exists());
        folder.succeed(&format!("{FIT} --checkpoint c.riesz"));
        assert_eq!(folder.bytes("m.riesz"), whole, "trial {trial}, killed after {share} of {time:?}");
        assert!(!folder.path("c.riesz").exists(), "a finished fit leaves no checkpoint");
        if killed == 20 {
            break;
        }
    }
    assert!(continued >= 5, "only {continued} of 20 kills left a checkpoint to continue from");
}

#[test]
fn an_interrupted_fit_says_how_to_continue() {
    let folder = Folder::new("interrupt");
    folder.write("train.csv", &rings(2_500, 1));
    folder.succeed(FIT);
    let whole = folder.bytes("m.riesz");
    clean(&folder);
    let mut child = start(&folder);
    while !folder.path("c.riesz").exists() {
        assert!(child.try_wait().unwrap().is_none(), "the fit ended before its first checkpoint");
        std::thread::sleep(Duration::from_millis(1));
    }
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let output = child.wait_with_output().unwrap();
    let message = common::text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{message}");
    assert!(message.starts_with("error: interrupted after ") && message.contains("hint: the same command"), "{message}");
    folder.succeed(&format!("{FIT} --checkpoint c.riesz"));
    assert_eq!(folder.bytes("m.riesz"), whole);
    let message = {
        start_and_abandon(&folder);
        folder.fail(&format!("{FIT} --checkpoint c.riesz --seed 9"), 2)
    };
    assert!(message.contains("does not belong to this fit"), "{message}");
}

/// Leaves a checkpoint behind.
fn start_and_abandon(folder: &Folder) {
    clean(folder);
    let mut child = start(folder);
    while !folder.path("c.riesz").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
