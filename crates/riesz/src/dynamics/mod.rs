//! Learning over dynamics: Markov decision processes and what is learnt about them.

pub mod environment;
