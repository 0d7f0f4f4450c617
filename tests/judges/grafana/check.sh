#!/bin/bash
# check.sh FILE...: holds dashboards (JSON) against Grafana's own types, without what those do not
# have. Prints what is wrong, and fails.
set -eu
here=$(dirname "$(readlink -f "$0")")
judges=$(readlink -m "$here/../../../target/judges/grafana")
work=$(mktemp -d "$judges/check.XXXXXX")
trap 'rm -rf "$work"' EXIT
for file; do
    {
        types=@grafana/schema/dist/types/raw/dashboard/x/types.gen
        echo "import type { Dashboard } from \"$types\";"
        # In JSON, a member of an enumeration is the text that it stands for.
        echo 'type Json<T> = T extends string ? `${T}` : T extends object'
        echo '    ? { [K in keyof T]: Json<T[K]> } : T;'
        echo 'export const dashboard: Json<Dashboard> ='
        cat "$file"
        echo ';'
    } >"$work/$(basename "$file" .json).ts"
done
cat >"$work/tsconfig.json" <<'JSON'
{
  "compilerOptions": {
    "strict": true, "noEmit": true, "skipLibCheck": true, "types": [],
    "target": "es2022", "module": "preserve", "moduleResolution": "node10",
    "ignoreDeprecations": "5.0"
  },
  "include": ["*.ts"]
}
JSON
"$judges/node_modules/.bin/tsc" -p "$work/tsconfig.json"
