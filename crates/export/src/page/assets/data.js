// The page's data (crates/export/src/page/model.rs), and the rows of the timeline unpacked.

const data = JSON.parse(byId("data").textContent);

/** What stretches are, by the number that they have: their word, and the name of their colour. */
const sorts = [
    ["on CPU", "running"],
    ["running", "running"],
    ["waits for a CPU", "runnable"],
    ["could run, its CPU is idle", "held"],
    ["waits", "blocked"],
    ["waits for work or time", "idle"],
    ["stopped", "stopped"],
    ["call", "call"],
    ["failed call", "failed"],
    ["interrupt", "irq"],
    ["signal sent", "signal"],
    ["signal taken", "taken"],
    ["request", "disk"],
    ["failed request", "failed"],
];
/** Of the classes whose times are told of merged stretches: by row, their words and colours. */
const classes = {
    cpu: [["busy", "running"]],
    state: [
        ["running", "running"],
        ["waits for a CPU", "runnable"],
        ["waits", "blocked"],
        ["waits for work or time, or stopped", "idle"],
    ],
    call: [
        ["in calls", "call"],
        ["in failed calls", "failed"],
    ],
    irq: [["in interrupts", "irq"]],
    signal: [["", "signal"]],
    disk: [
        ["in requests", "disk"],
        ["in failed requests", "failed"],
    ],
};

/** A row with its times in arrays: `from`, `until`, `what`, and where stretches are merged. */
function unpack(row, lane) {
    const count = row.whats.length;
    const from = new Float64Array(count);
    const until = new Float64Array(count);
    let end = 0;
    for (let at = 0; at < count; at += 1) {
        from[at] = end + row.times[2 * at];
        end = from[at] + row.times[2 * at + 1];
        until[at] = end;
    }
    const what = Uint32Array.from(row.whats);
    // Until when the stretches up to each one reach: requests to disks overlap.
    const reach = Float64Array.from(until);
    for (let at = 1; at < count; at += 1) reach[at] = Math.max(reach[at], reach[at - 1]);
    // For each stretch, where in `merged` it stands, and one more; 0: it is a single one.
    const mergedAt = new Uint32Array(count);
    const stride = 6;
    for (let at = 0; at < row.merged.length; at += stride) mergedAt[row.merged[at]] = at + 1;
    return {
        of: row.of,
        lane,
        from,
        until,
        reach,
        what,
        merged: row.merged,
        mergedAt,
        resolution: row.resolution,
        top: 0,
        height: 0,
    };
}

/** How many stretches one stands for, and the parts of its length; null: it is single. */
function mergedOf(row, at) {
    const place = row.mergedAt[at];
    if (place === 0) return null;
    const [, n, ...parts] = row.merged.slice(place - 1, place + 5);
    return { n, parts: parts.map((part) => part / 1000) };
}

/** The first stretch that may be seen from a time on. */
function firstFrom(row, time) {
    let low = 0;
    let high = row.from.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (row.reach[middle] < time) low = middle + 1;
        else high = middle;
    }
    return low;
}

/** The stretch of a row at a time, within a tolerance on both sides; -1: there is none. */
function stretchAt(row, time, tolerance) {
    let best = -1;
    let distance = Infinity;
    for (
        let at = firstFrom(row, time - tolerance);
        at < row.from.length && row.from[at] <= time + tolerance;
        at += 1
    ) {
        const away = Math.max(row.from[at] - time, time - row.until[at], 0);
        if (away <= tolerance && away <= distance) {
            best = at;
            distance = away;
        }
    }
    return best;
}

const word = (at) => data.timeline.words[at] || "";
const whatOf = (row, at) => data.timeline.whats[row.what[at]] || [0, 0, 0, 0, 0];

const lanes = data.timeline.lanes.map((lane) => {
    const made = {
        label: lane.label,
        sub: lane.sub,
        tid: lane.tid,
        named: lane.named,
        gaps: lane.gaps,
        top: 0,
    };
    made.rows = lane.rows.map((row) => unpack(row, made));
    lane.rows = null;
    return made;
});
const rows = lanes.flatMap((lane) => lane.rows);
