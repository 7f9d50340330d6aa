//! Control by smoothed Bellman error embedding (SBEED; thesis chapter 6 and appendix D).
//!
//! The entropy-smoothed Bellman equation V(s) = max_π E[R + γV(s')] + λH(π, s) has one solution, the only pair (V, π) with
//!
//! ```text
//! V(s) = R(s, a) + γE[V(s')|s, a] − λ log π(a|s)        for all s and a                             (6.6)
//! ```
//!
//! so that steps of any policy can be learnt from as they are. With δ = R + γV(s') − λ log π(a|s), of one step or of
//! several ([`Windows`]), SBEED solves
//!
//! ```text
//! min over V, π of max over ρ of  E[(δ − V(s))²] − ηE[(δ − ρ(s, a))²]                              (6.10)
//! ```
//!
//! whose dual function ρ takes the variance of δ out of the square ([`Smoothing`] has value and derivatives). [`Sbeed`] is an
//! agent that learns by it; [`tabular`] solves it on finite processes.

mod agent;
mod approximator;
mod head;
mod iteration;
mod metric;
mod objective;
mod options;
mod policy;
mod replay;
mod running;
mod saddle;
pub mod tabular;
mod windows;

pub use agent::{Acted, Sbeed};
pub use approximator::{Approximator, Inputs};
pub use head::Head;
pub use iteration::{Learned, Progressed};
pub use objective::{Gradients, Sample, Smoothing};
pub use options::{Actions, Critic, DualActions, Form, Options, PolicyStep, Score, Target};
pub use policy::Policy;
pub use replay::{Replay, Steps};
pub use windows::{After, Horizon, Windows};

use approximator::Regression;
use replay::Gathered;
use running::Running;
