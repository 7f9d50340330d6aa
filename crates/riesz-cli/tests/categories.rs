//! Categories and missing numbers on the command line: learnt, kept in the model and told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{text, Folder};
use std::fmt::Write;

/// y = x + 2 for red, x − 2 for blue, x otherwise; every tenth x and every eleventh colour is missing.
fn table(rows: usize) -> String {
    let mut out = "x,colour,y\n".to_owned();
    for i in 0..rows {
        let (x, colour) = ((i * 37 % 101) as f64 / 50.0, ["red", "blue", "grey"][i % 3]);
        let y = x + [2.0, -2.0, 0.0][i % 3];
        let x = if i % 10 == 9 { String::new() } else { x.to_string() };
        let colour = if i % 11 == 10 { "NA" } else { colour };
        writeln!(out, "{x},{colour},{y}").unwrap();
    }
    out
}

#[test]
fn a_table_with_text_and_holes_is_learnt_and_predicted() {
    let folder = Folder::new("categories");
    folder.write("train.csv", &table(400));
    folder.write("test.csv", &table(130));
    let output = folder.run("fit train.csv --target y --model m.riesz --test test.csv");
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for line in ["columns         2", "categories      colour (3)", "may be missing  x"] {
        assert!(printed.contains(line), "{printed}");
    }
    // Of colours and numbers a tenth is missing: what is unknown there leaves a share of the variance of 8/3.
    let score = printed.split("R² ").nth(1).unwrap().lines().next().unwrap();
    assert!(score.parse::<f64>().unwrap() > 0.8, "{printed}");
    assert!(text(&folder.run("info m.riesz").stdout).contains("colour (3)"));
    // Columns are told by name, and a colour nobody knows is none of the three.
    folder.write("few.csv", "colour,x\nred,1\nblue,1\nviolet,1\n");
    let predicted = text(&folder.run("predict m.riesz few.csv").stdout);
    let values: Vec<f64> = predicted.lines().skip(1).map(|line| line.parse().unwrap()).collect();
    assert!((values[0] - 3.0).abs() < 0.3 && (values[1] + 1.0).abs() < 0.3, "{predicted}");
    assert!(values[2].is_finite() && values.len() == 3);
    folder.write("bad.csv", "colour,x\nred,one\n");
    assert!(folder.fail("predict m.riesz bad.csv", 2).contains("\"one\""));
}

/// Read straight through, and from a cache that is removed.
#[test]
fn streams_and_caches_take_them_too() {
    let folder = Folder::new("categories-streams");
    folder.write("1.csv", &table(400));
    folder.write("2.csv", &table(300));
    for line in [
        "fit 1.csv 2.csv --target y --task regression --solver stream --model s.riesz --quiet",
        "fit 1.csv 2.csv --target y --cache . --remove-cache --max-blocks 2 --block-size 64 --model c.riesz --quiet",
    ] {
        let output = folder.run(line);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    for model in ["s.riesz", "c.riesz"] {
        assert!(text(&folder.run(&format!("info {model}")).stdout).contains("colour (3)"));
        assert_eq!(text(&folder.run(&format!("predict {model} 1.csv")).stdout).lines().count(), 401);
    }
    let left = std::fs::read_dir(folder.path("")).unwrap();
    assert!(left.flatten().all(|file| !file.file_name().to_string_lossy().ends_with(".rows")));
}

#[test]
fn a_mistake_among_numbers_is_named() {
    let folder = Folder::new("categories-mistake");
    folder.write("typo.csv", &table(50).replace("\n0.74,", "\nO.74,"));
    let message = folder.fail("fit typo.csv --target y --model m.riesz", 2);
    assert!(message.contains("\"O.74\"") && message.contains("column \"x\""), "{message}");
}
