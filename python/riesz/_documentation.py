"""Paragraphs of documentation that several estimators share."""

from inspect import cleandoc
from string import Template
from textwrap import fill
from typing import TypeVar

from riesz._riesz import loss_names

_Class = TypeVar("_Class", bound=type)


def documented(cls: _Class) -> _Class:
    """Put shared paragraphs where the docstring of a class names them, ``$kernel`` for one."""
    if cls.__doc__ is not None:  # python -OO leaves none
        cls.__doc__ = Template(cleandoc(cls.__doc__)).substitute(_PARAGRAPHS)
    return cls


def _losses(*, classification: bool) -> str:
    """Return the names of all losses but that of quantiles, which have an estimator."""
    names = (f'"{name}"' for name in loss_names(classification) if name != "quantile")
    text = f'"auto" or one of {", ".join(names)}.'
    return fill(text, width=96, subsequent_indent="    ")


_KERNEL = """
kernel : str or callable, default="auto"
    A kernel by name, with its parameters in parentheses, or a sum or product of them; or a
    function that draws the features of a kernel of your own. See :class:`riesz.RandomFeatures`
    for both. "auto" is "gaussian", or "matern(1.5)" or "matern(0.5)" where that does better on
    small data or with a metric; with `metric` "auto" or "none" and where the function is an
    expansion over all rows (see `solver`) it may be "laplacian", which follows steps along
    columns. Given by name, "laplacian" is such an expansion below 2,000 rows, features above.
metric : {"auto", "none", "diagonal", "full"}, default="auto"
    Learnt weights of the columns ("diagonal") or of directions ("full"), from the gradients of a
    first fit to some thousand rows. They are used where they do better on rows that they were not
    learnt from, by more than chance. "auto" compares both kinds where the bandwidth is "auto",
    full ones up to 128 columns; up to 1,024 columns there are any. Files that do not fit into
    memory have none. Of classes of more than 100 columns (from 2,000 rows on), "auto" and "full"
    first leave out directions in which rows hardly vary, where the others predict as well. A
    "laplacian" kernel that "auto" prefers has the weights of the columns alone, or none; given by
    name, it and others that are no function of the distance have none.
bandwidth : float, "auto", "median" or "scale", default="auto"
    Width of the kernel. "auto" chooses it by held-out loss (from 2,000 rows) or by leaving out one
    row after the other;
    "median" is the median distance between rows, "scale" what ``gamma="scale"`` means in
    scikit-learn. A given ``gamma`` is ``bandwidth=1 / sqrt(2 * gamma)``. Kernels of histograms
    and functions have none.
scaling : {"auto", "none", "standard"}, default="auto"
    Whether columns are standardised first. "auto" compares both where the bandwidth is "auto"
    and leaves the columns alone otherwise.
categorical_features : "from_dtype", array-like or None, default="from_dtype"
    Columns that are categories: those of text and of the categorical types of pandas, polars and
    Arrow; or the numbers or names of some, or a truth value for each; or none. A category becomes
    a column of indicators for each of its 254 most frequent values, and one for the others. A
    number that is missing in some rows becomes two columns: the number, with its mean in those
    rows, and an indicator of them.
"""

_SOLVER = """
solver : {"auto", "block", "stream"}, default="auto"
    "block" adds blocks of random features until the held-out loss stops falling, "stream" sees
    every row once. "auto" is a kernel expansion over all rows, without random features, below
    2,000 rows and, with squares and a kernel of the distance, as long as sweeps over all pairs
    of rows are affordable (some ten thousand). Else, or where a setting of blocks is given, it is
    "block".
ridge : float, optional
    Strength of the penalty ``ridge / 2 * |f|^2`` beside the mean loss.
"""

_COURSE = """
damping : float, optional
    Damping of each step of the block solver.
block_size : int, optional
    Random features per block; by the number of rows unless given.
max_blocks : int, optional
    Most blocks; by default as many as make 131,072 features. Of a stream, max_blocks * block_size
    is the budget of features: 4,096 by default, unlimited with theta. A stream that has
    reached it refines the features it has.
sweeps : int, default=0
    Sweeps over the blocks after the first.
early_stopping : bool, default=True
    Whether a tenth of the rows (of 2,000 and more) decides when to stop and is learnt last.
    Without it there are blocks from 2,000 rows on.
max_time : float, optional
    Most seconds, a third of which at most is for choosing settings (with a checkpoint, choosing
    takes as long as it takes); the blocks finished by then are the model.
batch_size : int, default=512
    Rows per step of the streaming solver and of :meth:`partial_fit`, whose rows wait until they
    make a batch.
passes : int, default=1
    Passes of the streaming solver over the rows, each in a random order of its own.
theta : float, optional
    Streams by doubly stochastic gradients as published: every batch adds a block of features,
    with the step size theta / (t + delay) and targets in units of the first rows. Unless given,
    steps are preconditioned by what the first 8,192 rows say and have no size to be set.
delay : float, optional
    See theta; 0, as published, unless given.
averaging : float, optional
    Iterate t of a stream counts like t ** averaging in the average that predicts: 3 unless given,
    and with theta the last iterate alone.
projection : {"dense", "structured"}, optional
    How frequencies are drawn; by the number of columns unless given.
checkpoint : path, optional
    File from which an interrupted fit is resumed, removed when the fit is complete. It is written
    every 30 seconds, or as often as ``RIESZ_CHECKPOINT_SECONDS`` in the environment says, and
    refused by a fit of other data or settings, which are named.
"""

_FALLING_STEPS = """on features steps stay at step / sqrt(1000), with a budget of atoms at
    step / sqrt(budget)"""
_ONLINE = """
kernel : str, default="gaussian"
    The kernel, by name.
bandwidth : "auto", "median", "scale" or float, default="auto"
    Its bandwidth; "auto" is half the median distance between the first rows.
scaling : {"auto", "none", "standard"}, default="auto"
    Whether columns are standardised, by the first rows, up to 1,024: "auto" does so where there are
    sixteen of them and no bandwidth is given.
memory : {"features", "dictionary"}, default="features"
    What is kept: coefficients of random features of the kernel, whose number does not change, or
    rows, as atoms.
step : "auto" or float, default="auto"
    Row t takes the step step / sqrt(t + step ** 2), in units of one over the curvature of the
    loss; on features steps stay at step / sqrt(1000), with a budget of atoms at
    step / sqrt(budget).
    "auto" mixes 2, 8 and 32 by what each has lately cost; with "komp" or constraints it is 2.
ridge : float, default=0.0001
    Strength of the penalty ``ridge / 2 * |f|^2``, by which what was learnt fades.
budget : "auto", int or None, default="auto"
    The number of features, 1,024 unless given, in multiples of 64. Most atoms, 1,000 unless given;
    None keeps all.
drop : {"oldest", "smallest", "komp"}, optional
    Which atom of a dictionary goes when there are more: "oldest" unless given. "komp" removes atoms
    already before, where the rest can stand for them.
parsimony : float, optional
    How readily "komp" removes atoms: after a step of size s the function changes by at most
    ``parsimony * s ** 2`` in norm; by a tenth of a step if not given.
learning_rate : float, optional
    A constant step in place of the rule of ``step``, not in units of the curvature.
random_state : int, RandomState or None, default=None
    Seed of the features and of the pairs of rows whose distance is taken.
n_jobs : int, optional
    Threads of predictions, which never change the result.
"""

_CONSTRAINED = """
constraints : sequence of CVaR, ChanceConstraint and MeanConstraint, default=()
    What must hold in expectation.
published : bool, default=False
    Whether multipliers move as fast as the function and no gradient is shortened, as published;
    otherwise ten times slower, and gradients have at most ten times the slope of the loss.
dual_ridge : float, default=0.01
    Strength by which multipliers fade.
penalty : float, optional
    A fixed value of all multipliers: the penalty method.
multiplier_limit : float, default=1000.0
    A multiplier beyond it ends learning with an error: the constraint cannot be met.
"""

_CONSTRAINED_FITTED = """
multipliers_ : ndarray of shape (n_constraints,)
    The multipliers.
auxiliaries_ : ndarray of shape (n_constraints,)
    What is learnt beside: the quantile of a CVaR, the scale of a chance constraint.
constraint_values_ : ndarray of shape (n_constraints,)
    Means of the constraints over about the last thousand rows, each seen before it was learnt
    from; at most zero where a constraint holds.
"""

_ONLINE_FITTED = """
n_features_in_ : int
    Columns.
n_atoms_ : int
    Atoms kept, or features.
n_seen_ : int
    Rows learnt from.
progressive_loss_ : float
    Mean loss of each row's prediction before it was learnt from, of targets in units of the first
    rows.
step_shares_ : ndarray
    The shares of the steps that are mixed.
bandwidth_ : float
    The bandwidth used.
loss_ : str
    The loss used.
seed_ : int
    The seed used.
"""

_RUN = """
random_state : int, RandomState or None, default=None
    Seed; None draws one and keeps it in ``seed_``.
n_jobs : int, optional
    Threads, which never change the result; -1 is all cores, and so is None, but for
    ``RAYON_NUM_THREADS`` or ``OMP_NUM_THREADS`` where they are set and for workers of joblib, which
    share the cores.
"""

_VERBOSE = """
verbose : int, default=0
    1 for a bar on the standard error, 2 for a line per block.
"""

_COLUMNS = """
n_features_in_ : int
    Columns.
feature_names_in_ : ndarray of str
    Names of the columns, where they had names.
bandwidth_ : float
    The bandwidth used, in the units of the columns after scaling.
scaling_ : {"none", "standard"}
    The scaling used.
"""

_FITTED = """
kernel_ : str
    The kernel used, by name.
metric_ : ndarray of shape (d, d) or None
    The learnt metric of the columns, categories being indicators: squared distances are
    ``(x - z) @ metric_ @ (x - z)``. Of lower rank than d where directions were left out. Of a
    "laplacian" kernel it is diagonal, and the square roots of the diagonal are what absolute
    differences are multiplied by.
feature_importances_ : ndarray of shape (d,)
    Its diagonal times the variances of the columns, as shares of the sum; only where there is a
    metric. Where it consists of directions alone, these are shares of their variance.
loss_ : str
    The loss used.
n_blocks_ : int
    Blocks of random features; one of all rows where the function is an expansion over them.
history_ : list of dict
    Loss, held-out loss and held-out error after each block; of an expansion over all rows after
    each sweep (the loss is then that of at most 1,024 rows that are learnt from), or below 2,000
    rows the loss and the error with each row left out in turn.
seed_ : int
    The seed used.
"""

_ARRAYS = """
Arrays of 32- or 64-bit floats in C order are read in place: do not write to them meanwhile.
So are sparse arrays by rows (CSR), which are made dense 1,024 rows at a time; the result is
that of the dense array, bit by bit.
Predictions are computed in single precision and returned in the precision of ``X``.
"""

_INVARIANCE = """
augmenter : callable, augmenter or str, default="gaussian_noise"
    What draws a sample of every row. An augmenter with its parameters,
    :class:`riesz.GaussianNoise`, :class:`riesz.CoulombPermutation`, :class:`riesz.ImageShift` or
    :class:`riesz.ImageRotation`, or its name, "gaussian_noise", "coulomb_permutation",
    "image_shift" or "image_rotation", for the defaults: noise is a tenth of the standard deviation
    of each column. Or a function of an array of rows and a ``numpy.random.Generator`` that returns
    an array of the same shape.
n_samples : int, default=10
    Samples of each row in learning; all of them are held in memory.
n_test_samples : int, default=20
    Samples of each row over which predictions are averaged.
n_features : int, optional
    Kernels that make up the function, and as many the dual; a quarter of the rows unless given,
    between 64 and 1,024.
kernel : str, default="gaussian"
    Kernel, by name.
bandwidth : "auto", "median", "scale" or float, default="auto"
    Its bandwidth; "auto" chooses it by rows that were not learnt from, or is the median distance
    where there are fewer than 300.
standardise : bool, default=True
    Whether columns are brought to zero mean and unit variance first.
ridge : float, optional
    Penalty of the function, in units of the mean of the diagonal that it is added to; by rows that
    were not learnt from unless given.
dual_ridge : float, optional
    Penalty of the dual, likewise.
"""

_INVARIANCE_FITTED = """
n_features_in_ : int
    Columns.
feature_names_in_ : ndarray of str
    Names of the columns, where they had names.
augmenter_ : callable
    The augmenter used, with noise in the units of the columns.
bandwidth_ : float
    The bandwidth used, in the units of the columns after scaling.
ridge_ : float
    The penalty of the function used.
dual_ridge_ : float
    The penalty of the dual used.
n_atoms_ : int
    Kernels that make up the function, and a constant.
seed_ : int
    The seed used.
"""

_INVARIANCE_NOTES = """
Samples are drawn from the seed: the same rows are predicted alike every time. The augmenters of
riesz transform all rows of a prediction by the same draws, so that a row is predicted alike
whatever rows it comes with; a function of your own gets all rows at once and decides for itself.
Rows are dense; all is computed in single precision and returned in the precision of ``X``.
"""

_MIRROR_DESCENT = """
n_particles : int, default=2000
    Particles of the posterior.
mode : {"adaptive", "paper"}, default="adaptive"
    "adaptive" is tempered, data-annealed importance sampling with mirror-descent steps; "paper" is
    the published algorithm with its schedules.
n_islands : int, default=2
    Independent runs with half of the particles between them; how well they agree is in ``r_hat``.
batch_size : int, optional
    Observations of the first batch (ten for each parameter, 16 at least), or of every batch in
    paper mode (10).
growth : float, default=2.0
    Factor by which the observations looked at grow.
effective : float, default=0.3
    Share of the particles that must stay effective in a step.
defensive : float, default=0.1
    Share of the draws from a heavy-tailed density.
renewal : {"auto", "draws", "moves"}, default="auto"
    Whether particles of which too few are effective are replaced by draws from a density
    through them or by Metropolis moves; "auto" takes draws while enough of them can be expected
    to be effective.
laplace : bool, default=True
    Whether draws from a normal approximation of the posterior are tried: about the mode, which
    Newton's method finds, where the model knows its derivatives; elsewhere, of many data, from the
    quadratic form that islands which have seen an eighth of them find in log-densities of all. They
    are weighed by all data as all others are, and taken where enough of them are effective; then
    the islands need not go on, or are not needed. About the mode up to 1,024 coefficients; from a
    quadratic form with two islands or more, 3 (d + 1)(d + 2)/2 particles of d numbers (up to 35
    numbers unless told otherwise) and eight first batches in an eighth of the data. Only in mode
    "adaptive", with ``renewal="auto"`` and a ``final_stage``.
final_stage : bool, default=True
    Whether a last stage draws all particles anew and weighs them by all data.
strategy : {"density_then_particles", "density", "particles"}, \
default="density_then_particles"
    Paper mode: kernel densities (strategy 2) for ``density_steps`` steps, then fixed particles
    (strategy 1); or one of them alone.
density_steps : int, optional
    Paper mode: steps with densities (50).
initial_particles : int, optional
    Paper mode: particles of the first step with densities. Their number then grows as
    ``t ** (2 + d / smoothness)`` up to ``n_particles``; it is ``n_particles`` in all unless given.
n_steps : int, optional
    Paper mode: steps; one pass over the data unless given.
step, delay, decay : float, default=1.0, 0.0, 1.0
    Paper mode: step sizes are ``step / (delay + t) ** decay``.
bandwidth, smoothness : float, default=1.0, 2.0
    Paper mode: bandwidths are ``bandwidth * m ** (-1 / (d + 2 * smoothness))`` deviations, ``m``
    particles in the step.
bandwidth_bound : float, default=0.1
    Paper mode: squared bandwidths are at most ``bandwidth_bound`` times the step size, so that
    repeated smoothing widens the posterior by a bounded factor; ``inf`` is the text.
max_time : float, optional
    Most seconds. A fit that has not seen all data by then is the posterior of the observations it
    has seen, and says so in a warning.
checkpoint : path, optional
    File from which an interrupted fit is resumed, removed when the fit is complete. It is written
    every 30 seconds, or as often as ``RIESZ_CHECKPOINT_SECONDS`` in the environment says, and
    refused by a fit of other data or settings, which are named.
random_state : int, RandomState or None, default=None
    Seed; None draws one.
n_jobs : int, optional
    Threads, which never change the result; -1 is all cores, and so is None, but for
    ``RAYON_NUM_THREADS`` or ``OMP_NUM_THREADS`` where they are set and for workers of joblib, which
    share the cores.
verbose : int, default=0
    1 for a bar on the standard error, 2 for a line per stage.
"""

_VALUE_FUNCTION = """
features : {"auto", "atoms", "random", "table", "linear", "growing", "network"}, default="auto"
    What the value is a combination of: kernel atoms at states that were seen, random features of
    the kernel, one value for each of the states 0, 1, 2, ..., or the columns of the states and a
    constant. "auto" is "table" where states are whole numbers from 0 to 4,095, else "atoms". For
    methods that take steps also "growing", random features of which every step draws some more,
    and "network", a network with two hidden layers of tanh, learnt by Adam; values of these have
    no standard errors, and the number of an action is one more column of theirs.
n_features : int, optional
    How many atoms or random features; 512, or an eighth of the transitions where that is less,
    unless given. The most of "growing", 1,024; the units of each hidden layer of "network", 64; the
    least states of "table".
kernel : str, default="gaussian"
    Kernel family of atoms and random features.
bandwidth : "auto", "median", "scale" or float, default="auto"
    Bandwidth of the kernel, of standardised columns; "auto" chooses it by held-out transitions.
ridge : float, optional
    Penalty of the value function, as a share of the mean of the diagonal it is added to; by
    held-out transitions unless given.
dual_ridge : float, optional
    Penalty of the dual function, likewise.
"""

_EVALUATED = """
n_features_in_ : int
    Columns of the states.
feature_names_in_ : ndarray of str
    Names of the columns, where they had names.
bandwidth_ : float or None
    The bandwidth used, where there is one.
ridge_ : float or None
    The penalty used.
dual_ridge_ : float or None
    The penalty of the dual function used.
held_out_error_ : float or None
    The squared norm of the mean residual on transitions that were held out, where penalties were
    chosen by it.
n_features_ : int or None
    Functions that the value is a combination of.
seed_ : int
    The seed used.
"""

_PARAGRAPHS = {
    "losses_of_numbers": _losses(classification=False),
    "losses_of_classes": _losses(classification=True),
    "mirror_descent": _MIRROR_DESCENT.strip(),
    "invariance": _INVARIANCE.strip() + _RUN.rstrip() + _VERBOSE.rstrip(),
    "invariance_fitted": _INVARIANCE_FITTED.strip(),
    "invariance_notes": _INVARIANCE_NOTES.strip(),
    "kernel": _KERNEL.strip(),
    "solver": _SOLVER.strip(),
    "online": _ONLINE.strip(),
    "constrained": _CONSTRAINED.strip(),
    "constrained_online": _ONLINE.replace('default="features"', 'default="dictionary"')
    .replace('"oldest" unless given', '"komp" unless given')
    .replace(_FALLING_STEPS, "steps stay at 0.02")
    .strip(),
    "constrained_fitted": _CONSTRAINED_FITTED.strip(),
    "online_fitted": _ONLINE_FITTED.strip(),
    "course": _COURSE.strip() + _RUN.rstrip() + _VERBOSE.rstrip(),
    "run": _RUN.strip(),
    "verbose": _VERBOSE.strip(),
    "columns": _COLUMNS.strip(),
    "fitted": _COLUMNS.strip() + _FITTED.rstrip(),
    "arrays": _ARRAYS.strip(),
    "value_function": _VALUE_FUNCTION.strip(),
    "evaluated": _EVALUATED.strip(),
}
