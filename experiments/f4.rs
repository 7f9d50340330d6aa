//! F4: handwritten 8 against 6 in 50 principal components, with virtual samples (spec 7; thesis §3.5).
//!
//! The text learns MNIST-8M, 1.6 million deformed eights and sixes, with σ = 9.03 and ν = 1/n, and reports 0.26 %. Here
//! the deformed images are generated on the fly from MNIST: virtual sample i is a pure function of (seed, i), so
//! nothing is stored and any sample can be had again. Sample i picks a training image and moves its pixels:
//!
//! ```text
//! source(p) = A (p − centre) + centre + shift + u(p)
//! ```
//!
//! with A a rotation by at most 0.2 and a scaling and a shear by at most 0.1, a shift of at most 1.5 pixels, and u an elastic
//! field: normal displacements of 0.8 pixels on a grid of 5×5 points, interpolated smoothly. The test images are those
//! of MNIST, untouched. The components are learnt on the training images, pixels from 0 to 1.

use super::binary::{Course, Labelled, Settings};
use super::common::{Console, DataFolder};
use super::Arguments;
use crate::failure::{Failure, Outcome};
use faer::{Mat, Side};
use rayon::prelude::*;
use riesz::data::reader::{read, read_target, TargetColumn};
use riesz::random::{normal_pair, uniform_open, Address, BlockIndex, Seed, Stream};

/// Side of an image.
const SIDE: usize = 28;
/// Pixels.
const PIXELS: usize = SIDE * SIDE;
/// Principal components.
const COMPONENTS: usize = 50;
/// Points of the elastic field in a row.
const GRID: usize = 5;

/// Runs the experiment.
pub fn run(arguments: &Arguments, console: &mut Console<'_>) -> Outcome<Course> {
    let folder = DataFolder::new(arguments.data.clone());
    let (train, test) = (images(&folder, "train")?, images(&folder, "t10k")?);
    learn(arguments, &train, &test, console)
}

/// Learns virtual samples of `train` and tests on `test`, both with columns of pixels from 0 to 1.
pub fn learn(
    arguments: &Arguments,
    train: &Labelled,
    test: &Labelled,
    console: &mut Console<'_>,
) -> Outcome<Course> {
    let seed = Seed(arguments.seed);
    let components = Components::learn(train);
    let test = components.project(test);
    let samples = arguments.rows.unwrap_or(if arguments.quick { 1 << 14 } else { 1 << 18 });
    let batch = arguments.batch.unwrap_or(1_024);
    let settings = Settings {
        title: "MNIST, 8 against 6, virtual samples".into(),
        bandwidth: arguments.bandwidth.unwrap_or(9.03),
        ridge: 1.0 / samples as f64,
        batch,
        block: arguments.block_size.unwrap_or(1_024),
        theta: arguments.theta.unwrap_or(super::THETA),
        delay: arguments.delay,
        blocks: arguments.blocks.unwrap_or(if arguments.quick { 8 } else { 64 }),
        damping: arguments.damping.unwrap_or(0.01),
        text: vec![("1.6 million virtual samples", 0.26)],
        seed,
    };
    let virtual_samples = |from: usize, count: usize| {
        components.project(&deformed(train, from as u64..(from + count) as u64, seed))
    };
    let mut course = Course::new(settings);
    let (steps, mut batches) =
        (samples.div_ceil(batch), |t: usize| Ok(virtual_samples((t - 1) * batch, batch)));
    course.stream(steps, &test, &mut batches, console)?;
    if course.ended.is_none() {
        course.preconditioned(steps, &test, &mut batches, console)?;
    }
    if course.ended.is_none() {
        // The same samples once more, as finite data.
        course.descend(&virtual_samples(0, samples.min(1 << 17)), &test, console)?;
    }
    Ok(course)
}

/// Training and test images in the principal components of the former.
pub fn principal_components(folder: &DataFolder) -> Outcome<(Labelled, Labelled)> {
    let (train, test) = (images(folder, "train")?, images(folder, "t10k")?);
    let components = Components::learn(&train);
    Ok((components.project(&train), components.project(&test)))
}

/// The eights and sixes of one of the two parts of MNIST.
fn images(folder: &DataFolder, part: &str) -> Outcome<Labelled> {
    const SOURCE: &str = "the four files of MNIST (train-images-idx3-ubyte.gz, …) are at https://ossci-datasets.s3.amazonaws.com/mnist/ and in many mirrors";
    let find = |kind: &str| {
        let name = format!("{part}-{kind}-ubyte");
        let names = [format!("mnist/{name}.gz"), format!("mnist/{name}"), format!("{name}.gz"), name];
        folder.find(&names.each_ref().map(String::as_str), SOURCE)
    };
    let pixels = read(&find("images-idx3")?, TargetColumn::None)?.features;
    let classes = read_target(&find("labels-idx1")?)?.numbers()?;
    if pixels.columns != PIXELS || pixels.len() != classes.len() {
        return Err(Failure::bad_input(format!("the {part} files are not images of 28×28 and their labels")));
    }
    let mut chosen = Labelled { columns: PIXELS, ..Default::default() };
    for (image, class) in pixels.into_dense()?.chunks_exact(PIXELS).zip(classes) {
        if class == 8.0 || class == 6.0 {
            chosen.x.extend(image.iter().map(|&v| v / 255.0));
            chosen.y.push(if class == 8.0 { 1.0 } else { -1.0 });
        }
    }
    Ok(chosen)
}

/// Virtual samples `range` of `train`: image and class.
pub fn deformed(train: &Labelled, range: std::ops::Range<u64>, seed: Seed) -> Labelled {
    let samples: Vec<(Vec<f32>, f32)> = range
        .into_par_iter()
        .map(|i| {
            let deformation = Deformation::draw(seed, i);
            let k = deformation.pick as usize % train.len();
            (deformation.apply(&train.x[k * PIXELS..(k + 1) * PIXELS]), train.y[k])
        })
        .collect();
    let y = samples.iter().map(|sample| sample.1).collect();
    Labelled { x: samples.into_iter().flat_map(|sample| sample.0).collect(), y, columns: PIXELS }
}

/// How a virtual sample differs from the image it is made of.
#[derive(Clone, Debug)]
struct Deformation {
    /// The image, modulo their number.
    pick: u32,
    /// A.
    linear: [[f64; 2]; 2],
    shift: [f64; 2],
    /// u at the points of the grid.
    field: Vec<[f64; 2]>,
}

impl Deformation {
    /// The deformation of sample `i`.
    fn draw(seed: Seed, i: u64) -> Self {
        let address = Address::new(seed, Stream::Synthetic, BlockIndex(i), 0);
        let signed = |word: u32| 2.0 * uniform_open(word) - 1.0;
        let [pick, turn, scale, shear] = address.words(0);
        let [x, y, ..] = address.words(1);
        let (angle, scale, shear) = (0.2 * signed(turn), 1.0 + 0.1 * signed(scale), 0.1 * signed(shear));
        let (sin, cos) = angle.sin_cos();
        let field = (0..(GRID * GRID) as u32).map(|k| {
            let [a, b, ..] = address.words(2 + k);
            normal_pair(a, b).map(|v| 0.8 * v)
        });
        Self {
            pick,
            linear: [[scale * cos, scale * (shear * cos - sin)], [scale * sin, scale * (shear * sin + cos)]],
            shift: [1.5 * signed(x), 1.5 * signed(y)],
            field: field.collect(),
        }
    }

    /// The deformed image, by bilinear interpolation; beyond the border is zero.
    fn apply(&self, image: &[f32]) -> Vec<f32> {
        let pixel = |row: f64, column: f64| {
            let inside = (0.0..SIDE as f64).contains(&row) && (0.0..SIDE as f64).contains(&column);
            if inside {
                f64::from(image[row as usize * SIDE + column as usize])
            } else {
                0.0
            }
        };
        let centre = (SIDE as f64 - 1.0) / 2.0;
        let value = |p: usize| {
            let at = [(p / SIDE) as f64, (p % SIDE) as f64];
            let u = self.elastic(at);
            let from = |k: usize| {
                let row = self.linear[k];
                row[0] * (at[0] - centre) + row[1] * (at[1] - centre) + centre + self.shift[k] + u[k]
            };
            let (r, c) = (from(0), from(1));
            let (r0, c0) = (r.floor(), c.floor());
            let top = (1.0 - c + c0) * pixel(r0, c0) + (c - c0) * pixel(r0, c0 + 1.0);
            let bottom = (1.0 - c + c0) * pixel(r0 + 1.0, c0) + (c - c0) * pixel(r0 + 1.0, c0 + 1.0);
            ((1.0 - r + r0) * top + (r - r0) * bottom) as f32
        };
        (0..PIXELS).map(value).collect()
    }

    /// u at a pixel: interpolated between the four points of the grid around it, with zero slope at the points.
    fn elastic(&self, at: [f64; 2]) -> [f64; 2] {
        let place = at.map(|v| v / (SIDE - 1) as f64 * (GRID - 1) as f64);
        let cell = place.map(|v| (v as usize).min(GRID - 2));
        let share = [0, 1].map(|k| {
            let t = place[k] - cell[k] as f64;
            t * t * (3.0 - 2.0 * t)
        });
        let corner = |i: usize, j: usize| self.field[(cell[0] + i) * GRID + cell[1] + j];
        [0, 1].map(|k| {
            let row = |i: usize| (1.0 - share[1]) * corner(i, 0)[k] + share[1] * corner(i, 1)[k];
            (1.0 - share[0]) * row(0) + share[0] * row(1)
        })
    }
}

/// The first principal components of some images.
struct Components {
    mean: Vec<f32>,
    /// One direction after the other.
    directions: Vec<f32>,
}

impl Components {
    /// The eigenvectors of the covariance with the largest eigenvalues; no direction where it has none.
    fn learn(images: &Labelled) -> Self {
        let (n, d) = (images.len(), images.columns);
        let mut mean = vec![0.0_f64; d];
        for row in images.x.chunks_exact(d) {
            mean.iter_mut().zip(row).for_each(|(m, &v)| *m += f64::from(v) / n as f64);
        }
        let centred = Mat::from_fn(n, d, |i, j| f64::from(images.x[i * d + j]) - mean[j]);
        let covariance = centred.transpose() * &centred;
        let directions = match covariance.self_adjoint_eigen(Side::Lower) {
            // Eigenvalues ascend.
            Ok(eigen) => (0..COMPONENTS.min(d))
                .flat_map(|k| (0..d).map(move |j| (j, d - 1 - k)))
                .map(|(j, k)| eigen.U()[(j, k)] as f32)
                .collect(),
            Err(_) => Vec::new(),
        };
        Self { mean: mean.iter().map(|&m| m as f32).collect(), directions }
    }

    /// The rows in these coordinates.
    fn project(&self, images: &Labelled) -> Labelled {
        let d = images.columns;
        let columns = self.directions.len() / d;
        let mut x = vec![0.0; images.len() * columns];
        x.par_chunks_exact_mut(columns.max(1)).zip(images.x.par_chunks_exact(d)).for_each(|(out, row)| {
            let centred: Vec<f32> = row.iter().zip(&self.mean).map(|(v, m)| v - m).collect();
            for (out, direction) in out.iter_mut().zip(self.directions.chunks_exact(d)) {
                *out = direction.iter().zip(&centred).map(|(a, b)| a * b).sum();
            }
        });
        Labelled { x, y: images.y.clone(), columns }
    }
}
