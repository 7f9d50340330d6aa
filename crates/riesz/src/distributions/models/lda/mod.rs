//! Latent Dirichlet allocation: documents are mixtures of topics, topics are distributions over words.
//!
//! ```text
//! φ_k ~ Dir(η, …, η) over W words,  θ_d ~ Dir(α_1, …, α_K),  z_{di} ~ θ_d,  x_{di} ~ φ_{z_{di}}
//! ```
//!
//! The posterior of the topics is learnt by particle mirror descent (spec 4, model 4; thesis B.6.2): given assignments
//! z the topics are Dirichlet again, q(φ) = Dir(β), and a step on a batch of B of D documents is
//!
//! ```text
//! β ← (1−γ)β + γη + γ(D/B) Σ_{d in batch} counts(z_d)
//! ```
//!
//! [`LdaMode::Paper`] draws the assignments, for each of several particles that carry weights ([`Particles`]).
//! [`LdaMode::Adaptive`], the default, puts their expectations in place of draws, by collapsed variational Bayes, and
//! keeps one particle; `docs/departures.md` says what that gains.

mod adaptive;
mod corpus;
mod infer;
mod model;
mod options;
mod paper;
mod perplexity;
mod priors;
mod statistics;

pub use corpus::Corpus;
pub use model::{LdaSummary, TopicModel};
pub use options::{LdaMode, LdaOptions};
pub use paper::{MirrorStep, Particles};
