//! The layers of a network: values forward, derivatives backward, a tile of rows at a time.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use serde::{Deserialize, Serialize};

/// Rows of a tile: always this many, the last padded with zeros. So neither the number of threads nor the rows that
/// come with a row change a digit of its value: products take another route for another number of rows.
pub(super) const ROWS: usize = 64;

/// What is done to the values of a hidden layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nonlinearity {
    /// a(z) = tanh z, a' = 1 − a².
    Tanh,
    /// a(z) = max(0, z), a' one where a is above zero.
    Relu,
}

impl Nonlinearity {
    /// z ← a(z).
    fn apply(self, values: &mut [f32]) {
        match self {
            Self::Tanh => values.iter_mut().for_each(|z| *z = z.tanh()),
            Self::Relu => values.iter_mut().for_each(|z| *z = z.max(0.0)),
        }
    }

    /// derivative ← derivative · a'(z), from the values a = a(z).
    fn multiply_slope(self, values: &[f32], derivatives: &mut [f32]) {
        let pairs = derivatives.iter_mut().zip(values);
        match self {
            Self::Tanh => pairs.for_each(|(derivative, a)| *derivative *= 1.0 - a * a),
            Self::Relu => pairs.for_each(|(derivative, a)| *derivative *= f32::from(*a > 0.0)),
        }
    }
}

/// One layer z = W a + b: where its weights (outputs×inputs, row-major) and then its bias stand among all parameters.
#[derive(Clone, Copy, Debug)]
struct Layer {
    start: usize,
    inputs: usize,
    outputs: usize,
}

impl Layer {
    /// W and b among the parameters θ.
    fn of<'a>(&self, theta: &'a [f32]) -> (&'a [f32], &'a [f32]) {
        theta[self.start..self.end()].split_at(self.inputs * self.outputs)
    }

    /// Where the next layer starts.
    fn end(&self) -> usize {
        self.start + (self.inputs + 1) * self.outputs
    }
}

/// The shape of a network.
#[derive(Clone, Debug)]
pub(super) struct Layers {
    layers: Vec<Layer>,
    nonlinearity: Nonlinearity,
}

/// out ← A B, or out ← out + A B.
fn product(out: &mut [f32], accum: Accum, a: MatRef<'_, f32>, b: MatRef<'_, f32>) {
    let out = MatMut::from_row_major_slice_mut(out, a.nrows(), b.ncols());
    matmul(out, accum, a, b, 1.0, Par::Seq);
}

/// Row-major values as a matrix.
fn matrix(values: &[f32], columns: usize) -> MatRef<'_, f32> {
    MatRef::from_row_major_slice(values, values.len() / columns, columns)
}

impl Layers {
    /// Layers between `widths`: d, the hidden sizes, C.
    pub fn new(widths: &[usize], nonlinearity: Nonlinearity) -> Self {
        let mut start = 0;
        let layer = |pair: &[usize]| {
            let layer = Layer { start, inputs: pair[0], outputs: pair[1] };
            start = layer.end();
            layer
        };
        Self { layers: widths.windows(2).map(layer).collect(), nonlinearity }
    }

    /// Number of parameters.
    pub fn parameters(&self) -> usize {
        self.layers.last().map_or(0, Layer::end)
    }

    /// Inputs, outputs and place of the weights of each layer.
    pub fn weights(&self) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> + '_ {
        self.layers.iter().map(|l| (l.inputs, l.outputs, l.start..l.start + l.inputs * l.outputs))
    }

    /// a_0 = `inputs` (ROWS×d), a_l = a(W_l a_{l−1} + b_l), and last W_L a_{L−1} + b_L, for the first `rows` rows; what the
    /// others hold is of no use.
    pub fn forward(&self, theta: &[f32], inputs: Vec<f32>, rows: usize) -> Vec<Vec<f32>> {
        let mut values = vec![inputs];
        for (l, layer) in self.layers.iter().enumerate() {
            let (weights, bias) = layer.of(theta);
            let mut next = bias.repeat(ROWS);
            let (a, w) = (matrix(&values[l], layer.inputs), matrix(weights, layer.inputs));
            product(&mut next, Accum::Add, a, w.transpose());
            if l + 1 < self.layers.len() {
                self.nonlinearity.apply(&mut next[..rows * layer.outputs]);
            }
            values.push(next);
        }
        values
    }

    /// Changes of the last layer when θ moves along a direction dθ, for the `values` of [`Layers::forward`]: t_0 = 0,
    /// t_l = a' ⊙ (W_l t_{l−1} + dW_l a_{l−1} + db_l), and last without a'.
    pub fn tangent(&self, theta: &[f32], direction: &[f32], values: &[Vec<f32>]) -> Vec<f32> {
        let mut change = vec![0.0; values[0].len()];
        for (l, layer) in self.layers.iter().enumerate() {
            let ((weights, _), (of_weights, of_bias)) = (layer.of(theta), layer.of(direction));
            let mut next = of_bias.repeat(ROWS);
            for (a, w) in [(&values[l], of_weights), (&change, weights)] {
                let (a, w) = (matrix(a, layer.inputs), matrix(w, layer.inputs));
                product(&mut next, Accum::Add, a, w.transpose());
            }
            if l + 1 < self.layers.len() {
                self.nonlinearity.multiply_slope(&values[l + 1], &mut next);
            }
            change = next;
        }
        change
    }

    /// Σ_i w_iᵀ ∂f(x_i)/∂θ for the `values` of [`Layers::forward`] and the ROWS×C `weights`, zero where there is no row: with δ_L = w,
    /// ∂W_l = δ_lᵀ a_{l−1}, ∂b_l = Σ δ_l and δ_{l−1} = (δ_l W_l) ⊙ a'.
    pub fn backward(&self, theta: &[f32], values: &[Vec<f32>], weights: Vec<f32>) -> Vec<f32> {
        let (mut gradient, mut delta) = (vec![0.0; self.parameters()], weights);
        for (l, layer) in self.layers.iter().enumerate().rev() {
            let slopes = matrix(&delta, layer.outputs);
            let (of_weights, of_bias) =
                gradient[layer.start..layer.end()].split_at_mut(layer.inputs * layer.outputs);
            product(of_weights, Accum::Replace, slopes.transpose(), matrix(&values[l], layer.inputs));
            for row in delta.chunks_exact(layer.outputs) {
                of_bias.iter_mut().zip(row).for_each(|(sum, delta)| *sum += delta);
            }
            if l > 0 {
                let mut before = vec![0.0; ROWS * layer.inputs];
                product(&mut before, Accum::Replace, slopes, matrix(layer.of(theta).0, layer.inputs));
                self.nonlinearity.multiply_slope(&values[l], &mut before);
                delta = before;
            }
        }
        gradient
    }
}
