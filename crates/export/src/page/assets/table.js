// Tables that sort, and whose rows can be filtered.

const written = { text: String, id: String, number, ns: length, bytes: size };

function showTables() {
    const tabs = byId("tabs");
    const place = byId("table");
    const find = byId("find");
    let shown = 0;

    function show() {
        const table = data.tables[shown];
        tabs.childNodes.forEach((tab, at) =>
            tab.setAttribute("aria-selected", String(at === shown)),
        );
        const order = table.order || { by: table.by, up: false };
        const text = find.value.trim().toLowerCase();
        const matches = (row) =>
            !text ||
            row.some((value) => typeof value === "string" && value.toLowerCase().includes(text));
        const rows = table.rows.filter(matches);
        const compare = (a, b) => {
            const [x, y] = [a[order.by], b[order.by]];
            // What is not known comes last, whatever the order.
            if (x === null || y === null) return (x === null) - (y === null);
            const way =
                typeof x === "string" || typeof y === "string"
                    ? String(x).localeCompare(String(y))
                    : x - y;
            return order.up ? way : -way;
        };
        rows.sort(compare);
        const head = element("tr", "");
        table.columns.forEach(([name, unit], at) => {
            const button = element("button", "", name);
            button.type = "button";
            button.addEventListener("click", () => {
                table.order = { by: at, up: at === order.by ? !order.up : unit === "text" };
                show();
                place.querySelectorAll("th button")[at].focus();
            });
            const cell = element("th", unit === "text" ? "" : "number", button);
            cell.scope = "col";
            if (at === order.by)
                cell.setAttribute("aria-sort", order.up ? "ascending" : "descending");
            head.append(cell);
        });
        const body = element("tbody", "");
        for (const row of rows) {
            const line = element("tr", "");
            row.forEach((value, at) => {
                const unit = table.columns[at][1];
                line.append(
                    element(
                        "td",
                        unit === "text" ? "text" : "number",
                        value === null
                            ? ""
                            : typeof value === "string"
                              ? value
                              : written[unit](value),
                    ),
                );
            });
            body.append(line);
        }
        const scroll = element(
            "div",
            "scroll",
            element("table", "", element("thead", "", head), body),
        );
        scroll.tabIndex = 0;
        scroll.setAttribute("role", "region");
        scroll.setAttribute("aria-label", table.title);
        const none = table.rows.length ? "no row matches" : "none in this window";
        place.replaceChildren(rows.length ? scroll : element("p", "hint", none));
        if (table.remark) place.append(element("p", "hint", table.remark));
    }

    data.tables.forEach((table, at) => {
        const tab = element("button", "", table.title);
        tab.type = "button";
        tab.setAttribute("role", "tab");
        tab.addEventListener("click", () => {
            shown = at;
            show();
        });
        tabs.append(tab);
    });
    tabs.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        shown = (shown + step + data.tables.length) % data.tables.length;
        show();
        tabs.childNodes[shown].focus();
    });
    find.addEventListener("input", show);
    if (data.tables.length) show();
}

/** The lines around the cause; `go` shows a moment in the timeline. */
function showLines(go) {
    const { title, lines } = data.lines;
    byId("raw").hidden = lines.length === 0;
    byId("raw-title").textContent = title;
    const moment = data.answer && data.answer.chain.length ? data.answer.chain[0].until : Infinity;
    const place = byId("lines");
    let isBehind = false;
    let first = null;
    for (const [time, isOwn, text] of lines) {
        const line = element("div", isOwn ? "own" : "other", text);
        if (!isBehind && time > moment) {
            isBehind = true;
            line.classList.add("moment");
            first = line;
        }
        line.addEventListener("click", () => go(time, time));
        place.append(line);
    }
    byId("own").addEventListener("change", (event) => {
        place.querySelectorAll(".other").forEach((line) => {
            line.hidden = event.target.checked;
        });
    });
    // The end of the wait is what is looked for.
    if (first)
        place.scrollTop = Math.max(0, first.offsetTop - place.offsetTop - place.clientHeight / 2);
}
