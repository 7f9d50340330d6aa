//! Which instructions the hot kernels use.

use serde::{Deserialize, Serialize};

/// The name of an instruction path, as model files record it; [`Device`](super::Device) is the leave to use one. One seed gives the same bits on one path for any thread count; across paths
/// results agree to rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// Plain Rust, any processor.
    Portable,
    /// AVX2 with fused multiply-add.
    Avx2,
    /// AVX-512 (F, BW, DQ, VL).
    Avx512,
    /// AVX-512 with AMX tiles: Gram matrices, and products of numbers that are bfloat16, with single-precision accumulation.
    Amx,
}

impl Path {
    /// The best path this machine has.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn best() -> Self {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = avx2
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        match (avx512, avx2) {
            (true, _) if super::amx::available() => Self::Amx,
            (true, _) => Self::Avx512,
            (false, true) => Self::Avx2,
            (false, false) => Self::Portable,
        }
    }

    /// The best path this machine has.
    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn best() -> Self {
        Self::Portable
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Amx => "amx",
        })
    }
}
