import json
import sys

from perfetto.trace_processor import TraceProcessor

processor = TraceProcessor(remote=sys.argv[1])
for query in sys.argv[2:]:
    print(json.dumps([row.__dict__ for row in processor.query(query)]))
