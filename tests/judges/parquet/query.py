# query.py ENGINE DIR "SQL"...: asks an engine about the tables of an export. Prints a JSON list of
# rows for each query, a line each. Times are ISO 8601 in UTC, whatever the engine has.
import datetime
import decimal
import glob
import json
import os
import sys

os.environ["TZ"] = "UTC"


def duckdb(tables):
    import duckdb

    connection = duckdb.connect()
    for name, path in tables.items():
        connection.sql(f"create view {name} as from '{path}'")

    def ask(query):
        answer = connection.sql(query)
        return [dict(zip(answer.columns, row)) for row in answer.fetchall()]

    return ask


def polars(tables):
    import polars

    context = polars.SQLContext({name: polars.scan_parquet(path) for name, path in tables.items()})
    return lambda query: context.execute(query, eager=True).to_dicts()


def clickhouse(tables):
    from chdb import session

    # In memory: nothing is left behind.
    here = session.Session()
    here.query("create database export")
    here.query("use export")
    for name, path in tables.items():
        here.query(f"create view {name} as select * from file('{path}', Parquet)")

    def ask(query):
        settings = "output_format_json_quote_64bit_integers = 0"
        text = here.query(f"{query} settings {settings}", "JSON").bytes().decode()
        answer = json.loads(text)
        times = [c["name"] for c in answer["meta"] if "DateTime" in c["type"]]
        for row in answer["data"]:
            for name in times:
                if row[name] is not None:
                    row[name] = datetime.datetime.fromisoformat(row[name])
        return answer["data"]

    return ask


def datafusion(tables):
    from datafusion import SessionContext

    context = SessionContext()
    for name, path in tables.items():
        context.register_parquet(name, path)
    return lambda query: context.sql(query).to_pylist()


def spark(tables):
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for name, path in tables.items():
        session.read.parquet(path).createOrReplaceTempView(name)
    return lambda query: [row.asDict() for row in session.sql(query).collect()]


def plain(value):
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=datetime.timezone.utc)
        return value.astimezone(datetime.timezone.utc).isoformat(timespec="microseconds")
    if isinstance(value, decimal.Decimal) and value == int(value):
        return int(value)
    return str(value)


def main():
    engines = [duckdb, polars, clickhouse, datafusion, spark]
    engine, folder, *queries = sys.argv[1:]
    paths = glob.glob(os.path.abspath(folder) + "/*.parquet")
    ask = {make.__name__: make for make in engines}[engine](
        {os.path.basename(path)[:-8]: path for path in paths}
    )
    for query in queries:
        print(json.dumps(ask(query), default=plain))


if __name__ == "__main__":
    main()
