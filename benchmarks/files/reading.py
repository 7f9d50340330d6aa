"""How fast data files become rows of single precision: riesz beside polars, pyarrow and pandas.

    python benchmarks/files/reading.py [--folder /dev/shm] [--megabytes 500] [--repeats 3]

A CSV file and a Parquet file (snappy, as pandas and polars write it) of 20 columns of numbers are
made in the folder, which should be in memory: what is measured is parsing and decoding. Every
reader works in a process of its own on one thread, and ends with a row-major float32 array, part
by part or as a whole. CPU seconds and wall time of each run are appended to results/reading.jsonl.
Speeds are megabytes of text for CSV, and of decoded float32 for Parquet, per CPU second.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

COLUMNS = 20
RESULTS = Path(__file__).parent / "results" / "reading.jsonl"
ONE_THREAD = {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}


def make(folder: Path, megabytes: int) -> dict[str, Path]:
    """Write the files, unless they are there."""
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = {"csv": folder / "rows.csv", "parquet": folder / "rows.parquet"}
    if all(path.exists() for path in files.values()):
        return files
    names = [f"c{j}" for j in range(COLUMNS)]
    rng = np.random.default_rng(0)
    rows = megabytes * 1_000_000 // (9 * COLUMNS)
    frame = pl.DataFrame(rng.normal(size=(rows, COLUMNS)), schema=names)
    frame.write_csv(files["csv"], float_precision=6)
    rows = megabytes * 1_000_000 // (4 * COLUMNS)
    values = rng.normal(size=(rows, COLUMNS)).astype(np.float32)
    table = pa.table({name: values[:, j] for j, name in enumerate(names)})
    pq.write_table(table, files["parquet"])
    return files


def riesz(path: Path) -> int:
    """Part by part, as fits read it."""
    from riesz._riesz import FileParts

    names = [f"c{j}" for j in range(COLUMNS)]
    parts, size = FileParts.open([path], COLUMNS, names), 0
    while (part := parts.read()) is not None:
        size += part.size
    return size


def polars(path: Path) -> int:
    """As a frame of the right types, then an array."""
    import polars as pl

    names = [f"c{j}" for j in range(COLUMNS)]
    if path.suffix == ".csv":
        frame = pl.read_csv(path, schema=dict.fromkeys(names, pl.Float32))
    else:
        frame = pl.read_parquet(path)
    return np.ascontiguousarray(frame.to_numpy(), dtype=np.float32).size


def pyarrow(path: Path) -> int:
    """As a table, then an array."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    pa.set_cpu_count(1)
    names = [f"c{j}" for j in range(COLUMNS)]
    if path.suffix == ".csv":
        kinds = pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float32()))
        options = pa.csv.ReadOptions(use_threads=False)
        table = pa.csv.read_csv(path, read_options=options, convert_options=kinds)
    else:
        table = pa.parquet.read_table(path, use_threads=False)
    return np.column_stack([table[name].to_numpy() for name in names]).size


def pandas(path: Path) -> int:
    """As a frame, then an array."""
    import pandas as pd

    read = pd.read_csv if path.suffix == ".csv" else pd.read_parquet
    more = {"dtype": np.float32} if path.suffix == ".csv" else {}
    return np.ascontiguousarray(read(path, **more).to_numpy(np.float32)).size


READERS = {reader.__name__: reader for reader in (riesz, polars, pyarrow, pandas)}


def measure(name: str, path: Path) -> None:
    """Read once and print what it took; for a process of its own."""
    READERS[name](path.with_name(f"small{path.suffix}"))  # what is loaded and compiled once
    cpu, wall = time.process_time(), time.perf_counter()
    values = READERS[name](path)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu": cpu, "wall": wall, "values": values}))


def small(files: dict[str, Path]) -> None:
    """Write a few rows beside each file."""
    import pyarrow.parquet as pq

    with files["csv"].open() as lines:
        text = "".join(next(lines) for _ in range(1_000))
    files["csv"].with_name("small.csv").write_text(text)
    pq.write_table(
        pq.ParquetFile(files["parquet"]).read_row_group(0).slice(0, 1_000),
        files["parquet"].with_name("small.parquet"),
    )


def main() -> None:
    """Measure every reader on every file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm/riesz-reading"))
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure[0], Path(arguments.measure[1]))
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    files = make(arguments.folder, arguments.megabytes)
    small(files)
    RESULTS.parent.mkdir(exist_ok=True)
    for repeat in range(arguments.repeats):
        for kind, path in files.items():
            for name in READERS:
                command = [sys.executable, __file__, "--measure", name, str(path)]
                environment = os.environ | ONE_THREAD
                done = subprocess.run(command, capture_output=True, check=True, env=environment)
                row = json.loads(done.stdout)
                size = path.stat().st_size if kind == "csv" else 4 * row["values"]
                row |= {"reader": name, "format": kind, "repeat": repeat, "bytes": size}
                row |= {"machine": platform.processor() or platform.machine()}
                with RESULTS.open("a") as out:
                    out.write(json.dumps(row) + "\n")
                speed = size / 1e6 / row["cpu"]
                print(f"{kind:8} {name:8} {speed:8.0f} MB per CPU second, {row['wall']:.2f} s")


if __name__ == "__main__":
    main()
