"""Topic models beside scikit-learn, gensim and tomotopy: python lda.py [corpora] [--topics ...].

Every method sees the same training documents for the same number of passes, on one thread, and is
judged by document completion: the topic proportions of a test document come from one half of its
words, the perplexity from the other half. They are estimated twice: by each method's own inference
(`own`), and by one common estimator from each method's topics (`common`). Perplexities at fewer
passes are snapshots of the same fit where a method's course does not depend on how many follow.
Seconds are those of the fit alone, in processor time of one thread.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from scipy import sparse  # noqa: E402

import corpora  # noqa: E402

Array = NDArray[np.float64]
Snapshot = tuple[int, float, Array, Callable[[], Array]]  # passes, seconds, topics, proportions
Prior = tuple[float | None, float | None]  # of documents, of topics


def predictive(theta: Array, topics: Array, counts: sparse.csr_matrix) -> Array:
    """Return the probability of each stored word, document by document."""
    out = np.empty(counts.nnz)
    for d in range(counts.shape[0]):
        span = slice(counts.indptr[d], counts.indptr[d + 1])
        out[span] = theta[d] @ topics[:, counts.indices[span]]
    return out


def completion(theta: Array, topics: Array, held_out: sparse.csr_matrix) -> float:
    """Return the perplexity of the held-out halves."""
    logs = np.log(predictive(theta, topics, held_out))
    return float(np.exp(-(held_out.data @ logs) / held_out.data.sum()))


def proportions(topics: Array, counts: sparse.csr_matrix, alpha: float = 0.1) -> Array:
    """Estimate proportions from topics alone: theta = alpha + expected counts, to a fixed point."""
    theta = np.full((counts.shape[0], topics.shape[0]), 1.0 / topics.shape[0])
    for d in range(counts.shape[0]):
        span = slice(counts.indptr[d], counts.indptr[d + 1])
        words, data = topics[:, counts.indices[span]], counts.data[span]
        for _ in range(50):
            last = theta[d].copy()
            theta[d] = alpha + last * (words @ (data / (last @ words)))
            theta[d] /= theta[d].sum()
            if np.abs(theta[d] - last).sum() < 1e-4:
                break
    return theta


def riesz_fit(corpus: Any, topics: int, prior: Prior, passes: list[int], **more: Any) -> Iterator:
    """Fit riesz once for each number of passes."""
    import riesz

    given = {} if prior[0] is None else {"doc_topic_prior": prior[0], "topic_word_prior": prior[1]}
    for count in passes:
        model = riesz.LatentDirichletAllocation(
            n_components=topics, max_iter=count, random_state=1, n_jobs=1, **given, **more
        )
        start = time.process_time()
        model.fit(corpus.train)
        seconds = time.process_time() - start
        phi = model.components_ / model.components_.sum(axis=1, keepdims=True)
        yield count, seconds, phi, lambda model=model: model.transform(corpus.observed)


def sklearn_fit(
    corpus: Any, topics: int, prior: Prior, passes: list[int], **more: Any
) -> Iterator[Snapshot]:
    """Fit scikit-learn once, with snapshots where a pass is complete."""
    from sklearn.decomposition import LatentDirichletAllocation

    snapshots: list[Any] = []
    documents, seen, spent = corpus.train.shape[0], 0, 0.0

    class Watched(LatentDirichletAllocation):
        def _em_step(self, X: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal seen, spent
            start = time.process_time()
            result = super()._em_step(X, *args, **kwargs)
            spent += time.process_time() - start
            seen += X.shape[0]
            if seen % documents == 0 and seen // documents in passes:
                snapshots.append((seen // documents, spent, self.components_.copy()))
            return result

    model = Watched(
        n_components=topics,
        doc_topic_prior=prior[0],
        topic_word_prior=prior[1],
        max_iter=max(passes),
        random_state=1,
        n_jobs=1,
        **more,
    ).fit(corpus.train)
    for count, seconds, components in snapshots:
        phi = components / components.sum(axis=1, keepdims=True)

        def own(components: Array = components) -> Array:
            from scipy.special import psi

            model.components_ = components
            total = psi(components.sum(axis=1))[:, None]
            model.exp_dirichlet_component_ = np.exp(psi(components) - total)
            return model.transform(corpus.observed)

        yield count, seconds, phi, own


def gensim_fit(
    corpus: Any, topics: int, prior: Prior, passes: list[int], **more: Any
) -> Iterator[Snapshot]:
    """Fit gensim once, with snapshots where a pass is complete."""
    from gensim.models import LdaModel

    def bags(counts: sparse.csr_matrix) -> list[list[tuple[int, int]]]:
        rows = [(counts[d].indices, counts[d].data) for d in range(counts.shape[0])]
        return [[(int(w), int(c)) for w, c in zip(*row, strict=True)] for row in rows]

    snapshots: list[Any] = []
    steps, start = 0, 0.0

    class Watched(LdaModel):
        def do_mstep(self, *args: Any, **kwargs: Any) -> None:
            nonlocal steps
            super().do_mstep(*args, **kwargs)
            steps += 1
            each = -(-corpus.train.shape[0] // self.chunksize)
            if steps % each == 0 and steps // each in passes:
                seconds = time.process_time() - start
                snapshots.append((steps // each, seconds, self.state.get_lambda().copy()))

    train, observed = bags(corpus.train), bags(corpus.observed)
    given = {} if prior[0] is None else {"alpha": np.full(topics, prior[0]), "eta": prior[1]}
    start = time.process_time()
    model = Watched(
        corpus=train,
        num_topics=topics,
        id2word=dict(enumerate(corpus.vocabulary)),
        passes=max(passes),
        random_state=1,
        eval_every=None,
        **given,
        **more,
    )
    for count, seconds, components in snapshots:
        phi = components / components.sum(axis=1, keepdims=True)

        def own(components: Array = components) -> Array:
            model.state.sstats = components - model.eta
            model.sync_state()
            gamma, _ = model.inference(observed)
            return gamma / gamma.sum(axis=1, keepdims=True)

        yield count, seconds, phi, own


def tomotopy_fit(
    corpus: Any, topics: int, prior: Prior, passes: list[int], **more: Any
) -> Iterator[Snapshot]:
    """Run tomotopy's Gibbs sampler, with snapshots."""
    import tomotopy

    given = {} if prior[0] is None else {"alpha": prior[0], "eta": prior[1]}
    model = tomotopy.LDAModel(k=topics, seed=1, **given, **more)
    if prior[0] is not None:
        model.optim_interval = 0

    def words(counts: sparse.csr_matrix, d: int) -> list[str]:
        row = counts[d]
        return [str(w) for w in np.repeat(row.indices, row.data.astype(int))]

    for d in range(corpus.train.shape[0]):
        model.add_doc(words(corpus.train, d))
    spent = 0.0
    for before, count in zip([0, *passes], passes, strict=False):
        start = time.process_time()
        model.train(count - before, workers=1)
        spent += time.process_time() - start
        # Words that no training document has get the prior's share.
        eta, totals = model.eta, np.asarray(model.get_count_by_topics(), dtype=float)
        phi = np.empty((topics, corpus.train.shape[1]))
        phi[:] = (eta / (totals + eta * phi.shape[1]))[:, None]
        known = [int(w) for w in model.used_vocabs]
        for k in range(topics):
            phi[k, known] = model.get_topic_word_dist(k)
        phi /= phi.sum(axis=1, keepdims=True)
        yield count, spent, phi, lambda phi=phi: proportions(phi, corpus.observed)


METHODS: dict[str, tuple[Callable[..., Iterator[Snapshot]], dict[str, Any]]] = {
    "riesz": (riesz_fit, {}),
    "sklearn online": (sklearn_fit, {"learning_method": "online"}),
    "sklearn batch": (sklearn_fit, {"learning_method": "batch"}),
    "gensim": (gensim_fit, {}),
    "tomotopy": (tomotopy_fit, {}),
}


def measure(
    method: str, corpus: Any, topics: int, prior: Prior, passes: list[int]
) -> Iterator[dict[str, Any]]:
    """Return one row per number of passes."""
    fit, more = METHODS[method]
    tokens = float(corpus.train.sum())
    for count, seconds, phi, own in fit(corpus, topics, prior, passes, **more):
        theta = own()
        yield {
            "corpus": corpus.name,
            "topics": topics,
            "prior": "default" if prior[0] is None else prior,
            "method": method,
            "passes": count,
            "own": round(
                completion(theta / theta.sum(axis=1, keepdims=True), phi, corpus.held_out), 2
            ),
            "common": round(completion(proportions(phi, corpus.observed), phi, corpus.held_out), 2),
            "seconds": round(seconds, 3),
            "tokens_per_second": round(tokens * count / seconds),
        }


def main() -> None:
    """Measure and append the rows to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="*", default=["20ng", "kos", "ap"])
    parser.add_argument("--topics", type=int, nargs="*", default=[50, 100])
    parser.add_argument("--passes", type=int, nargs="*", default=[1, 2, 5, 10, 20])
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--priors", nargs="*", default=["text", "default"])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    for name in arguments.corpora:
        corpus = corpora.load(name)
        for topics in arguments.topics:
            for prior in arguments.priors:
                given = (0.1, 0.01) if prior == "text" else (None, None)
                for method in arguments.methods:
                    for row in measure(method, corpus, topics, given, arguments.passes):
                        line = json.dumps(row)
                        print(line, flush=True)
                        if arguments.out:
                            with arguments.out.open("a") as file:
                                file.write(line + "\n")


if __name__ == "__main__":
    main()
