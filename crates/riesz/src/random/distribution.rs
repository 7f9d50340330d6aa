//! Fixed-consumption transforms from words to distributions.

use super::{Address, BlockIndex, Seed, Stream};
use std::f64::consts::TAU;

/// Uniform on [0, 1) with 24 bits, from one word.
#[inline]
pub fn uniform(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// Uniform on the open interval (0, 1) in double precision, from one word: (w + ½) 2⁻³².
#[inline]
pub fn uniform_open(word: u32) -> f64 {
    (f64::from(word) + 0.5) * (1.0 / 4_294_967_296.0)
}

/// Two independent standard normals from two words by Box–Muller:
/// √(−2 log u) (cos 2πv, sin 2πv).
#[inline]
pub fn normal_pair(u: u32, v: u32) -> [f64; 2] {
    let radius = (-2.0 * uniform_open(u).ln()).sqrt();
    let (sin, cos) = (TAU * uniform_open(v)).sin_cos();
    [radius * cos, radius * sin]
}

/// Fills `out` from pairs of draws, two words each.
pub(crate) fn fill_pairs(address: Address, out: &mut [f64], pair: impl Fn(u32, u32) -> [f64; 2]) {
    for (lane, four) in out.chunks_mut(4).enumerate() {
        let [a, b, c, d] = address.words(lane as u32);
        let draws = [pair(a, b), pair(c, d)];
        four.iter_mut().zip(draws.as_flattened()).for_each(|(o, v)| *o = *v);
    }
}

/// Fills `out` with independent standard normal variables.
pub(crate) fn normals(address: Address, out: &mut [f64]) {
    fill_pairs(address, out, normal_pair);
}

/// Two independent standard Cauchy variables from two words: tan π(u − ½).
#[inline]
pub fn cauchy_pair(u: u32, v: u32) -> [f64; 2] {
    let quantile = |w: u32| (std::f64::consts::PI * (uniform_open(w) - 0.5)).tan();
    [quantile(u), quantile(v)]
}

/// A χ variable with `degrees` degrees of freedom: the norm of that many standard normals, drawn from
/// the lanes `0..⌈degrees/4⌉` of `address`.
pub fn chi(address: Address, degrees: usize) -> f64 {
    let mut sum = 0.0;
    for lane in 0..degrees.div_ceil(4) {
        let [a, b, c, d] = address.words(lane as u32);
        let normals = [normal_pair(a, b), normal_pair(c, d)].concat();
        let used = (degrees - 4 * lane).min(4);
        sum += normals[..used].iter().map(|z| z * z).sum::<f64>();
    }
    sum.sqrt()
}

/// A Gamma(shape, 1) variable by the method of Marsaglia and Tsang; a shape below one is raised by one and corrected by
/// U^{1/shape}.
pub fn gamma(words: &mut impl Iterator<Item = u32>, shape: f64) -> f64 {
    let mut word = || words.next().unwrap_or_default();
    let boost = if shape < 1.0 { uniform_open(word()).powf(1.0 / shape) } else { 1.0 };
    let d = if shape < 1.0 { shape + 1.0 } else { shape } - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let [z, _] = normal_pair(word(), word());
        let v = (1.0 + c * z).powi(3);
        if v > 0.0 && uniform_open(word()).ln() < 0.5 * z * z + d - d * v + d * v.ln() {
            return boost * d * v;
        }
    }
}

/// A variable of density sech(πω) from one word: (1/π) log tan(πu/2).
#[inline]
pub fn sech(word: u32) -> f64 {
    (std::f64::consts::FRAC_PI_2 * uniform_open(word)).tan().ln() / std::f64::consts::PI
}

/// A random permutation of `0..n`, evaluated where it is needed: the ranks of `n` random words.
#[derive(Clone, Debug)]
pub struct Permutation(Vec<u32>);

impl Permutation {
    /// The permutation at (seed, stream, block).
    pub fn new(seed: Seed, stream: Stream, block: BlockIndex, n: usize) -> Self {
        let mut keyed: Vec<(u64, u32)> = (0..n as u32)
            .map(|i| {
                let words = Address::new(seed, stream, block, i / 2).words(0);
                let pair = if i % 2 == 0 { [words[0], words[1]] } else { [words[2], words[3]] };
                (u64::from(pair[0]) << 32 | u64::from(pair[1]), i)
            })
            .collect();
        keyed.sort_unstable();
        Self(keyed.into_iter().map(|(_, i)| i).collect())
    }

    /// The permuted indices.
    pub fn indices(&self) -> &[u32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: u32 = 40_000;

    fn words(i: u32) -> [u32; 4] {
        Address::new(Seed(7), Stream::Synthetic, BlockIndex(3), i).words(0)
    }

    /// Kolmogorov's distance between a sample and a distribution function; its 1e-6 quantile is 2.7/√n.
    fn kolmogorov(mut sample: Vec<f64>, distribution: impl Fn(f64) -> f64) -> f64 {
        sample.sort_by(f64::total_cmp);
        let n = sample.len() as f64;
        let gap = |(i, &x): (usize, &f64)| (distribution(x) - (i as f64 + 0.5) / n).abs();
        sample.iter().enumerate().map(gap).fold(0.0, f64::max) * n.sqrt()
    }

    #[test]
    fn uniform_and_cauchy_follow_their_distribution_functions() {
        let uniforms = (0..N).map(|i| uniform_open(words(i)[2])).collect();
        assert!(kolmogorov(uniforms, |x| x) < 2.7);
        let cauchy = (0..N).flat_map(|i| cauchy_pair(words(i)[0], words(i)[1])).collect();
        assert!(kolmogorov(cauchy, |x| 0.5 + x.atan() / std::f64::consts::PI) < 2.7);
    }

    #[test]
    fn normal_moments_and_tails() {
        let z: Vec<f64> = (0..N).flat_map(|i| normal_pair(words(i)[0], words(i)[1])).collect();
        let n = z.len() as f64;
        let moment = |k: i32| z.iter().map(|x| x.powi(k)).sum::<f64>() / n;
        // Variances of the sample moments: E z^{2k} − (E z^k)².
        for (k, expected, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
            let z_score = (moment(k) - expected) / (variance / n).sqrt();
            assert!(z_score.abs() < 4.5, "moment {k}: z = {z_score}");
        }
        let tail = z.iter().filter(|x| x.abs() > 1.959_964).count() as f64 / n;
        assert!((tail - 0.05).abs() < 4.5 * (0.05 * 0.95 / n).sqrt());
    }

    #[test]
    fn squared_chi_has_the_moments_of_its_gamma_law() {
        for degrees in [1, 3, 4, 9] {
            let squares: Vec<f64> = (0..4_000)
                .map(|i| chi(Address::new(Seed(1), Stream::Norm, BlockIndex(0), i), degrees).powi(2))
                .collect();
            let mean = squares.iter().sum::<f64>() / 4_000.0;
            let k = degrees as f64;
            assert!((mean - k).abs() < 4.5 * (2.0 * k / 4_000.0).sqrt(), "χ²_{degrees}: {mean}");
        }
    }

    /// Mean and variance of Gamma(a, 1) are a, and the fourth central moment is 3a² + 6a.
    #[test]
    fn gamma_has_its_moments() {
        for shape in [0.3, 1.0, 2.5, 40.0] {
            let draw =
                |i| gamma(&mut Address::new(Seed(3), Stream::Mixing, BlockIndex(0), i).sequence(), shape);
            let sample: Vec<f64> = (0..N).map(draw).collect();
            let n = f64::from(N);
            let mean = sample.iter().sum::<f64>() / n;
            assert!((mean - shape).abs() < 4.5 * (shape / n).sqrt(), "shape {shape}: mean {mean}");
            let variance = sample.iter().map(|g| (g - shape).powi(2)).sum::<f64>() / n;
            let spread = ((2.0 * shape * shape + 6.0 * shape) / n).sqrt();
            assert!((variance - shape).abs() < 4.5 * spread, "shape {shape}: variance {variance}");
        }
    }

    /// The distribution function of sech(πω) is (2/π) arctan e^{πω}.
    #[test]
    fn sech_follows_its_distribution_function() {
        let sample = (0..N).map(|i| sech(words(i)[3])).collect();
        assert!(
            kolmogorov(sample, |x| 2.0 / std::f64::consts::PI * (std::f64::consts::PI * x).exp().atan())
                < 2.7
        );
    }

    #[test]
    fn streams_blocks_and_lanes_do_not_collide() {
        let at =
            |stream, block, index, lane| Address::new(Seed(5), stream, BlockIndex(block), index).words(lane);
        let base = at(Stream::Phase, 1, 2, 3);
        assert_eq!(base, at(Stream::Phase, 1, 2, 3));
        for other in [
            at(Stream::Sign, 1, 2, 3),
            at(Stream::Phase, 2, 2, 3),
            at(Stream::Phase, 1, 3, 3),
            at(Stream::Phase, 1, 2, 4),
            at(Stream::Phase, 1 + (1 << 32), 2, 3),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn a_permutation_visits_every_row_once() {
        let mut seen = Permutation::new(Seed(2), Stream::Shuffle, BlockIndex(0), 1_001).indices().to_vec();
        assert_ne!(seen, (0..1_001).collect::<Vec<u32>>());
        seen.sort_unstable();
        assert_eq!(seen, (0..1_001).collect::<Vec<u32>>());
    }
}
