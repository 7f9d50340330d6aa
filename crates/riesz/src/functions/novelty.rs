//! Novelty detection: which rows are unlike most of those seen.

use super::geometry::{median_distance, Moments};
use super::kept_rows::{KeptRows, Labelled, CAPACITY};
use super::kernel_machine::options::{Bandwidth, ColumnScaling};
use super::kernel_machine::training::{check_weights, effective_rows, Prepared};
use super::quantile::weighted_quantile;
use super::stored::{insert_expansion, take_expansion};
use crate::compute::FEATURE_MULTIPLE;
use crate::data::Rows;
use crate::driver::Control;
use crate::error::{Error, Result};
use crate::kernel::{FeatureForm, FeatureMap, KernelSpec, Projection, Scaling};
use crate::model::{Container, Stored};
use crate::random::{BlockIndex, Permutation, Seed, Stream};
use crate::solver::OneClassConfig;
use crate::space::{FeatureExpansion, Function};
use serde::{Deserialize, Serialize};

/// Settings of [`NoveltyDetector`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default = "NoveltyOptions::unset")]
pub struct NoveltyOptions {
    /// Kernel family.
    pub kernel: KernelSpec,
    /// σ; "auto" is half the median distance.
    pub bandwidth: Bandwidth,
    /// What is done to the columns first; "auto" standardises them where the kernel has a bandwidth that is not given.
    pub scaling: ColumnScaling,
    /// ν in (0, 1]: f is built from the share ν of the rows that have the fewest others near them.
    pub nu: f64,
    /// The share of rows to be called novel; `None`: ν.
    pub contamination: Option<f64>,
    /// Random features m.
    #[serde(alias = "n_components")]
    pub features: usize,
    /// Seed of the features.
    #[serde(alias = "random_state")]
    pub seed: Seed,
}

/// Half the median distance, between what suits the exact machine on six data sets: less, 0.2 to 0.35, where the rows of
/// the fit are clean; 0.5 to 1 where anomalies are among them, and where random features scatter.
const SHARE_OF_MEDIAN: f64 = 0.5;
/// Most Newton steps; four or five are the rule.
const MOST_STEPS: usize = 20;
/// Rows per feature from which f is learnt: with more, the error of the features outweighs that of the rows.
const ROWS_PER_FEATURE: usize = 16;

impl NoveltyOptions {
    /// The defaults.
    pub fn new(seed: Seed) -> Self {
        Self {
            kernel: KernelSpec::Gaussian,
            bandwidth: Bandwidth::Auto,
            scaling: ColumnScaling::Auto,
            nu: 0.5,
            contamination: None,
            features: 1_024,
            seed,
        }
    }

    /// What is filled in for a setting that is not given.
    fn unset() -> Self {
        Self::new(Seed(0))
    }

    /// The share of rows to be called novel.
    fn share(&self) -> f64 {
        self.contamination.unwrap_or(self.nu)
    }

    /// Refuses settings outside their domain.
    pub fn check(&self) -> Result<()> {
        OneClassConfig { nu: self.nu }.build()?;
        if let Some(value) = self.contamination.filter(|c| !(*c >= 0.0 && *c < 1.0)) {
            return Err(Error::OutOfRange { name: "contamination", value, range: "[0, 1)" });
        }
        if self.features == 0 || self.features > 1 << 14 {
            let value = self.features as f64;
            return Err(Error::OutOfRange { name: "n_components", value, range: "1 to 16,384" });
        }
        self.kernel.check()
    }
}

/// A function that is large where rows are many, and the level below which a row is novel.
///
/// f and τ minimise (1/ν) E max(0, τ − f(x)) − τ + ½‖f‖² ([`crate::solver::OneClass`]); the offset is the quantile of f
/// on all rows at `contamination`, for which the thesis has ν too.
///
/// A stream ([`NoveltyDetector::begin`], [`NoveltyDetector::partial_fit`]) averages the functions of successive stretches of rows, each the
/// minimum on its own, with their rows for weights: f ← (1 − ρ) f + ρ f', where ρ = N'/(N + N'). The offset q keeps what
/// older rows said beyond these: q ← Q'(f) + (1 − ρ)(q − Q'(f before)), Q' being the quantile on the new rows.
#[derive(Clone, Debug)]
pub struct NoveltyDetector {
    f: FeatureExpansion,
    header: Header,
    /// Rows that f is to be fitted to next: the first ones of a stream, or those of the stretch that is not complete.
    kept: KeptRows,
}

/// Everything about a detector that is not a tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    options: NoveltyOptions,
    bandwidth: f64,
    standard: bool,
    projection: Projection,
    block_size: usize,
    offset: f64,
    /// Rows learnt from, and their total weight.
    rows: usize,
    weight: f64,
    /// Whether the rows that are kept have been learnt from: they are the first of a stream.
    first: bool,
}

impl NoveltyDetector {
    /// Learns what is usual from `rows`; `weights` count rows, `None`: once each. Below 2,000 rows,
    /// rows given several times and the weight that counts them lead to the same bits, whatever the order.
    pub fn fit(
        options: &NoveltyOptions,
        rows: Rows<'_>,
        weights: Option<&[f32]>,
        control: &mut Control<'_>,
    ) -> Result<Self> {
        options.check()?;
        check_rows(options, rows, weights)?;
        control.start(None);
        let count = weights.map_or(rows.len(), |w| w.iter().filter(|w| **w > 0.0).count());
        let data = Prepared::unlabelled(rows, weights)?;
        let (rows, weights) = (data.rows()?, &data.weights[..]);
        let (map, standard) = feature_map(options, rows, weights)?;
        let f = learn(options, FeatureExpansion::new(map, vec![0.0]), rows, weights, control)?;
        let offset = quantile(options, &f, rows, weights)?;
        let map = f.map();
        let header = Header {
            options: options.clone(),
            bandwidth: map.bandwidth,
            standard,
            projection: map.projection,
            block_size: map.block_size,
            offset,
            rows: count,
            weight: effective_rows(weights),
            first: false,
        };
        Ok(Self { f, header, kept: KeptRows::default() })
    }

    /// The first rows of a stream. A fit to them, which is repeated with those that follow whenever they have doubled, as long as
    /// they are fewer than 8,192.
    pub fn begin(
        options: &NoveltyOptions,
        rows: Rows<'_>,
        weights: Option<&[f32]>,
        control: &mut Control<'_>,
    ) -> Result<Self> {
        let mut detector = Self::fit(options, rows, weights, control)?;
        let weights = weights.map_or_else(|| vec![1.0; rows.len()], <[f32]>::to_vec);
        let data = Labelled { rows, targets: &[], weights: &weights };
        let mut kept = KeptRows::default();
        kept.append_until(CAPACITY, data, 0..rows.len() as u32);
        if kept.len() < CAPACITY {
            (detector.header.first, detector.kept) = (true, kept);
        }
        Ok(detector)
    }

    /// Learns from further rows, after a fit or a stream. They are kept until there are as many as before them, or 8,192, so that
    /// f lags behind by less than that.
    pub fn partial_fit(
        &mut self,
        rows: Rows<'_>,
        weights: Option<&[f32]>,
        control: &mut Control<'_>,
    ) -> Result<()> {
        let (expected, found) = (self.columns(), rows.columns());
        if expected != found {
            return Err(Error::Columns { expected, found });
        }
        check_rows(&self.header.options, rows, weights)?;
        control.start(None);
        let (n, mut from) = (rows.len(), 0);
        let weights = weights.map_or_else(|| vec![1.0; n], <[f32]>::to_vec);
        let data = Labelled { rows, targets: &[], weights: &weights };
        while from < n {
            from += self.kept.append_until(CAPACITY, data, from as u32..n as u32);
            if self.header.first && self.kept.are_due(self.header.rows) {
                let KeptRows { w, .. } = &self.kept;
                *self = Self::begin(&self.header.options, self.kept.rows()?, Some(w), control)?;
            } else if !self.header.first && self.kept.len() >= CAPACITY.min(self.header.rows) {
                self.take_in(control)?;
            }
        }
        Ok(())
    }

    /// Averages f with the function of the rows that are kept, which are then let go.
    fn take_in(&mut self, control: &mut Control<'_>) -> Result<()> {
        let Self { f, header, kept } = self;
        let (options, rows) = (&header.options, kept.rows()?);
        let empty = FeatureExpansion::new(f.map().clone(), vec![0.0]);
        let new = learn(options, empty, rows, &kept.w, control)?;
        let weight = effective_rows(&kept.w);
        let share = weight / (header.weight + weight);
        let before = quantile(options, f, rows, &kept.w)?;
        let mean = |(a, b): (&f32, &f32)| ((1.0 - share) * f64::from(*a) + share * f64::from(*b)) as f32;
        let coefficients = f.coefficients(0).iter().zip(new.coefficients(0).iter()).map(mean).collect();
        f.replace(0, coefficients);
        let after = quantile(options, f, rows, &kept.w)?;
        header.offset = match options.share() {
            0.0 => after.min(header.offset + after - before),
            _ => after + (1.0 - share) * (header.offset - before),
        };
        (header.rows, header.weight) = (header.rows + kept.len(), header.weight + weight);
        *kept = KeptRows::default();
        Ok(())
    }

    /// f at `rows`: a weighted mean of kernels, near 0 far from all rows of the fit.
    pub fn scores(&self, rows: Rows<'_>) -> Result<Vec<f32>> {
        rows.check_finite("X")?;
        self.f.map().kernel.check_domain(rows)?;
        let mut out = vec![0.0; rows.len()];
        self.f.evaluate(rows, &mut out)?;
        Ok(out)
    }

    /// The score below which a row is novel.
    pub fn offset(&self) -> f64 {
        self.header.offset
    }

    /// σ, in units of the scaled columns.
    pub fn bandwidth(&self) -> f64 {
        self.header.bandwidth
    }

    /// What was done to the columns: "standard" or "none".
    pub fn scaling(&self) -> &'static str {
        if self.header.standard {
            "standard"
        } else {
            "none"
        }
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.f.map().columns()
    }

    /// The settings of the fit.
    pub fn options(&self) -> &NoveltyOptions {
        &self.header.options
    }
}

impl Stored for NoveltyDetector {
    const KIND: &'static str = "novelty";

    fn store(&self, container: &mut Container) -> Result<()> {
        container.set_field("novelty", &self.header)?;
        insert_expansion(container, &self.f)?;
        self.kept.store(container, "kept")
    }

    fn restore(container: &mut Container) -> Result<Self> {
        let header: Header = container.field("novelty")?;
        header.options.check()?;
        let f = take_expansion(container, 1, |scaling| FeatureMap {
            kernel: header.options.kernel.clone(),
            bandwidth: header.bandwidth,
            projection: header.projection,
            form: FeatureForm::Phase,
            block_size: header.block_size,
            seed: header.options.seed,
            scaling,
        })?;
        if !header.offset.is_finite() || f.len() != 1 {
            return Err(Error::Format("a detector needs one block and a finite offset".into()));
        }
        let kept = KeptRows::restore(container, "kept", f.columns(), 0)?;
        let Header { rows, weight, first, .. } = header;
        if rows == 0 || !weight.is_finite() || weight <= 0.0 || first && kept.len() < rows {
            return Err(Error::Format(
                "a detector needs the rows it has learnt from, or their number".into(),
            ));
        }
        Ok(Self { f, header, kept })
    }
}

/// The quantile of f on `rows` at the share that is called novel.
fn quantile(options: &NoveltyOptions, f: &FeatureExpansion, rows: Rows<'_>, weights: &[f32]) -> Result<f64> {
    let mut values = vec![0.0; rows.len()];
    f.evaluate(rows, &mut values)?;
    Ok(weighted_quantile(&values, weights, options.share()))
}

/// Refuses rows that cannot be learnt from.
fn check_rows(options: &NoveltyOptions, rows: Rows<'_>, weights: Option<&[f32]>) -> Result<()> {
    if rows.is_empty() {
        return Err(Error::Empty { what: "X", needed: "one row" });
    }
    rows.check_finite("X")?;
    options.kernel.check_domain(rows)?;
    check_weights(weights, rows.len())
}

/// Scaling, bandwidth and one block of features; whether columns are standardised.
fn feature_map(options: &NoveltyOptions, rows: Rows<'_>, weights: &[f32]) -> Result<(FeatureMap, bool)> {
    let kernel = &options.kernel;
    let standard = kernel.has_bandwidth()
        && match (options.scaling, options.bandwidth) {
            (ColumnScaling::Standard, _) => true,
            (ColumnScaling::None, _) | (ColumnScaling::Auto, Bandwidth::Value(_)) => false,
            (ColumnScaling::Auto, _) => true,
        };
    let moments = Moments::of(rows, weights);
    let scaling = if standard { watching_constants(moments.standard()) } else { moments.unscaled(kernel) };
    let median = || median_distance(rows, weights, &scaling, kernel, options.seed);
    let bandwidth = match options.bandwidth {
        _ if !kernel.has_bandwidth() => 1.0,
        Bandwidth::Value(value) => value,
        Bandwidth::Auto => SHARE_OF_MEDIAN * median(),
        Bandwidth::Median => median(),
        Bandwidth::Scale if standard => (rows.columns() as f64 / 2.0).sqrt(),
        Bandwidth::Scale => moments.scale_bandwidth(),
    };
    let block_size = options.features.next_multiple_of(2 * FEATURE_MULTIPLE);
    Ok((FeatureMap::new(kernel.clone(), bandwidth, block_size, options.seed, scaling)?, standard))
}

/// Columns that never changed keep their unit instead of being switched off: a change is what is looked for.
fn watching_constants(mut scaling: Scaling) -> Scaling {
    scaling.scale.iter_mut().filter(|s| **s == 0.0).for_each(|s| *s = 1.0);
    scaling
}

/// f, from all rows or, where they are many, from a random part of them.
fn learn(
    options: &NoveltyOptions,
    empty: FeatureExpansion,
    rows: Rows<'_>,
    weights: &[f32],
    control: &mut Control<'_>,
) -> Result<FeatureExpansion> {
    let most = ROWS_PER_FEATURE * empty.map().block_size;
    let heavy: Vec<u32> = (0..rows.len() as u32).filter(|&i| weights[i as usize] > 0.0).collect();
    if heavy.len() > most {
        let order = Permutation::new(options.seed, Stream::Subsample, BlockIndex(0), heavy.len());
        let mut part: Vec<u32> = order.indices()[..most].iter().map(|&i| heavy[i as usize]).collect();
        part.sort_unstable();
        let x = rows.gather(&part);
        let weights: Vec<f32> = part.iter().map(|&i| weights[i as usize]).collect();
        return descend(options, empty, Rows::single(&x, rows.columns())?, &weights, control);
    }
    descend(options, empty, rows, weights, control)
}

fn descend(
    options: &NoveltyOptions,
    empty: FeatureExpansion,
    rows: Rows<'_>,
    weights: &[f32],
    control: &mut Control<'_>,
) -> Result<FeatureExpansion> {
    let solver = OneClassConfig { nu: options.nu }.build()?;
    let mut state = solver.init(empty, rows, weights)?;
    for step in 0..MOST_STEPS {
        if state.is_sharp() {
            break;
        }
        control.check(step)?;
        solver.step(&mut state, rows, weights)?;
    }
    Ok(state.f)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::quietly;
    use crate::random::{normal_pair, Address};

    fn cloud(n: usize) -> Vec<f32> {
        let normal = |i: usize| {
            let words = Address::new(Seed(3), Stream::Synthetic, BlockIndex(0), i as u32).words(0);
            normal_pair(words[0], words[1]).map(|v| v as f32)
        };
        (0..n).flat_map(normal).collect()
    }

    fn fit(options: &NoveltyOptions, x: &[f32], weights: Option<&[f32]>) -> Result<NoveltyDetector> {
        quietly(|control| NoveltyDetector::fit(options, Rows::single(x, 2)?, weights, control))
    }

    #[test]
    fn the_offset_leaves_the_wanted_share_below() {
        let x = cloud(20_000);
        for contamination in [None, Some(0.0), Some(0.1)] {
            let options = NoveltyOptions { contamination, features: 256, ..NoveltyOptions::new(Seed(1)) };
            let detector = fit(&options, &x, None).unwrap();
            let scores = detector.scores(Rows::single(&x, 2).unwrap()).unwrap();
            let below = scores.iter().filter(|&&s| f64::from(s) < detector.offset()).count();
            let wanted = (contamination.unwrap_or(0.5) * 20_000.0) as usize;
            assert!(below.abs_diff(wanted) <= 2, "{below} rows of {wanted} below");
            // Far away, close by: five deviations of the error of the features, 1/√256 of |f| ≤ 1.
            let probe = detector.scores(Rows::single(&[0.0, 0.0, 9.0, 9.0], 2).unwrap()).unwrap();
            assert!(probe[0] > 3.0 * probe[1].abs(), "{probe:?}");
        }
    }

    /// Rows of weight zero are not there, and a weight of two is a row twice, as long as all rows are learnt from.
    #[test]
    fn weights_count_rows() {
        let x = cloud(300);
        let options = NoveltyOptions { features: 128, ..NoveltyOptions::new(Seed(1)) };
        let weights: Vec<f32> = (0..300).map(|i| (i % 3) as f32).collect();
        let repeated: Vec<f32> =
            (0..300).flat_map(|i| vec![[x[2 * i], x[2 * i + 1]]; i % 3]).flatten().collect();
        let (a, b) = (fit(&options, &x, Some(&weights)).unwrap(), fit(&options, &repeated, None).unwrap());
        let rows = Rows::single(&x, 2).unwrap();
        let size = a.offset();
        for (a, b) in a.scores(rows).unwrap().iter().zip(b.scores(rows).unwrap()) {
            assert!(f64::from((a - b).abs()) < 1e-3 * size, "{a} vs {b}");
        }
        assert!((a.offset() - b.offset()).abs() < 1e-3 * size);
    }

    #[test]
    fn a_detector_survives_its_file() {
        let x = cloud(100);
        let detector = fit(&NoveltyOptions::new(Seed(5)), &x, None).unwrap();
        let copy = NoveltyDetector::from_container(detector.to_container().unwrap()).unwrap();
        let rows = Rows::single(&x, 2).unwrap();
        assert_eq!(copy.scores(rows).unwrap(), detector.scores(rows).unwrap());
        assert_eq!(copy.header, detector.header);
        let mut broken = detector.to_container().unwrap();
        broken.set_field("novelty", &Header { offset: f64::NAN, ..detector.header }).unwrap();
        assert!(NoveltyDetector::from_container(broken).is_err());
    }

    #[test]
    fn bad_settings_are_refused_by_name() {
        let options = NoveltyOptions::new(Seed(1));
        let refused = |options: NoveltyOptions| options.check().unwrap_err().to_string();
        assert!(refused(NoveltyOptions { nu: 0.0, ..options.clone() }).contains("nu"));
        assert!(refused(NoveltyOptions { nu: f64::NAN, ..options.clone() }).contains("nu"));
        assert!(
            refused(NoveltyOptions { contamination: Some(1.0), ..options.clone() }).contains("contamination")
        );
        assert!(refused(NoveltyOptions { features: 0, ..options.clone() }).contains("n_components"));
        assert!(fit(&options, &[], None).is_err());
        assert!(fit(&options, &[1.0, f32::NAN], None).unwrap_err().to_string().contains("column 1"));
        assert!(fit(&options, &[1.0, 2.0], Some(&[-1.0])).unwrap_err().to_string().contains("sample_weight"));
    }

    /// A sensor that never moved and then jumps is novel.
    #[test]
    fn a_change_of_a_constant_column_is_novel() {
        let x: Vec<f32> = cloud(200).chunks_exact(2).flat_map(|r| [r[0], 7.0]).collect();
        let options = NoveltyOptions { contamination: Some(0.05), ..NoveltyOptions::new(Seed(1)) };
        let detector = fit(&options, &x, None).unwrap();
        let probe = detector.scores(Rows::single(&[0.0, 7.0, 0.0, 1_000.0], 2).unwrap()).unwrap();
        assert!(
            f64::from(probe[0]) > detector.offset() && f64::from(probe[1]) < detector.offset(),
            "{probe:?}"
        );
    }

    /// One row, equal rows, a constant column: nothing to tell apart, nothing breaks.
    #[test]
    fn degenerate_rows_have_finite_scores() {
        for x in [vec![1.0, 2.0], [1.0, 2.0].repeat(50), (0..40).flat_map(|i| [i as f32, 7.0]).collect()] {
            let detector = fit(&NoveltyOptions::new(Seed(1)), &x, None).unwrap();
            let scores = detector.scores(Rows::single(&x, 2).unwrap()).unwrap();
            assert!(scores.iter().all(|s| s.is_finite()) && detector.offset().is_finite());
        }
    }
}
