//! The inner loops of topic models: what the words of one document say about its topics.
//!
//! Rows of K topics are padded with zeros to whole vectors, and the topics of a word lie side by side.

use super::lanes::{on_device, Kernel, Lanes, LANES};
use super::Device;

/// Words that are updated at once.
const TOGETHER: usize = 2;

/// K rounded up to whole vectors.
pub(crate) fn padded(topics: usize) -> usize {
    topics.next_multiple_of(LANES)
}

/// A document while its topics are inferred. With P = [`padded`] topics and V distinct words, `likelihoods` and
/// `responsibilities` are V×P, the others have length P (`counts`: V). Whatever is padding must be zero.
pub(crate) struct Document<'a> {
    /// φ_{wk}, the probability of each of its words under each topic; changed by an [`Exclusion`].
    pub likelihoods: &'a mut [f32],
    /// c_w, how often each word occurs.
    pub counts: &'a [f32],
    /// α_k.
    pub prior: &'a [f32],
    /// γ_{wk}: written.
    pub responsibilities: &'a mut [f32],
    /// n_k = Σ_w c_w γ_{wk}: read as the place to start from, which may be zero, and written.
    pub expected: &'a mut [f32],
}

/// What the document itself has contributed to the likelihoods, to be taken out of them.
pub(crate) struct Exclusion<'a> {
    /// The share of the document that is still in the statistics.
    pub share: f32,
    /// η, below which no numerator falls.
    pub prior: f32,
    /// N_k + Wη, the denominators.
    pub totals: &'a [f32],
}

impl Document<'_> {
    /// Collapsed variational Bayes of order zero, two words after two until n settles:
    ///
    /// ```text
    /// γ_{wk} ∝ (n_k − min(c_w, 1) γ_{wk} + α_k) φ_{wk},    n_k = Σ_w c_w γ_{wk}
    /// ```
    ///
    /// Ends after `sweeps` sweeps, or when one changed n by at most `tolerance` of the document's length; returns how many
    /// there were. Words whose likelihood is zero under every topic keep no responsibilities.
    pub(crate) fn settle(
        self,
        device: Device,
        exclusion: Option<Exclusion<'_>>,
        sweeps: usize,
        tolerance: f32,
    ) -> usize {
        let (words, width) = (self.counts.len(), self.prior.len());
        assert!(width.is_multiple_of(LANES) && self.expected.len() == width);
        assert!(self.likelihoods.len() == words * width && self.responsibilities.len() == words * width);
        let mut inverse = vec![0.0; width];
        if let Some(Exclusion { share, totals, .. }) = &exclusion {
            assert!(totals.len() == width);
            for (inverse, (total, own)) in inverse.iter_mut().zip(totals.iter().zip(&*self.expected)) {
                let left = total - share * own;
                *inverse = if left > 0.0 { left.recip() } else { 0.0 };
            }
        }
        on_device(device, Settle { document: self, exclusion, inverse, sweeps, tolerance })
    }
}

struct Settle<'a, 'b> {
    document: Document<'a>,
    exclusion: Option<Exclusion<'b>>,
    inverse: Vec<f32>,
    sweeps: usize,
    tolerance: f32,
}

impl Kernel for Settle<'_, '_> {
    type Output = usize;

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> usize {
        let Self { document, exclusion, inverse, sweeps, tolerance } = self;
        let Document { likelihoods, counts, prior, responsibilities, expected } = document;
        let width = prior.len();
        let mut scratch = vec![0.0; TOGETHER * width];
        let weights: Vec<f32> = expected.iter().zip(prior).map(|(n, a)| n + a).collect();
        let length: f32 = counts.iter().sum();
        expected.fill(0.0);
        // SAFETY: all slices have the lengths `settle` checked, multiples of a vector.
        unsafe {
            for (word, &count) in counts.iter().enumerate() {
                let likelihood = likelihoods.as_mut_ptr().add(word * width);
                let responsibility = responsibilities.as_mut_ptr().add(word * width);
                respond::<L>(likelihood, responsibility, &weights);
                if let Some(exclusion) = &exclusion {
                    exclude::<L>(likelihood, responsibility, exclusion, &inverse, count);
                    respond::<L>(likelihood, responsibility, &weights);
                }
                accumulate::<L>(expected.as_mut_ptr(), responsibility, count, width);
            }
            let mut before = vec![0.0; width];
            for sweep in 1..sweeps {
                before.copy_from_slice(expected);
                for (group, counts) in counts.chunks(TOGETHER).enumerate() {
                    let start = group * TOGETHER * width;
                    let likelihood = likelihoods.as_ptr().add(start);
                    let responsibility = responsibilities.as_mut_ptr().add(start);
                    if let &[first, second] = counts {
                        let counts = [first, second];
                        update::<L, 2>(likelihood, responsibility, expected, prior, &mut scratch, counts);
                    } else {
                        let counts = [counts[0]];
                        update::<L, 1>(likelihood, responsibility, expected, prior, &mut scratch, counts);
                    }
                }
                let change: f32 = expected.iter().zip(&before).map(|(a, b)| (a - b).abs()).sum();
                // What is no number any more will not settle.
                if change <= tolerance * length || change.is_nan() {
                    return sweep + 1;
                }
            }
        }
        sweeps.max(1)
    }
}

/// γ ∝ weight · φ.
#[inline(always)]
unsafe fn respond<L: Lanes>(likelihood: *const f32, responsibility: *mut f32, weights: &[f32]) {
    // SAFETY: the caller's rows are as long as `weights`, a multiple of a vector.
    unsafe {
        let mut sum = L::splat(0.0);
        for k in (0..weights.len()).step_by(LANES) {
            let product = L::load(weights.as_ptr().add(k)).mul(L::load(likelihood.add(k)));
            product.store(responsibility.add(k));
            sum = sum.add(product);
        }
        let scale = L::splat(reciprocal(sum.sum()));
        for k in (0..weights.len()).step_by(LANES) {
            L::load(responsibility.add(k)).mul(scale).store(responsibility.add(k));
        }
    }
}

/// φ ← max(φ·total − share·c·γ, η) / (total − share·n).
#[inline(always)]
unsafe fn exclude<L: Lanes>(
    likelihood: *mut f32,
    responsibility: *const f32,
    exclusion: &Exclusion<'_>,
    inverse: &[f32],
    count: f32,
) {
    // SAFETY: as for `respond`.
    unsafe {
        let (own, prior) = (L::splat(-exclusion.share * count), L::splat(exclusion.prior));
        for k in (0..inverse.len()).step_by(LANES) {
            let numerator = L::load(likelihood.add(k)).mul(L::load(exclusion.totals.as_ptr().add(k)));
            let others = L::load(responsibility.add(k)).mul_add(own, numerator).max(prior);
            others.mul(L::load(inverse.as_ptr().add(k))).store(likelihood.add(k));
        }
    }
}

/// n += c γ.
#[inline(always)]
unsafe fn accumulate<L: Lanes>(expected: *mut f32, responsibility: *const f32, count: f32, width: usize) {
    // SAFETY: the caller's rows have `width` numbers, a multiple of a vector.
    unsafe {
        let count = L::splat(count);
        for k in (0..width).step_by(LANES) {
            let sum = L::load(responsibility.add(k)).mul_add(count, L::load(expected.add(k)));
            sum.store(expected.add(k));
        }
    }
}

/// N words at once, so that the processor need not wait for one before it begins the next:
/// γ ∝ (n − min(c, 1) γ + α) φ for each, and n follows. `scratch` has N rows.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // several rows side by side
unsafe fn update<L: Lanes, const N: usize>(
    likelihoods: *const f32,
    responsibilities: *mut f32,
    expected: &mut [f32],
    prior: &[f32],
    scratch: &mut [f32],
    counts: [f32; N],
) {
    // SAFETY: as for `respond`, the rows of the N words following each other; `expected` and `prior` have one length.
    unsafe {
        let (width, zero) = (prior.len(), L::splat(0.0));
        let (n, t, a) = (expected.as_mut_ptr(), scratch.as_mut_ptr(), prior.as_ptr());
        let (mut own, mut sums, mut scales, mut lengths) = ([zero; N], [zero; N], [zero; N], [zero; N]);
        for i in 0..N {
            own[i] = L::splat(-counts[i].min(1.0));
        }
        for k in (0..width).step_by(LANES) {
            let (all, prior) = (L::load(n.add(k)), L::load(a.add(k)));
            for i in 0..N {
                let at = i * width + k;
                let others = L::load(responsibilities.add(at)).mul_add(own[i], all).max(zero);
                let product = others.add(prior).mul(L::load(likelihoods.add(at)));
                product.store(t.add(at));
                sums[i] = sums[i].add(product);
            }
        }
        for i in 0..N {
            scales[i] = L::splat(reciprocal(sums[i].sum()));
            lengths[i] = L::splat(counts[i]);
        }
        for k in (0..width).step_by(LANES) {
            let mut all = L::load(n.add(k));
            for i in 0..N {
                let at = i * width + k;
                let new = L::load(t.add(at)).mul(scales[i]);
                let change = new.sub(L::load(responsibilities.add(at)));
                all = change.mul_add(lengths[i], all);
                new.store(responsibilities.add(at));
            }
            all.store(n.add(k));
        }
    }
}

/// 1/s, or 0 where there is nothing to divide.
#[inline(always)]
fn reciprocal(sum: f32) -> f32 {
    if sum > f32::MIN_POSITIVE {
        sum.recip()
    } else {
        0.0
    }
}

/// φ_k = (N_k + share·M_k + η) · inverse_k for one word: `current` is its row of N, `previous` of M.
pub(crate) struct Likelihoods<'a> {
    /// N, words × padded topics.
    pub current: &'a [f32],
    /// M.
    pub previous: &'a [f32],
    /// What of M counts.
    pub share: f32,
    /// η.
    pub prior: f32,
    /// 1/(N_k + share·M_k + Wη), zero in the padding.
    pub inverse: &'a [f32],
}

impl Likelihoods<'_> {
    /// The rows of `words`, one after the other.
    pub(crate) fn rows(&self, device: Device, words: &[u32], out: &mut Vec<f32>) {
        let width = self.inverse.len();
        assert!(width.is_multiple_of(LANES) && self.current.len() == self.previous.len());
        out.resize(words.len() * width, 0.0);
        on_device(device, Rows { of: self, words, out });
    }
}

struct Rows<'a> {
    of: &'a Likelihoods<'a>,
    words: &'a [u32],
    out: &'a mut [f32],
}

impl Kernel for Rows<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let Likelihoods { current, previous, share, prior, inverse } = *self.of;
        let width = inverse.len();
        for (&word, out) in self.words.iter().zip(self.out.chunks_exact_mut(width)) {
            let row = word as usize * width..(word as usize + 1) * width;
            let (current, previous) = (&current[row.clone()], &previous[row]);
            // SAFETY: the four rows have `width` numbers, a multiple of a vector.
            unsafe {
                let (share, prior) = (L::splat(share), L::splat(prior));
                for k in (0..width).step_by(LANES) {
                    let new = L::load(current.as_ptr().add(k)).add(prior);
                    let sum = L::load(previous.as_ptr().add(k)).mul_add(share, new);
                    sum.mul(L::load(inverse.as_ptr().add(k))).store(out.as_mut_ptr().add(k));
                }
            }
        }
    }
}

/// N_w += c γ for those words of a document that lie in `first..first + rows` of the vocabulary, `statistics` being
/// the rows of these.
pub(crate) fn add_responsibilities(
    device: Device,
    statistics: &mut [f32],
    first: u32,
    words: &[u32],
    counts: &[f32],
    responsibilities: &[f32],
) {
    if words.is_empty() {
        return;
    }
    let width = responsibilities.len() / words.len();
    assert!(width.is_multiple_of(LANES) && width > 0 && responsibilities.len() == width * words.len());
    assert!(counts.len() == words.len());
    on_device(device, Add { statistics, first, words, counts, responsibilities, width });
}

struct Add<'a> {
    statistics: &'a mut [f32],
    first: u32,
    words: &'a [u32],
    counts: &'a [f32],
    responsibilities: &'a [f32],
    width: usize,
}

impl Kernel for Add<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for (i, (&word, &count)) in self.words.iter().zip(self.counts).enumerate() {
            let Some(row) = word.checked_sub(self.first) else { continue };
            let start = row as usize * self.width;
            if let Some(row) = self.statistics.get_mut(start..start + self.width) {
                // SAFETY: both rows have `width` numbers.
                unsafe {
                    let from = self.responsibilities.as_ptr().add(i * self.width);
                    accumulate::<L>(row.as_mut_ptr(), from, count, self.width);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Path;
    use super::*;

    const TOPICS: usize = 21;

    fn likelihoods(words: usize) -> Vec<f32> {
        let width = padded(TOPICS);
        let value = |i: usize| {
            if i % width < TOPICS {
                0.01 + ((i * 2_654_435_761) % 1_000) as f32 / 1_000.0
            } else {
                0.0
            }
        };
        (0..words * width).map(value).collect()
    }

    fn prior() -> Vec<f32> {
        (0..padded(TOPICS)).map(|k| if k < TOPICS { 0.05 + 0.01 * k as f32 } else { 0.0 }).collect()
    }

    fn settled(device: Device, sweeps: usize, exclusion: Option<Exclusion<'_>>) -> (Vec<f32>, Vec<f32>) {
        let counts = [1.0, 3.0, 0.5, 2.0, 1.0, 7.0];
        let (mut phi, prior) = (likelihoods(6), prior());
        let (mut responsibilities, mut expected) = (vec![0.0; phi.len()], vec![0.0; prior.len()]);
        expected[3] = 2.0;
        let document = Document {
            likelihoods: &mut phi,
            counts: &counts,
            prior: &prior,
            responsibilities: &mut responsibilities,
            expected: &mut expected,
        };
        document.settle(device, exclusion, sweeps, 0.0);
        (responsibilities, expected)
    }

    /// At the fixed point the equation holds, written out in double precision.
    #[test]
    fn settles_at_the_fixed_point() {
        let counts = [1.0, 3.0, 0.5, 2.0, 1.0, 7.0];
        let (phi, prior, width) = (likelihoods(6), prior(), padded(TOPICS));
        for device in Device::available() {
            let (gamma, n) = settled(device, 400, None);
            for (w, &count) in counts.iter().enumerate() {
                let weigh = |k: usize| {
                    let i = w * width + k;
                    let others = f64::from(n[k]) - f64::min(count, 1.0) * f64::from(gamma[i]);
                    (others + f64::from(prior[k])) * f64::from(phi[i])
                };
                let sum: f64 = (0..TOPICS).map(weigh).sum();
                for k in 0..TOPICS {
                    let found = f64::from(gamma[w * width + k]);
                    assert!((found - weigh(k) / sum).abs() < 1e-4, "{device}: word {w}, topic {k}");
                }
                assert!(gamma[w * width + TOPICS..(w + 1) * width].iter().all(|&g| g == 0.0));
            }
            for (k, n) in n.iter().enumerate() {
                let sum: f32 = (0..6).map(|w| counts[w] as f32 * gamma[w * width + k]).sum();
                assert!((sum - n).abs() < 1e-4, "{device}: n_{k}");
            }
        }
    }

    #[test]
    fn all_paths_agree() {
        let totals = vec![50.0; padded(TOPICS)];
        let of = |device| settled(device, 5, Some(Exclusion { share: 0.5, prior: 0.01, totals: &totals }));
        let portable = Device::with_path(Path::Portable).unwrap();
        let expected = of(portable);
        for device in Device::available() {
            let found = of(device);
            let gap = found.0.iter().zip(&expected.0).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(gap < 1e-5, "{device}: {gap}");
        }
        assert_ne!(expected, settled(portable, 5, None), "an exclusion makes a difference");
    }

    #[test]
    fn words_are_added_where_they_belong() {
        let width = padded(3);
        let responsibilities: Vec<f32> = (0..3 * width).map(|i| i as f32).collect();
        for device in Device::available() {
            let mut statistics = vec![1.0; 2 * width];
            // Words 4 and 5 are rows; words 2 and 9 lie outside.
            let (words, counts) = ([2, 5, 9], [1.0, 2.0, 3.0]);
            add_responsibilities(device, &mut statistics, 4, &words, &counts, &responsibilities);
            assert!(statistics[..width].iter().all(|&v| v == 1.0));
            assert!((0..width).all(|k| statistics[width + k] == 1.0 + 2.0 * (width + k) as f32), "{device}");
        }
    }
}
