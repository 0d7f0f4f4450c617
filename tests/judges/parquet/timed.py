# timed.py DIR ROUNDS "SQL"...: asks DuckDB about the tables of an export, on two threads. Each
# question is asked once to warm up, then ROUNDS times of one connection, and ROUNDS times of a
# process of its own, as a command is. Prints a JSON list for each, a line each: how many rows it
# has, the median of the seconds of the connection, and that of the processes.
import glob
import json
import os
import statistics
import subprocess
import sys
import time

import duckdb


def connect(directory):
    connection = duckdb.connect()
    connection.sql("set threads = 2")
    for path in sorted(glob.glob(os.path.join(directory, "*.parquet"))):
        name = os.path.basename(path).removesuffix(".parquet")
        connection.sql(f"create view {name} as from '{path}'")
    return connection


def median(rounds, ask):
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        ask()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def main():
    directory, rounds, *queries = sys.argv[1:]
    connection = connect(directory)
    for query in queries:
        rows = len(connection.sql(query).fetchall())
        if rounds == "0":
            continue
        warm = median(int(rounds), lambda: connection.sql(query).fetchall())
        itself = [sys.executable, __file__, directory, "0", query]
        alone = median(int(rounds), lambda: subprocess.run(itself, check=True))
        print(json.dumps([rows, warm, alone]), flush=True)


main()
