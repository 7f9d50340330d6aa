"""Corpora of bags of words, split into training documents and halves of test documents."""

import gzip
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

FOLDER = Path(os.environ.get("RIESZ_DATA", "data")) / "text"


@dataclass
class Corpus:
    """Training counts, and for each test document the counts of its two halves."""

    name: str
    train: sparse.csr_matrix
    observed: sparse.csr_matrix
    held_out: sparse.csr_matrix
    vocabulary: list[str]


def load(name: str) -> Corpus:
    """Read a corpus by name: 20ng, kos or ap."""
    if name == "20ng":
        return _newsgroups()
    counts, vocabulary = {"kos": _kos, "ap": _ap}[name]()
    return split(name, counts, vocabulary)


def split(name: str, counts: sparse.csr_matrix, vocabulary: list[str]) -> Corpus:
    """Hold out a fifth of the documents and halve the tokens of each at random."""
    rng = np.random.default_rng(0)
    test = np.zeros(counts.shape[0], dtype=bool)
    test[rng.permutation(counts.shape[0])[: counts.shape[0] // 5]] = True
    tested = counts[test].tocsr()
    half = tested.copy()
    half.data = rng.binomial(tested.data.astype(np.int64), 0.5).astype(np.float64)
    rest = (tested - half).tocsr()
    for part in (half, rest):
        part.eliminate_zeros()
    return Corpus(name, counts[~test].tocsr(), half, rest, vocabulary)


def _newsgroups() -> Corpus:
    with np.load(FOLDER / "20ng" / "20ng_bow_etm.npz") as arrays:
        vocabulary = (FOLDER / "20ng" / "vocab_etm.txt").read_text().split()

        def part(name: str) -> sparse.csr_matrix:
            values = [arrays[f"{name}_{field}"] for field in ("counts", "indices", "indptr")]
            values[0] = values[0].astype(np.float64)
            matrix = sparse.csr_matrix(tuple(values), shape=(len(values[2]) - 1, len(vocabulary)))
            matrix.sum_duplicates()
            return matrix

        return Corpus("20ng", part("tr"), part("ts_h1"), part("ts_h2"), vocabulary)


def _kos() -> tuple[sparse.csr_matrix, list[str]]:
    rows = np.loadtxt(FOLDER / "kos" / "doc_word_count.tsv.gz", dtype=np.int64)
    vocabulary = (FOLDER / "kos" / "vocab.kos.txt").read_text().split()
    shape = (rows[:, 0].max() + 1, len(vocabulary))
    entries = rows[:, 2].astype(np.float64), (rows[:, 0], rows[:, 1])
    return sparse.csr_matrix(entries, shape=shape), vocabulary


def _ap() -> tuple[sparse.csr_matrix, list[str]]:
    vocabulary = (FOLDER / "ap" / "vocab.txt").read_text().split()
    indptr, indices, counts = [0], [], []
    with gzip.open(FOLDER / "ap" / "ap.dat.gz", "rt") as file:
        for line in file:
            pairs = [pair.split(":") for pair in line.split()[1:]]
            indices += [int(word) for word, _ in pairs]
            counts += [float(count) for _, count in pairs]
            indptr.append(len(indices))
    shape = (len(indptr) - 1, len(vocabulary))
    return sparse.csr_matrix((counts, indices, indptr), shape=shape), vocabulary
