"""What tells data, priors and functions from others: digests of all that they hold."""

import functools
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

# How deep objects within objects are looked into.
_DEPTH = 12


def fingerprint(value: Any) -> str:
    """Return text that differs wherever two values do, every byte of their arrays included.

    A function is its code, its defaults, what it encloses and the global numbers and arrays that it
    names; an object is its class and its attributes.
    """
    digest = hashlib.blake2b(digest_size=16)
    _feed(digest, value, 0)
    return digest.hexdigest()


def _feed(digest: Any, value: Any, depth: int) -> None:
    """Add a value to a digest."""
    if depth > _DEPTH:
        return
    kind, parts = _opened(value)
    digest.update(f"{kind}:{len(parts)};".encode())
    for part in parts:
        if isinstance(part, memoryview):
            digest.update(part)
        elif isinstance(part, str):
            digest.update(f"{len(part)}:{part}".encode("utf-8", "surrogatepass"))
        else:
            _feed(digest, part, depth + 1)


def _opened(value: Any) -> tuple[str, list[Any]]:
    """Return the kind of a value, and its parts: text, bytes, or values to be looked into."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        return kind, [repr(value)]
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return kind, _array(value)
    if sp.issparse(value):
        rows = value.tocsr()
        return kind, [value.format, value.shape, rows.indptr, rows.indices, rows.data]
    if hasattr(value, "iloc"):
        columns = [value] if value.ndim == 1 else [value.iloc[:, j] for j in range(value.shape[1])]
        names = [] if value.ndim == 1 else list(value.columns)
        return kind, [names, *(np.asarray(part) for part in (value.index, *columns))]
    if isinstance(value, Mapping):
        return kind, [part for item in value.items() for part in item]
    if isinstance(value, list | tuple):
        return kind, list(value)
    if isinstance(value, set | frozenset):
        return kind, sorted(fingerprint(part) for part in value)
    if isinstance(value, functools.partial):
        return kind, [value.func, value.args, value.keywords]
    if hasattr(value, "__func__"):
        return kind, [value.__func__, value.__self__]
    if hasattr(value, "__code__"):
        return kind, _function(value)
    if hasattr(value, "co_code"):
        return kind, [value.co_code, value.co_names, value.co_consts]
    if hasattr(value, "__array__") and not isinstance(value, type):
        return kind, _array(np.asarray(value))
    return kind, _object(value)


def _array(values: np.ndarray[Any, Any]) -> list[Any]:
    about = [values.dtype.str, values.shape]
    if values.dtype.hasobject:
        return [*about, values.ravel().tolist()]
    flat = np.ascontiguousarray(values).reshape(-1)
    return [*about, flat.view(np.uint8).data] if flat.nbytes else about


def _function(function: Any) -> list[Any]:
    code = function.__code__
    cells = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    known = function.__globals__
    plain = bool, int, float, complex, str, bytes, np.ndarray, np.generic, tuple, list, dict
    names = sorted(name for name in code.co_names if isinstance(known.get(name), plain))
    around = [[name, known[name]] for name in names]
    own = [function.__qualname__, code, function.__defaults__, function.__kwdefaults__]
    return [*own, cells, around]


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is cell.cell_contents
    except ValueError:
        return False


def _object(value: Any) -> list[Any]:
    """Return the name of a class or function, or the attributes of an object."""
    name = getattr(value, "__qualname__", None)
    if isinstance(name, str):
        return [f"{getattr(value, '__module__', '')}.{name}"]
    if hasattr(value, "dist") and hasattr(value, "args"):  # a frozen distribution of SciPy
        return [type(value.dist).__qualname__, value.dist.name, value.args, value.kwds]
    cached = functools.cached_property
    attributes = sorted(getattr(value, "__dict__", {}).items())
    kept = [
        item for item in attributes if not isinstance(getattr(type(value), item[0], None), cached)
    ]
    return [list(item) for item in kept]
