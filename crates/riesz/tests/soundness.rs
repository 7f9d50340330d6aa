//! Safe code cannot make the hot kernels read or write where they should not: what does not fit is refused by name.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic)]

use riesz::compute::{
    adjoint, apply, features, normal_equations, Activation, DenseBlock, Device, ExplicitBlock, FeatureBlock,
    Gram, GramRows, GramSample, GramScratch, Input, Path, StructuredBlock,
};
use riesz::data::Rows;
use riesz::distributions::kde::{log_kernel_sums, log_sums, Centres, Tolerance};
use riesz::kernel::{FeatureMap, KernelSpec, Scaling};
use riesz::random::{BlockIndex, Seed};
use riesz::{Error, Result};

const COLUMNS: usize = 3;
const FEATURES: usize = 64;
const ROWS: usize = 40;

fn dense() -> DenseBlock {
    DenseBlock {
        shift: vec![0.0; COLUMNS],
        input: Input::Plain,
        activation: Activation::Cosine,
        frequencies: vec![0.1; FEATURES * COLUMNS],
        phase: vec![0.2; FEATURES],
    }
}

fn structured() -> StructuredBlock {
    StructuredBlock {
        shift: vec![0.0; COLUMNS],
        scale: vec![1.0; COLUMNS],
        padded: 16,
        signs: vec![1.0; 3 * FEATURES],
        gain: vec![0.1; FEATURES],
        phase: vec![0.2; FEATURES],
    }
}

/// The message of an error that there must be.
fn refused<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_device_has_its_instructions() {
    let available = Device::available();
    assert!(available.contains(&Device::default()));
    assert_eq!(available[0].path(), Path::Portable);
    for path in [Path::Portable, Path::Avx2, Path::Avx512, Path::Amx] {
        match Device::with_path(path) {
            Ok(device) => assert!(device.path() == path && available.contains(&device)),
            Err(Error::Instructions { wanted, best }) => {
                assert!(wanted == path.to_string() && !best.is_empty())
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(Device::with_path(path).is_ok(), available.iter().any(|device| device.path() == path));
    }
}

#[test]
fn dense_blocks_fit_or_are_refused() {
    dense().build().unwrap();
    DenseBlock { phase: vec![0.0; 2 * FEATURES], ..dense() }.build().unwrap();
    let no = |block: DenseBlock, what: &str| {
        let message = refused(block.build());
        assert!(message.contains(what), "{message}");
    };
    no(DenseBlock { shift: vec![], ..dense() }, "one column");
    no(DenseBlock { frequencies: vec![0.1; FEATURES * COLUMNS - 1], ..dense() }, "phase has 64 numbers");
    no(
        DenseBlock { frequencies: vec![0.1; FEATURES * COLUMNS + 1], ..dense() },
        "frequencies has 193 numbers",
    );
    no(DenseBlock { phase: vec![0.0; 3 * FEATURES], ..dense() }, "phase has 192 numbers");
    no(DenseBlock { phase: vec![], ..dense() }, "multiples of 32");
    let of = |m: usize| DenseBlock { frequencies: vec![0.1; m * COLUMNS], phase: vec![0.0; m], ..dense() };
    [1, 16, 48, 65].into_iter().for_each(|m| no(of(m), "multiples of 32"));
}

#[test]
fn structured_blocks_fit_or_are_refused() {
    structured().build().unwrap();
    StructuredBlock { phase: vec![0.0; 2 * FEATURES], ..structured() }.build().unwrap();
    let no = |block: StructuredBlock, what: &str| {
        let message = refused(block.build());
        assert!(message.contains(what), "{message}");
    };
    no(StructuredBlock { shift: vec![], scale: vec![], ..structured() }, "one column");
    no(StructuredBlock { scale: vec![1.0; COLUMNS - 1], ..structured() }, "scale has 2 numbers, expected 3");
    for padded in [0, 2, 8, 17, 48] {
        no(StructuredBlock { padded, ..structured() }, "padded");
    }
    let (shift, scale) = (vec![0.0; 20], vec![1.0; 20]);
    no(StructuredBlock { shift, scale, ..structured() }, "padded = 16");
    no(StructuredBlock { signs: vec![1.0; 3 * FEATURES - 48], ..structured() }, "signs has 144 numbers");
    no(StructuredBlock { gain: vec![0.1; FEATURES - 16], ..structured() }, "phase has 64 numbers");
    no(StructuredBlock { gain: vec![], phase: vec![], ..structured() }, "multiples of 32");
    let of = |m: usize| StructuredBlock { gain: vec![0.1; m], phase: vec![0.0; m], ..structured() };
    [1, 16, 48].into_iter().for_each(|m| no(of(m), "multiples of 32"));
}

#[test]
fn explicit_blocks_have_whole_groups_of_features() {
    let of = |columns, m| ExplicitBlock::by_rows(columns, m, |_, out| out.fill(1.0));
    of(2, 32).unwrap();
    assert!(refused(of(0, 32)).contains("one column"));
    for m in [0, 8, 31, 48] {
        assert!(refused(of(2, m)).contains("multiples of 32"));
    }
}

fn blocks() -> [FeatureBlock; 3] {
    let explicit = ExplicitBlock::by_rows(COLUMNS, FEATURES, |_, out| out.fill(1.0));
    [dense().build().unwrap(), structured().build().unwrap(), explicit.unwrap()]
}

#[test]
fn arrays_that_do_not_fit_are_refused() {
    let (x, device) = (vec![0.5; ROWS * COLUMNS], Device::default());
    let rows = Rows::single(&x, COLUMNS).unwrap();
    let narrow = Rows::single(&x, 2).unwrap();
    for block in &blocks() {
        let mut phi = vec![0.0; ROWS * FEATURES];
        features(device, block, rows, &mut phi).unwrap();
        assert!(refused(features(device, block, narrow, &mut phi)).contains("expected 3 columns, found 2"));
        for length in [0, FEATURES, phi.len() - 1] {
            let message = refused(features(device, block, rows, &mut phi[..length]));
            assert!(message.contains(&format!("has {length} numbers, expected 2560")), "{message}");
        }
        let (a, mut out) = (vec![1.0; FEATURES * 2], vec![0.0; ROWS * 2]);
        apply(device, &[(block, &a)], rows, 2, &mut out).unwrap();
        assert!(refused(apply(device, &[(block, &a[1..])], rows, 2, &mut out)).contains("127 numbers"));
        assert!(refused(apply(device, &[(block, &a)], rows, 2, &mut out[1..])).contains("79 numbers"));
        assert!(refused(apply(device, &[(block, &a)], rows, 0, &mut [])).contains("outputs"));
        assert!(refused(apply(device, &[(block, &a)], narrow, 2, &mut vec![0.0; 120])).contains("columns"));
        let r = vec![1.0; ROWS * 2];
        adjoint(device, block, rows, &r, 2).unwrap();
        assert!(refused(adjoint(device, block, rows, &r[1..], 2)).contains("79 numbers, expected 80"));
        assert!(refused(adjoint(device, block, rows, &[], 0)).contains("outputs"));
        let equations = |residual: &[f32], weights: &[f32], rows| {
            let sample = GramSample::new(ROWS, ROWS, Seed(1), BlockIndex(0));
            let gram_rows = GramRows { weights, sample, chunk: 0 };
            let memory = (&mut Gram::default(), &mut GramScratch::default());
            normal_equations(device, block, rows, residual, gram_rows, memory)
        };
        let w = [1.0; ROWS];
        equations(&r, &w, rows).unwrap();
        assert!(refused(equations(&r, &w[1..], rows)).contains("the weights has 39 numbers"));
        assert!(refused(equations(&r[1..], &w, rows)).contains("the residuals"));
        assert!(refused(equations(&[], &w, rows)).contains("the residuals"));
        assert!(refused(equations(&r, &w, narrow)).contains("columns"));
    }
}

#[test]
fn a_gram_matrix_has_no_entries_beyond_its_own() {
    assert_eq!(Gram::default().entry(0, 0), None);
    let (x, w) = (vec![0.5; ROWS * COLUMNS], [1.0; ROWS]);
    let rows = Rows::single(&x, COLUMNS).unwrap();
    for device in Device::available() {
        let mut gram = Gram::default();
        let sample = GramSample::new(ROWS, ROWS, Seed(1), BlockIndex(0));
        let gram_rows = GramRows { weights: &w, sample, chunk: 0 };
        normal_equations(device, &blocks()[0], rows, &w, gram_rows, (&mut gram, &mut GramScratch::default()))
            .unwrap();
        assert!(gram.entry(FEATURES - 1, 3).is_some() && gram.entry(3, 40) == gram.entry(40, 3));
        assert_eq!([gram.entry(FEATURES, 0), gram.entry(0, FEATURES)], [None, None]);
    }
}

/// A feature map has public fields: whatever they are changed to, a draw is a sound block or an error.
#[test]
fn a_changed_feature_map_draws_nothing_unsound() {
    for columns in [2, 40] {
        let map =
            FeatureMap::new(KernelSpec::Gaussian, 1.0, 64, Seed(1), Scaling::identity(columns)).unwrap();
        let no = |change: &dyn Fn(&mut FeatureMap), what: &str| {
            let mut changed = map.clone();
            change(&mut changed);
            let message = refused(changed.draw(BlockIndex(0)));
            assert!(message.contains(what), "{message}");
        };
        no(&|map| map.block_size = 48, "block_size = 48");
        no(&|map| map.block_size = 0, "block_size = 0");
        no(&|map| map.bandwidth = 0.0, "bandwidth");
        no(&|map| map.scaling.scale.truncate(1), "the scale of the columns");
        no(&|map| map.scaling = Scaling::identity(0), "one column");
    }
}

#[test]
fn sums_of_kernels_take_arrays_that_fit() {
    let (c, w, q) = (vec![0.5; 300 * 3], vec![0.0; 300], vec![0.1; 70 * 3]);
    let no = |result: Result<()>, what: &str| {
        let message = refused(result);
        assert!(message.contains(what), "{message}");
    };
    let of = |c: &[f64], w: &[f64], d| Centres::new(c, w, d).map(|_| ());
    of(&c, &w, 3).unwrap();
    no(of(&c, &w, 0), "one column");
    no(of(&c, &w, 7), "expected 7 columns");
    no(of(&c[3..], &w, 3), "log_weights has 300 numbers, expected 299");
    no(of(&c, &w[1..], 3), "log_weights has 299 numbers, expected 300");
    for bad in [f64::NAN, f64::INFINITY] {
        let mut worse = (c.clone(), w.clone());
        (worse.0[4], worse.1[5]) = (bad, bad);
        no(of(&worse.0, &w, 3), "centres");
        no(of(&c, &worse.1, 3), "log_weights");
    }
    for device in Device::available() {
        let centres = Centres::new(&c, &w, 3).unwrap();
        for relative in [f64::NAN, f64::NEG_INFINITY, 0.0, 1e-6, f64::INFINITY] {
            for log_absolute in [f64::NAN, f64::NEG_INFINITY, f64::INFINITY] {
                let tolerance = Tolerance { relative, log_absolute };
                let sums =
                    |q: &[f64], out: usize| log_sums(device, &centres, q, tolerance, &mut vec![0.0; out]);
                sums(&q, 70).unwrap();
                no(sums(&q, 69), "the array for the sums has 69 numbers, expected 70");
                no(sums(&q, 71), "the array for the sums has 71 numbers");
                no(sums(&q[1..], 69), "columns");
                no(sums(&[f64::NAN; 3], 1), "queries");
            }
        }
    }
    log_kernel_sums(&q, &c, &w, 3, &mut [0.0; 70]).unwrap();
    no(log_kernel_sums(&q, &c, &w, 3, &mut [0.0; 7]), "the array for the sums");
}
