//! Every reader of files under changed seeds: no panic, no hang, no memory beyond twice the file.
//!
//! A fixed fuzzer that runs on the stable toolchain: execution i of a target is a function of i, so that a finding is
//! repeated by its number. `FUZZ_EXECUTIONS` says how many there are for each target, `FUZZ_FIRST` the number of the first;
//! unless given, the number is [`USUAL`]. `fuzz/README.md` says more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unsafe_code)]

mod memory;
mod mutate;
#[path = "../../../../fuzz/readers.rs"]
mod readers;
mod seeds;
#[path = "../parquet_files/writer.rs"]
mod writer;

use memory::{measured, Counted, CASE};
use mutate::Dice;
use readers::{Reader, READERS};
use riesz::compute::Device;
use riesz::model::Container;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: Counted = Counted;

/// Executions of a target in an ordinary run of the tests.
const USUAL: u64 = 100_000;
/// What a reader may hold beyond twice its file: buffers, a parsed header, and of models that are completed when they are
/// read (a Gaussian process, a stream) what is computed from a small file.
const BEYOND: usize = 1 << 20;
/// The same where a step of a fit follows.
const BEYOND_FIT: usize = 1 << 22;
/// Longer than any case takes on a busy machine.
const HANG: Duration = Duration::from_secs(20);

/// The seeds of a target.
fn folder(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../fuzz/seeds", name].iter().collect()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// A reader and what it is fed with.
struct Target {
    name: &'static str,
    read: Reader,
    seeds: Vec<(Vec<u8>, Option<Container>)>,
}

impl Target {
    fn new(name: &'static str) -> Self {
        let (_, read) = *READERS.iter().find(|(reader, _)| *reader == name).unwrap();
        let mut files: Vec<_> =
            std::fs::read_dir(folder(name)).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        let seeds = files.into_iter().map(|path| {
            let bytes = of_this_machine(std::fs::read(&path).unwrap());
            assert!(read(&bytes).is_some(), "{} is not read any more; write the seeds anew", path.display());
            let container = Container::from_bytes(&bytes).ok();
            (bytes, container)
        });
        let seeds: Vec<_> = seeds.collect();
        assert!(!seeds.is_empty());
        Self { name, read, seeds }
    }

    /// The input of an execution, and whether it must be refused.
    fn input(&self, execution: u64) -> (Vec<u8>, bool) {
        let mut dice = Dice(execution.wrapping_mul(0xD134_2543_DE82_EF95));
        let ((seed, parts), (other, other_parts)) = (dice.of(&self.seeds), dice.of(&self.seeds));
        let mut bytes = seed.clone();
        let must = match (parts, other_parts) {
            (Some(parts), Some(other_parts)) => {
                mutate::file(&mut dice, &mut bytes, parts, other_parts, other)
            }
            _ => {
                mutate::bytes(&mut dice, &mut bytes, other);
                false
            }
        };
        (bytes, must)
    }

    /// What is wrong with an execution; nothing as a rule. `Ok` says whether the input was accepted.
    fn execute(&self, execution: u64, bytes: &[u8], must: bool) -> Result<bool, String> {
        CASE.set((self.name, execution));
        let started = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| measured(|| (self.read)(bytes))));
        let (contents, held) = outcome.map_err(|cause| format!("panics while reading: {}", text(&*cause)))?;
        let beyond = if self.name.ends_with("checkpoint") { BEYOND_FIT } else { BEYOND };
        let most = 2 * (bytes.len() + self.expanded(bytes)) + beyond;
        if held > most {
            return Err(format!("holds {held} bytes for a file of {}, more than {most}", bytes.len()));
        }
        if must && contents.is_some() {
            return Err("is accepted, though its checksum is that of other bytes".into());
        }
        let accepted = contents.is_some();
        if let Some(work) = contents {
            catch_unwind(AssertUnwindSafe(work))
                .map_err(|cause| format!("panics in use: {}", text(&*cause)))?;
        }
        if started.elapsed() > HANG {
            return Err(format!("takes {:?}", started.elapsed()));
        }
        Ok(accepted)
    }

    /// What a compressed file expands to, as far as it does; of Parquet what it may always expand to.
    fn expanded(&self, bytes: &[u8]) -> usize {
        if self.name == "parquet" {
            return 16 << 20;
        }
        if self.name != "gz" {
            return 0;
        }
        std::io::copy(&mut flate2::bufread::MultiGzDecoder::new(bytes), &mut std::io::sink())
            .unwrap_or(1 << 24) as usize
    }

    fn run(&self) {
        // The parquet crate panics over some files, which its reader turns into errors; to print where takes more memory than
        // the file.
        std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
        // Parallel parts of the library run on the thread that is measured.
        let _pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().unwrap();
        // The scratch memory of matrix products, as large as caches are, is made by a thread's first, whatever the file.
        let ones = faer::Mat::<f32>::full(64, 64, 1.0);
        assert_eq!((&ones * &ones)[(0, 0)], 64.0);
        let (first, count) = (number("FUZZ_FIRST").unwrap_or(0), number("FUZZ_EXECUTIONS").unwrap_or(USUAL));
        let (started, mut accepted, mut findings) = (Instant::now(), 0, Vec::new());
        for execution in first..first + count {
            let (bytes, must) = self.input(execution);
            match self.execute(execution, &bytes, must) {
                Ok(read) => accepted += u64::from(read),
                Err(fault) => {
                    let path = std::env::temp_dir().join(format!("riesz-finding-{}-{execution}", self.name));
                    std::fs::write(&path, &bytes).unwrap();
                    findings.push(format!("execution {execution} {fault}; its input is {}", path.display()));
                }
            }
            if findings.len() >= 10 {
                break;
            }
        }
        println!("{}: {count} executions in {:.1?}, {accepted} accepted", self.name, started.elapsed());
        assert!(findings.is_empty(), "{}:\n{}", self.name, findings.join("\n"));
    }
}

/// A checkpoint is refused where it was written with other instructions; a seed has those of the machine.
fn of_this_machine(bytes: Vec<u8>) -> Vec<u8> {
    match Container::from_bytes(&bytes) {
        Ok(mut parts) if parts.kind() == Some("checkpoint") && parts.header.get("path").is_some() => {
            parts.set_field("path", &Device::default().path()).unwrap();
            parts.to_bytes().unwrap()
        }
        _ => bytes,
    }
}

fn text(cause: &(dyn std::any::Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().map(String::as_str).or(cause.downcast_ref::<&str>().copied());
    text.unwrap_or("without a word").to_owned()
}

/// A test for every reader.
macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test] fn $name() { Target::new(stringify!($name)).run(); })*

        #[test]
        fn every_reader_is_a_target() {
            assert_eq!(READERS.map(|(name, _)| name), [$(stringify!($name)),*]);
        }
    };
}

targets! {
    container model gaussian_process sparse_gaussian_process novelty online density_ratio posterior kernel_density topics
    policy_evaluation hitting_time invariance sbeed checkpoint sweeps_checkpoint posterior_checkpoint csv libsvm npy npz idx gz parquet
}

/// Writes the seeds anew, after a change of the format: `cargo test --release --workspace --test fuzz -- --ignored`.
#[test]
#[ignore = "writes to fuzz/seeds"]
fn write_seeds() {
    for (target, name, bytes) in seeds::all() {
        std::fs::create_dir_all(folder(target)).unwrap();
        std::fs::write(folder(target).join(name), bytes).unwrap();
    }
}
