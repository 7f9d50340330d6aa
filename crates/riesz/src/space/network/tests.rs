use super::*;

const COLUMNS: usize = 3;
const OUTPUTS: usize = 2;

fn config(hidden: &[usize], nonlinearity: Nonlinearity, optimiser: Optimiser) -> NetworkConfig {
    NetworkConfig { hidden: hidden.to_vec(), nonlinearity, optimiser }
}

fn scaling() -> Scaling {
    Scaling { shift: vec![0.5, -0.25, 0.125], scale: vec![1.5, 0.5, 2.0] }
}

fn network(hidden: &[usize], nonlinearity: Nonlinearity, optimiser: Optimiser) -> Network {
    let mut f = config(hidden, nonlinearity, optimiser).build(scaling(), vec![0.5, -1.0], Seed(11)).unwrap();
    // Biases that are not zero.
    f.theta.iter_mut().enumerate().for_each(|(i, theta)| *theta += 0.1 * (i as f32 * 1.7).sin());
    f
}

fn numbers(count: usize, frequency: f64) -> Vec<f32> {
    (0..count).map(|i| (1.3 * (frequency * (i + 1) as f64).sin()) as f32).collect()
}

/// f(x) in double precision, and how near a hidden value comes to the kink of a(z) = max(0, z).
fn textbook(f: &Network, theta: &[f64], x: &[f32]) -> (Vec<f64>, f64) {
    let Scaling { shift, scale } = f.scaling();
    let wide = |v: &[f32]| v.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
    let scaled = wide(x).into_iter().zip(wide(shift)).zip(wide(scale));
    let mut a: Vec<f64> = scaled.map(|((x, shift), scale)| (x - shift) * scale).collect();
    let widths = [&f.config.hidden[..], &[f.outputs()]].concat();
    let (mut start, mut nearest) = (0, f64::INFINITY);
    for (l, &outputs) in widths.iter().enumerate() {
        let (weights, bias) = theta[start..start + (a.len() + 1) * outputs].split_at(a.len() * outputs);
        let mut z: Vec<f64> = weights
            .chunks_exact(a.len())
            .zip(bias)
            .map(|(row, b)| b + row.iter().zip(&a).map(|(w, a)| w * a).sum::<f64>())
            .collect();
        start += (a.len() + 1) * outputs;
        if l + 1 < widths.len() {
            nearest = z.iter().fold(nearest, |least, z| least.min(z.abs()));
            z.iter_mut().for_each(|z| match f.config.nonlinearity {
                Nonlinearity::Tanh => *z = z.tanh(),
                Nonlinearity::Relu => *z = z.max(0.0),
            });
        }
        a = z;
    }
    assert_eq!(start, theta.len());
    (a.iter().zip(f.offset()).map(|(a, offset)| a + f64::from(*offset)).collect(), nearest)
}

/// Relative rounding of single precision.
const UNIT: f64 = f32::EPSILON as f64 / 2.0;

/// ∂/∂θ_k of Σ_i w_iᵀ f(x_i) by central differences in double precision, whose own error is about 10⁻¹⁰, and the sum
/// of the sizes of its terms.
fn differences(f: &Network, x: &[f32], weights: &[f32]) -> Vec<(f64, f64)> {
    const STEP: f64 = 1e-5;
    let theta: Vec<f64> = f.theta.iter().map(|&v| f64::from(v)).collect();
    let slope = |k: usize, (x, w): (&[f32], &[f32])| {
        let at = |sign: f64| {
            let mut theta = theta.clone();
            theta[k] += sign * STEP;
            let (values, nearest) = textbook(f, &theta, x);
            assert!(
                nearest > 1e-4 || f.config.nonlinearity == Nonlinearity::Tanh,
                "a kink is near: {nearest}"
            );
            values
        };
        let pairs = at(1.0).into_iter().zip(at(-1.0)).zip(w);
        pairs.map(|((up, down), &w)| f64::from(w) * (up - down) / (2.0 * STEP)).collect::<Vec<_>>()
    };
    let sums = |k: usize| {
        let rows = x.chunks_exact(COLUMNS).zip(weights.chunks_exact(OUTPUTS));
        let slopes: Vec<f64> = rows.flat_map(|row| slope(k, row)).collect();
        (slopes.iter().sum(), slopes.iter().map(|s| s.abs()).sum())
    };
    (0..theta.len()).map(sums).collect()
}

/// Every parameter, both nonlinearities, several depths, several outputs, several terms at once in single and double
/// precision and of more than one tile.
#[test]
fn gradients_are_those_of_central_differences() {
    let (x, w) = (numbers(COLUMNS * 75, 0.71), numbers(OUTPUTS * 75, 1.37));
    let (few, many) = (5, 70);
    let wide: Vec<f64> = x[few * COLUMNS..].iter().map(|&v| f64::from(v)).collect();
    let terms = [
        Terms::new(Rows::single(&x[..few * COLUMNS], COLUMNS).unwrap(), &w[..few * OUTPUTS]),
        Terms::new(Rows::double(&wide, COLUMNS).unwrap(), &w[few * OUTPUTS..]),
    ];
    assert!(many > ROWS);
    for nonlinearity in [Nonlinearity::Tanh, Nonlinearity::Relu] {
        for hidden in [&[][..], &[4], &[5, 3], &[3, 4, 2]] {
            let f = network(hidden, nonlinearity, Optimiser::Sgd);
            let expected = differences(&f, &x, &w);
            let found = f.gradient(&terms).unwrap();
            assert_eq!(found.len(), expected.len());
            // A product of a few factors, each with some ten roundings, and 64 additions in single precision.
            let size = expected.iter().fold(0.0_f64, |most, (_, size)| most.max(*size));
            for (k, (found, (expected, _))) in found.iter().zip(&expected).enumerate() {
                let error = (found - expected).abs();
                assert!(
                    error < 128.0 * UNIT * size,
                    "{nonlinearity:?} {hidden:?} {k}: {found} {expected} of {size}"
                );
            }
        }
    }
}

#[test]
fn values_are_those_of_the_textbook_and_the_offset_is_apart() {
    let x = numbers(COLUMNS * 150, 0.77);
    for nonlinearity in [Nonlinearity::Tanh, Nonlinearity::Relu] {
        let f = network(&[6, 5], nonlinearity, Optimiser::Sgd);
        let theta: Vec<f64> = f.theta.iter().map(|&v| f64::from(v)).collect();
        let mut values = vec![0.0; 150 * OUTPUTS];
        f.evaluate(Rows::single(&x, COLUMNS).unwrap(), &mut values).unwrap();
        for (x, values) in x.chunks_exact(COLUMNS).zip(values.chunks_exact(OUTPUTS)) {
            for (value, expected) in values.iter().zip(textbook(&f, &theta, x).0) {
                assert!((f64::from(*value) - expected).abs() < 64.0 * UNIT * 4.0, "{value} {expected}");
            }
        }
    }
}

/// A row has the same value whatever it comes with.
#[test]
fn a_row_does_not_depend_on_the_others() {
    for hidden in [&[][..], &[1], &[40, 33]] {
        let f = network(hidden, Nonlinearity::Tanh, Optimiser::Sgd);
        let x = numbers(COLUMNS * 150, 0.77);
        let mut all = vec![0.0; 150 * OUTPUTS];
        f.evaluate(Rows::single(&x, COLUMNS).unwrap(), &mut all).unwrap();
        for i in 0..150 {
            let mut one = vec![0.0; OUTPUTS];
            f.evaluate(Rows::single(&x[i * COLUMNS..(i + 1) * COLUMNS], COLUMNS).unwrap(), &mut one).unwrap();
            assert_eq!(one, all[i * OUTPUTS..(i + 1) * OUTPUTS], "{hidden:?} {i}");
        }
    }
}

/// Weights are uniform on ±√(6/(inputs + outputs)), of another layer others; biases are zero.
#[test]
fn first_weights_are_those_of_glorot() {
    let settings = config(&[60, 60], Nonlinearity::Tanh, Optimiser::ADAM);
    let f = settings.clone().build(scaling(), vec![0.0], Seed(1)).unwrap();
    let mut all = Vec::new();
    for (l, (inputs, outputs, range)) in f.layers.weights().enumerate() {
        let bound = (6.0 / (inputs + outputs) as f32).sqrt();
        let weights = &f.theta[range.clone()];
        assert!(weights.iter().all(|w| w.abs() < bound) && weights.iter().any(|w| w.abs() > 0.9 * bound));
        assert!(f.theta[range.end..range.end + outputs].iter().all(|&b| b == 0.0));
        if l == 1 {
            // 3,600 draws: five deviations of mean and second moment.
            let mean = weights.iter().sum::<f32>() / bound / 3_600.0;
            let square = weights.iter().map(|w| (w / bound).powi(2)).sum::<f32>() / 3_600.0;
            assert!(mean.abs() < 0.05 && (square - 1.0 / 3.0).abs() < 0.025, "{mean} {square}");
        }
        all.push(weights[..8].iter().map(|w| w / bound).collect::<Vec<_>>());
    }
    assert!((all[0][0] - all[1][0]).abs() > 1e-3 && (all[1][0] - all[2][0]).abs() > 1e-3);
    assert_eq!(f.theta, settings.clone().build(scaling(), vec![0.0], Seed(1)).unwrap().theta);
    assert!(f.theta != settings.build(scaling(), vec![0.0], Seed(2)).unwrap().theta);
}

/// Kingma and Ba's algorithm 1 in double precision, upwards, over 20 steps; and plain steps.
#[test]
fn steps_are_those_of_the_textbook() {
    let (x, w) = (numbers(COLUMNS * 9, 0.71), numbers(OUTPUTS * 9, 1.37));
    let (size, ridge, beta1, beta2, epsilon) = (0.02, 0.3, 0.8, 0.95, 1e-3);
    for optimiser in [Optimiser::Sgd, Optimiser::Adam { beta1, beta2, epsilon }] {
        let mut f = network(&[4], Nonlinearity::Tanh, optimiser);
        let (mut m, mut v) = (vec![0.0; f.theta.len()], vec![0.0; f.theta.len()]);
        for t in 1..=20 {
            // Other weights in every step, so that moments and gradients are not in proportion.
            let w: Vec<f32> = w.iter().enumerate().map(|(i, w)| w * ((i * t) as f32).cos()).collect();
            let terms = [Terms::new(Rows::single(&x, COLUMNS).unwrap(), &w)];
            let (before, g) = (f.theta.clone(), f.gradient(&terms).unwrap());
            f.step(size, ridge, &terms).unwrap();
            for k in 0..g.len() {
                let g = g[k] - ridge * f64::from(before[k]);
                m[k] = beta1 * m[k] + (1.0 - beta1) * g;
                v[k] = beta2 * v[k] + (1.0 - beta2) * g * g;
                let (m, v) = (m[k] / (1.0 - beta1.powi(t as i32)), v[k] / (1.0 - beta2.powi(t as i32)));
                let step = if optimiser == Optimiser::Sgd { g } else { m / (v.sqrt() + epsilon) };
                let expected = f64::from(before[k]) + size * step;
                // θ is rounded once; moments are rounded in every step, and 1/(1 − β) steps are remembered.
                let error = (f64::from(f.theta[k]) - expected).abs();
                let rounding = UNIT * (f64::from(f.theta[k]).abs() + 20.0 * size * step.abs().max(1.0));
                assert!(error <= rounding, "{optimiser:?}, step {t}, parameter {k}: {error} {rounding}");
            }
        }
        assert_eq!(f.steps, 20);
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let (x, w) = (numbers(COLUMNS * 1_000, 0.71), numbers(OUTPUTS * 1_000, 1.37));
    let learn = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut f = network(&[20, 30], Nonlinearity::Tanh, Optimiser::ADAM);
            let rows = Rows::single(&x, COLUMNS).unwrap();
            for _ in 0..5 {
                f.step(0.01, 0.1, &[Terms::new(rows, &w), Terms::new(rows.slice(0..500), &w[..1_000])])
                    .unwrap();
            }
            let mut values = vec![0.0; w.len()];
            f.evaluate(rows, &mut values).unwrap();
            (f.theta, values)
        })
    };
    let one = learn(1);
    for threads in [2, 3] {
        assert_eq!(one, learn(threads), "{threads} threads");
    }
}

/// A network through the parts of a file takes the same steps, by every optimiser and average.
#[test]
fn parts_make_the_same_network() {
    let (x, w) = (numbers(COLUMNS * 9, 0.71), numbers(OUTPUTS * 9, 1.37));
    let terms = [Terms::new(Rows::single(&x, COLUMNS).unwrap(), &w)];
    let rules = [Averaging::Power(0.0), Averaging::StepSize, Averaging::Tail, Averaging::LastHalf(7)];
    for (optimiser, rule) in rules.iter().flat_map(|rule| [(Optimiser::Sgd, *rule), (Optimiser::ADAM, *rule)])
    {
        let mut f = network(&[4, 5], Nonlinearity::Relu, optimiser).averaging(rule);
        for t in 1..8 {
            let parts = f.parts();
            let mut read: NetworkParts =
                serde_json::from_str(&serde_json::to_string(&parts).unwrap()).unwrap();
            assert!(read.parameters.is_empty());
            (read.parameters, read.moments) = (parts.parameters.clone(), parts.moments.clone());
            read.average.clone_from(&parts.average);
            assert_eq!(read, parts);
            let mut copy = Network::from_parts(scaling(), f.offset().to_vec(), read).unwrap();
            f.step(0.1 / f64::from(t), 0.2, &terms).unwrap();
            copy.step(0.1 / f64::from(t), 0.2, &terms).unwrap();
            assert_eq!(f.parts(), copy.parts(), "{optimiser:?}, {rule:?}, step {t}");
        }
    }
}

/// The average is that of the parameters, and f itself before the first step.
#[test]
fn parameters_are_averaged() {
    let (x, w) = (numbers(COLUMNS * 9, 0.71), numbers(OUTPUTS * 9, 1.37));
    let mut f = network(&[4, 5], Nonlinearity::Relu, Optimiser::ADAM).averaging(Averaging::Power(0.0));
    assert_eq!(f.average().theta, f.theta);
    let mut sum = vec![0.0; f.theta.len()];
    for _ in 0..6 {
        f.step(0.1, 0.2, &[Terms::new(Rows::single(&x, COLUMNS).unwrap(), &w)]).unwrap();
        sum.iter_mut().zip(&f.theta).for_each(|(sum, theta)| *sum += f64::from(*theta));
    }
    for (mean, sum) in f.average().theta.iter().zip(sum) {
        assert!((f64::from(*mean) - sum / 6.0).abs() < 2.0 * UNIT * f64::from(mean.abs().max(1e-3)));
    }
}

#[test]
fn parts_of_another_length_are_refused() {
    let parts = network(&[4], Nonlinearity::Tanh, Optimiser::ADAM).averaging(Averaging::Power(0.0)).parts();
    let no = |change: &dyn Fn(&mut NetworkParts), what: &str| {
        let mut parts = parts.clone();
        change(&mut parts);
        let error = Network::from_parts(scaling(), vec![0.0; OUTPUTS], parts).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    no(&|parts| parts.parameters.truncate(3), "the parameters of a network has 3 numbers, expected 26");
    no(&|parts| parts.moments.clear(), "the moments of a network has 0 numbers, expected 52");
    no(&|parts| parts.average.push(0.0), "the average of a network has 1 numbers, expected 0");
    no(&|parts| parts.averaging = Some((Averaging::Power(0.0), 1)), "the average of a network has 0");
    no(&|parts| parts.averaging = Some((Averaging::Tail, 1)), "has 0 numbers, expected 52");
    no(&|parts| parts.config.optimiser = Optimiser::Sgd, "the moments of a network has 52");
    no(&|parts| parts.config.hidden[0] = 0, "the size of a hidden layer = 0");
    assert!(Network::from_parts(scaling(), vec![0.0; OUTPUTS], parts).is_ok());
}

#[test]
fn settings_that_make_no_network_are_refused_by_name() {
    let no = |settings: NetworkConfig, scaling: Scaling, outputs: usize, what: &str| {
        let error = settings.build(scaling, vec![0.0; outputs], Seed(1)).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    let with = |hidden: &[usize]| config(hidden, Nonlinearity::Tanh, Optimiser::ADAM);
    no(with(&[4, 0]), scaling(), 1, "the size of a hidden layer = 0 is outside");
    no(with(&[2; 8]), scaling(), 1, "the number of layers = 9 is outside 1 to 8");
    assert!(with(&[2; 7]).build(scaling(), vec![0.0], Seed(1)).is_ok());
    for hidden in [&[1 << 40, 1 << 40][..], &[usize::MAX; 2], &[1 << 50]] {
        no(with(hidden), scaling(), 1, "lower the sizes of its hidden layers");
    }
    no(with(&[4]), scaling(), 0, "the offset of a network");
    no(with(&[4]), Scaling::identity(0), 1, "one column");
    let unequal = Scaling { shift: vec![0.0; 2], scale: vec![1.0] };
    no(with(&[4]), unequal, 1, "the scale of the columns");
    let adam = |beta1, beta2, epsilon| NetworkConfig {
        optimiser: Optimiser::Adam { beta1, beta2, epsilon },
        ..with(&[4])
    };
    no(adam(1.0, 0.9, 1e-8), scaling(), 1, "beta1 = 1 is outside");
    no(adam(0.9, -0.1, 1e-8), scaling(), 1, "beta2 = -0.1 is outside");
    no(adam(0.9, f64::NAN, 1e-8), scaling(), 1, "beta2 = NaN is outside");
    no(adam(0.9, 0.9, 0.0), scaling(), 1, "epsilon = 0 is outside");
}

#[test]
fn arrays_that_do_not_fit_are_refused_before_anything_changes() {
    let mut f = network(&[4], Nonlinearity::Tanh, Optimiser::ADAM);
    let (before, x) = (f.parts(), numbers(COLUMNS * 4, 1.0));
    let rows = Rows::single(&x, COLUMNS).unwrap();
    let wrong = Rows::single(&x, 2).unwrap();
    let error = f.step(0.1, 0.1, &[Terms::new(rows, &[0.0; 8]), Terms::new(wrong, &[0.0; 12])]).unwrap_err();
    assert!(matches!(error, Error::Columns { expected: 3, found: 2 }), "{error}");
    let error = f.step(0.1, 0.1, &[Terms::new(rows, &[0.0; 7])]).unwrap_err();
    assert!(matches!(error, Error::Length { what: "the weights of the terms", found: 7, .. }), "{error}");
    let error = f.evaluate(rows, &mut [0.0; 7]).unwrap_err();
    assert!(matches!(error, Error::Length { found: 7, .. }), "{error}");
    assert_eq!(f.parts(), before);
}

/// ⟨w, J d⟩ = ⟨Jᵀw, d⟩: changes along a direction and gradients belong together, also where the last tile is not full.
#[test]
fn tangents_and_gradients_belong_together() {
    for nonlinearity in [Nonlinearity::Tanh, Nonlinearity::Relu] {
        let f = network(&[7, 5], nonlinearity, Optimiser::ADAM);
        let n = ROWS + 9;
        let (x, weights) = (numbers(n * COLUMNS, 0.7), numbers(n * OUTPUTS, 1.9));
        let (rows, direction) = (Rows::single(&x, COLUMNS).unwrap(), numbers(f.theta.len(), 0.3));
        let dot = |a: &mut dyn Iterator<Item = f64>, b: &[f32]| -> f64 {
            a.zip(b).map(|(a, b)| a * f64::from(*b)).sum()
        };
        let change = f.tangent(rows, &direction).unwrap();
        let left = dot(&mut change.iter().map(|&v| f64::from(v)), &weights);
        let right = dot(&mut f.gradient(&[Terms::new(rows, &weights)]).unwrap().into_iter(), &direction);
        let size = (change.len() as f64).sqrt() * left.abs().max(1.0);
        assert!((left - right).abs() < 64.0 * UNIT * size, "{left} {right}");
        assert!(f.tangent(rows, &direction[1..]).is_err());
    }
}
