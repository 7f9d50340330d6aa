//! `riesz stream`: predict then learn, stop and resume, rows that are unlike the others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{text, Folder};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Rows on two rings that are told apart by their radius; the colours come one after the other.
fn rings(rows: usize) -> String {
    let mut csv = "east,north,colour\n".to_owned();
    for i in 0..rows {
        let (turn, radius) = (0.7 * i as f64, [1.0, 2.0, 3.0][(i * 7 / 3) % 3]);
        let colour = ["red", "green", "blue"][radius as usize - 1];
        writeln!(csv, "{:.4},{:.4},{colour}", radius * turn.cos(), radius * turn.sin()).unwrap();
    }
    csv
}

/// The command at the beginning of its input.
fn start(folder: &Folder, arguments: &str) -> Child {
    let mut command: Command = folder.riesz(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn run(folder: &Folder, arguments: &str, input: &str) -> Output {
    let mut child = start(folder, arguments);
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_owned());
    let feed = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().unwrap();
    feed.join().unwrap();
    output
}

fn succeed(folder: &Folder, arguments: &str, input: &str) -> (String, String) {
    let output = run(folder, arguments, input);
    assert!(output.status.success(), "riesz {arguments}\n{}", text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

fn accuracy(report: &str) -> f64 {
    let last = report.lines().last().unwrap();
    last.split("accuracy ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn every_row_is_predicted_before_it_is_learnt_from() {
    let folder = Folder::new("stream-predicts");
    for memory in ["dictionary", "features"] {
        let command = format!("stream --memory {memory} --model {memory} --report-every 500 --probabilities");
        let (out, report) = succeed(&folder, &command, &rings(1_500));
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[1]), (1_501, "prediction,probability", "NA,NA"), "{memory}");
        assert!(lines[2].starts_with("red,"), "{}", lines[2]);
        assert_eq!(report.lines().filter(|line| line.contains("rows/s")).count(), 4, "{report}");
        assert!(accuracy(&report) > 0.9 && report.contains("no change 0."), "{report}");
        // The model is that of the estimators, with the names of the columns.
        let facts = folder.succeed(&format!("info {memory} --json"));
        assert!(facts.contains("\"east\"") && facts.contains("\"blue\""), "{facts:.2000}");
    }
}

/// However the input is cut, whether it has a header or not, and whatever it is written in, predictions are the same.
#[test]
fn formats_say_the_same() {
    let folder = Folder::new("stream-formats");
    let csv = rings(300);
    let (expected, _) = succeed(&folder, "stream --model a", &csv);
    let headless = csv.split_once('\n').unwrap().1;
    assert_eq!(succeed(&folder, "stream --model b", headless).0, expected);
    let tabs = headless.replace(',', "\t");
    assert_eq!(succeed(&folder, "stream --model c --header no", &tabs).0, expected);
    let json: String = headless
        .lines()
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            format!("{{\"colour\": \"{}\", \"north\": {}, \"east\": {}}}\n", cells[2], cells[1], cells[0])
        })
        .collect();
    assert_eq!(succeed(&folder, "stream --model d --target colour", &json).0, expected);
    assert_eq!(folder.bytes("a"), folder.bytes("d"));
    // Line by line.
    let mut child = start(&folder, "stream --model e");
    let mut stdin = child.stdin.take().unwrap();
    for line in csv.split_inclusive('\n') {
        stdin.write_all(line.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }
    drop(stdin);
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), expected);
    assert_eq!(folder.bytes("a"), folder.bytes("e"));
    // Columns are told by their names.
    let swapped: String = csv
        .lines()
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            format!("{},{},{}\n", cells[2], cells[1], cells[0])
        })
        .collect();
    let (first, _) = succeed(&folder, "stream --model a", &csv);
    assert_eq!(succeed(&folder, "stream --model e --target colour", &swapped).0, first);
}

/// Killed at any moment and resumed from the beginning of its input, the stream ends in the same bytes.
#[test]
fn a_kill_loses_no_row_and_repeats_none() {
    let folder = Folder::new("stream-kill");
    let csv = rings(3_000);
    for memory in ["dictionary", "features"] {
        let straight =
            format!("stream --memory {memory} --model {memory} --out {memory}.csv --report-every 0");
        succeed(&folder, &straight, &csv);
        let (expected, model) = (folder.bytes(&format!("{memory}.csv")), folder.bytes(memory));
        assert_eq!(text(&expected).lines().count(), 3_001);
        for cut in [1_000, 20_000, 43_210] {
            let name = format!("{memory}-{cut}");
            let command = format!(
                "stream --memory {memory} --model {name} --out {name}.csv --report-every 0 --save-every 0"
            );
            let mut child = start(&folder, &command);
            let mut stdin = child.stdin.take().unwrap();
            stdin.write_all(&csv.as_bytes()[..cut]).unwrap();
            stdin.flush().unwrap();
            let patience = Instant::now();
            while !folder.path(&name).exists() && patience.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(5));
            }
            child.kill().unwrap();
            child.wait().unwrap();
            succeed(&folder, &format!("{command} --resume"), &csv);
            assert!(folder.bytes(&format!("{name}.csv")) == expected, "{name}: predictions");
            assert!(folder.bytes(&name) == model, "{name}: model");
        }
    }
}

/// A polite end (Ctrl-C, SIGTERM): all that was read is predicted, learnt and in the model.
#[cfg(unix)]
#[test]
fn a_signal_ends_the_stream_with_its_model() {
    let folder = Folder::new("stream-signal");
    let csv = rings(400);
    let (whole, _) = succeed(&folder, "stream --model whole", &csv);
    let mut child = start(&folder, "stream --model part");
    let mut stdin = child.stdin.take().unwrap();
    let cut = csv.split_inclusive('\n').take(201).map(str::len).sum::<usize>();
    stdin.write_all(&csv.as_bytes()[..cut]).unwrap();
    stdin.flush().unwrap();
    // The signal may come before the rows do: they are read all the same.
    std::thread::sleep(Duration::from_millis(700));
    let status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("interrupted after 200 rows"), "{}", text(&output.stderr));
    let (rest, _) = succeed(&folder, "stream --model part --resume", &csv);
    assert_eq!(text(&output.stdout) + &rest, whole);
    assert_eq!(folder.bytes("part"), folder.bytes("whole"));
}

#[test]
fn rows_without_a_target_are_predicted_only() {
    let folder = Folder::new("stream-unlabelled");
    let csv = rings(300);
    let (expected, _) = succeed(&folder, "stream --model a", &csv);
    // Every row twice, first without its colour: the predictions are those of the row itself.
    let mut twice = String::new();
    for (i, line) in csv.lines().enumerate() {
        if i > 0 {
            let unlabelled = line.rsplit_once(',').unwrap().0;
            writeln!(twice, "{unlabelled},{}", if i % 2 == 0 { "" } else { "NA" }).unwrap();
        }
        writeln!(twice, "{line}").unwrap();
    }
    let (out, _) = succeed(&folder, "stream --model b", &twice);
    let (out, expected): (Vec<&str>, Vec<&str>) = (out.lines().collect(), expected.lines().collect());
    for (i, prediction) in expected.iter().enumerate().skip(1) {
        assert_eq!((out[2 * i - 1], out[2 * i]), (*prediction, *prediction), "row {i}");
    }
}

#[test]
fn bad_rows_are_named_and_what_came_before_is_kept() {
    let folder = Folder::new("stream-bad");
    let csv = rings(100);
    let mut lines: Vec<String> = csv.lines().map(|line| line.to_owned() + "\n").collect();
    let good = lines.concat();
    lines.insert(51, "1.0,south,red\n".into());
    let bad = lines.concat();
    let output = run(&folder, "stream --model part", &bad);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("standard input, line 52: column \"north\" holds the text \"south\""),
        "{message}"
    );
    assert!(message.contains("--skip-bad"), "{message}");
    assert_eq!(text(&output.stdout).lines().count(), 51);
    // With the line mended, the stream goes on where it ended.
    let (rest, _) = succeed(&folder, "stream --model part --resume", &good);
    let (whole, _) = succeed(&folder, "stream --model whole", &good);
    assert_eq!(text(&output.stdout) + &rest, whole);
    assert_eq!(folder.bytes("part"), folder.bytes("whole"));
    let (out, report) = succeed(&folder, "stream --skip-bad --model skipping", &bad);
    assert_eq!(out.lines().nth(51), Some("NA"));
    assert!(report.contains("line 52") && report.contains("1 bad"), "{report}");
}

#[test]
fn numbers_are_quantities_and_classes_may_be_declared() {
    let folder = Folder::new("stream-task");
    let csv: String = (0..600)
        .map(|i| format!("{},{}\n", f64::from(i % 37) / 9.0, (f64::from(i % 37) / 9.0).sin()))
        .collect();
    let (_, report) = succeed(&folder, "stream --model a", &csv);
    assert!(report.contains("a quantity; --task says otherwise") && report.contains("RMSE 0."), "{report}");
    let digits: String = (0..300).map(|i| format!("{},{}\n", i % 3, i % 3)).collect();
    let (out, report) = succeed(&folder, "stream --task classification", &digits);
    assert!(accuracy(&report) > 0.9, "{report}");
    assert!(out.lines().skip(1).all(|line| ["NA", "0", "1", "2"].contains(&line)));
    let output = run(&folder, "stream --classes 0,1", &digits);
    assert!(text(&output.stderr).contains("line 3: the class \"2\" is not among --classes"));
    let output = run(&folder, "stream --resume --model none", &digits);
    assert!(text(&output.stderr).contains("there is no model to resume"));
    let output = run(&folder, "stream --model a", "1,2,3\n");
    assert!(text(&output.stderr).contains("expected 1 columns"), "{}", text(&output.stderr));
    let output = run(&folder, "stream", "{\"a\": 1}\n");
    assert!(text(&output.stderr).contains("--target gives"), "{}", text(&output.stderr));
}

/// What a stream has learnt is read by the other commands.
#[test]
fn info_and_predict_read_the_model() {
    let folder = Folder::new("stream-reads");
    let rows = rings(1_500);
    folder.write("rings.csv", &rows);
    for (memory, kept) in [("dictionary", "atoms      1,000"), ("features", "features   1,024")] {
        succeed(&folder, &format!("stream --memory {memory} --model {memory}"), &rows);
        let info = folder.succeed(&format!("info {memory}"));
        assert!(info.contains("classification, 3 classes (red, "), "{info}");
        assert!(info.contains("2 (east, north)") && info.contains("target     colour"), "{info}");
        assert!(info.contains(kept) && info.contains("rows       1,500"), "{info}");
        let facts: serde_json::Value =
            serde_json::from_str(&folder.succeed(&format!("info {memory} --json"))).unwrap();
        assert_eq!((&facts["rows"], &facts["column_names"][1]), (&1_500.into(), &"north".into()), "{facts}");
        assert!(facts["memory"][memory].is_object() || facts["memory"][memory] == 1_024, "{facts}");
        let output =
            folder.run(&format!("predict {memory} rings.csv --target colour --probabilities --out p.csv"));
        let message = text(&output.stderr);
        assert!(output.status.success() && message.contains("error against colour"), "{message}");
        let lines = text(&folder.bytes("p.csv"));
        assert!(lines.starts_with("prediction,p_red,p_"), "{lines:.200}");
        // A stream of rows without a target is predicted by the same model.
        let unlabelled: String =
            rows.lines().map(|row| row.rsplit_once(',').unwrap().0.to_owned() + ",\n").collect();
        let unlabelled = unlabelled.replacen("north,", "north,colour", 1);
        let (told, _) = succeed(&folder, &format!("stream --model {memory}"), &unlabelled);
        let predicted: Vec<&str> = lines.lines().map(|line| line.split(',').next().unwrap()).collect();
        assert_eq!(predicted, told.lines().collect::<Vec<_>>());
    }
    // A class alone is certain; the second that there is room for has no name.
    succeed(&folder, "stream --model one", &rings(1));
    let lines = folder.succeed("predict one rings.csv --probabilities");
    assert!(lines.lines().skip(1).all(|line| line == "red,1") && lines.starts_with("prediction,p_red\n"));
    // Quantities.
    let wave = |i: u32| (f64::from(i % 37) / 9.0, (f64::from(i % 37) / 9.0).sin());
    let csv: String = (0..600).map(wave).map(|(x, y)| format!("{x},{y}\n")).collect();
    folder.write("wave.csv", &csv);
    succeed(&folder, "stream --model wave", &csv);
    assert!(folder.succeed("info wave").contains("regression"));
    let output = folder.run("predict wave wave.csv --target last");
    assert!(text(&output.stderr).contains("R² "), "{}", text(&output.stderr));
    let message = folder.fail("stream --drop oldest", 2);
    assert!(message.contains("--drop is about rows kept; give --memory dictionary too"), "{message}");
}
