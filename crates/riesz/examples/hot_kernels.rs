//! Hot kernels against the machine: one thread, best of several repeats.
//!
//! ```text
//! cargo run --release --example hot_kernels
//! ```
//! Prints the measured peak of the core (an in-cache matrix product), and for the dense and the
//! structured pipeline the time per pass (features, cosine, Φ A and Φᵀ R) and its share of that peak.

use riesz::compute::{
    adjoint, apply, normal_equations, Activation, DenseBlock, Device, FeatureBlock, Gram, GramRows,
    GramSample, GramScratch, Input, StructuredBlock,
};
use riesz::data::Rows;
use riesz::random::{BlockIndex, Seed};
use std::time::Instant;

fn best(mut f: impl FnMut()) -> f64 {
    (0..7)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

/// The rate of an in-cache single-precision matrix product, taken as the peak of the core.
fn peak() -> f64 {
    let n = 256;
    let (a, b) = (vec![1.0_f32; n * n * 16], vec![1.0_f32; n * n * 16]);
    let mut c = vec![0.0_f32; n * n];
    let k = n * 16;
    let seconds = best(|| {
        for _ in 0..4 {
            faer::linalg::matmul::matmul(
                faer::MatMut::from_column_major_slice_mut(&mut c, n, n),
                faer::Accum::Replace,
                faer::MatRef::from_column_major_slice(&a, n, k),
                faer::MatRef::from_column_major_slice(&b, k, n),
                1.0_f32,
                faer::Par::Seq,
            );
        }
    });
    4.0 * 2.0 * (n * n * k) as f64 / seconds
}

fn pseudo(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919) % 1000) as f32 / 1000.0 - 0.5).collect()
}

fn dense(d: usize, m: usize) -> riesz::Result<FeatureBlock> {
    DenseBlock {
        shift: vec![0.0; d],
        input: Input::Plain,
        activation: Activation::Cosine,
        frequencies: pseudo(m * d),
        phase: pseudo(m),
    }
    .build()
}

fn structured(d: usize, m: usize) -> riesz::Result<FeatureBlock> {
    let padded = d.next_power_of_two();
    let copies = m.div_ceil(padded);
    StructuredBlock {
        shift: vec![0.0; d],
        scale: vec![1.0; d],
        padded,
        signs: pseudo(3 * padded * copies).iter().map(|v| v.signum()).collect(),
        gain: vec![1e-3; m],
        phase: pseudo(m),
    }
    .build()
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    Ok(pool.install(run)?)
}

fn run() -> riesz::Result<()> {
    let device = Device::default();
    let peak = peak();
    println!("device {device}, peak {:.0} GFLOP/s", peak / 1e9);
    for (n, d, m, c) in [(8_192, 784, 1_024, 10), (8_192, 54, 1_024, 1), (8_192, 54, 1_024, 10)] {
        let x = pseudo(n * d);
        let rows = Rows::single(&x, d)?;
        let (a, r) = (pseudo(m * c), pseudo(n * c));
        let mut out = vec![0.0; n * c];
        let mut time = |block: &FeatureBlock| {
            (
                best(|| drop(apply(device, &[(block, &a)], rows, c, &mut out))),
                best(|| drop(adjoint(device, block, rows, &r, c))),
            )
        };
        let (da, dr) = time(&dense(d, m)?);
        let (sa, sr) = time(&structured(d, m)?);
        let flops = 2.0 * (n * m) as f64 * (d + c) as f64;
        println!(
            "n={n} d={d} m={m} C={c}: dense ΦA {:.1} ms ({:.0} % of peak), ΦᵀR {:.1} ms ({:.0} %); structured {:.2} ms ({:.2} ns/feature), {:.2} ms ({:.2} ns/feature); ratio {:.1}×",
            da * 1e3, 100.0 * flops / da / peak, dr * 1e3, 100.0 * flops / dr / peak,
            sa * 1e3, sa * 1e9 / (n * m) as f64, sr * 1e3, sr * 1e9 / (n * m) as f64, (da + dr) / (sa + sr)
        );
    }
    for m in [1_024, 2_048] {
        let (n, d) = (8_192, 784);
        let x = pseudo(n * d);
        let rows = Rows::single(&x, d)?;
        let weights = vec![1.0; n];
        let residual = pseudo(n * 10);
        let block = structured(d, m)?;
        for device in Device::available() {
            let (mut gram, mut scratch) = (Gram::default(), GramScratch::default());
            let sample = GramSample::new(n, n, Seed(1), BlockIndex(0));
            let gram_rows = GramRows { weights: &weights, sample, chunk: 4_096 };
            let mut equations =
                || normal_equations(device, &block, rows, &residual, gram_rows, (&mut gram, &mut scratch));
            let t = best(|| drop(equations()));
            let f = best(|| drop(adjoint(device, &block, rows, &residual, 10)));
            let rate = n as f64 * (m * (m + 1)) as f64 / (t - f);
            println!(
                "Gram m={m} {device}: {:.1} ms with gradient, {:.1} ms gradient alone; Gram {:.0} GFLOP/s",
                t * 1e3,
                f * 1e3,
                rate / 1e9
            );
        }
    }
    Ok(())
}
