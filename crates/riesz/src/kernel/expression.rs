//! Kernels as text: sums of products of named kernels.
//!
//! ```text
//! sum     = product { "+" product }
//! product = factor { "*" factor }
//! factor  = number | name [ "(" number { "," number } ")" ] | "(" sum ")"
//! ```

use super::KernelSpec;
use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Every name, with the parameters it takes.
const NAMES: &str = "gaussian (rbf), laplacian, cauchy, matern(nu), rational_quadratic(alpha), dot_product(a0, a1, ...), \
    polynomial(degree, constant), arc_cosine(order), hellinger, chi_squared, intersection, jensen_shannon, \
    skewed_chi_squared(c), skewed_intersection(c), exponential_semigroup(beta), reciprocal_semigroup(lambda), \
    and sums and products of them";

fn unknown(text: &str) -> Error {
    Error::Unknown { name: "kernel", value: text.into(), expected: NAMES }
}

impl FromStr for KernelSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parser = Parser { rest: text.trim_start() };
        let terms = parser.sum().filter(|_| parser.rest.is_empty()).ok_or_else(|| unknown(text))?;
        let kernel = simplify(terms).ok_or_else(|| unknown(text))?;
        kernel.check()?;
        Ok(kernel)
    }
}

/// c k, with k a product of kernels.
type Term = (f64, Vec<KernelSpec>);

/// The kernel that a list of terms stands for; `None` where a term is a bare number.
fn simplify(terms: Vec<Term>) -> Option<KernelSpec> {
    let mut parts: Vec<(f64, KernelSpec)> = terms
        .into_iter()
        .map(|(c, mut factors)| match factors.len() {
            0 => None,
            1 => Some((c, factors.remove(0))),
            _ => Some((c, KernelSpec::Product(factors))),
        })
        .collect::<Option<_>>()?;
    match parts[..] {
        [(1.0, _)] => Some(parts.remove(0).1),
        _ => Some(KernelSpec::Sum(parts)),
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn eat(&mut self, symbol: char) -> bool {
        match self.rest.strip_prefix(symbol) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    /// The longest start made of characters that `of` accepts.
    fn word(&mut self, of: impl Fn(char) -> bool) -> String {
        let end = self.rest.find(|c| !of(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word.to_owned()
    }

    fn sum(&mut self) -> Option<Vec<Term>> {
        let mut terms = vec![self.product()?];
        while self.eat('+') {
            terms.push(self.product()?);
        }
        Some(terms)
    }

    fn product(&mut self) -> Option<Term> {
        let (mut c, mut factors) = self.factor()?;
        while self.eat('*') {
            let (next, kernels) = self.factor()?;
            c *= next;
            factors.extend(kernels);
        }
        Some((c, factors))
    }

    fn factor(&mut self) -> Option<Term> {
        if self.eat('(') {
            let kernel = simplify(self.sum()?)?;
            return self.eat(')').then(|| (1.0, vec![kernel]));
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return Some((self.number()?, Vec::new()));
        }
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_');
        let mut parameters = Vec::new();
        if self.eat('(') {
            loop {
                parameters.push(self.number()?);
                if !self.eat(',') {
                    break;
                }
            }
            if !self.eat(')') {
                return None;
            }
        }
        Some((1.0, vec![named(&name, &parameters)?]))
    }

    fn number(&mut self) -> Option<f64> {
        // An exponent may carry a sign.
        let mut text = self.word(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '-'));
        if text.ends_with(['e', 'E']) && self.eat('+') {
            text += &self.word(|c| c.is_ascii_digit());
        }
        text.parse().ok()
    }
}

fn whole(value: f64) -> Option<u32> {
    ((0.0..=1e6).contains(&value) && value.fract() == 0.0).then_some(value as u32)
}

fn named(name: &str, parameters: &[f64]) -> Option<KernelSpec> {
    use KernelSpec::*;
    Some(match (name, parameters) {
        ("gaussian" | "rbf", []) => Gaussian,
        ("laplacian", []) => Laplacian,
        ("cauchy", []) => Cauchy,
        ("matern", &[nu]) => Matern(nu),
        ("rational_quadratic", &[alpha]) => RationalQuadratic(alpha),
        ("dot_product", coefficients @ [_, ..]) => DotProduct(coefficients.to_vec()),
        ("polynomial", &[degree, constant]) => Polynomial(whole(degree)?, constant),
        ("arc_cosine", &[order]) => ArcCosine(whole(order)?),
        ("hellinger", []) => Hellinger,
        ("chi_squared", []) => ChiSquared,
        ("intersection", []) => Intersection,
        ("jensen_shannon", []) => JensenShannon,
        ("skewed_chi_squared", &[c]) => SkewedChiSquared(c),
        ("skewed_intersection", &[c]) => SkewedIntersection(c),
        ("exponential_semigroup", &[beta]) => ExponentialSemigroup(beta),
        ("reciprocal_semigroup", &[lambda]) => ReciprocalSemigroup(lambda),
        _ => return None,
    })
}

impl fmt::Display for KernelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, name: &str, values: &[f64]| {
            let values: Vec<String> = values.iter().map(f64::to_string).collect();
            write!(f, "{name}({})", values.join(", "))
        };
        match self {
            Self::Gaussian => f.write_str("gaussian"),
            Self::Laplacian => f.write_str("laplacian"),
            Self::Cauchy => f.write_str("cauchy"),
            Self::Matern(nu) => list(f, "matern", &[*nu]),
            Self::RationalQuadratic(alpha) => list(f, "rational_quadratic", &[*alpha]),
            Self::DotProduct(coefficients) => list(f, "dot_product", coefficients),
            Self::Polynomial(degree, constant) => list(f, "polynomial", &[f64::from(*degree), *constant]),
            Self::ArcCosine(order) => list(f, "arc_cosine", &[f64::from(*order)]),
            Self::Hellinger => f.write_str("hellinger"),
            Self::ChiSquared => f.write_str("chi_squared"),
            Self::Intersection => f.write_str("intersection"),
            Self::JensenShannon => f.write_str("jensen_shannon"),
            Self::SkewedChiSquared(c) => list(f, "skewed_chi_squared", &[*c]),
            Self::SkewedIntersection(c) => list(f, "skewed_intersection", &[*c]),
            Self::ExponentialSemigroup(beta) => list(f, "exponential_semigroup", &[*beta]),
            Self::ReciprocalSemigroup(lambda) => list(f, "reciprocal_semigroup", &[*lambda]),
            Self::User(kernel) => write!(f, "user({})", kernel.name()),
            Self::Sum(terms) => terms.iter().enumerate().try_for_each(|(i, (c, kernel))| {
                let plus = if i > 0 { " + " } else { "" };
                match kernel {
                    Self::Sum(_) => write!(f, "{plus}{c} * ({kernel})"),
                    _ => write!(f, "{plus}{c} * {kernel}"),
                }
            }),
            Self::Product(factors) => factors.iter().enumerate().try_for_each(|(i, kernel)| {
                let times = if i > 0 { " * " } else { "" };
                match kernel {
                    Self::Sum(_) => write!(f, "{times}({kernel})"),
                    _ => write!(f, "{times}{kernel}"),
                }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_written() {
        let read = |text: &str| text.parse::<KernelSpec>().unwrap();
        assert_eq!(read("rbf"), KernelSpec::Gaussian);
        assert_eq!(read(" matern( 1.5 ) "), KernelSpec::Matern(1.5));
        assert_eq!(read("polynomial(3, 1e-2)"), KernelSpec::Polynomial(3, 0.01));
        assert_eq!(read("dot_product(1, 0, 2)"), KernelSpec::DotProduct(vec![1.0, 0.0, 2.0]));
        let product = KernelSpec::Product(vec![KernelSpec::Laplacian, KernelSpec::ArcCosine(1)]);
        let sum = KernelSpec::Sum(vec![(0.5, KernelSpec::Gaussian), (2.0, product)]);
        assert_eq!(read("0.5*gaussian + laplacian * 2 * arc_cosine(1)"), sum);
        assert_eq!(read("(gaussian)"), KernelSpec::Gaussian);
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for text in [
            "gaussian",
            "matern(0.7)",
            "polynomial(2, 1)",
            "hellinger * chi_squared",
            "0.25 * gaussian + 3 * (laplacian + cauchy) * rational_quadratic(2) + skewed_chi_squared(0.1)",
            "dot_product(1, 1, 0.5)",
        ] {
            let kernel: KernelSpec = text.parse().unwrap();
            assert_eq!(kernel.to_string().parse::<KernelSpec>().unwrap(), kernel, "{text}");
            let json = serde_json::to_string(&kernel).unwrap();
            assert_eq!(serde_json::from_str::<KernelSpec>(&json).unwrap(), kernel, "{json}");
        }
        assert_eq!(serde_json::to_string(&KernelSpec::Gaussian).unwrap(), "\"gaussian\"");
    }

    #[test]
    fn nonsense_is_answered_with_the_names() {
        for text in [
            "",
            "gauss",
            "gaussian(1)",
            "matern",
            "matern(1",
            "2",
            "gaussian +",
            "gaussian gaussian",
            "arc_cosine(0.5)",
        ] {
            let error = text.parse::<KernelSpec>().unwrap_err().to_string();
            assert!(error.contains("kernel") && error.contains("matern(nu)"), "{text:?}: {error}");
        }
        for (text, name) in
            [("matern(-1)", "smoothness"), ("polynomial(0, 1)", "degree"), ("arc_cosine(3)", "order")]
        {
            let error = text.parse::<KernelSpec>().unwrap_err().to_string();
            assert!(error.contains(name), "{text}: {error}");
        }
    }
}
