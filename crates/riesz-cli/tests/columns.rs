//! Columns permuted, missing, extra or of another type: the right answer, or an error that names them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{quantity, rings, text, Folder};

const QUICK: &str = "--block-size 64 --max-blocks 2 --quiet";
const NAMES: [&str; 4] = ["width", "height", "depth", "answer"];

/// The columns of a CSV file: name and cells.
type Columns = Vec<(String, Vec<String>)>;

fn columns(csv: &str) -> Columns {
    let mut lines = csv.lines();
    let mut columns: Columns =
        lines.next().unwrap().split(',').map(|name| (name.to_owned(), Vec::new())).collect();
    for line in lines {
        for (cell, column) in line.split(',').zip(&mut columns) {
            column.1.push(cell.to_owned());
        }
    }
    columns
}

fn csv(columns: &Columns, header: bool) -> String {
    let mut out = String::new();
    if header {
        out += &(columns.iter().map(|column| column.0.clone()).collect::<Vec<_>>().join(",") + "\n");
    }
    for row in 0..columns[0].1.len() {
        out += &(columns.iter().map(|column| column.1[row].clone()).collect::<Vec<_>>().join(",") + "\n");
    }
    out
}

fn permutations(items: &[usize]) -> Vec<Vec<usize>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    items
        .iter()
        .flat_map(|&first| {
            let rest: Vec<usize> = items.iter().copied().filter(|&item| item != first).collect();
            permutations(&rest).into_iter().map(move |rest| [vec![first], rest].concat())
        })
        .collect()
}

/// A file and what becomes of it: predictions, or an error with this in its message.
fn matrix(whole: &Columns) -> Vec<(String, Columns, Option<String>)> {
    let mut cases = Vec::new();
    for order in permutations(&[0, 1, 2, 3]).into_iter().chain(permutations(&[0, 1, 2])) {
        cases.push((format!("order {order:?}"), order.iter().map(|&i| whole[i].clone()).collect(), None));
    }
    for i in 0..3 {
        let name = NAMES[i];
        let mut add = |what: &str, message: String, change: &dyn Fn(&mut Columns)| {
            for answer in [true, false] {
                let mut changed = whole.clone();
                if !answer {
                    changed.pop();
                }
                change(&mut changed);
                cases.push((format!("{name} {what}, answer {answer}"), changed, Some(message.clone())));
            }
        };
        add("missing", format!("{name:?} missing"), &|c| drop(c.remove(i)));
        add("renamed", format!("{name:?} missing, \"other\" unknown"), &|c| c[i].0 = "other".into());
        add("there twice", format!("{name:?} there twice"), &|c| c.insert(0, c[i].clone()));
        let extra = |cells: &str| ("extra".to_owned(), vec![cells.to_owned(); whole[0].1.len()]);
        add("beside a number", "\"extra\" unknown".into(), &|c| c.insert(i, extra("1.5")));
        add("beside text", "\"extra\" unknown".into(), &|c| c.insert(i, extra("green")));
        for cell in ["green", "", "?", "nan", "inf", "1e39", "true", "2024-01-01", "1;5"] {
            add(&format!("holds {cell:?}"), format!("column {name:?}"), &|c| c[i].1.fill(cell.to_owned()));
            add(&format!("holds one {cell:?}"), format!("column {name:?}"), &|c| c[i].1[3] = cell.to_owned());
        }
    }
    // The answer is not read: whatever is in it.
    for cell in ["", "?", "green", "1e400"] {
        let mut changed = whole.clone();
        changed[3].1.fill(cell.to_owned());
        cases.push((format!("answer {cell:?}"), changed, None));
    }
    cases
}

#[test]
fn the_matrix_of_columns() {
    for (task, train, test) in
        [("regression", quantity(200, 1), quantity(12, 2)), ("classification", rings(200, 1), rings(12, 2))]
    {
        let folder = Folder::new(&format!("columns-{task}"));
        folder.write("train.csv", &train);
        folder.succeed(&format!("fit train.csv --task {task} --model m.riesz {QUICK}"));
        let whole = columns(&test);
        folder.write("test.csv", &csv(&whole, true));
        let expected = folder.succeed("predict m.riesz test.csv --target answer");
        assert_eq!(expected.lines().count(), 13);
        let cases = matrix(&whole);
        assert!(cases.len() > 150);
        for (case, columns, message) in cases {
            folder.write("case.csv", &csv(&columns, true));
            match message {
                None => assert_eq!(folder.succeed("predict m.riesz case.csv"), expected, "{task}, {case}"),
                Some(part) => {
                    let message = folder.fail("predict m.riesz case.csv", 2);
                    assert!(message.contains(&part), "{task}, {case}: {part} is not in {message}");
                }
            }
        }
    }
}

/// Without names there is nothing but the number of columns to go by.
#[test]
fn files_and_models_without_names_go_by_number() {
    let folder = Folder::new("columns-bare");
    let (train, test) = (columns(&quantity(200, 1)), columns(&quantity(12, 2)));
    for (name, header) in [("named", true), ("bare", false)] {
        folder.write(&format!("{name}-train.csv"), &csv(&train, header));
        folder.write(&format!("{name}.csv"), &csv(&test[..3].to_vec(), header));
        folder.succeed(&format!("fit {name}-train.csv --model {name}.riesz {QUICK}"));
    }
    folder.write("wide.csv", &csv(&test, false));
    let expected = folder.succeed("predict named.riesz named.csv");
    for model in ["named", "bare"] {
        for data in ["named", "bare"] {
            assert_eq!(folder.succeed(&format!("predict {model}.riesz {data}.csv")), expected);
        }
        let message = folder.fail(&format!("predict {model}.riesz wide.csv"), 2);
        assert!(message.contains("4 columns, one more than the 3"), "{message}");
        assert_eq!(folder.succeed(&format!("predict {model}.riesz wide.csv --target last")), expected);
    }
}

/// Names that look like numbers are names, not a row to predict.
#[test]
fn a_header_of_numbers_is_recognised() {
    let folder = Folder::new("columns-numbers");
    let mut container = fitted(&folder);
    let years = ["2019", "2020", "2021"].map(str::to_owned);
    container.set_columns(&riesz::model::Columns::of_numbers(years, None)).unwrap();
    container.save(&folder.path("m.riesz")).unwrap();
    folder.write("test.csv", "2021,2019,2020\n3,1,2\n");
    folder.write("bare.csv", "1,2,3\n");
    assert_eq!(folder.succeed("predict m.riesz test.csv"), folder.succeed("predict m.riesz bare.csv"));
}

fn fitted(folder: &Folder) -> riesz::model::Container {
    folder.write("train.csv", &quantity(60, 1));
    folder.succeed(&format!("fit train.csv --model m.riesz {QUICK}"));
    riesz::model::Container::load(&folder.path("m.riesz")).unwrap()
}

#[test]
fn test_data_of_a_fit_are_told_by_name() {
    let folder = Folder::new("columns-test");
    let mut test = columns(&quantity(50, 2));
    folder.write("train.csv", &quantity(300, 1));
    folder.write("test.csv", &csv(&test, true));
    let error = |test: &str| {
        let printed = folder
            .succeed(&format!("fit train.csv --model m.riesz --block-size 64 --max-blocks 2 --test {test}"));
        printed.lines().find(|line| line.starts_with("test")).unwrap().to_owned()
    };
    let expected = error("test.csv");
    test.rotate_left(1);
    test.swap(0, 1);
    folder.write("permuted.csv", &csv(&test, true));
    assert_eq!(error("permuted.csv"), expected);
    test[0].0 = "other".into();
    folder.write("other.csv", &csv(&test, true));
    assert!(folder.fail("fit train.csv --model m.riesz --test other.csv", 2).contains("\"other\" unknown"));
    folder.write("twice.csv", "a,a,y\n1,2,3\n4,5,6\n");
    assert!(folder.fail("fit twice.csv --model m.riesz", 2).contains("two columns are named \"a\""));
}

/// `1`, `1.0` and `+1` are one class, when learning and when comparing.
#[test]
fn labels_are_compared_as_numbers() {
    let folder = Folder::new("labels");
    let rows: String = (0..200)
        .map(|i| {
            format!(
                "{},{}\n",
                i as f64 / 100.0,
                if i < 100 { ["0", "0.0", "-0"][i % 3] } else { ["1", "1.0", "+1"][i % 3] }
            )
        })
        .collect();
    folder.write("train.csv", &format!("x,y\n{rows}"));
    let printed =
        folder.succeed("fit train.csv --task classification --model m.riesz --block-size 64 --max-blocks 4");
    assert!(printed.contains("2 classes (0, 1.0)"), "{printed}");
    let output = folder.run("predict m.riesz train.csv --target y");
    assert!(output.status.success() && text(&output.stderr).contains("of 200"), "{}", text(&output.stderr));
    folder.write("test.csv", "x,y\n1.5,1e0\n0.2,00\n");
    let output = folder.run("predict m.riesz test.csv --target y");
    assert!(text(&output.stderr).contains("0.00 % (0 of 2)"), "{}", text(&output.stderr));
    folder.write("test.csv", "x,y\n1.5,2\n");
    assert!(folder.fail("predict m.riesz test.csv --target y", 2).contains("holds the class \"2\""));
}

/// Names and labels of unknown origin do not steer a terminal.
#[test]
fn control_characters_are_escaped() {
    let folder = Folder::new("control");
    let rows: String =
        (0..60).map(|i| format!("{i},{}\n", if i % 2 == 0 { "\u{1b}[31mred" } else { "blue" })).collect();
    folder.write("train.csv", &format!("\u{1b}]0;title\u{7},y\n{rows}"));
    let mut printed = folder.succeed("fit train.csv --model m.riesz --block-size 64 --max-blocks 2");
    printed += &folder.succeed("info m.riesz");
    folder.write("test.csv", "\u{1b}[2Jx,y\n1,2\n");
    printed += &folder.fail("predict m.riesz test.csv", 2);
    folder.write("test.csv", "\u{1b}]0;title\u{7},y\n1,\u{1b}[31m\n");
    printed += &folder.fail("predict m.riesz test.csv --target y", 2);
    printed += &text(&folder.run("predict m.riesz test.csv").stderr);
    assert!(printed.contains("\\u{1b}[31mred") && printed.contains("\\u{1b}]0;title"), "{printed:?}");
    assert!(!printed.contains(|c: char| c.is_control() && c != '\n'), "{printed:?}");
    // A program or a file gets the names as they are.
    assert!(folder.succeed("predict m.riesz train.csv").contains("\u{1b}[31mred"));
}

#[cfg(unix)]
#[test]
fn predictions_are_written_all_or_nothing() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let folder = Folder::new("out");
    folder.write("train.csv", &quantity(60, 1));
    folder.succeed(&format!("fit train.csv --model m.riesz {QUICK}"));
    let out = folder.write("p.csv", "old");
    std::fs::set_permissions(&out, std::fs::Permissions::from_mode(0o600)).unwrap();
    let before = std::fs::metadata(&out).unwrap().ino();
    folder.succeed("predict m.riesz train.csv --out p.csv");
    let after = std::fs::metadata(&out).unwrap();
    assert!(after.ino() != before, "another file took the name");
    assert_eq!(after.mode() & 0o777, 0o600);
    assert_eq!(text(&folder.bytes("p.csv")), folder.succeed("predict m.riesz train.csv"));
    std::os::unix::fs::symlink("p.csv", folder.path("link.csv")).unwrap();
    folder.succeed("predict m.riesz train.csv --out link.csv");
    assert!(std::fs::symlink_metadata(folder.path("link.csv")).unwrap().is_symlink());
    assert_eq!(folder.succeed("predict m.riesz train.csv --out /dev/stdout"), text(&folder.bytes("p.csv")));
}
