//! Embedding-SGD: stochastic gradients of a saddle point over two function spaces (thesis Algorithm 4).

use super::{check_ridge, Samples, Schedule, Solver, StepInfo};
use crate::error::{Error, Result};
use crate::loss::{Conjugate, Loss};
use crate::operator::{adjoint, apply, Conditional};
use crate::space::{Space, Terms};
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// What the dual space holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DualForm {
    /// u itself, as published; a function of (x, y), or of x where y is the same for all.
    Free,
    /// v with u(x, y) = ∇ℓ_y(v(x)), for a smooth loss: v(x) − y for the square. v(x) is E[f(z) | x] at the saddle point, which is
    /// easier to learn than u. It follows (T f)(s) − v(x), which is (T f)(s) − ∇ℓ*_y(u) where ∇ℓ_y can be inverted: steps up the
    /// same slope, in the geometry of ℓ*.
    #[default]
    Shifted,
}

/// Settings of [`EmbeddingSgd`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EmbeddingSgdConfig {
    /// γ_t of f.
    pub primal: Schedule,
    /// γ_t of u, the same as published.
    pub dual: Schedule,
    /// λ₁ in (λ₁/2)‖f‖².
    pub primal_ridge: f64,
    /// λ₂ in −(λ₂/2)‖u‖².
    pub dual_ridge: f64,
    /// What the dual space holds.
    pub form: DualForm,
}

impl EmbeddingSgdConfig {
    /// Algorithm 4: one step size γ/√t for both functions, u free. The average it returns has the weights γ_t, which is a matter of
    /// the spaces ([`crate::space::Averaging`]).
    pub fn published(step: f64) -> Self {
        let schedule = Schedule::InverseRoot { step, delay: 0.0, horizon: f64::INFINITY };
        Self { primal: schedule, dual: schedule, primal_ridge: 0.0, dual_ridge: 0.0, form: DualForm::Free }
    }

    /// Checks the settings. The loss needs a conjugate, and for [`DualForm::Shifted`] a bounded curvature.
    pub fn build<T: Conditional, F: Space, U: Space>(
        self,
        operator: T,
        loss: &dyn Loss,
    ) -> Result<EmbeddingSgd<'_, T, F, U>> {
        self.primal.check()?;
        self.dual.check()?;
        check_ridge(self.primal_ridge)?;
        check_ridge(self.dual_ridge)?;
        if self.form == DualForm::Shifted && loss.curvature().is_none() {
            return Err(Error::Conflict(format!(
                "u = ∇ℓ(v) is the dual of a smooth loss; the {} loss needs a free dual",
                loss.name()
            )));
        }
        let Some(conjugate) = loss.as_conjugate() else {
            return Err(Error::Conflict(format!("the {} loss has no conjugate", loss.name())));
        };
        Ok(EmbeddingSgd { config: self, operator, loss: conjugate, spaces: PhantomData })
    }
}

/// One step towards the saddle point of
///
/// ```text
/// min_f max_u  E[ (T f)(s) u(x, y) − ℓ*_y(u(x, y)) ] + (λ₁/2)‖f‖² − (λ₂/2)‖u‖²,
/// ```
///
/// whose f minimises E ℓ_y(E[(T f)(s) | x]) though a sample s has one z alone (thesis 5.13, Algorithm 4):
///
/// ```text
/// f ← (1 − γλ₁) f − γ u_s T*δ_s,        u ← (1 − γλ₂) u + γ ( (T f)(s) − ∇ℓ*_y(u_s) ) k(x, ·),
/// ```
///
/// both from the same f and u. Values u_s are first brought to the domain of ℓ*_y. With the square loss, y = 0, the Bellman
/// residual for T and one finite basis for both spaces this is GTD2.
pub struct EmbeddingSgd<'l, T, F, U> {
    config: EmbeddingSgdConfig,
    operator: T,
    loss: &'l dyn Conjugate,
    spaces: PhantomData<fn(F, U)>,
}

/// What changes from step to step.
#[derive(Clone, Debug)]
pub struct SaddleState<F, U> {
    /// The last iterate of f.
    pub f: F,
    /// The last iterate of u, or of v.
    pub dual: U,
    /// Steps taken.
    pub step: u64,
}

impl<F, U> SaddleState<F, U> {
    /// The state that begins with `f` and `dual`.
    pub fn new(f: F, dual: U) -> Self {
        Self { f, dual, step: 0 }
    }
}

/// Facts about one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SaddleInfo {
    /// E[f u − ℓ*(u)] on the batch before the step.
    pub value: f64,
}

impl StepInfo for SaddleInfo {
    fn loss(&self) -> f64 {
        self.value
    }
}

impl<T: Conditional, F: Space, U: Space> EmbeddingSgd<'_, T, F, U> {
    /// One sample: from the value of the dual space to u, in the domain of the conjugate, and to what (T f)(s) is compared with.
    fn dual_values(&self, value: &[f32], y: &[f32], u: &mut [f32], slope: &mut [f32]) {
        match self.config.form {
            DualForm::Shifted => {
                self.loss.derivative(value, y, u);
                slope.copy_from_slice(value);
            }
            DualForm::Free => {
                u.copy_from_slice(value);
                self.loss.project(u, y);
                self.loss.conjugate_derivative(u, y, slope);
            }
        }
    }
}

impl<T: Conditional, F: Space, U: Space> Solver for EmbeddingSgd<'_, T, F, U> {
    type Batch<'a> = Samples<'a, T::Batch<'a>>;
    type State = SaddleState<F, U>;
    type Info = SaddleInfo;

    fn step(&self, state: &mut SaddleState<F, U>, samples: Samples<'_, T::Batch<'_>>) -> Result<SaddleInfo> {
        let Samples { batch, targets, weights } = samples;
        let (c, t) = (self.loss.outputs(), self.loss.targets());
        let given = self.operator.given(batch);
        let [mut values, mut dual_values, mut u] = [(); 3].map(|()| vec![0.0; weights.len() * c]);
        apply(&self.operator, &state.f, batch, &mut values)?;
        state.dual.evaluate(given, &mut dual_values)?;
        let mass: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let (mut total, mut slope) = (0.0, vec![0.0; c]);
        for (i, &w) in weights.iter().enumerate() {
            let (u, f) = (&mut u[i * c..][..c], &mut values[i * c..][..c]);
            let y = &targets[i * t..][..t];
            self.dual_values(&dual_values[i * c..][..c], y, u, &mut slope);
            let product: f64 = f.iter().zip(&*u).map(|(f, u)| f64::from(*f) * f64::from(*u)).sum();
            total += f64::from(w) * (product - self.loss.conjugate(u, y));
            let share = f64::from(w) / mass;
            for ((u, f), slope) in u.iter_mut().zip(f).zip(&slope) {
                *f = (share * (f64::from(*f) - f64::from(*slope))) as f32;
                *u = (-share * f64::from(*u)) as f32;
            }
        }
        let value = total / mass;
        if !value.is_finite() {
            return Err(Error::Diverged {
                step: state.step as usize,
                objective: value,
                lower: "the step sizes",
            });
        }
        let next = state.step + 1;
        let EmbeddingSgdConfig { primal, dual, primal_ridge, dual_ridge, .. } = self.config;
        state.f.step(primal.at(next), primal_ridge, &adjoint(&self.operator, batch, &u))?;
        state.dual.step(dual.at(next), dual_ridge, &[Terms::new(given, &values)])?;
        state.step = next;
        Ok(SaddleInfo { value })
    }
}
