"""Topics of documents."""

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags

from riesz._documentation import documented
from riesz._progress import progress
from riesz._riesz import Topics
from riesz._rows import Rows, rows_of
from riesz._saved import Saved
from riesz._settings import settings_of


@documented
class LatentDirichletAllocation(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, Rows, Saved[Topics]
):
    """Latent Dirichlet allocation: documents are mixtures of topics, topics distributions of words.

    The interface is that of scikit-learn's class of the same name; the parameters they share mean
    the same unless said otherwise here.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics.
    mode : {"adaptive", "paper"}, default="adaptive"
        "adaptive" learns from expected topics of words, by incremental collapsed variational
        inference; "paper" is particle mirror descent, which draws topics for several weighted
        particles and wants whole numbers for counts.
    doc_topic_prior : float or array-like of shape (n_components,), optional
        Prior of the topics of a document. Unless given it starts at 0.1 and is learnt, one number
        for each topic.
    topic_word_prior : float, optional
        Prior of the words of a topic. Unless given it starts at
        ``1 / n_components`` and is learnt.
    learn_priors : bool, default=True
        Whether priors that are not given are learnt, from the third pass on. Not in paper mode, not
        by :meth:`partial_fit`.
    max_iter : int, default=10
        Passes over the documents.
    batch_size : int, optional
        Documents between two updates of the topics. Unless given it grows from 32 to 256; it is 100
        in paper mode and 256 in :meth:`partial_fit`.
    learning_decay : float, default=0.7
        Paper mode and :meth:`partial_fit` take steps ``(learning_offset + t) ** -learning_decay``.
    learning_offset : float, default=10.0
        See ``learning_decay``.
    evaluate_every : int, default=-1
        Compute the training perplexity every so many passes; 0 and below: never.
    total_samples : float, optional
        Documents there will be, for :meth:`partial_fit`. Unless given, as many as have been seen.
    perp_tol : float, default=0.1
        With ``evaluate_every``, the fit ends when the perplexity changes by less.
    mean_change_tol : float, default=1e-3
        A new document is done with when a sweep over its words changes the topics of less than
        this share of them.
    max_doc_update_iter : int, default=100
        Most sweeps over a new document.
    particles : int, default=4
        Particles of paper mode.
    $run
    $verbose

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Dirichlet parameters of the topics: expected counts of words plus the prior. Divided by the
        sums of its rows it is the expected distribution of words. In paper mode they are those of
        the particle of the largest weight, which is the one that transforms.
    doc_topic_prior_ : ndarray of shape (n_components,)
        Prior of the topics of a document, given or learnt.
    topic_word_prior_ : float
        Prior of the words of a topic, given or learnt.
    n_features_in_ : int
        Words of the vocabulary.
    feature_names_in_ : ndarray of str
        Names of the columns, where they had names.
    n_iter_ : int
        Passes over the documents.
    n_batch_iter_ : int
        Batches seen.
    perplexities_ : list of float
        Training perplexities, with ``evaluate_every``.
    log_weights_ : ndarray of shape (particles,) or None
        Logarithms of the weights of the particles, in paper mode.
    seed_ : int
        The seed used.

    Notes
    -----
    Counts may be any numbers that are not negative, in dense or sparse (CSR) arrays; documents may
    be empty. Topics are computed in single precision; proportions are returned in the precision of
    ``X``. A fit keeps ``n_components`` numbers for every document (of the first 2**28 /
    n_components), and the counts in single precision.

    Examples
    --------
    >>> import numpy as np
    >>> from riesz import LatentDirichletAllocation
    >>> fruit, planets = [4, 3, 0, 0], [0, 0, 5, 2]
    >>> lda = LatentDirichletAllocation(n_components=2, random_state=0)
    >>> theta = lda.fit_transform(np.array([fruit, planets] * 20))
    >>> bool(abs(theta[0] - theta[1]).min() > 0.8)
    True
    """

    _kind = Topics

    def __init__(
        self,
        n_components: int = 10,
        *,
        mode: str = "adaptive",
        doc_topic_prior: float | ArrayLike | None = None,
        topic_word_prior: float | None = None,
        learn_priors: bool = True,
        max_iter: int = 10,
        batch_size: int | None = None,
        learning_decay: float = 0.7,
        learning_offset: float = 10.0,
        evaluate_every: int = -1,
        total_samples: float | None = None,
        perp_tol: float = 0.1,
        mean_change_tol: float = 1e-3,
        max_doc_update_iter: int = 100,
        particles: int = 4,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.mode = mode
        self.doc_topic_prior = doc_topic_prior
        self.topic_word_prior = topic_word_prior
        self.learn_priors = learn_priors
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_decay = learning_decay
        self.learning_offset = learning_offset
        self.evaluate_every = evaluate_every
        self.total_samples = total_samples
        self.perp_tol = perp_tol
        self.mean_change_tol = mean_change_tol
        self.max_doc_update_iter = max_doc_update_iter
        self.particles = particles
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: object = None) -> "LatentDirichletAllocation":
        """Learn topics.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            Counts of words (columns) in documents (rows).
        y : ignored
            For pipelines.

        Returns
        -------
        self
        """
        rows = rows_of(self, X, reset=True)
        with progress(self.verbose) as observer:
            model = Topics.fit(
                rows, settings=self._settings(), n_jobs=self.n_jobs, observer=observer
            )
        return self._fitted(model)

    def partial_fit(self, X: ArrayLike, y: object = None) -> "LatentDirichletAllocation":
        """Learn from more documents, each seen once; also after a fit.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            Counts of words (columns) in documents (rows).
        y : ignored
            For pipelines.

        Returns
        -------
        self
        """
        begun = hasattr(self, "_model")
        rows = rows_of(self, X, reset=not begun)
        if not begun:
            return self._fitted(Topics.begin(rows, settings=self._settings(), n_jobs=self.n_jobs))
        self._model.partial_fit(rows, n_jobs=self.n_jobs)
        return self._fitted(self._model)

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the topic proportions of documents.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            Counts of words in documents.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Rows sum to one.
        """
        X = self._rows(X)
        return self._model.transform(X, n_jobs=self.n_jobs).astype(X.dtype, copy=False)

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Return a lower bound of the log likelihood of documents.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            Counts of words in documents.
        y : ignored
            For pipelines.

        Returns
        -------
        float
            The evidence lower bound of scikit-learn, the term of the topics included.
        """
        rows = self._rows(X)
        return self._model.bound(rows, n_jobs=self.n_jobs)

    def perplexity(self, X: ArrayLike) -> float:
        """Return ``exp(-score / words)``, as scikit-learn does.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_samples, n_features)
            Counts of words in documents.

        Returns
        -------
        float
        """
        rows = self._rows(X)
        return self._model.perplexity(rows, n_jobs=self.n_jobs)

    def completion_perplexity(self, X_observed: ArrayLike, X_held_out: ArrayLike) -> float:
        """Return the perplexity of held-out words given the other words of their documents.

        Parameters
        ----------
        X_observed : array-like or sparse array of shape (n_samples, n_features)
            Counts of the words from which topic proportions are estimated.
        X_held_out : array-like or sparse array of shape (n_samples, n_features)
            Counts of the other words of the same documents.

        Returns
        -------
        float
            exp of minus the mean of ``log sum_k theta_k phi_kw``.
        """
        observed = self._rows(X_observed, "X_observed")
        held_out = self._rows(X_held_out, "X_held_out")
        return self._model.completion_perplexity(observed, held_out, n_jobs=self.n_jobs)

    def _settings(self) -> dict[str, Any]:
        every = self.evaluate_every
        never = isinstance(every, numbers.Integral) and every <= 0
        return settings_of(self, evaluate_every=None if never else every)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _fitted(self, model: Topics) -> "LatentDirichletAllocation":
        """Keep the model and show what it is."""
        summary = model.summary()
        self._model = model
        self.components_ = model.components()
        self.doc_topic_prior_ = np.array(summary["doc_topic_prior"])
        self.topic_word_prior_ = summary["topic_word_prior"]
        self.n_iter_ = summary["passes"]
        self.n_batch_iter_ = summary["batches"]
        self.perplexities_ = summary["history"]
        weights = summary["log_weights"]
        self.log_weights_ = None if weights is None else np.array(weights)
        self.seed_ = summary["seed"]
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
