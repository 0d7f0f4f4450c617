// The timeline: lanes of CPUs and threads on a canvas, an axis above, and the whole window on top.

const sizes = { cpu: 18, irq: 8, state: 15, call: 15, signal: 8, disk: 15, gap: 9, label: 15 };

/** Makes the timeline; the result shows a stretch of time, and draws anew. */
function showTimeline() {
    const whole = [0, Math.max(1, data.about.length)];
    const lanesCanvas = byId("lanes");
    const axisCanvas = byId("axis");
    const overview = byId("overview");
    const links = data.answer ? data.answer.chain.filter((of) => of.until > of.from) : [];
    let view = [...whole];
    let width = 0;
    let labels = 0;
    let height = 0;
    let ratio = 1;
    let paint = {};
    let hover = null;
    let kept = null;
    let asked = false;

    const scale = () => (width - labels) / (view[1] - view[0]);
    const toX = (time) => labels + (time - view[0]) * scale();
    const toTime = (x) => view[0] + (x - labels) / scale();

    // -- Places and colours --

    function layOut() {
        width = lanesCanvas.clientWidth;
        ratio = Math.min(window.devicePixelRatio || 1, 3);
        // On a narrow screen the labels stand above their rows.
        labels = width >= 640 ? 168 : 0;
        let top = 4;
        let group = "";
        for (const lane of lanes) {
            const kind = lane.tid ? (lane.named ? "named" : "other") : lane.rows[0].of;
            if (group && group !== kind) top += 8;
            group = kind;
            lane.top = top;
            if (!labels) top += sizes.label;
            for (const row of lane.rows) {
                row.top = top;
                row.height = sizes[row.of];
                top += row.height + 1;
            }
            lane.bottom = top;
            top += sizes.gap;
        }
        height = top;
        lanesCanvas.style.height = `${height}px`;
        for (const [canvas, tall] of [
            [lanesCanvas, height],
            [axisCanvas, 26],
            [overview, overview.clientHeight],
        ]) {
            canvas.width = Math.round(canvas.clientWidth * ratio);
            canvas.height = Math.round(tall * ratio);
        }
    }

    function readColours() {
        const names = [
            "paper",
            "card",
            "ink",
            "soft",
            "line",
            "accent",
            "band",
            "on",
            "hatch",
            "focus",
            "cpu-s",
            "cpu-l",
            ...new Set(sorts.map(([, name]) => name)),
        ];
        paint = Object.fromEntries(names.map((name) => [name, colour(name)]));
        cpuColours.clear();
    }

    // Threads that the answer names have colours of their own on the CPUs; others quiet ones.
    const namedColours = ["#d1495b", "#3a86c8", "#e09f3e", "#7b5ea7", "#2a9d8f", "#b5651d"];
    const namedAt = new Map();
    lanes
        .filter((lane) => lane.named)
        .forEach((lane, at) => namedAt.set(`${lane.label} (${lane.tid})`, at));
    const cpuColours = new Map();
    function cpuColour(text) {
        let made = cpuColours.get(text);
        if (!made) {
            const name = word(text);
            const at = namedAt.get(name);
            if (at === undefined) {
                let hash = 7;
                // Threads of one name look alike.
                for (const character of name.replace(/ \(\d+\)$/, ""))
                    hash = (hash * 31 + character.codePointAt(0)) % 4093;
                made = `hsl(${170 + (hash % 90)} ${paint["cpu-s"]} ${paint["cpu-l"]})`;
            } else {
                made = namedColours[at % namedColours.length];
            }
            cpuColours.set(text, made);
        }
        return made;
    }

    const colourOf = (row, at) => {
        const [sort, text] = whatOf(row, at);
        return row.of === "cpu" ? cpuColour(text) : paint[sorts[sort][1]];
    };

    // -- Drawing --

    function context(canvas) {
        const drawing = canvas.getContext("2d");
        drawing.setTransform(ratio, 0, 0, ratio, 0, 0);
        drawing.clearRect(0, 0, canvas.clientWidth, canvas.height);
        return drawing;
    }

    /** A text that is no wider than that; empty where little of it would be left. */
    function fitted(drawing, text, room) {
        if (room < 24) return "";
        if (drawing.measureText(text).width <= room) return text;
        const each = 6.2;
        const most = Math.floor(room / each) - 1;
        return most < 3 ? "" : `${text.slice(0, most)}…`;
    }

    function drawRow(drawing, row) {
        const end = view[1];
        let pixel = -1;
        let widest = 0;
        let fill = "";
        const flush = () => {
            if (pixel < 0) return;
            drawing.fillStyle = fill;
            // A signal takes no time, but is to be seen.
            drawing.fillRect(pixel, row.top, row.of === "signal" ? 2 : 1, row.height);
            pixel = -1;
            widest = 0;
        };
        for (
            let at = firstFrom(row, view[0]);
            at < row.from.length && row.from[at] < end;
            at += 1
        ) {
            if (row.until[at] < view[0]) continue;
            const left = Math.max(labels, toX(row.from[at]));
            const right = Math.min(width, toX(row.until[at]));
            if (right - left < 1) {
                // Of what is in one pixel, the longest is seen.
                const place = Math.floor(left);
                if (place !== pixel) flush();
                if (pixel < 0 || right - left > widest) {
                    pixel = place;
                    widest = right - left;
                    fill = colourOf(row, at);
                }
                continue;
            }
            flush();
            if (row.mergedAt[at]) drawMerged(drawing, row, at, left, right);
            else {
                drawing.fillStyle = colourOf(row, at);
                drawing.fillRect(
                    left,
                    row.top,
                    Math.max(1, right - left - (right - left > 4 ? 0.6 : 0)),
                    row.height,
                );
                drawText(drawing, row, at, left, right);
            }
        }
        flush();
    }

    /** Several stretches in one: the parts of its length by their height. */
    function drawMerged(drawing, row, at, left, right) {
        const { parts } = mergedOf(row, at);
        if (row.of === "signal") {
            drawing.fillStyle = colourOf(row, at);
            drawing.fillRect(left, row.top, right - left, row.height);
            return;
        }
        let bottom = row.top + row.height;
        const place = classes[row.of];
        place.forEach(([, name], of) => {
            const tall = Math.min(parts[of] || 0, 1) * row.height;
            if (tall <= 0) return;
            drawing.fillStyle = row.of === "cpu" ? colourOf(row, at) : paint[name];
            bottom -= tall;
            drawing.fillRect(left, bottom, right - left, tall);
        });
    }

    function drawText(drawing, row, at, left, right) {
        const [sort, text] = whatOf(row, at);
        if (row.height < 12) return;
        if (right - left < 30 || (row.of === "state" && (sort === 1 || sort === 5))) return;
        // The number of a link is at its begin.
        const begin = links.some((of) => of.tid === row.lane.tid && of.from === row.from[at])
            ? 18
            : 4;
        // That it waits for a CPU its colour tells.
        if ((sort === 2 || sort === 3) && right - left < 90) return;
        const shown = fitted(drawing, word(text), right - left - begin - 4);
        if (!shown) return;
        drawing.fillStyle = paint.on;
        drawing.fillText(shown, left + begin, row.top + row.height - 4.5);
    }

    /** Slanted lines over a time of which events are missing. */
    function drawGap(drawing, lane, from, until) {
        const left = Math.max(labels, toX(from));
        const right = Math.min(width, Math.max(toX(until), left + 2));
        if (right <= labels || left >= width) return;
        const top = lane.rows[0].top;
        const tall = lane.rows[0].height;
        drawing.save();
        drawing.beginPath();
        drawing.rect(left, top, right - left, tall);
        drawing.clip();
        drawing.strokeStyle = paint.hatch;
        drawing.lineWidth = 1;
        drawing.beginPath();
        for (let x = left - tall; x < right; x += 6) {
            drawing.moveTo(x, top + tall);
            drawing.lineTo(x + tall, top);
        }
        drawing.stroke();
        drawing.restore();
    }

    function drawLabels(drawing, lane) {
        const room = labels ? labels - 14 : width - 12;
        const y = labels ? lane.rows[0].top + 12 : lane.top + 11;
        drawing.font = lane.named ? font(12, 700) : font(12, 500);
        drawing.fillStyle = lane.named ? paint.accent : paint.ink;
        const sub = lane.tid ? lane.sub : "";
        if (labels) {
            drawing.fillText(fitted(drawing, lane.label, room), 2, y);
            if (sub) {
                const at = namedAt.get(`${lane.label} (${lane.tid})`);
                // Its colour on the CPUs.
                if (at !== undefined) {
                    drawing.fillStyle = namedColours[at % namedColours.length];
                    drawing.fillRect(3, y + 6, 8, 8);
                }
                drawing.font = font(11, 400);
                drawing.fillStyle = paint.soft;
                drawing.fillText(
                    fitted(drawing, sub, room - 14),
                    at === undefined ? 2 : 15,
                    y + 14,
                );
            }
        } else {
            drawing.fillText(fitted(drawing, `${lane.label} ${sub}`, room), 2, y);
        }
    }

    const font = (size, weight) =>
        `${weight} ${size}px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif`;

    /** The links of the chain: where each is, and how one hangs on the other. */
    function drawChain(drawing) {
        const placed = links
            .map((of, at) => ({ of, at, lane: lanes.find((lane) => lane.tid === of.tid) }))
            .filter(({ lane }) => lane);
        drawing.lineWidth = 1.5;
        drawing.strokeStyle = paint.accent;
        placed.forEach(({ of, lane }, at) => {
            const left = Math.max(labels, toX(of.from));
            const right = Math.min(width, toX(of.until));
            if (right < labels || left > width) return;
            const row = lane.rows[0];
            drawing.strokeRect(left, row.top - 1, Math.max(2, right - left), row.height + 2);
            const next = placed[at + 1];
            const x = toX(of.until);
            if (next && next.lane !== lane && x >= labels && x <= width) {
                // Who ended it is below, or above.
                const y =
                    next.lane.rows[0].top +
                    (next.lane.top > lane.top ? -1 : next.lane.rows[0].height + 1);
                const start = next.lane.top > lane.top ? row.top + row.height + 1 : row.top - 1;
                drawing.setLineDash([4, 3]);
                drawing.beginPath();
                drawing.moveTo(x, y);
                drawing.lineTo(x, start);
                drawing.stroke();
                drawing.setLineDash([]);
                drawing.fillStyle = paint.accent;
                drawing.beginPath();
                const way = next.lane.top > lane.top ? 1 : -1;
                drawing.moveTo(x, start);
                drawing.lineTo(x - 4, start + 7 * way);
                drawing.lineTo(x + 4, start + 7 * way);
                drawing.fill();
            }
        });
        // Numbers as in the text above, over all lines.
        placed.forEach(({ of, at, lane }) => {
            const left = Math.max(labels, toX(of.from));
            const right = toX(of.until);
            if (right < labels || left > width - 10) return;
            const row = lane.rows[0];
            const x = Math.max(left, labels + 8);
            drawing.fillStyle = paint.accent;
            drawing.beginPath();
            drawing.arc(x, row.top + row.height / 2, 8, 0, 7);
            drawing.fill();
            drawing.fillStyle = paint.card;
            drawing.font = font(10.5, 700);
            drawing.textAlign = "center";
            drawing.fillText(String(at + 1), x, row.top + row.height / 2 + 3.8);
            drawing.textAlign = "left";
        });
    }

    function outline(drawing, place, name) {
        if (!place) return;
        const { row, at } = place;
        const left = Math.max(labels, toX(row.from[at]));
        const right = Math.min(width, toX(row.until[at]));
        if (right < labels || left > width) return;
        drawing.strokeStyle = paint[name];
        drawing.lineWidth = 2;
        drawing.strokeRect(left - 1, row.top - 1, Math.max(3, right - left + 2), row.height + 2);
    }

    /** Steps of the axis: at most one in so many pixels. */
    function ticks() {
        const least = (view[1] - view[0]) / Math.max(1, (width - labels) / 96);
        let step = 1;
        while (step < least) {
            const ten = 10 ** Math.floor(Math.log10(step));
            step = step / ten >= 5 ? ten * 10 : step / ten >= 2 ? ten * 5 : ten * 2;
        }
        // Steps are of the time of day.
        const first = Math.ceil((data.about.day + view[0]) / step) * step - data.about.day;
        const digits = Math.min(9, Math.max(0, 9 - Math.floor(Math.log10(step))));
        const out = [];
        for (let time = first; time <= view[1]; time += step) out.push(time);
        return { out, digits };
    }

    function drawAxis() {
        const drawing = context(axisCanvas);
        drawing.font = font(11, 400);
        drawing.fillStyle = paint.soft;
        const { out, digits } = ticks();
        for (const time of out) {
            const x = toX(time);
            drawing.fillRect(x, 20, 1, 6);
            const text = timeOfDay(time + 0.5, digits);
            const wide = drawing.measureText(text).width;
            if (x + wide < width) drawing.fillText(text, x + 3, 16);
        }
        for (const [time, text] of data.timeline.marks) {
            const x = toX(time);
            if (x < labels || x > width) continue;
            drawing.fillStyle = paint.accent;
            drawing.fillRect(x - 1, 0, 2, 26);
            drawing.fillText(fitted(drawing, `⚑ ${text}`, 140), x + 4, 26);
        }
        return out;
    }

    function drawLanes(steps) {
        const drawing = context(lanesCanvas);
        for (const [from, until] of data.timeline.near) {
            const left = Math.max(labels, toX(from));
            const right = Math.min(width, toX(until));
            if (right <= left) continue;
            drawing.fillStyle = paint.band;
            drawing.fillRect(left, 0, right - left, height);
        }
        drawing.fillStyle = paint.line;
        for (const time of steps) {
            const x = toX(time);
            if (x >= labels) drawing.fillRect(x, 0, 0.6, height);
        }
        for (const lane of lanes) {
            drawing.font = font(11, 400);
            for (const row of lane.rows) drawRow(drawing, row);
            for (const [from, until] of lane.gaps) drawGap(drawing, lane, from, until);
        }
        for (const [time] of data.timeline.marks) {
            const x = toX(time);
            if (x < labels) continue;
            drawing.fillStyle = paint.accent;
            drawing.fillRect(x - 0.5, 0, 1, height);
        }
        drawChain(drawing);
        outline(drawing, hover, "soft");
        outline(drawing, kept, "focus");
        if (labels) drawing.clearRect(0, 0, labels - 9, height);
        for (const lane of lanes) drawLabels(drawing, lane);
    }

    /** How busy the CPUs were, in columns; the part that is shown. */
    const columns = 400;
    const busy = new Float32Array(columns);
    const cpuRows = rows.filter((row) => row.of === "cpu");
    for (const row of cpuRows) {
        for (let at = 0; at < row.from.length; at += 1) {
            const merged = mergedOf(row, at);
            const weight = merged ? merged.parts[0] : 1;
            const each = whole[1] / columns;
            let from = row.from[at];
            for (
                let place = Math.floor(from / each);
                place < columns && from < row.until[at];
                place += 1
            ) {
                const until = Math.min(row.until[at], (place + 1) * each);
                if (place >= 0) busy[place] += (weight * (until - from)) / each / cpuRows.length;
                from = until;
            }
        }
    }

    function drawOverview() {
        const drawing = context(overview);
        const wide = overview.clientWidth;
        const tall = overview.clientHeight;
        drawing.fillStyle = paint.call;
        busy.forEach((part, at) => {
            const high = Math.min(1, part) * (tall - 2);
            drawing.fillRect((at * wide) / columns, tall - high, wide / columns + 0.5, high);
        });
        drawing.fillStyle = paint.accent;
        for (const { from, until } of links.slice(0, 1)) {
            drawing.fillRect(
                (from / whole[1]) * wide,
                0,
                Math.max(2, ((until - from) / whole[1]) * wide),
                4,
            );
        }
        const left = (view[0] / whole[1]) * wide;
        const right = (view[1] / whole[1]) * wide;
        drawing.globalAlpha = 0.55;
        drawing.fillStyle = paint.paper;
        drawing.fillRect(0, 0, left, tall);
        drawing.fillRect(right, 0, wide - right, tall);
        drawing.globalAlpha = 1;
        drawing.strokeStyle = paint.focus;
        drawing.lineWidth = 2;
        drawing.strokeRect(left + 1, 1, Math.max(2, right - left - 2), tall - 2);
    }

    function draw() {
        asked = false;
        if (!width) return;
        drawLanes(drawAxis());
        drawOverview();
        const digits = view[1] - view[0] > 1e9 ? 3 : view[1] - view[0] > 1e6 ? 6 : 9;
        byId("range").textContent =
            `${timeOfDay(view[0], digits)} to ${timeOfDay(view[1], digits)} ` +
            `(${length(view[1] - view[0])})`;
    }

    function ask() {
        if (asked) return;
        asked = true;
        requestAnimationFrame(draw);
    }

    // -- Moving --

    function show(from, until) {
        const least = 2000;
        const long = Math.min(Math.max(until - from, least), whole[1]);
        let begin = (from + until) / 2 - long / 2;
        begin = Math.min(Math.max(begin, 0), whole[1] - long);
        view = [begin, begin + long];
        ask();
    }

    function zoom(factor, at = (view[0] + view[1]) / 2) {
        const long = (view[1] - view[0]) * factor;
        const part = (at - view[0]) / (view[1] - view[0]);
        show(at - part * long, at - part * long + long);
    }

    function pan(part) {
        const by = (view[1] - view[0]) * part;
        const long = view[1] - view[0];
        const begin = Math.min(Math.max(view[0] + by, 0), whole[1] - long);
        view = [begin, begin + long];
        ask();
    }

    /** A stretch of time with something around it; a moment with some milliseconds. */
    function go(from, until) {
        const around = Math.max((until - from) * 0.15, until > from ? 0 : 4e6);
        show(from - around, until + around);
        lanesCanvas.scrollIntoView({ block: "nearest" });
    }

    function cause() {
        if (!links.length) return show(...whole);
        const from = links[0].from;
        const until = links[0].until;
        return show(from - (until - from) * 0.08, until + (until - from) * 0.08);
    }

    // -- Pointing --

    function placeAt(x, y) {
        if (x < labels) return null;
        const row = rows.find((of) => y >= of.top - 1 && y < of.top + of.height + 1);
        if (!row) return null;
        const at = stretchAt(row, toTime(x), 3 / scale());
        return at < 0 ? null : { row, at };
    }

    function gapAt(x, y) {
        const lane = lanes.find((of) => !of.tid && y >= of.top && y < of.bottom);
        return lane && x >= labels
            ? lane.gaps.find(([from, until]) => from <= toTime(x) && toTime(x) <= until)
            : null;
    }

    function keep(place) {
        kept = place;
        byId("detail").replaceChildren(...(place ? describe(place.row, place.at) : []));
        ask();
    }

    const pointers = new Map();
    let moved = 0;
    const xOf = (event) => event.clientX - lanesCanvas.getBoundingClientRect().left;
    const yOf = (event) => event.clientY - lanesCanvas.getBoundingClientRect().top;

    lanesCanvas.addEventListener("pointerdown", (event) => {
        pointers.set(event.pointerId, event.clientX);
        moved = 0;
        lanesCanvas.setPointerCapture(event.pointerId);
    });
    lanesCanvas.addEventListener("pointermove", (event) => {
        const before = pointers.get(event.pointerId);
        if (before === undefined) {
            const place = placeAt(xOf(event), yOf(event));
            const gap = gapAt(xOf(event), yOf(event));
            const nodes = place ? describe(place.row, place.at) : [];
            if (gap) nodes.push(element("div", "doubt", `events are missing here: ${gap[2]}`));
            showTip(nodes.length ? nodes : null, event.clientX, event.clientY);
            if (place?.row !== hover?.row || place?.at !== hover?.at) {
                hover = place;
                ask();
            }
            return;
        }
        showTip(null);
        const others = [...pointers].filter(([id]) => id !== event.pointerId);
        if (others.length) {
            // Two fingers: what is under each stays there.
            const other = others[0][1];
            const left = lanesCanvas.getBoundingClientRect().left;
            const [was, is] = [Math.abs(before - other), Math.abs(event.clientX - other)];
            if (was > 4 && is > 4) zoom(was / is, toTime((event.clientX + other) / 2 - left));
        } else {
            const by = event.clientX - before;
            if (view[1] - view[0] < whole[1]) pan(-by / (width - labels));
            moved += Math.abs(by);
        }
        pointers.set(event.pointerId, event.clientX);
    });
    const lift = (event) => {
        const wasDown = pointers.delete(event.pointerId);
        if (event.type === "pointerup" && wasDown && moved < 4)
            keep(placeAt(xOf(event), yOf(event)));
    };
    lanesCanvas.addEventListener("pointerup", lift);
    lanesCanvas.addEventListener("pointercancel", lift);
    lanesCanvas.addEventListener("pointerleave", () => {
        showTip(null);
        hover = null;
        ask();
    });
    lanesCanvas.addEventListener("dblclick", (event) => zoom(0.4, toTime(xOf(event))));
    lanesCanvas.addEventListener(
        "wheel",
        (event) => {
            if (event.ctrlKey || event.metaKey || event.altKey) {
                event.preventDefault();
                zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), toTime(xOf(event)));
            } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
                event.preventDefault();
                pan((event.deltaX || event.deltaY) / 800);
            }
        },
        { passive: false },
    );

    let drags = false;
    const jump = (event) => {
        const box = overview.getBoundingClientRect();
        const at = ((event.clientX - box.left) / box.width) * whole[1];
        const long = view[1] - view[0] >= whole[1] * 0.999 ? whole[1] / 10 : view[1] - view[0];
        show(at - long / 2, at + long / 2);
    };
    overview.addEventListener("pointerdown", (event) => {
        drags = true;
        overview.setPointerCapture(event.pointerId);
        jump(event);
    });
    overview.addEventListener("pointermove", (event) => drags && jump(event));
    overview.addEventListener("pointerup", () => {
        drags = false;
    });
    overview.addEventListener("pointercancel", () => {
        drags = false;
    });

    // -- Keys and buttons --

    /** Chooses another row, or the stretch of the row that is so many further. */
    function choose(rowStep, step) {
        const now = kept || { row: rows[rowStep < 0 ? rows.length : -1], at: 0 };
        const index = rows.indexOf(now.row);
        if (rowStep) {
            for (let next = index + rowStep; next >= 0 && next < rows.length; next += rowStep) {
                const row = rows[next];
                if (!row.from.length) continue;
                const middle = now.row
                    ? (now.row.from[now.at] + now.row.until[now.at]) / 2
                    : (view[0] + view[1]) / 2;
                const at = Math.min(firstFrom(row, middle), row.from.length - 1);
                return keep({ row, at });
            }
            return undefined;
        }
        if (!now.row) return undefined;
        const at = Math.min(Math.max(now.at + step, 0), now.row.from.length - 1);
        keep({ row: now.row, at });
        const [from, until] = [now.row.from[at], now.row.until[at]];
        if (until < view[0] || from > view[1])
            show(from - (view[1] - view[0]) / 2, from + (view[1] - view[0]) / 2);
        return undefined;
    }

    const keys = {
        ArrowLeft: () => pan(-0.2),
        ArrowRight: () => pan(0.2),
        "+": () => zoom(0.5),
        "=": () => zoom(0.5),
        "-": () => zoom(2),
        0: () => show(...whole),
        Home: () => show(...whole),
        c: cause,
        PageUp: () => choose(-1, 0),
        PageDown: () => choose(1, 0),
        ",": () => choose(0, -1),
        ".": () => choose(0, 1),
        Escape: () => keep(null),
    };
    lanesCanvas.addEventListener("keydown", (event) => {
        const act = keys[event.key];
        if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        act();
    });
    const buttons = {
        "to-cause": cause,
        "to-all": () => show(...whole),
        "zoom-in": () => zoom(0.5),
        "zoom-out": () => zoom(2),
        "pan-left": () => pan(-0.3),
        "pan-right": () => pan(0.3),
    };
    for (const [id, act] of Object.entries(buttons)) byId(id).addEventListener("click", act);
    byId("to-cause").hidden = links.length === 0;

    const legend = [
        ["running", "running"],
        ["runnable", "waits for a CPU"],
        ["blocked", "waits"],
        ["idle", "waits for work or time"],
        ["call", "call"],
        ["failed", "failed call"],
        ["irq", "interrupt that took long"],
        ["signal", "signal"],
        ["disk", "request to a disk"],
    ];
    for (const [name, text] of legend) {
        const dot = element("i", "");
        dot.style.background = `var(--${name})`;
        byId("legend").append(element("li", "", dot, text));
    }
    byId("legend").append(
        element("li", "", "blank: not known, or not there"),
        element("li", "", "slanted lines: events are missing"),
    );

    function redraw() {
        readColours();
        layOut();
        ask();
    }
    cause();
    return { go, redraw };
}
