//! Fit, predict, info; and what the command says when something is wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{quantity, rings, text, Folder};

const QUICK: &str = "--block-size 128 --max-blocks 6 --quiet";

#[test]
fn a_classifier_goes_through_its_file() {
    let folder = Folder::new("classify");
    folder.write("train.csv", &rings(2_400, 1));
    folder.write("test.csv", &rings(500, 2));
    let printed = folder.succeed(
        "fit train.csv --target answer --model m.riesz --test test.csv --block-size 256 --max-blocks 12",
    );
    for part in [
        "rows",
        "2,400",
        "answer: 3 classes (inner, middle, outer)",
        "bandwidth",
        "held-out",
        "test",
        "wrong",
        "time",
    ] {
        assert!(printed.contains(part), "{part:?} is missing:\n{printed}");
    }
    let error: f64 = percentage(&printed, "test");
    assert!(error < 12.0, "{printed}");

    let output = folder.run("predict m.riesz test.csv --target answer --out p.csv --probabilities");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        (percentage(&text(&output.stderr), "error against answer") - error).abs() < 1e-9,
        "two ways to the same error"
    );
    let predictions = text(&folder.bytes("p.csv"));
    let mut lines = predictions.lines();
    assert_eq!(lines.next(), Some("prediction,p_inner,p_middle,p_outer"));
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let p: Vec<f64> = cells[1..].iter().map(|cell| cell.parse().unwrap()).collect();
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-4, "{line}");
        assert!(["inner", "middle", "outer"].contains(&cells[0]), "{line}");
    }
    assert_eq!(predictions.lines().count(), 501);

    let info = folder.succeed("info m.riesz");
    assert!(
        info.contains("classification, 3 classes (inner, middle, outer)") && info.contains("columns"),
        "{info}"
    );
    let json = folder.succeed("info m.riesz --json");
    assert!(
        json.contains("\"class_names\"") && json.contains("\"history\"") && json.contains("\"columns\": 3"),
        "{json}"
    );
}

/// The number before the first "%" on the line that begins with `label`.
fn percentage(text: &str, label: &str) -> f64 {
    let line =
        text.lines().find(|line| line.starts_with(label)).unwrap_or_else(|| panic!("no {label:?} in {text}"));
    let before = line.split(" %").next().unwrap();
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_quantity_comes_back_in_its_units() {
    let folder = Folder::new("regress");
    folder.write("train.csv", &quantity(1_000, 1));
    folder.write("test.csv", &quantity(200, 2));
    let printed = folder.succeed("fit train.csv --model m.riesz --test test.csv");
    assert!(printed.contains("answer: a quantity; guessed"), "{printed}");
    let predictions = folder.succeed("predict m.riesz test.csv --target last");
    let pairs: Vec<(f64, f64)> = predictions
        .lines()
        .zip(quantity(200, 2).lines())
        .skip(1)
        .map(|(p, line)| (p.parse().unwrap(), line.rsplit(',').next().unwrap().parse().unwrap()))
        .collect();
    assert_eq!(pairs.len(), 200);
    let error = (pairs.iter().map(|(p, y)| (p - y).powi(2)).sum::<f64>() / 200.0).sqrt();
    assert!(error < 0.15, "noise is 0.1, error {error}");
    assert!(folder
        .fail("predict m.riesz test.csv --target last --probabilities", 2)
        .contains("classification"));
}

#[test]
fn every_solver_and_loss_can_be_named() {
    let folder = Folder::new("solvers");
    folder.write("c.csv", &rings(600, 1));
    folder.write("r.csv", &quantity(600, 1));
    for setting in [
        "c.csv --loss hinge --kernel laplacian --bandwidth median --scaling none",
        "c.csv --loss logistic --bandwidth 0.5 --damping 0.1 --sweeps 1",
        "c.csv --task classification --solver stream --ridge 1e-4",
        "r.csv --task regression --solver ridge --ridge 1e-5 --bandwidth scale",
        "r.csv --solver block --max-time 5 --seed 7",
        "c.csv --loss crammer_singer",
        "r.csv --loss huber --solver stream",
        "r.csv --loss huber=0.2",
        "r.csv --loss epsilon_insensitive=0.05",
        "r.csv --loss absolute",
    ] {
        folder.succeed(&format!("fit {setting} --model m.riesz {QUICK}"));
        folder.succeed("info m.riesz");
    }
}

/// Levels become columns that do not cross, and the test line says how many rows are below each.
#[test]
fn quantiles_go_through_their_file() {
    let folder = Folder::new("quantiles");
    folder.write("train.csv", &quantity(1_000, 1));
    folder.write("test.csv", &quantity(200, 2));
    let fit = "fit train.csv --loss quantile=0.1,0.5,0.9 --model m.riesz --test test.csv";
    let printed = folder.succeed(fit);
    assert!(
        printed.contains("below quantile 0.1") && printed.contains("quantile=0.1,0.5,0.9 loss"),
        "{printed}"
    );
    let predictions = folder.succeed("predict m.riesz test.csv --target last");
    let mut lines = predictions.lines();
    assert_eq!(lines.next(), Some("quantile_0.1,quantile_0.5,quantile_0.9"));
    for line in lines {
        let row: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        assert!(row[0] <= row[1] && row[1] <= row[2], "{line}");
    }
}

/// Few whole numbers would be guessed to be classes; the loss says they are counts. Predictions are rates.
#[test]
fn counts_are_told_by_the_loss() {
    let folder = Folder::new("counts");
    let rows: String = (0..300).map(|i| format!("{},{}\n", i % 30, i % 30 / 10 + i % 2)).collect();
    folder.write("counts.csv", &format!("x,count\n{rows}"));
    folder.succeed("fit counts.csv --loss poisson --model m.riesz --quiet");
    let predictions = folder.succeed("predict m.riesz counts.csv --target last");
    let rates: Vec<f64> = predictions.lines().skip(1).map(|cell| cell.parse().unwrap()).collect();
    assert!(rates.iter().all(|&rate| rate > 0.0) && rates[29] > 2.0 * rates[0], "{rates:?}");
    folder.write("negative.csv", "x,count\n1,2\n2,-1\n");
    let message = folder.fail("fit negative.csv --loss poisson --model m.riesz", 2);
    assert!(message.contains("target -1 at row 1"), "{message}");
}

#[test]
fn bad_data_are_refused_by_name() {
    let folder = Folder::new("bad");
    folder.write("typo.csv", "a,b,y\n1,2,0\n1,3O,1\n3,4,0\n");
    let message = folder.fail("fit typo.csv --model m.riesz", 2);
    assert!(message.contains("typo.csv, line 3") && message.contains("\"b\""), "{message}");

    let message = folder.fail("fit nowhere.csv --model m.riesz", 2);
    assert!(message.contains("nowhere.csv") && message.contains("hint: check the path"), "{message}");

    folder.write("ok.csv", &rings(60, 1));
    let message = folder.fail("fit ok.csv --target colour --model m.riesz", 2);
    assert!(message.contains("\"colour\"") && message.contains("width, height, depth, answer"), "{message}");
    assert!(folder.fail("fit ok.csv --target 9 --model m.riesz", 2).contains("4 columns"));

    folder.write("one.csv", "a,y\n1,yes\n2,yes\n3,yes\n");
    let message = folder.fail("fit one.csv --model m.riesz", 2);
    assert!(message.contains("only one class in the data (yes)") && message.contains("hint: "), "{message}");

    assert!(folder.fail("fit ok.csv --task regression --model m.riesz", 2).contains("not a number"));
    assert!(folder.fail("fit ok.csv --model no/such/m.riesz", 2).contains("no folder"));
    assert!(folder.fail("fit ok.csv --model ./ok.csv", 2).contains("overwritten"));
    assert_eq!(text(&folder.bytes("ok.csv")), rings(60, 1), "data stay as they are");
    assert!(!folder.path("m.riesz").exists(), "a failed fit writes no model");
}

#[test]
fn bad_settings_are_refused_by_name() {
    let folder = Folder::new("settings");
    folder.write("ok.csv", &rings(60, 1));
    for (setting, expected) in [
        ("--loss cubic", riesz::loss::LossSpec::NAMES),
        ("--loss huber=-1", "delta"),
        ("--loss quantile=0.9,0.1", "quantiles"),
        ("--kernel cubic", "gaussian"),
        ("--bandwidth -1", "bandwidth"),
        ("--bandwidth wide", "auto, median, scale"),
        ("--solver magic", "auto, block, ridge, stream"),
        ("--loss square", "regression"),
        ("--block-size 100", "64"),
        ("--damping 0", "damping"),
        ("--max-blocks 0", "max_blocks"),
        ("--threads 0", "threads"),
        ("--checkpoint c --checkpoint-every -1", "checkpoint_every"),
        ("--checkpoint c --solver stream", "--solver block"),
        ("--colour red", "--colour"),
    ] {
        let message = folder.fail(&format!("fit ok.csv --model m.riesz {setting}"), 2);
        assert!(message.contains(expected), "{setting}: {message}");
    }
    assert_eq!(folder.run("--help").status.code(), Some(0));
    assert_eq!(folder.run("").status.code(), Some(2));
}

#[test]
fn damaged_models_and_wrong_columns_are_refused() {
    let folder = Folder::new("damaged");
    folder.write("train.csv", &rings(300, 1));
    folder.write("narrow.csv", "a,b\n1,2\n");
    folder.write("wide.csv", "a,b,c,d\n1,2,3,4\n");
    folder.write("other.csv", "width,height,depth,answer\n1,2,3,green\n");
    folder.succeed(&format!("fit train.csv --model m.riesz {QUICK}"));
    let whole = folder.bytes("m.riesz");
    for length in [0, 7, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(folder.path("cut.riesz"), &whole[..length]).unwrap();
        let message = folder.fail("predict cut.riesz train.csv --target last", 2);
        assert!(
            message.contains("not a valid riesz file") && message.contains("hint: "),
            "{length}: {message}"
        );
    }
    let output = folder.run("predict m.riesz train.csv");
    let said = "column \"answer\" is what the model predicts: left out";
    assert!(output.status.success() && text(&output.stderr).contains(said), "{}", text(&output.stderr));
    for file in ["wide.csv", "narrow.csv"] {
        let message = folder.fail(&format!("predict m.riesz {file}"), 2);
        assert!(message.contains("\"width\", \"height\", \"depth\" missing, \"a\", \"b\""), "{message}");
    }
    let message = folder.fail("predict m.riesz other.csv --target answer --out p.csv", 2);
    assert!(message.contains("\"green\"") && message.contains("inner, middle, outer"), "{message}");
    assert!(folder.fail("info train.csv", 2).contains("not a valid riesz file"));
}

#[test]
fn the_demonstration_writes_its_pictures() {
    let folder = Folder::new("demo");
    let printed = folder.succeed("demo");
    assert!(printed.contains("nearest neighbour") && printed.contains("riesz"), "{printed}");
    let line = printed.lines().find(|line| line.trim_start().starts_with("riesz")).unwrap();
    let error: f64 = line.split(" %").next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(error < 3.0, "{printed}");
    for picture in ["digits", "confusion", "learning", "curve", "function"] {
        assert!(text(&folder.bytes(&format!("demo/{picture}.svg"))).starts_with("<svg"), "{picture}");
    }
}

#[test]
fn the_quick_experiment_writes_its_files() {
    let folder = Folder::new("experiment");
    let printed = folder.succeed("experiment f1 --quick --out results");
    assert!(printed.contains("slope of the last iterate"), "{printed}");
    let table = text(&folder.bytes("results/F1.csv"));
    let last = table.lines().last().unwrap();
    assert!(table.starts_with("step,rows,last,average\n1,1024,") && last.starts_with("64,65536,"), "{table}");
    let error: f64 = last.split(',').nth(2).unwrap().parse().unwrap();
    assert!(error < 2e-4, "{table}");
    assert!(text(&folder.bytes("results/F1.svg")).contains("slope −"));
}

#[test]
fn the_quick_experiment_on_a_posterior_ends_close_to_the_grid() {
    let folder = Folder::new("experiment-posterior");
    let printed = folder.succeed("experiment d1 --quick --out results");
    assert!(printed.contains("the entropy of the posterior is 0.167"), "{printed}");
    let table = text(&folder.bytes("results/D1.csv"));
    assert!(table.starts_with("method,run,visited,total_variation,cross_entropy\nadaptive,1,"), "{table}");
    let last = table.lines().rfind(|line| line.starts_with("adaptive,")).unwrap();
    let variation: f64 = last.split(',').nth(3).unwrap().parse().unwrap();
    assert!(variation < 0.2, "{table}");
    assert!(text(&folder.bytes("results/D1.svg")).contains("observations visited"));
}

#[test]
fn experiments_on_data_say_where_the_data_are() {
    let folder = Folder::new("experiment-data");
    for (name, source) in [
        ("F3", "libsvmtools"),
        ("F4", "MNIST"),
        ("F5", "archive.ics.uci.edu"),
        ("F6", "infimnist"),
        ("F7", "cs.toronto.edu"),
        ("F8", "image-net.org"),
        ("F9", "quantum-machine.org"),
        ("F10", "MolecularSpace"),
        ("D4", "OCTIS"),
    ] {
        let message = folder.fail(&format!("experiment {name} --data nowhere"), 2);
        assert!(message.contains("in nowhere") && message.contains(source), "{name}: {message}");
    }
}

#[test]
fn a_stand_in_runs_the_recipe_of_given_features() {
    let folder = Folder::new("experiment-stand-in");
    let printed =
        folder.succeed("experiment F7 --stand-in --rows 2800 --blocks 2 --bandwidth 30 --out results");
    assert!(
        printed.contains("2,100 rows of 256 columns") && printed.contains("the text, on its own data"),
        "{printed}"
    );
    let line = printed.lines().find(|line| line.contains("of the test rows wrong")).unwrap();
    let error: f64 = line.split(": ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(error < 5.0, "{printed}");
    assert!(text(&folder.bytes("results/F7.csv")).starts_with("blocks,features,loss,held_out_loss"));
    assert!(text(&folder.bytes("results/F7.svg")).starts_with("<svg"));
}

/// Several files, a folder, rows on disk and a cache lead to one model; predictions of a folder are those of its files.
#[test]
fn files_and_folders_are_one_table() {
    let folder = Folder::new("several");
    let rows = |range: std::ops::Range<usize>| {
        let mut text = "a,b,y\n".to_owned();
        for i in range {
            let (a, b) = ((i * 37 % 101) as f64 / 50.0, (i * 53 % 97) as f64 / 50.0);
            text += &format!("{a},{b},{}\n", if a > b { "up" } else { "down" });
        }
        text
    };
    std::fs::create_dir(folder.path("parts")).unwrap();
    folder.write("all.csv", &rows(0..2_500));
    folder.write("parts/1.csv", &rows(0..900));
    folder.write("parts/2.csv", &rows(900..2_500));
    let common = "--target y --max-blocks 3 --block-size 64";
    folder.succeed(&format!("fit all.csv {common} --model all"));
    let model = std::fs::read(folder.path("all")).unwrap();
    for (data, more) in [
        ("parts", ""),
        ("parts/1.csv parts/2.csv", "--memory 60M"),
        ("parts", "--cache cache"),
        ("parts", "--cache cache --remove-cache"),
    ] {
        let said = folder.succeed(&format!("fit {data} {common} {more} --model other"));
        assert!(said.contains("2,500") && (said.contains(".rows") == more.contains("--cache")), "{said}");
        assert!(std::fs::read(folder.path("other")).unwrap() == model, "{data} {more}");
    }
    assert_eq!(std::fs::read_dir(folder.path("cache")).unwrap().count(), 0);
    let whole = folder.succeed("predict all all.csv --target y --probabilities");
    assert_eq!(folder.succeed("predict all parts --target y --probabilities"), whole);
    folder.succeed("predict all parts --out out.csv");
    assert_eq!(std::fs::read_to_string(folder.path("out.csv")).unwrap().lines().count(), 2_501);
    // All or nothing: an error in the second file leaves what was there.
    folder.write("parts/3.csv", "a,b,y\n1,oops,up\n");
    assert!(folder.fail("predict all parts --target y --out out.csv", 2).contains("3.csv, line 2"));
    assert_eq!(std::fs::read_to_string(folder.path("out.csv")).unwrap().lines().count(), 2_501);
    std::fs::remove_file(folder.path("parts/3.csv")).unwrap();
    let said = folder.succeed("fit parts --target y --solver stream --model stream --test all.csv");
    assert!(said.contains("read straight through"), "{said}");
    let refused = folder.fail(&format!("fit parts {common} --model m --memory 1M"), 2);
    assert!(refused.contains("2,500 rows need about") && refused.contains("--solver stream"), "{refused}");
    assert!(folder.fail("fit parts --target y --model m --memory little", 2).contains("800M"));
}
