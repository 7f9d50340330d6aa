//! What bases are, and that files keep them.

use super::*;
use crate::kernel::{KernelSpec, Scaling};
use crate::model::Container;
use crate::random::Seed;

fn filled(basis: &Basis, x: &[f32]) -> Vec<f32> {
    let mut out = vec![f32::NAN; x.len() / basis.columns() * basis.len()];
    basis.fill(x, &mut out).unwrap();
    out
}

/// A file may ask for any number of columns: what cannot be is refused before it is counted with.
#[test]
fn numbers_of_columns_are_bounded() {
    for columns in [0, MOST + 1, usize::MAX] {
        assert!(Basis::columns_of(columns).is_err());
        let mut container = Container::new("basis");
        container.set_field("f", &(serde_json::json!({"columns": {"columns": columns}}), true)).unwrap();
        assert!(Basis::restore(&mut container, "f").is_err());
    }
}

#[test]
fn each_basis_has_the_values_it_names() {
    let table = Basis::table(3).unwrap();
    assert_eq!(filled(&table, &[2.0, 0.0]), [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    assert_eq!(filled(&table.clone().with_intercept(), &[1.0]), [0.0, 1.0, 0.0, 1.0]);
    assert_eq!(filled(&table.per_action(2).unwrap(), &[2.0, 1.0]), [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    let columns = Basis::columns_of(2).unwrap();
    assert_eq!(filled(&columns, &[4.0, 5.0]), [4.0, 5.0]);
    let joined = Basis::joined(vec![columns.clone().with_intercept(), columns]).unwrap();
    assert_eq!(filled(&joined, &[4.0, 5.0, 6.0, 7.0]), [4.0, 5.0, 1.0, 4.0, 5.0, 6.0, 7.0, 1.0, 6.0, 7.0]);
    let kernel = ClosedForm::new(KernelSpec::Gaussian, 2.0, Scaling::identity(1)).unwrap();
    // Orthonormal: the products of ψ at two atoms are the kernel there.
    let basis = Basis::atoms(kernel, &[0.0, 2.0]).unwrap();
    let psi = filled(&basis, &[0.0, 2.0]);
    let dot = |i: usize, j: usize| psi[2 * i] * psi[2 * j] + psi[2 * i + 1] * psi[2 * j + 1];
    assert!((dot(0, 0) - 1.0).abs() < 1e-5 && (dot(0, 1) - (-0.5_f32).exp()).abs() < 1e-5);
}

/// Rows have the same functions however many come with them, also more than a tile of them.
#[test]
fn rows_do_not_depend_on_others() {
    let map = FeatureMap::new(KernelSpec::Gaussian, 0.7, 64, Seed(3), Scaling::identity(1)).unwrap();
    let basis = Basis::features(map).unwrap().with_intercept();
    let x: Vec<f32> = (0..3_000).map(|i| i as f32 / 1e3).collect();
    let apart: Vec<f32> = x.chunks(700).flat_map(|x| filled(&basis, x)).collect();
    assert_eq!(filled(&basis, &x), apart);
}

/// A basis comes out of a file as it went in.
#[test]
fn bases_are_stored() {
    let map = FeatureMap::new(KernelSpec::Gaussian, 0.7, 64, Seed(3), Scaling::identity(2)).unwrap();
    let kernel = ClosedForm::new(KernelSpec::Laplacian, 2.0, Scaling::identity(2)).unwrap();
    let bases = [
        Basis::features(map).unwrap().with_intercept(),
        Basis::atoms(kernel, &[0.0, 2.0, 1.0, -1.0]).unwrap(),
        Basis::table(3).unwrap().per_action(2).unwrap(),
        Basis::columns_of(2).unwrap(),
        Basis::joined(vec![Basis::columns_of(2).unwrap(), Basis::columns_of(2).unwrap()]).unwrap(),
    ];
    for basis in bases {
        let mut container = Container::new("model");
        basis.store(&mut container, "basis").unwrap();
        let again = Basis::restore(&mut container, "basis").unwrap();
        let x = [1.0, 0.0, 0.0, 1.0];
        assert_eq!(filled(&again, &x), filled(&basis, &x));
    }
}

/// ⟨ψ(x), ψ(y)⟩ = k(x, y) on average: with 4,096 features the deviation is at most 1/√4,096.
#[test]
fn products_of_features_are_the_kernel() {
    let map = FeatureMap::new(KernelSpec::Gaussian, 1.0, 4_096, Seed(3), Scaling::identity(2)).unwrap();
    let basis = Basis::features(map).unwrap();
    let psi = filled(&basis, &[0.0, 0.0, 0.6, -0.8]);
    let dot: f32 = psi[..4_096].iter().zip(&psi[4_096..]).map(|(a, b)| a * b).sum();
    assert!((dot - (-0.5_f32).exp()).abs() < 5.0 / 64.0, "{dot}");
}

/// ψ = Tψ₀: values θᵀψ are (Tᵀθ)ᵀψ₀, for atoms, with a constant and for each action.
#[test]
fn plain_features_have_the_same_span() {
    let kernel = ClosedForm::new(KernelSpec::Gaussian, 1.0, Scaling::identity(1)).unwrap();
    let atoms = Basis::atoms(kernel, &[0.0, 1.0, 2.5]).unwrap().with_intercept();
    let joined = Basis::joined(vec![Basis::columns_of(1).unwrap(), atoms.clone()]).unwrap();
    let per_action = atoms.clone().per_action(2).unwrap();
    for (basis, x) in [(atoms, vec![0.3]), (per_action, vec![0.3, 1.0]), (joined, vec![0.3])] {
        let m = basis.len();
        let theta = Mat::from_fn(m, 1, |i, _| 1.0 + i as f64);
        let mut plain = vec![0.0; m];
        basis.fill_plain(&x, &mut plain).unwrap();
        let dot = |psi: &[f32], theta: &Mat<f64>| -> f64 {
            psi.iter().zip(theta.col_as_slice(0)).map(|(psi, theta)| f64::from(*psi) * theta).sum()
        };
        let (whole, found) = (dot(&filled(&basis, &x), &theta), dot(&plain, &basis.transposed(&theta)));
        assert!((whole - found).abs() < 1e-5, "{whole} {found}");
        let psi = Mat::from_fn(m, 1, |i, _| f64::from(plain[i]));
        let again: f64 =
            basis.transformed(&psi).col_as_slice(0).iter().zip(1..).map(|(psi, k)| psi * f64::from(k)).sum();
        assert!((whole - again).abs() < 1e-5, "{whole} {again}");
    }
}

/// ψᵀw = 1 for the coefficients w of the function one; without the constants the other functions are the same.
#[test]
fn constants_are_found_and_left_out() {
    let linear = Basis::columns_of(2).unwrap();
    assert!(linear.one().is_none());
    let basis = linear.clone().with_intercept().per_action(2).unwrap();
    let x = [0.5, -1.0, 1.0];
    for (basis, x) in [(&basis, &x[..]), (&Basis::table(3).unwrap(), &[2.0][..])] {
        let sum: f64 =
            filled(basis, x).iter().zip(basis.one().unwrap()).map(|(a, w)| f64::from(*a) * w).sum();
        assert_eq!(sum, 1.0);
    }
    let (inner, places) = basis.without_intercept();
    assert_eq!(places, [0, 1, 3, 4]);
    let whole = filled(&basis, &x);
    assert_eq!(filled(&inner, &x), places.iter().map(|&place| whole[place]).collect::<Vec<_>>());
}

#[test]
fn states_that_do_not_exist_are_refused() {
    let mut out = [0.0; 3];
    for x in [3.0, -1.0, 0.5, f32::NAN] {
        let error = Basis::table(3).unwrap().fill(&[x], &mut out).unwrap_err();
        assert!(error.to_string().contains("state"), "{error}");
    }
    assert!(Basis::table(0).is_err() && Basis::columns_of(0).is_err() && Basis::joined(vec![]).is_err());
    assert!(Basis::table(3).unwrap().fill(&[1.0], &mut out[..2]).is_err());
}

/// Batches are told apart by their rows, whichever were asked for before; small ones are computed once.
#[test]
fn recent_batches_are_kept_and_not_confused() {
    let kernel = ClosedForm::new(KernelSpec::Gaussian, 1.0, Scaling::identity(1)).unwrap();
    let basis = Basis::atoms(kernel, &[0.0, 1.0, 2.5]).unwrap().with_intercept();
    let batch = |k: usize| [k as f32 / 4.0, 1.0 - k as f32];
    for k in (0..20).chain((0..20).rev()).chain([3, 3, 4, 3]) {
        let mut fresh = vec![0.0; 2 * basis.len()];
        basis.fill_plain(&batch(k), &mut fresh).unwrap();
        assert_eq!(*basis.plain(&batch(k)).unwrap(), fresh[..], "{k}");
    }
    let again = basis.clone().plain(&batch(3)).unwrap();
    assert!(Arc::ptr_eq(&again, &basis.plain(&batch(3)).unwrap()));
}
