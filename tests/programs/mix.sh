# What a build machine does: compiles, lists, searches. usage: sh mix.sh SOURCE.c FOLDER
set -e
i=0
while [ $i -lt 12 ]; do
    gcc -O1 -c -o "$2/$i.o" "$1"
    i=$((i + 1))
done
ls -lR /usr/include >"$2/listing"
grep -rc flight /usr/include/linux >"$2/found" || [ $? -eq 1 ]
rm "$2"/*.o
