import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


@pytest.fixture(scope="session")
def digits():
    """Rows and labels to learn from, then rows and labels to be judged by."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
    return X, y, X_test, y_test


@pytest.fixture(scope="session")
def waves():
    """A smooth function of three columns, enough rows for a hold-out."""
    rng = np.random.default_rng(7)
    X = rng.uniform(-2, 2, size=(2400, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]


@pytest.fixture(scope="session")
def blobs():
    """Three classes that overlap a little."""
    rng = np.random.default_rng(8)
    y = np.arange(240) % 3
    centers = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    return centers[y] + 0.6 * rng.normal(size=(240, 2)), y
