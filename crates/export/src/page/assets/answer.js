// What is on top: of what the page is, the answer, and the chain to the cause; and what is told in
// sentences at the end.

/** Text whose names stand between backticks, with these as code. */
function withCode(text) {
    return text.split("`").map((part, at) => (at % 2 ? element("code", "", part) : part));
}

/** A link of the chain; `go` shows its time in the timeline. */
function link(of, at, go) {
    const item = element("li", "");
    item.dataset.number = at + 1;
    item.append(element("code", "", of.who), " ", ...withCode(of.did));
    const facts = element("ul", "facts");
    if (of.until > of.from) {
        const longest = of.count > 1 ? "the longest: " : "";
        facts.append(
            element(
                "li",
                "",
                `${longest}${length(of.until - of.from)} from ${timeOfDay(of.from, 6)} on`,
            ),
        );
        const button = element("button", "go", "show");
        button.type = "button";
        button.setAttribute("aria-label", `Show link ${at + 1} in the timeline`);
        button.addEventListener("click", () => go(of.from, of.until));
        item.append(button);
    }
    if (of.group) facts.append(element("li", "", of.group));
    of.evidence.forEach((line) => facts.append(element("li", "mono", line)));
    if (facts.childElementCount) {
        item.append(element("details", "", element("summary", "", "evidence"), facts));
    }
    if (of.doubt) item.append(element("div", "doubt", `uncertain: ${of.doubt}`));
    return item;
}

function showAnswer(go) {
    const { about, answer, coverage } = data;
    document.title = `${about.host || "flightrec"} ${about.from}: flightrec`;
    byId("about").textContent = [
        about.host,
        about.kernel && `Linux ${about.kernel}`,
        `${about.from} to ${about.until} (${length(about.length)})`,
        `${number(about.events)} events`,
    ]
        .filter(Boolean)
        .join(" · ");
    const badge = byId("badge");
    badge.textContent = coverage.complete ? "complete" : "incomplete";
    badge.classList.toggle("bad", !coverage.complete);
    badge.setAttribute("aria-label", `Coverage: ${badge.textContent}`);
    byId("sentence").append(
        ...withCode(answer ? answer.sentence : "Nothing is recorded of whom this was asked."),
    );
    if (answer) {
        answer.chain.forEach((of, at) => byId("chain").append(link(of, at, go)));
        answer.doubts.forEach((doubt) => byId("doubts").append(element("li", "", doubt)));
    }
    coverage.lines.forEach((line) => byId("covered").append(element("li", "", line)));
    data.merged.forEach((line) => byId("merged").append(element("li", "", line)));
    byId("made").textContent =
        `Made by ${about.made_by}, of boot ${about.boot}. ` +
        "This page fetches nothing, and sends nothing.";
}

/** Where the time of threads went: a bar each. */
function showShares() {
    const rest = element("details", "", element("summary", ""));
    const why = {
        subject: "asked about",
        named: "named by the answer",
        busiest: "among the busiest",
        waited: "among the longest waits",
        delayed: "among the longest waits for a CPU",
    };
    for (const share of data.shares) {
        const bar = element("div", "bar");
        bar.setAttribute("aria-hidden", "true");
        const parts = element("ul", "parts");
        for (const [sort, text, ns, n] of share.parts) {
            const part = share.of ? ns / share.of : 0;
            const name = text ? `${sorts[sort][0]}: ${text}` : sorts[sort][0];
            const piece = element("span", "");
            piece.style.width = `${100 * part}%`;
            piece.style.background = `var(--${sorts[sort][1]})`;
            piece.title = name;
            bar.append(piece);
            if (part < 0.0005) continue;
            const dot = element("i", "");
            dot.style.background = `var(--${sorts[sort][1]})`;
            parts.append(
                element(
                    "li",
                    "",
                    dot,
                    element("b", "", percent(part)),
                    ` ${name} (${length(ns)}, ${number(n)}×)`,
                ),
            );
        }
        const known =
            `${why[share.why] || ""}; known for ` +
            `${length(share.of)} of ${length(data.about.length)}`;
        const who = element("div", "who", share.who, element("span", "why", known));
        const place = share.why === "subject" || share.why === "named" ? byId("shares") : rest;
        place.append(element("div", "share", who, bar, parts));
    }
    const more = rest.childElementCount - 1;
    if (!more) return;
    rest.firstChild.textContent = `${more} more: the busiest, and those that waited longest`;
    rest.open = more === data.shares.length;
    byId("shares").append(rest);
}
