# fleet.py ENGINE LAKE: asks an engine about the compacted tables of a fleet (docs/fleet.md). The
# questions come from standard input, a JSON list of texts. Prints a JSON object for each, a line
# each: its rows, the seconds that it took, and the bytes that the engine's process read meanwhile
# (rchar of /proc/PID/io: what it asked the kernel for, from files, whatever was in the page cache).
import glob
import json
import os
import subprocess
import sys
import time

from query import plain

TABLES = ["sums", "hours", "histograms", "shipped"]


def duckdb(files):
    import duckdb

    connection = duckdb.connect()
    # Two threads, and a bound, as on a small machine.
    connection.sql("set threads = 2; set memory_limit = '4GB'")
    for table, pattern in files.items():
        connection.sql(
            f"create view {table} as from read_parquet('{pattern}', "
            "hive_partitioning = true, hive_types = {'dt': date, 'hour': bigint})"
        )

    def ask(query):
        answer = connection.sql(query)
        return [dict(zip(answer.columns, row)) for row in answer.fetchall()]

    return ask, os.getpid()


def clickhouse(files):
    from chdb import session

    here = session.Session()
    here.query("create database fleet")
    here.query("use fleet")
    for table, pattern in files.items():
        here.query(f"create view {table} as select * from file('{pattern}', Parquet)")
    settings = (
        "settings use_hive_partitioning = 1, output_format_json_quote_64bit_integers = 0, "
        # So that what is read is counted.
        "storage_file_read_method = 'pread', "
        "max_threads = 2, max_memory_usage = 4000000000"
    )

    def ask(query):
        text = here.query(f"{query} {settings}", "JSON").bytes().decode()
        return json.loads(text)["data"]

    return ask, os.getpid()


def spark(files):
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for table, pattern in files.items():
        session.read.parquet(pattern.split("/**")[0]).createOrReplaceTempView(table)
    return lambda query: [row.asDict() for row in session.sql(query).collect()], java()


def java():
    """The Java virtual machine that Spark has started: the greatest of the processes below."""
    children = subprocess.check_output(["ps", "-e", "-o", "pid=,ppid=,comm="], text=True)
    below, found = {os.getpid()}, None
    for line in sorted(children.splitlines(), key=lambda line: int(line.split()[0])):
        pid, parent, name = line.split(None, 2)
        if int(parent) in below:
            below.add(int(pid))
            if name.strip() == "java":
                found = int(pid)
    return found


def read_bytes(pid):
    with open(f"/proc/{pid}/io") as lines:
        return int(next(line for line in lines if line.startswith("rchar")).split()[1])


def main():
    engine, lake = sys.argv[1:]
    compact = os.path.join(os.path.abspath(lake), "schema=1/compact")
    files = {
        table: f"{compact}/table={table}/**/*.parquet"
        for table in TABLES
        if glob.glob(f"{compact}/table={table}")
    }
    ask, pid = {make.__name__: make for make in [duckdb, clickhouse, spark]}[engine](files)
    for query in json.load(sys.stdin):
        before, begin = read_bytes(pid), time.perf_counter()
        rows = ask(query)
        seconds = time.perf_counter() - begin
        told = {"rows": rows, "seconds": seconds, "bytes": read_bytes(pid) - before}
        print(json.dumps(told, default=plain), flush=True)


main()
