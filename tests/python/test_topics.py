"""Latent Dirichlet allocation beside scikit-learn's."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.special import psi
from sklearn.decomposition import LatentDirichletAllocation as Peer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

import riesz
from riesz import LatentDirichletAllocation


def planted(documents, seed=0, topics=6, words=120, length=60):
    """Return documents of sparse topics, their words halved at random."""
    rng = np.random.default_rng(seed)
    phi = np.random.default_rng(99).dirichlet(np.full(words, 0.05), size=topics)
    theta = rng.dirichlet(np.full(topics, 0.3), size=documents)
    counts = np.array([rng.multinomial(length, row) for row in theta @ phi])
    half = rng.binomial(counts, 0.5)
    return counts.astype(float), half.astype(float), (counts - half).astype(float)


TRAIN, _, _ = planted(500)
_, OBSERVED, HELD_OUT = planted(200, seed=1)


def fitted(**parameters):
    return LatentDirichletAllocation(6, **{"random_state": 0, **parameters}).fit(TRAIN)


def completion(theta, components):
    phi = components / components.sum(axis=1, keepdims=True)
    return np.exp(-np.sum(HELD_OUT * np.log(theta @ phi)) / HELD_OUT.sum())


def test_completion_is_that_of_its_definition_and_no_worse_than_scikit_learns():
    model = fitted()
    perplexity = model.completion_perplexity(OBSERVED, HELD_OUT)
    assert perplexity == pytest.approx(
        completion(model.transform(OBSERVED), model.components_), rel=1e-5
    )
    peer = Peer(6, random_state=0, learning_method="online", max_iter=10).fit(TRAIN)
    assert perplexity < completion(peer.transform(OBSERVED), peer.components_)


def test_the_bound_is_scikit_learns():
    """Given the same topics and priors, both ascend to the same bound."""
    model = fitted(
        doc_topic_prior=0.4, topic_word_prior=0.2, mean_change_tol=1e-8, max_doc_update_iter=1000
    )
    peer = Peer(
        6,
        doc_topic_prior=0.4,
        topic_word_prior=0.2,
        mean_change_tol=1e-8,
        max_doc_update_iter=1000,
        max_iter=1,
    ).fit(TRAIN)
    peer.components_ = model.components_
    total = psi(model.components_.sum(axis=1, keepdims=True))
    peer.exp_dirichlet_component_ = np.exp(psi(model.components_) - total)
    # The bound of a document has several maxima, and the two start from different places.
    assert model.score(OBSERVED) == pytest.approx(peer.score(OBSERVED), rel=2e-3)
    assert model.perplexity(OBSERVED) == pytest.approx(peer.perplexity(OBSERVED), rel=1e-2)


def test_proportions_and_parameters():
    model = fitted()
    theta = model.transform(OBSERVED)
    assert theta.shape == (200, 6)
    assert theta.dtype == np.float64
    assert np.allclose(theta.sum(axis=1), 1, atol=1e-6)
    assert (theta > 0).all()
    assert model.transform(OBSERVED.astype(np.float32)).dtype == np.float32
    assert model.components_.shape == (6, 120)
    assert (model.components_ > 0).all()
    # Counts of the topics add up to the words of the documents.
    counts = model.components_.sum() - model.topic_word_prior_ * 720
    assert counts == pytest.approx(TRAIN.sum(), rel=1e-5)
    assert model.doc_topic_prior_.shape == (6,)
    assert model.n_iter_ == 10
    expected = [f"latentdirichletallocation{k}" for k in range(6)]
    assert model.get_feature_names_out().tolist() == expected


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, np.asarray])
def test_sparse_dense_and_threads_give_the_same_bits(container, n_jobs):
    model = LatentDirichletAllocation(6, random_state=0, n_jobs=n_jobs, max_iter=3)
    assert np.array_equal(model.fit(container(TRAIN)).components_, fitted(max_iter=3).components_)


def test_a_stream_learns():
    model = LatentDirichletAllocation(6, random_state=0)
    for _ in range(4):
        for start in range(0, 500, 50):
            model.partial_fit(TRAIN[start : start + 50])
    uniform = (HELD_OUT.sum(axis=0) + 1) / (HELD_OUT.sum() + 120)
    unigram = np.exp(-np.sum(HELD_OUT * np.log(uniform)) / HELD_OUT.sum())
    assert model.completion_perplexity(OBSERVED, HELD_OUT) < 0.75 * unigram
    before = fitted()
    after = fitted().partial_fit(OBSERVED + HELD_OUT)
    assert after.n_batch_iter_ == before.n_batch_iter_ + 1
    assert after.completion_perplexity(OBSERVED, HELD_OUT) < 1.02 * before.completion_perplexity(
        OBSERVED, HELD_OUT
    )


def test_paper_mode():
    model = fitted(mode="paper", particles=3, max_iter=20, doc_topic_prior=0.3)
    assert model.log_weights_.shape == (3,)
    assert np.exp(model.log_weights_).sum() == pytest.approx(1)
    assert fitted().log_weights_ is None
    with pytest.raises(riesz.InvalidInput, match="whole numbers in paper mode"):
        LatentDirichletAllocation(mode="paper").fit(TRAIN + 0.5)


def test_perplexity_ends_a_fit():
    model = fitted(max_iter=100, evaluate_every=1, perp_tol=5.0)
    assert 1 < model.n_iter_ < 100
    assert len(model.perplexities_) == model.n_iter_
    assert model.perplexities_[-1] == pytest.approx(model.perplexity(TRAIN), rel=1e-6)


@pytest.mark.parametrize("mode", ["adaptive", "paper"])
def test_files_and_pickles(mode, tmp_path):
    model = fitted(mode=mode, max_iter=2)
    model.save(tmp_path / "model.riesz")
    for copy in (riesz.load(tmp_path / "model.riesz"), pickle.loads(pickle.dumps(model))):
        assert type(copy) is LatentDirichletAllocation
        assert np.array_equal(copy.transform(OBSERVED), model.transform(OBSERVED))
        assert copy.get_params() == model.get_params()


def test_a_pipeline_of_texts():
    texts = ["apples and pears and plums", "stars and planets", "pears plums apples"] * 10
    pipeline = make_pipeline(CountVectorizer(), LatentDirichletAllocation(2, random_state=0))
    theta = pipeline.fit_transform(texts)
    assert theta.shape == (30, 2)
    assert theta[0].argmax() == theta[2].argmax() != theta[1].argmax()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, r"n_components = 0 is outside 1, 2"),
        ({"mode": "gibbs"}, r"mode = \"gibbs\" is unknown; expected one of adaptive, paper"),
        ({"doc_topic_prior": -1.0}, r"doc_topic_prior = -1 is outside"),
        ({"doc_topic_prior": [0.1, 0.2]}, r"doc_topic_prior has 2 numbers, expected 1 or 10"),
        ({"doc_topic_prior": "auto"}, r"doc_topic_prior = 'auto' should be a number"),
        ({"topic_word_prior": 0.0}, r"topic_word_prior = 0 is outside"),
        ({"max_iter": 0}, r"max_iter = 0 is outside"),
        ({"batch_size": 0}, r"batch_size = 0 is outside"),
        ({"learning_decay": 2.0}, r"learning_decay = 2 is outside"),
    ],
)
def test_settings_outside_their_domain_are_refused(parameters, message):
    with pytest.raises(riesz.InvalidInput, match=message):
        LatentDirichletAllocation(**parameters).fit(TRAIN)


def test_bad_counts_are_refused():
    negative, missing = TRAIN.copy(), TRAIN.copy()
    negative[3, 4], missing[5, 6] = -2, np.nan
    for bad, message in [
        (negative, "X contains -2 at row 3, column 4; counts must be zero or more"),
        (missing, "X contains NaN at row 5, column 6"),
    ]:
        for container in (np.asarray, sparse.csr_matrix):
            with pytest.raises(riesz.InvalidInput, match=message):
                LatentDirichletAllocation().fit(container(bad))
            with pytest.raises(riesz.InvalidInput, match=message):
                fitted(max_iter=1).transform(container(bad))
    with pytest.raises(ValueError, match="expecting 120 features"):
        fitted(max_iter=1).transform(TRAIN[:, :7])
    with pytest.raises(riesz.InvalidInput, match="X_held_out has 3 rows, expected 2"):
        fitted(max_iter=1).completion_perplexity(OBSERVED[:2], OBSERVED[:3])


def test_empty_documents_and_words_nobody_uses():
    padded = np.hstack([np.vstack([TRAIN, np.zeros((2, 120))]), np.zeros((502, 3))])
    model = LatentDirichletAllocation(6, random_state=0).fit(padded)
    assert np.isfinite(model.components_).all()
    prior = model.doc_topic_prior_ / model.doc_topic_prior_.sum()
    assert np.allclose(model.transform(np.zeros((1, 123)))[0], prior, atol=1e-6)
    nothing = LatentDirichletAllocation(3, random_state=0).fit(np.zeros((4, 5)))
    assert np.isfinite(nothing.transform(np.ones((1, 5)))).all()
