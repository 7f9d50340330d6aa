//! Parquet files of every form that numbers come in, and refusals that name what is wrong.
#![allow(clippy::unwrap_used, clippy::panic)]

mod writer;

use parquet::basic::{Compression, ZstdLevel};
use riesz::data::files::{Collect, Parts};
use riesz::data::reader::{read_bytes, Dataset, ReadOptions, TargetColumn};
use riesz::Result;
use writer::{parquet, written, Cells, Form};

const ROWS: usize = 10_000;

fn number(i: usize) -> f32 {
    ((i * 7_919) % 1_009) as f32 / 8.0 - 50.0
}

/// A column of every type, and what becomes of them.
fn columns() -> (Vec<(&'static str, Cells)>, Vec<f32>) {
    let n = 0..ROWS;
    let columns = vec![
        ("single", Cells::Single(n.clone().map(number).collect())),
        ("double", Cells::Double(n.clone().map(|i| f64::from(number(i + 1))).collect())),
        ("short", Cells::Short(n.clone().map(|i| i as i32 - 5_000).collect())),
        ("long", Cells::Long(n.clone().map(|i| 3 * i as i64).collect())),
        ("truth", Cells::Bool(n.clone().map(|i| i % 3 == 0).collect())),
        ("optional", Cells::Optional(n.clone().map(|i| Some(number(i + 2))).collect())),
        ("class", Cells::Text(n.clone().map(|i| ["red", "green", "blue"][i % 3]).collect())),
    ];
    let row = |i: usize| {
        let truth = f32::from(u8::from(i.is_multiple_of(3)));
        [number(i), number(i + 1), i as f32 - 5_000.0, 3.0 * i as f32, truth, number(i + 2)]
    };
    (columns, n.flat_map(row).collect())
}

fn read(bytes: &[u8], target: TargetColumn) -> Result<Dataset> {
    read_bytes("t.parquet", bytes, &ReadOptions { target, ..ReadOptions::default() })
}

fn refusal(bytes: &[u8], target: TargetColumn) -> String {
    read(bytes, target).unwrap_err().to_string()
}

#[test]
fn every_form_of_a_file_has_the_same_rows() {
    let (columns, expected) = columns();
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4_RAW,
        Compression::GZIP(Default::default()),
    ];
    for (k, compression) in codecs.into_iter().enumerate() {
        for second_version in [false, true] {
            let form = Form {
                compression,
                second_version,
                dictionary: second_version || k % 2 == 0,
                group: 3_000 + k,
                page: 700,
            };
            let bytes = parquet(&columns, form);
            let dataset = read(&bytes, TargetColumn::Last).unwrap();
            assert_eq!((dataset.features.len(), dataset.features.columns), (ROWS, 6));
            let target = dataset.target.unwrap();
            assert_eq!(
                (target.name(), target.labels().classes),
                ("class", ["blue", "green", "red"].map(str::to_owned).to_vec())
            );
            assert!(dataset.features.into_dense().unwrap() == expected, "{compression:?} {second_version}");
        }
    }
}

#[test]
fn parts_of_files_are_told_by_the_names_of_their_columns() {
    let folder = std::env::temp_dir().join(format!("riesz-parquet-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let cells = |k: usize| Cells::Single((0..3_000).map(|i| number(i + 3_000 * k)).collect());
    let target = |k: usize| Cells::Double((0..3_000).map(|i| (i + 3_000 * k) as f64 / 7.0).collect());
    let form = Form { group: 1_100, ..Form::default() };
    let first = parquet(&[("a", cells(0)), ("b", cells(5)), ("y", target(0))], form);
    let second = parquet(&[("y", target(1)), ("b", cells(6)), ("a", cells(1))], form);
    std::fs::write(folder.join("0.parquet"), first).unwrap();
    std::fs::write(folder.join("1.parquet"), second).unwrap();
    let read = ReadOptions { target: TargetColumn::Name("y".into()), ..ReadOptions::default() };
    let files = vec![folder.join("0.parquet"), folder.join("1.parquet")];
    let (mut values, mut lengths) = (Vec::new(), Vec::new());
    for part in Parts::with_rows(files, read.clone(), 1_024).unwrap() {
        let part = part.unwrap();
        assert_eq!(part.features.names, ["a", "b"]);
        lengths.push(part.features.len());
        values.extend(part.features.into_dense().unwrap());
    }
    assert_eq!(lengths, [1_024, 1_024, 952, 1_024, 1_024, 952]);
    assert!(values == (0..6_000).flat_map(|i| [number(i), number(i + 15_000)]).collect::<Vec<_>>());
    let collect = Collect { read, memory: Some(0), ..Collect::default() };
    let whole = collect.run(std::slice::from_ref(&folder), &mut |_| Ok(())).unwrap();
    let numbers = whole.target.unwrap();
    assert_eq!(numbers.numbers().unwrap()[5_999], 5_999.0 / 7.0);
    assert_eq!(whole.features.rows().unwrap().gather(&(0..6_000).collect::<Vec<_>>()), values);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn columns_are_put_into_their_order_and_left_out() {
    let bytes = parquet(
        &[
            ("b", Cells::Short(vec![1, 2])),
            ("y", Cells::Text(vec!["p", "q"])),
            ("a", Cells::Short(vec![3, 4])),
        ],
        Form::default(),
    );
    let names = ["a", "b"].map(str::to_owned).to_vec();
    let options = ReadOptions { names, unread: Some("y".into()), ..ReadOptions::default() };
    let dataset = read_bytes("t.parquet", &bytes, &options).unwrap();
    assert_eq!(
        (dataset.unread.as_deref(), dataset.features.names.clone()),
        (Some("y"), vec!["a".into(), "b".into()])
    );
    assert_eq!(dataset.features.into_dense().unwrap(), [3.0, 1.0, 4.0, 2.0]);
}

#[test]
fn a_target_of_numbers_keeps_its_precision() {
    let target = |cells: Cells| {
        read(&parquet(&[("x", Cells::Short(vec![1, 2])), ("y", cells)], Form::default()), TargetColumn::Last)
            .unwrap()
            .target
            .unwrap()
    };
    assert_eq!(target(Cells::Double(vec![0.1, 1e300])).numbers().unwrap(), [0.1, 1e300]);
    let single = target(Cells::Single(vec![0.1, 2.0]));
    assert_eq!(single.numbers().unwrap(), [f64::from(0.1_f32), 2.0]);
    assert_eq!(single.labels().classes, ["0.1", "2"]);
    assert_eq!(target(Cells::Bool(vec![true, false])).numbers().unwrap(), [1.0, 0.0]);
    assert_eq!(target(Cells::Long(vec![7, -1])).labels().classes, ["-1", "7"]);
}

#[test]
fn what_is_no_number_is_refused_by_row_and_column() {
    let none = || TargetColumn::None;
    let missing = parquet(
        &[
            ("a", Cells::Single(vec![1.0; 5_000])),
            ("b", Cells::Optional((0..5_000).map(|i| (i != 4_500).then_some(0.5)).collect())),
        ],
        Form::default(),
    );
    assert!(
        refusal(&missing, none()).contains("row 4500 of column \"b\" is missing"),
        "{}",
        refusal(&missing, none())
    );
    assert!(refusal(&missing, TargetColumn::Last).contains("row 4500 of column \"b\" is missing"));
    let mut values = vec![0.0; 5_000];
    values[4_999] = f64::NAN;
    let nan = parquet(
        &[("a", Cells::Single(vec![1.0; 5_000])), ("b", Cells::Double(values.clone()))],
        Form::default(),
    );
    assert!(
        refusal(&nan, none()).contains("row 4999 of column \"b\" holds NaN"),
        "{}",
        refusal(&nan, none())
    );
    assert!(refusal(&nan, TargetColumn::Last).contains("NaN"));
    values[4_999] = 1e39;
    let large = parquet(&[("b", Cells::Double(values))], Form::default());
    assert!(refusal(&large, none()).contains("holds 1e39") || refusal(&large, none()).contains("row 4999"));
    let text = parquet(&[("a", Cells::Single(vec![1.0])), ("t", Cells::Text(vec!["x"]))], Form::default());
    assert!(refusal(&text, none()).contains("column \"t\" holds text"));
    let time = written(
        "message m { required int64 t (TIMESTAMP_MILLIS); }",
        &[("t", Cells::Long(vec![1]))],
        Form::default(),
    );
    assert!(refusal(&time, none()).contains("column \"t\" holds times"));
    let nested = written(
        "message m { required group g { required float x; } }",
        &[("g.x", Cells::Single(vec![1.0]))],
        Form::default(),
    );
    assert!(refusal(&nested, none()).contains("column \"g.x\" is nested"), "{}", refusal(&nested, none()));
    let delta = Form { second_version: true, dictionary: false, ..Form::default() };
    let delta = parquet(&[("a", Cells::Single(vec![1.0])), ("t", Cells::Text(vec!["x"]))], delta);
    assert!(refusal(&delta, TargetColumn::Last).contains("write it with a dictionary"));
    assert!(refusal(&text, TargetColumn::Name("z".into())).contains("no column is named \"z\""));
    let unsigned = written(
        "message m { required int32 u (UINT_32); }",
        &[("u", Cells::Short(vec![-1]))],
        Form::default(),
    );
    assert_eq!(read(&unsigned, none()).unwrap().features.into_dense().unwrap(), [u32::MAX as f32]);
}

#[test]
fn damage_is_an_error() {
    let (columns, _) = columns();
    let bytes = parquet(&columns, Form { group: 4_000, ..Form::default() });
    assert!(refusal(b"PAR1", TargetColumn::Last).contains("not a readable Parquet file"));
    assert!(refusal(b"col,y\n1,2\n3,4\n", TargetColumn::Last).contains("does not end as a Parquet file does"));
    for cut in [bytes.len() - 1, bytes.len() / 2, 100] {
        assert!(read(&bytes[..cut], TargetColumn::Last).is_err());
    }
}
