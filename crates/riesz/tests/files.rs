//! Files larger than memory: rows on disk lead to the bits of rows in memory, and to no more memory than was said.
#![allow(clippy::unwrap_used, clippy::panic)]

use riesz::data::files::{list, Collect, Collected, Features, Parts};
use riesz::data::reader::{read_with, ReadOptions, TargetColumn};
use riesz::data::Rows;
use riesz::driver::{quietly, CheckpointPolicy, Control};
use riesz::functions::{Bandwidth, KernelMachine, Options, SolverSpec, Task, Training};
use riesz::model::Stored;
use riesz::random::{normal_pair, Address, BlockIndex, Seed, Stream};
use riesz::{Error, Result};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("riesz-files-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn normal(i: usize, j: usize) -> f32 {
    let words = Address::new(Seed(12), Stream::Synthetic, BlockIndex(j as u64), i as u32).words(0);
    normal_pair(words[0], words[1])[0] as f32
}

const COLUMNS: usize = 5;

/// Row i, and its target: a number, or one of three classes.
fn row(i: usize, classes: bool) -> (Vec<f32>, f64) {
    let x: Vec<f32> = (0..COLUMNS).map(|j| (normal(i, j) * 1e3).round() / 1e3).collect();
    let y = f64::from(x[0] * x[1] + x[2].sin());
    (x, if classes { f64::from(u8::from(y > -0.5)) + f64::from(u8::from(y > 0.5)) } else { y })
}

/// Rows `range` as delimited text, the columns turned by `turn`.
fn csv(range: std::ops::Range<usize>, classes: bool, turn: usize) -> String {
    let order: Vec<usize> = (0..=COLUMNS).map(|j| (j + turn) % (COLUMNS + 1)).collect();
    let name = |j: usize| if j == COLUMNS { "y".to_owned() } else { format!("c{j}") };
    let line = |cells: Vec<String>| cells.join(",") + "\n";
    let mut text = line(order.iter().map(|&j| name(j)).collect());
    for i in range {
        let (x, y) = row(i, classes);
        text += &line(
            order.iter().map(|&j| if j == COLUMNS { y.to_string() } else { x[j].to_string() }).collect(),
        );
    }
    text
}

fn collect(memory: usize, folder: Option<PathBuf>) -> Collect {
    let read = ReadOptions { target: TargetColumn::Name("y".into()), ..ReadOptions::default() };
    Collect { read, memory: Some(memory), folder, categories: false }
}

fn run(collect: &Collect, paths: &[PathBuf]) -> Result<Collected> {
    collect.run(paths, &mut |_| Ok(()))
}

fn options(task: Task) -> Options {
    Options { block_size: Some(64), max_blocks: Some(6), ..Options::new(task, Seed(3)) }
}

/// The model of what was collected, and its bytes.
fn fitted(data: &Collected, options: &Options) -> (KernelMachine, Vec<u8>) {
    let target = data.target.as_ref().unwrap();
    let targets: Vec<f32> = match options.task {
        Task::Classification(_) => target.labels().unwrap().indices.iter().map(|&i| i as f32).collect(),
        Task::Regression(_) => target.numbers().unwrap().iter().map(|&y| y as f32).collect(),
    };
    let training = Training { rows: data.features.rows().unwrap(), targets: &targets, weights: None };
    let machine = quietly(|control| KernelMachine::fit(options, &training, control)).unwrap();
    let bytes = machine.to_bytes().unwrap();
    (machine, bytes)
}

fn on_disk(data: &Collected) -> bool {
    matches!(data.features, Features::Disk(_))
}

/// Several files, with their columns in another order each, on disk and in memory: every choice of an automatic fit, and all
/// predictions, are the same to the last bit.
#[test]
fn rows_on_disk_lead_to_the_bits_of_rows_in_memory() {
    for (classes, task) in [(false, Task::Regression(1)), (true, Task::Classification(3))] {
        let folder = Folder::new(if classes { "classes" } else { "numbers" });
        for (k, range) in [0..1_300, 1_300..2_000, 2_000..3_500].into_iter().enumerate() {
            std::fs::write(folder.at(&format!("part-{k}.csv")), csv(range, classes, k)).unwrap();
        }
        std::fs::write(folder.at("_SUCCESS"), "").unwrap();
        let paths = [folder.0.clone()];
        let memory = run(&collect(usize::MAX, None), &paths).unwrap();
        let spilt = run(&collect(20_000, None), &paths).unwrap();
        let kept = run(&collect(0, Some(folder.at("cache"))), &paths).unwrap();
        assert!(!on_disk(&memory) && on_disk(&spilt) && on_disk(&kept));
        assert_eq!(memory.features.names(), kept.features.names());
        let options = options(task);
        let (machine, expected) = fitted(&memory, &options);
        for other in [&spilt, &kept] {
            let (same, bytes) = fitted(other, &options);
            assert!(bytes == expected, "other bits");
            let rows = |data: &Collected| same.decision(data.features.rows().unwrap()).unwrap();
            assert_eq!(rows(&memory), rows(other));
        }
        for solver in [SolverSpec::Stream, SolverSpec::Ridge] {
            if solver == SolverSpec::Ridge && classes {
                continue;
            }
            let options = Options { solver, max_blocks: Some(2), ..options.clone() };
            assert!(fitted(&memory, &options).1 == fitted(&kept, &options).1, "{solver:?}");
        }
        assert!(machine.summary().blocks > 1);
    }
}

/// Every way to look at rows shows the same numbers.
#[test]
fn rows_on_disk_are_those_in_memory() {
    let folder = Folder::new("views");
    std::fs::write(folder.at("a.csv"), csv(0..2_500, false, 0)).unwrap();
    let data = run(&collect(0, None), &[folder.at("a.csv")]).unwrap();
    let values: Vec<f32> = (0..2_500).flat_map(|i| row(i, false).0).collect();
    let (memory, disk) = (Rows::single(&values, COLUMNS).unwrap(), data.features.rows().unwrap());
    assert_eq!((disk.len(), disk.columns()), (2_500, COLUMNS));
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for range in [0..2_500, 1_000..1_001, 7..7, 2_499..2_500] {
        assert_eq!(memory.tile(range.clone(), &mut a), disk.tile(range.clone(), &mut b));
        let (own, other) = (memory.slice(range.clone()), disk.slice(range));
        assert_eq!(own.len(), other.len());
        let (mut own_doubles, mut doubles) = (Vec::new(), Vec::new());
        own.append_doubles(&mut own_doubles);
        other.append_doubles(&mut doubles);
        assert_eq!(own_doubles, doubles);
    }
    for indices in [vec![3, 1, 2, 3], vec![2_499, 0], vec![], (0..2_500).rev().collect()] {
        assert_eq!(memory.gather(&indices), disk.gather(&indices));
        let part = |rows: Rows<'_>| rows.slice(1..2_500).gather(&[0, 5, 2_498]);
        assert_eq!(part(memory), part(disk));
    }
    assert_eq!(memory.value(2_400, 3), disk.value(2_400, 3));
    disk.check_finite("X").unwrap();
    // The file of rows that are not kept has no name any more.
    if let Features::Disk(cache) = &data.features {
        assert!(!cfg!(unix) || !cache.path().exists());
    }
}

fn npy(path: &Path, rows: usize, fortran: bool) {
    let d = COLUMNS + 1;
    let cells: Vec<Vec<f64>> = (0..rows)
        .map(|i| row(i, true))
        .map(|(x, y)| x.iter().map(|&v| f64::from(v)).chain([y]).collect())
        .collect();
    let order = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': '<f8', 'fortran_order': {order}, 'shape': ({rows}, {d}), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    let at = |k: usize| if fortran { cells[k % rows][k / rows] } else { cells[k / d][k % d] };
    bytes.extend((0..rows * d).flat_map(|k| at(k).to_le_bytes()));
    std::fs::write(path, bytes).unwrap();
}

/// Parts of a file are the rows of the whole, whatever the format, and none is larger than said.
#[test]
fn parts_are_the_whole() {
    let folder = Folder::new("parts");
    let rows = 4_000;
    npy(&folder.at("c.npy"), rows, false);
    npy(&folder.at("fortran.npy"), rows, true);
    std::fs::write(folder.at("a.csv"), csv(0..rows, true, 0)).unwrap();
    let mut text = String::new();
    for i in 0..rows {
        let (x, y) = row(i, true);
        text += &format!("{y} 2:{} {}\n", x[1], if i == 1_500 { "7:1" } else { "3:0.5" });
    }
    std::fs::write(folder.at("a.libsvm"), text).unwrap();
    for name in ["c.npy", "fortran.npy", "a.csv", "a.libsvm"] {
        let read = ReadOptions { target: TargetColumn::Last, ..ReadOptions::default() };
        let whole = read_with(&folder.at(name), &read).unwrap();
        let parts = Parts::with_rows(vec![folder.at(name)], read.clone(), 1_024).unwrap();
        let (mut values, mut labels, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            let part = part.unwrap();
            lengths.push(part.features.len());
            assert_eq!(
                (part.features.columns, part.features.first_index),
                (whole.features.columns, whole.features.first_index),
                "{name}"
            );
            values.extend(part.features.into_dense().unwrap());
            labels.extend(part.target.unwrap().numbers().unwrap());
        }
        assert_eq!(lengths, [1_024, 1_024, 1_024, 928], "{name}");
        assert_eq!(labels, whole.target.unwrap().numbers().unwrap(), "{name}");
        assert!(values == whole.features.into_dense().unwrap(), "{name}");
    }
}

/// A cache is found again as long as the files are the same, and made anew where they are not.
#[test]
fn a_cache_is_of_its_files() {
    let folder = Folder::new("cache");
    let (source, cache) = (folder.at("a.csv"), folder.at("deep/cache"));
    std::fs::write(&source, csv(0..100, false, 0)).unwrap();
    let collect = collect(0, Some(cache.clone()));
    let paths = [source.clone()];
    let path = collect.cache_path(&paths, &cache).unwrap();
    let first = run(&collect, &paths).unwrap();
    assert_eq!(first.features.len(), 100);
    // A cache that is found is not read from the source again: rows are not counted.
    let mut told = 0;
    let again = collect
        .run(&paths, &mut |rows| {
            told = rows;
            Ok(())
        })
        .unwrap();
    assert_eq!((again.features.len(), told), (100, 0));
    assert_eq!(again.target.unwrap().numbers().unwrap(), first.target.unwrap().numbers().unwrap());
    std::fs::write(&source, csv(0..120, false, 0)).unwrap();
    assert_eq!(run(&collect, &paths).unwrap().features.len(), 120);
    // Of another way to read there is another cache.
    let others = Collect {
        read: ReadOptions { target: TargetColumn::First, ..ReadOptions::default() },
        ..collect.clone()
    };
    assert_ne!(others.cache_path(&paths, &cache).unwrap(), path);
    // Damage is told, and what to do.
    let whole = std::fs::read(&path).unwrap();
    let message = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let error = run(&collect, &paths).unwrap_err().to_string();
        assert!(error.contains("delete the file: it is made again"), "{error}");
        error
    };
    assert!(message(&whole[..whole.len() - 9]).contains("damaged"));
    assert!(message(&whole[..10]).contains("too short"));
    let mut flipped = whole.clone();
    flipped[100] ^= 1;
    assert!(message(&flipped).contains("checksum"));
    flipped[0] ^= 1;
    assert!(message(&flipped).contains("begins with other bytes"));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(run(&collect, &paths).unwrap().features.len(), 120);
    // An interrupted collection leaves nothing.
    std::fs::remove_file(&path).unwrap();
    let stopped = collect.run(&paths, &mut |_| Err(Error::Cancelled { blocks: 0 }));
    assert!(matches!(stopped, Err(Error::Cancelled { .. })));
    assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 0);
    // A folder that cannot be.
    let blocked = Collect { folder: Some(source.join("cache")), ..collect };
    let error = run(&blocked, &paths).unwrap_err().to_string();
    assert!(error.contains("name another folder"), "{error}");
}

#[test]
fn files_that_do_not_belong_together_are_refused_by_name() {
    let folder = Folder::new("refused");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.at(name), text).unwrap();
        folder.at(name)
    };
    let (a, b) = (write("a.csv", "c,y\n1,2\n"), write("b.csv", "d,y\n1,2\n"));
    let (c, d) = (write("c.csv", "1,2\n3,4\n"), write("d.npy", ""));
    let (wide, bad) = (write("e.csv", "1,2,3\n4,5,6\n"), write("f.csv", "c,y\n1,2\nx,3\n"));
    let named = collect(usize::MAX, None);
    let plain = Collect {
        read: ReadOptions { target: TargetColumn::Last, ..ReadOptions::default() },
        ..named.clone()
    };
    let message = |collect: &Collect, paths: &[&PathBuf]| {
        let paths: Vec<PathBuf> = paths.iter().map(|&path| path.clone()).collect();
        run(collect, &paths).unwrap_err().to_string()
    };
    let error = message(&named, &[&a, &b]);
    assert!(error.contains("b.csv") && error.contains("\"c\" missing, \"d\" unknown"), "{error}");
    let error = message(&plain, &[&c, &wide]);
    assert!(error.contains("e.csv") && error.contains("2 columns, where those before it have 1"), "{error}");
    assert!(message(&named, &[&a, &d]).contains("different formats"));
    let error = message(&named, &[&a, &bad]);
    assert!(error.contains("f.csv, line 3: column \"c\" holds the text \"x\""), "{error}");
    assert!(message(&named, &[]).contains("the list of files"));
    let empty = folder.at("empty");
    std::fs::create_dir_all(&empty).unwrap();
    assert!(message(&named, &[&empty]).contains("holds no data file"));
    assert!(
        list(std::slice::from_ref(&folder.0), &ReadOptions::default()).is_err(),
        "two formats in one folder"
    );
}

/// A cache that is lost under a fit ends it with an error, not with a model.
#[test]
fn a_cache_that_is_lost_ends_the_fit() {
    let folder = Folder::new("lost");
    std::fs::write(folder.at("a.csv"), csv(0..3_000, false, 0)).unwrap();
    let collect = collect(0, Some(folder.at("cache")));
    let paths = [folder.at("a.csv")];
    let data = run(&collect, &paths).unwrap();
    let path = collect.cache_path(&paths, &folder.at("cache")).unwrap();
    let targets: Vec<f32> =
        data.target.as_ref().unwrap().numbers().unwrap().iter().map(|&y| y as f32).collect();
    let training = Training { rows: data.features.rows().unwrap(), targets: &targets, weights: None };
    let mut steps = 0;
    let mut observe = |_: &_| {
        steps += 1;
        if steps == 2 {
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(5_000).unwrap();
        }
    };
    let mut never = || false;
    let mut control = Control::new(&mut never, &mut observe);
    let options = Options { bandwidth: Bandwidth::Value(1.0), ..options(Task::Regression(1)) };
    let error = KernelMachine::fit(&options, &training, &mut control).unwrap_err();
    assert!(
        matches!(error, Error::Io { .. }) && error.to_string().contains("lost during the fit"),
        "{error}"
    );
    assert_eq!(steps, 2);
}

/// Rows that are learnt from as they are read.
#[test]
fn a_stream_goes_straight_through_files() {
    let folder = Folder::new("stream");
    for k in 0..4 {
        let text = csv(5_000 * k..5_000 * (k + 1), true, k);
        std::fs::write(folder.at(&format!("{k}.csv")), text).unwrap();
    }
    let read = ReadOptions { target: TargetColumn::Name("y".into()), ..ReadOptions::default() };
    let options = Options { solver: SolverSpec::Stream, ..Options::new(Task::Classification(3), Seed(3)) };
    let classes = ["0", "1", "2"].map(str::to_owned);
    let within = |classes: &[String], memory: Option<usize>| {
        let folder = std::slice::from_ref(&folder.0);
        quietly(|control| KernelMachine::fit_files(&options, folder, &read, classes, memory, control))
    };
    let learn = |classes: &[String]| within(classes, None);
    let (machine, seen) = learn(&classes).unwrap();
    assert_eq!((seen.rows, seen.columns, seen.target.as_str()), (20_000, COLUMNS, "y"));
    assert_eq!(machine.to_bytes().unwrap(), learn(&classes).unwrap().0.to_bytes().unwrap());
    let (x, y): (Vec<_>, Vec<_>) = (20_000..22_000).map(|i| row(i, true)).unzip();
    let x = x.concat();
    let found = machine.classes_of(Rows::single(&x, COLUMNS).unwrap()).unwrap();
    let wrong = found.iter().zip(&y).filter(|(found, y)| f64::from(**found) != **y).count();
    assert!(wrong < 200, "{wrong} of 2,000 are wrong");
    let error = learn(&["0".into(), "1".into(), "3".into()]).unwrap_err().to_string();
    assert!(error.contains("\"2\", which is none of the classes"), "{error}");
    // A stream has as many features as its memory holds.
    let (small, _) = within(&classes, Some(100_000_000)).unwrap();
    assert_eq!((machine.summary().features, small.summary().features), (4_096, 512));
    assert!(matches!(within(&classes, Some(50_000_000)), Err(Error::Memory { .. })));
}

/// Where the process that is limited, or killed, finds its files.
const FOLDER: &str = "RIESZ_TEST_FOLDER";
/// Columns and rows of the file that is larger than the memory of that process.
const WIDE: usize = 512;
const LONG: usize = 131_072;
/// Its memory: a quarter of the file.
const LIMIT: usize = WIDE * LONG * size_of::<f32>() / 4;

/// The work of that process: nothing unless it was started for that.
#[test]
#[ignore = "started by the tests below"]
fn fit_in_a_process_of_its_own() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let data = Collect {
        read: ReadOptions { target: TargetColumn::Last, ..ReadOptions::default() },
        folder: Some(folder.join("cache")),
        ..Collect::default()
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    pool.install(|| {
        let data = run(&data, &[folder.join("x.npy")]).unwrap();
        let targets: Vec<f32> =
            data.target.as_ref().unwrap().numbers().unwrap().iter().map(|&y| y as f32).collect();
        let training = Training { rows: data.features.rows().unwrap(), targets: &targets, weights: None };
        let options =
            Options { bandwidth: Bandwidth::Scale, max_blocks: Some(4), ..options(Task::Regression(1)) };
        let machine = quietly(|control| {
            control.checkpoint =
                Some(CheckpointPolicy { path: folder.join("checkpoint"), every: Duration::ZERO });
            KernelMachine::fit(&options, &training, control)
        });
        machine.unwrap().save(&folder.join("model")).unwrap();
    });
}

/// Starts that process with so much address space.
fn start(folder: &Path, bytes: Option<usize>) -> Child {
    let limit = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| (bytes >> 10).to_string());
    Command::new("sh")
        .args(["-c", "ulimit -v $0 && exec \"$@\"", &limit])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "fit_in_a_process_of_its_own", "--ignored", "--test-threads=1"])
        .env(FOLDER, folder)
        .env("MALLOC_ARENA_MAX", "1")
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// A table of `rows`×(d + 1) numbers, the last of each row its target.
fn write_wide(path: &Path, rows: usize) {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {}), }}\n", WIDE + 1);
    let mut out = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    out.write_all(b"\x93NUMPY\x01\x00").unwrap();
    out.write_all(&(header.len() as u16).to_le_bytes()).unwrap();
    out.write_all(header.as_bytes()).unwrap();
    let mut state = 1_u32;
    for _ in 0..rows {
        let mut sum = 0.0;
        for _ in 0..WIDE {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = (state >> 8) as f32 / (1 << 24) as f32 - 0.5;
            sum += value;
            out.write_all(&value.to_le_bytes()).unwrap();
        }
        out.write_all(&sum.to_le_bytes()).unwrap();
    }
    out.flush().unwrap();
}

/// A file of four times the memory there is, and a fit that is killed again and again, lead to the bits of a fit in memory.
#[test]
#[cfg(target_os = "linux")]
fn a_fit_within_a_quarter_of_its_data_that_is_killed_ends_with_the_same_bits() {
    let folder = Folder::new("limit");
    write_wide(&folder.at("x.npy"), LONG);
    assert!(start(&folder.0, Some(LIMIT)).wait().unwrap().success(), "not within {LIMIT} bytes");
    let expected = std::fs::read(folder.at("model")).unwrap();
    std::fs::remove_file(folder.at("model")).unwrap();
    // The limit is one: a fourth of it does not even hold the program and the numbers of the target.
    let mut small = start(&folder.0, Some(LIMIT / 4));
    assert!(!small.wait().unwrap().success());
    for _ in 0..3 {
        let _ = std::fs::remove_file(folder.at("model"));
        let mut child = start(&folder.0, Some(LIMIT));
        let before = std::fs::metadata(folder.at("checkpoint")).and_then(|file| file.modified()).ok();
        let written =
            || std::fs::metadata(folder.at("checkpoint")).and_then(|file| file.modified()).ok() != before;
        while !written() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(start(&folder.0, Some(LIMIT)).wait().unwrap().success());
    assert!(std::fs::read(folder.at("model")).unwrap() == expected, "other bits");
}
