//! Learning over dynamics: Markov decision processes, and conditional expectations of which a sample has one outcome alone
//! (thesis chapters 5 and 6).

mod bandwidth;
pub mod environment;
pub mod hitting_time;
pub mod invariance;
pub mod policy_evaluation;
pub mod sbeed;
