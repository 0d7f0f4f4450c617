// What is told of a stretch: beside the pointer, and below the timeline.

/** Nodes that describe a stretch of a row. */
function describe(row, at) {
    const [sort, text, call, waker, stack] = whatOf(row, at);
    const ns = row.until[at] - row.from[at];
    const when = `${length(ns)} from ${timeOfDay(row.from[at], 6)}`;
    const who = row.lane.tid ? `${row.lane.label} (${row.lane.tid})` : row.lane.label;
    const merged = mergedOf(row, at);
    if (merged) {
        const parts = classes[row.of]
            .map(([name], of) => [name, merged.parts[of] || 0])
            .filter(([, part]) => part > 0)
            .map(([name, part]) => `${percent(part)} ${name}`);
        // Requests that overlap come to more than all of the time.
        if (row.of === "disk" && merged.parts.some((part) => part > 1)) parts.push("they overlap");
        const longest =
            row.of === "cpu" || row.of === "call" ? word(text) : `${sorts[sort][0]} ${word(text)}`;
        return [
            element("div", "what", `${number(merged.n)} stretches, merged`),
            element("div", "when", `${who} · ${when}`),
            element("div", "", parts.join(", ")),
            ...(longest.trim() ? [element("div", "", `the longest: ${longest}`)] : []),
        ];
    }
    const name =
        row.of === "call" || row.of === "cpu"
            ? word(text) || sorts[sort][0]
            : word(text)
              ? `${sorts[sort][0]}: ${word(text)}`
              : sorts[sort][0];
    const out = [element("div", "what", name), element("div", "when", `${who} · ${when}`)];
    if (row.of === "state") {
        if (call) out.push(element("div", "", "in ", element("code", "", word(call))));
        if (waker)
            out.push(
                element(
                    "div",
                    "",
                    sort === 2 || sort === 3 ? "made runnable by " : "ended by ",
                    element("code", "", word(waker)),
                ),
            );
        if (stack) out.push(element("div", "stack", word(stack)));
    }
    if (waker && row.of !== "state")
        out.push(element("div", "", "by ", element("code", "", word(waker))));
    if (row.of === "call" && sort === 8) out.push(element("div", "doubt", "failed"));
    return out;
}

const tip = byId("tip");

/** Shows nodes beside a point of the screen; none: hides them. */
function showTip(nodes, x, y) {
    tip.hidden = !nodes;
    if (!nodes) return;
    tip.replaceChildren(...nodes);
    const { width, height } = tip.getBoundingClientRect();
    const left = x + 14 + width > innerWidth - 8 ? Math.max(8, x - 14 - width) : x + 14;
    const top = y + 14 + height > innerHeight - 8 ? Math.max(8, y - 14 - height) : y + 14;
    tip.style.left = `${left}px`;
    tip.style.top = `${top}px`;
}
