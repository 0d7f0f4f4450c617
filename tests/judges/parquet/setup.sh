#!/bin/bash
# setup.sh [ENGINE...]: installs readers of Parquet into target/judges, from the Python package
# index: duckdb (with polars, 270 MB; the default), clickhouse (910 MB), datafusion (320 MB), spark
# (510 MB, and Java from the distribution), or all.
. "$(dirname "$(readlink -f "$0")")/../install.sh"
[ $# -gt 0 ] || set -- duckdb
[ "$*" != all ] || set -- duckdb clickhouse datafusion spark
for engine; do
    case $engine in
    duckdb) python parquet duckdb==1.5.5 polars==2.1.0 pytz ;;
    clickhouse) python clickhouse chdb==4.4.0 ;;
    datafusion) python datafusion datafusion==55.0.0 ;;
    spark)
        command -v java >/dev/null || debian openjdk-17-jre-headless
        python spark pyspark==4.3.0
        ;;
    *)
        echo "no such engine: $engine" >&2
        exit 2
        ;;
    esac
done
