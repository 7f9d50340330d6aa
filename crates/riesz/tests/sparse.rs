//! A sparse matrix is the dense matrix with the same entries, to the last bit.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use riesz::data::{Indices, Rows, Sparse};
use riesz::driver::{quietly, Fingerprint};
use riesz::functions::{GaussianProcess, GaussianProcessOptions, KernelMachine, Options, Task, Training};
use riesz::kernel::KernelSpec;
use riesz::random::Seed;

/// The arrays of a sparse matrix: columns in any order, some twice, rows without any.
#[derive(Clone, Debug)]
struct Arrays {
    starts: Vec<i64>,
    indices: Vec<i32>,
    values: Vec<f64>,
    columns: usize,
}

impl Arrays {
    fn of(rows: &[Vec<(usize, f64)>], columns: usize) -> Self {
        let mut arrays = Self { starts: vec![0], indices: Vec::new(), values: Vec::new(), columns };
        for row in rows {
            for &(column, value) in row {
                arrays.indices.push(column as i32);
                arrays.values.push(value);
            }
            arrays.starts.push(arrays.values.len() as i64);
        }
        arrays
    }

    /// One entry in three of uneven numbers, each row in falling order of its columns.
    fn table(n: usize, columns: usize) -> Self {
        let mut word = 1_u64;
        let mut draw = || {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (word >> 40) as f64 / f64::from(1 << 24)
        };
        let mut rows = vec![Vec::new(); n];
        for row in &mut rows {
            for column in (0..columns).rev() {
                if draw() < 0.33 {
                    row.push((column, draw() - 0.3));
                }
            }
        }
        Self::of(&rows, columns)
    }

    fn singles(&self) -> Vec<f32> {
        self.values.iter().map(|&v| v as f32).collect()
    }

    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The entries added into zeros, in the order of storage and the precision of `values`.
    fn dense<T: Copy + Default + std::ops::AddAssign>(&self, values: &[T]) -> Vec<T> {
        let mut out = vec![T::default(); self.len() * self.columns];
        for (row, bounds) in self.starts.windows(2).enumerate() {
            for k in bounds[0] as usize..bounds[1] as usize {
                out[row * self.columns + self.indices[k] as usize] += values[k];
            }
        }
        out
    }

    fn double(&self) -> Rows<'_> {
        let (starts, indices) = (Indices::Long(&self.starts), Indices::Short(&self.indices));
        Sparse::new(starts, indices, &self.values, self.columns).unwrap().into()
    }

    fn single<'a>(&'a self, values: &'a [f32]) -> Rows<'a> {
        let (starts, indices) = (Indices::Long(&self.starts), Indices::Short(&self.indices));
        Sparse::new(starts, indices, values, self.columns).unwrap().into()
    }
}

/// Zeros of both signs, what single precision rounds away, and ordinary numbers.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![4 => -3.0..3.0, 1 => Just(0.0), 1 => Just(-0.0), 1 => Just(-1e-300), 1 => Just(1e30)]
}

fn arrays() -> impl Strategy<Value = Arrays> {
    (1_usize..7).prop_flat_map(|columns| {
        let row = prop::collection::vec((0..columns, number()), 0..6);
        prop::collection::vec(row, 1..9).prop_map(move |rows| Arrays::of(&rows, columns))
    })
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Everything a matrix can be asked gives the same bits.
fn same(sparse: Rows<'_>, dense: Rows<'_>, range: std::ops::Range<usize>) -> Result<(), TestCaseError> {
    prop_assert_eq!((sparse.len(), sparse.columns()), (dense.len(), dense.columns()));
    let (mut a, mut b) = (vec![7.0], vec![7.0]);
    prop_assert_eq!(bits(sparse.tile(range.clone(), &mut a)), bits(dense.tile(range.clone(), &mut b)));
    let some: Vec<u32> = (0..dense.len() as u32).rev().chain([0]).collect();
    prop_assert_eq!(bits(&sparse.gather(&some)), bits(&dense.gather(&some)));
    let (mut a, mut b) = (Vec::new(), Vec::new());
    sparse.slice(range.clone()).append_doubles(&mut a);
    dense.slice(range.clone()).append_doubles(&mut b);
    prop_assert_eq!(&a, &b);
    for (k, &value) in b.iter().enumerate() {
        let (row, column) = (range.start + k / dense.columns(), k % dense.columns());
        prop_assert_eq!(sparse.value(row, column), value);
    }
    prop_assert_eq!(Fingerprint::of_rows(sparse, &[1.0], &[]), Fingerprint::of_rows(dense, &[1.0], &[]));
    prop_assert_eq!(
        sparse.check_finite("X").map_err(|e| e.to_string()),
        dense.check_finite("X").map_err(|e| e.to_string())
    );
    for kernel in [KernelSpec::ChiSquared, KernelSpec::SkewedChiSquared(0.5)] {
        prop_assert_eq!(
            kernel.check_domain(sparse).map_err(|e| e.to_string()),
            kernel.check_domain(dense).map_err(|e| e.to_string())
        );
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_sparse_matrix_is_the_dense_one(
        arrays in arrays(),
        ends in (0.0..1.0, 0.0..1.0),
        poison in prop::option::of((0.0..1.0, prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(1e300)])),
    ) {
        let mut arrays = arrays;
        if let (Some((place, value)), false) = (poison, arrays.values.is_empty()) {
            let place = (place * arrays.values.len() as f64) as usize;
            arrays.values[place] = value;
        }
        let at = |share: f64| (share * (arrays.len() + 1) as f64) as usize;
        let range = at(ends.0).min(at(ends.1))..at(ends.0).max(at(ends.1));
        let doubles = arrays.dense(&arrays.values);
        // Infinities that cancel have no order in a comparison of values.
        if doubles.iter().all(|v| !v.is_nan()) {
            same(arrays.double(), Rows::double(&doubles, arrays.columns).unwrap(), range.clone())?;
        }
        let singles = arrays.singles();
        let dense = arrays.dense(&singles);
        if dense.iter().all(|v| !v.is_nan()) {
            same(arrays.single(&singles), Rows::single(&dense, arrays.columns).unwrap(), range)?;
        }
    }
}

fn predictions(rows: Rows<'_>, targets: &[f32]) -> Vec<f32> {
    let mut options = Options::new(Task::Regression(1), Seed(3));
    options.max_blocks = Some(2);
    options.block_size = Some(64);
    let data = Training { rows, targets, weights: None };
    let machine = quietly(|control| KernelMachine::fit(&options, &data, control)).unwrap();
    machine.predict(rows).unwrap()
}

/// Below 2,000 rows and above, where rows are held out, bandwidths race and the data are read where they lie.
#[test]
fn a_fit_on_a_sparse_matrix_is_that_on_the_dense_one() {
    for n in [60, 2_100] {
        let arrays = Arrays::table(n, 5);
        let (singles, doubles) = (arrays.singles(), arrays.dense(&arrays.values));
        let dense = arrays.dense(&singles);
        let targets: Vec<f32> = dense.chunks(5).map(|x| (3.0 * x[0]).sin() + x[1] * x[2]).collect();
        let found = predictions(arrays.single(&singles), &targets);
        assert_eq!(bits(&found), bits(&predictions(Rows::single(&dense, 5).unwrap(), &targets)), "{n}");
        let found = predictions(arrays.double(), &targets);
        assert_eq!(bits(&found), bits(&predictions(Rows::double(&doubles, 5).unwrap(), &targets)), "{n}");
    }
}

#[test]
fn a_process_on_a_sparse_matrix_is_that_on_the_dense_one() {
    let arrays = Arrays::table(80, 3);
    let doubles = arrays.dense(&arrays.values);
    let targets: Vec<f64> = doubles.chunks(3).map(|x| x[0] - x[2]).collect();
    let mean = |rows: Rows<'_>| {
        let options = GaussianProcessOptions::new(Seed(1));
        let fit = quietly(|control| GaussianProcess::fit(&options, rows, &targets, control)).unwrap();
        fit.mean(rows).unwrap()
    };
    assert_eq!(mean(arrays.double()), mean(Rows::double(&doubles, 3).unwrap()));
}

#[test]
fn arrays_that_contradict_each_other_are_refused() {
    let refused = |starts: &[i64], indices: &[i64], values: &[f64], columns| {
        Sparse::new(Indices::Long(starts), Indices::Long(indices), values, columns).unwrap_err().to_string()
    };
    for (starts, indices, reason) in [
        (&[][..], &[0, 1][..], "indptr is empty"),
        (&[1, 2], &[0, 1], "indptr begins with 1, not 0"),
        (&[0, 2, 1], &[0, 1], "indptr falls from 2 to 1 at row 1"),
        (&[0, -1, 2], &[0, 1], "indptr falls from 0 to -1 at row 0"),
        (&[0, 3], &[0, 1], "indptr ends with 3, beyond its 2 values"),
        (&[0, 2], &[0], "it has 1 column indices for 2 values"),
        (&[0, 1, 2], &[0, 3], "row 1 has a value in column 3, outside 0..3"),
        (&[0, 2], &[-1, 0], "row 0 has a value in column -1, outside 0..3"),
    ] {
        let found = refused(starts, indices, &[1.0, 2.0], 3);
        assert!(found.starts_with("X is not a sparse matrix by rows: ") && found.contains(reason), "{found}");
    }
    assert!(refused(&[0], &[], &[], 0).contains("X is empty"));
    // Values beyond the last row are none of its business, as in SciPy.
    let spare = Sparse::new(Indices::Long(&[0, 1]), Indices::Long(&[0, 9]), &[1.0, 2.0], 1).unwrap();
    assert_eq!(Rows::from(spare).gather(&[0]), [1.0]);
}
