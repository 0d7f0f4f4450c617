# timed.py DIR ROUNDS "SQL"...: asks DuckDB about the tables of an export, on two threads. Each
# question is asked once to warm up, then ROUNDS times. Prints a JSON list for each, a line each:
# how many rows it has, and the median of the seconds.
import glob
import json
import os
import statistics
import sys
import time

import duckdb

directory, rounds, *queries = sys.argv[1:]
connection = duckdb.connect()
connection.sql("set threads = 2")
for path in sorted(glob.glob(os.path.join(directory, "*.parquet"))):
    name = os.path.basename(path).removesuffix(".parquet")
    connection.sql(f"create view {name} as from '{path}'")
for query in queries:
    rows = len(connection.sql(query).fetchall())
    seconds = []
    for _ in range(int(rounds)):
        begin = time.perf_counter()
        connection.sql(query).fetchall()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps([rows, statistics.median(seconds)]), flush=True)
