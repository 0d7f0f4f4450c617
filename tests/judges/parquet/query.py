import glob
import json
import os
import sys

engine, folder, *queries = sys.argv[1:]
tables = {os.path.basename(path)[:-8]: path for path in glob.glob(folder + "/*.parquet")}
if engine == "duckdb":
    import duckdb

    connection = duckdb.connect()
    for name, path in tables.items():
        connection.sql(f"create view {name} as from '{path}'")

    def ask(query):
        answer = connection.sql(query)
        return [dict(zip(answer.columns, row)) for row in answer.fetchall()]
else:
    import polars

    context = polars.SQLContext({name: polars.scan_parquet(path) for name, path in tables.items()})

    def ask(query):
        return context.execute(query, eager=True).to_dicts()


for query in queries:
    print(json.dumps(ask(query), default=str))
