# Runs an analysis of lttng-analyses 0.6.1, which is from 2017, in the Python of today.
import collections
import collections.abc
import inspect
import sys

for name in ("Mapping", "MutableMapping", "Sequence", "Iterable", "Callable"):
    setattr(collections, name, getattr(collections.abc, name))
if not hasattr(inspect, "getargspec"):
    inspect.getargspec = inspect.getfullargspec

from lttnganalyses.cli import cputop, io, sched, syscallstats

analyses = {
    "sched-log": sched.runlog,
    "sched-top": sched.runtop,
    "iolatencytop": io.runlatencytop,
    "io-log": io.runlog,
    "cputop": cputop.run,
    "syscallstats": syscallstats.run,
}
analysis = analyses[sys.argv[1]]
sys.argv = [sys.argv[1], "--no-progress", *sys.argv[2:]]
analysis()
