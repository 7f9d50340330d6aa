//! Kernels and their random features.
//!
//! A kernel is a pair (spec 2.1): a measure p(ω) and features φ_ω with E[φ_ω(x) φ_ω(x')] = k(x, x'). One file per
//! family holds the closed form and the measure; [`FeatureMap`] turns a measure into blocks of features.
//!
//! Normalisation: a block of m scalar features stands for k ≈ (1/m) Σ φ_i(x) φ_i(x').

mod arc_cosine;
mod cauchy;
mod closed_form;
mod combination;
mod dot_product;
mod expression;
mod feature_map;
mod gaussian;
mod homogeneous;
mod laplacian;
mod matern;
mod polynomial;
mod radial;
mod rational_quadratic;
mod semigroup;
mod skewed;
mod user;

pub use cauchy::Cauchy;
pub use closed_form::ClosedForm;
pub use feature_map::{FeatureForm, FeatureMap, Projection, Scaling};
pub use gaussian::Gaussian;
pub use laplacian::Laplacian;
pub use matern::Matern;
pub use rational_quadratic::RationalQuadratic;
pub use skewed::{SkewedChiSquared, SkewedIntersection};
pub use user::{BoxError, FeatureTile, UserKernel};

use crate::compute::Input;
use crate::data::{tiles, Rows};
use crate::error::{in_range, non_negative, positive, Error, Result};
use crate::random::{normals, Address, Stream};
use homogeneous::Homogeneous;
use semigroup::Semigroup;
use serde::{Deserialize, Serialize};

/// A shift-invariant kernel of unit bandwidth: features √2 cos(ωᵀx + b) with b uniform on a turn.
pub trait Spectral: Send + Sync {
    /// k(x, x') for the difference x − x', in units of the bandwidth.
    fn evaluate(&self, difference: &[f64]) -> f64;

    /// Draws a frequency ω ~ p(ω) for unit bandwidth; lanes of `address` are consumed in order.
    fn frequency(&self, address: Address, out: &mut [f64]);

    /// Whether p(ω) depends on ‖ω‖ alone, so that structured orthogonal directions may replace independent ones.
    fn is_isotropic(&self) -> bool {
        false
    }

    /// An isotropic ω is a normal vector times this random number.
    fn mixing(&self, _words: &mut dyn Iterator<Item = u32>) -> f64 {
        1.0
    }
}

/// The kernels, by the names users type: `matern(1.5)`, `gaussian + 0.5 * polynomial(2, 1)`; and functions of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelSpec {
    /// exp(−‖x − x'‖²/2σ²).
    Gaussian,
    /// exp(−‖x − x'‖₁/σ).
    Laplacian,
    /// Π 1/(1 + (x_i − x'_i)²/σ²).
    Cauchy,
    /// [`Matern`] of smoothness ν.
    Matern(f64),
    /// (1 + ‖x − x'‖²/(2ασ²))^{−α}.
    RationalQuadratic(f64),
    /// Σ a_n ⟨x, x'⟩ⁿ/σ²ⁿ, the coefficients a_0, a_1, …
    DotProduct(Vec<f64>),
    /// (⟨x, x'⟩/σ² + c)ᵖ: degree p and constant c.
    Polynomial(u32, f64),
    /// Arc-cosine kernel of order 0, 1 or 2.
    ArcCosine(u32),
    /// Σ √(x_i x'_i), x ≥ 0.
    Hellinger,
    /// Σ 2x_i x'_i/(x_i + x'_i), x ≥ 0.
    ChiSquared,
    /// Σ min(x_i, x'_i), x ≥ 0.
    Intersection,
    /// Σ ½x_i log₂((x_i + x'_i)/x_i) + ½x'_i log₂((x_i + x'_i)/x'_i), x ≥ 0.
    JensenShannon,
    /// [`SkewedChiSquared`] with the constant c.
    SkewedChiSquared(f64),
    /// [`SkewedIntersection`] with the constant c.
    SkewedIntersection(f64),
    /// exp(−β Σ √(x_i + x'_i)), x ≥ 0.
    ExponentialSemigroup(f64),
    /// Π λ/(x_i + x'_i + λ), x ≥ 0.
    ReciprocalSemigroup(f64),
    /// Σ c_i k_i.
    Sum(Vec<(f64, KernelSpec)>),
    /// Π k_i.
    Product(Vec<KernelSpec>),
    /// A function of one's own.
    User(UserKernel),
}

impl KernelSpec {
    /// The kernel as a shift-invariant one, in x or in log(x + c); `None` for the others.
    pub fn spectral(&self) -> Option<Box<dyn Spectral>> {
        match self.family() {
            Family::Spectral(kernel) | Family::Skewed(kernel, _) => Some(kernel),
            _ => None,
        }
    }

    /// What is done to the columns before ωᵀx.
    pub(crate) fn input(&self) -> Input {
        match *self {
            Self::SkewedChiSquared(c) | Self::SkewedIntersection(c) => Input::Log { constant: c as f32 },
            _ => Input::Plain,
        }
    }

    /// Kernels that make up this one: itself, or the parts of a combination.
    fn parts(&self) -> Vec<&Self> {
        match self {
            Self::Sum(terms) => terms.iter().flat_map(|(_, kernel)| kernel.parts()).collect(),
            Self::Product(factors) => factors.iter().flat_map(Self::parts).collect(),
            _ => vec![self],
        }
    }

    /// Whether k(x + a, x' + a) = k(x, x'): then columns may be centred.
    pub fn is_shift_invariant(&self) -> bool {
        let invariant = |kernel: &&Self| kernel.spectral().is_some() && kernel.input() == Input::Plain;
        self.parts().iter().all(invariant)
    }

    /// The least value a column may have, and whether it may have it; `None` for kernels on all of ℝᵈ.
    fn least(&self) -> Option<(f64, bool)> {
        match *self {
            Self::SkewedChiSquared(c) | Self::SkewedIntersection(c) => Some((-c, false)),
            Self::Hellinger | Self::ChiSquared | Self::Intersection | Self::JensenShannon => {
                Some((0.0, true))
            }
            Self::ExponentialSemigroup(_) | Self::ReciprocalSemigroup(_) => Some((0.0, true)),
            _ => None,
        }
    }

    /// Whether the kernel has a bandwidth σ and takes columns of any scale; kernels on a part of ℝᵈ and those of users
    /// take columns as they are.
    pub fn has_bandwidth(&self) -> bool {
        self.parts().iter().all(|kernel| kernel.least().is_none() && !matches!(kernel, Self::User(_)))
    }

    /// Whether k(x, x) = 1 for every x.
    pub fn is_normalised(&self) -> bool {
        match self {
            Self::Sum(terms) => {
                (terms.iter().map(|(c, _)| c).sum::<f64>() - 1.0).abs() < 1e-12
                    && terms.iter().all(|(_, kernel)| kernel.is_normalised())
            }
            Self::Product(factors) => factors.iter().all(Self::is_normalised),
            _ => self.spectral().is_some(),
        }
    }

    /// Checks the parameters.
    pub fn check(&self) -> Result<()> {
        let count = |name, found: usize| in_range(name, found as f64, found > 0, "[1, inf)");
        match self {
            Self::Matern(nu) => positive("smoothness of matern", *nu)?,
            Self::RationalQuadratic(alpha) => positive("alpha of rational_quadratic", *alpha)?,
            Self::SkewedChiSquared(c) | Self::SkewedIntersection(c) => {
                positive("constant of a skewed kernel", *c)?
            }
            Self::ExponentialSemigroup(v) | Self::ReciprocalSemigroup(v) => {
                positive("parameter of a semigroup kernel", *v)?
            }
            Self::Polynomial(degree, constant) => {
                let possible = (1..=16).contains(degree);
                in_range("degree of polynomial", f64::from(*degree), possible, "1, …, 16")?;
                non_negative("constant of polynomial", *constant)?
            }
            Self::ArcCosine(order) => {
                in_range("order of arc_cosine", f64::from(*order), *order <= 2, "0, 1, 2")?
            }
            Self::DotProduct(coefficients) => {
                for &a in coefficients {
                    non_negative("coefficient of dot_product", a)?;
                }
                count("number of positive coefficients", coefficients.iter().filter(|&&a| a > 0.0).count())?
            }
            Self::Sum(terms) => {
                for (c, kernel) in terms {
                    positive("coefficient of a sum of kernels", *c)?;
                    kernel.check()?;
                }
                count("number of kernels in a sum", terms.len())?
            }
            Self::Product(factors) => {
                factors.iter().try_for_each(Self::check)?;
                count("number of kernels in a product", factors.len())?
            }
            Self::User(kernel) => return kernel.check(),
            _ => return Ok(()),
        };
        Ok(())
    }

    /// Refuses values outside the domain of the kernel, by row and column.
    pub fn check_domain(&self, rows: Rows<'_>) -> Result<()> {
        for kernel in self.parts() {
            let Some((least, included)) = kernel.least() else { continue };
            let outside = |v: f64| if included { v < least } else { v <= least };
            let mut values = Vec::new();
            for tile in tiles(rows.len()) {
                values.clear();
                rows.slice(tile.clone()).append_doubles(&mut values);
                if let Some(place) = values.iter().position(|&value| outside(value)) {
                    let (kernel, value) = (kernel.to_string(), values[place]);
                    let (row, column) = (tile.start + place / rows.columns(), place % rows.columns());
                    return Err(Error::Domain { kernel, value, row, column, least, included });
                }
            }
        }
        Ok(())
    }

    /// k(x, x') with bandwidth σ; a user's kernel is known by its features alone.
    pub fn evaluate(&self, x: &[f32], other: &[f32], bandwidth: f64) -> Result<f64> {
        let unit = if self.has_bandwidth() { bandwidth } else { 1.0 };
        match self {
            // Parts of a combination may have a bandwidth or not, each for itself.
            Self::Sum(terms) => terms.iter().map(|(c, k)| Ok(c * k.evaluate(x, other, bandwidth)?)).sum(),
            Self::Product(factors) => factors.iter().map(|k| k.evaluate(x, other, bandwidth)).product(),
            _ => {
                let wide = |x: &[f32]| x.iter().map(|&v| f64::from(v) / unit).collect::<Vec<_>>();
                self.family().value(&wide(x), &wide(other), &mut Vec::new())
            }
        }
    }

    /// How the kernel is computed.
    fn family(&self) -> Family<'_> {
        match self {
            Self::Gaussian => Family::Spectral(Box::new(Gaussian)),
            Self::Laplacian => Family::Spectral(Box::new(Laplacian)),
            Self::Cauchy => Family::Spectral(Box::new(Cauchy)),
            &Self::Matern(smoothness) => Family::Spectral(Box::new(Matern { smoothness })),
            &Self::RationalQuadratic(alpha) => Family::Spectral(Box::new(RationalQuadratic { alpha })),
            &Self::SkewedChiSquared(c) => Family::Skewed(Box::new(SkewedChiSquared), c),
            &Self::SkewedIntersection(c) => Family::Skewed(Box::new(SkewedIntersection), c),
            Self::DotProduct(coefficients) => Family::DotProduct(coefficients),
            &Self::Polynomial(degree, constant) => Family::Polynomial(degree, constant),
            &Self::ArcCosine(order) => Family::ArcCosine(order),
            Self::Hellinger => Family::Homogeneous(Homogeneous::Hellinger),
            Self::ChiSquared => Family::Homogeneous(Homogeneous::ChiSquared),
            Self::Intersection => Family::Homogeneous(Homogeneous::Intersection),
            Self::JensenShannon => Family::Homogeneous(Homogeneous::JensenShannon),
            &Self::ExponentialSemigroup(beta) => Family::Semigroup(Semigroup::Exponential { beta }),
            &Self::ReciprocalSemigroup(lambda) => Family::Semigroup(Semigroup::Reciprocal { lambda }),
            Self::Sum(terms) => Family::Sum(terms),
            Self::Product(factors) => Family::Product(factors),
            Self::User(kernel) => Family::User(kernel),
        }
    }
}

/// A kernel by how it is evaluated and how its features are drawn.
enum Family<'a> {
    Spectral(Box<dyn Spectral>),
    /// Shift-invariant in log(x + c).
    Skewed(Box<dyn Spectral>, f64),
    DotProduct(&'a [f64]),
    Polynomial(u32, f64),
    ArcCosine(u32),
    Homogeneous(Homogeneous),
    Semigroup(Semigroup),
    Sum(&'a [(f64, KernelSpec)]),
    Product(&'a [KernelSpec]),
    User(&'a UserKernel),
}

impl Family<'_> {
    /// k(x, x') at unit bandwidth; `buffer` is scratch memory.
    fn value(&self, x: &[f64], other: &[f64], buffer: &mut Vec<f64>) -> Result<f64> {
        let mut difference = |kernel: &dyn Spectral, input: &dyn Fn(f64) -> f64| {
            buffer.clear();
            buffer.extend(x.iter().zip(other).map(|(a, b)| input(*a) - input(*b)));
            kernel.evaluate(buffer)
        };
        Ok(match self {
            Self::Spectral(kernel) => difference(&**kernel, &|v| v),
            Self::Skewed(kernel, c) => difference(&**kernel, &|v| (v + c).ln()),
            Self::DotProduct(coefficients) => dot_product::evaluate(coefficients, x, other),
            Self::Polynomial(degree, c) => polynomial::evaluate(*degree, *c, x, other),
            Self::ArcCosine(order) => arc_cosine::evaluate(*order, x, other),
            Self::Homogeneous(kernel) => kernel.evaluate(x, other),
            Self::Semigroup(kernel) => kernel.evaluate(x, other),
            Self::Sum(terms) => {
                terms.iter().map(|(c, k)| Ok(c * k.family().value(x, other, buffer)?)).sum::<Result<f64>>()?
            }
            Self::Product(factors) => {
                factors.iter().map(|k| k.family().value(x, other, buffer)).product::<Result<f64>>()?
            }
            Self::User(kernel) => {
                let kernel = KernelSpec::User((*kernel).clone());
                return Err(Error::Conflict(format!("the kernel {kernel} is known by its features alone")));
            }
        })
    }
}

/// A normal vector times the mixing variable of the kernel.
fn scaled_normals(kernel: &dyn Spectral, address: Address, out: &mut [f64]) {
    normals(address, out);
    let size = kernel.mixing(&mut address.on(Stream::Mixing).sequence());
    out.iter_mut().for_each(|v| *v *= size);
}
