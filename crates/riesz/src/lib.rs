//! Kernel machines by stochastic optimisation in function space.
//!
//! Everything here minimises one functional over an element f of a function space:
//!
//! ```text
//! min over f of  E_s[ J((T f)(s)) ] + ν G(f)
//! ```
//!
//! So there are four kinds of part, and one way to put them together.
//!
//! | part | the question it answers | module |
//! | --- | --- | --- |
//! | space | what is f, and how does a gradient step change it? | [`space`] |
//! | operator T | how is f observed? | [`operator`] |
//! | loss J | how wrong is the value? | [`loss`] |
//! | solver | how do we move? | [`solver`] |
//!
//! One step of functional gradient descent, the same for every space, operator and loss:
//!
//! ```text
//! v = T f,   r = −J'(v, y),   f ← (1 − γν) f + γ Σ_s r_s T*δ_s
//! ```
//!
//! # Fitting
//!
//! [`functions`] puts the parts together. Every setting has a default; the seed is the one thing to be given.
//!
//! ```
//! use riesz::data::Rows;
//! use riesz::driver::quietly;
//! use riesz::functions::{KernelMachine, Options, Task, Training};
//! use riesz::random::Seed;
//!
//! fn main() -> riesz::Result<()> {
//!     // A grid on the square [−1, 1]²; class 1 lies inside the circle of radius 0.7.
//!     let x: Vec<f32> = (0..41 * 41).flat_map(|i| [i % 41, i / 41]).map(|k| k as f32 / 20.0 - 1.0).collect();
//!     let y: Vec<f32> = x.chunks(2).map(|p| f32::from(p[0].hypot(p[1]) < 0.7)).collect();
//!
//!     let options = Options::new(Task::Classification(2), Seed(1));
//!     let data = Training { rows: Rows::single(&x, 2)?, targets: &y, weights: None };
//!     let machine = quietly(|control| KernelMachine::fit(&options, &data, control))?;
//!
//!     let centre_and_corner = Rows::single(&[0.0, 0.0, 0.9, 0.9], 2)?;
//!     assert_eq!(machine.classes_of(centre_and_corner)?, [1, 0]);
//!     Ok(())
//! }
//! ```
//!
//! # The modules
//!
//! Dependencies point down this list, never up.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`dynamics`] | learning over dynamics: policy evaluation, hitting times, invariance, control, environments |
//! | [`functions`] | learning over functions: settings, the course of a fit, the fitted machine |
//! | [`distributions`] | learning over distributions: particles, kernel densities, mirror descent, models |
//! | [`gaussian`] | what Gaussian processes share: covariances, samples, hyper-parameters |
//! | [`driver`] | the loop around every solver: batches, progress, cancellation, time budget, checkpoints |
//! | [`solver`] | functional stochastic gradients, preconditioned ones, block functional descent, ridge, saddle points |
//! | [`space`], [`operator`], [`loss`] | the other three kinds of part |
//! | [`kernel`] | closed forms, and the random features that stand for them |
//! | [`linalg`] | one Cholesky factorisation, conjugate gradients, quasi-Newton steps, k-means, special functions |
//! | [`compute`] | the hot kernels behind one small boundary; the only unsafe code |
//! | [`model`] | the file a fitted machine or a checkpoint lives in |
//! | [`data`] | views of rows, and readers of data files |
//! | [`random`] | random numbers by address |
//! | [`error`] | what can go wrong |
//!
//! Symbols, equations and the numbers in these comments ("spec 2.4") are explained in `docs/notation.md`, what was
//! changed against the published algorithms in `docs/departures.md`.

pub mod compute;
pub mod constraint;
pub mod data;
pub mod distributions;
pub mod driver;
pub mod dynamics;
pub mod error;
pub mod functions;
pub mod gaussian;
pub mod kernel;
pub mod linalg;
pub mod loss;
pub mod memory;
pub mod model;
pub mod operator;
pub mod random;
pub mod solver;
pub mod space;
pub use error::{Error, Result};
