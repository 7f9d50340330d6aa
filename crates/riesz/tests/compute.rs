//! Laws of the hot kernels, on every instruction path of this machine and every shape: features are their definition,
//! the products are products, the Gram matrix is Φᵀ W Φ, and neither threads nor chunks change a bit.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;
use riesz::compute::{
    adjoint, apply, features, Activation, DenseBlock, Device, FeatureBlock, Gram, GramRows, GramSample,
    GramScratch, Input, Path, StructuredBlock,
};
use riesz::data::Rows;
use riesz::random::{uniform, Address, BlockIndex, Seed, Stream};
use std::f64::consts::{PI, SQRT_2};

/// Unit roundoff of single precision.
const ROUNDOFF: f64 = 1.0 / 16_777_216.0;

/// `n` numbers, uniform on [−1, 1).
fn numbers(seed: u64, purpose: u64, n: usize) -> Vec<f32> {
    let words = |i| Address::new(Seed(seed), Stream::Synthetic, BlockIndex(purpose), i).words(0);
    (0..n.div_ceil(4) as u32).flat_map(words).take(n).map(|w| 2.0 * uniform(w) - 1.0).collect()
}

/// The shape of one random test.
#[derive(Clone, Debug)]
struct Case {
    rows: usize,
    columns: usize,
    features: usize,
    outputs: usize,
    structured: bool,
    paired: bool,
    seed: u64,
}

/// Rows and columns around the multiples of sixteen lanes and of a tile of 1,024 rows; features around a panel of 256.
fn cases() -> impl Strategy<Value = Case> {
    let rows = prop_oneof![1..70_usize, select(vec![1_008, 1_023, 1_024, 1_025, 1_040, 1_500, 2_061])];
    let columns = prop_oneof![1..40_usize, 40..200_usize];
    let outputs = select(vec![1, 2, 3, 4, 5, 7, 10, 11, 23]);
    let shape = (rows, columns, select(vec![64, 128, 320]), outputs);
    (shape, any::<bool>(), any::<bool>(), any::<u64>()).prop_map(|(shape, structured, paired, seed)| {
        let (rows, columns, features, outputs) = shape;
        Case { rows, columns, features, outputs, structured, paired, seed }
    })
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

impl Case {
    fn numbers(&self, purpose: u64, n: usize) -> Vec<f32> {
        numbers(self.seed, purpose, n)
    }

    /// Data away from zero, as the shift of a block should see them.
    fn x(&self) -> Vec<f32> {
        self.numbers(0, self.rows * self.columns).iter().map(|v| 2.0 * v + 0.7).collect()
    }

    /// Phases in half turns: uniform on two of them, or cosines and sines.
    fn phase(&self) -> Vec<f32> {
        let m = self.features;
        match self.paired {
            true => (0..m).map(|i| if i < m / 2 { 0.0 } else { -0.5 }).collect(),
            false => self.numbers(1, m).iter().map(|v| v + 1.0).collect(),
        }
    }

    fn block(&self) -> FeatureBlock {
        match self.parts() {
            Parts::Dense(block) => block.build().unwrap(),
            Parts::Structured(block) => block.build().unwrap(),
        }
    }

    /// A block whose arguments range over a few half turns.
    fn parts(&self) -> Parts {
        let d = self.columns;
        let frequencies = if self.paired { self.features / 2 } else { self.features };
        let shift: Vec<f32> = self.numbers(2, d).iter().map(|v| v + 0.7).collect();
        if !self.structured {
            let size = 3.0 / (d as f32).sqrt();
            let values = self.numbers(3, frequencies * d).iter().map(|v| size * v).collect();
            let (input, activation) = (Input::Plain, Activation::Cosine);
            let phase = self.phase();
            return Parts::Dense(DenseBlock { shift, input, activation, frequencies: values, phase });
        }
        let padded = d.next_power_of_two().max(16);
        let copies = frequencies.div_ceil(padded);
        let unit = 2.0 / (padded as f32 * (d as f32).sqrt());
        Parts::Structured(StructuredBlock {
            shift,
            scale: self.numbers(4, d).iter().map(|v| 1.0 + 0.5 * v).collect(),
            padded,
            signs: self.numbers(5, 3 * padded * copies).iter().map(|v| v.signum()).collect(),
            gain: self.numbers(6, frequencies).iter().map(|v| unit * (1.5 + v)).collect(),
            phase: self.phase(),
        })
    }

    fn describe(&self, device: Device) -> String {
        format!("{device}, {self:?}")
    }
}

/// What a block is built from.
enum Parts {
    Dense(DenseBlock),
    Structured(StructuredBlock),
}

/// The frequencies of a block as one explicit matrix, one row of d numbers each.
fn frequencies(block: &Parts) -> Vec<f64> {
    let block = match block {
        Parts::Dense(block) => return block.frequencies.iter().map(|&v| f64::from(v)).collect(),
        Parts::Structured(block) => block,
    };
    let (size, d) = (block.padded, block.shift.len());
    // H_ij = (−1)^{number of common binary digits of i and j}.
    let signed_hadamard = |signs: &[f32], v: &[f64]| -> Vec<f64> {
        let entry = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
        (0..size).map(|i| (0..size).map(|j| entry(i, j) * f64::from(signs[j]) * v[j]).sum()).collect()
    };
    let mut out = vec![0.0; block.gain.len() * d];
    for (copy, signs) in block.signs.chunks_exact(3 * size).enumerate() {
        for j in 0..d {
            let mut column = vec![0.0; size];
            column[j] = f64::from(block.scale[j]);
            // D₃ acts first.
            for signs in signs.chunks_exact(size) {
                column = signed_hadamard(signs, &column);
            }
            for (i, v) in column.iter().enumerate().take(block.gain.len().saturating_sub(copy * size)) {
                out[(copy * size + i) * d + j] = v * f64::from(block.gain[copy * size + i]);
            }
        }
    }
    out
}

/// √2 cos π(⟨ω, x − shift⟩ + b) in double precision, n×m, and the sizes Σ_j |ω_j (x_j − shift_j)| of the arguments.
fn reference(block: &Parts, x: &[f32]) -> (Vec<f64>, Vec<f64>) {
    let (shift, phase) = match block {
        Parts::Dense(block) => (&block.shift, &block.phase),
        Parts::Structured(block) => (&block.shift, &block.phase),
    };
    let (d, omega) = (shift.len(), frequencies(block));
    let (mut phi, mut sizes) = (Vec::new(), Vec::new());
    for row in x.chunks_exact(d) {
        let centred: Vec<f64> = row.iter().zip(shift).map(|(v, s)| f64::from(*v) - f64::from(*s)).collect();
        let products: Vec<(f64, f64)> = omega
            .chunks_exact(d)
            .map(|omega| {
                omega
                    .iter()
                    .zip(&centred)
                    .fold((0.0, 0.0), |(sum, size), (w, v)| (sum + w * v, size + (w * v).abs()))
            })
            .collect();
        for (i, b) in phase.iter().enumerate() {
            let (t, size) = products[i % products.len()];
            phi.push(SQRT_2 * (PI * (t + f64::from(*b))).cos());
            sizes.push(size);
        }
    }
    (phi, sizes)
}

/// Φ as the machine computes it.
fn machine_features(device: Device, block: &FeatureBlock, rows: Rows<'_>) -> Vec<f32> {
    let mut phi = vec![f32::NAN; rows.len() * block.features()];
    features(device, block, rows, &mut phi).unwrap();
    phi
}

/// Σ a b and Σ |a b|.
fn dot(pairs: impl Iterator<Item = (f32, f32)>) -> (f64, f64) {
    pairs.map(|(a, b)| f64::from(a) * f64::from(b)).fold((0.0, 0.0), |(s, t), v| (s + v, t + v.abs()))
}

proptest! {
    #![proptest_config(config(40))]

    /// The rounding errors of an argument t of half turns are a random walk of at most u·size each, of which the
    /// derivative √2π of the cosine makes 4.5 u·size; 8 of those, and 3e-7 for the polynomial.
    #[test]
    fn features_are_their_definition(case in cases()) {
        let (x, block) = (case.x(), case.block());
        let rows = Rows::single(&x, case.columns).unwrap();
        let (expected, sizes) = reference(&case.parts(), &x);
        for device in Device::available() {
            let phi = machine_features(device, &block, rows);
            for (i, (value, expected)) in phi.iter().zip(&expected).enumerate() {
                let error = (f64::from(*value) - expected).abs();
                let bound = 3e-7 + 8.0 * 4.5 * ROUNDOFF * (2.0 + sizes[i]);
                prop_assert!(error <= bound, "{}: {error:e} > {bound:e} at {i}", case.describe(device));
            }
        }
    }
}

proptest! {
    #![proptest_config(config(40))]

    /// Sums of k products in single precision err by at most (k + 2) u Σ|ab|, whatever their order; the features
    /// are the very same numbers in all products of a path.
    #[test]
    fn products_are_products_and_adjoint_to_each_other(case in cases()) {
        let (x, block, m, c) = (case.x(), case.block(), case.features, case.outputs);
        let rows = Rows::single(&x, case.columns).unwrap();
        let (a, r) = (case.numbers(7, m * c), case.numbers(8, case.rows * c));
        for device in Device::available() {
            let phi = machine_features(device, &block, rows);
            let mut f = vec![0.25; case.rows * c];
            // Twice the block, with coefficients A and −3A: F = ¼ − 2ΦA.
            let other: Vec<f32> = a.iter().map(|v| -3.0 * v).collect();
            apply(device, &[(&block, &a), (&block, &other)], rows, c, &mut f).unwrap();
            let g = adjoint(device, &block, rows, &r, c).unwrap();
            let (mut left, mut right, mut slack) = (0.0, 0.0, 0.0);
            for k in 0..c {
                for i in 0..case.rows {
                    let (sum, size) = dot((0..m).map(|j| (phi[i * m + j], a[j * c + k])));
                    let error = (f64::from(f[i * c + k]) - (0.25 - 2.0 * sum)).abs();
                    let bound = ROUNDOFF * (4.0 * (m + 2) as f64 * size + 1.0);
                    prop_assert!(error <= bound, "ΦA, {}: {error:e} > {bound:e}", case.describe(device));
                    left += 0.5 * (0.25 - f64::from(f[i * c + k])) * f64::from(r[i * c + k]);
                    slack += bound * f64::from(r[i * c + k]).abs();
                }
                for j in 0..m {
                    let (sum, size) = dot((0..case.rows).map(|i| (phi[i * m + j], r[i * c + k])));
                    let error = (f64::from(g[k * m + j]) - sum).abs();
                    let bound = ROUNDOFF * (case.rows.min(1_024) + 2) as f64 * size;
                    prop_assert!(error <= bound, "ΦᵀR, {}: {error:e} > {bound:e}", case.describe(device));
                    right += f64::from(g[k * m + j]) * f64::from(a[j * c + k]);
                    slack += bound * f64::from(a[j * c + k]).abs();
                }
            }
            prop_assert!((left - right).abs() <= slack, "{}: {left} vs {right}", case.describe(device));
        }
    }
}

/// √w φ as it enters the Gram matrix: in single precision, or rounded to bfloat16 (8 bits, ties to even).
fn rounded(device: Device, value: f32) -> f32 {
    if device.path() != Path::Amx {
        return value;
    }
    let bits = value.to_bits();
    f32::from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000)
}

/// The row `i` of a Gram matrix.
fn gram_row(gram: &Gram, i: usize) -> Vec<f32> {
    (0..=i).map(|j| gram.entry(i, j).unwrap()).collect()
}

/// Weights of which a third are zero.
fn weights(seed: u64, n: usize) -> Vec<f32> {
    numbers(seed, 9, n).iter().map(|w| if *w < -0.33 { 0.0 } else { w + 0.5 }).collect()
}

/// Φᵀ R as `adjoint` returns it, and Φᵀ W Φ.
fn normal_equations(
    device: Device,
    block: &FeatureBlock,
    rows: Rows<'_>,
    residual: &[f32],
    gram_rows: GramRows<'_>,
    gram: &mut Gram,
) -> riesz::Result<Vec<f32>> {
    let memory = (gram, &mut GramScratch::default());
    let gradient = riesz::compute::normal_equations(device, block, rows, residual, gram_rows, memory)?;
    Ok(gradient.into_iter().map(|g| g as f32).collect())
}

/// The argument of `normal_equations`.
fn gram_rows(weights: &[f32], sample: GramSample, chunk: usize) -> GramRows<'_> {
    GramRows { weights, sample, chunk }
}

/// All rows of n.
fn everything(n: usize) -> GramSample {
    GramSample::new(n, n, Seed(0), BlockIndex(0))
}

proptest! {
    #![proptest_config(config(40))]

    /// G = Σ_i p_i p_iᵀ with p = √w φ. The products of bfloat16 numbers are exact, so both on the vector paths and
    /// on AMX only the n sums round: (n + 2) u Σ|pp'|. Against exact √w φ a bfloat16 of
    /// eight binary digits costs 2⁻⁸ each: (2⁻⁷ + 2⁻¹⁶) Σ|pp'|.
    #[test]
    fn the_gram_matrix_is_the_weighted_sum_of_outer_products(case in cases()) {
        let (x, block, m, n) = (case.x(), case.block(), case.features, case.rows);
        let rows = Rows::single(&x, case.columns).unwrap();
        let (w, r) = (weights(case.seed, n), case.numbers(8, n * case.outputs));
        for device in Device::available() {
            let phi = machine_features(device, &block, rows);
            let p: Vec<f32> = (0..n * m).map(|i| phi[i] * w[i / m].sqrt()).collect();
            let q: Vec<f32> = p.iter().map(|&v| rounded(device, v)).collect();
            let mut gram = Gram::default();
            let gradient = normal_equations(device, &block, rows, &r, gram_rows(&w, everything(n), 2_048), &mut gram).unwrap();
            prop_assert_eq!(gradient, adjoint(device, &block, rows, &r, case.outputs).unwrap());
            prop_assert_eq!(gram.features(), m);
            for i in [0, 1, 15, 16, 31, 32, 63, m / 2, m - 1] {
                for (j, &entry) in gram_row(&gram, i).iter().enumerate() {
                    let (sum, size) = dot((0..n).map(|k| (q[k * m + i], q[k * m + j])));
                    let (error, bound) = ((f64::from(entry) - sum).abs(), (n + 2) as f64 * ROUNDOFF * size);
                    prop_assert!(error <= bound, "({i}, {j}), {}: {error:e} > {bound:e}", case.describe(device));
                    let (exact, size) = dot((0..n).map(|k| (p[k * m + i], p[k * m + j])));
                    let coarse = if device.path() == Path::Amx { 1.01 * size / 128.0 } else { 0.0 };
                    prop_assert!((f64::from(entry) - exact).abs() <= bound + coarse, "{}", case.describe(device));
                }
            }
        }
    }
}

/// Rows without weight and residual are passed over, a whole tile of them too: what is left is the sum over the others.
#[test]
fn rows_without_a_say_are_passed_over() {
    for structured in [false, true] {
        let (rows, columns, features, outputs) = (3_100, 5, 64, 2);
        let case = Case { rows, columns, features, outputs, structured, paired: false, seed: 3 };
        let (x, block, n, m, c) = (case.x(), case.block(), rows, features, outputs);
        let rows = Rows::single(&x, columns).unwrap();
        let has_a_say = |i: usize| i >= 2_048 && i.is_multiple_of(3) || i < 1_024 && i % 7 == 2;
        let masked = |values: Vec<f32>, each: usize| -> Vec<f32> {
            values.iter().enumerate().map(|(i, &v)| if has_a_say(i / each) { v } else { 0.0 }).collect()
        };
        let (w, r) = (masked(weights(4, n), 1), masked(case.numbers(5, n * c), c));
        for device in Device::available() {
            let phi = machine_features(device, &block, rows);
            let mut gram = Gram::default();
            let gradient =
                normal_equations(device, &block, rows, &r, gram_rows(&w, everything(n), 2_048), &mut gram)
                    .unwrap();
            for i in 0..m {
                for k in 0..c {
                    let (sum, size) = dot((0..n).map(|row| (phi[row * m + i], r[row * c + k])));
                    assert!(
                        (f64::from(gradient[k * m + i]) - sum).abs() <= 1e-5 * size,
                        "{device}, feature {i}"
                    );
                }
                for (j, &entry) in gram_row(&gram, i).iter().enumerate() {
                    let (sum, size) = dot((0..n).map(|row| (w[row] * phi[row * m + i], phi[row * m + j])));
                    let bound = if device.path() == Path::Amx { size / 100.0 } else { 1e-5 * size };
                    assert!(
                        (f64::from(entry) - sum).abs() <= bound,
                        "{device}, ({i}, {j}): {entry} not {sum}"
                    );
                }
            }
        }
    }
}

/// The bits of everything the kernels compute for a case.
fn all_bits(device: Device, case: &Case, rows: Rows<'_>, chunk: usize, sample: GramSample) -> Vec<u32> {
    let (block, m, c) = (case.block(), case.features, case.outputs);
    let (w, r) = (weights(case.seed, case.rows), case.numbers(8, case.rows * c));
    let mut out = machine_features(device, &block, rows);
    let mut f = vec![0.0; case.rows * c];
    apply(device, &[(&block, &case.numbers(7, m * c))], rows, c, &mut f).unwrap();
    out.extend(f);
    out.extend(adjoint(device, &block, rows, &r, c).unwrap());
    let mut gram = Gram::default();
    out.extend(normal_equations(device, &block, rows, &r, gram_rows(&w, sample, chunk), &mut gram).unwrap());
    (0..m).for_each(|i| out.extend(gram_row(&gram, i)));
    out.iter().map(|v| v.to_bits()).collect()
}

/// Which kernel a difference in bits is in.
fn place(case: &Case, at: usize) -> &'static str {
    let sizes = [
        (case.rows * case.features, "features"),
        (case.rows * case.outputs, "apply"),
        (case.features * case.outputs, "adjoint"),
        (case.features * case.outputs, "gradient of normal_equations"),
    ];
    let mut start = 0;
    for (size, name) in sizes {
        start += size;
        if at < start {
            return name;
        }
    }
    "Gram matrix"
}

/// Several tiles with a ragged last one (more than the eight that a thread sums at a time), all rows and a third of them, dense and structured.
fn determinism_cases() -> Vec<(Case, GramSample)> {
    let case = |structured, rows, seed| Case {
        rows,
        columns: 37,
        features: 128,
        outputs: 3,
        structured,
        paired: structured,
        seed,
    };
    let mut all = Vec::new();
    for structured in [false, true] {
        for rows in [17_000, 4_096, 3_500] {
            for share in [1, 3] {
                let sample = GramSample::new(rows / share, rows, Seed(5), BlockIndex(2));
                all.push((case(structured, rows, rows as u64), sample));
            }
        }
    }
    all
}

#[test]
fn neither_threads_nor_chunks_nor_double_precision_input_change_a_bit() {
    for device in Device::available() {
        for (case, sample) in determinism_cases() {
            let x = case.x();
            let wide: Vec<f64> = x.iter().map(|&v| f64::from(v)).collect();
            let single = Rows::single(&x, case.columns).unwrap();
            let double = Rows::double(&wide, case.columns).unwrap();
            let run = |threads, rows, chunk| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| all_bits(device, &case, rows, chunk, sample))
            };
            let first = run(1, single, 4_096);
            for (threads, rows, chunk) in [
                (2, single, 4_096),
                (1, single, 1),
                (2, double, 1_024),
                (2, single, 2_048),
                (3, single, 1 << 20),
            ] {
                let other = run(threads, rows, chunk);
                let differs = first.iter().zip(&other).position(|(a, b)| a != b).map(|at| place(&case, at));
                assert_eq!(
                    differs,
                    None,
                    "{threads} threads, chunk {chunk}, {sample:?}, {}",
                    case.describe(device)
                );
            }
        }
    }
}

/// The features of a row are its own: alone, among a few and among many it gets the same bits.
#[test]
fn a_row_does_not_depend_on_its_company() {
    for device in Device::available() {
        for (columns, structured) in
            [(1, false), (7, false), (100, false), (300, false), (7, true), (100, true)]
        {
            let case =
                Case { rows: 1_200, columns, features: 128, outputs: 1, structured, paired: false, seed: 8 };
            let (x, block) = (case.x(), case.block());
            let rows = Rows::single(&x, columns).unwrap();
            let all = machine_features(device, &block, rows);
            for (start, end) in [(0, 1), (511, 512), (600, 602), (1_000, 1_033), (3, 700), (1_024, 1_200)] {
                let some = machine_features(device, &block, rows.slice(start..end));
                assert!(
                    some == all[start * 128..end * 128],
                    "rows {start} to {end}, {}",
                    case.describe(device)
                );
            }
        }
    }
}

/// Buffers are reused from block to block: what an earlier, larger problem left in them must not matter.
#[test]
fn a_used_gram_matrix_is_as_good_as_a_new_one() {
    for device in Device::available() {
        let mut used = Gram::default();
        for (case, sample) in determinism_cases() {
            let (x, block) = (case.x(), case.block());
            let rows = Rows::single(&x, case.columns).unwrap();
            let (w, r) = (weights(case.seed, case.rows), case.numbers(8, case.rows));
            let mut new = Gram::default();
            normal_equations(device, &block, rows, &r, gram_rows(&w, sample, 2_048), &mut new).unwrap();
            normal_equations(device, &block, rows, &r, gram_rows(&w, sample, 2_048), &mut used).unwrap();
            for i in 0..case.features {
                assert_eq!(
                    gram_row(&new, i),
                    gram_row(&used, i),
                    "row {i}, {sample:?}, {}",
                    case.describe(device)
                );
            }
        }
    }
}

/// What a row of weight zero contains is of no consequence, not even for the last bit.
#[test]
fn rows_of_weight_zero_do_not_enter() {
    for device in Device::available() {
        for (case, sample) in determinism_cases() {
            let (x, block, d) = (case.x(), case.block(), case.columns);
            let w = weights(case.seed, case.rows);
            let changed: Vec<f32> =
                x.iter().enumerate().map(|(i, &v)| if w[i / d] == 0.0 { 3.0 - v } else { v }).collect();
            let gram_of = |x: &[f32]| {
                let mut gram = Gram::default();
                let rows = Rows::single(x, d).unwrap();
                normal_equations(device, &block, rows, &w, gram_rows(&w, sample, 2_048), &mut gram).unwrap();
                (0..case.features).flat_map(|i| gram_row(&gram, i)).collect::<Vec<f32>>()
            };
            assert!(gram_of(&x) == gram_of(&changed), "{sample:?}, {}", case.describe(device));
        }
    }
}

/// The mean over many blocks' subsamples is the Gram matrix of all rows, within 4.5 standard errors of that mean
/// (estimated from the same subsamples; 6 entries on 3 shapes and at most 4 paths: one false alarm in 2,000 seeds).
#[test]
fn subsampled_gram_matrices_are_unbiased() {
    const BLOCKS: u64 = 400;
    for (rows, share) in [(1_500, 4), (2_900, 8), (1_034, 2)] {
        let case =
            Case { rows, columns: 2, features: 64, outputs: 1, structured: false, paired: false, seed: 3 };
        // Sorted rows: the runs of sixteen differ as much as they can.
        let mut x = case.x();
        x.sort_by(f32::total_cmp);
        let (block, data) = (case.block(), Rows::single(&x, 2).unwrap());
        let w = weights(case.seed, rows);
        for device in Device::available() {
            let mut gram = Gram::default();
            let mut entries = |sample: GramSample| {
                normal_equations(device, &block, data, &w, gram_rows(&w, sample, 2_048), &mut gram).unwrap();
                [(0, 0), (31, 31), (63, 63), (5, 2), (40, 7), (63, 62)]
                    .map(|(i, j)| f64::from(gram_row(&gram, i)[j]))
            };
            let full = entries(everything(rows));
            let draws: Vec<[f64; 6]> = (0..BLOCKS)
                .map(|b| entries(GramSample::new(rows / share, rows, Seed(11), BlockIndex(b))))
                .collect();
            for (k, full) in full.iter().enumerate() {
                let mean = draws.iter().map(|d| d[k]).sum::<f64>() / BLOCKS as f64;
                let variance = draws.iter().map(|d| (d[k] - mean).powi(2)).sum::<f64>() / (BLOCKS - 1) as f64;
                let z = (mean - full) / (variance / BLOCKS as f64).sqrt();
                assert!(
                    variance > 0.0 && z.abs() < 4.5,
                    "{device}, n = {rows}, entry {k}: {mean} vs {full}, z = {z}"
                );
            }
        }
    }
}
