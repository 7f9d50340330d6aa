//! Rigid-body dynamics of arms with revolute joints.
//!
//! ```text
//! τ = M(q) q̈ + C(q, q̇) q̇ + g(q)
//! ```
//!
//! Inverse dynamics by the recursive Newton–Euler method (Luh, Walker and Paul, 1980) with standard
//! Denavit–Hartenberg frames; M column by column from it, forward dynamics by a Cholesky factorisation of M.

/// Three coordinates.
type Vector = [f64; 3];

/// A link and the joint that moves it. Frame i is fixed to the far end of link i:
/// A_i = Rot_z(θ) Trans_z(d) Trans_x(a) Rot_x(α).
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// a, the length of the common normal, in m.
    pub length: f64,
    /// d, the distance along the axis of the joint, in m.
    pub offset: f64,
    /// cos α and sin α of the twist.
    pub twist: [f64; 2],
    /// In kg.
    pub mass: f64,
    /// The center of mass in frame i, in m.
    pub center: Vector,
    /// Moments of inertia about the center of mass along the axes of frame i, in kg m².
    pub inertia: Vector,
    /// G² J_m, the inertia of the motor as the joint feels it, in kg m².
    pub motor: f64,
}

impl Link {
    /// The origin of frame i as seen from that of frame i − 1, in frame i.
    fn origin(&self) -> Vector {
        let [cos, sin] = self.twist;
        [self.length, self.offset * sin, self.offset * cos]
    }

    /// The axis of the joint in frame i.
    fn axis(&self) -> Vector {
        let [cos, sin] = self.twist;
        [0.0, sin, cos]
    }
}

/// A rotation from frame i to frame i − 1.
#[derive(Clone, Copy)]
struct Rotation([Vector; 3]);

impl Rotation {
    /// That of a joint at an angle.
    fn new(link: &Link, angle: f64) -> Self {
        let ((sin, cos), [twist_cos, twist_sin]) = (angle.sin_cos(), link.twist);
        Self([
            [cos, -sin * twist_cos, sin * twist_sin],
            [sin, cos * twist_cos, -cos * twist_sin],
            [0.0, twist_sin, twist_cos],
        ])
    }

    /// From frame i to frame i − 1.
    fn apply(&self, v: Vector) -> Vector {
        self.0.map(|row| row[0] * v[0] + row[1] * v[1] + row[2] * v[2])
    }

    /// From frame i − 1 to frame i.
    fn inverse(&self, v: Vector) -> Vector {
        std::array::from_fn(|i| self.0[0][i] * v[0] + self.0[1][i] * v[1] + self.0[2][i] * v[2])
    }
}

/// An arm of N links in one pose.
pub(super) struct Pose<'a, const N: usize> {
    links: &'a [Link; N],
    rotations: [Rotation; N],
}

impl<'a, const N: usize> Pose<'a, N> {
    /// The arm with its joints at some angles.
    pub fn new(links: &'a [Link; N], angles: [f64; N]) -> Self {
        Self { links, rotations: std::array::from_fn(|i| Rotation::new(&links[i], angles[i])) }
    }

    /// τ for joint velocities q̇ and accelerations q̈ in a field of `gravity` m/s² along −z.
    pub fn torques(&self, velocities: [f64; N], accelerations: [f64; N], gravity: f64) -> [f64; N] {
        // Outwards: how each link moves, and the force F and moment N that make it.
        let (mut turn, mut turn_rate, mut motion) = ([0.0; 3], [0.0; 3], [0.0, 0.0, gravity]);
        let mut loads = [([0.0; 3], [0.0; 3]); N];
        for i in 0..N {
            let (link, rotation) = (&self.links[i], &self.rotations[i]);
            let (before, spin) = (rotation.inverse(turn), scaled(velocities[i], link.axis()));
            let driven = add(scaled(accelerations[i], link.axis()), cross(before, spin));
            turn_rate = add(rotation.inverse(turn_rate), driven);
            turn = add(before, spin);
            motion = add(rotation.inverse(motion), carried(turn, turn_rate, link.origin()));
            let force = scaled(link.mass, add(motion, carried(turn, turn_rate, link.center)));
            let moment = add(times(link.inertia, turn_rate), cross(turn, times(link.inertia, turn)));
            loads[i] = (force, moment);
        }
        // Inwards: what each joint transmits, about the origin of the frame before it.
        let (mut force, mut moment, mut torques) = ([0.0; 3], [0.0; 3], [0.0; N]);
        for i in (0..N).rev() {
            let (link, (own, own_moment)) = (&self.links[i], loads[i]);
            let lever = add(cross(link.origin(), force), cross(add(link.origin(), link.center), own));
            moment = add(add(moment, lever), own_moment);
            force = add(force, own);
            torques[i] = dot(moment, link.axis()) + link.motor * accelerations[i];
            (force, moment) = (self.rotations[i].apply(force), self.rotations[i].apply(moment));
        }
        torques
    }

    /// M(q), the torques of unit accelerations at rest and without gravity.
    pub fn inertia(&self) -> [[f64; N]; N] {
        std::array::from_fn(|j| {
            self.torques([0.0; N], std::array::from_fn(|i| f64::from(u8::from(i == j))), 0.0)
        })
    }

    /// q̈ = M⁻¹(τ − C q̇ − g).
    pub fn accelerations(&self, velocities: [f64; N], torques: [f64; N], gravity: f64) -> [f64; N] {
        let bias = self.torques(velocities, [0.0; N], gravity);
        solve(self.inertia(), std::array::from_fn(|i| torques[i] - bias[i]))
    }
}

/// A⁻¹b of a positive definite matrix by its Cholesky factor, in place.
fn solve<const N: usize>(mut a: [[f64; N]; N], mut b: [f64; N]) -> [f64; N] {
    for j in 0..N {
        a[j][j] = (a[j][j] - (0..j).map(|k| a[j][k] * a[j][k]).sum::<f64>()).sqrt();
        for i in j + 1..N {
            a[i][j] = (a[i][j] - (0..j).map(|k| a[i][k] * a[j][k]).sum::<f64>()) / a[j][j];
        }
        b[j] = (b[j] - (0..j).map(|k| a[j][k] * b[k]).sum::<f64>()) / a[j][j];
    }
    for i in (0..N).rev() {
        b[i] = (b[i] - (i + 1..N).map(|k| a[k][i] * b[k]).sum::<f64>()) / a[i][i];
    }
    b
}

/// ω̇ × p + ω × (ω × p), the acceleration of a point p of a body that turns.
fn carried(turn: Vector, turn_rate: Vector, point: Vector) -> Vector {
    add(cross(turn_rate, point), cross(turn, cross(turn, point)))
}

fn add(a: Vector, b: Vector) -> Vector {
    add_scaled(1.0, a, b)
}

fn scaled(factor: f64, a: Vector) -> Vector {
    add_scaled(factor, a, [0.0; 3])
}

/// c a + b.
fn add_scaled(factor: f64, a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|i| factor * a[i] + b[i])
}

fn times(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|i| a[i] * b[i])
}

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}
