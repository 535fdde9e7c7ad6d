"""Reads the Parquet dataset of an analysis with DuckDB and compares it with the journal that it was made from.

    python check_dataset.py ANALYSIS JOURNAL

Whole numbers are compared as whole numbers: every difference is computed again from the records' own text.
"""

import json
import pathlib
import sys

import duckdb


def fail(text):
    sys.exit(f"check_dataset: {text}")


def records(journal):
    """Records of each component's folder, the one before the first step first."""
    for folder in sorted(path for path in journal.joinpath("snapshots").iterdir() if path.is_dir()):
        documents = [json.loads(path.read_text()) for path in folder.glob("*.json")]
        documents.sort(key=lambda document: -1 if document["step_index"] is None else document["step_index"])
        names = ["before_denoise" if d["step_index"] is None else f"step_{d['step_index']:04d}" for d in documents]
        values = [document["metrics"]["runtime"]["vmm"] for document in documents]
        yield folder.name, list(zip(names, values))


def main(analysis, journal):
    db = duckdb.connect()
    parts = analysis / "dataset"
    tidy = f"read_parquet('{parts}/tidy/*/*/*.parquet', hive_partitioning = true)"
    wide = f"read_parquet('{parts}/wide/*/*/*.parquet', hive_partitioning = true)"
    types = dict((row[0], row[1]) for row in db.sql(f"DESCRIBE SELECT * FROM {tidy}").fetchall())
    for column, wanted in [("value_u64", "UBIGINT"), ("value_i64", "BIGINT"), ("value_f64", "DOUBLE"), ("value_text", "VARCHAR")]:
        if types.get(column) != wanted:
            fail(f"{column} is {types.get(column)}, not {wanted}")
    if "run" not in types or "rank" not in types:
        fail(f"the partitions are not read as columns: {sorted(types)}")

    query = f"SELECT from_, to_, path, state, coalesce(value_u64::HUGEINT, value_i64::HUGEINT), value_f64 FROM " \
            f"(SELECT *, \"from\" AS from_, \"to\" AS to_ FROM {tidy}) WHERE component = ? AND kind = 'counter' AND scope = 'step'"
    compared = 0
    for component, own in records(journal):
        rows = {row[:3]: row[3:] for row in db.execute(query, [component]).fetchall()}
        for (from_, before), (to, after) in zip(own, own[1:]):
            for key, later in after.items():
                row = rows.get((from_, to, f"runtime.vmm.{key}"))
                if row is None or row[0] != "value":
                    continue
                wanted = later - before[key]
                got = row[1] if row[1] is not None else row[2]
                # Two JSON readers may round the last digit of a fraction differently; whole numbers are exact.
                room = 0 if isinstance(wanted, int) else 1e-15 * max(abs(later), abs(before[key]))
                if got is None or abs(got - wanted) > room:
                    fail(f"{component} {from_} -> {to} {key}: {got} instead of {wanted}")
                compared += 1
    if compared < 20:
        fail(f"only {compared} differences were compared")

    # Steps without a reset or a gap add up to the whole, in whole numbers.
    sums = db.sql(
        f"SELECT path, sum(value_u64) FILTER (scope = 'step'), sum(value_u64) FILTER (scope = 'first_to_last') FROM {tidy} "
        "WHERE kind = 'counter' AND value_u64 IS NOT NULL AND path LIKE 'runtime.vmm.%' GROUP BY component, path "
        "HAVING bool_and(state = 'value')"
    ).fetchall()
    for path, steps, whole in sums:
        if steps != whole:
            fail(f"{path}: the steps add up to {steps}, first to last is {whole}")
    if not sums:
        fail("no whole-number counter in the tidy table")

    # The wide table says the same, column by column.
    path = "runtime.vmm.fast_upload_bytes"
    long = f"SELECT \"from\", \"to\", value_u64 FROM {tidy} WHERE path = '{path}' AND value_u64 IS NOT NULL"
    broad = f"SELECT \"from\", \"to\", \"{path}\" FROM {wide} WHERE \"{path}\" IS NOT NULL"
    if sorted(db.sql(long).fetchall()) != sorted(db.sql(broad).fetchall()):
        fail(f"{path} differs between the tables")
    print(f"check_dataset: {compared} differences and {len(sums)} sums are those of {journal.name}")


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
