//! Randomness by address.
//!
//! No generator object survives a call. A random number is a pure function of its address
//! (seed, [`Stream`], block, index, lane): a feature is never stored, only regenerated, and two uses
//! never collide because every purpose has a stream of its own.

mod distribution;
mod philox;

pub use distribution::{cauchy_pair, chi, gamma, normal_pair, sech, uniform, uniform_open, Permutation};
pub(crate) use distribution::{fill_pairs, normals};
pub use philox::philox4x32;

use serde::{Deserialize, Serialize};

/// The 64-bit seed of a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Seed(pub u64);

/// Position of a feature block in an expansion: block `b` is the `b`-th functional gradient step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockIndex(pub u64);

/// The purpose of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Stream {
    /// Frequencies of dense random features.
    Frequency = 1,
    /// Phases of random features.
    Phase = 2,
    /// Signs of structured orthogonal features.
    Sign = 3,
    /// Row norms of structured orthogonal features.
    Norm = 4,
    /// Order in which rows are visited.
    Shuffle = 5,
    /// Rows held out for early stopping.
    HoldOut = 6,
    /// Rows of a subsampled Gram matrix.
    Subsample = 7,
    /// Rows on which bandwidths are raced.
    Race = 8,
    /// Synthetic data.
    Synthetic = 9,
    /// Scale mixtures of frequencies.
    Mixing = 10,
    /// Hashes and signs of count sketches.
    Sketch = 11,
    /// Order of the rows of a Gaussian process.
    Process = 12,
    /// Samples of a posterior.
    Posterior = 13,
    /// Seeds of the blocks of a user's kernel.
    User = 14,
    /// Draws from a prior, a kernel density or a mixture of proposals.
    Particle = 15,
    /// Which particles survive.
    Resample = 16,
    /// Moves of particles and whether they are accepted.
    Move = 17,
    /// Topics of words.
    Topic = 18,
    /// Inducing inputs.
    Inducing = 19,
    /// First weights of a network.
    Network = 20,
    /// Which of the points that may follow a transition is taken.
    Successor = 21,
    /// First states of episodes.
    StartState = 24,
    /// States of independent transitions.
    SampledState = 25,
    /// Noise of steps.
    Transition = 26,
    /// Noise of further next states of a state.
    NextState = 27,
    /// Noise of simulated returns.
    Rollout = 28,
    /// Actions of a policy.
    Action = 29,
}

/// Address of four random words: 2³² lanes at each index, 2³² indices in each block, 2⁴⁸ blocks.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    seed: Seed,
    stream: Stream,
    block: BlockIndex,
    index: u32,
}

impl Address {
    /// The address (seed, stream, block, index); the lane is given to [`Address::words`].
    pub fn new(seed: Seed, stream: Stream, block: BlockIndex, index: u32) -> Self {
        Self { seed, stream, block, index }
    }

    /// The four words at `lane`.
    ///
    /// Counter = (lane, index, block low, block high (16 bits) | stream (16 bits)); key = seed.
    #[inline]
    pub fn words(&self, lane: u32) -> [u32; 4] {
        let high = ((self.block.0 >> 32) as u32 & 0xffff) | ((self.stream as u32) << 16);
        let key = [self.seed.0 as u32, (self.seed.0 >> 32) as u32];
        philox4x32([lane, self.index, self.block.0 as u32, high], key)
    }
}

impl Address {
    /// The same place in another stream.
    pub fn on(self, stream: Stream) -> Self {
        Self { stream, ..self }
    }

    /// The words of all lanes, one after the other: for draws that take as many as they need.
    pub fn sequence(self) -> impl Iterator<Item = u32> {
        (0..).flat_map(move |lane| self.words(lane))
    }
}
